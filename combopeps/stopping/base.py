"""`StoppingRule`: is the answer certain enough, and what may be claimed then? `View`: what it sees of a run.

A view is read-only. It has a seed of its own, so that computing with it takes no random numbers from the run; facets of
the cone of z_hat that are found on the way are kept by the policy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.alternatives.base import AlternativeSampler, Question, current_answer
from combopeps.alternatives.error_probability import check_epsilon, count_worse, rough_error_probability
from combopeps.alternatives.ranking import Ranking, rank_answers
from combopeps.errors import NoAlternativeError, ParameterError, SamplerCapError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.policies.base import Policy
from combopeps.posterior.gaussian import GaussianBelief
from combopeps.posterior.least_squares import Measurements, flat_belief
from combopeps.posterior.noise_level import NoiseEstimate
from combopeps.posterior.parameter_space import ParameterSpace
from combopeps.problem import Problem
from combopeps.random import named
from combopeps.stopping.requests import Requests
from combopeps.utils.state_dict import StateDict, array, numbers, text, whole
from combopeps.utils.validation import check_fraction, check_real

_TIE_DRAWS = 64
_APART = 2.0  # standard deviations
_KNOWN = 0.1  # of the prior's uncertainty: a comparison that is known less well was not tried hard enough


class View:
    """A run at one moment; its policy must not learn while the view is in use.

    Parameters
    ----------
    policy
        The policy, with one replication.
    seed
        Seed of this view alone, such as `policy.streams.named(0, "look", policy.samples)`.

    Attributes
    ----------
    belief, oracle, z_hat, space
        The posterior, Z, the current answer and Theta.
    data
        All measurements, arm by arm, without a prior.
    t
        Number of measurements.
    actions
        Number of actions measured, where measurements are actions; else None.
    rng
        For rules that draw.
    """

    def __init__(
        self, policy: Policy, seed: int | np.random.SeedSequence, *, belief: GaussianBelief | None = None
    ) -> None:
        self._policy, self._seed = policy, seed
        self.oracle: ArgmaxOracle = policy.problem.oracle
        self.space: ParameterSpace = policy.problem.space
        self.belief = policy.belief if belief is None else belief
        self.data: Measurements = policy.measurements()
        self.z_hat: Array = policy.z_hat(self.belief)[0]
        self.actions = policy.actions_made
        self.rng = np.random.default_rng(seed)
        self._rankings = dict[tuple[bytes, float], Ranking]()

    @property
    def t(self) -> int:
        return self.data.samples

    @property
    def sampler(self) -> AlternativeSampler:
        """The run's own sampler of alternatives, with its cone of z_hat."""
        return self._policy.alternatives.at(self.z_hat)

    @property
    def question(self) -> Question:
        """Posterior, oracle, answer and Theta, as samplers take them."""
        return Question(self.belief, self.oracle, self.z_hat, self.space)

    @cached_property
    def _flat(self) -> View | None:
        belief = flat_belief(self.data)
        if belief is None:
            return None
        belief.sigma, belief.dof = self._policy.belief.sigma, self._policy.belief.dof
        return self._under(belief)

    def without_prior(self) -> View | None:
        """Return the same moment under the measurements alone; None while they leave a direction open.

        A guarantee for every theta must not depend on the prior, nor should the time at which it is reached.
        """
        return self._flat

    def under_second_prior(self) -> View | None:
        """Return the same moment under the second estimate of an estimated prior; None where the prior is stated."""
        belief = self._policy.second_belief()
        return None if belief is None else self._under(belief)

    def under_data(self, data: Measurements) -> View | None:
        """Return the same moment under these measurements alone; None while they leave a direction open."""
        belief = flat_belief(data)
        if belief is None:
            return None
        view = self._under(belief, current_answer(belief, self.oracle, self.space))
        view.data = data
        view.__dict__["_flat"] = view
        return view

    def _under(self, belief: GaussianBelief, z_hat: Array | None = None) -> View:
        view = object.__new__(View)
        view.__dict__.update({name: value for name, value in vars(self).items() if not name.startswith("_flat")})
        view.__dict__.pop("_rough", None)
        view.belief = belief
        view.z_hat = self._policy.z_hat(belief)[0] if z_hat is None else z_hat
        return view

    @cached_property
    def _rough(self) -> float:
        rng, policy = np.random.default_rng(named(self._seed, "doubt")), self._policy
        return policy.guarded(lambda: rough_error_probability(self.sampler, self.question, rng, watch=policy.watch))

    def risk(self, epsilon: float = 0.0) -> float:
        """Return a rough estimate of the probability that z_hat is worse than the best by more than epsilon."""
        if epsilon == 0.0:
            return self._rough
        return rough_error_probability(self.sampler, self.question, self.rng, epsilon)

    def count_worse(self, draws: int, epsilon: float) -> tuple[int, int]:
        """Return in how many of so many posterior draws z_hat is worse by over epsilon, and how many lie in Theta."""
        return count_worse(self.question, self.rng, draws, epsilon)

    def rank(self, z: Array | None = None, epsilon: float = 0.0) -> Ranking:
        """Return the error probability of z (by default z_hat) and the most probable answers, from one set of draws.

        2,048 draws of the posterior restricted to Theta; 256 while more than a quarter of them disagree with the
        answer, fewer above 976 components. Where fewer than one draw in 40 disagrees, alternatives are drawn from
        behind the facets of its cone: probabilities down to 1e-300 then have a relative standard error of some percent.
        Where not all facets are known, they may be too small. An oracle that is not quick is called for 64 to 256 of
        the draws.
        """
        z = self.z_hat if z is None else z
        key = z.tobytes(), epsilon
        if key not in self._rankings:
            policy, rng = self._policy, np.random.default_rng(named(self._seed, "ranking"))
            question = Question(self.belief, self.oracle, z, self.space)
            sampler = policy.alternatives.at(z) if self.oracle.quick else policy.alternatives.aside(z)
            self._rankings[key] = policy.guarded(lambda: rank_answers(sampler, question, rng, epsilon, policy.watch))
        return self._rankings[key]

    def tied(self) -> list[Any]:
        """Return answers, decoded, whose gap to z_hat is within two standard deviations although it is known well.

        Known well: to a tenth of what the prior allowed, or one measurement where the prior is estimated. Short runs
        have no ties.
        """
        return self._policy.guarded(self._tied)

    def _tied(self) -> list[Any]:
        belief, rng = self.belief, np.random.default_rng(named(self._seed, "ties"))
        try:
            rivals = self.sampler.sample(belief, self.oracle, self.z_hat, _TIE_DRAWS, rng, space=self.space)
        except (NoAlternativeError, SamplerCapError):
            return []
        tied, before = [], belief.prior_std
        if belief.prior is not None:  # which is narrow where components are nearly equal
            before = np.maximum(before, belief.sigma.item(0) * float(np.median(self._policy.problem.noise)))
        for z in np.unique(rivals.answers, axis=0):
            y = z - self.z_hat
            width = float(y @ belief.covariance_dot(y[None])[0]) ** 0.5
            prior_width = float(np.linalg.norm(y * before))
            if abs(float(y @ belief.theta_hat[0])) <= _APART * width and width <= _KNOWN * prior_width:
                tied.append(self.oracle.decode(z))
        return tied


@dataclass(frozen=True)
class Verdict:
    """What a rule found.

    Attributes
    ----------
    stop
        Whether the claim holds now.
    statistic, threshold
        What was compared; NaN where nothing was.
    oracle_calls
        Spent on this look.
    claim
        What may be said about the answer if `stop`, in words.
    sample_next
        Arms to measure before the next look, instead of what the policy would choose; None to leave it to the policy.
    z
        The answer that the claim is about, where that need not be the belief's own.
    risk
        The estimated probability of being wrong that the rule went by; NaN where it did not ask.
    rule
        Name of the rule; of several, the one that stops.
    """

    stop: bool
    statistic: float = float("nan")
    threshold: float = float("nan")
    oracle_calls: int = 0
    claim: str = ""
    sample_next: NDArray[np.int64] | None = field(default=None, repr=False)
    z: Array | None = field(default=None, repr=False)
    risk: float = field(default=float("nan"), repr=False)
    rule: str = field(default="", repr=False)

    def state_dict(self) -> StateDict:
        """One that stops, as plain data."""
        assert self.stop
        said = np.array([self.statistic, self.threshold, self.risk])
        return {"said": said, "calls": int(self.oracle_calls), "claim": self.claim, "z": self.z}

    @classmethod
    def restored(cls, data: StateDict, dim: int) -> Verdict:
        """From that."""
        statistic, threshold, risk = numbers(data["said"], 3)
        z = None if data["z"] is None else array(data["z"], np.float64, dim)
        return cls(True, statistic, threshold, whole(data["calls"]), text(data["claim"]), z=z, risk=risk)


@dataclass(frozen=True)
class Proof:
    """How far a rule has come with the proof of its claim.

    Attributes
    ----------
    rule
        Its name.
    statistic, threshold
        What was compared last; the proof is complete when the statistic reaches the threshold.
    remaining
        An estimate of the measurements that are missing; None where there is none.
    """

    rule: str
    statistic: float
    threshold: float
    remaining: int | None = None


class StoppingRule(ABC):
    """Decides when to stop; one object serves one run.

    Attributes
    ----------
    name
        The stop reason that results show.
    delta
        The probability of being wrong that the claim allows.
    epsilon
        How much worse than the best an answer may be that the claim accepts.
    ratio
        Looks are at geometric times, each this factor later than the last, so that their cost vanishes.
    budget
        Measurements after which the rule ends the run without a claim; None for no limit.
    """

    name: str
    delta: float
    epsilon: float = 0.0
    ratio: float = 1.1
    budget: int | None = None
    needs_noise: bool = False
    """The claim is for noise of a stated size."""
    proves: bool = False
    """The claim is proved for every theta: results that contradict the prior do not take it away."""
    takes_actions: bool = True
    """The claim holds whatever decides what is measured, so that measurements may be actions."""

    requests_measurements: bool = False
    """Its verdicts may request measurements, so that it looks before the next query is chosen."""

    _oracle: ArgmaxOracle | None = None
    _requests: Requests | None = None

    @abstractmethod
    def check(self, view: View) -> Verdict:
        """One look."""

    def check_problem(self, problem: Problem, estimate: NoiseEstimate | None = None) -> None:
        """Refuse a problem that the claim does not hold for, or prepare for it; repeated calls change nothing.

        `estimate` is what is known of the size of its noise.
        """
        if problem.measures_actions and not self.takes_actions:
            raise ParameterError(
                f'stopping "{self.name}" plans single measurements, and this problem is measured by actions: use '
                'stopping="certified", which holds however the data came, or "posterior"'
            )
        if self.needs_noise and problem.noise_std is None:
            known = "" if estimate is None else f" (measurements so far say {estimate})"
            raise ParameterError(
                f'stopping "{self.name}" makes a claim for noise of a stated size, which noise_std=None leaves open: '
                f'state noise_std in the problem{known}, or use stopping="posterior"'
            )
        if self._requests is None:
            self._requests = Requests(problem)

    @property
    def proof(self) -> Proof | None:
        """How far the proof of the claim has come; None before it has begun, and for rules without one."""
        return None

    def unfinished(self, risk: float, epsilon: float) -> str:
        """What is missing for a claim for every theta at the end of a run without one, in words; empty for other rules.

        `risk` is the posterior probability that the answer is worse than the best by more than epsilon.
        """
        if not self.proves:
            return ""
        shown = f"{risk:.2g}" if risk > 0.0 else "near 0"
        text = f"{wrong_in_words(epsilon)} with posterior probability {shown}, "
        text += "but" if risk <= self.delta else "and"
        text += " the proof for every theta is not complete: "
        proof = self.proof
        if proof is None:
            text += f'"{self.name}" has not explored enough to begin it'
        else:
            text += f'"{proof.rule}" has reached {proof.statistic:.3g} of {proof.threshold:.3g}'
        if proof is not None and proof.remaining is not None:
            text += f", and would take about {proof.remaining:,} more measurements"
        if risk <= self.delta:
            text += '; stopping="posterior" would have ended the run'
        return text

    @property
    def requests(self) -> Requests:
        """The log of the measurements that it has requested; there is one from `check_problem` on."""
        if self._requests is None:
            raise ParameterError(f"this {type(self).__name__} has no problem yet: call check_problem(problem) first")
        return self._requests

    @property
    def logs(self) -> Sequence[Requests]:
        """All logs that follow a run of this rule; requests of the first are served first."""
        return [self.requests]

    def request(self, verdict: Verdict) -> None:
        """Enter what a verdict wants measured into the log."""
        if verdict.sample_next is not None:
            self.requests.replace(verdict.sample_next.tolist())

    def results_changed(self, told: Measurements, in_proof: bool) -> None:
        """Results were corrected or retracted: `told` are those of all queries of the run, as they are after it.

        A rule that has used a result of its own requests (`in_proof`) gives up what rests on it, and continues with
        what is left of delta.
        """
        if self._requests is not None:
            self._requests.replace_told(told)

    def state_dict(self) -> StateDict:
        """Return the state that the claim rests on; a rule without any returns that of its requests."""
        return {"requests": self.requests.state_dict()}

    def load_state_dict(self, data: StateDict, problem: Problem) -> None:
        """Restore the state into a rule that was created in the same way, in a run on this problem."""
        self.requests.load_state_dict(data["requests"])

    def first_look(self, view: View) -> bool:
        """Is this the first? Also refuses a second problem: what a rule has spent of delta belongs to one run."""
        first, self._oracle = self._oracle is None, self._oracle or view.oracle
        if self._oracle is not view.oracle:
            raise ParameterError(f"this {type(self).__name__} has served another problem; make a new one for each run")
        return first


class DeltaRule(StoppingRule):
    """A rule that is made with a delta, and accepts what is worse than the best by at most epsilon."""

    def __init__(self, delta: float = 0.05, *, epsilon: float = 0.0, ratio: float = 1.1) -> None:
        check_rule(delta, epsilon, ratio)
        self.delta, self.epsilon, self.ratio = delta, epsilon, ratio

    def _frequentist(self, how: str) -> str:
        """The claim of a guarantee, in words."""
        wrong = wrong_in_words(self.epsilon)
        return f"{wrong} with probability at most {self.delta:g}, for every theta (frequentist, {how})"


def check_rule(delta: float, epsilon: float, ratio: float) -> None:
    """Refuse parameters that no rule can use."""
    check_fraction("delta", delta)
    check_epsilon(epsilon)
    check_real("ratio", ratio, np.nextafter(1.0, 2.0), np.finfo(float).max, "a number larger than 1")


def wrong_in_words(epsilon: float) -> str:
    """What a claim speaks of: that the answer is wrong."""
    if epsilon == 0:
        return "the answer is not the best"
    return f"the answer is worse than the best by more than {epsilon:g}"

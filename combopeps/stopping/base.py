"""Base class of stopping rules, the verdicts that they return, and `View`, the snapshot of a run that they get.

A view has a seed of its own, so that computations with it do not change the random numbers of the run. Facets of the
cone of z_hat that are found by it are kept by the policy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.alternatives.answer_probabilities import Ranking, rank_answers
from combopeps.alternatives.base import AlternativeSampler, SamplingTask, current_answer
from combopeps.alternatives.error_probability import check_epsilon, count_worse, rough_error_probability
from combopeps.errors import NoAlternativeError, ParameterError, SamplerCapError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.policies.base import Policy
from combopeps.posterior.gaussian import GaussianPosterior
from combopeps.posterior.least_squares import Measurements, flat_posterior
from combopeps.posterior.noise_level import NoiseEstimate
from combopeps.posterior.parameter_space import ParameterSpace
from combopeps.problem import Problem
from combopeps.random import named_seed
from combopeps.stopping.requested_measurements import Requests
from combopeps.utils.formatting import ShortRepr, stored_options
from combopeps.utils.state_dict import StateDict, array, integer, numbers, string
from combopeps.utils.validation import check_fraction, check_real

_TIE_DRAWS = 64  # alternatives among which ties are searched
_MAX_TIE_GAP = 2.0  # standard deviations
_MAX_TIE_WIDTH = 0.1  # standard deviation of a tied gap relative to the prior: less is known in short runs


class View(ShortRepr):
    """A snapshot of a run; its policy must not learn while the view is in use.

    Parameters
    ----------
    policy
        The policy, with one replication.
    seed
        Seed of this view alone, such as `policy.streams.named(0, "look", policy.samples)`.

    Attributes
    ----------
    posterior, oracle, z_hat, space
        The posterior, Z, the current answer and Theta.
    data
        All measurements, as sums over arms, without a prior.
    t
        Number of measurements.
    actions
        Number of actions measured in a problem with actions; else None.
    rng
        Random generator of the view.
    """

    def __init__(
        self, policy: Policy, seed: int | np.random.SeedSequence, *, posterior: GaussianPosterior | None = None
    ) -> None:
        self._policy, self._seed = policy, seed
        self.oracle: ArgmaxOracle = policy.problem.oracle
        self.space: ParameterSpace = policy.problem.space
        self.posterior = policy.posterior if posterior is None else posterior
        self.data: Measurements = policy.measurements()
        self.z_hat: Array = policy.z_hat(self.posterior)[0]
        self.actions = policy.actions_made
        self.rng = np.random.default_rng(seed)
        self._rankings = dict[tuple[bytes, float], Ranking]()

    @property
    def t(self) -> int:
        return self.data.samples

    def _summary(self) -> Mapping[str, Any]:
        return {"t": self.t, "oracle": self.oracle, "posterior": self.posterior, "space": self.space}

    @property
    def sampler(self) -> AlternativeSampler:
        """The sampler of alternatives of the run, with its cone of z_hat."""
        return self._policy.alternatives.at(self.z_hat)

    @property
    def question(self) -> SamplingTask:
        """Posterior, oracle, answer and Theta, the arguments of samplers."""
        return SamplingTask(self.posterior, self.oracle, self.z_hat, self.space)

    @cached_property
    def _flat(self) -> View | None:
        posterior = flat_posterior(self.data)
        if posterior is None:
            return None
        posterior.sigma, posterior.dof = self._policy.posterior.sigma, self._policy.posterior.dof
        return self._with_posterior(posterior)

    def without_prior(self) -> View | None:
        """Return the view under a flat prior; None while the measurements leave a direction open.

        A guarantee for every theta must not depend on the prior, nor should the time at which it is reached.
        """
        return self._flat

    def under_second_prior(self) -> View | None:
        """Return the view under the second estimate of an estimated prior; None where the prior is stated."""
        posterior = self._policy.second_posterior()
        return None if posterior is None else self._with_posterior(posterior)

    def under_data(self, data: Measurements) -> View | None:
        """Return the view under these measurements and a flat prior; None while they leave a direction open."""
        posterior = flat_posterior(data)
        if posterior is None:
            return None
        view = self._with_posterior(posterior, current_answer(posterior, self.oracle, self.space))
        view.data = data
        view.__dict__["_flat"] = view
        return view

    def _with_posterior(self, posterior: GaussianPosterior, z_hat: Array | None = None) -> View:
        view = object.__new__(View)
        view.__dict__.update({name: value for name, value in vars(self).items() if not name.startswith("_flat")})
        view.__dict__.pop("_rough", None)
        view._rankings = {}
        view.posterior = posterior
        view.z_hat = self._policy.z_hat(posterior)[0] if z_hat is None else z_hat
        return view

    @cached_property
    def _rough(self) -> float:
        rng, policy = np.random.default_rng(named_seed(self._seed, "doubt")), self._policy
        return policy.guarded(lambda: rough_error_probability(self.sampler, self.question, rng, watch=policy.watch))

    def error_probability(self, epsilon: float = 0.0) -> float:
        """Return a rough estimate of the probability that z_hat is worse than the best by more than epsilon."""
        if epsilon == 0.0:
            return self._rough
        return rough_error_probability(self.sampler, self.question, self.rng, epsilon)

    def count_worse(self, draws: int, epsilon: float) -> tuple[int, int]:
        """Return the number of posterior draws in which z_hat is worse by more than epsilon, and of those in Theta."""
        return count_worse(self.question, self.rng, draws, epsilon)

    def rank(self, z: Array | None = None, epsilon: float = 0.0) -> Ranking:
        """Return the error probability of z (by default z_hat) and the most probable answers, from one set of draws.

        2,048 draws of the posterior restricted to Theta; 256 while more than a quarter of them disagree with the
        answer, fewer above 976 components. Where fewer than one draw in 40 disagrees, alternatives are drawn from the
        half-spaces of the facets of its cone: probabilities down to 1e-300 then have a relative standard error of a few
        percent. They may be too small where not all facets are known. An oracle that is not quick is called for 64 to
        256 of the draws.
        """
        z = self.z_hat if z is None else z
        key = z.tobytes(), epsilon
        if key not in self._rankings:
            policy, rng = self._policy, np.random.default_rng(named_seed(self._seed, "ranking"))
            question = SamplingTask(self.posterior, self.oracle, z, self.space)
            sampler = policy.alternatives.at(z) if self.oracle.quick else policy.alternatives.aside(z)
            self._rankings[key] = policy.guarded(lambda: rank_answers(sampler, question, rng, epsilon, policy.watch))
        return self._rankings[key]

    def tied(self) -> list[Any]:
        """Return answers, decoded, that are tied with z_hat.

        The gap of a tied answer is within two standard deviations of 0, and its standard deviation is at most a tenth
        of that under the prior (where the prior is estimated, of that under the prior or after one measurement,
        whichever is larger). Short runs have no ties.
        """
        return self._policy.guarded(self._tied)

    def _tied(self) -> list[Any]:
        posterior, rng = self.posterior, np.random.default_rng(named_seed(self._seed, "ties"))
        try:
            rivals = self.sampler.sample(posterior, self.oracle, self.z_hat, _TIE_DRAWS, rng, space=self.space)
        except (NoAlternativeError, SamplerCapError):
            return []
        tied, before = [], posterior.prior_std
        if posterior.prior is not None:  # an estimated prior is narrow where components are nearly equal
            before = np.maximum(before, posterior.sigma.item(0) * float(np.median(self._policy.problem.noise)))
        for z in np.unique(rivals.answers, axis=0):
            y = z - self.z_hat
            width = float(y @ posterior.covariance_dot(y[None])[0]) ** 0.5
            prior_width = float(np.linalg.norm(y * before))
            if abs(float(y @ posterior.theta_hat[0])) <= _MAX_TIE_GAP * width and width <= _MAX_TIE_WIDTH * prior_width:
                tied.append(self.oracle.decode(z))
        return tied


@dataclass(frozen=True, repr=False)
class Verdict(ShortRepr):
    """The result of one look of a stopping rule.

    Attributes
    ----------
    stop
        Whether the claim holds now.
    statistic, threshold
        The quantities compared; NaN if there are none.
    oracle_calls
        Oracle calls of this look.
    claim
        Text of the claim, valid if `stop`.
    requested_arms
        Arms to measure before the next look, instead of the policy's choices; None to leave the choice to the policy.
    z
        The answer that the claim is about, if it may differ from the best answer under the posterior.
    risk
        The estimated error probability that the rule used; NaN if it used none.
    rule
        Name of the rule; of several, the one that stops.
    """

    stop: bool
    statistic: float = float("nan")
    threshold: float = float("nan")
    oracle_calls: int = 0
    claim: str = ""
    requested_arms: NDArray[np.int64] | None = field(default=None, repr=False)
    z: Array | None = field(default=None, repr=False)
    error_probability: float = field(default=float("nan"), repr=False)
    rule: str = field(default="", repr=False)

    def state_dict(self) -> StateDict:
        """Return a verdict that stops as plain data."""
        assert self.stop
        values = np.array([self.statistic, self.threshold, self.error_probability])
        return {"said": values, "calls": int(self.oracle_calls), "claim": self.claim, "z": self.z}

    @classmethod
    def restored(cls, data: StateDict, dim: int) -> Verdict:
        """Return the verdict of a state dictionary."""
        statistic, threshold, error_probability = numbers(data["said"], 3)
        z = None if data["z"] is None else array(data["z"], np.float64, dim)
        return cls(
            True,
            statistic,
            threshold,
            integer(data["calls"]),
            string(data["claim"]),
            z=z,
            error_probability=error_probability,
        )


@dataclass(frozen=True)
class Proof:
    """Progress of the proof of a claim.

    Attributes
    ----------
    rule
        Name of the rule.
    statistic, threshold
        The quantities compared last; the proof is complete when the statistic reaches the threshold.
    remaining
        Estimated number of missing measurements; None if there is no estimate.
    """

    rule: str
    statistic: float
    threshold: float
    remaining: int | None = None


class StoppingRule(ShortRepr, ABC):
    """Base class of stopping rules; an object is for one run only.

    Attributes
    ----------
    name
        The stop reason of results.
    delta
        Error probability of the claim.
    epsilon
        The claim accepts answers whose value is at most this much worse than the best.
    ratio
        Looks are at geometric times: the number of measurements grows by this factor between two looks, which bounds
        their total cost.
    budget
        Measurements after which the rule ends the run without a claim; None for no limit.
    """

    name: str
    delta: float
    epsilon: float = 0.0
    ratio: float = 1.1
    budget: int | None = None
    requires_noise_std: bool = False
    """Whether the claim requires a stated noise level."""
    proves: bool = False
    """Whether the claim is proved for every theta, so that it holds even if results contradict the prior."""
    supports_actions: bool = True
    """Whether the rule can be used in problems measured by actions."""

    requests_measurements: bool = False
    """Whether verdicts may request measurements, so that a look is due before the next query is chosen."""

    _oracle: ArgmaxOracle | None = None
    _requests: Requests | None = None

    def _summary(self) -> Mapping[str, Any]:
        stated = {name: getattr(self, name) for name in ("delta", "epsilon") if hasattr(self, name)}
        return stated | stored_options(self)

    @abstractmethod
    def check(self, view: View) -> Verdict:
        """Take one look at a run."""

    def check_problem(self, problem: Problem, estimate: NoiseEstimate | None = None) -> None:
        """Prepare for a problem; repeated calls change nothing.

        Parameters
        ----------
        problem
            The problem of the run.
        estimate
            The noise level estimated so far, for the error message.

        Raises
        ------
        ParameterError
            If the claim does not hold for the problem.
        """
        if problem.measures_actions and not self.supports_actions:
            raise ParameterError(
                f'stopping "{self.name}" plans single measurements, and this problem is measured by actions: use '
                'stopping="certified", which holds however the data came, or "posterior"'
            )
        if self.requires_noise_std and problem.noise_std is None:
            known = "" if estimate is None else f" (measurements so far say {estimate})"
            raise ParameterError(
                f'stopping "{self.name}" makes a claim for noise of a stated size, which noise_std=None leaves open: '
                f'state noise_std in the problem{known}, or use stopping="posterior"'
            )
        if self._requests is None:
            self._requests = Requests(problem)

    @property
    def proof(self) -> Proof | None:
        """Progress of the proof of the claim; None before it has begun, and for rules without a proof."""
        return None

    def explain_missing_proof(self, error_probability: float, epsilon: float) -> str:
        """Describe why a run ended without the proof of its claim; empty for rules that prove nothing.

        `risk` is the posterior probability that the answer is worse than the best by more than epsilon.
        """
        if not self.proves:
            return ""
        shown = f"{error_probability:.2g}" if error_probability > 0.0 else "near 0"
        string = f"{describe_error(epsilon)} with posterior probability {shown}, "
        string += "but" if error_probability <= self.delta else "and"
        string += " the proof for every theta is not complete: "
        proof = self.proof
        if proof is None:
            string += f'"{self.name}" has not explored enough to begin it'
        else:
            string += f'"{proof.rule}" has reached {proof.statistic:.3g} of {proof.threshold:.3g}'
        if proof is not None and proof.remaining is not None:
            string += f", and would take about {proof.remaining:,} more measurements"
        if error_probability <= self.delta:
            string += '; stopping="posterior" would have ended the run'
        return string

    @property
    def requests(self) -> Requests:
        """Log of the measurements that the rule has requested; available after `check_problem`."""
        if self._requests is None:
            raise ParameterError(f"this {type(self).__name__} has no problem yet: call check_problem(problem) first")
        return self._requests

    @property
    def logs(self) -> Sequence[Requests]:
        """All logs of requests, in the order in which they are served."""
        return [self.requests]

    def request(self, verdict: Verdict) -> None:
        """Replace the pending requests by the measurements that a verdict requests."""
        if verdict.requested_arms is not None:
            self.requests.replace(verdict.requested_arms.tolist())

    def results_changed(self, query_results: Measurements, in_proof: bool) -> None:
        """Update the rule after results were corrected or retracted.

        Parameters
        ----------
        query_results
            The results of all queries of the run after the change.
        in_proof
            Whether a changed result was requested by a rule. A rule that has used it gives up its current proof, and
            continues with the remaining delta.
        """
        if self._requests is not None:
            self._requests.replace_query_results(query_results)

    def state_dict(self) -> StateDict:
        """Return the state that the claim depends on; by default that of the requests."""
        return {"requests": self.requests.state_dict()}

    def load_state_dict(self, data: StateDict, problem: Problem) -> None:
        """Restore the state into a rule created with the same parameters, in a run on this problem."""
        self.requests.load_state_dict(data["requests"])

    def first_look(self, view: View) -> bool:
        """Return whether this is the first look; raise for a second problem, as delta is spent on one run."""
        first, self._oracle = self._oracle is None, self._oracle or view.oracle
        if self._oracle is not view.oracle:
            raise ParameterError(
                f"this {type(self).__name__} was used for another problem; create a new one for each run"
            )
        return first


class FixedConfidenceRule(StoppingRule):
    """Base class of rules with parameters delta, epsilon and ratio."""

    def __init__(self, delta: float = 0.05, *, epsilon: float = 0.0, ratio: float = 1.1) -> None:
        check_rule_parameters(delta, epsilon, ratio)
        self.delta, self.epsilon, self.ratio = delta, epsilon, ratio

    def _frequentist_claim(self, how: str) -> str:
        """Return the text of a frequentist claim."""
        wrong = describe_error(self.epsilon)
        return f"{wrong} with probability at most {self.delta:g}, for every theta (frequentist, {how})"


class BayesianRule(StoppingRule):
    """Base class of rules with a claim about the posterior; a subclass implements `_decide`.

    Where the prior is estimated, the claim has to hold under two estimates of it (see
    `combopeps.posterior.HierarchicalPrior`): a single one makes claims overconfident for some sets of answers.
    """

    def check(self, view: View) -> Verdict:
        """Decide under the posterior and, if that stops, under the second estimate of an estimated prior."""
        self.first_look(view)
        found = self._decide(view)
        second = view.under_second_prior() if found.stop else None
        if second is None:
            return found
        if not np.array_equal(second.z_hat, view.z_hat):
            return replace(found, stop=False, statistic=float("inf"))
        other = self._decide(second)
        calls = found.oracle_calls + other.oracle_calls
        statistic = max(found.statistic, other.statistic)
        return replace(found, stop=other.stop, statistic=statistic, oracle_calls=calls)

    @abstractmethod
    def _decide(self, view: View) -> Verdict:
        """Decide whether the claim holds under the posterior of this view."""

    @staticmethod
    def _assumptions(view: View) -> str:
        """Return the prior and the noise that the claim assumes."""
        posterior, noise = view.posterior, ""
        if posterior.dof[0] < np.inf:
            noise = (
                f", noise estimated from the data: {posterior.sigma[0]:.3g}, {posterior.dof[0]:.0f} degrees of freedom"
            )
        return f"Bayesian, {posterior.prior_in_words}{noise}"


def check_rule_parameters(delta: float, epsilon: float, ratio: float) -> None:
    """Raise a ParameterError for invalid parameters of a rule."""
    check_fraction("delta", delta)
    check_epsilon(epsilon)
    check_real("ratio", ratio, np.nextafter(1.0, 2.0), np.finfo(float).max, "a number larger than 1")


def describe_error(epsilon: float) -> str:
    """Return the event whose probability a claim bounds: that the answer is wrong."""
    if epsilon == 0:
        return "the answer is not the best"
    return f"the answer is worse than the best by more than {epsilon:g}"

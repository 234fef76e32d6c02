"""`View`: a read-only snapshot of a run, the argument of stopping rules.

A view has a seed of its own, so that computations with it do not change the random numbers of the run. Facets of the
cone of z_hat that are found by it are kept by the policy.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from combopeps.alternatives.base import AlternativeSampler, Question, current_answer
from combopeps.alternatives.error_probability import count_worse, rough_error_probability
from combopeps.alternatives.ranking import Ranking, rank_answers
from combopeps.errors import NoAlternativeError, SamplerCapError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.policies.base import Policy
from combopeps.posterior.gaussian import GaussianBelief
from combopeps.posterior.least_squares import Measurements, flat_belief
from combopeps.posterior.parameter_space import ParameterSpace
from combopeps.random import named

_TIE_DRAWS = 64  # alternatives among which ties are searched
_MAX_TIE_GAP = 2.0  # standard deviations
_MAX_TIE_WIDTH = 0.1  # standard deviation of a tied gap relative to the prior: less is known in short runs


class View:
    """A snapshot of a run; its policy must not learn while the view is in use.

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
        All measurements, as sums over arms, without a prior.
    t
        Number of measurements.
    actions
        Number of actions measured in a problem with actions; else None.
    rng
        Random generator of the view.
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
        """The sampler of alternatives of the run, with its cone of z_hat."""
        return self._policy.alternatives.at(self.z_hat)

    @property
    def question(self) -> Question:
        """Posterior, oracle, answer and Theta, the arguments of samplers."""
        return Question(self.belief, self.oracle, self.z_hat, self.space)

    @cached_property
    def _flat(self) -> View | None:
        belief = flat_belief(self.data)
        if belief is None:
            return None
        belief.sigma, belief.dof = self._policy.belief.sigma, self._policy.belief.dof
        return self._with_belief(belief)

    def without_prior(self) -> View | None:
        """Return the view under a flat prior; None while the measurements leave a direction open.

        A guarantee for every theta must not depend on the prior, nor should the time at which it is reached.
        """
        return self._flat

    def under_second_prior(self) -> View | None:
        """Return the view under the second estimate of an estimated prior; None where the prior is stated."""
        belief = self._policy.second_belief()
        return None if belief is None else self._with_belief(belief)

    def under_data(self, data: Measurements) -> View | None:
        """Return the view under these measurements and a flat prior; None while they leave a direction open."""
        belief = flat_belief(data)
        if belief is None:
            return None
        view = self._with_belief(belief, current_answer(belief, self.oracle, self.space))
        view.data = data
        view.__dict__["_flat"] = view
        return view

    def _with_belief(self, belief: GaussianBelief, z_hat: Array | None = None) -> View:
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
            policy, rng = self._policy, np.random.default_rng(named(self._seed, "ranking"))
            question = Question(self.belief, self.oracle, z, self.space)
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
        belief, rng = self.belief, np.random.default_rng(named(self._seed, "ties"))
        try:
            rivals = self.sampler.sample(belief, self.oracle, self.z_hat, _TIE_DRAWS, rng, space=self.space)
        except (NoAlternativeError, SamplerCapError):
            return []
        tied, before = [], belief.prior_std
        if belief.prior is not None:  # an estimated prior is narrow where components are nearly equal
            before = np.maximum(before, belief.sigma.item(0) * float(np.median(self._policy.problem.noise)))
        for z in np.unique(rivals.answers, axis=0):
            y = z - self.z_hat
            width = float(y @ belief.covariance_dot(y[None])[0]) ** 0.5
            prior_width = float(np.linalg.norm(y * before))
            if abs(float(y @ belief.theta_hat[0])) <= _MAX_TIE_GAP * width and width <= _MAX_TIE_WIDTH * prior_width:
                tied.append(self.oracle.decode(z))
        return tied

"""`SufficientStats`: posterior and sufficient statistics of R replications, and how results update them.

A result of arm x is divided by the arm's noise, and has the weight of so many ordinary measurements of it:

    V += weight x x',   S += weight x y        in the belief, under its prior
    n_x += weight,      s_x += weight y        arm by arm, for what rests on data alone
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.actions import Mask
from combopeps.belief import GaussianBelief, HierarchicalPrior, Measurements, NoiseEstimate, NoiseLevel, RefreshTimes
from combopeps.belief.stated import Stated
from combopeps.errors import ParameterError
from combopeps.oracles.base import Array
from combopeps.problem import Problem
from combopeps.state_dict import StateDict, fill
from combopeps.validation import check_positive

Arm = NDArray[np.intp]


class SufficientStats:
    """Posterior and sufficient statistics.

    Attributes
    ----------
    belief
        N(theta_hat, V^-1) of every replication.
    pulls
        How often each arm was measured, (R, K).
    weights, totals
        What these measurements are worth, in ordinary ones, and the sums of their results, each times what it is worth,
        in units of the noise, (R, K).
    actions
        How many actions were measured, where measurements are actions, (R,).
    """

    def __init__(self, problem: Problem, replications: int, prior_precision: float | None) -> None:
        self.problem, self.replications, self._prior_precision = problem, replications, prior_precision
        mean, std = problem.prior_mean, problem.prior_std
        precision: Stated = 1.0 if std is None else 1.0 / std**2
        if prior_precision is not None:
            check_positive("prior_precision", prior_precision)
            precision, std = prior_precision, prior_precision**-0.5
        self.belief = GaussianBelief.start(
            problem.signal,
            prior_precision=precision,
            prior_mean=0.0 if mean is None else mean,
            replications=replications,
        )
        self._prior = HierarchicalPrior(problem.signal, mean, std) if mean is None or std is None else None
        self.pulls = np.zeros((replications, len(problem.arms)), dtype=np.int64)
        self.weights, self.totals = np.zeros(self.pulls.shape), np.zeros(self.pulls.shape)
        self._per_noise = 1.0 / problem.noise
        self.actions = np.zeros(replications, dtype=np.int64)
        self._actions_cost = np.zeros(replications)
        self._level: NoiseLevel | None = None
        if problem.noise_std is None:
            self._level = NoiseLevel(self.belief, prior_known=self._prior is None)
        self._refresh = None if self._level is None and self._prior is None else RefreshTimes()
        if self._refresh is not None:
            self.restate()

    def learn(self, arm: ArrayLike, y: ArrayLike, weight: float = 1.0, count: int = 1) -> None:
        """One result in every replication: of `count` measurements, worth `weight` ordinary ones of the arm."""
        value = self._in_units(arm, y)
        self.belief.update(arm, value, weight)
        self._count(arm, value, weight, count)

    def _in_units(self, arm: Any, y: Any) -> Any:
        """Of the noise."""
        try:
            if type(arm) is int and type(y) is float:
                return y * self._per_noise.item(arm)
            with np.errstate(over="ignore"):  # what is too large is refused by the belief
                return np.asarray(y, dtype=np.float64) * self._per_noise[np.asarray(arm)]
        except (IndexError, TypeError, ValueError) as cause:
            raise ParameterError(f"arm and y must be numbers, or one per replication: {cause}") from None

    def _count(self, arm: ArrayLike, value: Any, weight: float, count: int) -> None:
        at: Any = (0, arm) if self.replications == 1 else (np.arange(self.replications), np.asarray(arm))
        self.pulls[at] += count
        self.weights[at] += weight
        self.totals[at] += value * weight
        if self._level is not None:
            self._level.see(at, value, weight)
        if self._refresh is not None and self._refresh.count(1):
            self.restate()

    def restate(self, sigma: Array | None = None, dof: Array | None = None) -> None:
        """Begin the belief anew with estimates of the noise (or these) and of the prior, where they are not stated."""
        if sigma is None or dof is None:
            sigma, dof = self.belief.sigma, self.belief.dof
            if self._level is not None:
                sigma, dof = self._level.estimate(self.weights, self.totals)
        prior = None if self._prior is None else self._prior.estimate(self.weights, self.totals, sigma)
        self.belief.restate(sigma, dof, self.weights, self.totals, prior)

    def second_belief(self) -> GaussianBelief | None:
        """Return the belief under the second estimate of an estimated prior (`HierarchicalPrior`); None if stated.

        Noise that is estimated, too, is larger there by its standard error, sigma / sqrt(2 dof).
        """
        if self._prior is None or self._prior.std_known:
            return None
        belief = self.belief.copy()
        sigma = belief.sigma * (1.0 + (2.0 * belief.dof) ** -0.5)
        prior = self._prior.estimate(self.weights, self.totals, sigma, second=True)
        belief.restate(sigma, belief.dof, self.weights, self.totals, prior)
        return belief

    def learn_many(
        self,
        arms: Sequence[int] | Arm,
        ys: Sequence[float] | Array,
        weights: Sequence[float] | Array | None = None,
        counts: Sequence[int] | Arm | None = None,
    ) -> None:
        """Results of one replication, in their order; all at once unless a policy has a `learn` of its own."""
        worth = np.ones(len(ys)) if weights is None else np.asarray(weights, dtype=np.float64)
        times = np.ones(len(ys), dtype=np.int64) if counts is None else np.asarray(counts, dtype=np.int64)
        if type(self).learn is SufficientStats.learn:
            arm = np.asarray(arms, dtype=np.intp)
            values = np.asarray(ys, dtype=np.float64) * self._per_noise[arm]
            done = 0 if self._refresh is None else self._refresh.last_due(len(arm))
            if done:  # then the belief begins anew
                self._count_many(arm[:done], values[:done], worth[:done], times[:done])
                self.restate()
            self.belief.update_many(arm[done:], values[done:], worth[done:])
            self._count_many(arm[done:], values[done:], worth[done:], times[done:])
        elif weights is None and counts is None:
            for one, y in zip(arms, ys, strict=True):
                self.learn(int(one), float(y))
        else:
            for one, y, weight, count in zip(arms, ys, worth.tolist(), times.tolist(), strict=True):
                self.learn(int(one), float(y), weight, count)

    def learn_action(self, actions: Mask, ys: Array) -> None:
        """One action in every replication, (R, .), and the results of all that it shows, (R, d)."""
        rows, arms = np.nonzero(self._shown(actions))
        if self._refresh is not None:  # which counts results one by one
            self._single("learning from actions with an estimated prior or noise")
            self.learn_many(arms, ys[0, arms])
        else:
            values = ys[rows, arms] * self._per_noise[arms]
            self.belief.update_parts(rows, arms, values)
            self.pulls[rows, arms] += 1
            self.weights[rows, arms] += 1.0
            self.totals[rows, arms] += values
        self.count_actions(actions)

    def count_actions(self, actions: Mask) -> None:
        """One was measured in every replication; what it showed has been learnt."""
        assert self.problem.actions is not None
        self.actions += 1
        self._actions_cost += self.problem.actions.cost_of(actions)

    def _shown(self, actions: Mask) -> Mask:
        assert self.problem.actions is not None
        return self.problem.actions.shown(actions)

    def _count_many(self, arm: Arm, values: Array, weights: Array, counts: NDArray[np.int64]) -> None:
        np.add.at(self.pulls[0], arm, counts)
        np.add.at(self.weights[0], arm, weights)
        np.add.at(self.totals[0], arm, values * weights)
        if self._level is not None and len(arm):
            self._level.see_many(arm, values, weights)
        if self._refresh is not None:
            self._refresh.count(len(arm))

    def measurements(self) -> Measurements:
        """All that has been measured, arm by arm, with the noise as the belief has it; of one replication."""
        self._single("measurements")
        pulls, variance = self.pulls[0].astype(np.float64), self.belief.sigma.item(0) ** 2
        return Measurements(self.problem.signal, self.weights[0] / variance, self.totals[0] / variance, pulls)

    def reset(self) -> None:
        """Forget all results: the state before the first one."""
        SufficientStats.__init__(self, self.problem, self.replications, self._prior_precision)

    def state_dict(self) -> StateDict:
        """Return posterior and sufficient statistics."""
        return {
            "belief": self.belief.state_dict(), "pulls": self.pulls, "weights": self.weights, "totals": self.totals,
            "actions": self.actions, "actions_cost": self._actions_cost,
            "level": None if self._level is None else self._level.state_dict(),
            "refresh": None if self._refresh is None else self._refresh.state_dict(),
        }  # fmt: skip

    def load_state_dict(self, data: StateDict) -> None:
        """Restore the state; ValueError if its numbers contradict each other."""
        fill(self.pulls, data["pulls"])
        fill(self.weights, data["weights"])
        fill(self.totals, data["totals"])
        fill(self.actions, data["actions"])
        fill(self._actions_cost, data["actions_cost"])
        if (self.pulls < 0).any() or (self.actions < 0).any() or ((self.weights > 0.0) != (self.pulls > 0)).any():
            raise ValueError("what is measured counts, and is worth something")
        if self._level is not None:
            self._level.load_state_dict(data["level"])
        if self._refresh is not None:
            self._refresh.load_state_dict(data["refresh"])
        self.belief.load_state_dict(data["belief"])

    def expect(self, arms: Sequence[int]) -> None:
        """For a copy with fantasies: update as if each arm had been measured once, with its expected result."""
        arm = np.asarray(arms, dtype=np.intp)
        means, weights = self.belief.expect(arm), self.weights[0, arm]
        known = weights > 0.0  # by data alone, where there are any
        means = np.where(known, self.totals[0, arm] / np.where(known, weights, 1.0), means)
        for sums, value in ((self.pulls, 1), (self.weights, 1.0), (self.totals, means)):
            np.add.at(sums[0], arm, value)

    @property
    def samples(self) -> int:
        """Measurements learnt from, per replication."""
        return int(self.pulls[0].sum())

    @property
    def actions_made(self) -> int | None:
        """How many actions one replication has measured; None where measurements are single."""
        return None if self.problem.actions is None else self.actions.item(0)

    @property
    def spent(self) -> Array:
        """What all measurements have cost, (R,)."""
        return np.asarray(self.pulls @ self.problem.cost) if self.problem.actions is None else self._actions_cost

    @property
    def noise_estimate(self) -> NoiseEstimate | None:
        """How large the noise is, where the problem leaves that open; None where it does not, or not yet known."""
        return None if self._level is None else self._level.describe(self.weights, self.totals)

    def _single(self, what: str) -> None:
        if self.replications != 1:
            raise ParameterError(f"{what} is for one replication; this policy runs {self.replications}")

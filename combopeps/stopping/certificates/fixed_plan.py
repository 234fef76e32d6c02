"""Verification on fresh measurements by a plan fixed in advance, for a Z whose answers cannot be listed.

    min_z (z_hat - z) @ theta_fresh / sigma_z  >=  c_j     at one of a few looks j

z_hat and the number of measurements of every arm at every look are fixed before the fresh data are known. If some z* is
better than z_hat, its own comparison passes with probability at most alpha, so no union bound over answers is needed.
The boundaries c_j are valid for results with the noise of their arms only: a result with a standard error of its own
ends the attempt without confirmation, and its alpha is spent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.posterior.arms import Arms
from combopeps.posterior.least_squares import Measurements, flat_posterior
from combopeps.stopping.certificates.allocation import plan_counts
from combopeps.stopping.certificates.alpha_spending import boundaries, guaranteed_fractions
from combopeps.stopping.certificates.glr import glr_bound, is_randomised
from combopeps.stopping.requests import FreshResults
from combopeps.utils.state_dict import StateDict, array, boolean, finite_float, integer, numbers

_LOOKS = np.array([0.5, 0.75, 1.0, 1.4, 2.0, 2.8, 4.0])  # times of looks, in units of the planned number
_SPEND = np.array([1, 2, 3, 3, 2, 1, 1]) / 13  # shares of alpha
_PLANNED_LOOK = 2  # index of the look at 1.0
_RISK = 0.3  # planned probability that some comparison has not passed at 1.0
_RANDOMISED_SHARE = 0.05  # of alpha for the randomised certificate, where it is the only one


class FixedPlan:
    """An attempt to confirm z_hat by a fixed plan; it has the interface of `Bets`.

    Attributes
    ----------
    counts
        Planned counts of every arm at every look, (J, K).
    quantiles
        The boundaries c_j.
    """

    def __init__(
        self,
        data: Measurements,
        oracle: ArgmaxOracle,
        z_hat: Array,
        level: float,
        epsilon: float,
        rng: np.random.Generator,
        fresh: FreshResults,
    ) -> None:
        fresh.restart()
        self.oracle, self.z_hat, self.epsilon = oracle, z_hat.copy(), epsilon
        self.confirmed, self.statistic, self.oracle_calls = False, 0.0, 0
        self._nu = 0.0
        if is_randomised(oracle, self.z_hat, data.arms.are_units, epsilon):
            self._nu = _RANDOMISED_SHARE * level / len(_LOOKS)
            level *= 1.0 - _RANDOMISED_SHARE
        guess = boundaries(_LOOKS / _LOOKS[-1], level * _SPEND)
        posterior = flat_posterior(data)
        assert posterior is not None
        n = plan_counts(posterior, oracle, self.z_hat, float(guess[_PLANNED_LOOK]), _RISK, rng, epsilon)
        self.counts, spend = _merge_looks(np.maximum(np.rint(_LOOKS[:, None] * n), 1).astype(np.int64), level * _SPEND)
        self.quantiles = boundaries(guaranteed_fractions(self.counts), spend)
        self.threshold = 0.5 * float(self.quantiles[0]) ** 2
        self._look = 0

    def state_dict(self) -> StateDict:
        """Return the plan and its progress as plain data."""
        return {
            "kind": "plan", "z_hat": self.z_hat, "confirmed": bool(self.confirmed),
            "said": np.array([self.statistic, self.threshold]), "calls": int(self.oracle_calls), "nu": float(self._nu),
            "counts": self.counts, "quantiles": self.quantiles, "look": self._look,
        }  # fmt: skip

    @classmethod
    def restored(cls, data: StateDict, arms: Arms, oracle: ArgmaxOracle, epsilon: float) -> FixedPlan:
        """Return the attempt of a state dictionary."""
        plan = cls.__new__(cls)
        plan.oracle, plan.epsilon, plan.z_hat = oracle, epsilon, array(data["z_hat"], np.float64, arms.dim)
        plan.counts = array(data["counts"], np.int64, None, len(arms))
        plan.quantiles = array(data["quantiles"], np.float64, len(plan.counts))
        plan._look, plan.oracle_calls = integer(data["look"], len(plan.counts)), integer(data["calls"])
        plan.confirmed, plan._nu = boolean(data["confirmed"]), finite_float(data["nu"])
        plan.statistic, plan.threshold = numbers(data["said"], 2)
        return plan

    @property
    def overdue(self) -> bool:
        """Whether the planned number of measurements was not enough."""
        return self._look > _PLANNED_LOOK

    @property
    def remaining(self) -> int:
        """Number of measurements of the attempt: as planned, or more if the statistic grows more slowly."""
        last = len(self.counts) - 1
        planned = int(self.counts[min(max(self._look, _PLANNED_LOOK), last)].sum())
        if self._look == 0 or self.statistic <= 0.0:
            return planned
        return max(planned, int(self.counts[self._look - 1].sum() * self.threshold / self.statistic))

    def missing(self, fresh: FreshResults) -> NDArray[np.int64]:
        """Return the counts of every arm that are missing before the next look."""
        return fresh.missing(self.counts[self._look])

    def look(self, data: Measurements, z_hat: Array, rng: np.random.Generator, fresh: FreshResults) -> bool:
        """Compare z_hat with all rivals; return False when the attempt has failed."""
        if not np.array_equal(z_hat, self.z_hat):
            return False  # another answer is better in all data
        if not fresh.has_nominal_errors:
            return False
        estimate = fresh.with_planned_weights.least_squares()
        quantile = float(self.quantiles[self._look])
        self.statistic, self.threshold, self.oracle_calls = 0.0, 0.5 * quantile**2, 0
        if estimate is not None and quantile > 0:
            nu = self._nu or 1e-3
            bound = glr_bound(
                self.oracle, self.z_hat, estimate, target=self.threshold, nu=nu, rng=rng, epsilon=self.epsilon
            )
            self.statistic, self.oracle_calls = bound.value, bound.oracle_calls
            self.confirmed = self.statistic >= self.threshold
        self._look += 1
        return self.confirmed or self._look < len(self.counts)


def _merge_looks(counts: NDArray[np.int64], spend: Array) -> tuple[NDArray[np.int64], Array]:
    """Merge looks between which nothing is measured."""
    first = np.flatnonzero(np.append(True, np.diff(counts, axis=0).any(axis=1)))
    return counts[first], np.add.reduceat(spend, first)

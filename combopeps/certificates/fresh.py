"""`FreshResults`: the results of measurements that a proof has requested, since its current epoch began.

An epoch has a plan: c_a measurements of every arm a, fixed before its first result is seen. Its estimate is least
squares with the planned weights,

    theta_epoch = G^-1 sum_a x_a S_a,   G = sum_a c_a x_a x_a',   S_a the sum of the c_a results,

so that the weight of a result is fixed before the epoch begins. Let s_j be the standard error of the j-th result, in
units of the noise of its arm (1 unless the result came with its own), and w_j its weight in D = -y @ theta_epoch. If
every s_j is determined by what was known before the j-th result, then for every fixed lam

    exp(lam (D - gap) - lam^2 V / 2),   V = sum_j w_j^2 s_j^2,

has expectation 1 at most: a test that takes the realised V in place of the planned variance is valid for standard
errors that depend on other results.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from combopeps.belief import Arms, Measurements, Normal
from combopeps.oracles.base import Array, Sparse
from combopeps.state_dict import StateDict, fill


class FreshResults:
    """Sums over the results of one epoch, (K,) each; values are in units of the noise (`Problem.signal`).

    Attributes
    ----------
    counts
        Results of each arm.
    totals
        Their sums.
    squares
        The sums of their squared standard errors, in units of the variance of the arm's noise.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> fresh = FreshResults(Arms.of(TopKOracle(2, k=1)))
    >>> fresh.add(0, 3.0)
    >>> fresh.add(1, 1.0, variance=4.0)
    >>> fresh.estimate().theta, fresh.variances(np.array([[-1.0, 1.0]]))
    (array([3., 1.]), array([5.]))
    """

    def __init__(self, arms: Arms) -> None:
        self.arms = arms
        self.counts = np.zeros(len(arms), dtype=np.int64)
        self.totals, self.squares = np.zeros((2, len(arms)))

    def restart(self) -> None:
        """Begin an epoch: forget the results of the one before."""
        for sums in (self.counts, self.totals, self.squares):
            sums[:] = 0

    def add(self, arm: int, value: float, variance: float = 1.0) -> None:
        """One result, with its squared standard error."""
        self.counts[arm] += 1
        self.totals[arm] += value
        self.squares[arm] += variance

    @property
    def samples(self) -> int:
        """Results of this epoch."""
        return int(self.counts.sum())

    @property
    def is_plain(self) -> bool:
        """Whether every standard error is that of the noise of its arm."""
        return bool(np.allclose(self.squares, self.counts, rtol=1e-9, atol=0.0))

    @property
    def planned(self) -> Measurements:
        """The results with the weights of the plan: one for each."""
        counts = self.counts.astype(np.float64)
        return Measurements(self.arms, counts, self.totals.copy(), counts)

    def estimate(self) -> Normal:
        """theta_epoch with the planned covariance G^-1; a component that was not measured has an infinite variance."""
        data = self.planned
        if not self.arms.are_units:
            estimate = data.least_squares()
            assert estimate is not None  # an epoch measures all directions of general arms
            return estimate
        n = data.information
        known = n > 0.0
        n = np.where(known, n, 1.0)
        return Normal(np.where(known, data.moment / n, 0.0), np.where(known, 1.0 / n, np.inf))

    def variances(self, rows: Array | Sparse) -> Array:
        """V of every row: the variance of y @ theta_epoch under the standard errors of the results."""
        arms = self.arms
        if arms.are_units:
            return Normal(np.zeros(arms.dim), self.component_variances).quadratic(rows)
        lifted = np.asarray(rows @ arms.span.lift)
        weights = np.linalg.solve(self.planned.information, lifted.T).T @ arms.span.rows.T
        return np.asarray(weights**2 @ self.squares)

    @property
    def component_variances(self) -> Array:
        """V of every component, for unit arms; infinite where nothing was measured."""
        n, realised = self.planned.information, Measurements(self.arms, self.squares, self.totals).information
        return np.where(n > 0.0, realised / np.where(n > 0.0, n, 1.0) ** 2, np.inf)

    def missing(self, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        """What a plan still wants of every arm."""
        return wanted - self.counts

    def state_dict(self) -> StateDict:
        """The sums, as plain data."""
        return {"counts": self.counts, "totals": self.totals, "squares": self.squares}

    def load_state_dict(self, data: StateDict) -> None:
        """Restore from plain data."""
        fill(self.counts, data["counts"])
        fill(self.totals, data["totals"])
        fill(self.squares, data["squares"])
        if (self.counts < 0).any() or ((self.squares > 0.0) != (self.counts > 0)).any():
            raise ValueError("counts and standard errors of fresh results contradict each other")

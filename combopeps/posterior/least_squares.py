"""Sums of measurements by arm, without a prior, and the least-squares estimate.

    G = sum_x n_x x x',   S = sum_x x s_x,   theta_LS = G^-1 S        in units of the noise (`Problem.signal`)

n_x is the total weight of the measurements of arm x, s_x the weighted sum of their results. Guarantees for every theta
rest on these sums alone. Recovering them from a posterior, by subtracting the prior, would cancel under a strong prior.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles.base import Array
from combopeps.posterior.arms import Arms
from combopeps.posterior.gaussian import GaussianPosterior, Normal
from combopeps.utils.state_dict import StateDict, array


@dataclass(frozen=True)
class Measurements:
    """n_x and s_x of one run, (K,) each, and the numbers of measurements, if they differ from n_x.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> data = Measurements(Arms.of(TopKOracle(2, k=1)), np.array([2.0, 1.0]), np.array([6.0, 5.0]))
    >>> data.information, data.moment
    (array([2., 1.]), array([6., 5.]))
    """

    arms: Arms
    weights: Array
    totals: Array
    pulls: Array | None = None

    def state_dict(self) -> StateDict:
        """Return the sums as plain data."""
        return {"weights": self.weights, "totals": self.totals} | ({} if self.pulls is None else {"pulls": self.pulls})

    @classmethod
    def restored(cls, arms: Arms, data: StateDict) -> Measurements:
        """Return the measurements of a `state_dict`."""
        sums = [array(data[name], np.float64, len(arms)) for name in ("weights", "totals", "pulls") if name in data]
        return cls(arms, *sums)

    @property
    def counts(self) -> Array:
        """Number of measurements of each arm, (K,)."""
        return self.weights if self.pulls is None else self.pulls

    @property
    def samples(self) -> int:
        """Total number of measurements."""
        return int(self.counts.sum())

    @cached_property
    def information(self) -> Array:
        """G: its diagonal (d,) for unit arms, else (r, r) in the coordinates of `arms.span`."""
        if self.arms.are_units:
            return _sums(self.arms, self.weights * self.arms.coefficient**2)
        rows = self.arms.span.rows
        return np.asarray((rows.T * self.weights) @ rows)

    @cached_property
    def moment(self) -> Array:
        """S: (d,) for unit arms, else (r,) in the coordinates of `arms.span`."""
        if self.arms.are_units:
            return _sums(self.arms, self.totals * self.arms.coefficient)
        return np.asarray(self.totals @ self.arms.span.rows)

    def least_squares(self, rho: float = 0.0) -> Normal | None:
        """Return theta_LS with covariance G^-1 + G^-1 R G^-1; None until every direction of the arms has been measured.

        R has the information of rho measurements: of the strongest arm of each coordinate, or spread over all arms. For
        a fixed design theta_LS - theta* ~ N(0, G^-1). Coordinates that no arm measures, where answers must not differ,
        are 0 with variance 0.
        """
        if not self.complete:
            return None
        arms, moment, information = self.arms, self.moment, self.information
        if arms.are_units:
            gain = arms.strongest[0]
            theta, variance = np.zeros(arms.dim), np.zeros(arms.dim)
            at = np.flatnonzero(gain)
            n = information[at]
            theta[at], variance[at] = moment[at] / n, (1.0 + rho * gain[at] / n) / n
            return Normal(theta, variance)
        values, vectors = np.linalg.eigh(information)
        lifted = arms.span.lift @ vectors
        root = lifted * (np.sqrt(values + rho) / values)
        return Normal(lifted @ (vectors.T @ moment / values), root)

    @cached_property
    def complete(self) -> bool:
        """Whether every direction in the row space of the arms has been measured."""
        if self.arms.are_units:
            return bool(self._seen[self.arms.component].all())
        rows = self.arms.span.rows[self.counts > 0]
        return bool(len(rows) >= rows.shape[1] == np.linalg.matrix_rank(rows))

    @property
    def missing(self) -> NDArray[np.intp]:
        """Arms whose measurement, once each, makes it complete."""
        if self.arms.are_units:
            gain, arm_of = self.arms.strongest
            return np.sort(arm_of[~self._seen & (gain > 0.0)])
        from scipy.linalg import qr

        # A pivoted QR picks a basis of the rows; large weights make it start with those measured already.
        weight = np.where(self.counts > 0, 1e6, 1.0)
        _, _, order = qr((self.arms.span.rows * weight[:, None]).T, mode="economic", pivoting=True)
        basis = order[: self.arms.span.rows.shape[1]]
        return np.sort(basis[self.counts[basis] == 0])

    @property
    def _seen(self) -> NDArray[np.bool_]:
        """Whether a component has been measured by a unit arm, (d,)."""
        seen = np.zeros(self.arms.dim, dtype=bool)
        seen[self.arms.component[self.counts > 0]] = True
        return seen


def flat_posterior(data: Measurements) -> GaussianPosterior | None:
    """Return the posterior without a prior, N(theta_LS, G^-1); None until every direction of the arms has been
    measured.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> data = Measurements(Arms.of(TopKOracle(2, k=1)), np.array([2.0, 1.0]), np.array([6.0, 5.0]))
    >>> flat_posterior(data).theta_hat
    array([[3., 5.]])
    """
    estimate = data.least_squares()
    if estimate is None:
        return None
    posterior = GaussianPosterior.start(data.arms)
    posterior.become(estimate)
    return posterior


def _sums(arms: Arms, entries: Array) -> Array:
    """Return the sums of entries over the unit arms of each component."""
    return np.asarray(np.bincount(arms.component, entries, minlength=arms.dim), dtype=np.float64)

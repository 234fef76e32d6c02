"""theta with a normal error: the belief's, or least squares without the prior, for claims that hold for every theta.

theta_LS = G^-1 S,   theta_LS - theta* ~ N(0, G^-1) for a fixed design
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from combopeps.belief import DenseBelief, DiagonalBelief, GaussianBelief, Measurements
from combopeps.cone.differences import Differences
from combopeps.oracles.base import Array


@dataclass(frozen=True)
class Estimate:
    """theta with a normal error.

    Attributes
    ----------
    theta
        (d,).
    variance
        Of each coordinate, (d,), when their errors are independent; 0 where answers never differ.
    root
        L with covariance L L', (d, r), otherwise.
    """

    theta: Array
    variance: Array | None
    root: Array | None = None

    @classmethod
    def of(cls, belief: GaussianBelief) -> Estimate:
        """The belief itself, prior included."""
        if isinstance(belief, DiagonalBelief):
            return cls(belief.theta_hat[0], belief.variance[0])
        assert isinstance(belief, DenseBelief)
        return cls(belief.theta_hat[0], None, belief.L[0])

    @classmethod
    def least_squares(cls, data: Measurements, rho: float = 0.0) -> Estimate | None:
        """theta_LS with covariance G^-1 + G^-1 R G^-1; None until every direction of the arms has been measured.

        R has the information of rho measurements: of the strongest arm of each coordinate, or spread over all arms.
        """
        if not data.complete:
            return None
        arms, moment, noise = data.arms, data.moment, data.noise_std
        if arms.are_units:
            gain = arms.strongest[0] / noise**2
            theta, variance = np.zeros(arms.dim), np.zeros(arms.dim)  # components without an arm differ in no answer
            at = np.flatnonzero(gain)
            n = data.information[at]
            theta[at], variance[at] = moment[at] / n, (1.0 + rho * gain[at] / n) / n
            return cls(theta, variance)
        values, vectors = np.linalg.eigh(data.information)
        lifted = arms.span.lift @ vectors
        root = lifted * (np.sqrt(values + rho / noise**2) / values)
        return cls(lifted @ (vectors.T @ moment / values), None, root)

    def gaps(self, rows: Differences) -> Array:
        """(z_hat - z) @ theta for every row y = z - z_hat."""
        return -rows.sums(rows.data * self.theta[rows.indices])

    def widths(self, rows: Differences) -> Array:
        """|y|^2 under the covariance, for every row."""
        if self.variance is not None:
            return rows.sums(rows.data**2 * self.variance[rows.indices])
        assert self.root is not None
        half = rows.matrix(len(self.theta)) @ self.root
        return np.asarray((half * half).sum(axis=1))

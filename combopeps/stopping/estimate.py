"""Least squares without the prior: what a frequentist claim may rest on.

    G = sum_s x_s x_s',   S = sum_s x_s y_s,   theta_LS = G^-1 S,   theta_LS - theta* ~ N(0, G^-1) for a fixed design

in units of the noise's standard deviation. Sums of different stretches of a run can be subtracted: what was measured
since a snapshot is the difference of two sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from combopeps.belief import Arms, DenseBelief, DiagonalBelief, GaussianBelief
from combopeps.oracles.base import Array
from combopeps.stopping.rows import Rows

_NEGLIGIBLE = 1e-10  # eigenvalues below this share of the largest are taken for zero


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

    def gaps(self, rows: Rows) -> Array:
        """(z_hat - z) @ theta for every row y = z - z_hat."""
        return -rows.sums(rows.data * self.theta[rows.indices])

    def widths(self, rows: Rows) -> Array:
        """|y|^2 under the covariance, for every row."""
        if self.variance is not None:
            return rows.sums(rows.data**2 * self.variance[rows.indices])
        assert self.root is not None
        half = rows.matrix(len(self.theta)) @ self.root
        return np.asarray((half * half).sum(axis=1))


class Sums(NamedTuple):
    """G, (d,) for unit arms and (d, d) otherwise, and S (d,)."""

    information: Array
    moment: Array

    @classmethod
    def of(cls, belief: GaussianBelief) -> Sums:
        """All that one replication has measured."""
        if isinstance(belief, DiagonalBelief):
            return cls(belief.precision[0] - belief.prior_precision, belief.moment[0].copy())
        assert isinstance(belief, DenseBelief)
        return cls(belief.V[0] - belief.prior_precision * np.eye(belief.dim), belief.moment[0].copy())

    def since(self, earlier: Sums) -> Sums:
        """What was measured after an earlier snapshot."""
        return Sums(self.information - earlier.information, self.moment - earlier.moment)

    def estimate(self, arms: Arms, rho: float = 0.0) -> Estimate | None:
        """theta_LS with covariance G^-1 + rho G^-2; None until every direction of the arms has been measured."""
        if self.information.ndim == 1:
            return self._diagonal(arms, rho)
        values, vectors = np.linalg.eigh(self.information)
        kept = values > _NEGLIGIBLE * max(values[-1], 1e-300)
        if kept.sum() < np.linalg.matrix_rank(arms.row(np.arange(len(arms)))):
            return None
        values, vectors = values[kept], vectors[:, kept]
        return Estimate(vectors @ (vectors.T @ self.moment / values), None, vectors * (np.sqrt(values + rho) / values))

    def _diagonal(self, arms: Arms, rho: float) -> Estimate | None:
        theta, variance = np.zeros(arms.dim), np.zeros(arms.dim)  # components without an arm differ in no answer
        at = np.unique(arms.component)
        n = self.information[at]
        if (n <= 0.0).any():
            return None
        theta[at], variance[at] = self.moment[at] / n, 1.0 / n + rho / n**2
        return Estimate(theta, variance)


def informative_arms(arms: Arms) -> tuple[Array, NDArray[np.int64]]:
    """For every coordinate what its most informative unit arm adds to n_a (0 if there is none), and that arm."""
    gain, arm_of = np.zeros(arms.dim), np.zeros(arms.dim, dtype=np.int64)
    order = np.argsort(arms.coefficient**2, kind="stable")
    gain[arms.component[order]], arm_of[arms.component[order]] = arms.coefficient[order] ** 2, order
    return gain, arm_of

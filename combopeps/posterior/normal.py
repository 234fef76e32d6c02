"""Normal distribution of theta: a posterior at one moment of one run, or a least-squares estimate.

gap_y = -y @ theta,   |y|^2 = y' C y,   C = diag(variance) or L L'
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from combopeps.oracles.base import Array, Sparse


@dataclass(frozen=True)
class Normal:
    """N(theta, C).

    `spread` is the variance of each coordinate, (d,), if their errors are independent (0 where answers never differ);
    otherwise L with C = L L', (d, r).

    Examples
    --------
    >>> known = Normal(np.array([1.0, 3.0]), np.array([4.0, 0.25]))
    >>> y = np.array([[1.0, -1.0]])
    >>> known.gaps(y), known.quadratic(y)
    (array([2.]), array([4.25]))
    """

    theta: Array
    spread: Array

    @property
    def is_diagonal(self) -> bool:
        """Whether the errors of the coordinates are independent."""
        return self.spread.ndim == 1

    @property
    def root(self) -> Array:
        """L with C = L L', for either representation."""
        return np.diag(np.sqrt(self.spread)) if self.is_diagonal else self.spread

    def gaps(self, rows: Array | Sparse) -> Array:
        """Return -y @ theta of every row y: by how much z_hat is better, for y = z - z_hat."""
        if isinstance(rows, np.ndarray):
            return np.asarray(-(rows @ self.theta))
        return -row_sums(rows, rows.data * self.theta[rows.indices])

    def quadratic(self, rows: Array | Sparse) -> Array:
        """Return y' C y of every row y."""
        if isinstance(rows, np.ndarray):
            half = rows * np.sqrt(self.spread) if self.is_diagonal else rows @ self.spread
        elif self.is_diagonal:
            return row_sums(rows, rows.data**2 * self.spread[rows.indices])
        else:
            half = rows @ self.spread
        return np.asarray((half * half).sum(axis=1))

    def along(self, y: Array) -> Array:
        """Return C y: the direction in which theta reaches the facet of y at the least distance."""
        return self.spread * y if self.is_diagonal else np.asarray(self.spread @ (self.spread.T @ y))

    def whiten(self, theta: Array) -> Array:
        """Return L^-1 (theta - mean), (..., d): standard normal if theta is drawn from the distribution."""
        shift = theta - self.theta
        if self.is_diagonal:
            return np.asarray(shift / np.sqrt(self.spread))
        return np.asarray(np.linalg.solve(self.spread, shift[..., None])[..., 0])


def row_sums(rows: Sparse, entries: Array) -> Array:
    """Return the sums of `entries`, one per nonzero of `rows`, by row."""
    sums, filled = np.zeros(len(rows.indptr) - 1), np.diff(rows.indptr) > 0
    if len(entries):
        sums[filled] = np.add.reduceat(entries, rows.indptr[:-1][filled])
    return sums

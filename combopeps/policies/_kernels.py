"""Compiled loops over the facets of R replications: row r has `indices[r, p], data[r, p]`, bounded by `indptr[r]`."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def weigh_diagonal(indptr, indices, data, theta, variance, gap, width):  # type: ignore[no-untyped-def]
    """gap = -y @ theta and width = y' diag(variance) y of every facet."""
    for r in range(len(theta)):
        for f in range(gap.shape[1]):
            g, v = 0.0, 0.0
            for p in range(indptr[r, f], indptr[r, f + 1]):
                i, value = indices[r, p], data[r, p]
                g -= value * theta[r, i]
                v += value * value * variance[r, i]
            gap[r, f], width[r, f] = g, v


@njit(cache=True, nogil=True)
def weigh_dense(indptr, indices, data, theta, covariance, gap, width):  # type: ignore[no-untyped-def]
    """gap = -y @ theta and width = y' covariance y of every facet; the covariance is symmetric."""
    for r in range(len(theta)):
        for f in range(gap.shape[1]):
            g, v = 0.0, 0.0
            for p in range(indptr[r, f], indptr[r, f + 1]):
                i, value = indices[r, p], data[r, p]
                g -= value * theta[r, i]
                along = 0.5 * covariance[r, i, i] * value
                for q in range(indptr[r, f], p):
                    along += covariance[r, i, indices[r, q]] * data[r, q]
                v += 2.0 * value * along
            gap[r, f], width[r, f] = g, v

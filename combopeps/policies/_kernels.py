"""Compiled loops over the facets of R replications: row r has `indices[r, p], data[r, p]`, bounded by `indptr[r]`."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def weigh_diagonal(indptr, indices, data, theta, variance, gap, width):
    """gap = -y @ theta and width = y' diag(variance) y of every facet."""
    for r in range(len(theta)):
        bounds, index, value, mean, spread = indptr[r], indices[r], data[r], theta[r], variance[r]
        for f in range(gap.shape[1]):
            g, v = 0.0, 0.0
            for p in range(bounds[f], bounds[f + 1]):
                g -= value[p] * mean[index[p]]
                v += value[p] * value[p] * spread[index[p]]
            gap[r, f], width[r, f] = g, v


@njit(cache=True, nogil=True)
def weigh_dense(indptr, indices, data, theta, covariance, gap, width):
    """gap = -y @ theta and width = y' covariance y of every facet; the covariance is symmetric."""
    d = theta.shape[1]
    for r in range(len(theta)):
        bounds, index, value, mean, spread = indptr[r], indices[r], data[r], theta[r], covariance[r]
        for f in range(gap.shape[1]):
            g, v = 0.0, 0.0
            start, stop = bounds[f], bounds[f + 1]
            if stop - start == d:  # no zeros, so that the indices are 0 .. d-1: half the time
                y = value[start:stop]
                for i in range(d):
                    g -= y[i] * mean[i]
                    along = 0.5 * spread[i, i] * y[i]
                    for j in range(i):
                        along += spread[i, j] * y[j]
                    v += 2.0 * y[i] * along
            else:
                for p in range(start, stop):
                    k = index[p]
                    g -= value[p] * mean[k]
                    along = 0.5 * spread[k, k] * value[p]
                    for q in range(start, p):
                        along += spread[k, index[q]] * value[q]
                    v += 2.0 * value[p] * along
            gap[r, f], width[r, f] = g, v


@njit(cache=True, nogil=True)
def spread_out(indptr, indices, data, facet, y):
    """y[r] = row facet[r] of replication r; y comes as zeros."""
    for r in range(len(facet)):
        for p in range(indptr[r, facet[r]], indptr[r, facet[r] + 1]):
            y[r, indices[r, p]] = data[r, p]

"""Compiled loops over the facets of R replications, sizes[r] of them; arrays as in `_kernels`, with a leading axis."""

from __future__ import annotations

import numpy as np

from combopeps._compiled import log, njit
from combopeps._random import uniform
from combopeps.cone._draw_kernels import pick, push
from combopeps.cone._kernels import BLOCK, dot, information, refresh, sum_up


@njit(cache=True, nogil=True)
def weigh_rows(sizes, indptr, indices, data, theta, covariance, gap, width):
    """gap = -y @ theta and width = y' C y of the facets of R replications; C is (R, d), or (R, d, d) and symmetric.

    Where there is no facet they are infinity and 1.
    """
    d = theta.shape[1]
    for r in range(len(theta)):
        bounds, index, value, mean, spread = indptr[r], indices[r], data[r], theta[r], covariance[r]
        gap[r, sizes[r] :], width[r, sizes[r] :] = np.inf, 1.0
        for f in range(sizes[r]):
            g, v = 0.0, 0.0
            start, stop = bounds[f], bounds[f + 1]
            if covariance.ndim == 2:
                for p in range(start, stop):
                    g -= value[p] * mean[index[p]]
                    v += value[p] * value[p] * spread[index[p]]
            elif stop - start == d:  # no zeros, so that the indices are 0 .. d-1: half the time
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


@njit(cache=True, nogil=True)
def draw_rows(states, sizes, indptr, indices, data, theta_hat, spread, eta, thetas, proposals, log_p):
    """`karp_luby` on R^d for R replications with few facets each, everything computed anew."""
    R, most = len(indptr), indptr.shape[1] - 1
    gap, width, log_w, weight, blocks = (
        np.empty(most), np.empty(most), np.empty(most), np.empty(most), np.empty(most // BLOCK + 1)
    )  # fmt: skip
    for r in range(R):
        bounds, index, value, mean, scale, state = indptr[r], indices[r], data[r], theta_hat[r], spread[r], states[r]
        F = sizes[r]
        refresh(0, F, bounds, index, value, mean, scale, eta, gap, width, log_w)
        top, shares = log_w[:F].max(), 0.0
        total = sum_up(0, F, log_w, top, weight, blocks)
        for k in range(thetas.shape[1]):
            theta, kept = thetas[r, k], False
            while not kept:
                f = pick(state, F, weight, blocks, total)
                push(state, f, bounds, index, value, mean, scale, eta, gap, width, theta)
                behind = 0
                for g in range(F):
                    behind += dot(g, bounds, index, value, theta) > 0.0
                share = 1.0 / max(1, behind)
                shares += share
                proposals[r] += 1
                kept = uniform(state) < share
        log_p[r] = top + log(total) + log(shares / proposals[r])


@njit(cache=True, nogil=True)
def information_rows(sizes, indptr, indices, data, theta_hat, spread, out):
    """`information` of R replications with few facets each, everything computed anew; out is (R, d) or (R, d, d)."""
    most = indptr.shape[1] - 1
    gap, width, log_w, weight, blocks = (
        np.empty(most), np.empty(most), np.empty(most), np.empty(most), np.empty(most // BLOCK + 1)
    )  # fmt: skip
    for r in range(len(theta_hat)):
        F = sizes[r]
        refresh(0, F, indptr[r], indices[r], data[r], theta_hat[r], spread[r], 1.0, gap, width, log_w)
        sum_up(0, F, log_w, log_w[:F].max(), weight, blocks)
        information((F, indptr[r], indices[r], data[r]), weight, width, out[r])

"""Compiled draws behind facets, by the method of Karp and Luby; `_kernels` says what is what."""

from __future__ import annotations

import numpy as np

from combopeps._compiled import exp, njit, sqrt
from combopeps._normal import draw_tail
from combopeps.cone._kernels import BLOCK, NEGLIGIBLE, dot
from combopeps.streams import fill_normals, uniform

_SHARE = exp(-NEGLIGIBLE)
_FEW = 64  # facets that may be gone through without a thought


@njit(cache=True, nogil=True)
def pick(state, size, weight, blocks, total):
    """A facet with probability proportional to its weight."""
    target, last = uniform(state) * total, (size + BLOCK - 1) // BLOCK - 1
    b = 0
    while b < last and target >= blocks[b]:
        target -= blocks[b]
        b += 1
    while b > 0 and blocks[b] == 0.0:  # rounding at the end of all
        b -= 1
    chosen = b * BLOCK
    for f in range(b * BLOCK, min(size, (b + 1) * BLOCK)):
        if weight[f] > 0.0:
            chosen = f
            if target < weight[f]:
                break
            target -= weight[f]
    return chosen


@njit(cache=True, nogil=True)
def push(state, f, indptr, indices, data, theta_hat, spread, eta, gap, width, theta):
    """Theta ~ N(theta_hat, S / eta) conditioned on y_f @ theta > 0: a free draw, then moved along S y_f."""
    sigma = sqrt(width[f] / eta)
    t = draw_tail(state, gap[f] / sigma)
    d = len(theta)
    if spread.ndim == 1:
        fill_normals(state, theta)
        for i in range(d):
            theta[i] *= sqrt(spread[i] / eta)
        move = (t - dot(f, indptr, indices, data, theta) / sigma) / sigma
        for i in range(d):
            theta[i] += theta_hat[i]
        for p in range(indptr[f], indptr[f + 1]):
            theta[indices[p]] += move * spread[indices[p]] / eta * data[p]
    else:  # in w-space the half-space is a @ w > b with a = L' y / |L' y|
        a, w = np.zeros(d), np.empty(d)
        for p in range(indptr[f], indptr[f + 1]):
            for j in range(d):
                a[j] += data[p] * spread[indices[p], j]
        along = 0.0
        fill_normals(state, w)
        for j in range(d):
            a[j] /= sqrt(width[f])
            along += a[j] * w[j]
        for j in range(d):
            w[j] = (w[j] + (t - along) * a[j]) / sqrt(eta)
        for i in range(d):
            theta[i] = theta_hat[i]
            for j in range(d):
                theta[i] += spread[i, j] * w[j]


@njit(cache=True, nogil=True)
def _inside(theta, low, high):
    inside = True
    for i in range(len(theta)):
        inside &= low[i] <= theta[i] <= high[i]
    return inside


@njit(cache=True, nogil=True)
def _movers(theta, theta_hat, room, column, moved, movers):
    """Components that have left their room, into `movers`; how many, and how many entries their facets have."""
    count, entries = 0, 0
    for i in range(len(theta)):
        by = theta[i] - theta_hat[i]
        moved[i] = by > room[0, i] or -by > room[1, i]
        if moved[i]:
            movers[count] = i
            count += 1
            entries += column[i + 1] - column[i]
    return count, entries


@njit(cache=True, nogil=True)
def _count_touched(movers, moved, column, facet, indptr, indices, data, theta):
    """How many facets that one of the movers belongs to have y @ theta > 0; each is looked at with its first mover."""
    behind = 0
    for i in movers:
        for p in range(column[i], column[i + 1]):
            f, value, first = facet[p], 0.0, True
            for q in range(indptr[f], indptr[f + 1]):
                j = indices[q]
                if j < i and moved[j]:
                    first = False
                    break
                value += data[q] * theta[j]
            behind += first and value > 0.0
    return behind


@njit(cache=True, nogil=True)
def karp_luby(
    state, rows, index, theta_hat, spread, eta, gap, width, weight, blocks, total, room, low, high, cap, thetas
):
    """Fill `thetas` with draws from the belief restricted to the union of the half-spaces (and to a box).

    Pick a facet by weight, draw theta behind it, keep it with probability 1 / N(theta) if it lies in the box. Facets
    that no component has moved towards are not looked at when N is counted. Returns how many rows were filled, the
    number of proposals, the sum and sum of squares of 1{box} / N, and how many facets were looked at. `low` of length
    zero means no box; `room` of length zero that all facets that matter are looked at.
    """
    size, indptr, indices, data = rows
    column, facet, indexed = index
    d = len(theta_hat)
    moved, movers, active, matter = np.zeros(d, dtype=np.bool_), np.empty(d, dtype=np.int64), np.empty(0, np.int64), -1
    filled, proposals, shares, squares, looks = 0, 0, 0.0, 0.0, 0
    while total > 0.0 and filled < len(thetas) and proposals < cap:
        theta = thetas[filled]
        f = pick(state, size, weight, blocks, total)
        push(state, f, indptr, indices, data, theta_hat, spread, eta, gap, width, theta)
        proposals += 1
        if len(low) > 0 and not _inside(theta, low, high):
            continue
        count, entries = 0, size
        if room.shape[1] > 0:
            count, entries = _movers(theta, theta_hat, room, column, moved, movers)
        if matter < 0 and (room.shape[1] == 0 or entries > max(_FEW, size // 8)):
            active, matter = np.empty(size, dtype=np.int64), 0
            for g in range(size):
                if weight[g] >= _SHARE * total:
                    active[matter] = g
                    matter += 1
        behind = 0
        if matter >= 0 and (room.shape[1] == 0 or matter <= entries):
            for g in active[:matter]:
                behind += dot(g, indptr, indices, data, theta) > 0.0
            looks += matter
        else:
            behind = _count_touched(movers[:count], moved, column, facet, indptr, indices, data, theta)
            for g in range(indexed, size):
                behind += dot(g, indptr, indices, data, theta) > 0.0
            looks += entries + size - indexed
        share = 1.0 / max(1, behind)
        shares += share
        squares += share * share
        filled += uniform(state) < share
    return filled, proposals, shares, squares, looks

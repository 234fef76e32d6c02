"""Compiled loops over facets.

Facet f is the row y_f = z_f - z_hat, stored sparsely: `indices[p], data[p]` for p in `indptr[f] : indptr[f + 1]`.

    gap_f = -y_f @ theta_hat,   width_f = y_f' S y_f,   b_f = gap_f sqrt(eta / width_f),   log_w_f = ln Phi(-b_f)

`spread` is what a belief calls so: the variances of its components (one axis), or L with S = L L' (two). Weights are
exp(log_w - reference), with their sums over blocks of facets.
"""

from __future__ import annotations

import numpy as np

from combopeps._compiled import exp, njit, sqrt
from combopeps._normal import log_ndtr

NEGLIGIBLE = 50.0  # nats: what lies so far below the top could not change a sum in double precision
BLOCK = 256  # facets whose weights are summed up together
_MARGIN = 0.001  # of a gap, so that rounding hides no facet
_DIGITS = 1e-6  # of a width: what is left of it after a subtraction that costs too many digits


@njit(cache=True, nogil=True, inline="always")  # a call takes longer than the sum of a short facet
def dot(f, indptr, indices, data, vector):
    """y_f @ vector."""
    total = 0.0
    for p in range(indptr[f], indptr[f + 1]):
        total += data[p] * vector[indices[p]]
    return total


@njit(cache=True, nogil=True)
def refresh(start, stop, indptr, indices, data, theta, spread, eta, gap, width, log_w):
    """Gaps, widths and log-weights of facets `start : stop` from scratch."""
    if spread.ndim == 1:
        for f in range(start, stop):
            g, v = 0.0, 0.0
            for p in range(indptr[f], indptr[f + 1]):
                g -= data[p] * theta[indices[p]]
                v += data[p] * data[p] * spread[indices[p]]
            gap[f], width[f] = g, v
            log_w[f] = log_ndtr(-g * sqrt(eta / v))
    else:
        d, nearest = len(theta), np.inf
        half = np.empty(d)
        for f in range(start, stop):
            g, v = 0.0, 0.0
            half[:] = 0.0
            for p in range(indptr[f], indptr[f + 1]):
                g -= data[p] * theta[indices[p]]
                for j in range(d):
                    half[j] += data[p] * spread[indices[p], j]
            for j in range(d):
                v += half[j] * half[j]
            gap[f], width[f] = g, v
            log_w[f] = g * sqrt(eta / v)  # b_f, for the moment
            nearest = min(nearest, log_w[f])
        far = sqrt(max(nearest, 0.0) ** 2 + 4.0 * NEGLIGIBLE)
        for f in range(start, stop):
            b = log_w[f]
            log_w[f] = -0.5 * b * b if b > far else log_ndtr(-b)  # beyond `far` only its being negligible matters


@njit(cache=True, nogil=True)
def weigh_at(size, gap, width, eta, log_w):
    """ln Phi(-b_f) at another eta."""
    for f in range(size):
        log_w[f] = log_ndtr(-gap[f] * sqrt(eta / width[f]))


@njit(cache=True, nogil=True)
def sum_up(start, size, log_w, reference, weight, blocks):
    """Weights of facets `start : size`, and the sums of the blocks they are in; the sum of all."""
    for f in range(start, size):
        weight[f] = exp(log_w[f] - reference)
    for b in range(start // BLOCK, (size + BLOCK - 1) // BLOCK):
        blocks[b] = weight[b * BLOCK : min(size, (b + 1) * BLOCK)].sum()
    return blocks[: (size + BLOCK - 1) // BLOCK].sum()


@njit(cache=True, nogil=True)
def update(
    theta, variance, seen_theta, seen_variance, column, facet, value, rows, eta, gap, width, log_w, reference, weight,
    blocks, stale, room,
):  # fmt: skip
    """Carry everything over to the components that have changed since they were last seen; the sum of all weights."""
    size, indptr, indices, data = rows
    for i in range(len(theta)):
        shift, growth = theta[i] - seen_theta[i], variance[i] - seen_variance[i]
        if shift == 0.0 and growth == 0.0:
            continue
        seen_theta[i], seen_variance[i] = theta[i], variance[i]
        for p in range(column[i], column[i + 1]):
            f, v = facet[p], value[p]
            gap[f] -= v * shift
            before, width[f] = width[f], width[f] + v * v * growth
            if width[f] < _DIGITS * before:  # the difference has lost them
                gap[f], width[f] = 0.0, 0.0
                for q in range(indptr[f], indptr[f + 1]):
                    j = indices[q]
                    gap[f] -= data[q] * seen_theta[j]
                    width[f] += data[q] * data[q] * seen_variance[j]
            log_w[f] = log_ndtr(-gap[f] * sqrt(eta / width[f]))
            weight[f] = exp(log_w[f] - reference)
            stale[f // BLOCK] = True
            if room.shape[1] > 0:
                _make_narrow(f, indptr, indices, data, gap, room)
    total = 0.0
    for b in range((size + BLOCK - 1) // BLOCK):
        if stale[b]:
            blocks[b] = weight[b * BLOCK : min(size, (b + 1) * BLOCK)].sum()
            stale[b] = False
        total += blocks[b]
    return total


@njit(cache=True, nogil=True)
def _make_narrow(f, indptr, indices, data, gap, room):
    """Let `room` respect facet f."""
    share = (gap[f] - _MARGIN * abs(gap[f])) / (indptr[f + 1] - indptr[f])
    for p in range(indptr[f], indptr[f + 1]):
        side, least = (0, share / data[p]) if data[p] > 0.0 else (1, -share / data[p])
        if least < room[side, indices[p]]:
            room[side, indices[p]] = least


@njit(cache=True, nogil=True)
def rooms(size, indptr, indices, data, gap, room):
    """How far a component may move, up or down, without being what takes theta behind some facet.

    y_f @ (theta - theta_hat) > gap_f takes a component with y_fi (theta_i - theta_hat_i) > gap_f / |y_f|_0.
    """
    room[:] = np.inf
    for f in range(size):
        _make_narrow(f, indptr, indices, data, gap, room)


@njit(cache=True, nogil=True)
def information(rows, weight, width, out):
    """out = sum_f weight_f y_f y_f' / width_f, of one facet after the other; its diagonal where out has one axis."""
    out[:] = 0.0
    for f in range(rows[0]):
        if weight[f] > 0.0:
            _add_square(f, rows, weight[f] / width[f], out)


@njit(cache=True, nogil=True)
def information_of_some(rows, weight, blocks, total, width, shift, picks, out):
    """The same from `picks` facets, drawn in proportion to their weights: those at shift, 1 + shift, ... of as many."""
    size, out[:] = rows[0], 0.0
    step = total / picks
    target, reached = shift * step, 0.0
    for b in range((size + BLOCK - 1) // BLOCK):
        if reached + blocks[b] <= target:
            reached += blocks[b]
            continue
        for f in range(b * BLOCK, min(size, (b + 1) * BLOCK)):
            reached += weight[f]
            while target < reached:
                _add_square(f, rows, 1.0 / width[f], out)
                target += step


@njit(cache=True, nogil=True)
def _add_square(f, rows, share, out):
    _, indptr, indices, data = rows
    for p in range(indptr[f], indptr[f + 1]):
        if out.ndim == 1:
            out[indices[p]] += share * data[p] * data[p]
        else:
            for q in range(indptr[f], indptr[f + 1]):
                out[indices[p], indices[q]] += share * data[p] * data[q]


@njit(cache=True, nogil=True)
def known_exits(rows, base, directions, exits, through):
    """Lower exits[r] to where base + s directions[r] leaves the cone through a known facet; through[r] says which."""
    size, indptr, indices, data = rows
    gap = np.empty(size)
    for f in range(size):
        gap[f] = max(0.0, -dot(f, indptr, indices, data, base))
    for r in range(len(directions)):
        for f in range(size):
            slope = dot(f, indptr, indices, data, directions[r])
            if slope > 0.0 and gap[f] < exits[r] * slope:
                exits[r], through[r] = gap[f] / slope, f

"""Compiled loops over facets.

Facet f is the row y_f = z_f - z_hat, stored sparsely: `indices[p], data[p]` for p in `indptr[f] : indptr[f + 1]`.

    gap_f = -y_f @ theta_hat,   width_f = y_f' S y_f,   b_f = gap_f sqrt(eta / width_f),   log_w_f = ln Phi(-b_f)

`spread` is what a belief calls so: the variances of its components (one axis), or L with S = L L' (two). Weights are
exp(log_w - reference), with their sums over blocks of facets.

Compiled draws behind facets, by the method of Karp and Luby; `_kernels` says what is what.
"""

from __future__ import annotations

import numpy as np

from combopeps.posterior.normal_tails import draw_tail, log_ndtr
from combopeps.random import fill_normals, uniform
from combopeps.utils.jit import exp, njit, sqrt

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

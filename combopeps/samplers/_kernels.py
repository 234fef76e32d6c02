"""Compiled loops over cached facets.

Facet f is the row y_f = z_f - z_hat, stored sparsely: `indices[p], data[p]` for p in `indptr[f] : indptr[f + 1]`.

    gap_f = -y_f @ theta_hat,   width_f = y_f' V^-1 y_f,   b_f = gap_f sqrt(eta / width_f),   log_w_f = ln Phi(-b_f)
"""

from __future__ import annotations

from math import exp, log, sqrt

import numpy as np
from numba import njit

from combopeps._normal import draw_interval, draw_tail, log_ndtr
from combopeps._random import fill_normals, uniform

NEGLIGIBLE = 50.0  # nats


@njit(cache=True, nogil=True)
def refresh_diagonal(start, stop, indptr, indices, data, theta, variance, eta, gap, width, log_w):
    """Gaps, widths and log-weights of facets `start : stop` from scratch."""
    for f in range(start, stop):
        g, v = 0.0, 0.0
        for p in range(indptr[f], indptr[f + 1]):
            g -= data[p] * theta[indices[p]]
            v += data[p] * data[p] * variance[indices[p]]
        gap[f], width[f] = g, v
        log_w[f] = log_ndtr(-g * sqrt(eta / v))


@njit(cache=True, nogil=True)
def update_diagonal(theta, variance, seen_theta, seen_variance, column, facet, value, eta, gap, width, log_w):
    """Carry gaps and widths over to the components that have changed since they were last seen."""
    for i in range(len(theta)):
        shift, growth = theta[i] - seen_theta[i], variance[i] - seen_variance[i]
        if shift == 0.0 and growth == 0.0:
            continue
        seen_theta[i], seen_variance[i] = theta[i], variance[i]
        for p in range(column[i], column[i + 1]):
            f, v = facet[p], value[p]
            gap[f] -= v * shift
            width[f] += v * v * growth
            log_w[f] = log_ndtr(-gap[f] * sqrt(eta / width[f]))


@njit(cache=True, nogil=True)
def refresh_dense(size, indptr, indices, data, theta, L, eta, gap, width, log_w):
    """Gaps, widths and log-weights of all facets under a full covariance L L'."""
    d = len(theta)
    half = np.empty(d)
    nearest = np.inf
    for f in range(size):
        g = 0.0
        half[:] = 0.0
        for p in range(indptr[f], indptr[f + 1]):
            g -= data[p] * theta[indices[p]]
            for j in range(d):
                half[j] += data[p] * L[indices[p], j]
        v = 0.0
        for j in range(d):
            v += half[j] * half[j]
        gap[f], width[f] = g, v
        log_w[f] = g * sqrt(eta / v)  # b_f, for the moment
        nearest = min(nearest, log_w[f])
    far = sqrt(max(nearest, 0.0) ** 2 + 4.0 * NEGLIGIBLE)
    for f in range(size):
        b = log_w[f]
        log_w[f] = -0.5 * b * b if b > far else log_ndtr(-b)  # beyond `far` only its being negligible matters


@njit(cache=True, nogil=True)
def select(size, log_w, active, cumulative):
    """The facets that matter, into `active`, with running sums of exp(log_w - top); how many, and ln of the total.

    What lies NEGLIGIBLE below the top could not change the total in double precision.
    """
    top = -np.inf
    for f in range(size):
        top = max(top, log_w[f])
    count, total = 0, 0.0
    for f in range(size):
        if log_w[f] >= top - NEGLIGIBLE and top > -np.inf:  # far out, the difference is lost in rounding
            total += exp(log_w[f] - top)
            active[count], cumulative[count] = f, total
            count += 1
    return count, top + log(total) if count else -np.inf


@njit(cache=True, nogil=True)
def pick(state, count, active, cumulative):
    target = uniform(state) * cumulative[count - 1]
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] > target:
            high = middle
        else:
            low = middle + 1
    return active[low]


@njit(cache=True, nogil=True)
def dot(f, indptr, indices, data, vector):
    total = 0.0
    for p in range(indptr[f], indptr[f + 1]):
        total += data[p] * vector[indices[p]]
    return total


@njit(cache=True, nogil=True)
def _count_behind(active, indptr, indices, data, theta):
    """N(theta), the number of facets with y @ theta > 0."""
    behind = 0
    for f in active:
        behind += dot(f, indptr, indices, data, theta) > 0.0
    return behind


@njit(cache=True, nogil=True)
def known_exits(size, indptr, indices, data, base, directions, exits, through):
    """Lower exits[r] to where base + s directions[r] leaves the cone through a known facet; through[r] says which."""
    gap = np.empty(size)
    for f in range(size):
        gap[f] = max(0.0, -dot(f, indptr, indices, data, base))
    for r in range(len(directions)):
        for f in range(size):
            slope = dot(f, indptr, indices, data, directions[r])
            if slope > 0.0 and gap[f] < exits[r] * slope:
                exits[r], through[r] = gap[f] / slope, f


@njit(cache=True, nogil=True)
def weigh(size, gap, width, eta, log_w):
    """ln Phi(-b_f) at another eta."""
    for f in range(size):
        log_w[f] = log_ndtr(-gap[f] * sqrt(eta / width[f]))


@njit(cache=True, nogil=True)
def _push_diagonal(state, f, indptr, indices, data, theta_hat, variance, eta, gap, width, theta):
    """Theta ~ N(theta_hat, S) conditioned on y_f @ theta > 0: a free draw, then moved along S y_f."""
    sigma = sqrt(width[f] / eta)
    t = draw_tail(state, gap[f] / sigma)
    fill_normals(state, theta)
    for i in range(len(theta)):
        theta[i] *= sqrt(variance[i] / eta)
    move = (t - dot(f, indptr, indices, data, theta) / sigma) / sigma
    for i in range(len(theta)):
        theta[i] += theta_hat[i]
    for p in range(indptr[f], indptr[f + 1]):
        theta[indices[p]] += move * variance[indices[p]] / eta * data[p]


@njit(cache=True, nogil=True)
def _push_dense(state, f, indptr, indices, data, theta_hat, L, eta, gap, width, theta):
    """The same under S = L L' / eta: in w-space the half-space is a @ w > b with a = L' y / |L' y|."""
    d = len(theta)
    sigma = sqrt(width[f] / eta)
    t = draw_tail(state, gap[f] / sigma)
    a, w = np.zeros(d), np.empty(d)
    for p in range(indptr[f], indptr[f + 1]):
        for j in range(d):
            a[j] += data[p] * L[indices[p], j]
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
            theta[i] += L[i, j] * w[j]


@njit(cache=True, nogil=True)
def _inside(theta, low, high):
    inside = True
    for i in range(len(theta)):
        inside &= low[i] <= theta[i] <= high[i]
    return inside


@njit(cache=True, nogil=True)
def karp_luby(
    state, size, indptr, indices, data, theta_hat, variance, L, eta, gap, width, log_w, space, low, high, cap, thetas
):
    """Fill `thetas` with draws from the belief restricted to the union of the half-spaces (and to a box).

    Pick a facet by weight, draw theta behind it, keep it with probability 1 / N(theta) if it lies in the box.
    Returns how many rows were filled, the number of proposals, the sum and sum of squares of 1{box} / N, and
    ln sum_f w_f. `L` with zero rows means a diagonal belief, `low` of length zero no box; `space` is scratch.
    """
    cumulative, active = space[0], space[1].view(np.int64)
    count, log_mass = select(size, log_w, active, cumulative)
    filled, proposals, total, squares = 0, 0, 0.0, 0.0
    while count > 0 and filled < len(thetas) and proposals < cap:
        theta = thetas[filled]
        f = pick(state, count, active, cumulative)
        if len(L) == 0:
            _push_diagonal(state, f, indptr, indices, data, theta_hat, variance, eta, gap, width, theta)
        else:
            _push_dense(state, f, indptr, indices, data, theta_hat, L, eta, gap, width, theta)
        proposals += 1
        if len(low) > 0 and not _inside(theta, low, high):
            continue
        share = 1.0 / max(1, _count_behind(active[:count], indptr, indices, data, theta))
        total += share
        squares += share * share
        filled += uniform(state) < share
    return filled, proposals, total, squares, log_mass


@njit(cache=True, nogil=True)
def draw_box(state, mean, deviation, low, high, theta):
    """Independent normals, each conditioned on its interval."""
    fill_normals(state, theta)
    for i in range(len(theta)):
        value = mean[i] + deviation[i] * theta[i]
        if not low[i] <= value <= high[i]:  # replacing a miss by an exact draw keeps the law exact
            x = draw_interval(state, (low[i] - mean[i]) / deviation[i], (high[i] - mean[i]) / deviation[i])
            value = min(max(mean[i] + deviation[i] * x, low[i]), high[i])
        theta[i] = value


@njit(cache=True, nogil=True)
def draw_boxes(state, mean, deviation, low, high, thetas):
    """One `draw_box` per row."""
    for r in range(len(thetas)):
        draw_box(state, mean, deviation, low, high, thetas[r])


@njit(cache=True, nogil=True)
def rows_equal_to(z, answers):
    """How many of the answers are z."""
    count = 0
    for r in range(len(answers)):
        same = True
        for i in range(len(z)):
            if answers[r, i] != z[i]:
                same = False
                break
        count += same
    return count

"""Compiled loops over known facets for a diagonal belief in a box; `boxes` says what is computed.

`normal_in_box` is theta_hat, standard deviations, and the ends of the box. Of facet f, `free[p]` marks entries of F and
the others are in E; the rows of `tilt` are kappa, sigma (0 where F is empty), b, s_0, ln M, the tilted mean of s, and
its standard deviation (0 for facets that are passed over quickly). `parts` holds what every entry of E adds to ln M,
and to that mean.
"""

from __future__ import annotations

import numpy as np

from combopeps._compiled import exp, log, njit
from combopeps._normal import draw_interval, draw_tail, log_mills
from combopeps.cone._kernels import NEGLIGIBLE, dot
from combopeps.streams import fill_normals, normal, uniform


@njit(cache=True, nogil=True)
def draw_box(state, mean, deviation, low, high, theta):
    """Independent normals, each conditioned on its interval."""
    fill_normals(state, theta)
    for i in range(len(theta)):
        value = mean[i] + deviation[i] * theta[i]
        if deviation[i] == 0.0:  # a point
            value = min(max(mean[i], low[i]), high[i])
        elif value < low[i] == mean[i] and high[i] == np.inf:  # half a normal
            value = 2.0 * low[i] - value
        elif not low[i] <= value <= high[i]:  # replacing a miss by an exact draw keeps the law exact
            x = draw_interval(state, (low[i] - mean[i]) / deviation[i], (high[i] - mean[i]) / deviation[i])
            value = min(max(mean[i] + deviation[i] * x, low[i]), high[i])
        theta[i] = value


@njit(cache=True, nogil=True)
def draw_boxes(state, mean, deviation, low, high, thetas):
    """One `draw_box` per row."""
    for r in range(len(thetas)):
        draw_box(state, mean, deviation, low, high, thetas[r])


@njit(cache=True, nogil=True)
def _select(size, log_w, active, cumulative):
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
def _pick(state, count, active, cumulative):
    target = uniform(state) * cumulative[count - 1]
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] > target:
            high = middle
        else:
            low = middle + 1
    return active[low]


@njit(cache=True, nogil=True, inline="always")
def _from_centre(f, rows, free, theta, sigma, centre):
    """(s_E - s_0) / sigma."""
    _, indptr, indices, data = rows
    s = 0.0
    for p in range(indptr[f], indptr[f + 1]):
        if not free[p]:
            s += data[p] * theta[indices[p]]
    return (s - centre[f]) / sigma[f]


@njit(cache=True, nogil=True)
def _push(state, f, rows, free, normal_in_box, tilt, theta):
    """Draw the coordinates in F again, behind the facet; are they in the box?"""
    _, indptr, indices, data = rows
    theta_hat, deviation, low, high = normal_in_box
    _, sigma, near, centre, _, _, _ = tilt
    b = near[f] - _from_centre(f, rows, free, theta, sigma, centre)
    along = 0.0
    for p in range(indptr[f], indptr[f + 1]):
        if free[p]:
            noise = deviation[indices[p]] * normal(state)
            theta[indices[p]] = theta_hat[indices[p]] + noise
            along += data[p] * noise
    move = (draw_tail(state, b) - along / sigma[f]) / sigma[f]
    inside = True
    for p in range(indptr[f], indptr[f + 1]):
        if free[p]:
            i = indices[p]
            theta[i] += move * data[p] * deviation[i] ** 2
            inside &= low[i] <= theta[i] <= high[i]
    return inside


@njit(cache=True, nogil=True)
def _log_ratio(u, b):
    """ln of the tangent to Phi(-b) at u = 0 over Phi(u - b), without the difference of two squares of b."""
    lead = exp(-log_mills(b)) - b
    return max(0.0, lead * u + 0.5 * u * u - log_mills(b - u) + log_mills(b))


@njit(cache=True, nogil=True)
def karp_luby(state, rows, normal_in_box, tilt, free, cap, thetas):
    """Fill `thetas` with draws from the belief in the box, restricted to the union of the half-spaces.

    Returns how many rows were filled, the number of proposals, the sum and sum of squares of the probabilities of
    keeping them, and ln sum_f M_f.
    """
    size, indptr, indices, data = rows
    theta_hat, deviation, low, high = normal_in_box
    kappa, sigma, near, centre, log_m, _, _ = tilt
    cumulative, active = np.empty(size), np.empty(size, dtype=np.int64)
    count, log_mass = _select(size, log_m, active, cumulative)
    filled, proposals, total, squares = 0, 0, 0.0, 0.0
    mean = theta_hat.copy()
    while count > 0 and filled < len(thetas) and proposals < cap:
        theta = thetas[filled]
        f = _pick(state, count, active, cumulative)
        for p in range(indptr[f], indptr[f + 1]):
            if not free[p]:
                mean[indices[p]] += kappa[f] * data[p] * deviation[indices[p]] ** 2
        draw_box(state, mean, deviation, low, high, theta)
        for p in range(indptr[f], indptr[f + 1]):
            mean[indices[p]] = theta_hat[indices[p]]
        proposals += 1
        if sigma[f] > 0.0 and not _push(state, f, rows, free, normal_in_box, tilt, theta):
            continue
        behind, ratio = False, 0.0
        for g in active[:count]:
            value = dot(g, indptr, indices, data, theta)
            if sigma[g] == 0.0:
                behind |= value > 0.0
                ratio += exp(min(kappa[g] * value, 700.0))
            elif value > 0.0 or g == f:  # behind f it is but for rounding
                behind = True
                u = _from_centre(g, rows, free, theta, sigma, centre)
                ratio += exp(min(_log_ratio(u, near[g]), 700.0))
        if behind:
            total += 1.0 / ratio
            squares += 1.0 / ratio**2
            filled += uniform(state) * ratio < 1.0
    return filled, proposals, total, squares, log_mass

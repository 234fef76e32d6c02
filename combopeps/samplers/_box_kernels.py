"""Compiled loops over known facets for a diagonal belief in a box; `boxes` says what is computed.

`normal_in_box` is theta_hat, standard deviations, and the ends of the box. Of facet f, `free[p]` marks entries of F and
the others are in E; the rows of `tilt` are kappa, sigma (0 where F is empty), b, s_0 and ln M.
"""

from __future__ import annotations

import numpy as np

from combopeps._compiled import exp, log, njit, sqrt
from combopeps._normal import draw_interval, draw_tail, log_interval, log_mills, log_ndtr, tilted_moments
from combopeps._random import fill_normals, normal, uniform
from combopeps.cone._kernels import NEGLIGIBLE, dot

_ROOM = 2.0  # standard deviations to the ends of its interval, from which on a coordinate may be drawn without it
KAPPA, LOG_M = 0, 4  # rows of `tilt`
_ROUNDING = 1e-14  # of the logarithms: far out, where they say nothing, F is the safe choice


@njit(cache=True, nogil=True)
def draw_box(state, mean, deviation, low, high, theta):
    """Independent normals, each conditioned on its interval."""
    fill_normals(state, theta)
    for i in range(len(theta)):
        value = mean[i] + deviation[i] * theta[i]
        if deviation[i] == 0.0:  # a point
            value = min(max(mean[i], low[i]), high[i])
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


@njit(cache=True, nogil=True)
def follow(normal_in_box, seen, index, log_box, stale):
    """ln P(theta_i in its interval) of coordinates that have changed since they were last seen; facets get stale."""
    theta, deviation, low, high = normal_in_box
    column, facet, indexed = index
    for i in range(len(theta)):
        if theta[i] == seen[0, i] and deviation[i] == seen[1, i]:
            continue
        seen[0, i], seen[1, i] = theta[i], deviation[i]
        log_box[i] = 0.0
        if deviation[i] > 0.0:
            log_box[i] = log_interval((low[i] - theta[i]) / deviation[i], (high[i] - theta[i]) / deviation[i])
        for p in range(column[i], column[i + 1]):
            stale[facet[p]] = True
    stale[indexed:] = True  # nobody knows yet which coordinates belong to them


@njit(cache=True, nogil=True)
def refresh(rows, normal_in_box, log_w, log_box, stale, tilt, free):
    """Renew what is stale, but for facets NEGLIGIBLE below the nearest one: those stay stale, with ln M_f = -inf."""
    size, indptr, indices, _ = rows
    nearest, log_m = np.argmax(log_w[:size]), tilt[LOG_M]
    least, outside = -np.inf, log_box.sum()
    for step in range(-1, size):
        f = nearest if step < 0 else step
        if stale[f]:
            bound = log_w[f] - outside
            if bound >= least:
                bound = log_w[f]
                for p in range(indptr[f], indptr[f + 1]):
                    bound -= log_box[indices[p]]
            if bound < least:
                log_m[f] = -np.inf
            else:
                _best_tilt(f, rows, normal_in_box, log_box, tilt)
                _split(f, rows, normal_in_box, log_box, tilt, free)
                stale[f] = False
        if step < 0:
            least = log_m[f] - NEGLIGIBLE


@njit(cache=True, nogil=True)
def _moments(i, kappa, y, normal_in_box):
    """Of coordinate i tilted by kappa y: `tilted_moments` in units of its standard deviation."""
    theta, deviation, low, high = normal_in_box
    s = deviation[i]
    return tilted_moments((low[i] - theta[i]) / s, (high[i] - theta[i]) / s, kappa * y * s)


@njit(cache=True, nogil=True)
def _tilted(kappa, f, rows, normal_in_box, log_box):
    """ln E[exp(kappa y_f @ theta)] under the belief in the box, with its first two derivatives in kappa."""
    _, indptr, indices, data = rows
    theta, deviation = normal_in_box[0], normal_in_box[1]
    value, slope, curvature = 0.0, 0.0, 0.0
    for p in range(indptr[f], indptr[f + 1]):
        i, y = indices[p], data[p]
        mass, mean, variance = _moments(i, kappa, y, normal_in_box)
        value += kappa * y * theta[i] + mass - log_box[i]
        slope += y * (theta[i] + deviation[i] * mean)
        curvature += y * y * deviation[i] * deviation[i] * variance
    return value, slope, curvature


@njit(cache=True, nogil=True)
def _best_tilt(f, rows, normal_in_box, log_box, tilt):
    """kappa_f >= 0 near the minimum of the convex ln M_f with all of f in E, by Newton steps inside a bracket."""
    _, indptr, indices, data = rows
    _, _, low, high = normal_in_box
    kappa, log_m = tilt[KAPPA], tilt[LOG_M]
    most = 0.0
    for p in range(indptr[f], indptr[f + 1]):
        most += data[p] * (high[indices[p]] if data[p] > 0.0 else low[indices[p]])
    if not most > 0.0:  # y_f @ theta > 0 nowhere in the box
        kappa[f], log_m[f] = 0.0, -np.inf
        return
    left, right = 0.0, np.inf
    k = kappa[f]
    for _ in range(40):
        _, slope, curvature = _tilted(k, f, rows, normal_in_box, log_box)
        if abs(slope) < 0.02 * sqrt(curvature) or (k == 0.0 and slope >= 0.0):
            break
        if slope < 0.0:
            left = k
        else:
            right = k
        step = k - slope / curvature
        if not left < step < right:
            step = 2.0 * k + 1.0 / sqrt(curvature) if right == np.inf else 0.5 * (left + right)
        k = max(step, 0.0)
    kappa[f], log_m[f] = k, _tilted(k, f, rows, normal_in_box, log_box)[0]


@njit(cache=True, nogil=True)
def _split(f, rows, normal_in_box, log_box, tilt, free):
    """Put into F what the box hardly touches under the tilt, where that makes M_f smaller."""
    _, indptr, indices, data = rows
    theta, deviation, low, high = normal_in_box
    kappa, sigma, near, centre, log_m = tilt
    begin, end, k = indptr[f], indptr[f + 1], kappa[f]
    sigma[f] = 0.0
    variance, drift, s0, boxed = 0.0, 0.0, 0.0, 0.0
    for p in range(begin, end):
        i, y = indices[p], data[p]
        s = deviation[i]
        tip = theta[i] + k * y * s * s
        free[p] = low[i] + _ROOM * s <= tip <= high[i] - _ROOM * s
        if free[p]:
            variance += y * y * s * s
            drift += y * theta[i]
            boxed += log_box[i]
        else:
            s0 += y * (theta[i] + s * _moments(i, k, y, normal_in_box)[1])
    if variance > 0.0 and log_m[f] > -np.inf:
        spread = sqrt(variance)
        b = -(drift + s0) / spread
        k = exp(-log_mills(b)) / spread
        value = log_ndtr(-b) - boxed
        for p in range(begin, end):
            if not free[p]:
                i, y = indices[p], data[p]
                value += k * y * theta[i] + _moments(i, k, y, normal_in_box)[0] - log_box[i]
        value -= k * s0
        if value < log_m[f] + _ROUNDING * abs(log_m[f]):
            kappa[f], sigma[f], near[f], centre[f], log_m[f] = k, spread, b, s0, value
    if sigma[f] == 0.0:
        free[begin:end] = False


@njit(cache=True, nogil=True)
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
    _, sigma, near, centre, _ = tilt
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
    kappa, sigma, near, centre, log_m = tilt
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

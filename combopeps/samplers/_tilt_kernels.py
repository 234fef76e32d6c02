"""Compiled: the tilts of known facets, for a diagonal belief in a box; `_box_kernels` says what is what."""

from __future__ import annotations

import numpy as np

from combopeps._compiled import exp, log, njit, sqrt
from combopeps._normal import log_interval, log_mills, log_phi, tilted_mean, tilted_moments
from combopeps.cone._kernels import NEGLIGIBLE

_ROOM = 2.0  # standard deviations to the ends of its interval, from which on a coordinate may be drawn without it
_LESS_ROOM = 1.5  # ... once it is
_TOLERANCE, _MOST = 0.4, 2.0  # standard deviations of s from the best tilt: for the nearest facet, and for any
_NEAR = 0.25  # ... of these, where the search for a better one ends
_FEW = 4  # coordinates that have changed, for which it pays to carry M_f over from one to the next
_LITTLE = 0.0  # nats below the nearest facet for all together that are passed over quickly: proposals are cheap
KAPPA, LOG_M, SCALE = 0, 4, 6  # rows of `tilt`
_ROUNDING = 1e-14  # of the logarithms: far out, where they say nothing, F is the safe choice


@njit(cache=True, nogil=True)
def follow(rows, normal_in_box, seen, index, gap, log_w, log_box, top, stale, tilt, free, parts):
    """Carry M_f over to the coordinates that have changed since they were last seen; where that is hard, f gets stale.

    kappa, s_0 and the split stay as they are: the bound holds for any of them, and is good while the tilted mean of s
    stays near s_0.
    """
    size = rows[0]
    theta, deviation, low, high = normal_in_box
    column, facet, indexed = index
    changed, count = np.empty(len(theta), dtype=np.int64), 0
    for i in range(len(theta)):
        if theta[i] == seen[0, i] and deviation[i] == seen[1, i]:
            continue
        seen[0, i], seen[1, i] = theta[i], deviation[i]
        changed[count] = i
        count += 1
        log_box[i] = 0.0
        if deviation[i] > 0.0:
            log_box[i] = log_interval((low[i] - theta[i]) / deviation[i], (high[i] - theta[i]) / deviation[i])
    few, little = count <= _FEW, top - log(max(size, 1)) - _LITTLE
    for i in changed[:count]:
        for q in range(column[i], column[i + 1]):
            f = facet[q]
            if not stale[f]:
                bound = _quick_bound(f, rows, log_w, log_box)
                if bound >= little or not _free_all(f, rows, normal_in_box, gap, bound, tilt, free):
                    stale[f] = not few or not _carry_over(f, i, rows, normal_in_box, log_box, top, tilt, free, parts)
    for f in range(indexed, size):  # nobody has noted yet which coordinates belong to them
        for i in changed[:count]:
            if stale[f]:
                break
            stale[f] = not few or not _carry_over(f, i, rows, normal_in_box, log_box, top, tilt, free, parts)


@njit(cache=True, nogil=True, inline="always")
def _quick_bound(f, rows, log_w, log_box):
    """ln M_f with all of f in F: ln (Phi(-b) / P(box))."""
    bound = log_w[f]
    for p in range(rows[1][f], rows[1][f + 1]):
        bound -= log_box[rows[2][p]]
    return bound


@njit(cache=True, nogil=True, inline="always")
def _carry_over(f, i, rows, normal_in_box, log_box, top, tilt, free, parts):
    """Renew what M_f owes to coordinate i; is the bound still a good one?"""
    _, indptr, indices, data = rows
    kappa, _, _, _, log_m, drawn, scale = tilt
    for p in range(indptr[f], indptr[f + 1]):
        if indices[p] == i:
            break
    else:
        return True
    if log_m[f] == -np.inf:  # nowhere in the box
        return True
    if scale[f] == 0.0:  # it was passed over quickly
        return False
    if free[p]:
        return _move_free(f, rows, normal_in_box, log_box, top, tilt, free, parts)
    before, pull = parts[0, p], parts[1, p]
    _enter(p, kappa[f], i, data[p], normal_in_box, log_box, parts)
    log_m[f] += parts[0, p] - before
    drawn[f] += parts[1, p] - pull
    return _is_good(f, top, tilt)


@njit(cache=True, nogil=True, inline="always")
def _is_good(f, top, tilt):
    """ln M_f is near the lowest there is, as seen from the largest of all."""
    kappa, sigma, _, centre, log_m, drawn, scale = tilt
    if sigma[f] == 0.0 and kappa[f] == 0.0:
        return drawn[f] >= 0.0
    return abs(drawn[f] - centre[f]) <= _tolerance(log_m[f], top) * scale[f] and log_m[f] < np.inf


@njit(cache=True, nogil=True, inline="always")
def _tolerance(log_m, top):
    """Standard deviations of s from the best tilt that do no harm: t of them add t^2 / 2 to ln M."""
    return min(_TOLERANCE * (1.0 + max(0.0, top - log_m)), _MOST)


@njit(cache=True, nogil=True)
def _move_free(f, rows, normal_in_box, log_box, top, tilt, free, parts):
    """M_f anew, with the same split and s_0; is the bound a good one?"""
    _, indptr, indices, data = rows
    theta, deviation = normal_in_box[0], normal_in_box[1]
    kappa, sigma, near, centre, log_m, drawn, scale = tilt
    variance, drift, boxed = 0.0, 0.0, 0.0
    for p in range(indptr[f], indptr[f + 1]):
        if free[p]:
            i, y = indices[p], data[p]
            variance += y * y * deviation[i] * deviation[i]
            drift += y * theta[i]
            boxed += log_box[i]
    if not variance > 0.0:
        return False
    spread = sqrt(variance)
    b = -(drift + centre[f]) / spread
    ratio = log_mills(b)
    k = exp(-ratio) / spread
    value, mean = ratio + log_phi(b) - boxed - k * centre[f], 0.0
    for p in range(indptr[f], indptr[f + 1]):
        if not free[p]:
            _enter(p, k, indices[p], data[p], normal_in_box, log_box, parts)
            value += parts[0, p]
            mean += parts[1, p]
    kappa[f], sigma[f], near[f], log_m[f], drawn[f], scale[f] = k, spread, b, value, mean, spread
    for p in range(indptr[f], indptr[f + 1]):
        if free[p] and not _has_room(_LESS_ROOM, indices[p], k * data[p], normal_in_box):
            return False
    return _is_good(f, top, tilt)


@njit(cache=True, nogil=True, inline="always")
def _has_room(room, i, tilt, normal_in_box):
    """Is the tilted coordinate so many standard deviations from the ends of its interval?"""
    theta, deviation, low, high = normal_in_box
    s = deviation[i]
    return low[i] + room * s <= theta[i] + tilt * s * s <= high[i] - room * s


@njit(cache=True, nogil=True, inline="always")
def _enter(p, kappa, i, y, normal_in_box, log_box, parts):
    """What coordinate i, at entry p of its facet, adds to ln M and to the tilted mean of s."""
    theta, deviation, low, high = normal_in_box
    s = deviation[i]
    mass, mean = tilted_mean((low[i] - theta[i]) / s, (high[i] - theta[i]) / s, kappa * y * s)
    parts[0, p] = kappa * y * theta[i] + mass - log_box[i]
    parts[1, p] = y * (theta[i] + s * mean)


@njit(cache=True, nogil=True)
def refresh(rows, normal_in_box, gap, log_w, log_box, stale, tilt, free, parts):
    """Renew what is stale, but for facets NEGLIGIBLE below the nearest one: those stay stale, with ln M_f = -inf.

    Those that have little weight together take the bound that is found quickest. Returns ln M of the nearest one.
    """
    size = rows[0]
    nearest, log_m = np.argmax(log_w[:size]), tilt[LOG_M]
    top, least, little, outside = -np.inf, -np.inf, -np.inf, log_box.sum()
    for step in range(-1, size):
        f = nearest if step < 0 else step
        if stale[f]:
            bound = log_w[f] - outside
            if bound >= least:
                bound = _quick_bound(f, rows, log_w, log_box)
            if bound < least:
                log_m[f] = -np.inf
            else:
                if bound >= little or not _free_all(f, rows, normal_in_box, gap, bound, tilt, free):
                    _best_tilt(f, rows, normal_in_box, log_box, top, tilt)
                    _split(f, rows, normal_in_box, log_box, top, tilt, free, parts)
                stale[f] = False
        if step < 0:
            top = log_m[f]
            least, little = top - NEGLIGIBLE, top - log(size) - _LITTLE
    return top


@njit(cache=True, nogil=True)
def _free_all(f, rows, normal_in_box, gap, bound, tilt, free):
    """The bound with all of f in F; not where a coordinate has no width, which then cannot be drawn anew."""
    _, indptr, indices, data = rows
    deviation = normal_in_box[1]
    _, sigma, near, centre, log_m, _, scale = tilt
    variance = 0.0
    for p in range(indptr[f], indptr[f + 1]):
        s = deviation[indices[p]]
        if s == 0.0:
            return False
        variance += data[p] * data[p] * s * s
    free[indptr[f] : indptr[f + 1]] = True
    sigma[f] = sqrt(variance)
    near[f], centre[f], log_m[f], scale[f] = gap[f] / sigma[f], 0.0, bound, 0.0
    return True


@njit(cache=True, nogil=True, inline="always")
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
def _best_tilt(f, rows, normal_in_box, log_box, top, tilt):
    """kappa_f >= 0 near the minimum of the convex ln M_f with all of f in E, by Newton steps inside a bracket."""
    _, indptr, indices, data = rows
    _, _, low, high = normal_in_box
    kappa, log_m, scale = tilt[KAPPA], tilt[LOG_M], tilt[SCALE]
    most = 0.0
    for p in range(indptr[f], indptr[f + 1]):
        most += data[p] * (high[indices[p]] if data[p] > 0.0 else low[indices[p]])
    if not most > 0.0:  # y_f @ theta > 0 nowhere in the box
        kappa[f], log_m[f] = 0.0, -np.inf
        return
    left, right = 0.0, np.inf
    k = kappa[f]
    value, slope, curvature = _tilted(k, f, rows, normal_in_box, log_box)
    for _ in range(40):
        if abs(slope) < _NEAR * _tolerance(value, top) * sqrt(curvature) or (k == 0.0 and slope >= 0.0):
            break
        if slope < 0.0:
            left = k
        else:
            right = k
        step = k - slope / curvature
        if not left < step < right:
            step = 2.0 * k + 1.0 / sqrt(curvature) if right == np.inf else 0.5 * (left + right)
        k = max(step, 0.0)
        value, slope, curvature = _tilted(k, f, rows, normal_in_box, log_box)
    kappa[f], log_m[f], scale[f] = k, value, sqrt(curvature)


@njit(cache=True, nogil=True)
def _split(f, rows, normal_in_box, log_box, top, tilt, free, parts):
    """Put into F what the box hardly touches under the tilt, where that makes M_f smaller."""
    _, indptr, indices, data = rows
    theta, deviation = normal_in_box[0], normal_in_box[1]
    kappa, sigma, _, centre, log_m, drawn, scale = tilt
    begin, end = indptr[f], indptr[f + 1]
    tip, curvature, whole = kappa[f], scale[f], log_m[f]
    if whole == -np.inf:
        sigma[f], free[begin:end] = 0.0, False
        return
    s0, loose = 0.0, 0
    for p in range(begin, end):
        i, y = indices[p], data[p]
        s = deviation[i]
        free[p] = _has_room(_ROOM, i, tip * y, normal_in_box)
        loose += free[p] and s > 0.0
        if not free[p]:
            s0 += y * (theta[i] + s * _moments(i, tip, y, normal_in_box)[1])
    centre[f] = s0
    if loose > 0:
        _move_free(f, rows, normal_in_box, log_box, top, tilt, free, parts)
        if log_m[f] < whole + _ROUNDING * abs(whole):
            return
    kappa[f], sigma[f], centre[f], log_m[f], drawn[f], scale[f] = tip, 0.0, 0.0, whole, 0.0, curvature
    for p in range(begin, end):
        free[p] = False
        _enter(p, tip, indices[p], data[p], normal_in_box, log_box, parts)
        drawn[f] += parts[1, p]

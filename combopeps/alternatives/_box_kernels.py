"""Compiled loops over known facets for a diagonal belief in a box; `boxes` says what is computed.

`normal_in_box` is theta_hat, standard deviations, and the ends of the box. Of facet f, `free[p]` marks entries of F and
the others are in E; the rows of `tilt` are kappa, sigma (0 where F is empty), b, s_0, ln M, the tilted mean of s, and
its standard deviation (0 for facets that are passed over quickly). `parts` holds what every entry of E adds to ln M,
and to that mean.

Compiled: the tilts of known facets, for a diagonal belief in a box; `_box_kernels` says what is what.

Compiled loops for a full covariance in a box; `minimax` says what is computed.

Linear functions of theta, called rows here, have covariance C, means, and intervals that they must lie in. A factor is
(order, L, A, R, ends): the rows in the order in which they are drawn, those that earlier ones determine last; L of all
rows (m x r); and of the first r, in units of the diagonal of L, L itself without its diagonal, the covariance, and the
ends of the intervals counted from the means (2 x r). A tilt is mu and ln M.
"""

from __future__ import annotations

from math import inf

import numpy as np

from combopeps.alternatives._kernels import NEGLIGIBLE, dot
from combopeps.posterior.normal_tails import (
    draw_interval,
    draw_tail,
    interval_mean,
    interval_variance,
    log_interval,
    log_mills,
    log_phi,
    tilted_mean,
    tilted_moments,
)
from combopeps.random import fill_normals, normal, uniform
from combopeps.utils.jit import erfc, exp, log, njit, sqrt


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
def _tilted_coordinate(i, kappa, y, normal_in_box):
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
        mass, mean, variance = _tilted_coordinate(i, kappa, y, normal_in_box)
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
            s0 += y * (theta[i] + s * _tilted_coordinate(i, tip, y, normal_in_box)[1])
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


_DETERMINED = 1e-11  # share of its variance: a row that has no more left is a function of the rows before it
_STEPS = 200  # of Newton's method; ten are enough as a rule
_CLOSE, _FAIR = 1e-9, 1e-6  # largest gradients, relative to the shifts, at which it ends, and has arrived
_PLAIN, _SMALL, _ROOT_HALF = 5.0, 1e-290, sqrt(0.5)  # up to where plain masses may be multiplied
_SMALLEST = 1e-6  # step that it takes


@njit(cache=True, nogil=True)
def _truncated_moments(a, b):
    """Of a standard normal on [a, b]: ln of its mass, mean and variance, without cancellation far out."""
    mass = log_interval(a, b)
    if a > 0.0 and b == inf:
        mean = exp(-log_mills(a))
    elif b < 0.0 and a == -inf:
        mean = -exp(-log_mills(-b))
    else:
        mean = min(max(interval_mean(a, b, mass), a), b)
    return mass, mean, interval_variance(a, b, mass, mean)


@njit(cache=True, nogil=True)
def factorise(C, mean, low, high):
    """Cholesky's method, row by row: next the one least probably in its interval, at the means of those before it."""
    m = len(mean)
    order, L = np.arange(m), np.zeros((m, m))
    left, centre = np.diag(C).copy(), mean.copy()  # of each row, given those before: variance and mean
    r = 0
    while r < m:
        best, least, at = -1, inf, 0.0
        for k in range(r, m):
            row = order[k]
            if left[row] > _DETERMINED * C[row, row]:
                s = sqrt(left[row])
                mass, middle, _ = _truncated_moments((low[row] - centre[row]) / s, (high[row] - centre[row]) / s)
                if mass < least or best < 0:
                    best, least, at = k, mass, middle
        if best < 0:
            break
        order[r], order[best] = order[best], order[r]
        for j in range(r):
            L[r, j], L[best, j] = L[best, j], L[r, j]
        pivot, root = order[r], sqrt(left[order[r]])
        L[r, r] = root
        for k in range(r + 1, m):
            value = C[order[k], pivot]
            for j in range(r):
                value -= L[k, j] * L[r, j]
            value /= root
            L[k, r] = value
            left[order[k]] -= value * value
            centre[order[k]] += value * at
        r += 1
    A, ends = np.zeros((r, r)), np.empty((2, r))
    for k in range(r):
        row, root = order[k], L[k, k]
        ends[0, k], ends[1, k] = (low[row] - mean[row]) / root, (high[row] - mean[row]) / root
        for j in range(k):
            A[k, j] = L[k, j] / root
    unit = A + np.eye(r)
    return order, L[:, :r].copy(), A, np.dot(unit, unit.T), ends


@njit(cache=True, nogil=True)
def _look(R, ends, shift, mean, slope, gradient):
    """G and its gradient where the intervals are moved down by `shift`."""
    value = 0.0
    for k in range(len(shift)):
        mass, mean[k], variance = _truncated_moments(ends[0, k] - shift[k], ends[1, k] - shift[k])
        slope[k] = max(0.0, 1.0 - variance)
        value += mass - shift[k] * mean[k]
    for k in range(len(shift)):
        gradient[k] = np.dot(R[k], mean) - mean[k]
        value += 0.5 * mean[k] * gradient[k]
        gradient[k] -= shift[k]
    return value


@njit(cache=True, nogil=True)
def _solve(B, x):
    """B x = x for a positive definite B, whose upper half is overwritten; False where it is not."""
    r = len(x)
    for k in range(r):
        if not B[k, k] > 0.0:
            return False
        for i in range(k + 1, r):
            by = B[k, i] / B[k, k]
            x[i] -= by * x[k]
            for j in range(i, r):
                B[i, j] -= by * B[k, j]
    for k in range(r - 1, -1, -1):
        for j in range(k + 1, r):
            x[k] -= B[k, j] * x[j]
        x[k] /= B[k, k]
    return True


@njit(cache=True, nogil=True)
def saddle(A, R, ends, shift):
    """mu, ln M and whether they were found, by Newton's method on the convex G from `shift` on.

    With P_k the mean of a normal on the interval of row k moved down by shift_k, and 1 - slope_k its variance,

        G = P' (R - I) P / 2 - shift @ P + sum_k ln(mass of that interval),   dG/dP = (R - I) P - shift,

    and ln M is the least value of G. So any value bounds the probability; only draws need the least one.
    """
    r = len(shift)
    mean, slope, gradient, move, trial = np.empty(r), np.empty(r), np.empty(r), np.empty(r), np.empty(r)
    other_mean, other_slope, other_gradient = np.empty(r), np.empty(r), np.empty(r)
    B = np.empty((r, r))
    value = _look(R, ends, shift, mean, slope, gradient)
    for _ in range(_STEPS):
        steep = np.abs(gradient).max()
        if steep <= _CLOSE * (1.0 + np.abs(shift).max()):
            break
        for k in range(r):
            s = sqrt(slope[k])
            for j in range(k, r):
                B[k, j] = s * R[k, j] * sqrt(slope[j])
            B[k, k] += 1.0 - slope[k]
            move[k] = -s * gradient[k]
        if not _solve(B, move):
            break
        for k in range(r):
            move[k] *= sqrt(slope[k])  # of P; what it makes of the shift, to first order:
        for k in range(r):
            trial[k] = gradient[k] + np.dot(R[k], move) - move[k]
        descent = np.dot(gradient, move)
        size = 1.0
        while size > _SMALLEST:
            moved = _look(R, ends, shift + size * trial, other_mean, other_slope, other_gradient)
            if moved <= value + 1e-4 * size * descent or np.abs(other_gradient).max() < 0.5 * steep:
                break  # in the end rounding hides the descent, not that of the gradient
            size *= 0.5
        if not size > _SMALLEST:
            break
        shift += size * trial
        value, gradient[:] = moved, other_gradient
        mean[:], slope[:] = other_mean, other_slope
    arrived = np.abs(gradient).max() <= _FAIR * (1.0 + np.abs(shift).max())
    return np.dot(A.T, mean), value, arrived


@njit(cache=True, nogil=True)
def _propose(state, across, ends, mu, shift, z):
    """z_1, z_2, ... in turn, each from a normal around mu_k on the interval that is left to it; ln of p / proposal."""
    log_weight, mass, r = 0.0, 1.0, len(mu)
    shift[:] = mu
    fill_normals(state, z)
    for k in range(r):
        a, b = ends[0, k] - shift[k], ends[1, k] - shift[k]
        if not a < b:
            return -inf
        if not a <= z[k] <= b:  # replacing a miss by an exact draw keeps the law exact
            z[k] = draw_interval(state, a, b)
        if b == inf and a < _PLAIN and mass > _SMALL:  # a product takes less time than a sum of logarithms
            mass *= 0.5 * erfc(a * _ROOT_HALF)
        else:
            log_weight += log_interval(a, b)
        z[k] += mu[k]
        log_weight += mu[k] * (0.5 * mu[k] - z[k])
        for j in range(k + 1, r):
            shift[j] += across[k, j] * z[k]
    return log_weight + log(mass)


@njit(cache=True, nogil=True)
def draw(state, factor, tilt, normal_in_box, first, cap, thetas):
    """Fill `thetas` with draws of the rows from `first` on, in their intervals; how many, and the proposals made."""
    order, L, A, _, ends = factor
    mu, log_m = tilt
    mean, low, high = normal_in_box
    r, z, shift, across = len(mu), np.empty(len(mu)), np.empty(len(mu)), A.T.copy()
    filled, proposals = 0, 0
    while filled < len(thetas) and proposals < cap:
        proposals += 1
        if log(1.0 - uniform(state)) > _propose(state, across, ends, mu, shift, z) - log_m:
            continue
        inside = True
        for k in range(len(order)):
            row = order[k]
            value = mean[row] + np.dot(L[k], z)
            if k < r:  # but for rounding
                value = min(max(value, low[row]), high[row])
            inside &= low[row] <= value <= high[row]
            if row >= first:
                thetas[filled, row - first] = value
        filled += inside
    return filled, proposals


@njit(cache=True, nogil=True)
def count_behind(rows, numbers, thetas, behind):
    """How many of the facets with these numbers each theta lies behind."""
    _, indptr, indices, data = rows
    for r in range(len(thetas)):
        behind[r] = 0
        for f in numbers:
            behind[r] += dot(f, indptr, indices, data, thetas[r]) > 0.0


@njit(cache=True, nogil=True)
def possible(rows, low, high):
    """Facets with y @ theta > 0 somewhere in the box."""
    size, indptr, indices, data = rows
    somewhere = np.empty(size, dtype=np.bool_)
    for f in range(size):
        most = 0.0
        for p in range(indptr[f], indptr[f + 1]):
            most += data[p] * (high[indices[p]] if data[p] > 0.0 else low[indices[p]])
        somewhere[f] = most > 0.0
    return somewhere

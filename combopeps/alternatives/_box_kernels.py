"""Compiled loops for normal distributions in a box; `truncated_normal` derives what is computed.

Independent components (`karp_luby_in_box` and the functions before and after it). `normal_in_box` is the tuple of
theta_hat, standard deviations, and lower and upper ends of the box. The coordinates of facet f are split into F and E:
`free[p]` marks the entries in F. `tilt` has seven rows with one entry per facet:

    kappa, sigma (0 where F is empty), b, s_0, ln M, the tilted mean of s, its standard deviation

where the last one is 0 for facets that have the bound with all coordinates in F. `terms` holds what every entry of E
adds to ln M (first row) and to the tilted mean of s (second row). A facet is stale when its tilt is to be recomputed.

General covariances (from `factorise` on). Linear functions of theta, called rows, have a covariance C, means, and
intervals that they must lie in. A factor is (order, L, A, R, ends): the rows in the order in which they are drawn,
those that earlier ones determine last; L of all rows (m x r); and of the first r, in units of the diagonal of L, L
itself without its diagonal, the covariance, and the ends of the intervals relative to the means (2 x r). A tilt is
(mu, ln M).
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

KAPPA, LOG_M, S_STD = 0, 4, 6  # rows of `tilt`

_FREE_MARGIN = 2.0  # standard deviations to the ends of its interval, from which on a coordinate may enter F
_STAY_FREE_MARGIN = 1.5  # the same for a coordinate that is in F to stay there
_TILT_TOLERANCE = 0.4  # standard deviations of s from the best tilt, for the facet of largest weight
_MAX_TILT_TOLERANCE = 2.0  # the same for facets of small weight
_NEWTON_TOLERANCE = 0.25  # fraction of the tolerance at which the search for the best tilt stops
_MAX_CHANGED = 4  # changed coordinates for which updating M_f costs less than recomputing it
_LOG_ROUNDING = 1e-14  # relative; where logarithms differ by less, F is preferred

_MIN_VARIANCE_SHARE = 1e-11  # a row with a smaller share of its variance left is a function of the previous rows
_MAX_NEWTON_STEPS = 200  # about ten are enough in most cases
_GRADIENT_STOP, _GRADIENT_ACCEPT = 1e-9, 1e-6  # relative to the shifts: where the search stops, and where it succeeded
_MIN_NEWTON_STEP = 1e-6
_MAX_PLAIN_BOUND, _MIN_PLAIN_MASS = 5.0, 1e-290  # range in which masses are multiplied, not their logarithms added
_ROOT_HALF = sqrt(0.5)


@njit(inner=True)
def draw_truncated_normal(state, mean, deviation, low, high, theta):
    """Draw independent normals, each conditioned on its interval, into `theta`."""
    fill_normals(state, theta)
    for i in range(len(theta)):
        value = mean[i] + deviation[i] * theta[i]
        if deviation[i] == 0.0:
            value = min(max(mean[i], low[i]), high[i])
        elif value < low[i] == mean[i] and high[i] == np.inf:  # half a normal
            value = 2.0 * low[i] - value
        elif not low[i] <= value <= high[i]:  # replacing a miss by an exact draw keeps the law exact
            x = draw_interval(state, (low[i] - mean[i]) / deviation[i], (high[i] - mean[i]) / deviation[i])
            value = min(max(mean[i] + deviation[i] * x, low[i]), high[i])
        theta[i] = value


@njit
def draw_truncated_normals(state, mean, deviation, low, high, thetas):
    """Call `draw_truncated_normal` for every row."""
    for r in range(len(thetas)):
        draw_truncated_normal(state, mean, deviation, low, high, thetas[r])


@njit(inner=True)
def _list_facets(size, log_w, active, cumulative):
    """List the facets of non-negligible weight in `active`, with running sums of exp(log_w - top).

    Returns their number and ln of the total. Facets NEGLIGIBLE below the top cannot change it in double precision.
    """
    top = -np.inf
    for f in range(size):
        top = max(top, log_w[f])
    count, total = 0, 0.0
    for f in range(size):
        if log_w[f] >= top - NEGLIGIBLE and top > -np.inf:  # >=: top - 50 may round to top
            total += exp(log_w[f] - top)
            active[count], cumulative[count] = f, total
            count += 1
    return count, top + log(total) if count else -np.inf


@njit(inner=True)
def _pick_facet(state, count, active, cumulative):
    target = uniform(state) * cumulative[count - 1]
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] > target:
            high = middle
        else:
            low = middle + 1
    return active[low]


@njit(inline="always", inner=True)
def _standardised_shift(f, rows, free, theta, sigma, centre):
    """Return u = (s_E - s_0) / sigma."""
    _, indptr, indices, data = rows
    s = 0.0
    for p in range(indptr[f], indptr[f + 1]):
        if not free[p]:
            s += data[p] * theta[indices[p]]
    return (s - centre[f]) / sigma[f]


@njit(inner=True)
def _draw_free_coordinates(state, f, rows, free, normal_in_box, tilt, theta):
    """Draw the coordinates in F conditioned on y_f @ theta > 0; return whether they are in the box."""
    _, indptr, indices, data = rows
    theta_hat, deviation, low, high = normal_in_box
    _, sigma, distance, centre, _, _, _ = tilt
    b = distance[f] - _standardised_shift(f, rows, free, theta, sigma, centre)
    along = 0.0
    for p in range(indptr[f], indptr[f + 1]):
        if free[p]:
            noise = deviation[indices[p]] * normal(state)
            theta[indices[p]] = theta_hat[indices[p]] + noise
            along += data[p] * noise
    # Only the component along the facet's normal is replaced: the others stay as drawn.
    move = (draw_tail(state, b) - along / sigma[f]) / sigma[f]
    inside = True
    for p in range(indptr[f], indptr[f + 1]):
        if free[p]:
            i = indices[p]
            theta[i] += move * data[p] * deviation[i] ** 2
            inside &= low[i] <= theta[i] <= high[i]
    return inside


@njit(inner=True)
def _log_ratio(u, b):
    """Return ln of the tangent Phi(-b) exp(u phi(b) / Phi(-b)) over Phi(u - b).

    Computed from Mills ratios, which avoids the difference of two squares of b.
    """
    lead = exp(-log_mills(b)) - b
    return max(0.0, lead * u + 0.5 * u * u - log_mills(b - u) + log_mills(b))


@njit
def karp_luby_in_box(state, rows, normal_in_box, tilt, free, cap, thetas):
    """Fill `thetas` with draws from the posterior in the box, restricted to the union of the half-spaces.

    Returns the number of rows filled, the number of proposals, the sum and sum of squares of the acceptance
    probabilities, and ln sum_f M_f.
    """
    size, indptr, indices, data = rows
    theta_hat, deviation, low, high = normal_in_box
    kappa, sigma, distance, centre, log_m, _, _ = tilt
    cumulative, active = np.empty(size), np.empty(size, dtype=np.int64)
    count, log_mass = _list_facets(size, log_m, active, cumulative)
    filled, proposals, acceptance_sum, acceptance_squares = 0, 0, 0.0, 0.0
    mean = theta_hat.copy()
    while count > 0 and filled < len(thetas) and proposals < cap:
        theta = thetas[filled]  # a rejected proposal is overwritten by the next one
        f = _pick_facet(state, count, active, cumulative)
        for p in range(indptr[f], indptr[f + 1]):
            if not free[p]:
                mean[indices[p]] += kappa[f] * data[p] * deviation[indices[p]] ** 2
        draw_truncated_normal(state, mean, deviation, low, high, theta)
        for p in range(indptr[f], indptr[f + 1]):
            mean[indices[p]] = theta_hat[indices[p]]
        proposals += 1
        # F is drawn last, since its distance from the facet depends on E.
        if sigma[f] > 0.0 and not _draw_free_coordinates(state, f, rows, free, normal_in_box, tilt, theta):
            continue
        in_union, ratio = False, 0.0
        for g in active[:count]:
            value = dot(g, indptr, indices, data, theta)
            if sigma[g] == 0.0:
                in_union |= value > 0.0
                ratio += exp(min(kappa[g] * value, 700.0))
            elif value > 0.0 or g == f:  # theta is in the half-space of f up to rounding
                in_union = True
                u = _standardised_shift(g, rows, free, theta, sigma, centre)
                ratio += exp(min(_log_ratio(u, distance[g]), 700.0))
        if in_union:
            acceptance_sum += 1.0 / ratio
            acceptance_squares += 1.0 / ratio**2
            filled += uniform(state) * ratio < 1.0
    return filled, proposals, acceptance_sum, acceptance_squares, log_mass


@njit
def update_bounds(rows, normal_in_box, last, index, gap, log_w, log_box, top, stale, tilt, free, terms):
    """Update M_f for the coordinates that have changed since the last call; facets where that is costly become stale.

    kappa, s_0 and the split into E and F stay as they are: the bound holds for any of them, and is tight while the
    tilted mean of s stays near s_0.
    """
    size = rows[0]
    theta, deviation, low, high = normal_in_box
    column, facet, indexed = index
    changed, count = np.empty(len(theta), dtype=np.int64), 0
    for i in range(len(theta)):
        if theta[i] == last[0, i] and deviation[i] == last[1, i]:
            continue
        last[0, i], last[1, i] = theta[i], deviation[i]
        changed[count] = i
        count += 1
        log_box[i] = 0.0
        if deviation[i] > 0.0:
            log_box[i] = log_interval((low[i] - theta[i]) / deviation[i], (high[i] - theta[i]) / deviation[i])
    few, small = count <= _MAX_CHANGED, top - log(max(size, 1))
    for i in changed[:count]:
        for q in range(column[i], column[i + 1]):
            f = facet[q]
            if not stale[f]:
                bound = _all_free_bound(f, rows, log_w, log_box)
                if bound >= small or not _use_all_free_bound(f, rows, normal_in_box, gap, bound, tilt, free):
                    stale[f] = not few or not _update_coordinate(
                        f, i, rows, normal_in_box, log_box, top, tilt, free, terms
                    )
    for f in range(indexed, size):  # not in the index yet
        for i in changed[:count]:
            if stale[f]:
                break
            stale[f] = not few or not _update_coordinate(f, i, rows, normal_in_box, log_box, top, tilt, free, terms)


@njit(inline="always", inner=True)
def _all_free_bound(f, rows, log_w, log_box):
    """Return ln M_f with all coordinates of f in F: ln (Phi(-b) / P(box))."""
    bound = log_w[f]
    for p in range(rows[1][f], rows[1][f + 1]):
        bound -= log_box[rows[2][p]]
    return bound


@njit(inline="always", inner=True)
def _update_coordinate(f, i, rows, normal_in_box, log_box, top, tilt, free, terms):
    """Update what coordinate i contributes to M_f; return whether the bound is still tight."""
    _, indptr, indices, data = rows
    kappa, _, _, _, log_m, s_mean, s_std = tilt
    for p in range(indptr[f], indptr[f + 1]):
        if indices[p] == i:
            break
    else:
        return True
    if log_m[f] == -np.inf:  # y_f @ theta > 0 nowhere in the box
        return True
    if s_std[f] == 0.0:  # the bound with all coordinates in F
        return False
    if free[p]:
        return _update_free(f, rows, normal_in_box, log_box, top, tilt, free, terms)
    old_term, old_mean = terms[0, p], terms[1, p]
    _set_terms(p, kappa[f], i, data[p], normal_in_box, log_box, terms)
    log_m[f] += terms[0, p] - old_term
    s_mean[f] += terms[1, p] - old_mean
    return _is_tight(f, top, tilt)


@njit(inline="always", inner=True)
def _is_tight(f, top, tilt):
    """Return whether ln M_f is near its minimum, with more tolerance for facets of small weight."""
    kappa, sigma, _, centre, log_m, s_mean, s_std = tilt
    if sigma[f] == 0.0 and kappa[f] == 0.0:
        return s_mean[f] >= 0.0
    return abs(s_mean[f] - centre[f]) <= _tilt_tolerance(log_m[f], top) * s_std[f] and log_m[f] < np.inf


@njit(inline="always", inner=True)
def _tilt_tolerance(log_m, top):
    """Return the accepted distance of s_0 from the tilted mean of s, in standard deviations of s.

    A distance of t adds t^2 / 2 to ln M.
    """
    return min(_TILT_TOLERANCE * (1.0 + max(0.0, top - log_m)), _MAX_TILT_TOLERANCE)


@njit(inner=True)
def _update_free(f, rows, normal_in_box, log_box, top, tilt, free, terms):
    """Recompute M_f with the same split and s_0; return whether the bound is tight."""
    _, indptr, indices, data = rows
    theta, deviation = normal_in_box[0], normal_in_box[1]
    kappa, sigma, distance, centre, log_m, s_mean, s_std = tilt
    variance, free_mean, log_free_mass = 0.0, 0.0, 0.0
    for p in range(indptr[f], indptr[f + 1]):
        if free[p]:
            i, y = indices[p], data[p]
            variance += y * y * deviation[i] * deviation[i]
            free_mean += y * theta[i]
            log_free_mass += log_box[i]
    if not variance > 0.0:
        return False
    spread = sqrt(variance)
    b = -(free_mean + centre[f]) / spread
    ratio = log_mills(b)
    k = exp(-ratio) / spread
    value, mean = ratio + log_phi(b) - log_free_mass - k * centre[f], 0.0
    for p in range(indptr[f], indptr[f + 1]):
        if not free[p]:
            _set_terms(p, k, indices[p], data[p], normal_in_box, log_box, terms)
            value += terms[0, p]
            mean += terms[1, p]
    kappa[f], sigma[f], distance[f], log_m[f], s_mean[f], s_std[f] = k, spread, b, value, mean, spread
    for p in range(indptr[f], indptr[f + 1]):
        if free[p] and not _has_room(_STAY_FREE_MARGIN, indices[p], k * data[p], normal_in_box):
            return False
    return _is_tight(f, top, tilt)


@njit(inline="always", inner=True)
def _has_room(margin, i, tilt, normal_in_box):
    """Return whether the tilted coordinate is `margin` standard deviations inside its interval."""
    theta, deviation, low, high = normal_in_box
    s = deviation[i]
    return low[i] + margin * s <= theta[i] + tilt * s * s <= high[i] - margin * s


@njit(inline="always", inner=True)
def _set_terms(p, kappa, i, y, normal_in_box, log_box, terms):
    """Set what coordinate i, at entry p of its facet, adds to ln M and to the tilted mean of s."""
    theta, deviation, low, high = normal_in_box
    s = deviation[i]
    mass, mean = tilted_mean((low[i] - theta[i]) / s, (high[i] - theta[i]) / s, kappa * y * s)
    terms[0, p] = kappa * y * theta[i] + mass - log_box[i]
    terms[1, p] = y * (theta[i] + s * mean)


@njit
def refresh_bounds(rows, normal_in_box, gap, log_w, log_box, stale, tilt, free, terms):
    """Recompute stale facets; return ln M of the facet with the largest weight.

    Facets NEGLIGIBLE below that one stay stale, with ln M_f = -inf. Facets so small that all of them together weigh
    less than that one get the bound with all coordinates in F, which costs least.
    """
    size = rows[0]
    nearest, log_m = np.argmax(log_w[:size]), tilt[LOG_M]
    top, least, small, log_space = -np.inf, -np.inf, -np.inf, log_box.sum()
    for step in range(-1, size):
        f = nearest if step < 0 else step
        if stale[f]:
            bound = log_w[f] - log_space  # no smaller than the bound below, and costs no loop
            if bound >= least:
                bound = _all_free_bound(f, rows, log_w, log_box)
            if bound < least:
                log_m[f] = -np.inf
            else:
                if bound >= small or not _use_all_free_bound(f, rows, normal_in_box, gap, bound, tilt, free):
                    _minimise_over_kappa(f, rows, normal_in_box, log_box, top, tilt)
                    _split_coordinates(f, rows, normal_in_box, log_box, top, tilt, free, terms)
                stale[f] = False
        if step < 0:
            top = log_m[f]
            least, small = top - NEGLIGIBLE, top - log(size)
    return top


@njit(inner=True)
def _use_all_free_bound(f, rows, normal_in_box, gap, bound, tilt, free):
    """Set the bound with all coordinates of f in F; return whether that is possible.

    It is not where a coordinate has variance 0: such a coordinate cannot be drawn conditioned on the facet.
    """
    _, indptr, indices, data = rows
    deviation = normal_in_box[1]
    _, sigma, distance, centre, log_m, _, s_std = tilt
    variance = 0.0
    for p in range(indptr[f], indptr[f + 1]):
        s = deviation[indices[p]]
        if s == 0.0:
            return False
        variance += data[p] * data[p] * s * s
    free[indptr[f] : indptr[f + 1]] = True
    sigma[f] = sqrt(variance)
    distance[f], centre[f], log_m[f], s_std[f] = gap[f] / sigma[f], 0.0, bound, 0.0
    return True


@njit(inline="always", inner=True)
def _tilted_coordinate(i, kappa, y, normal_in_box):
    """Return `tilted_moments` of coordinate i tilted by kappa y, in units of its standard deviation."""
    theta, deviation, low, high = normal_in_box
    s = deviation[i]
    return tilted_moments((low[i] - theta[i]) / s, (high[i] - theta[i]) / s, kappa * y * s)


@njit(inner=True)
def _log_tilted_mass(kappa, f, rows, normal_in_box, log_box):
    """Return ln E[exp(kappa y_f @ theta)] under the posterior in the box, and its first two derivatives in kappa."""
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


@njit(inner=True)
def _minimise_over_kappa(f, rows, normal_in_box, log_box, top, tilt):
    """Minimise the convex ln M_f over kappa_f >= 0 with all coordinates in E.

    The Newton steps are safeguarded by a bracket.
    """
    _, indptr, indices, data = rows
    _, _, low, high = normal_in_box
    kappa, log_m, s_std = tilt[KAPPA], tilt[LOG_M], tilt[S_STD]
    largest = 0.0
    for p in range(indptr[f], indptr[f + 1]):
        largest += data[p] * (high[indices[p]] if data[p] > 0.0 else low[indices[p]])
    if not largest > 0.0:  # y_f @ theta > 0 nowhere in the box
        kappa[f], log_m[f] = 0.0, -np.inf
        return
    left, right = 0.0, np.inf
    k = kappa[f]
    value, slope, curvature = _log_tilted_mass(k, f, rows, normal_in_box, log_box)
    for _ in range(40):
        enough = _NEWTON_TOLERANCE * _tilt_tolerance(value, top) * sqrt(curvature)
        if abs(slope) < enough or (k == 0.0 and slope >= 0.0):
            break
        if slope < 0.0:
            left = k
        else:
            right = k
        step = k - slope / curvature  # Newton, else doubling or bisection
        if not left < step < right:
            step = 2.0 * k + 1.0 / sqrt(curvature) if right == np.inf else 0.5 * (left + right)
        k = max(step, 0.0)
        value, slope, curvature = _log_tilted_mass(k, f, rows, normal_in_box, log_box)
    kappa[f], log_m[f], s_std[f] = k, value, sqrt(curvature)


@njit(inner=True)
def _split_coordinates(f, rows, normal_in_box, log_box, top, tilt, free, terms):
    """Move coordinates that the box hardly constrains under the tilt into F, if that makes M_f smaller."""
    _, indptr, indices, data = rows
    theta, deviation = normal_in_box[0], normal_in_box[1]
    kappa, sigma, _, centre, log_m, s_mean, s_std = tilt
    begin, end = indptr[f], indptr[f + 1]
    best_kappa, best_std, best_log_m = kappa[f], s_std[f], log_m[f]
    if best_log_m == -np.inf:
        sigma[f], free[begin:end] = 0.0, False
        return
    s0, n_free = 0.0, 0
    for p in range(begin, end):
        i, y = indices[p], data[p]
        s = deviation[i]
        free[p] = _has_room(_FREE_MARGIN, i, best_kappa * y, normal_in_box)
        n_free += free[p] and s > 0.0
        if not free[p]:
            s0 += y * (theta[i] + s * _tilted_coordinate(i, best_kappa, y, normal_in_box)[1])
    centre[f] = s0
    if n_free > 0:
        _update_free(f, rows, normal_in_box, log_box, top, tilt, free, terms)
        if log_m[f] < best_log_m + _LOG_ROUNDING * abs(best_log_m):
            return
    kappa[f], sigma[f], centre[f], log_m[f], s_mean[f], s_std[f] = best_kappa, 0.0, 0.0, best_log_m, 0.0, best_std
    for p in range(begin, end):
        free[p] = False
        _set_terms(p, best_kappa, indices[p], data[p], normal_in_box, log_box, terms)
        s_mean[f] += terms[1, p]


@njit(inner=True)
def _truncated_moments(a, b):
    """Return ln mass, mean and variance of a standard normal on [a, b], without cancellation in the tails."""
    mass = log_interval(a, b)
    if a > 0.0 and b == inf:
        mean = exp(-log_mills(a))
    elif b < 0.0 and a == -inf:
        mean = -exp(-log_mills(-b))
    else:
        mean = min(max(interval_mean(a, b, mass), a), b)
    return mass, mean, interval_variance(a, b, mass, mean)


@njit
def factorise(C, mean, low, high):
    """Factorise C by Cholesky's method with the pivoting of Gibson, Glasbey and Elston.

    The next row is the one with the least probability of lying in its interval, given the previous rows at their
    conditional means.
    """
    m = len(mean)
    order, L = np.arange(m), np.zeros((m, m))
    left, centre = np.diag(C).copy(), mean.copy()  # variance and mean of each row, given the previous ones
    r = 0
    while r < m:
        best, lowest, pivot_mean = -1, inf, 0.0
        for k in range(r, m):
            row = order[k]
            if left[row] > _MIN_VARIANCE_SHARE * C[row, row]:
                s = sqrt(left[row])
                mass, middle, _ = _truncated_moments((low[row] - centre[row]) / s, (high[row] - centre[row]) / s)
                if mass < lowest or best < 0:
                    best, lowest, pivot_mean = k, mass, middle
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
            centre[order[k]] += value * pivot_mean
        r += 1
    A, ends = np.zeros((r, r)), np.empty((2, r))
    for k in range(r):
        row, root = order[k], L[k, k]
        ends[0, k], ends[1, k] = (low[row] - mean[row]) / root, (high[row] - mean[row]) / root
        for j in range(k):
            A[k, j] = L[k, j] / root
    unit = A + np.eye(r)  # rows of L in units of its diagonal
    return order, L[:, :r].copy(), A, np.dot(unit, unit.T), ends


@njit(inner=True)
def _objective(R, ends, shift, mean, slope, gradient):
    """Return G of `minimax_tilt`, with its gradient, where the intervals are moved down by `shift`."""
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


@njit(inner=True)
def _solve_in_place(B, x):
    """Solve B x = b for a positive definite B, with b given in x; return False if B is not positive definite.

    The upper half of B is overwritten.
    """
    r = len(x)
    for k in range(r):
        if not B[k, k] > 0.0:
            return False
        for i in range(k + 1, r):
            ratio = B[k, i] / B[k, k]
            x[i] -= ratio * x[k]
            for j in range(i, r):
                B[i, j] -= ratio * B[k, j]
    for k in range(r - 1, -1, -1):
        for j in range(k + 1, r):
            x[k] -= B[k, j] * x[j]
        x[k] /= B[k, k]
    return True


@njit
def minimax_tilt(A, R, ends, shift):
    """Return mu, ln M and whether they were found, by Newton's method on the convex G, starting from `shift`.

    With P_k the mean of a normal on the interval of row k moved down by shift_k, and 1 - slope_k its variance,

        G = P' (R - I) P / 2 - shift @ P + sum_k ln(mass of that interval),   dG/dP = (R - I) P - shift,

    and ln M is the minimum of G. Any value of G bounds the probability; only draws need the minimum.
    """
    r = len(shift)
    mean, slope, gradient, move, direction = np.empty(r), np.empty(r), np.empty(r), np.empty(r), np.empty(r)
    new_mean, new_slope, new_gradient = np.empty(r), np.empty(r), np.empty(r)
    B = np.empty((r, r))
    value = _objective(R, ends, shift, mean, slope, gradient)
    for _ in range(_MAX_NEWTON_STEPS):
        steepest = np.abs(gradient).max()
        if steepest <= _GRADIENT_STOP * (1.0 + np.abs(shift).max()):
            break
        for k in range(r):
            s = sqrt(slope[k])
            for j in range(k, r):
                B[k, j] = s * R[k, j] * sqrt(slope[j])
            B[k, k] += 1.0 - slope[k]
            move[k] = -s * gradient[k]
        if not _solve_in_place(B, move):
            break
        for k in range(r):
            move[k] *= sqrt(slope[k])  # the step of P; `direction` is that of the shift, to first order
        for k in range(r):
            direction[k] = gradient[k] + np.dot(R[k], move) - move[k]
        descent = np.dot(gradient, move)
        step = 1.0
        while step > _MIN_NEWTON_STEP:
            new_value = _objective(R, ends, shift + step * direction, new_mean, new_slope, new_gradient)
            if new_value <= value + 1e-4 * step * descent or np.abs(new_gradient).max() < 0.5 * steepest:
                break  # near the minimum rounding hides a decrease of G, but not one of the gradient
            step *= 0.5
        if not step > _MIN_NEWTON_STEP:
            break
        shift += step * direction
        value, gradient[:] = new_value, new_gradient
        mean[:], slope[:] = new_mean, new_slope
    found = np.abs(gradient).max() <= _GRADIENT_ACCEPT * (1.0 + np.abs(shift).max())
    return np.dot(A.T, mean), value, found


@njit(inner=True)
def _propose(state, A_transposed, ends, mu, shift, z):
    """Draw z_k in turn, each from a normal around mu_k on the interval left to it; return ln (p / proposal)."""
    log_weight, mass, r = 0.0, 1.0, len(mu)
    shift[:] = mu
    fill_normals(state, z)
    for k in range(r):
        a, b = ends[0, k] - shift[k], ends[1, k] - shift[k]
        if not a < b:
            return -inf
        if not a <= z[k] <= b:  # replacing a miss by an exact draw keeps the law exact
            z[k] = draw_interval(state, a, b)
        # a product costs less than a sum of logarithms
        if b == inf and a < _MAX_PLAIN_BOUND and mass > _MIN_PLAIN_MASS:
            mass *= 0.5 * erfc(a * _ROOT_HALF)
        else:
            log_weight += log_interval(a, b)
        z[k] += mu[k]
        log_weight += mu[k] * (0.5 * mu[k] - z[k])
        for j in range(k + 1, r):
            shift[j] += A_transposed[k, j] * z[k]
    return log_weight + log(mass)


@njit
def draw_rows(state, factor, tilt, normal_in_box, first, cap, thetas):
    """Fill `thetas` with draws of the rows from `first` on, conditioned on their intervals.

    Returns the number of rows filled and the number of proposals.
    """
    order, L, A, _, ends = factor
    mu, log_m = tilt
    mean, low, high = normal_in_box
    r, z, shift, A_transposed = len(mu), np.empty(len(mu)), np.empty(len(mu)), A.T.copy()
    filled, proposals = 0, 0
    while filled < len(thetas) and proposals < cap:
        proposals += 1
        # uniform is in [0, 1): 1 - uniform has a finite logarithm
        if log(1.0 - uniform(state)) > _propose(state, A_transposed, ends, mu, shift, z) - log_m:
            continue
        inside = True
        for k in range(len(order)):
            row = order[k]
            value = mean[row] + np.dot(L[k], z)
            if k < r:  # it is in its interval up to rounding
                value = min(max(value, low[row]), high[row])
            inside &= low[row] <= value <= high[row]
            if row >= first:
                thetas[filled, row - first] = value
        filled += inside
    return filled, proposals


@njit
def count_violated(rows, numbers, thetas, count):
    """Count, for each theta, the half-spaces of the given facets that contain it."""
    _, indptr, indices, data = rows
    for r in range(len(thetas)):
        count[r] = 0
        for f in numbers:
            count[r] += dot(f, indptr, indices, data, thetas[r]) > 0.0


@njit
def reachable_facets(rows, low, high):
    """Return which facets have y @ theta > 0 somewhere in the box."""
    size, indptr, indices, data = rows
    is_reachable = np.empty(size, dtype=np.bool_)
    for f in range(size):
        largest = 0.0
        for p in range(indptr[f], indptr[f + 1]):
            largest += data[p] * (high[indices[p]] if data[p] > 0.0 else low[indices[p]])
        is_reachable[f] = largest > 0.0
    return is_reachable

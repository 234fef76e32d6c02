"""Compiled loops for a full covariance in a box; `minimax` says what is computed.

Linear functions of theta, called rows here, have covariance C, means, and intervals that they must lie in. A factor is
(order, L, A, R, ends): the rows in the order in which they are drawn, those that earlier ones determine last; L of all
rows (m x r); and of the first r, in units of the diagonal of L, L itself without its diagonal, the covariance, and the
ends of the intervals counted from the means (2 x r). A tilt is mu and ln M.
"""

from __future__ import annotations

from math import inf

import numpy as np

from combopeps._compiled import erfc, exp, log, njit, sqrt
from combopeps._normal import draw_interval, interval_mean, interval_variance, log_interval, log_mills
from combopeps.cone._kernels import dot
from combopeps.streams import fill_normals, uniform

_DETERMINED = 1e-11  # share of its variance: a row that has no more left is a function of the rows before it
_STEPS = 200  # of Newton's method; ten are enough as a rule
_CLOSE, _FAIR = 1e-9, 1e-6  # largest gradients, relative to the shifts, at which it ends, and has arrived
_PLAIN, _SMALL, _ROOT_HALF = 5.0, 1e-290, sqrt(0.5)  # up to where plain masses may be multiplied
_SMALLEST = 1e-6  # step that it takes


@njit(cache=True, nogil=True)
def _moments(a, b):
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
                mass, middle, _ = _moments((low[row] - centre[row]) / s, (high[row] - centre[row]) / s)
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
        mass, mean[k], variance = _moments(ends[0, k] - shift[k], ends[1, k] - shift[k])
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

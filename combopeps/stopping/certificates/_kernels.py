"""Compiled kernels of the half-normal mixture: conjugate, best multipliers, allocation of measurements."""

from __future__ import annotations

from math import inf

import numpy as np

from combopeps.posterior.normal_tails import log_ndtr, log_phi
from combopeps.utils.jit import exp, log, log1p, njit, sqrt

ROOT, CONSTANT, LIMIT, CAP, HEIGHT = range(5)  # columns of the terms of a penalty: 1 / sqrt(w_a) first
MIN_MU, MAX_MU, GRID_SIZE = 1e-6, 60.0, 32_768  # of the grid of mu
_STEP = log(MAX_MU / MIN_MU) / (GRID_SIZE - 1)
_LN2 = log(2.0)
_HALF_LOG_HALF_PI = 0.22579135264472744
_BISECTIONS = 8  # of the bracket of lam: the evidence is flat near its maximum
_LARGER_THAN = 1.0 + 1e-9  # factor that excludes differences by rounding
_COMPONENTS_PER_STEP = 8  # one measurement at a time for so many components of a row


@njit(inner=True)
def conjugate(mu, grid, table):
    """h*(mu), interpolated linearly: never too small, as h* is convex."""
    if mu >= MAX_MU:
        return 0.5 * mu * mu - _LN2 + 1e-12
    if not mu >= MIN_MU:
        return table[0] + log(MIN_MU / mu) if mu > 0.0 else inf  # h*' > -1/mu
    i = min(int(log(mu / MIN_MU) / _STEP), GRID_SIZE - 2)
    share = (mu - grid[i]) / (grid[i + 1] - grid[i])
    return (1.0 - share) * table[i] + share * table[i + 1]


@njit(inner=True)
def cap_and_height(room):
    """h'(room), the largest mu for which the maximiser lies below the limit `room`, and h(room)."""
    if room == inf:
        return inf, inf
    if room < -25.0:  # both are differences of nearly equal numbers: bounds by Mills' ratio, from above and below
        return -1.0 / room, log1p(-1.0 / (room * room)) - log(-room) - _HALF_LOG_HALF_PI
    log_tail = log_ndtr(room)
    return room + exp(log_phi(room) - log_tail), 0.5 * room * room + _LN2 + log_tail


@njit(inner=True)
def set_term(terms, a, n, rho, kappa, limit):
    """Set the terms of component a after n measurements; unmeasured ones have no penalty if they have a limit."""
    root = 0.0
    if n == 0.0:
        root = inf if limit == inf else 0.0
    elif n < inf:
        root = sqrt(n + rho) / n
    terms[a, ROOT], terms[a, LIMIT] = root, limit
    terms[a, CONSTANT] = kappa + 0.5 * log1p(n / rho) if 0.0 < root < inf else kappa
    terms[a, CAP], terms[a, HEIGHT] = cap_and_height(limit / root if 0.0 < root < inf else inf)


@njit
def all_terms(n, rho, kappa, limit):
    """The terms of every component, (d, 5)."""
    terms = np.empty((len(n), 5))
    for a in range(len(n)):
        set_term(terms, a, n[a], rho[a], kappa[a], limit[a])
    return terms


@njit(inner=True)
def slope(mu, grid, slopes):
    """h*'(mu) at the next lower grid point: accurate enough for bisection."""
    if mu >= MAX_MU:
        return mu
    i = min(max(int(log(max(mu, MIN_MU) / MIN_MU) / _STEP), 0), GRID_SIZE - 1)
    return slopes[i]


@njit(inner=True)
def penalty(lam, a, terms, grid, table):
    """pen_a(lam) = max_{x <= room_a} [lam x / sqrt(w_a) - h(x)] + constant_a; 0 where w_a is infinite."""
    if terms[a, ROOT] == 0.0:
        return 0.0
    mu = lam * terms[a, ROOT]
    if mu > terms[a, CAP]:
        return lam * terms[a, LIMIT] - terms[a, HEIGHT] + terms[a, CONSTANT]
    return conjugate(mu, grid, table) + terms[a, CONSTANT]


@njit
def penalty_matrix(lams, terms, grid, table):
    """pen_a(lam), (E, d)."""
    out = np.empty((len(lams), len(terms)))
    for e in range(len(lams)):
        for a in range(len(terms)):
            out[e, a] = penalty(lams[e], a, terms, grid, table)
    return out


@njit
def best_multipliers(indptr, indices, data, gaps, terms, grid, table, slopes):
    """For every row, the lam that maximises lam gap - sum_a pen_a(lam |y_a|), and the maximum."""
    lams, values = np.empty(len(gaps)), np.empty(len(gaps))
    for r in range(len(gaps)):
        row = slice(indptr[r], indptr[r + 1])
        lams[r], values[r] = _best(indices[row], data[row], gaps[r], terms, grid, table, slopes)
    return lams, values


@njit(inner=True)
def _best(indices, data, gap, terms, grid, table, slopes):
    """The same for one row."""
    spread = 0.0
    for p in range(len(indices)):
        step = data[p] * terms[indices[p], ROOT]
        spread += step * step
    if not (gap > 0.0 and spread < inf):
        return 1.0, -inf
    if spread == 0.0:
        return 1.0, inf
    low = gap / spread  # the best lam without the half-normal term and without limits, which only increase it
    high = low
    for _ in range(60):
        high *= 1.5
        if _derivative(high, indices, data, gap, terms, grid, slopes) < 0.0:
            break
        low = high
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        if _derivative(middle, indices, data, gap, terms, grid, slopes) > 0.0:
            low = middle
        else:
            high = middle
    lam = 0.5 * (low + high)
    value = lam * gap
    for p in range(len(indices)):
        value -= penalty(lam * abs(data[p]), indices[p], terms, grid, table)
    return lam, value


@njit(inner=True)
def _derivative(lam, indices, data, gap, terms, grid, slopes):
    """Derivative of the evidence in lam."""
    total = gap
    for p in range(len(indices)):
        a, weight = indices[p], abs(data[p])
        step = weight * terms[a, ROOT]
        if lam * step > terms[a, CAP]:
            total -= weight * terms[a, LIMIT]
        elif step > 0.0:
            total -= step * slope(lam * step, grid, slopes)
    return total


@njit
def allocate(indptr, indices, data, gaps, n, gain, rho, kappa, limit, values, chosen, grid, table, slopes):
    """Fill `chosen` with components, always for the row with the least evidence against it; n and `values` are updated.

    `values` is the evidence against every row. It usually grows with n, so that of a row is recomputed only when it
    becomes the smallest.
    """
    terms, used = all_terms(n, rho, kappa, limit), 0
    while used < len(chosen):
        r = values.argmin()
        row = slice(indptr[r], indptr[r + 1])
        values[r] = inf
        second = values.min()
        value = _best(indices[row], data[row], gaps[r], terms, grid, table, slopes)[1]
        if value <= second:
            steps = min(max(1, (row.stop - row.start) // _COMPONENTS_PER_STEP), len(chosen) - used)
            _allocate_to_row(indices[row], data[row], n, gain, rho, kappa, limit, terms, chosen[used : used + steps])
            used += steps
            value = _best(indices[row], data[row], gaps[r], terms, grid, table, slopes)[1]
        values[r] = value


@njit(inner=True)
def _allocate_to_row(components, weights, n, gain, rho, kappa, limit, terms, chosen):
    """Choose components of one row, each time the one whose measurement reduces the variance of its gap most."""
    for s in range(len(chosen)):
        best, largest = -1, -1.0
        for p in range(len(components)):
            a = components[p]
            if gain[a] > 0.0:
                more = n[a] + gain[a]
                saved = inf
                if n[a] > 0.0:
                    saved = weights[p] ** 2 * ((n[a] + rho[a]) / n[a] ** 2 - (more + rho[a]) / more**2)
                if saved > largest * _LARGER_THAN:
                    best, largest = a, saved
        n[best] += gain[best]
        set_term(terms, best, n[best], rho[best], kappa[best], limit[best])
        chosen[s] = best

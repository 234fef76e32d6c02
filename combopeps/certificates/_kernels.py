"""Compiled loops of the mixture bound: the half-normal conjugate, and the best multiplier of each answer."""

from __future__ import annotations

from math import inf, log, log1p, sqrt

import numpy as np
from numba import njit

SMALLEST, LARGEST, POINTS = 1e-6, 60.0, 32_768
_STEP = log(LARGEST / SMALLEST) / (POINTS - 1)
_LN2 = log(2.0)
_HALVINGS = 8  # of the bracket of lam: the value is flat there
_CLEARLY = 1.0 + 1e-9
_PARTS = 8  # measurements at a time, as a share of the components of a row


@njit(cache=True)
def conjugate(mu, grid, table):
    """h*(mu), by chords of a convex function: never too small."""
    if mu >= LARGEST:
        return 0.5 * mu * mu - _LN2 + 1e-12
    if not mu >= SMALLEST:
        return table[0] + log(SMALLEST / mu) if mu > 0.0 else inf  # h*' > -1/mu
    i = min(int(log(mu / SMALLEST) / _STEP), POINTS - 2)
    share = (mu - grid[i]) / (grid[i + 1] - grid[i])
    return (1.0 - share) * table[i] + share * table[i + 1]


@njit(cache=True)
def slope(mu, grid, slopes):
    """h*'(mu), to within the search's needs."""
    if mu >= LARGEST:
        return mu
    i = min(max(int(log(max(mu, SMALLEST) / SMALLEST) / _STEP), 0), POINTS - 1)
    return slopes[i]


@njit(cache=True)
def penalty_matrix(lams, inverse_root, constant, grid, table):
    """pen_a(lam) = h*(lam / sqrt(w_a)) + constant_a, (E, d); nothing where the weight is infinite."""
    out = np.empty((len(lams), len(inverse_root)))
    for e in range(len(lams)):
        for a in range(len(inverse_root)):
            if inverse_root[a] == 0.0:
                out[e, a] = 0.0
            else:
                out[e, a] = conjugate(lams[e] * inverse_root[a], grid, table) + constant[a]
    return out


@njit(cache=True)
def best_multipliers(indptr, indices, data, gaps, inverse_root, constant, grid, table, slopes):
    """For every row: the lam that maximises lam gap - sum_a pen_a(lam |y_a|), and that maximum."""
    lams, values = np.empty(len(gaps)), np.empty(len(gaps))
    for r in range(len(gaps)):
        row = slice(indptr[r], indptr[r + 1])
        lams[r], values[r] = _best(indices[row], data[row], gaps[r], inverse_root, constant, grid, table, slopes)
    return lams, values


@njit(cache=True)
def _best(indices, data, gap, inverse_root, constant, grid, table, slopes):
    """The same for one row."""
    spread = 0.0
    for p in range(len(indices)):
        step = data[p] * inverse_root[indices[p]]
        spread += step * step
    if not (gap > 0.0 and spread < inf):
        return 1.0, -inf
    if spread == 0.0:
        return 1.0, inf
    low = gap / spread  # best without the half-normal term, which only moves it up
    high = low
    for _ in range(60):
        high *= 1.5
        if _derivative(high, indices, data, gap, inverse_root, grid, slopes) < 0.0:
            break
        low = high
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if _derivative(middle, indices, data, gap, inverse_root, grid, slopes) > 0.0:
            low = middle
        else:
            high = middle
    lam = 0.5 * (low + high)
    value = lam * gap
    for p in range(len(indices)):
        a = indices[p]
        if inverse_root[a] > 0.0:
            value -= conjugate(lam * abs(data[p]) * inverse_root[a], grid, table) + constant[a]
    return lam, value


@njit(cache=True)
def _derivative(lam, indices, data, gap, inverse_root, grid, slopes):
    total = gap
    for p in range(len(indices)):
        step = abs(data[p]) * inverse_root[indices[p]]
        if step > 0.0:
            total -= step * slope(lam * step, grid, slopes)
    return total


@njit(cache=True)
def spend(indptr, indices, data, gaps, n, gain, rho, kappa, values, chosen, grid, table, slopes):
    """Measurements for the least refuted row, then for the one that is so now, and so on; n is updated.

    `values` are the rows' own. They grow with n, as a rule, so that one that is still the smallest when looked at anew
    is the smallest of all.
    """
    inverse_root, constant = np.zeros(len(n)), kappa.copy()
    for a in range(len(n)):
        if n[a] < inf:
            inverse_root[a] = sqrt(n[a] + rho[a]) / n[a]
            constant[a] += 0.5 * log1p(n[a] / rho[a])
    spent = 0
    while spent < len(chosen):
        r = values.argmin()
        row = slice(indptr[r], indptr[r + 1])
        values[r] = inf
        second = values.min()
        value = _best(indices[row], data[row], gaps[r], inverse_root, constant, grid, table, slopes)[1]
        if value <= second:
            steps = min(max(1, (row.stop - row.start) // _PARTS), len(chosen) - spent)
            _spend_on(
                indices[row], data[row], n, gain, rho, kappa, inverse_root, constant, chosen[spent : spent + steps]
            )
            spent += steps
            value = _best(indices[row], data[row], gaps[r], inverse_root, constant, grid, table, slopes)[1]
        values[r] = value


@njit(cache=True)
def _spend_on(components, weights, n, gain, rho, kappa, inverse_root, constant, chosen):
    """On the components of one comparison, each time where its variance falls most."""
    for s in range(len(chosen)):
        best, most = -1, -1.0
        for p in range(len(components)):
            a = components[p]
            if gain[a] > 0.0:
                more = n[a] + gain[a]
                saved = weights[p] ** 2 * ((n[a] + rho[a]) / n[a] ** 2 - (more + rho[a]) / more**2)
                if saved > most * _CLEARLY:  # rounding decides nothing
                    best, most = a, saved
        n[best] += gain[best]
        inverse_root[best] = sqrt(n[best] + rho[best]) / n[best]
        constant[best] = 0.5 * log1p(n[best] / rho[best]) + kappa[best]
        chosen[s] = best

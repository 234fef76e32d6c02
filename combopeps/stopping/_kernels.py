"""Compiled loops of the mixture bound: the half-normal conjugate, and the best multiplier of each answer."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from math import inf, log

import numpy as np
from numba import njit

SMALLEST, LARGEST, POINTS = 1e-6, 60.0, 32_768
_STEP = log(LARGEST / SMALLEST) / (POINTS - 1)
_LN2 = log(2.0)


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
    lams, values = np.ones(len(gaps)), np.full(len(gaps), -inf)
    for r in range(len(gaps)):
        spread = 0.0
        for p in range(indptr[r], indptr[r + 1]):
            step = data[p] * inverse_root[indices[p]]
            spread += step * step
        if not (gaps[r] > 0.0 and spread < inf):
            continue
        if spread == 0.0:
            values[r] = inf
            continue
        low = gaps[r] / spread  # best without the half-normal term, which only moves it up
        high = low
        for _ in range(60):
            high *= 1.5
            if _derivative(r, high, indptr, indices, data, gaps, inverse_root, grid, slopes) < 0.0:
                break
        for _ in range(16):
            middle = 0.5 * (low + high)
            if _derivative(r, middle, indptr, indices, data, gaps, inverse_root, grid, slopes) > 0.0:
                low = middle
            else:
                high = middle
        lams[r] = 0.5 * (low + high)
        value = lams[r] * gaps[r]
        for p in range(indptr[r], indptr[r + 1]):
            a = indices[p]
            if inverse_root[a] > 0.0:
                value -= conjugate(lams[r] * abs(data[p]) * inverse_root[a], grid, table) + constant[a]
        values[r] = value
    return lams, values


@njit(cache=True)
def _derivative(r, lam, indptr, indices, data, gaps, inverse_root, grid, slopes):
    total = gaps[r]
    for p in range(indptr[r], indptr[r + 1]):
        step = abs(data[p]) * inverse_root[indices[p]]
        if step > 0.0:
            total -= step * slope(lam * step, grid, slopes)
    return total


@njit(cache=True)
def spend_on(components, weights, n, gain, rho, steps, chosen):
    """Spend measurements on the components of one comparison, each time where its variance falls most; n is updated."""
    for s in range(steps):
        best, most = -1, -1.0
        for p in range(len(components)):
            a = components[p]
            if gain[a] > 0.0:
                more = n[a] + gain[a]
                saved = weights[p] ** 2 * ((n[a] + rho) / n[a] ** 2 - (more + rho) / more**2)
                if saved > most:
                    best, most = a, saved
        n[best] += gain[best]
        chosen[s] = best

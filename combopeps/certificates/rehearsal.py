"""How to spend fresh measurements on a set too large to plan for its answers one by one: rehearse.

Fresh data with n_a measurements of component a are simulated around the belief's mean, and the certificate is asked
which answers z stand in the way:

    n_a ~ D_a^(1/2),   D = a running mean of  sum_z w_z y_a^2,   w_z = exp(-(b_z - c)_+^2 / 2) / sigma_z^2

is what the sum of their failures wants (`planning`). Part of the measurements are spread evenly, for answers that no
rehearsal has met. N grows with every rehearsal that fails, until two have passed.
"""

from __future__ import annotations

import numpy as np

from combopeps.belief import GaussianBelief, Normal
from combopeps.certificates.glr import glr_bound
from combopeps.cone.differences import Differences
from combopeps.oracles.base import ArgmaxOracle, Array

_MOST_REHEARSALS = 16
_PASSES = 2
_START = 0.5  # of the measurements so far
_GROWTH = 1.25
_MEMORY = 0.7  # weight of the past in the running mean
_EVENLY = 0.4  # share of the measurements


def rehearse(
    belief: GaussianBelief,
    oracle: ArgmaxOracle,
    z_hat: Array,
    quantile: float,
    rng: np.random.Generator,
    epsilon: float = 0.0,
) -> Array:
    """n_x, not rounded: measurements after which z_hat beats all others in most rehearsals."""
    arms, theta, target = belief.arms, belief.theta_hat[0], 0.5 * quantile**2
    gain, arm_of = arms.strongest
    at = np.flatnonzero(gain)
    so_far = belief.noise_std**2 / (belief.spread[0, at] * gain[at])
    demand, total, passed = (so_far + 1.0) ** 2 / ((so_far + 1.0) ** 2).sum(), _START * so_far.sum(), 0
    n, variance = np.zeros(len(arms)), np.zeros(oracle.dim)
    for _ in range(_MOST_REHEARSALS):
        shares = np.sqrt(demand / gain[at])
        n[arm_of[at]] = total * ((1.0 - _EVENLY) * shares / shares.sum() + _EVENLY / len(at))
        variance[at] = belief.noise_std**2 / (gain[at] * n[arm_of[at]])
        fresh = Normal(theta + np.sqrt(variance) * rng.standard_normal(oracle.dim), variance)
        bound = glr_bound(oracle, z_hat, fresh, target=target, rng=rng, epsilon=epsilon)
        if bound.value >= target:
            passed += 1
        else:
            total *= _GROWTH
        if passed == _PASSES or len(bound.rivals) == 0:
            break
        wanted = _demand(Differences.of(bound.rivals), fresh, quantile, epsilon)[at]
        demand = _MEMORY * demand + (1.0 - _MEMORY) * wanted / wanted.sum()
    return n


def _demand(rows: Differences, fresh: Normal, quantile: float, epsilon: float) -> Array:
    """sum_z w_z y_a^2, up to a factor: the weights are relative to the largest, which may be far below any float."""
    widths = fresh.quadratic(rows)
    excess = np.maximum((fresh.gaps(rows) + epsilon) / np.sqrt(widths) - quantile, 0.0)
    log_weights = -0.5 * excess**2 - np.log(widths)
    weights = np.exp(log_weights - log_weights.max())
    entries = np.repeat(weights, np.diff(rows.indptr)) * rows.data**2
    return np.bincount(rows.indices, entries, minlength=len(fresh.theta)).astype(np.float64)

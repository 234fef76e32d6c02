"""Allocation of fresh measurements under which z_hat is refuted by no comparison with a rival.

    minimise   sum_z P(z is not refuted) = sum_z Phi(c - gap_z / sigma_z)   subject to   sum_x n_x = N

sigma_z^2 = |y|^2 under the covariance after n measurements. gap_z is the root mean square of the gap under the
posterior, so that a gap estimated near 0 does not require an unlimited N. At the minimum

    n_x ~ n_x (sum_z w_z (x @ q_z)^2)^(1/2),   q_z = G^-1 y_z,

which is solved by fixed-point iteration. N is the smallest number for which the sum is at most a given risk. Rivals
that are missing in the sum are found by the certificate (`glr_bound`) at the planned covariance, and added.

Where there are too many rivals for a sum, the allocation is found by simulation (`plan_by_simulation`). Fresh data with
n_a measurements of component a are simulated around the posterior mean, the certificate returns the answers z that are
not refuted, and

    n_a ~ D_a^(1/2),   D = a running mean of  sum_z w_z y_a^2,   w_z = exp(-(b_z - c)_+^2 / 2) / sigma_z^2,

which minimises the sum of their failure probabilities to first order. A fixed share of the measurements is uniform, for
answers that no simulation has found. N grows by a factor after every failed simulation, until two have passed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from combopeps.errors import ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array, Sparse, as_sparse
from combopeps.oracles.constrained_argmax import can_constrain
from combopeps.posterior.arms import Arms
from combopeps.posterior.gaussian import GaussianPosterior
from combopeps.posterior.least_squares import Measurements
from combopeps.posterior.normal import Normal
from combopeps.stopping.certificates.glr import glr_bound, listed_rows
from combopeps.stopping.certificates.lagrangian import unique_rows

_MAX_SEARCHES = 10  # for missing rivals
_FIXED_POINT_STEPS = 12
_BISECTIONS = 6  # of N
_MAX_ROWS = 4096  # comparisons of a plan: the closest ones
_MAX_MEASUREMENTS = 1e15  # of a plan
_MARGIN = 1.0  # rivals within the quantile plus this number of standard deviations are searched for
_MAX_DENSE_ENTRIES = 65_536  # up to which dense rows are faster than sparse ones

_MAX_REHEARSALS, _PASSES = 16, 2
_INITIAL_FRACTION = 0.5  # first N of a rehearsal, relative to the measurements so far
_GROWTH = 1.25  # of N after a failed rehearsal
_MOMENTUM = 0.7  # weight of the past in the running mean
_UNIFORM_SHARE = 0.4  # of the measurements


class Comparisons:
    """Variances of comparisons y = z - z_hat under n_x measurements of every arm, and their derivatives.

    |y|^2 = y' G^-1 y,   G = sum_x n_x x x',   -d|y|^2 / dn_x = (x' G^-1 y)^2     in units of the noise
    """

    def __init__(self, arms: Arms, rows: Sparse) -> None:
        self.arms = arms
        self._squares: Any = rows * rows
        if rows.shape[0] * arms.dim <= _MAX_DENSE_ENTRIES:
            self._squares = self._squares.toarray()
        self._lifted = np.zeros((0, 0)) if arms.are_units else np.asarray(rows @ arms.span.lift)

    def widths(self, n: Array) -> tuple[Array, Array]:
        """Return |y|^2 of every row and, for `slopes`, the diagonal of G^-1 (unit arms) or G^-1 y of every row."""
        information = Measurements(self.arms, n, n).information
        if self.arms.are_units:
            measured = information > 0.0
            variance = np.where(measured, 1.0 / np.where(measured, information, 1.0), 0.0)
            return np.asarray(self._squares @ variance), variance
        q = np.linalg.solve(information, self._lifted.T).T
        return np.asarray((self._lifted * q).sum(axis=1)), np.asarray(q)

    def slopes(self, inverse: Array, weights: Array) -> Array:
        """Return sum_y weight_y (x' G^-1 y)^2 of every arm."""
        if self.arms.are_units:
            along = (weights @ self._squares) * inverse**2
            return np.asarray(along[self.arms.component] * self.arms.coefficient**2)
        return np.asarray(weights @ (inverse @ self.arms.span.rows.T) ** 2)


def plan_counts(
    posterior: GaussianPosterior,
    oracle: ArgmaxOracle,
    z_hat: Array,
    quantile: float,
    risk: float,
    rng: np.random.Generator,
    epsilon: float = 0.0,
) -> Array:
    """Return n_x, not rounded, with which z_hat passes against all rivals with probability about 1 - risk."""
    listed = listed_rows(oracle, z_hat, epsilon)
    is_short = listed is not None and listed.shape[0] <= _MAX_ROWS
    if posterior.is_diagonal and not is_short and (listed is not None or can_constrain(oracle)):
        return plan_by_simulation(posterior, oracle, z_hat, quantile, rng, epsilon)
    now = posterior.normal
    target = 0.5 * (quantile + _MARGIN) ** 2
    if listed is not None and listed.shape[0] > _MAX_ROWS:
        distance = now.gaps(listed) / np.sqrt(np.maximum(now.quadratic(listed), 1e-300))
        listed = listed[np.argsort(distance)[:_MAX_ROWS]]
    rivals = np.zeros((0, oracle.dim))
    n = np.full(len(posterior.arms), 64.0 / len(posterior.arms))
    for _ in range(_MAX_SEARCHES if listed is None else 1):
        if listed is None:
            planned = now if len(rivals) == 0 else _planned_estimate(posterior, n)
            found = glr_bound(oracle, z_hat, planned, target=target, rng=rng, epsilon=epsilon).rivals
            known = len(rivals)
            rivals = unique_rows(np.concatenate([rivals, found]))
            if len(rivals) == known:
                break
        rows = as_sparse(rivals) if listed is None else listed
        n = _Plan(posterior, rows, now, epsilon).smallest(quantile, risk, n)
    return n


def _planned_estimate(posterior: GaussianPosterior, n: Array) -> Normal:
    """Return the posterior mean with the covariance after n measurements."""
    future = Measurements(posterior.arms, n, np.zeros(len(n))).least_squares()
    assert future is not None
    return Normal(posterior.theta_hat[0], future.spread)


class _Plan:
    """The smallest allocation for a list of comparisons."""

    def __init__(self, posterior: GaussianPosterior, rows: Sparse, now: Normal, epsilon: float) -> None:
        self.gaps = np.sqrt(np.maximum(now.gaps(rows) + epsilon, 0.0) ** 2 + now.quadratic(rows))
        self.comparisons = Comparisons(posterior.arms, rows)

    def smallest(self, quantile: float, risk: float, start: Array) -> Array:
        """Return the allocation of the least N whose sum of failure probabilities is at most `risk`."""
        low, high, best = 0.0, float(start.sum()), None
        shares = start / start.sum()
        while best is None:
            if not high < _MAX_MEASUREMENTS:
                raise ParameterError(
                    f"telling the answers apart would take more than {_MAX_MEASUREMENTS:g} fresh measurements; "
                    "accept one that is nearly best with epsilon=, or end the run by a budget"
                )
            n, failures = self._spread(high, shares, quantile)
            shares = n / n.sum()
            if failures <= risk:
                best = n
            else:
                low, high = high, 2.0 * high
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            n, failures = self._spread(middle, shares, quantile)
            shares = n / n.sum()
            if failures <= risk:
                best, high = n, middle
            else:
                low = middle
        return best

    def _spread(self, total: float, shares: Array, quantile: float) -> tuple[Array, float]:
        """Run the fixed-point iteration at N = total from these shares; return n_x and the sum of failures."""
        failures = np.inf
        for _ in range(_FIXED_POINT_STEPS):
            n = np.maximum(total * shares, 1e-6 * total / len(shares))
            failures, slopes = self._failures(n, quantile)
            proposed = n * np.sqrt(slopes)
            shares = 0.5 * shares + 0.5 * proposed / proposed.sum()
        return np.maximum(total * shares, 1e-6 * total / len(shares)), failures

    def _failures(self, n: Array, quantile: float) -> tuple[float, Array]:
        """Return the sum of failure probabilities, and minus its derivative in every n_x up to a common factor."""
        from scipy.special import ndtr

        sigma2, inverse = self.comparisons.widths(n)
        score = quantile - self.gaps / np.sqrt(sigma2)
        # Derivatives in sigma_z^2 relative to the largest: far from the boundary all of them underflow.
        log_weight = -0.5 * score**2 + np.log(self.gaps) - 1.5 * np.log(sigma2)
        weight = np.exp(log_weight - log_weight.max()) + 1e-12
        return float(ndtr(score).sum()), self.comparisons.slopes(inverse, weight)


def plan_by_simulation(
    posterior: GaussianPosterior,
    oracle: ArgmaxOracle,
    z_hat: Array,
    quantile: float,
    rng: np.random.Generator,
    epsilon: float = 0.0,
) -> Array:
    """Return n_x, not rounded, with which z_hat passes against all rivals in most simulations."""
    arms, theta, target = posterior.arms, posterior.theta_hat[0], 0.5 * quantile**2
    gain, arm_of = arms.strongest
    at = np.flatnonzero(gain)
    so_far = 1.0 / (posterior.spread[0, at] * gain[at])  # measurements of every component
    demand, passed = (so_far + 1.0) ** 2 / ((so_far + 1.0) ** 2).sum(), 0
    total = _INITIAL_FRACTION * so_far.sum()
    n, variance = np.zeros(len(arms)), np.zeros(oracle.dim)
    for _ in range(_MAX_REHEARSALS):
        shares = np.sqrt(demand / gain[at])
        n[arm_of[at]] = total * ((1.0 - _UNIFORM_SHARE) * shares / shares.sum() + _UNIFORM_SHARE / len(at))
        variance[at] = 1.0 / (gain[at] * n[arm_of[at]])
        fresh = Normal(theta + np.sqrt(variance) * rng.standard_normal(oracle.dim), variance)
        bound = glr_bound(oracle, z_hat, fresh, target=target, rng=rng, epsilon=epsilon)
        if bound.value >= target:
            passed += 1
        else:
            total *= _GROWTH
        if passed == _PASSES or len(bound.rivals) == 0:
            break
        current = _demand(as_sparse(bound.rivals), fresh, quantile, epsilon)[at]
        demand = _MOMENTUM * demand + (1.0 - _MOMENTUM) * current / current.sum()
    return n


def _demand(rows: Sparse, fresh: Normal, quantile: float, epsilon: float) -> Array:
    """Compute sum_z w_z y_a^2 up to a factor; weights are relative to the largest, which may underflow."""
    widths = fresh.quadratic(rows)
    excess = np.maximum((fresh.gaps(rows) + epsilon) / np.sqrt(widths) - quantile, 0.0)
    log_weights = -0.5 * excess**2 - np.log(widths)
    weights = np.exp(log_weights - log_weights.max())
    entries = np.repeat(weights, np.diff(rows.indptr)) * rows.data**2
    return np.bincount(rows.indices, entries, minlength=len(fresh.theta)).astype(np.float64)

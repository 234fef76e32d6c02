"""How to spend fresh measurements so that z_hat beats all others at once.

    minimise   sum_z P(z is not beaten) = sum_z Phi(c - gap_z / sigma_z),   sum_x n_x = N

sigma_z^2 = |y|^2 under the covariance that n measurements would give; for gap_z the root mean square under the belief
is taken, so that a gap that happens to look tiny does not ask for the moon.
At the minimum n_x ~ n_x (sum_z w_z (x @ q_z)^2)^(1/2), q_z = G^-1 y_z: a few rounds of that fixed point. N is the
smallest for which the sum is below the wanted risk. Answers that the plan forgets are found by the certificate itself,
at the planned covariance, and added.

A set too large to plan for its answers one by one is rehearsed. Fresh data with n_a measurements of component a are
simulated around the belief's mean, and the certificate is asked which answers z stand in the way:

    n_a ~ D_a^(1/2),   D = a running mean of  sum_z w_z y_a^2,   w_z = exp(-(b_z - c)_+^2 / 2) / sigma_z^2

is what the sum of their failures wants. Part of the measurements are spread evenly, for answers that no rehearsal has
met. N grows with every rehearsal that fails, until two have passed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from combopeps.errors import ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array, Sparse, as_sparse
from combopeps.oracles.constrained_argmax import can_force
from combopeps.posterior.arms import Arms
from combopeps.posterior.gaussian import GaussianBelief
from combopeps.posterior.least_squares import Measurements
from combopeps.posterior.normal import Normal
from combopeps.stopping.certificates.glr import glr_bound, listed_rows
from combopeps.stopping.certificates.lagrangian import unique_rows

_ROUNDS = 10  # of looking for forgotten answers
_STEPS = 12  # of the fixed point
_MOST_ROWS = 4096  # comparisons of a plan: the closest ones
_MOST = 1e15  # measurements of a plan
_MARGIN = 1.0  # answers closer than the quantile plus this matter
_SMALL = 65_536  # entries up to which full rows are faster than sparse ones

_MOST_REHEARSALS, _PASSES = 16, 2
_START = 0.5  # of the measurements so far
_GROWTH = 1.25
_MEMORY = 0.7  # weight of the past in the running mean
_EVENLY = 0.4  # share of the measurements


class Comparisons:
    """Differences y, seen through the arms: how well n_x measurements of each tell z_hat from its rivals.

    |y|^2 = y' G^-1 y,   G = sum_x n_x x x',   -d|y|^2 / dn_x = (x' G^-1 y)^2     in units of the noise
    """

    def __init__(self, arms: Arms, rows: Sparse) -> None:
        self.arms = arms
        self._squares: Any = rows * rows
        if rows.shape[0] * arms.dim <= _SMALL:
            self._squares = self._squares.toarray()
        self._lifted = np.zeros((0, 0)) if arms.are_units else np.asarray(rows @ arms.span.lift)

    def widths(self, n: Array) -> tuple[Array, Array]:
        """|y|^2 of every row; and, for `slopes`, the diagonal of G^-1 (unit arms) or G^-1 y of every row."""
        information = Measurements(self.arms, n, n).information
        if self.arms.are_units:
            seen = information > 0.0
            variance = np.where(seen, 1.0 / np.where(seen, information, 1.0), 0.0)
            return np.asarray(self._squares @ variance), variance
        q = np.linalg.solve(information, self._lifted.T).T
        return np.asarray((self._lifted * q).sum(axis=1)), np.asarray(q)

    def slopes(self, inverse: Array, weights: Array) -> Array:
        """sum_y weight_y (x' G^-1 y)^2 of every arm."""
        if self.arms.are_units:
            along = (weights @ self._squares) * inverse**2
            return np.asarray(along[self.arms.component] * self.arms.coefficient**2)
        return np.asarray(weights @ (inverse @ self.arms.span.rows.T) ** 2)


def plan(
    belief: GaussianBelief,
    oracle: ArgmaxOracle,
    z_hat: Array,
    quantile: float,
    risk: float,
    rng: np.random.Generator,
    epsilon: float = 0.0,
) -> Array:
    """n_x, not rounded: measurements after which z_hat beats all others with probability about 1 - risk."""
    listed = listed_rows(oracle, z_hat, epsilon)
    short = listed is not None and listed.shape[0] <= _MOST_ROWS
    if belief.is_diagonal and not short and (listed is not None or can_force(oracle)):
        return rehearse(belief, oracle, z_hat, quantile, rng, epsilon)
    now = belief.normal
    target = 0.5 * (quantile + _MARGIN) ** 2
    if listed is not None and listed.shape[0] > _MOST_ROWS:
        distance = now.gaps(listed) / np.sqrt(np.maximum(now.quadratic(listed), 1e-300))
        listed = listed[np.argsort(distance)[:_MOST_ROWS]]
    rivals = np.zeros((0, oracle.dim))
    n = np.full(len(belief.arms), 64.0 / len(belief.arms))
    for _ in range(_ROUNDS if listed is None else 1):
        if listed is None:
            planned = now if len(rivals) == 0 else _planned(belief, n)
            found = glr_bound(oracle, z_hat, planned, target=target, rng=rng, epsilon=epsilon).rivals
            known = len(rivals)
            rivals = unique_rows(np.concatenate([rivals, found]))
            if len(rivals) == known:
                break
        rows = as_sparse(rivals) if listed is None else listed
        n = _Plan(belief, rows, now, epsilon).smallest(quantile, risk, n)
    return n


def _planned(belief: GaussianBelief, n: Array) -> Normal:
    """The belief's mean with the covariance that n measurements would give."""
    future = Measurements(belief.arms, n, np.zeros(len(n))).least_squares()
    assert future is not None
    return Normal(belief.theta_hat[0], future.spread)


class _Plan:
    """Gaps with their uncertainty, and the allocation under which z_hat is likely to beat all rivals."""

    def __init__(self, belief: GaussianBelief, rows: Sparse, now: Normal, epsilon: float) -> None:
        self.gaps = np.sqrt(np.maximum(now.gaps(rows) + epsilon, 0.0) ** 2 + now.quadratic(rows))
        self.comparisons = Comparisons(belief.arms, rows)

    def smallest(self, quantile: float, risk: float, start: Array) -> Array:
        """The least N, and its allocation, for which the sum of failures is below the risk."""
        low, high, best = 0.0, float(start.sum()), None
        shares = start / start.sum()
        while best is None:
            if not high < _MOST:
                raise ParameterError(
                    f"telling the answers apart would take more than {_MOST:g} fresh measurements; "
                    "accept one that is nearly best with epsilon=, or end the run by a budget"
                )
            n, failures = self._spread(high, shares, quantile)
            shares = n / n.sum()
            if failures <= risk:
                best = n
            else:
                low, high = high, 2.0 * high
        for _ in range(6):
            middle = 0.5 * (low + high)
            n, failures = self._spread(middle, shares, quantile)
            shares = n / n.sum()
            if failures <= risk:
                best, high = n, middle
            else:
                low = middle
        return best

    def _spread(self, total: float, shares: Array, quantile: float) -> tuple[Array, float]:
        """The fixed point at N = total, started from these shares."""
        failures = np.inf
        for _ in range(_STEPS):
            n = np.maximum(total * shares, 1e-6 * total / len(shares))
            failures, slopes = self._failures(n, quantile)
            wanted = n * np.sqrt(slopes)
            shares = 0.5 * shares + 0.5 * wanted / wanted.sum()
        return np.maximum(total * shares, 1e-6 * total / len(shares)), failures

    def _failures(self, n: Array, quantile: float) -> tuple[float, Array]:
        """The sum of failures, and what each arm does about it, up to a factor."""
        from scipy.special import ndtr

        sigma2, inverse = self.comparisons.widths(n)
        score = quantile - self.gaps / np.sqrt(sigma2)
        # The slope in sigma_z^2, relative to the steepest: far from the boundary all of them are below any float.
        log_weight = -0.5 * score**2 + np.log(self.gaps) - 1.5 * np.log(sigma2)
        weight = np.exp(log_weight - log_weight.max()) + 1e-12
        return float(ndtr(score).sum()), self.comparisons.slopes(inverse, weight)


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
    so_far = 1.0 / (belief.spread[0, at] * gain[at])
    demand, total, passed = (so_far + 1.0) ** 2 / ((so_far + 1.0) ** 2).sum(), _START * so_far.sum(), 0
    n, variance = np.zeros(len(arms)), np.zeros(oracle.dim)
    for _ in range(_MOST_REHEARSALS):
        shares = np.sqrt(demand / gain[at])
        n[arm_of[at]] = total * ((1.0 - _EVENLY) * shares / shares.sum() + _EVENLY / len(at))
        variance[at] = 1.0 / (gain[at] * n[arm_of[at]])
        fresh = Normal(theta + np.sqrt(variance) * rng.standard_normal(oracle.dim), variance)
        bound = glr_bound(oracle, z_hat, fresh, target=target, rng=rng, epsilon=epsilon)
        if bound.value >= target:
            passed += 1
        else:
            total *= _GROWTH
        if passed == _PASSES or len(bound.rivals) == 0:
            break
        wanted = _demand(as_sparse(bound.rivals), fresh, quantile, epsilon)[at]
        demand = _MEMORY * demand + (1.0 - _MEMORY) * wanted / wanted.sum()
    return n


def _demand(rows: Sparse, fresh: Normal, quantile: float, epsilon: float) -> Array:
    """sum_z w_z y_a^2, up to a factor: the weights are relative to the largest, which may be far below any float."""
    widths = fresh.quadratic(rows)
    excess = np.maximum((fresh.gaps(rows) + epsilon) / np.sqrt(widths) - quantile, 0.0)
    log_weights = -0.5 * excess**2 - np.log(widths)
    weights = np.exp(log_weights - log_weights.max())
    entries = np.repeat(weights, np.diff(rows.indptr)) * rows.data**2
    return np.bincount(rows.indices, entries, minlength=len(fresh.theta)).astype(np.float64)

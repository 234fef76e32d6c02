"""Verification on fresh measurements by a plan fixed in advance, for a Z whose answers cannot be listed.

    min_z (z_hat - z) @ theta_fresh / sigma_z  >=  c_j     at one of a few looks j

z_hat and the number of measurements of every arm at every look are fixed before the fresh data are known. If some z* is
better than z_hat, its own comparison passes with probability at most alpha, so no union bound over answers is needed.
The boundaries c_j are valid for results with the noise of their arms only: a result with a standard error of its own
ends the attempt without confirmation, and its alpha is spent.

Allocation of fresh measurements under which z_hat is refuted by no comparison with a rival.

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
from numpy.typing import NDArray

from combopeps.errors import ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array, Sparse, as_sparse
from combopeps.oracles.constrained_argmax import can_constrain
from combopeps.posterior.arms import Arms
from combopeps.posterior.gaussian import GaussianPosterior, Normal
from combopeps.posterior.least_squares import Measurements, flat_posterior
from combopeps.stopping.certificates.alpha_spending import boundaries, guaranteed_fractions
from combopeps.stopping.certificates.glr import glr_bound, is_randomised, listed_rows
from combopeps.stopping.certificates.lagrangian import unique_rows
from combopeps.stopping.requested_measurements import FreshResults
from combopeps.utils.state_dict import StateDict, array, boolean, finite_float, integer, numbers

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


_LOOKS = np.array([0.5, 0.75, 1.0, 1.4, 2.0, 2.8, 4.0])  # times of looks, in units of the planned number
_SPEND = np.array([1, 2, 3, 3, 2, 1, 1]) / 13  # shares of alpha
_PLANNED_LOOK = 2  # index of the look at 1.0
_RISK = 0.3  # planned probability that some comparison has not passed at 1.0
_RANDOMISED_SHARE = 0.05  # of alpha for the randomised certificate, where it is the only one


class FixedPlan:
    """An attempt to confirm z_hat by a fixed plan; it has the interface of `Bets`.

    Attributes
    ----------
    counts
        Planned counts of every arm at every look, (J, K).
    quantiles
        The boundaries c_j.
    """

    def __init__(
        self,
        data: Measurements,
        oracle: ArgmaxOracle,
        z_hat: Array,
        level: float,
        epsilon: float,
        rng: np.random.Generator,
        fresh: FreshResults,
    ) -> None:
        fresh.restart()
        self.oracle, self.z_hat, self.epsilon = oracle, z_hat.copy(), epsilon
        self.confirmed, self.statistic, self.oracle_calls = False, 0.0, 0
        self._nu = 0.0
        if is_randomised(oracle, self.z_hat, data.arms.are_units, epsilon):
            self._nu = _RANDOMISED_SHARE * level / len(_LOOKS)
            level *= 1.0 - _RANDOMISED_SHARE
        guess = boundaries(_LOOKS / _LOOKS[-1], level * _SPEND)
        posterior = flat_posterior(data)
        assert posterior is not None
        n = plan_counts(posterior, oracle, self.z_hat, float(guess[_PLANNED_LOOK]), _RISK, rng, epsilon)
        self.counts, spend = _merge_looks(np.maximum(np.rint(_LOOKS[:, None] * n), 1).astype(np.int64), level * _SPEND)
        self.quantiles = boundaries(guaranteed_fractions(self.counts), spend)
        self.threshold = 0.5 * float(self.quantiles[0]) ** 2
        self._look = 0

    def state_dict(self) -> StateDict:
        """Return the plan and its progress as plain data."""
        return {
            "kind": "plan", "z_hat": self.z_hat, "confirmed": bool(self.confirmed),
            "said": np.array([self.statistic, self.threshold]), "calls": int(self.oracle_calls), "nu": float(self._nu),
            "counts": self.counts, "quantiles": self.quantiles, "look": self._look,
        }  # fmt: skip

    @classmethod
    def restored(cls, data: StateDict, arms: Arms, oracle: ArgmaxOracle, epsilon: float) -> FixedPlan:
        """Return the attempt of a state dictionary."""
        plan = cls.__new__(cls)
        plan.oracle, plan.epsilon, plan.z_hat = oracle, epsilon, array(data["z_hat"], np.float64, arms.dim)
        plan.counts = array(data["counts"], np.int64, None, len(arms))
        plan.quantiles = array(data["quantiles"], np.float64, len(plan.counts))
        plan._look, plan.oracle_calls = integer(data["look"], len(plan.counts)), integer(data["calls"])
        plan.confirmed, plan._nu = boolean(data["confirmed"]), finite_float(data["nu"])
        plan.statistic, plan.threshold = numbers(data["said"], 2)
        return plan

    @property
    def overdue(self) -> bool:
        """Whether the planned number of measurements was not enough."""
        return self._look > _PLANNED_LOOK

    @property
    def remaining(self) -> int:
        """Number of measurements of the attempt: as planned, or more if the statistic grows more slowly."""
        last = len(self.counts) - 1
        planned = int(self.counts[min(max(self._look, _PLANNED_LOOK), last)].sum())
        if self._look == 0 or self.statistic <= 0.0:
            return planned
        return max(planned, int(self.counts[self._look - 1].sum() * self.threshold / self.statistic))

    def missing(self, fresh: FreshResults) -> NDArray[np.int64]:
        """Return the counts of every arm that are missing before the next look."""
        return fresh.missing(self.counts[self._look])

    def look(self, data: Measurements, z_hat: Array, rng: np.random.Generator, fresh: FreshResults) -> bool:
        """Compare z_hat with all rivals; return False when the attempt has failed."""
        if not np.array_equal(z_hat, self.z_hat):
            return False  # another answer is better in all data
        if not fresh.has_nominal_errors:
            return False
        estimate = fresh.with_planned_weights.least_squares()
        quantile = float(self.quantiles[self._look])
        self.statistic, self.threshold, self.oracle_calls = 0.0, 0.5 * quantile**2, 0
        if estimate is not None and quantile > 0:
            nu = self._nu or 1e-3
            bound = glr_bound(
                self.oracle, self.z_hat, estimate, target=self.threshold, nu=nu, rng=rng, epsilon=self.epsilon
            )
            self.statistic, self.oracle_calls = bound.value, bound.oracle_calls
            self.confirmed = self.statistic >= self.threshold
        self._look += 1
        return self.confirmed or self._look < len(self.counts)


def _merge_looks(counts: NDArray[np.int64], spend: Array) -> tuple[NDArray[np.int64], Array]:
    """Merge looks between which nothing is measured."""
    first = np.flatnonzero(np.append(True, np.diff(counts, axis=0).any(axis=1)))
    return counts[first], np.add.reduceat(spend, first)

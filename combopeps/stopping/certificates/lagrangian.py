"""Lagrangian lower bound of the evidence against all other answers, through the argmax oracle.

The evidence against an answer z is

    max_lam  lam gap_z - sum_{a : z_a differs from z_hat_a} pen_a(lam),

where pen_a is the convex conjugate of the cost of an error of the estimate in coordinate a (`Gaussian`, `HalfNormal`).
Let d_a = 1 where z differs from z_hat, else 0, so that |y_a| = u d_a with u = |unit|. Then gap_z = sum_a price_a d_a is
linear in d, and for any lam > 0

    min_z max_lam' [lam' gap_z - sum_a pen_a(u lam') d_a]  >=  min_z sum_a [lam price_a - pen_a(u lam)] d_a,

where the right-hand side is one argmax at modified weights, and concave in lam. The bound is positive only over groups
of answers that all differ from z_hat in some component. The groups "e is the first component of z_hat that z drops" are
disjoint and cover all other answers (together with "e is the first that z adds" where answers may contain each other).
A group whose bound falls short of the target, although no known answer in it does, is split by branch and bound at a
component in which two of its minimisers differ.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles.base import ArgmaxOracle, Array, Sparse, as_sparse
from combopeps.oracles.constrained_argmax import constrained_argmax
from combopeps.posterior.gaussian import row_sums
from combopeps.stopping.certificates import _kernels as kernels
from combopeps.stopping.certificates._kernels import GRID_SIZE, MAX_MU, MIN_MU

Bools = NDArray[np.bool_]
Constraints = NDArray[np.int8]  # per group and component: 1 must differ from z_hat, -1 must not, 0 is free

_MAX_LAMS = 20  # values of lam tried per group
_MIN_LAMS_TO_FAIL = 3  # the same where some answer misses the target: others may miss it by more
_TIGHT = 1e-9  # relative difference of both bounds at which a group is finished
_BATCH_SIZE = 2_000_000  # weights held at once


class Gaussian:
    """pen_a(lam) = lam^2 s_a / 2: the evidence is the GLR statistic gap_z^2 / (2 v_z), v_z = sum_a y_a^2 s_a."""

    def __init__(self, variance: Array) -> None:
        self.variance = variance

    def matrix(self, lams: Array) -> Array:
        """Compute pen_a(lam) for every lam and every a, (E, d)."""
        return np.asarray(0.5 * lams[:, None] ** 2 * self.variance)

    def best(self, rows: Sparse, gaps: Array) -> tuple[Array, Array]:
        """Return the best lam of every row, gap / v, and the evidence max_lam lam gap - sum_a pen_a(lam |y_a|)."""
        v = row_sums(rows, rows.data**2 * self.variance[rows.indices])
        lams = np.maximum(gaps, 0.0) / np.maximum(v, 1e-300)
        return lams, 0.5 * lams * np.maximum(gaps, 0.0)


class HalfNormal:
    """pen_a(lam) = h*(lam / sqrt(w_a)) + ln(1 + n_a/rho)/2 + kappa_a,   h(x) = x^2/2 + ln(2 Phi(x)).

    The one-sided mixture: exp(h(x_a)) / sqrt(1 + n_a/rho), x_a = S_a / sqrt(n_a + rho), is the mean of
    exp(lam S_a - lam^2 n_a / 2) over a half-normal lam with precision rho, a martingale in the errors S_a of the n_a
    measurements of a, for errors of one known sign. w_a = n_a^2 / (n_a + rho).

    Parameters
    ----------
    information
        n_a; infinite in components where answers never differ.
    rho
        Precision of the mixing distribution, one number or one per component.
    kappa
        Charge of the union bound for each component.
    limit
        Largest error of each component: where theta_a >= 0, it is overestimated by theta_hat_a at most. The conjugate
        is then taken over x_a <= limit_a sqrt(w_a), so that lam theta_hat_a - pen_a(lam) does not fall far below 0, and
        a component that was never measured has no penalty.
    """

    def __init__(
        self, information: Array, rho: Array | float, kappa: Array | float = 0.0, limit: Array | float = np.inf
    ) -> None:
        rho, kappa, limit = (np.broadcast_to(np.float64(each), np.shape(information)) for each in (rho, kappa, limit))
        self.terms = np.asarray(kernels.all_terms(information, rho, kappa, limit))

    def matrix(self, lams: Array) -> Array:
        """Compute pen_a(lam) for every lam and every a, (E, d)."""
        grid, table, _ = conjugate_table()
        return np.asarray(kernels.penalty_matrix(lams, self.terms, grid, table))

    def best(self, rows: Sparse, gaps: Array) -> tuple[Array, Array]:
        """Return lam and the evidence of every row, by bisection on the derivative.

        The evidence is a valid bound at any lam, so an inexact maximiser suffices.
        """
        lams, values = kernels.best_multipliers(
            rows.indptr, rows.indices, rows.data, gaps, self.terms, *conjugate_table()
        )
        return lams, values


Penalty = Gaussian | HalfNormal


@lru_cache(maxsize=1)
def conjugate_table() -> tuple[Array, Array, Array]:
    """Return mu, h*(mu) and h*'(mu) = x on a grid, where x + phi(x)/Phi(x) = mu and h*(mu) = mu x - h(x)."""
    from scipy.special import erfcx, log_ndtr

    mu = np.geomspace(MIN_MU, MAX_MU, GRID_SIZE)
    low, high = np.full(GRID_SIZE, -2.0 / MIN_MU), mu.copy()
    for _ in range(80):
        x = 0.5 * (low + high)
        above = x + np.sqrt(2 / np.pi) / erfcx(-x / np.sqrt(2)) > mu
        low, high = np.where(above, low, x), np.where(above, x, high)
    tail = x < 0.0  # h = ln erfcx(-x / sqrt(2)) there, without cancellation
    h = np.where(tail, np.log(erfcx(-np.minimum(x, 0.0) / np.sqrt(2))), 0.5 * x * x + np.log(2.0) + log_ndtr(x))
    return mu, mu * x - h, x


@dataclass
class Bound:
    """A certified lower bound of the least evidence over all other answers.

    Attributes
    ----------
    value
        The bound; infinite when there is no other answer.
    oracle_calls
        Oracle calls it took.
    rivals
        Answers found during the search, as rows z - z_hat, (n, d).
    """

    value: float
    oracle_calls: int
    rivals: Array = field(repr=False)


def lagrangian_bound(
    oracle: ArgmaxOracle,
    z_hat: Array,
    theta: Array,
    penalty: Penalty,
    *,
    target: float = np.inf,
    epsilon: float = 0.0,
    max_calls: int = 20_000,
    candidates: Bools | None = None,
) -> Bound:
    """Bound min_z max_lam lam (gap_z + epsilon) - sum_a pen_a(lam) from below, for `oracle.binary` answers.

    The bound is raised until it exceeds `target`, some answer is found to miss the target, or `max_calls` are spent.
    With an infinite target no group is split. Answers consist of components of z_hat and of `candidates`, by default
    all.
    """
    search = _Search(oracle, z_hat, theta, penalty, target, epsilon)
    queue = search.groups(candidates)
    ended = oracle.domain != "real" or np.isinf(target)  # whether no group is split any more
    value, size = np.inf, max(1, _BATCH_SIZE // oracle.dim)
    while len(queue):
        groups, queue = queue[:size], queue[size:]
        lower, upper, disagree, at = search.relax(groups)
        missed = lower <= target
        hopeless = missed & (upper <= target)
        splittable = missed & ~hopeless & disagree
        ended = ended or bool(hopeless.any()) or search.calls > max_calls
        splittable &= not ended
        value = min(value, float(lower[~splittable].min(initial=np.inf)))
        queue = np.concatenate([_split(groups[splittable], at[splittable]), queue])
    return Bound(value, search.calls, search.rivals())


class _Search:
    """Lagrangian relaxations over groups of answers, and all rivals found."""

    def __init__(
        self, oracle: ArgmaxOracle, z_hat: Array, theta: Array, penalty: Penalty, target: float, epsilon: float
    ) -> None:
        self.oracle, self.z_hat, self.penalty, self.target, self.epsilon = oracle, z_hat, penalty, target, epsilon
        self.inside = z_hat != 0.0
        self.size = abs(oracle.unit)  # of every entry of a difference between answers
        self.sign = np.sign(oracle.unit) * np.where(self.inside, 1.0, -1.0)
        self.price = self.size * self.sign * theta  # decrease of the value per component that differs
        self.calls = 0
        self._found: list[Array] = [np.zeros((0, oracle.dim))]

    def rivals(self) -> Array:
        """Return the rivals found, each once, as rows z - z_hat."""
        return unique_supports(np.concatenate(self._found))

    def groups(self, candidates: Bools | None = None) -> Constraints:
        """Return one group per component of z_hat (or of all), disjoint where components can be forced in and out."""
        at = np.flatnonzero(self.inside) if self.oracle.antichain else np.argsort(~self.inside, kind="stable")
        groups = np.zeros((len(at), self.oracle.dim), dtype=np.int8)
        groups[np.arange(len(at)), at] = 1
        if self.oracle.domain == "real":
            groups -= np.cumsum(groups, axis=0, dtype=np.int8) - groups
        if candidates is not None:
            groups[:, ~candidates & ~self.inside] = -1
        return groups

    def relax(self, groups: Constraints) -> tuple[Array, Array, Bools, NDArray[np.intp]]:
        """Maximise the bound of every group over lam.

        Returns a lower and an upper bound of its least evidence, whether two of its minimisers differ, and the
        component at which to split it.
        """
        n = len(groups)
        differs, member, _ = self._minimise(np.broadcast_to(self.price, groups.shape), groups)
        lower, upper = np.where(member, -np.inf, np.inf), np.full(n, np.inf)
        left, right, bracket = differs, differs.copy(), np.tile([0.0, np.inf], (n, 1))
        lams = np.ones(n)
        active = np.flatnonzero(member)
        lams[active], upper[active] = self._evidence(differs[active])
        for iteration in range(_MAX_LAMS):
            if len(active) == 0:
                break
            lam = lams[active]
            cost = lam[:, None] * self.price - self.penalty.matrix(self.size * lam)
            differs, _, slack = self._minimise(cost, groups[active])
            bound = lam * self.epsilon + np.where(differs, cost, 0.0).sum(axis=1) - slack
            lower[active] = np.fmax(lower[active], bound)
            best, evidence = self._evidence(differs)
            upper[active] = np.minimum(upper[active], evidence)
            rising = best > lam
            bracket[active[rising], 0], left[active[rising]] = lam[rising], differs[rising]
            bracket[active[~rising], 1], right[active[~rising]] = lam[~rising], differs[~rising]
            lams[active] = _next_lam(lam, best, bracket[active])
            done = lower[active] > self.target
            if np.isfinite(self.target) and iteration + 1 >= _MIN_LAMS_TO_FAIL:
                done |= upper[active] <= self.target
            done |= lower[active] >= upper[active] - _TIGHT * np.abs(upper[active])
            active = active[~done]
        disagree = left != right
        at = np.where(disagree, np.abs(self.penalty.matrix(np.ones(1))), -1.0).argmax(axis=1)
        return lower, upper, disagree.any(axis=1), at

    def _evidence(self, differs: Bools) -> tuple[Array, Array]:
        """Return the best lam of each answer and the evidence against it, an upper bound for its group."""
        if len(differs) == 0:
            return np.zeros(0), np.zeros(0)
        y = np.where(differs, -self.size * self.sign, 0.0)
        self._found.append(y)
        rows = as_sparse(y)
        return self.penalty.best(rows, self.epsilon + row_sums(rows, self.price[rows.indices]))

    def _minimise(self, cost: Array, groups: Constraints) -> tuple[Bools, Bools, Array]:
        """Minimise sum_a cost_a d_a in every group: the minimiser, whether the group has a member, and the slack."""
        finite = np.where(np.isfinite(cost), cost, -1e100) if not np.isfinite(cost).all() else cost
        self.calls += len(groups)
        found = constrained_argmax(self.oracle, self.sign * finite, np.where(self.inside, -groups, groups))
        return found.answers != self.z_hat, found.is_feasible, found.slack


def _next_lam(lam: Array, best: Array, bracket: Array) -> Array:
    """Return the best lam of the minimiser if it lies inside the bracket, else the middle of the bracket."""
    low, high = bracket[:, 0], bracket[:, 1]
    inside = (best > low * (1 + 1e-6)) & (best < high * (1 - 1e-6))
    ceiling = np.where(np.isinf(high), 4.0 * np.maximum(low, lam), high)
    return np.asarray(np.where(inside, best, np.sqrt(np.maximum(low, 0.1 * ceiling) * ceiling)))


def _split(groups: Constraints, at: NDArray[np.intp]) -> Constraints:
    """Split each group in two: the component at `at` must differ, or must not."""
    rows = np.arange(len(groups))
    differ, same = groups.copy(), groups.copy()
    differ[rows, at], same[rows, at] = 1, -1
    return np.concatenate([differ, same])


def unique_rows(differences: Array) -> Array:
    """Return each distinct row once, in order of appearance."""
    return differences[_first_occurrences(differences)]


def unique_supports(differences: Array) -> Array:
    """Return the rows with distinct sets of non-zero entries, which determine differences of 0/1 answers."""
    return differences[_first_occurrences(np.packbits(differences != 0.0, axis=1))]


def _first_occurrences(keys: NDArray[Any]) -> list[int]:
    first: dict[bytes, int] = {}
    for i, key in enumerate(keys):
        first.setdefault(key.tobytes(), i)
    return list(first.values())

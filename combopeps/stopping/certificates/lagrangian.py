"""The smallest value over all other answers, bounded from below through the argmax oracle.

Let d_a = 1 where z differs from z_hat, else 0: |y_a| = u d_a, u = |unit|. Then gap_z = sum_a price_a d_a is linear in
d, and for any lam > 0

    min_z max_lam' [lam' gap_z - sum_a pen_a(u lam') d_a]  >=  min_z sum_a [lam price_a - pen_a(u lam)] d_a,

one argmax at modified weights, concave in lam. The bound is of use over a group of answers that all differ from z_hat
in some component. The groups "e is the first component of z_hat that z drops" are disjoint and together all other
answers (with "e is the first that z adds" where answers may contain each other). A group whose bound falls short of the
target, although no answer in it is known to, is split at a component in which two of its minimisers disagree.

What an error of the estimate costs, coordinate by coordinate: the two forms of evidence against an answer.

An answer z is refuted when no error of the estimate that makes up for its gap is cheap:

    max_lam  lam gap_z - sum_{a : z_a differs} pen_a(lam)   is large,

where pen_a is the conjugate of the cost of an error in coordinate a. Sums over coordinates are linear in a 0/1 answer,
so that the smallest value over a whole set of answers is one call of its argmax oracle.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles.base import ArgmaxOracle, Array, Sparse, as_sparse
from combopeps.oracles.constrained_argmax import force
from combopeps.posterior.normal import row_sums
from combopeps.stopping.certificates import _kernels as kernels
from combopeps.stopping.certificates._kernels import LARGEST, POINTS, SMALLEST


class Gaussian:
    """pen_a(lam) = lam^2 s_a / 2: the value of z is gap_z^2 / (2 v_z), v_z = sum_a y_a^2 s_a, the GLR statistic."""

    def __init__(self, variance: Array) -> None:
        self.variance = variance

    def matrix(self, lams: Array) -> Array:
        """pen_a(lam) for every lam and every a, (E, d)."""
        return np.asarray(0.5 * lams[:, None] ** 2 * self.variance)

    def best(self, rows: Sparse, gaps: Array) -> tuple[Array, Array]:
        """For every row the best lam, gap / v, and max_lam lam gap - sum_a pen_a(lam |y_a|)."""
        v = row_sums(rows, rows.data**2 * self.variance[rows.indices])
        lams = np.maximum(gaps, 0.0) / np.maximum(v, 1e-300)
        return lams, 0.5 * lams * np.maximum(gaps, 0.0)


class HalfNormal:
    """One-sided mixture: h(x) = x^2/2 + ln(2 Phi(x)),   pen_a(lam) = h*(lam / sqrt(w_a)) + ln(1 + n_a/rho)/2 + kappa_a.

    exp(h(x_a)) / sqrt(1 + n_a/rho), x_a = S_a / sqrt(n_a + rho), is the mean of exp(lam S_a - lam^2 n_a / 2) over a
    half-normal lam of precision rho: a martingale in the errors S_a of the n_a measurements of a, for errors of one
    known sign. w_a = n_a^2 / (n_a + rho). `information` n_a is infinite where answers never differ, rho may be one per
    coordinate, and kappa is what the union bound charges for each.

    An error may have a limit: where theta_a >= 0 it was overestimated by theta_hat_a at most. The conjugate is then
    taken over x_a <= limit_a sqrt(w_a), which keeps lam theta_hat_a - pen_a(lam) from falling far below 0; a component
    that was never measured costs nothing.
    """

    def __init__(
        self, information: Array, rho: Array | float, kappa: Array | float = 0.0, limit: Array | float = np.inf
    ) -> None:
        rho, kappa, limit = (np.broadcast_to(np.float64(each), np.shape(information)) for each in (rho, kappa, limit))
        self.terms = np.asarray(kernels.all_terms(information, rho, kappa, limit))

    def matrix(self, lams: Array) -> Array:
        """pen_a(lam) for every lam and every a, (E, d)."""
        grid, table, _ = conjugate_table()
        return np.asarray(kernels.penalty_matrix(lams, self.terms, grid, table))

    def best(self, rows: Sparse, gaps: Array) -> tuple[Array, Array]:
        """By bisection on the derivative; any lam is valid, so that its last digits do not matter."""
        lams, values = kernels.best_multipliers(
            rows.indptr, rows.indices, rows.data, gaps, self.terms, *conjugate_table()
        )
        return lams, values


Penalty = Gaussian | HalfNormal


@lru_cache(maxsize=1)
def conjugate_table() -> tuple[Array, Array, Array]:
    """mu, h*(mu) and h*'(mu) = x on a grid, where x + phi(x)/Phi(x) = mu and h*(mu) = mu x - h(x)."""
    from scipy.special import erfcx, log_ndtr

    mu = np.geomspace(SMALLEST, LARGEST, POINTS)
    low, high = np.full(POINTS, -2.0 / SMALLEST), mu.copy()
    for _ in range(80):
        x = 0.5 * (low + high)
        above = x + np.sqrt(2 / np.pi) / erfcx(-x / np.sqrt(2)) > mu
        low, high = np.where(above, low, x), np.where(above, x, high)
    tail = x < 0.0  # there h = ln erfcx(-x / sqrt(2)), without cancellation
    h = np.where(tail, np.log(erfcx(-np.minimum(x, 0.0) / np.sqrt(2))), 0.5 * x * x + np.log(2.0) + log_ndtr(x))
    return mu, mu * x - h, x


Bools = NDArray[np.bool_]
Fixed = NDArray[np.int8]  # per group and component: 1 must differ from z_hat, -1 must not, 0 is free

_ROUNDS = 20  # values of lam tried per group
_ROUNDS_TO_FAIL = 3  # ... and where an answer is seen to miss the target: others may miss it by more
_CLOSE = 1e-9  # relative difference at which a bound is tight enough
_NUMBERS = 2_000_000  # weights held at once


@dataclass
class Bound:
    """A certified lower bound of the smallest value over all other answers, and what was met on the way to it."""

    value: float  # infinite when there is no other answer
    oracle_calls: int
    rivals: Array = field(repr=False)  # differences y = z - z_hat, (n, d)


def lagrangian_bound(
    oracle: ArgmaxOracle,
    z_hat: Array,
    theta: Array,
    penalty: Penalty,
    *,
    target: float = np.inf,
    epsilon: float = 0.0,
    max_calls: int = 20_000,
    left: Bools | None = None,
) -> Bound:
    """Bound min over z of max_lam lam (gap_z + epsilon) - sum_a pen_a(lam), for `oracle.binary` answers.

    The bound is raised until it exceeds `target`, an answer is known that does not, or `max_calls` are spent. With an
    infinite target nothing is split. Answers are made of z_hat and of components that are `left`, by default all.
    """
    search = _Search(oracle, z_hat, theta, penalty, target, epsilon)
    waiting, stuck = search.groups(left), oracle.domain != "real" or np.isinf(target)  # nothing can, or need, be split
    value, size = np.inf, max(1, _NUMBERS // oracle.dim)
    while len(waiting):
        groups, waiting = waiting[:size], waiting[size:]
        lower, upper, disagree, at = search.relax(groups)
        missed = lower <= target
        hopeless = missed & (upper <= target)
        splittable = missed & ~hopeless & disagree
        stuck = stuck or bool(hopeless.any()) or search.calls > max_calls
        splittable &= not stuck
        value = min(value, float(lower[~splittable].min(initial=np.inf)))
        waiting = np.concatenate([_split(groups[splittable], at[splittable]), waiting])
    return Bound(value, search.calls, search.rivals())


class _Search:
    """Relaxations over groups, and all rivals met."""

    def __init__(
        self, oracle: ArgmaxOracle, z_hat: Array, theta: Array, penalty: Penalty, target: float, epsilon: float
    ) -> None:
        self.oracle, self.z_hat, self.penalty, self.target, self.epsilon = oracle, z_hat, penalty, target, epsilon
        self.inside = z_hat != 0.0
        self.size = abs(oracle.unit)  # of every entry of a difference between answers
        self.sign = np.sign(oracle.unit) * np.where(self.inside, 1.0, -1.0)
        self.price = self.size * self.sign * theta  # what z_hat gains over an answer by not differing there
        self.calls = 0
        self._met: list[Array] = [np.zeros((0, oracle.dim))]

    def rivals(self) -> Array:
        """Each once, as rows z - z_hat."""
        return unique_supports(np.concatenate(self._met))

    def groups(self, left: Bools | None = None) -> Fixed:
        """One for each component of z_hat (or of all), disjoint where components can be forced both ways."""
        at = np.flatnonzero(self.inside) if self.oracle.antichain else np.argsort(~self.inside, kind="stable")
        groups = np.zeros((len(at), self.oracle.dim), dtype=np.int8)
        groups[np.arange(len(at)), at] = 1
        if self.oracle.domain == "real":
            groups -= np.cumsum(groups, axis=0, dtype=np.int8) - groups
        if left is not None:
            groups[:, ~left & ~self.inside] = -1
        return groups

    def relax(self, groups: Fixed) -> tuple[Array, Array, Bools, NDArray[np.intp]]:
        """Raise the bound of every group by a search for its best lam.

        Returns both bounds of its smallest value, whether two of its minimisers disagree, and where to split.
        """
        n = len(groups)
        differs, member, _ = self._minimise(np.broadcast_to(self.price, groups.shape), groups)
        lower, upper = np.where(member, -np.inf, np.inf), np.full(n, np.inf)
        left, right, bracket = differs, differs.copy(), np.tile([0.0, np.inf], (n, 1))
        lams = np.ones(n)
        active = np.flatnonzero(member)
        lams[active], upper[active] = self._own(differs[active])
        for round_ in range(_ROUNDS):
            if len(active) == 0:
                break
            lam = lams[active]
            cost = lam[:, None] * self.price - self.penalty.matrix(self.size * lam)
            differs, _, slack = self._minimise(cost, groups[active])
            bound = lam * self.epsilon + np.where(differs, cost, 0.0).sum(axis=1) - slack
            lower[active] = np.fmax(lower[active], bound)
            best, own = self._own(differs)
            upper[active] = np.minimum(upper[active], own)
            rising = best > lam
            bracket[active[rising], 0], left[active[rising]] = lam[rising], differs[rising]
            bracket[active[~rising], 1], right[active[~rising]] = lam[~rising], differs[~rising]
            lams[active] = _next_lam(lam, best, bracket[active])
            done = lower[active] > self.target
            if np.isfinite(self.target) and round_ + 1 >= _ROUNDS_TO_FAIL:
                done |= upper[active] <= self.target
            done |= lower[active] >= upper[active] - _CLOSE * np.abs(upper[active])
            active = active[~done]
        disagree = left != right
        at = np.where(disagree, np.abs(self.penalty.matrix(np.ones(1))), -1.0).argmax(axis=1)
        return lower, upper, disagree.any(axis=1), at

    def _own(self, differs: Bools) -> tuple[Array, Array]:
        """The best lam of each answer for itself, and its value: no bound of its group exceeds it."""
        if len(differs) == 0:
            return np.zeros(0), np.zeros(0)
        y = np.where(differs, -self.size * self.sign, 0.0)
        self._met.append(y)
        rows = as_sparse(y)
        return self.penalty.best(rows, self.epsilon + row_sums(rows, self.price[rows.indices]))

    def _minimise(self, cost: Array, groups: Fixed) -> tuple[Bools, Bools, Array]:
        """min_z sum_a cost_a d_a in every group: who attains it, has the group a member, and what may be missing."""
        finite = np.where(np.isfinite(cost), cost, -1e100) if not np.isfinite(cost).all() else cost
        self.calls += len(groups)
        found = force(self.oracle, self.sign * finite, np.where(self.inside, -groups, groups))
        return found.answers != self.z_hat, found.obeys, found.slack


def _next_lam(lam: Array, best: Array, bracket: Array) -> Array:
    """The minimiser's own best lam if that lies inside the bracket, else its middle."""
    low, high = bracket[:, 0], bracket[:, 1]
    inside = (best > low * (1 + 1e-6)) & (best < high * (1 - 1e-6))
    ceiling = np.where(np.isinf(high), 4.0 * np.maximum(low, lam), high)
    return np.asarray(np.where(inside, best, np.sqrt(np.maximum(low, 0.1 * ceiling) * ceiling)))


def _split(groups: Fixed, at: NDArray[np.intp]) -> Fixed:
    """Two groups for each: the component must differ, or must not."""
    rows = np.arange(len(groups))
    differ, same = groups.copy(), groups.copy()
    differ[rows, at], same[rows, at] = 1, -1
    return np.concatenate([differ, same])


def unique_rows(differences: Array) -> Array:
    """Each different row once, in order of appearance."""
    return differences[_first(differences)]


def unique_supports(differences: Array) -> Array:
    """The same where the places of the entries say everything, as they do for 0/1 answers."""
    return differences[_first(np.packbits(differences != 0.0, axis=1))]


def _first(keys: NDArray[Any]) -> list[int]:
    first: dict[bytes, int] = {}
    for i, key in enumerate(keys):
        first.setdefault(key.tobytes(), i)
    return list(first.values())

"""Rivals in a Z that is not listed, with a certificate: unit arms and answers with entries 0 and `unit`.

Let d_e = 1 where z differs from z*, else 0. Then gap_z = sum_e a_e d_e and ||z* - z||^2 = v_z = sum_e s_e d_e are both
linear in d (s: the diagonal of A(lam)^-1), and by the inequality of the means

    gap_z^2 / (2 v_z)  =  max_mu 2 mu (gap_z - mu v_z)  >=  max_mu 2 mu f(mu),   f(mu) = min_z (gap_z - mu v_z),

where f(mu) is one argmax at modified weights. It is tight enough to be of use only over a group of rivals that all
differ in some component. The groups "e is the first component of z* that z drops" are disjoint, and together all of Z
(with "e is the first that z adds" if some answer contains z*). Where the bound of a group falls short, the group is
split at a component in which two of its minimisers disagree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from combopeps.bound.game import UnitGame
from combopeps.bound.rivals import Attack, Rivals
from combopeps.errors import OracleError
from combopeps.oracles.base import ArgmaxOracle, Array

Bools = NDArray[np.bool_]
Fixed = NDArray[np.int8]  # per group and component: 1 must differ from z*, -1 must not, 0 is free

_MAX_STEPS = 40
_RANDOM = 256  # random weights per attack, where groups cannot be split
_ENOUGH = 16  # rivals that end an attack
_ROUNDING = 1e-12  # of the sum of all weights: what an oracle may miss of the maximum
_BLOCK = 1 << 20  # entries of theta per call of the oracle


class Minimisers(NamedTuple):
    """Per group: where its minimiser differs from z*, whether the group has a member, and whether this is proved."""

    differs: Bools
    member: Bools
    proved: Bools


class Relaxed(NamedTuple):
    """Per group: max_mu 2 mu f(mu), two minimisers around the best mu, and all rivals met."""

    lower: Array
    left: Bools
    right: Bools
    met: Bools


class LagrangianRivals(Rivals):
    """Bounds by groups; with theta >= 0 only (`domain`), groups are not split and mu is limited."""

    def __init__(
        self, oracle: ArgmaxOracle, theta: Array, z_star: Array, game: UnitGame, max_calls: int = 100_000
    ) -> None:
        self.oracle, self.z_star, self.game, self.max_calls = oracle, z_star, game, max_calls
        self.rng = np.random.default_rng(0)
        self.inside = z_star != 0.0
        self.sign = oracle.unit * np.where(self.inside, 1.0, -1.0)
        self.price = self.sign * theta  # a_e: what z* gains over a rival by not differing in e
        self.splits = oracle.domain == "real"
        if not self.splits:
            self.groups = self._differ_in(self.inside)
        else:
            self.groups = self._partition(np.ones_like(self.inside) if self._is_contained() else self.inside)

    def first(self) -> Array:
        """For each component the rival closest in value among those that differ there."""
        groups = self._differ_in(np.ones_like(self.inside)) if self.splits else self.groups
        found = self._minimise(np.broadcast_to(self.price, groups.shape), groups)
        return self._rows(found.differs[found.member])

    def attack(self, lam: Array, ceiling: float) -> Attack:
        """Split groups until each is certified, or enough rivals are found, or `max_calls` are spent."""
        s, target = self.game.variance(lam, self.oracle.dim), 0.5 / ceiling
        last_call, size = self.oracle_calls + self.max_calls, max(1, _BLOCK // self.oracle.dim)
        waiting, waiting_lower, lower = self.groups, np.zeros(len(self.groups)), np.inf
        rivals = np.zeros((0, self.oracle.dim))
        while len(waiting) and len(rivals) < _ENOUGH and self.oracle_calls < last_call:
            groups, waiting, waiting_lower = waiting[-size:], waiting[:-size], waiting_lower[:-size]
            relaxed = self._relax(groups, s, target)
            met = relaxed.met if self.splits else np.concatenate([relaxed.met, self._wander()])
            rivals = np.unique(np.concatenate([rivals, self._above(met, s, ceiling)]), axis=0)
            disagree = relaxed.left != relaxed.right
            short = (relaxed.lower < target) & disagree.any(axis=1) & self.splits
            lower = min(lower, float(relaxed.lower[~short].min(initial=np.inf)))
            at = np.where(disagree[short], s, -1.0).argmax(axis=1)
            waiting = np.concatenate([waiting, _split(groups[short], at)])
            waiting_lower = np.concatenate([waiting_lower, np.tile(relaxed.lower[short], 2)])
        lower = min(lower, float(waiting_lower.min(initial=np.inf)))
        return Attack(0.5 / lower if lower > 0.0 else np.inf, rivals)

    def _relax(self, groups: Fixed, s: Array, target: float) -> Relaxed:
        """Maximise min_z 2 mu (gap_z - mu v_z) over mu, a minimum of concave parabolas: cut from both sides."""
        start = self._minimise(np.broadcast_to(self.price, groups.shape), groups)
        left = start.differs  # minimisers at smaller mu than the best; right: at larger mu, once there is one
        right = left.copy()
        met = [left[start.member]]
        lower = np.where(start.member, 0.0, np.inf)
        active = np.flatnonzero(start.member)
        bracketed = np.zeros(len(groups), dtype=bool)
        for _ in range(_MAX_STEPS):
            if not len(active):
                break
            low, high = left[active], right[active]
            mu, model = _peak(low @ self.price, low @ s, high @ self.price, high @ s, bracketed[active])
            cost = self.price - mu[:, None] * s
            found = self._minimise(cost, groups[active])
            gap, width = found.differs @ self.price, found.differs @ s
            value = 2.0 * mu * (gap - mu * width)
            rounding = 2.0 * mu * _ROUNDING * np.abs(cost).sum(axis=1)
            proved = found.proved & found.member
            lower[active] = np.where(proved, np.maximum(lower[active], value - rounding), lower[active])
            met.append(found.differs)
            tight = value >= model * (1.0 - 1e-9)
            rising = gap > 2.0 * mu * width
            left[active[rising]] = found.differs[rising]
            right[active[~rising]] = found.differs[~rising]
            bracketed[active[~rising]] = True
            active = active[~tight & (lower[active] < target)]
        return Relaxed(lower, left, right, np.concatenate(met))

    def _wander(self) -> Bools:
        """Rivals at random weights, heavy-tailed so that long detours win too: for domains that cannot force them."""
        self.oracle_calls += _RANDOM
        weights = self.rng.exponential(size=(_RANDOM, self.oracle.dim)) ** 3
        return np.asarray(self.oracle.argmax(weights) != self.z_star)

    def _minimise(self, cost: Array, groups: Fixed) -> Minimisers:
        """min_z sum_e cost_e d_e in every group: one argmax each. A large cost fixes what the group fixes."""
        large = 4.0 * np.abs(cost).sum(axis=1, keepdims=True) + np.finfo(float).tiny
        thetas = self.sign * np.where(groups == 0, cost, -large * groups)
        proved = np.ones(len(thetas), dtype=bool)
        if self.oracle.domain == "nonnegative":
            proved = (thetas.min(axis=1) >= 0.0) & (len(self.game.component) == self.oracle.dim)
            thetas = np.maximum(thetas, 0.0)  # still finds rivals, but proves nothing
        block = max(1, _BLOCK // self.oracle.dim)
        blocks = [self.oracle.argmax(thetas[i : i + block]) for i in range(0, len(thetas), block)]
        self.oracle_calls += len(thetas)
        answers = np.concatenate(blocks)
        if ((answers != 0.0) & (answers != self.oracle.unit)).any():
            raise OracleError(
                f"{self.oracle!r} returned an answer with entries other than 0 and {self.oracle.unit:g}, where earlier "
                "ones had none; list such a Z with ExplicitOracle"
            )
        differs = answers != self.z_star
        obeys = (differs | (groups != 1)) & (~differs | (groups != -1))
        return Minimisers(differs, obeys.all(axis=1), proved)

    def _differ_in(self, components: Bools) -> Fixed:
        """One group for each of these components: it must differ."""
        at = np.flatnonzero(components)
        groups = np.zeros((len(at), self.oracle.dim), dtype=np.int8)
        groups[np.arange(len(at)), at] = 1
        return groups

    def _partition(self, components: Bools) -> Fixed:
        """The same groups made disjoint: those before it must not differ."""
        groups = self._differ_in(components)
        return groups - (np.cumsum(groups, axis=0, dtype=np.int8) - groups)

    def _is_contained(self) -> bool:
        """Does some other answer contain z*?"""
        fixed = np.where(self.inside, -1, 0).astype(np.int8)[None]
        found = self._minimise(np.where(self.inside, 0.0, -1.0)[None], fixed)
        return bool(found.member[0] and found.differs[0].any())

    def _above(self, differs: Bools, s: Array, ceiling: float) -> Array:
        gap = differs @ self.price
        return self._rows(differs[differs @ s > ceiling * gap**2])

    def _rows(self, differs: Bools) -> Array:
        """The different rivals as rows z* - z."""
        return np.where(np.unique(differs, axis=0), self.sign, 0.0)


def _peak(gap_l: Array, width_l: Array, gap_r: Array, width_r: Array, bracketed: Bools) -> tuple[Array, Array]:
    """The highest point of min(2 mu (gap_l - mu width_l), 2 mu (gap_r - mu width_r)), and its height."""
    top_l, top_r = gap_l / (2.0 * width_l), gap_r / (2.0 * width_r)
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = (gap_r - gap_l) / (width_r - width_l)
    mu = np.where(bracketed & (width_r > width_l), np.minimum(top_l, np.maximum(crossing, top_r)), top_l)
    return mu, 2.0 * mu * np.minimum(gap_l - mu * width_l, gap_r - mu * width_r)


def _split(groups: Fixed, at: NDArray[np.intp]) -> Fixed:
    """Two groups for each: the component must differ, or must not."""
    rows = np.arange(len(groups))
    differ, same = groups.copy(), groups.copy()
    differ[rows, at], same[rows, at] = 1, -1
    return np.concatenate([differ, same])

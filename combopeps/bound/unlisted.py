"""Rivals in a Z that is not listed, with a certificate: unit arms and answers with entries 0 and `unit`.

    min_z gap_z^2 / (2 v_z),   v_z = sum_e s_e |z_e - z*_e|   (s: the diagonal of A(lam)^-1)

is the GLR statistic at theta with variances s: `stopping.lagrangian` bounds it from below by groups of answers, with
branching where a group's bound falls short.
"""

from __future__ import annotations

import numpy as np

from combopeps.bound.game import UnitGame
from combopeps.bound.rivals import Attack, Rivals
from combopeps.certificates.lagrangian import binary_answers, lagrangian_bound
from combopeps.certificates.penalties import Gaussian
from combopeps.oracles.base import ArgmaxOracle, Array

_RANDOM = 256  # random weights per attack, where groups cannot be split


class LagrangianRivals(Rivals):
    """Bounds by groups; with theta >= 0 only (`domain`), groups are not split and random weights help out."""

    def __init__(
        self, oracle: ArgmaxOracle, theta: Array, z_star: Array, game: UnitGame, max_calls: int = 100_000
    ) -> None:
        self.oracle, self.theta, self.z_star, self.game, self.max_calls = oracle, theta, z_star, game, max_calls
        self.rng = np.random.default_rng(0)

    def first(self) -> Array:
        """For each component the rival closest in value among those that differ there."""
        force = 4.0 * np.abs(self.theta).sum() + np.finfo(float).tiny
        thetas = self.theta + np.diag(np.where(self.z_star != 0.0, -force, force) * self.oracle.unit)
        self.oracle_calls += len(thetas)
        if self.oracle.domain == "nonnegative":
            thetas = np.maximum(thetas, 0.0)
        return self._differences(thetas)

    def attack(self, lam: Array, ceiling: float) -> Attack:
        """Split groups until each is certified, or a rival above the ceiling is found, or `max_calls` are spent."""
        s, target = self.game.variance(lam, self.oracle.dim), 0.5 / ceiling
        found = lagrangian_bound(
            self.oracle, self.z_star, self.theta, Gaussian(s), target=target, max_calls=self.max_calls
        )
        self.oracle_calls += found.oracle_calls
        y = -found.rivals
        if self.oracle.domain != "real":
            y = np.unique(np.concatenate([y, self._wander()]), axis=0)
        above = (y * y) @ s > ceiling * (y @ self.theta) ** 2
        return Attack(0.5 / found.value if found.value > 0.0 else np.inf, y[above])

    def _wander(self) -> Array:
        """Rivals at random weights, heavy-tailed so that long detours win too: for domains that cannot force them."""
        self.oracle_calls += _RANDOM
        weights = self.rng.exponential(size=(_RANDOM, self.oracle.dim)) ** 3
        return self._differences(weights)

    def _differences(self, thetas: Array) -> Array:
        y = self.z_star - binary_answers(self.oracle, thetas)
        return np.unique(y[y.any(axis=1)], axis=0)

"""Rivals of z*: whom does an allocation tell apart worst?

    max_{z in Z, z != z*} c_z' A(lam)^-1 c_z,   c_z = y / gap_z,   y = z - z*,   gap_z = -y @ theta

over all of Z (`ListedRivals`, `LagrangianRivals`), or over what a search finds (`RayRivals`). Rivals are passed around
as rows y.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from combopeps.bound.game import Game, GeneralGame, UnitGame
from combopeps.certificates.lagrangian import lagrangian_bound
from combopeps.certificates.penalties import Gaussian
from combopeps.cone.rays import ray_exits
from combopeps.oracles.base import ArgmaxOracle, Array, Sparse
from combopeps.oracles.forcing import binary_answers, force, one_at_a_time

_ADDED = 64  # rivals handed over at once, and rays sent out
_TRIES = 8
_RANDOM = 256  # random weights per attack, where groups cannot be split


class Attack(NamedTuple):
    """A certified upper end of the maximum over Z (infinite if there is none), and rivals above the ceiling."""

    upper: float
    rivals: Array


class Rivals(ABC):
    """A search for the rivals of z* under theta."""

    oracle_calls = 0

    @abstractmethod
    def first(self) -> Array:
        """Some rivals to begin with, the closest in value among them; empty if there is none at all."""

    @abstractmethod
    def attack(self, lam: Array, ceiling: float) -> Attack:
        """Rivals whose c' A(lam)^-1 c exceeds the ceiling."""


class ListedRivals(Rivals):
    """All that matter, as the rows of a matrix: the facets of z*."""

    def __init__(self, facets: Sparse, theta: Array, game: Game) -> None:
        self.rows, self.game = facets, game
        self.gap = -(self.rows @ theta)
        self._squares = self.rows.power(2)

    def first(self) -> Array:
        """For each component the row closest in value among those that differ there, and the row measured worst."""
        entries = self.rows.tocoo()
        order = np.lexsort((self.gap[entries.row], entries.col))
        _, at = np.unique(entries.col[order], return_index=True)
        chosen = entries.row[order][at]
        if isinstance(self.game, GeneralGame):
            blind = np.linalg.norm(self.game.span.blind(self.rows.toarray()), axis=1)
            chosen = np.append(chosen, np.argsort(-blind)[:1])
        return np.asarray(self.rows[np.unique(chosen)].toarray())

    def attack(self, lam: Array, ceiling: float) -> Attack:
        """Exact: every row is looked at."""
        if isinstance(self.game, UnitGame):
            width = self._squares @ self.game.variance(lam)
        else:
            width = self.game.width(self.game.coordinates(self.rows.toarray()), lam)
        width = width / self.gap**2
        worst = np.argsort(-width, kind="stable")[:_ADDED]
        return Attack(float(width[worst[0]]), self.rows[worst[width[worst] > ceiling]].toarray())


class LagrangianRivals(Rivals):
    """All of a Z that is not listed, with a certificate: unit arms and answers with entries 0 and `unit`.

        min_z gap_z^2 / (2 v_z),   v_z = sum_e s_e |z_e - z*_e|   (s: the diagonal of A(lam)^-1)

    is the GLR statistic at theta with variances s: `lagrangian_bound` bounds it from below by groups of answers, with
    branching where a group's bound falls short. With theta >= 0 only (`domain`), groups are not split and random
    weights help out.
    """

    def __init__(
        self, oracle: ArgmaxOracle, theta: Array, z_star: Array, game: UnitGame, max_calls: int = 100_000
    ) -> None:
        self.oracle, self.theta, self.z_star, self.game, self.max_calls = oracle, theta, z_star, game, max_calls
        self.rng = np.random.default_rng(0)

    def first(self) -> Array:
        """For each component the rival closest in value among those that differ there."""
        found = force(self.oracle, self.theta, one_at_a_time(np.arange(self.oracle.dim), self.z_star))
        self.oracle_calls += self.oracle.dim
        return self._differences(found.answers)

    def attack(self, lam: Array, ceiling: float) -> Attack:
        """Split groups until each is certified, or a rival above the ceiling is found, or `max_calls` are spent."""
        s, target = self.game.variance(lam), 0.5 / ceiling
        found = lagrangian_bound(
            self.oracle, self.z_star, self.theta, Gaussian(s), target=target, max_calls=self.max_calls
        )
        self.oracle_calls += found.oracle_calls
        y = found.rivals
        if self.oracle.domain != "real":
            y = np.unique(np.concatenate([y, self._wander()]), axis=0)
        above = (y * y) @ s > ceiling * (y @ self.theta) ** 2
        return Attack(0.5 / found.value if found.value > 0.0 else np.inf, y[above])

    def _wander(self) -> Array:
        """Rivals at random weights, heavy-tailed so that long detours win too: for domains that cannot force them."""
        self.oracle_calls += _RANDOM
        weights = self.rng.exponential(size=(_RANDOM, self.oracle.dim)) ** 3
        return self._differences(binary_answers(self.oracle, weights))

    def _differences(self, answers: Array) -> Array:
        y = answers - self.z_star
        return np.unique(y[y.any(axis=1)], axis=0)


class RayRivals(Rivals):
    """Found along rays theta + s v, through the argmax alone: any Z and any arms, but nothing is certified.

    From the rival behind each exit the search goes straight towards the nearest point of its half-space, until no
    nearer rival is met on the way.
    """

    def __init__(self, oracle: ArgmaxOracle, theta: Array, z_star: Array, game: Game) -> None:
        self.oracle, self.theta, self.z_star, self.game = oracle, theta, z_star, game
        self.rng = np.random.default_rng(0)

    def first(self) -> Array:
        """Behind the exits along every axis, both ways, and along random directions."""
        axes = np.eye(self.oracle.dim)
        return self._behind(np.concatenate([axes, -axes, self.rng.normal(size=(_ADDED, self.oracle.dim))]))

    def attack(self, lam: Array, ceiling: float) -> Attack:
        """Random directions under the allocation, then the descent, a few times over; the upper end is infinite."""
        for _ in range(_TRIES):
            y = self._descend(lam, self.rng.normal(size=(_ADDED, self.oracle.dim)))
            width = self.game.width(self.game.coordinates(y), lam) / (y @ self.theta) ** 2
            worst = np.argsort(-width, kind="stable")[:_ADDED]
            worst = worst[width[worst] > ceiling]
            if len(worst):
                break
        return Attack(np.inf, y[worst])

    def _descend(self, lam: Array, directions: Array) -> Array:
        seen = [self._behind(self.game.covariance_dot(lam, directions))]
        while len(y := seen[-1]):
            nearer = self._behind(self.game.covariance_dot(lam, y))
            before = {row.tobytes() for rows in seen for row in rows}
            seen.append(nearer[[row.tobytes() not in before for row in nearer]])
        return np.concatenate(seen)

    def _behind(self, directions: Array) -> Array:
        """The different rivals behind the exits."""
        start = np.full(len(directions), np.inf)
        if self.oracle.domain == "nonnegative":
            with np.errstate(divide="ignore", invalid="ignore"):
                start = np.where(directions < 0.0, -self.theta / directions, np.inf).min(axis=1)
        exits = ray_exits(self.oracle, self.z_star, self.theta, directions, start)
        self.oracle_calls += exits.oracle_calls
        return np.unique(exits.answers[exits.found] - self.z_star, axis=0)

"""`lower_bound`: the constant that no algorithm beats.

    tau* = max_{lam in simplex} min_{z in Z, z != z*} (y @ theta)^2 / (2 ||y||^2_{A(lam)^-1}),   y = z - z*,
    A(lam) = sum_x lam_x x x' / (noise_x^2 cost_x)

lam shares out the cost. A delta-correct rule is one that is wrong with probability delta at most whatever theta is; its
expected cost at this theta is at least

    kl(delta, 1 - delta) / tau*,   kl(delta, 1 - delta) = (1 - 2 delta) ln((1 - delta) / delta),

the expected number of measurements where each costs 1 (`least_expected_cost`). A Bayesian rule, whose error is bounded
on average over the prior, is no delta-correct rule and may end earlier.

By cutting planes: solve the game against a few rivals, which gives an upper end of tau*; look for the rival that the
allocation tells apart worst among all of Z, which gives a lower end; add it; until both ends meet.

Rivals of z*: whom does an allocation tell apart worst?

    max_{z in Z, z != z*} c_z' A(lam)^-1 c_z,   c_z = y / gap_z,   y = z - z*,   gap_z = -y @ theta

over all of Z (`ListedRivals`, `LagrangianRivals`), or over what a search finds (`RayRivals`). Rivals are passed around
as rows y.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from combopeps.alternatives.cone import ray_exits
from combopeps.errors import NoAlternativeError, ReachError, ThetaError, TieError
from combopeps.oracles.base import ArgmaxOracle, Array, Sparse
from combopeps.oracles.constrained_argmax import binary_answers, can_force, force, one_at_a_time
from combopeps.oracles.input_checks import as_thetas
from combopeps.problem import Problem
from combopeps.stopping.certificates.lagrangian import Gaussian, lagrangian_bound
from combopeps.stopping.lower_bound_game import ActionGame, Game, GeneralGame, UnitGame, solve
from combopeps.utils.validation import check_count, check_flag, check_fraction, check_positive, check_real

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


def least_expected_cost(tau_star: float, delta: float) -> float:
    """kl(delta, 1 - delta) / tau*: a lower bound for every rule that is wrong with probability delta at most.

    For all such rules, that is, whose error probability is at most delta at every theta (frequentist); it is a lower
    bound of their expected cost at the theta that tau* belongs to. Rules with a Bayesian claim are not among them.

    Parameters
    ----------
    tau_star
        As `lower_bound` has it, or an upper end of it.
    delta
        Probability of a wrong answer; 0 where it is 1/2 or more, which asks for nothing.

    Examples
    --------
    >>> round(least_expected_cost(0.01, 0.05), 1)
    265.0
    """
    check_positive("tau_star", tau_star)
    check_fraction("delta", delta)
    return max(0.0, 1.0 - 2.0 * delta) * log((1.0 - delta) / delta) / tau_star


@dataclass(frozen=True)
class LowerBound:
    """tau*, the allocation that attains it, and how well both are known; unpacks as `tau_star, allocation`.

    Attributes
    ----------
    tau_star
        What `allocation` attains: when `certified`, a lower end of its minimum over all of Z, within the
        `relative_gap` asked for; else its minimum over the rivals found, which may be too large.
    allocation
        A share of the measurements for every arm, `(K,)`; shares of the cost are in proportion to it times cost.
    lower, upper
        Certified ends of tau*; lower is 0 where nothing is known.
    certified
        Whether 1 - lower / upper is at most the `relative_gap` asked for.
    rivals
        The answers that are hardest to tell from z* under the allocation, one per row.
    oracle_calls
        How many argmaxes it took.
    actions
        Where measurements are actions: those that the shares in `allocation` are of.
    """

    tau_star: float
    allocation: Array
    lower: float
    upper: float
    certified: bool
    rivals: Array = field(repr=False)
    oracle_calls: int
    actions: list[Any] | None = field(default=None, repr=False)

    def __iter__(self) -> Iterator[float | Array]:
        yield self.tau_star
        yield self.allocation

    @property
    def relative_gap(self) -> float:
        """1 - lower / upper."""
        return 1.0 - self.lower / self.upper


def lower_bound(
    problem: Problem | ArgmaxOracle,
    theta: ArrayLike,
    *,
    relative_gap: float = 1e-4,
    max_rounds: int = 1000,
    progress: bool = False,
) -> LowerBound:
    """tau* at theta, and the allocation that attains it.

    The result is certified where the oracle lists its facets (top-k, `ExplicitOracle`), for any arms; and through the
    argmax alone for arms that measure one component each and oracles that promise `binary` answers, by a bound that is
    nearly always tight after some branching. Two cases stay uncertified, and say so: general arms with a Z that is not
    listed, where rivals come from a search; and, as a rule, oracles for theta >= 0 only (graphs with cycles), where the
    search for the worst rival is as hard as a longest path (on 60 undirected grids of up to 4 x 4, `tau_star` was
    within 2e-4 of the truth in 48, and at most 2.3 % too large).

    All of R^d counts as possible: a bounded `problem.space` makes the true constant larger. A certificate trusts the
    oracle to come within 1e-12 of the sum of all weights; `MatchingOracle` with OR-Tools is coarser from about a
    hundred nodes on.

    Parameters
    ----------
    problem
        A `Problem`, or a bare oracle.
    theta
        The true parameter; its best answer must be unique.
    relative_gap
        How far apart the two certified ends may lie, at least 1e-6.
    max_rounds
        Stop, uncertified, after so many rounds of new rivals.
    progress
        Show rounds and the gap.

    Raises
    ------
    TieError
        Two answers are equally good: tau* = 0.
    NoAlternativeError
        Z has a single answer.
    ReachError
        The arms cannot tell z* from some answer: tau* = 0.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> tau_star, allocation = lower_bound(Problem(TopKOracle(12, k=3), noise_std=1.0), 1 - 0.05 * np.arange(12))
    >>> print(f"{tau_star:.3e}", allocation[2:4].round(2))
    2.505e-04 [0.4 0.4]
    """
    from tqdm import tqdm

    problem = problem if isinstance(problem, Problem) else Problem(problem)
    problem.require_noise("tau*")
    truth = as_thetas(theta, problem.oracle.dim, problem.oracle.domain)
    if truth.ndim != 1:
        raise ThetaError(f"theta must have shape ({problem.oracle.dim},), got {truth.shape}")
    check_real("relative_gap", relative_gap, 1e-6, np.nextafter(1.0, 0.0), "a number in [1e-6, 1)")
    check_count("max_rounds", max_rounds)
    check_flag("progress", progress)
    search = _Search(problem, truth, float(relative_gap))
    with tqdm(total=max_rounds, disable=not progress, unit=" rounds") as bar:
        for _ in range(max_rounds):
            goes_on = search.round()
            bar.set_postfix_str(f"gap {1.0 - search.low / search.high:.1e}, {len(search.y)} rivals")
            bar.update()
            if not goes_on:
                break
    return search.result()


class _Search:
    """Both ends of rho = 1 / (2 tau*), and the rivals met so far as rows y = z - z*."""

    def __init__(self, problem: Problem, theta: Array, gap: float) -> None:
        self.problem, self.theta, self.gap = problem, theta, gap
        self.z_star, arms = problem.oracle.argmax(theta), problem.priced
        self.game: Game = UnitGame(arms) if arms.are_units else GeneralGame(arms)
        if problem.actions is not None:
            self.game = ActionGame(problem, problem.actions)
        self.rivals = _rivals_of(problem.oracle, theta, self.z_star, self.game)
        self.y = self._checked(self.rivals.first())
        if not len(self.y):
            raise NoAlternativeError("Z has a single answer: there is nothing to find out")
        self.low, self.high = 0.0, np.inf
        self._lam: Array | None = None
        self.best = self._latest = np.full(self.game.arms, 1.0 / self.game.arms)

    def round(self) -> bool:
        """Solve the game, attack the allocation, take in the rivals that beat it; False when that is the end."""
        if isinstance(self.game, ActionGame):
            start = None if self._lam is None else np.append(self._lam, np.zeros(self.game.arms - len(self._lam)))
            self._lam, rho = self.game.solve(self._c(), self.gap / 4, start)
        else:
            self._lam, rho, _ = solve(self.game, self._c(), self.gap / 4, start=self._lam)
        self.low = max(self.low, rho)
        # A little of every arm: rivals not met yet are never infinitely hard to tell apart.
        mixed = (1.0 - self.gap / 8) * self._lam + self.gap / 8 / self.game.arms
        self._latest = mixed
        upper, found = self.rivals.attack(mixed, self.low / (1.0 - 0.9 * self.gap))
        if upper <= self.high:
            self.high, self.best = upper, mixed
        if self.certified:
            return False
        known = {row.tobytes() for row in self.y}
        new = self._checked(found[[row.tobytes() not in known for row in found]])
        self.y = np.concatenate([self.y, new])
        return len(new) > 0

    @property
    def certified(self) -> bool:
        return self.low >= (1.0 - self.gap) * self.high and self._certain

    @property
    def _certain(self) -> bool:
        return not isinstance(self.game, ActionGame) or self.game.certain

    def result(self) -> LowerBound:
        """In the paper's units."""
        if not 0.0 < self.low < np.inf:
            raise ThetaError("the gaps between answers are too large or too small for their squares; use other units")
        best = self.best if self.certified else self._latest  # uncertified: the one that took all rivals into account
        best = np.append(best, np.zeros(self.game.arms - len(best)))  # actions met later have no share
        width = self.game.width(self._c(), best)
        attained = self.high if self.certified else float(width.max())
        scale = 0.5
        return LowerBound(
            tau_star=scale / attained,
            allocation=_measurements(self.game.allocation(best), self._cost()),
            lower=scale / self.high,
            upper=scale / self.low if self._certain else np.inf,
            certified=self.certified,
            rivals=self.z_star + self.y[width >= (1.0 - 10.0 * self.gap) * width.max()],
            oracle_calls=1 + self.rivals.oracle_calls,
            actions=self.game.labels() if isinstance(self.game, ActionGame) else None,
        )

    def _cost(self) -> Array:
        return self.game.cost if isinstance(self.game, ActionGame) else self.problem.cost

    def _c(self) -> Array:
        return self.game.coordinates(self.y / -(self.y @ self.theta)[:, None])

    def _checked(self, y: Array) -> Array:
        """The rows themselves, unless one of them makes tau* zero."""
        if not len(y):
            return y
        decode = self.problem.oracle.decode
        blind = self.problem.arms.blind(y)
        size = np.linalg.norm(blind, axis=1)
        if size.max() > 1e-9 * np.abs(y).max():
            raise ReachError(
                f"no amount of measuring tells {decode(self.z_star)} from {decode(self.z_star + y[size.argmax()])}: "
                "tau* = 0; add an arm with a component along the attribute `direction`",
                blind[size.argmax()] / size.max(),
            )
        tied = -(y @ self.theta) <= 1e-13 * (np.abs(y) @ np.abs(self.theta))
        if tied.any():
            raise TieError(
                f"{decode(self.z_star)} and {decode(self.z_star + y[tied.argmax()])} are equally good under theta: "
                "tau* = 0, and no number of measurements tells which is better; change theta"
            )
        return y


def _measurements(spending: Array, cost: Array) -> Array:
    """Shares of the cost as shares of the measurements."""
    shares = spending / cost
    return np.asarray(shares / shares.sum()) if (cost != cost[0]).any() else spending


def _rivals_of(oracle: ArgmaxOracle, theta: Array, z_star: Array, game: Game) -> Rivals:
    """The strongest search that applies."""
    facets = oracle.facets(z_star)
    if facets is not None:
        return ListedRivals(facets, theta, game)
    if isinstance(game, UnitGame) and can_force(oracle):
        return LagrangianRivals(oracle, theta, z_star, game)
    return RayRivals(oracle, theta, z_star, game)

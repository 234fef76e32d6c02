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
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import log
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from combopeps.bound.action_game import ActionGame
from combopeps.bound.game import Game, GeneralGame, UnitGame, solve
from combopeps.bound.rivals import LagrangianRivals, ListedRivals, RayRivals, Rivals
from combopeps.errors import NoAlternativeError, ReachError, ThetaError, TieError
from combopeps.oracles._validate import as_thetas
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.oracles.forcing import can_force
from combopeps.problem import Problem
from combopeps.validation import check_count, check_flag, check_fraction, check_positive, check_real


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

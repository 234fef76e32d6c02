"""`lower_bound`: the instance-dependent lower bound on the expected cost of identification.

    tau* = max_{lam in simplex} min_{z in Z, z != z*} (y @ theta)^2 / (2 ||y||^2_{A(lam)^-1}),   y = z - z*,
    A(lam) = sum_x lam_x x x' / (noise_x^2 cost_x)

lam is the allocation of the cost over arms. A rule is delta-correct if it is wrong with probability at most delta at
every theta. The expected cost of a delta-correct rule at this theta is at least

    kl(delta, 1 - delta) / tau*,   kl(delta, 1 - delta) = (1 - 2 delta) ln((1 - delta) / delta)

(`least_expected_cost`), which is the expected number of measurements where each costs 1. A Bayesian rule, whose error
is bounded on average over the prior, is not delta-correct and may end earlier.

tau* is computed by cutting planes. The game against a few rivals of z* (`lower_bound_game`) gives an upper end of tau*.
A separation step finds the rival in Z that the allocation distinguishes worst from z*,

    max_{z in Z, z != z*} c_z' A(lam)^-1 c_z,   c_z = y / gap_z,   y = z - z*,   gap_z = -y @ theta,

over all of Z (`ListedSeparator`, `LagrangianSeparator`) or over the answers found by a search (`RaySeparator`). This
gives a lower end of tau*, and the rival is added to the game, until both ends meet. Rivals are rows y.
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
from combopeps.errors import IdentifiabilityError, NoAlternativeError, ThetaError, TieError
from combopeps.oracles.base import ArgmaxOracle, Array, Sparse
from combopeps.oracles.constrained_argmax import binary_answers, can_constrain, constrained_argmax, flip_one_component
from combopeps.oracles.input_checks import as_thetas
from combopeps.problem import Problem
from combopeps.stopping.certificates.lagrangian import Gaussian, lagrangian_bound
from combopeps.stopping.lower_bound_game import ActionGame, Game, GeneralGame, UnitGame, solve
from combopeps.utils.validation import check_count, check_flag, check_fraction, check_positive, check_real

_MAX_ADDED = 64  # rivals added per separation step, and rays per search
_MAX_TRIES = 8  # searches by rays per separation step
_RANDOM_WEIGHTS = 256  # random weights per separation step, where groups cannot be split


class Separation(NamedTuple):
    """Result of a separation step.

    Attributes
    ----------
    upper
        Certified upper end of the maximum over Z; infinite if there is none.
    rivals
        Rivals above the threshold, as rows y.
    """

    upper: float
    rivals: Array


class Separator(ABC):
    """Base class of separation steps: searches for the rivals of z* that an allocation distinguishes worst."""

    oracle_calls = 0

    @abstractmethod
    def initial(self) -> Array:
        """Return initial rivals, among them the closest in value; empty if z* is the only answer."""

    @abstractmethod
    def separate(self, lam: Array, threshold: float) -> Separation:
        """Find rivals whose c' A(lam)^-1 c exceeds the threshold."""


class ListedSeparator(Separator):
    """Exact separation over the listed facets of z*, which are all the rivals that matter."""

    def __init__(self, facets: Sparse, theta: Array, game: Game) -> None:
        self.rows, self.game = facets, game
        self.gap = -(self.rows @ theta)
        self._squares = self.rows.power(2)

    def initial(self) -> Array:
        """Return for each component the rival closest in value that differs there, and the least measurable rival."""
        entries = self.rows.tocoo()
        order = np.lexsort((self.gap[entries.row], entries.col))
        _, at = np.unique(entries.col[order], return_index=True)
        chosen = entries.row[order][at]
        if isinstance(self.game, GeneralGame):
            blind = np.linalg.norm(self.game.span.blind(self.rows.toarray()), axis=1)
            chosen = np.append(chosen, np.argsort(-blind)[:1])
        return np.asarray(self.rows[np.unique(chosen)].toarray())

    def separate(self, lam: Array, threshold: float) -> Separation:
        """Compute the maximum over all rows."""
        if isinstance(self.game, UnitGame):
            width = self._squares @ self.game.variance(lam)
        else:
            width = self.game.width(self.game.coordinates(self.rows.toarray()), lam)
        width = width / self.gap**2
        worst = np.argsort(-width, kind="stable")[:_MAX_ADDED]
        return Separation(float(width[worst[0]]), self.rows[worst[width[worst] > threshold]].toarray())


class LagrangianSeparator(Separator):
    """Certified separation over a Z that is not listed, for unit arms and answers with entries 0 and `unit`.

        min_z gap_z^2 / (2 v_z),   v_z = sum_e s_e |z_e - z*_e|   (s: the diagonal of A(lam)^-1)

    is the GLR statistic at theta with variances s, which `lagrangian_bound` bounds from below by branch and bound over
    groups of answers. For oracles with theta >= 0 only, groups are not split, and rivals are also searched at random
    weights.
    """

    def __init__(
        self, oracle: ArgmaxOracle, theta: Array, z_star: Array, game: UnitGame, max_calls: int = 100_000
    ) -> None:
        self.oracle, self.theta, self.z_star, self.game, self.max_calls = oracle, theta, z_star, game, max_calls
        self.rng = np.random.default_rng(0)

    def initial(self) -> Array:
        """Return for each component the rival closest in value that differs there."""
        found = constrained_argmax(self.oracle, self.theta, flip_one_component(np.arange(self.oracle.dim), self.z_star))
        self.oracle_calls += self.oracle.dim
        return self._differences(found.answers)

    def separate(self, lam: Array, threshold: float) -> Separation:
        """Split groups until all are certified, a rival above the threshold is found, or `max_calls` are spent."""
        s, target = self.game.variance(lam), 0.5 / threshold
        found = lagrangian_bound(
            self.oracle, self.z_star, self.theta, Gaussian(s), target=target, max_calls=self.max_calls
        )
        self.oracle_calls += found.oracle_calls
        y = found.rivals
        if self.oracle.domain != "real":
            y = np.unique(np.concatenate([y, self._random_rivals()]), axis=0)
        above = (y * y) @ s > threshold * (y @ self.theta) ** 2
        return Separation(0.5 / found.value if found.value > 0.0 else np.inf, y[above])

    def _random_rivals(self) -> Array:
        """Return the best answers at random weights, heavy-tailed so that long detours occur among them."""
        self.oracle_calls += _RANDOM_WEIGHTS
        weights = self.rng.exponential(size=(_RANDOM_WEIGHTS, self.oracle.dim)) ** 3
        return self._differences(binary_answers(self.oracle, weights))

    def _differences(self, answers: Array) -> Array:
        y = answers - self.z_star
        return np.unique(y[y.any(axis=1)], axis=0)


class RaySeparator(Separator):
    """Heuristic separation by rays theta + s v, for any Z and any arms, without a certificate.

    A ray leaves the cone of z* through the facet of some rival. The next ray points at the nearest point of that
    rival's half-space, until no new rival is found.
    """

    def __init__(self, oracle: ArgmaxOracle, theta: Array, z_star: Array, game: Game) -> None:
        self.oracle, self.theta, self.z_star, self.game = oracle, theta, z_star, game
        self.rng = np.random.default_rng(0)

    def initial(self) -> Array:
        """Return the rivals at the exits along every axis, in both directions, and along random directions."""
        axes = np.eye(self.oracle.dim)
        return self._exit_rivals(np.concatenate([axes, -axes, self.rng.normal(size=(_MAX_ADDED, self.oracle.dim))]))

    def separate(self, lam: Array, threshold: float) -> Separation:
        """Search from random directions, several times if needed; the upper end is infinite."""
        for _ in range(_MAX_TRIES):
            y = self._descend(lam, self.rng.normal(size=(_MAX_ADDED, self.oracle.dim)))
            width = self.game.width(self.game.coordinates(y), lam) / (y @ self.theta) ** 2
            worst = np.argsort(-width, kind="stable")[:_MAX_ADDED]
            worst = worst[width[worst] > threshold]
            if len(worst):
                break
        return Separation(np.inf, y[worst])

    def _descend(self, lam: Array, directions: Array) -> Array:
        """Return all rivals found from these directions, moving to nearer rivals until none is new."""
        found = [self._exit_rivals(self.game.covariance_dot(lam, directions))]
        while len(y := found[-1]):
            nearer = self._exit_rivals(self.game.covariance_dot(lam, y))
            known = {row.tobytes() for rows in found for row in rows}
            found.append(nearer[[row.tobytes() not in known for row in nearer]])
        return np.concatenate(found)

    def _exit_rivals(self, directions: Array) -> Array:
        """Return the distinct rivals at which rays in these directions leave the cone of z*."""
        start = np.full(len(directions), np.inf)
        if self.oracle.domain == "nonnegative":
            with np.errstate(divide="ignore", invalid="ignore"):
                start = np.where(directions < 0.0, -self.theta / directions, np.inf).min(axis=1)
        exits = ray_exits(self.oracle, self.z_star, self.theta, directions, start)
        self.oracle_calls += exits.oracle_calls
        return np.unique(exits.answers[exits.found] - self.z_star, axis=0)


def least_expected_cost(tau_star: float, delta: float) -> float:
    """Return kl(delta, 1 - delta) / tau*, a lower bound on the expected cost of every delta-correct rule.

    The bound is for the theta of tau*, and for rules whose error probability is at most delta at every theta
    (frequentist). It does not hold for rules with a Bayesian claim.

    Parameters
    ----------
    tau_star
        `LowerBound.tau_star`, or an upper end of it.
    delta
        Error probability; the bound is 0 from 1/2 on.

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
    """tau*, an allocation that attains it, and certified ends; unpacks as `tau_star, allocation`.

    Attributes
    ----------
    tau_star
        The value attained by `allocation`: if `certified`, a lower end of its minimum over all of Z, within the
        requested `relative_gap`; else its minimum over the rivals found, which may be too large.
    allocation
        Share of the measurements for every arm, `(K,)`; shares of the cost are proportional to allocation times cost.
    lower, upper
        Certified ends of tau*; lower is 0 without a certificate.
    certified
        Whether 1 - lower / upper is at most the requested `relative_gap`.
    rivals
        The answers that are hardest to distinguish from z* under the allocation, one per row.
    oracle_calls
        Number of oracle calls.
    actions
        In problems with actions, the actions that `allocation` refers to.
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
    """Compute tau* at theta and the allocation that attains it.

    The result is certified for any arms if the oracle lists its facets (top-k, `ExplicitOracle`), and for arms that
    measure one component each if the oracle has `binary` answers; then by branch and bound, which is nearly always
    tight. In two cases the result is uncertified (`certified` is False): general arms with a Z that is not listed,
    where rivals come from a heuristic search; and usually oracles for theta >= 0 only (graphs with cycles), where the
    search for the worst rival is as hard as a longest path (on 60 undirected grids of up to 4 x 4, `tau_star` was
    within 2e-4 of the truth in 48, and at most 2.3 % too large).

    Alternatives are taken from all of R^d: for a bounded `problem.space` the true constant is larger. A certificate
    requires that the oracle is accurate to 1e-12 of the sum of all weights; `MatchingOracle` with OR-Tools is less
    accurate from about a hundred nodes on.

    Parameters
    ----------
    problem
        A `Problem`, or an oracle.
    theta
        The true parameter; its best answer must be unique.
    relative_gap
        Largest relative difference of the certified ends, at least 1e-6.
    max_rounds
        Number of rounds of new rivals, after which the result is uncertified.
    progress
        Show a progress bar with the gap.

    Raises
    ------
    TieError
        Two answers are equally good: tau* = 0.
    NoAlternativeError
        Z has a single answer.
    IdentifiabilityError
        The arms cannot distinguish z* from some answer: tau* = 0.

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
    search = _CuttingPlanes(problem, truth, float(relative_gap))
    with tqdm(total=max_rounds, disable=not progress, unit=" rounds") as bar:
        for _ in range(max_rounds):
            has_new_rivals = search.round()
            bar.set_postfix_str(f"gap {1.0 - search.low / search.high:.1e}, {len(search.y)} rivals")
            bar.update()
            if not has_new_rivals:
                break
    return search.result()


class _CuttingPlanes:
    """The cutting-plane iteration: both ends of rho = 1 / (2 tau*), and the rivals found so far as rows y = z - z*."""

    def __init__(self, problem: Problem, theta: Array, gap: float) -> None:
        self.problem, self.theta, self.gap = problem, theta, gap
        self.z_star, arms = problem.oracle.argmax(theta), problem.priced
        self.game: Game = UnitGame(arms) if arms.are_units else GeneralGame(arms)
        if problem.actions is not None:
            self.game = ActionGame(problem, problem.actions)
        self.separator = _separator_for(problem.oracle, theta, self.z_star, self.game)
        self.y = self._check_rivals(self.separator.initial())
        if not len(self.y):
            raise NoAlternativeError("Z has a single answer: there is nothing to identify")
        self.low, self.high = 0.0, np.inf
        self._lam: Array | None = None
        self.best = self._latest = np.full(self.game.arms, 1.0 / self.game.arms)

    def round(self) -> bool:
        """Solve the game, separate, and add the rivals found; return False when there are none, or when certified."""
        if isinstance(self.game, ActionGame):
            start = None if self._lam is None else np.append(self._lam, np.zeros(self.game.arms - len(self._lam)))
            self._lam, rho = self.game.solve(self._coordinates(), self.gap / 4, start)
        else:
            self._lam, rho, _ = solve(self.game, self._coordinates(), self.gap / 4, start=self._lam)
        self.low = max(self.low, rho)
        # A small share for every arm bounds the widths of rivals that have not been found yet.
        mixed = (1.0 - self.gap / 8) * self._lam + self.gap / 8 / self.game.arms
        self._latest = mixed
        upper, found = self.separator.separate(mixed, self.low / (1.0 - 0.9 * self.gap))
        if upper <= self.high:
            self.high, self.best = upper, mixed
        if self.certified:
            return False
        known = {row.tobytes() for row in self.y}
        new = self._check_rivals(found[[row.tobytes() not in known for row in found]])
        self.y = np.concatenate([self.y, new])
        return len(new) > 0

    @property
    def certified(self) -> bool:
        return self.low >= (1.0 - self.gap) * self.high and self._is_certifiable

    @property
    def _is_certifiable(self) -> bool:
        return not isinstance(self.game, ActionGame) or self.game.certain

    def result(self) -> LowerBound:
        """Return both ends as values of tau*."""
        if not 0.0 < self.low < np.inf:
            raise ThetaError("the gaps between answers are too large or too small for their squares; use other units")
        best = self.best if self.certified else self._latest  # the latest allocation is for all rivals found
        best = np.append(best, np.zeros(self.game.arms - len(best)))  # actions found later have no share
        width = self.game.width(self._coordinates(), best)
        attained = self.high if self.certified else float(width.max())
        return LowerBound(
            tau_star=0.5 / attained,
            allocation=_measurement_shares(self.game.allocation(best), self._cost()),
            lower=0.5 / self.high,
            upper=0.5 / self.low if self._is_certifiable else np.inf,
            certified=self.certified,
            rivals=self.z_star + self.y[width >= (1.0 - 10.0 * self.gap) * width.max()],
            oracle_calls=1 + self.separator.oracle_calls,
            actions=self.game.labels() if isinstance(self.game, ActionGame) else None,
        )

    def _cost(self) -> Array:
        return self.game.cost if isinstance(self.game, ActionGame) else self.problem.cost

    def _coordinates(self) -> Array:
        return self.game.coordinates(self.y / -(self.y @ self.theta)[:, None])

    def _check_rivals(self, y: Array) -> Array:
        """Return the rivals; raise if tau* is zero because of one of them."""
        if not len(y):
            return y
        decode = self.problem.oracle.decode
        blind = self.problem.arms.blind(y)
        size = np.linalg.norm(blind, axis=1)
        if size.max() > 1e-9 * np.abs(y).max():
            raise IdentifiabilityError(
                f"no amount of measuring distinguishes {decode(self.z_star)} from "
                f"{decode(self.z_star + y[size.argmax()])}: tau* = 0; add an arm with a component along the attribute "
                "`direction`",
                blind[size.argmax()] / size.max(),
            )
        tied = -(y @ self.theta) <= 1e-13 * (np.abs(y) @ np.abs(self.theta))
        if tied.any():
            raise TieError(
                f"{decode(self.z_star)} and {decode(self.z_star + y[tied.argmax()])} are equally good under theta: "
                "tau* = 0, and no number of measurements decides which is better; change theta"
            )
        return y


def _measurement_shares(cost_shares: Array, cost: Array) -> Array:
    """Convert shares of the cost to shares of the measurements."""
    shares = cost_shares / cost
    return np.asarray(shares / shares.sum()) if (cost != cost[0]).any() else cost_shares


def _separator_for(oracle: ArgmaxOracle, theta: Array, z_star: Array, game: Game) -> Separator:
    """Return the strongest separation method that applies."""
    facets = oracle.facets(z_star)
    if facets is not None:
        return ListedSeparator(facets, theta, game)
    if isinstance(game, UnitGame) and can_constrain(oracle):
        return LagrangianSeparator(oracle, theta, z_star, game)
    return RaySeparator(oracle, theta, z_star, game)

"""`Policy`: which arm to measure next.

A policy runs R replications side by side. People use one, by asking and telling (`policies.ask_tell`); simulations use
hundreds, and call the same `choose` and `learn` underneath.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.belief import GaussianBelief, Measurements
from combopeps.belief.stated import Stated
from combopeps.errors import NoAlternativeError, ParameterError, SpaceError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.oracles.watch import Watch
from combopeps.policies.ask_tell import AskTell, Recommendation, recommendation_of
from combopeps.policies.guards import NoiseGuard
from combopeps.policies.ledger import Query
from combopeps.policies.shares import RoundRobin
from combopeps.policies.step import Step, Turn, exclusive
from combopeps.problem import Problem
from combopeps.risk import Doubt, chance_worse, check_epsilon, doubt_about
from combopeps.samplers.base import AlternativeSampler, Question
from combopeps.samplers.replicated import ReplicatedSampler
from combopeps.space import RealSpace
from combopeps.streams import Streams, generator_of

Arm = NDArray[np.intp]
_T = TypeVar("_T")
_TIE = 1e-9  # relative to what the prior, or one measurement, says about a component
_ULPS = 16 * np.finfo(np.float64).eps


class Policy(ABC):
    """Chooses arms for a problem.

    A policy serves one thread at a time: while one is inside `ask`, `tell`, `observe` or `recommend`, a call from
    another raises `ConcurrentUseError`. Let one thread ask and tell, or hold a lock of your own around every call. What
    `tell` and `observe` change, they change in one step, which Ctrl-C does not tear apart.

    Parameters
    ----------
    problem
        A `Problem`, or a bare oracle.
    rng
        Seed, generator, or None for an unpredictable one.
    sampler
        Where alternatives come from; by default the one that suits the problem.
    prior_precision
        V_0 = prior_precision * I; by default what the problem's prior_std says, component by component.
    replications
        Independent runs side by side; `ask` and `tell` are for one.
    streams
        Random streams of the replications, instead of `rng`.
    """

    memoryless = False
    """Choices depend on the belief, the pulls and the random numbers alone: nothing else has to be restored."""
    by_name = True
    """Its name says everything: it can be had on the command line, without options of its own."""

    def __init__(
        self,
        problem: Problem | ArgmaxOracle,
        rng: int | np.random.Generator | None = None,
        *,
        sampler: AlternativeSampler | None = None,
        prior_precision: float | None = None,
        replications: int = 1,
        streams: Streams | None = None,
    ) -> None:
        self.problem = problem = problem if isinstance(problem, Problem) else Problem(problem)
        arms, oracle = problem.signal, problem.oracle
        precision: Stated = 1.0 / problem.prior_std**2 if prior_precision is None else prior_precision
        self.streams = streams or Streams.of(rng, replications)
        self.replications = R = len(self.streams)
        self.belief = GaussianBelief.start(
            arms, prior_precision=precision, prior_mean=problem.prior_mean, replications=R
        )
        self._watch = Watch(oracle, problem.known)
        self.alternatives = ReplicatedSampler(oracle, problem.space, self.streams, sampler, self._watch)
        self.pulls = np.zeros((R, len(arms)), dtype=np.int64)
        # What rests on data alone needs no prior: the worth of the measurements of each arm, and their sum.
        self.weights, self.totals = np.zeros(self.pulls.shape), np.zeros(self.pulls.shape)
        self._per_noise = 1.0 / problem.noise
        self.relative_cost = problem.relative_cost if problem.costs_differ else None  # None: costs do not matter
        # A fixed, tiny random vector decides between answers that the data cannot tell apart: no index is favoured.
        size = _TIE * min(float(np.min(problem.prior_std)), 1.0 / arms.size)
        size = max(size, _ULPS * float(np.abs(problem.prior_mean).max()))  # or rounding would swallow it
        self._tie = size * self.streams.normal(oracle.dim)
        self._tie_size = 2.0 * float(np.abs(self._tie).sum(axis=1).max())
        self._bounds = problem.space.bounds(oracle.dim)
        self._sweep: RoundRobin | None = None
        self.turn = Turn()
        self._ask_tell = AskTell(self) if R == 1 else None

    @abstractmethod
    def choose(self) -> Arm:
        """The next arm of every replication, (R,)."""

    def next_arms(self) -> Arm:
        """`choose`; where no alternative exists there is nothing to learn, and the least measured arm will do."""
        try:
            return self.choose()
        except NoAlternativeError:
            return np.asarray(self.pulls.argmin(axis=1))
        except BaseException:
            self._forget_halves()
            raise

    def begin_with_every_arm(self) -> None:
        """Draw the order of a first sweep, which `choose` goes through before anything else: see `first_sweep`."""
        self._sweep = RoundRobin(len(self.problem.arms), self.streams)

    def first_sweep(self) -> Arm | None:
        """The next arms of the sweep in which every arm is measured once; None when it is over, or none was wanted."""
        return None if self._sweep is None or self._sweep.complete else self._sweep.pick()

    def learn(self, arm: ArrayLike, y: ArrayLike, weight: float = 1.0, count: int = 1) -> None:
        """One result in every replication: of `count` measurements, worth `weight` ordinary ones of the arm."""
        value = self._in_units(arm, y)
        self.belief.update(arm, value, weight)
        self._count(arm, value, weight, count)

    def _in_units(self, arm: Any, y: Any) -> Any:
        """Of the noise."""
        try:
            if type(arm) is int and type(y) is float:
                return y * self._per_noise.item(arm)
            with np.errstate(over="ignore"):  # what is too large is refused by the belief
                return np.asarray(y, dtype=np.float64) * self._per_noise[np.asarray(arm)]
        except (IndexError, TypeError, ValueError) as cause:
            raise ParameterError(f"arm and y must be numbers, or one per replication: {cause}") from None

    def _count(self, arm: ArrayLike, value: Any, weight: float, count: int) -> None:
        at: Any = (0, arm) if self.replications == 1 else (np.arange(self.replications), np.asarray(arm))
        self.pulls[at] += count
        self.weights[at] += weight
        self.totals[at] += value * weight

    def learn_many(
        self,
        arms: Sequence[int] | Arm,
        ys: Sequence[float] | Array,
        weights: Sequence[float] | Array | None = None,
        counts: Sequence[int] | Arm | None = None,
    ) -> None:
        """Results of one replication, in their order; all at once where a policy has no memory of its own."""
        worth = np.ones(len(ys)) if weights is None else np.asarray(weights, dtype=np.float64)
        times = np.ones(len(ys), dtype=np.int64) if counts is None else np.asarray(counts, dtype=np.int64)
        if self.memoryless:
            arm = np.asarray(arms, dtype=np.intp)
            values = np.asarray(ys, dtype=np.float64) * self._per_noise[arm]
            self.belief.update_many(arm, values, worth)
            np.add.at(self.pulls[0], arm, times)
            np.add.at(self.weights[0], arm, worth)
            np.add.at(self.totals[0], arm, values * worth)
        elif weights is None and counts is None:
            for one, y in zip(arms, ys, strict=True):
                self.learn(int(one), float(y))
        else:
            for one, y, weight, count in zip(arms, ys, worth.tolist(), times.tolist(), strict=True):
                self.learn(int(one), float(y), weight, count)

    def measurements(self) -> Measurements:
        """All that has been measured, arm by arm; of one replication."""
        self._single("measurements")
        pulls = self.pulls[0].astype(np.float64)
        return Measurements(self.problem.signal, self.weights[0].copy(), self.totals[0].copy(), pulls)

    def z_hat(self, belief: GaussianBelief | None = None) -> Array:
        """The current answers, (R, d): best under theta_hat, projected on Theta."""
        theta_hat = (self.belief if belief is None else belief).theta_hat
        if isinstance(self.problem.space, RealSpace):
            return self._argmax(theta_hat + self._tie)
        inside = self.problem.space.project(theta_hat)
        low, high = self._bounds
        # The tie breaker points inwards at a boundary: projected with the rest, half of it would be lost there.
        tie = np.where(inside <= low, np.abs(self._tie), np.where(inside >= high, -np.abs(self._tie), self._tie))
        return self._argmax(self.problem.space.project(inside + tie))

    def _argmax(self, thetas: Array) -> Array:
        answers = self.problem.oracle.argmax(thetas)
        self._watch.see(thetas, answers, self._tie_size)  # a solver may be too coarse for the tie breaker
        return answers

    @property
    def samples(self) -> int:
        """Measurements learnt from, per replication."""
        return int(self.pulls[0].sum())

    @property
    def spent(self) -> Array:
        """What all measurements have cost, (R,)."""
        return np.asarray(self.pulls @ self.problem.cost)

    @exclusive
    def doubt(self, z: Array, rng: int | np.random.Generator | None = 0, belief: GaussianBelief | None = None) -> Doubt:
        """The posterior probability that z is wrong (an estimate), and its most likely rival."""
        self._single("doubt")
        question = Question(belief or self.belief, self.problem.oracle, z, self.problem.space)
        return self.alone(lambda: doubt_about(self.alternatives.at(z), question, generator_of(rng), self._watch))

    @exclusive
    def alone(self, work: Callable[[], _T]) -> _T:
        """Do something with the run's cone: no other thread may, and if it is broken off the cone begins anew."""
        try:
            return work()
        except BaseException:
            self._forget_halves()
            raise

    def forget(self) -> None:
        """Drop what samplers have learnt on the way; what was learnt from measurements stays."""
        self.alternatives.forget()

    def _forget_halves(self) -> None:
        """A sampler that was interrupted may hold half of what it was noting down: it begins anew."""
        with Step(self.turn):
            self.forget()

    def _single(self, what: str) -> None:
        if self.replications != 1:
            raise ParameterError(f"{what} is for one replication; this policy runs {self.replications}")

    @property
    def ask_tell(self) -> AskTell:
        """Asking and telling, which is for one replication."""
        self._single("asking and telling")
        assert self._ask_tell is not None
        return self._ask_tell

    @overload
    def ask(self) -> Query: ...
    @overload
    def ask(self, n: int) -> list[Query]: ...
    def ask(self, n: int | None = None) -> Query | list[Query]:
        """The next measurement to make, or n of them at once, each chosen with an alternative of its own."""
        return self.ask_tell.ask()[0] if n is None else self.ask_tell.ask(n)

    def request(self, arms: Iterable[int]) -> list[Query]:
        """Queries for arms that somebody else has chosen, such as a stopping rule."""
        return self.ask_tell.request(arms)

    def tell(self, query: Query, y: float, sem: float | None = None) -> None:
        """The result of a query, in any order; repeating the same result is harmless.

        With `sem`, the standard error of this very measurement, that takes the place of the arm's noise.
        """
        self.ask_tell.tell(query, y, sem)

    def tell_many(self, results: Iterable[tuple[Any, ...]]) -> None:
        """Several results (query, y) or (query, y, sem): all are checked before the first is taken."""
        self.ask_tell.tell_many(results)

    def observe(self, label: Hashable, y: float, sem: float | None = None, count: int = 1) -> None:
        """A measurement that no query asked for, by the arm's label; or the mean of `count` of them.

        With `sem`, the standard error of y. Give all results there are: if some were left out because of what they say,
        no claim holds.
        """
        self.ask_tell.observe(label, y, sem, count)

    def abandon(self, query: Query) -> None:
        """Close a query that will never be answered; one that is abandoned because of its result voids every claim."""
        self.ask_tell.abandon(query)

    @property
    def open_queries(self) -> list[Query]:
        """Queries that have been asked and neither told nor abandoned."""
        return list(self.ask_tell.ledger.open.values())

    @property
    def noise(self) -> NoiseGuard:
        """What repeated measurements say against the stated noise; replications side by side are not watched."""
        if self._ask_tell is not None:
            return self._ask_tell.noise
        return NoiseGuard(self.problem.noise)

    @exclusive
    def recommend(
        self, rng: int | np.random.Generator | None = 0, *, epsilon: float = 0.0, z: Array | None = None
    ) -> Recommendation:
        """The current answer (or z), its most likely rival, and the posterior probability that it is wrong.

        With an epsilon, that it is worse than the best by more than epsilon: an estimate from 256 draws. Whoever asks,
        the run goes on as if nobody had.
        """
        self._single("recommend")
        check_epsilon(epsilon)
        oracle, space, generator = self.problem.oracle, self.problem.space, generator_of(rng)
        z = self.z_hat()[0] if z is None else z
        question = Question(self.belief, oracle, z, space)
        doubt = self.alone(lambda: doubt_about(self.alternatives.spare, question, generator, self._watch))
        risk = chance_worse(question, generator, epsilon) if epsilon > 0.0 else None
        return recommendation_of(oracle, z, doubt, risk)


def check_unbounded(policy: Policy) -> None:
    """Refuse a bounded Theta."""
    if not isinstance(policy.problem.space, RealSpace):
        raise SpaceError(
            f"{type(policy).__name__} is written for Theta = R^d, got {policy.problem.space!r}; use TopTwo or PEPS"
        )

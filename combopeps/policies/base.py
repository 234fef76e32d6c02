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
from combopeps.tables import Observed

Arm = NDArray[np.intp]
_T = TypeVar("_T")
_TIE = 1e-9  # relative to what the prior, or one measurement, says about a component


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
        V_0 = prior_precision * I; by default what the problem's prior_std says.
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
        arms, oracle, noise_std = problem.arms, problem.oracle, problem.noise_std
        if prior_precision is None:
            prior_precision = 1.0 / problem.prior_std**2
        self.streams = streams or Streams.of(rng, replications)
        self.replications = R = len(self.streams)
        self.belief = GaussianBelief.start(arms, prior_precision=prior_precision, noise_std=noise_std, replications=R)
        self._watch = Watch(oracle, problem.known)
        self.alternatives = ReplicatedSampler(oracle, problem.space, self.streams, sampler, self._watch)
        self.pulls = np.zeros((R, len(arms)), dtype=np.int64)
        self.totals = np.zeros(self.pulls.shape)  # of the results of each arm: what rests on data alone needs no prior
        # A fixed, tiny random vector decides between answers that the data cannot tell apart: no index is favoured.
        self._tie = _TIE * min(problem.prior_std, noise_std / arms.size) * self.streams.normal(oracle.dim)
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

    def learn(self, arm: ArrayLike, y: ArrayLike) -> None:
        """One measurement in every replication."""
        self.belief.update(arm, y)
        self._count(arm, y)

    def _count(self, arm: ArrayLike, y: ArrayLike) -> None:
        at: Any = (0, arm) if self.replications == 1 else (np.arange(self.replications), np.asarray(arm))
        self.pulls[at] += 1
        self.totals[at] += y

    def learn_many(self, arms: Sequence[int], ys: Sequence[float]) -> None:
        """Measurements of one replication, in their order; all at once where a policy has no memory of its own."""
        if self.memoryless:
            self.belief.update_many(arms, ys)
            np.add.at(self.pulls[0], arms, 1)
            np.add.at(self.totals[0], arms, ys)
        else:
            for arm, y in zip(arms, ys, strict=True):
                self.learn(arm, y)

    def measurements(self) -> Measurements:
        """All that has been measured, arm by arm; of one replication."""
        self._single("measurements")
        problem = self.problem
        return Measurements(problem.arms, problem.noise_std, self.pulls[0].astype(np.float64), self.totals[0].copy())

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

    def tell(self, query: Query, y: float) -> None:
        """The result of a query, in any order; repeating the same result is harmless."""
        self.ask_tell.tell(query, y)

    def tell_many(self, results: Iterable[tuple[Query, float]]) -> None:
        """Several results: all are checked before the first is taken."""
        self.ask_tell.tell_many(results)

    def observe(self, label: Hashable, y: float) -> None:
        """A measurement that no query asked for, by the arm's label.

        Give all results there are: if some were left out because of what they say, no claim holds.
        """
        self.ask_tell.observe(label, y)

    def observe_table(self, rows: Any) -> Observed:
        """Measurements that no query asked for, from a table: a history, say. All or none of them are taken.

        Parameters
        ----------
        rows
            A data frame of pandas, the path of a CSV file, or rows: (label, value[, sem[, count]]), or dicts with these
            keys. Columns are found by name: `label`, or `source`, `target` (and `key`) for edges, or `left`, `right`
            for pairs; `value`; and, where they are known, `sem`, the standard error of the value, and `count`, of how
            many measurements it is the mean. Labels may be written as `ask` of the command line prints them.

        Returns
        -------
        Observed
            How many rows were taken, and which were left out because no answer has what they measured.

        Examples
        --------
        >>> from combopeps import TopKOracle, TopTwo
        >>> policy = TopTwo(TopKOracle(["ale", "bock"], k=1), rng=0)
        >>> policy.observe_table([("ale", 1.5), ("bock", 0.5), ("ale", 2.0)])
        all 3 rows taken
        >>> policy.samples
        3
        """
        return self.ask_tell.observe_table(rows)

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
        return NoiseGuard(len(self.problem.arms), self.problem.noise_std)

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

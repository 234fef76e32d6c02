"""`Policy`: which arm to measure next.

A policy runs R replications side by side. People use one, by asking and telling (`policies.ask_tell`); simulations use
hundreds, and call the same `choose` and `learn` underneath.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, ClassVar, Self, TypeVar, overload

import numpy as np

from combopeps.actions import Mask
from combopeps.belief import GaussianBelief
from combopeps.belief.scales import check_count
from combopeps.errors import NoAlternativeError, ParameterError, SpaceError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.oracles.watch import Watch
from combopeps.policies.ask_tell import AskTell, Leader, Recommendation, recommendation_of
from combopeps.policies.guards import NoiseGuard
from combopeps.policies.knowledge import Arm as Arm
from combopeps.policies.knowledge import Knowledge
from combopeps.policies.ledger import Query
from combopeps.policies.step import Step, Turn, exclusive
from combopeps.policies.sweep import Sweep, sweep_length
from combopeps.problem import Problem
from combopeps.risk import Doubt, chance_worse, check_epsilon, doubt_about, leading
from combopeps.samplers.base import AlternativeSampler, Question
from combopeps.samplers.replicated import ReplicatedSampler
from combopeps.space import RealSpace
from combopeps.streams import Streams, generator_of
from combopeps.tables import Observed

_T = TypeVar("_T")
_TIE = 1e-9  # relative to what the prior, or one measurement, says about a component
_ULPS = 16 * np.finfo(np.float64).eps


class Policy(Knowledge, ABC):
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
    sweep
        Measure every arm so many times (True: once) before anything is chosen: a cheap start where data come in bulk.
        Arms that have been measured before, or are being measured, are left out as often as they have. The order is
        drawn at random in each replication.
    """

    by_name = True
    """Its name says everything: it can be had on the command line, without options of its own."""
    t = 0
    """Rounds, for policies that count them in `choose`; those of a first sweep are added."""
    _imagined: ClassVar[tuple[str, ...]] = ("belief", "pulls", "weights", "totals", "_sweep")

    def __init__(
        self,
        problem: Problem | ArgmaxOracle,
        rng: int | np.random.Generator | None = None,
        *,
        sampler: AlternativeSampler | None = None,
        prior_precision: float | None = None,
        replications: int = 1,
        streams: Streams | None = None,
        sweep: bool | int | None = None,
    ) -> None:
        times = sweep_length(sweep)
        problem = problem if isinstance(problem, Problem) else Problem(problem)
        self.streams = streams or Streams.of(rng, replications)
        super().__init__(problem, len(self.streams), prior_precision)
        oracle = problem.oracle
        self._watch = Watch(oracle, problem.known)
        self.alternatives = ReplicatedSampler(oracle, problem.space, self.streams, sampler, self._watch)
        self.relative_cost = problem.relative_cost if problem.costs_differ else None  # None: costs do not matter
        # A fixed, tiny random vector decides between answers that the data cannot tell apart: no index is favoured.
        size = _TIE * min(float(np.min(problem.prior_std)), 1.0 / problem.signal.size)
        size = max(size, _ULPS * float(np.abs(problem.prior_mean).max()))  # or rounding would swallow it
        self._tie = size * self.streams.normal(oracle.dim)
        self._tie_size = 2.0 * float(np.abs(self._tie).sum(axis=1).max())
        self._bounds = problem.space.bounds(oracle.dim)
        self.turn = Turn()
        self._ask_tell = AskTell(self) if self.replications == 1 else None
        self._sweep: Sweep | None = None
        self._sweep_wanted = False
        self._least = 1  # readings of every component, where measurements are actions, before anything is chosen
        if problem.actions is not None and type(self).weigh is Policy.weigh:
            self.weigh()  # raises, and says why
        if times:
            self.sweep(times)

    def __repr__(self) -> str:
        side = "" if self.replications == 1 else f" in each of {self.replications} replications"
        return f"{type(self).__name__}({self.problem!r}, {self.samples} samples{side})"

    @abstractmethod
    def choose(self) -> Arm:
        """The next arm of every replication, (R,)."""

    def next_arms(self) -> Arm:
        """Those of a first sweep, then `choose`.

        Where no alternative exists there is nothing to learn, and the least measured arm will do.
        """
        swept = None if self._sweep is None else self._sweep.pick(self.pulls)
        if swept is not None and (swept >= 0).all():
            self.t += 1
            return swept
        try:
            arm = self.choose()
        except NoAlternativeError:
            arm = np.asarray(self.pulls.argmin(axis=1))
        except BaseException:
            self._forget_halves()
            raise
        return arm if swept is None else np.where(swept >= 0, swept, arm)

    def weigh(self) -> tuple[Array, Mask | None]:
        """Where measurements are actions: how much one more result of every component would tell, (R, d).

        And answers, (R, m, d), that may tell more than what these weights alone lead to, where the best action is hard
        to find; or None.
        """
        raise ParameterError(
            f"{type(self).__name__} chooses single arms, and this problem is measured by actions: use top-two, "
            "greedy, peps or uniform"
        )

    def next_actions(self) -> Mask:
        """The next action of every replication: first such as show what has not been seen, then by `weigh`."""
        actions, unseen = self.problem.actions, np.asarray(self.pulls < self._least)
        assert actions is not None
        news: Mask = np.zeros(self.replications, dtype=bool)
        if unseen.any():
            tie = 0.5 / unseen.shape[1] * (self._tie > 0.0)
            found = actions.best(unseen + tie)
            news = np.asarray((actions.shown(found) & unseen).any(axis=1))
            if news.all():
                return found
        try:
            gains, rivals = self.weigh()
        except NoAlternativeError:
            gains, rivals = 1.0 / (1.0 + self.weights), None
        except BaseException:
            self._forget_halves()
            raise
        # Of actions that tell as much, the one whose parts are known least.
        size = _TIE * gains.max(axis=1, keepdims=True)
        best = actions.best(gains + size / (1.0 + self.weights), rivals if actions.are_answers else None)
        return np.where(news[:, None], found, best) if news.any() else best

    def begin_with_every_arm(self, times: int = 1) -> None:
        """For policies whose method begins so: a first sweep, unless there is one already."""
        if self._sweep is None:
            self._sweep = Sweep(len(self.problem.arms), times, self.streams)

    def sweep(self, times: bool | int = True) -> None:
        """Have every arm measured so many times before anything else is chosen: see the parameter of that name."""
        length = sweep_length(times)
        if length:
            self.begin_with_every_arm(length)
            assert self._sweep is not None
            self._sweep.times, self._sweep_wanted = max(self._sweep.times, length), True
            self._least = self._sweep.times

    def swept(self, n: int, waiting: Sequence[int] = ()) -> list[int]:
        """Up to n arms of the first sweep, while queries of some arms are open; of one replication."""
        sweep, pulls = self._sweep, self.pulls[0]
        if sweep is None or sweep.over:
            return []
        waits = np.bincount(np.asarray(waiting, dtype=np.intp), minlength=len(pulls)) if waiting else None
        found = sweep.take(pulls, n, waits)
        self.t += len(found)
        return found

    @property
    def unswept(self) -> int:
        """Measurements that a sweep which somebody asked for takes still; of one replication."""
        return self._sweep.left(self.pulls[0]) if self._sweep is not None and self._sweep_wanted else 0

    def imagined(self) -> Self:
        """A twin with knowledge of its own, to imagine results with; it shares streams, samplers and memory.

        A policy that keeps more knowledge than the base class, and chooses by it, gives the twin a copy of that too.
        """
        twin = copy.copy(self)
        twin.belief, twin._sweep = self.belief.copy(), None
        twin.pulls, twin.weights, twin.totals = self.pulls.copy(), self.weights.copy(), self.totals.copy()
        return twin

    def remember(self, twin: Self) -> None:
        """Take over what a twin has noted down while it chose; not what it imagined."""
        self.__dict__.update({name: value for name, value in vars(twin).items() if name not in self._imagined})

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
        answers = self.alternatives.answers(thetas)
        self._watch.see(thetas, answers, self._tie_size)  # a solver may be too coarse for the tie breaker
        return answers

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
        """The next measurement to make, or n of them at once, each with an alternative of its own.

        Queries that are open count as if they had been answered with what the belief expects: no two that are under way
        at the same time ask for the same thing without need.
        """
        return self.ask_tell.ask()[0] if n is None else self.ask_tell.ask(n)

    def request(self, arms: Iterable[int]) -> list[Query]:
        """Queries for arms that somebody else has chosen, such as a stopping rule."""
        return self.ask_tell.request(arms)

    def tell(self, query: Query, y: Any, sem: float | None = None) -> None:
        """The result of a query, in any order; repeating the same result is harmless.

        With `sem`, the standard error of this very measurement, that takes the place of the arm's noise. Where
        measurements are actions, y holds a result for each of `query.components`: a sequence in their order, or a dict;
        each is a number, (number, sem), or None for what was not read.
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
        return NoiseGuard(self.problem.noise, stated=self.problem.noise_std is not None)

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
        aside = self.alternatives.aside(z)
        doubt = self.alone(lambda: doubt_about(aside, question, generator, self._watch))
        risk = chance_worse(aside, question, generator, epsilon) if epsilon > 0.0 else None
        return recommendation_of(oracle, z, doubt, risk)

    @exclusive
    def leaders(
        self, n: int = 10, rng: int | np.random.Generator | None = 0, *, belief: GaussianBelief | None = None
    ) -> list[Leader]:
        """Up to n answers that may be the best, each with its posterior probability, in decreasing order.

        Estimates from 4,096 draws of the belief restricted to Theta (fewer above 5,000 components, 256 at least): a
        probability has a standard error of at most 0.008 (0.03). Where fewer than one draw in 40 disagrees with the
        current answer, its rivals are drawn from behind the facets of its cone: their probabilities, down to 1e-300,
        then have a standard error of some percent of all of them together. Where not all facets are known these may be
        too small, as the error probability may. Answers that no draw showed are not listed; early in a large problem
        every draw shows another one, and each gets the share of one draw. With tens of thousands of components it takes
        seconds. An oracle that is not quick is asked about 64 to 512 of the draws, until it tells hardly anything new;
        every draw then goes to the best answer known.

        The current answer is the best at the posterior mean; early in a run, another one may be more probable. Whoever
        asks, the run goes on as if nobody had. `belief` is another one to look at, such as an earlier snapshot.
        """
        self._single("leaders")
        check_count("n", n)
        oracle, belief = self.problem.oracle, belief or self.belief
        question = Question(belief, oracle, self.z_hat(belief)[0], self.problem.space)
        aside = self.alternatives.aside(question.z_hat)
        return [Leader(oracle.decode(z), z, p) for z, p in leading(aside, question, n, generator_of(rng))]


def check_unbounded(policy: Policy) -> None:
    """Refuse a bounded Theta."""
    if not isinstance(policy.problem.space, RealSpace):
        raise SpaceError(
            f"{type(policy).__name__} is written for Theta = R^d, got {policy.problem.space!r}; use TopTwo or PEPS"
        )

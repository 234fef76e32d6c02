"""`Chooser`: the next arm, or the next action, of R replications side by side.

What all policies share: the answer so far, the cone behind which alternatives are drawn, first sweeps, and twins that
imagine results of queries that are open.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Self, TypeVar

import numpy as np

from combopeps.actions import Mask
from combopeps.belief import GaussianBelief
from combopeps.belief.level import ENOUGH
from combopeps.errors import NoAlternativeError, ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.oracles.watch import Watch
from combopeps.policies.knowledge import Arm, Knowledge
from combopeps.policies.step import Step, Turn, exclusive
from combopeps.policies.sweep import Sweep, sweep_length
from combopeps.problem import Problem
from combopeps.restore import Plain, whole
from combopeps.risk import rough_error_probability
from combopeps.samplers.base import AlternativeSampler, Question
from combopeps.samplers.replicated import ReplicatedSampler
from combopeps.space import RealSpace
from combopeps.streams import Streams
from combopeps.validation import as_generator, check_kind

_T = TypeVar("_T")
_TIE = 1e-9  # relative to what the prior, or one measurement, says about a component
_DESIGN = 8  # arms of the initial design, where the prior is estimated
_ULPS = 16 * np.finfo(np.float64).eps


class Chooser(Knowledge, ABC):
    """Chooses arms, or actions, for R replications side by side: `Policy` without its conversation with people."""

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
        if sampler is not None:
            check_kind("sampler", sampler, AlternativeSampler)
        if streams is not None:
            check_kind("streams", streams, Streams)
        self.streams = streams or Streams.of(rng, replications)
        # A fixed, tiny random vector decides between answers that the data cannot tell apart: no index is favoured.
        self._tie_direction = self.streams.normal(problem.oracle.dim)
        super().__init__(problem, len(self.streams), prior_precision)
        self._scale_tie()
        oracle = problem.oracle
        self._watch = Watch(oracle, problem.known)
        self.alternatives = ReplicatedSampler(oracle, problem.space, self.streams, sampler, self._watch)
        self.relative_cost = problem.relative_cost if problem.costs_differ else None  # None: costs do not matter
        self._bounds = problem.space.bounds(oracle.dim)
        self.turn = Turn()
        self._sweep: Sweep | None = None
        self._sweep_wanted = False
        self._least = 1  # readings of every component, where measurements are actions, before anything is chosen
        if problem.actions is not None and type(self).weigh is Chooser.weigh:
            self.weigh()  # raises, and says why
        if self._prior is not None and problem.actions is None:
            repeats = 0 if self._level is None else ENOUGH
            some = min(len(problem.arms), _DESIGN)
            self._sweep = Sweep(len(problem.arms), 0, self.streams, some=(some, some + repeats))
        if times:
            self.sweep(times)

    def _scale_tie(self) -> None:
        """Make the tie breaker small against what the prior, or one measurement, says about a component."""
        problem, prior = self.problem, self.belief.prior
        if prior is None:
            assert problem.prior_std is not None
            std, mean = np.asarray(float(np.min(problem.prior_std))), np.asarray(np.abs(self.belief.prior_mean).max())
        else:
            std, mean = prior.precision.max(axis=1)[:, None] ** -0.5, np.abs(prior.mean).max(axis=1)[:, None]
        size = _TIE * np.minimum(std, self.belief.sigma[:, None] / problem.signal.size)
        self._tie = np.maximum(size, _ULPS * mean) * self._tie_direction  # or rounding would swallow it
        self._tie_size = 2.0 * float(np.abs(self._tie).sum(axis=1).max())

    def restate(self, sigma: Array | None = None, dof: Array | None = None) -> None:
        super().restate(sigma, dof)
        self._scale_tie()

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
        self._sweep.times = max(self._sweep.times, times)

    def sweep(self, times: bool | int = True) -> None:
        """Have every arm measured so many times before anything else is chosen: see the parameter of that name."""
        length = sweep_length(times)
        if length:
            self.begin_with_every_arm(length)
            assert self._sweep is not None
            self._sweep_wanted, self._least = True, self._sweep.times

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

    @property
    def sweep_wanted(self) -> int:
        """How often every arm is measured first because somebody asked for it."""
        return self._sweep.times if self._sweep is not None and self._sweep_wanted else 0

    @property
    def first_sweep(self) -> int:
        """How often every arm is measured first, because somebody asked for it or as the method begins so."""
        return 0 if self._sweep is None else self._sweep.times

    def imagined(self) -> Self:
        """A twin with knowledge of its own, to imagine results with; it shares streams, samplers and memory.

        A policy that keeps more knowledge than the base class, and chooses by it, gives the twin a copy of that too.
        """
        twin = copy.copy(self)
        twin.belief, twin._sweep = self.belief.copy(), None
        twin.pulls, twin.weights, twin.totals = self.pulls.copy(), self.weights.copy(), self.totals.copy()
        return twin

    def viewer(self) -> Self:
        """A copy whose samplers know no facets: what it finds depends on the data and random numbers alone."""
        twin = copy.copy(self)
        twin.alternatives = copy.copy(self.alternatives)
        twin.alternatives.forget()
        return twin

    def remember(self, twin: Self) -> None:
        """Take over what a twin has noted down while it chose; not what it imagined."""
        self.__dict__.update({name: value for name, value in vars(twin).items() if name not in self._imagined})

    def z_hat(self, belief: GaussianBelief | None = None) -> Array:
        """The current answers, (R, d): best under theta_hat, projected on Theta."""
        theta_hat = (self.belief if belief is None else belief).theta_hat
        if isinstance(self.problem.space, RealSpace):
            return self._argmax(theta_hat + self._tie)
        from combopeps.policies._tie_kernels import broken

        return self._argmax(broken(theta_hat, self._tie, *self._bounds))

    def _argmax(self, thetas: Array) -> Array:
        answers = self.alternatives.answers(thetas)
        self._watch.see(thetas, answers, self._tie_size)  # a solver may be too coarse for the tie breaker
        return answers

    @exclusive
    def doubt(self, z: Array, rng: int | np.random.Generator | None = 0, belief: GaussianBelief | None = None) -> float:
        """The posterior probability that z is wrong: a rough estimate, for looks of stopping rules."""
        self._single("doubt")
        question = Question(belief or self.belief, self.problem.oracle, z, self.problem.space)
        sampler, generator = self.alternatives.at(z), as_generator(rng)
        return self.alone(lambda: rough_error_probability(sampler, question, generator, watch=self._watch))

    @exclusive
    def alone(self, work: Callable[[], _T]) -> _T:
        """Do something with the run's cone: no other thread may, and if it is broken off the cone begins anew."""
        try:
            return work()
        except BaseException:
            self._forget_halves()
            raise

    def plain(self) -> Plain:
        """What was learnt and, unless it is memoryless, what it remembers of its choices, as plain data."""
        if self.memoryless:
            return super().plain() | {"memory": {}}
        sweep = None if self._sweep is None else self._sweep.plain()
        return super().plain() | {
            "memory": self.memory(), "t": self.t, "streams": self.streams.plain(), "sweep": sweep,
        }  # fmt: skip

    def restore(self, data: Plain) -> None:
        """Take that back, into a policy that was made in the same way."""
        super().restore(data)
        self._scale_tie()
        if not self.memoryless:
            self.t = whole(data["t"])
            if self._sweep is not None:
                self._sweep.restore(data["sweep"])
            self.recall(data["memory"])
            self.streams.restore(data["streams"])  # last, as others may have drawn from them
        self.check_sums()

    def memory(self) -> Plain | None:
        """What a policy remembers beyond what all of them do, as plain data; None if it cannot say.

        Whoever remembers something says so here, and takes it back in `recall`.
        """
        return None

    def recall(self, data: Plain) -> None:
        """Take back what `memory` gave."""
        raise ValueError(f"{type(self).__name__} cannot take its memory back")

    def check_sums(self) -> None:
        """ValueError if the belief contradicts what was measured."""
        self.belief.check_sums(self.weights, self.totals)

    def forget(self) -> None:
        """Drop what samplers have learnt on the way; what was learnt from measurements stays."""
        self.alternatives.forget()

    def _forget_halves(self) -> None:
        """A sampler that was interrupted may hold half of what it was noting down: it begins anew."""
        with Step(self.turn):
            self.forget()

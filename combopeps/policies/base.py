"""`Policy`: which arm to measure next.

A policy runs R replications side by side. People use one (`ask`, `tell`, `recommend`); simulations use hundreds, and
call the same `choose` and `learn` underneath.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.belief import GaussianBelief, Measurements
from combopeps.belief.base import check_count
from combopeps.errors import LabelError, NoAlternativeError, NoiseWarning, ParameterError, PriorWarning, QueryError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.oracles.compare import Watch
from combopeps.policies.ledger import Ledger, Query, check_reward
from combopeps.policies.noise import NOISE_CURE, NoiseGuard
from combopeps.policies.recommendation import Recommendation
from combopeps.policies.step import Step, Turn, exclusive
from combopeps.policies.surprise import AT_LEAST, is_surprising, surprise_text
from combopeps.problem import Problem
from combopeps.risk import Doubt, DoubtMeter
from combopeps.samplers.base import AlternativeSampler
from combopeps.samplers.replicated import AlternativeRows
from combopeps.space import RealSpace
from combopeps.stopping.base import Situation, check_rule
from combopeps.streams import Streams, generator_of

Arm = NDArray[np.intp]
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
        self.problem = problem if isinstance(problem, Problem) else Problem(problem)
        if prior_precision is None:
            prior_precision = 1.0 / self.problem.prior_std**2
        self.streams = streams or Streams.of(rng, replications)
        self.replications = len(self.streams)
        self.belief = GaussianBelief.start(
            self.problem.arms,
            prior_precision=prior_precision,
            noise_std=self.problem.noise_std,
            replications=self.replications,
        )
        self._watch = Watch(self.problem.oracle, self.problem.known)
        self.alternatives = AlternativeRows(self.problem.oracle, self.problem.space, self.streams, sampler, self._watch)
        self.pulls = np.zeros((self.replications, len(self.problem.arms)), dtype=np.int64)
        self.totals = np.zeros(self.pulls.shape)  # of the results of each arm: what rests on data alone needs no prior
        # A fixed, tiny random vector decides between answers that the data cannot tell apart: no index is favoured.
        resolution = min(self.problem.prior_std, self.problem.noise_std / self.problem.arms.size)
        self._tie = _TIE * resolution * self.streams.normal(self.problem.oracle.dim)
        self._tie_size = 2.0 * float(np.abs(self._tie).sum(axis=1).max())
        self._bounds = self.problem.space.bounds(self.problem.oracle.dim)
        self.noise = NoiseGuard(len(self.problem.arms), self.problem.noise_std)
        self.turn = Turn()
        self._ledger = Ledger()
        self._doubt = DoubtMeter(self._watch)
        self._warned, self._warned_of_noise, self._judged = False, False, 0

    @abstractmethod
    def choose(self) -> Arm:
        """The next arm of every replication, (R,)."""

    def learn(self, arm: ArrayLike, y: ArrayLike) -> None:
        """One measurement in every replication."""
        self.belief.update(arm, y)
        self._count(arm, y)

    def _count(self, arm: ArrayLike, y: ArrayLike) -> None:
        if self.replications == 1:
            self.pulls[0, arm] += 1  # type: ignore[index]
            self.totals[0, arm] += y  # type: ignore[index, arg-type]
        else:
            at = np.arange(self.replications), np.asarray(arm)
            self.pulls[at] += 1
            self.totals[at] += y

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

    @overload
    def ask(self) -> Query: ...
    @overload
    def ask(self, n: int) -> list[Query]: ...
    @exclusive
    def ask(self, n: int | None = None) -> Query | list[Query]:
        """The next measurement to make, or n of them at once, each chosen with an alternative of its own."""
        self._single("ask")
        if n is not None:
            check_count("n", n)
        queries = [self._issue(int(self.choose_or_spread()[0])) for _ in range(n or 1)]
        return queries if n is not None else queries[0]

    @exclusive
    def request(self, arms: Iterable[int]) -> list[Query]:
        """Queries for arms that somebody else has chosen, such as a stopping rule."""
        self._single("request")
        wanted = [int(arm) for arm in arms]
        if any(not 0 <= arm < len(self.problem.arms) for arm in wanted):
            raise ParameterError(f"an arm is a number in 0..{len(self.problem.arms) - 1}, got {wanted}")
        return [self._issue(arm) for arm in wanted]

    def tell(self, query: Query, y: float) -> None:
        """The result of a query, in any order; repeating the same result is harmless."""
        self._single("tell")
        value = check_reward(y, self.problem.noise_std)
        with Step(self.turn):
            if self._ledger.accept(query, value):
                self.warn_if_surprising(query.arm, value)
                self._watch_noise(query.arm, value)
                self.learn(query.arm, value)
                self._ledger.close(query, value)

    def tell_many(self, results: Iterable[tuple[Query, float]]) -> None:
        """Several results: all are checked before the first is taken."""
        self._single("tell_many")
        pairs = [(query, check_reward(y, self.problem.noise_std)) for query, y in results]
        said: dict[int, float] = {}
        with Step(self.turn):
            for query, value in pairs:
                self._ledger.accept(query, value)
                if said.setdefault(query.id, value) != value:
                    raise QueryError(
                        f"query {query.id} stands in the batch twice, with {said[query.id]!r} and {value!r}"
                    )
            for query, value in pairs:
                self.tell(query, value)

    def abandon(self, query: Query) -> None:
        """Close a query that will never be answered; one that is abandoned because of its result voids every claim."""
        with Step(self.turn):
            self._ledger.abandon(query)

    def observe(self, label: Hashable, y: float) -> None:
        """A measurement that no query asked for, by the arm's label.

        Give all results there are: if some were left out because of what they say, no claim holds.
        """
        self._single("observe")
        value, arm = check_reward(y, self.problem.noise_std), self.arm_of(label)
        with Step(self.turn):
            self.warn_if_surprising(arm, value)
            self._watch_noise(arm, value)
            self.learn(arm, value)

    def arm_of(self, label: Hashable) -> int:
        """The number of an arm, from its label."""
        try:
            return self._arm_of[label]
        except (KeyError, TypeError):
            raise LabelError(f"{label!r} is not an arm; the arms are {list(self._arm_of)[:5]}, ...") from None

    @property
    def open_queries(self) -> list[Query]:
        """Queries that have been asked and neither told nor abandoned."""
        return list(self._ledger.open.values())

    @property
    def samples(self) -> int:
        """Measurements learnt from, per replication."""
        return int(self.pulls[0].sum())

    @exclusive
    def recommend(
        self, rng: int | np.random.Generator | None = 0, *, epsilon: float = 0.0, z: Array | None = None
    ) -> Recommendation:
        """The current answer (or z), its most likely rival, and the posterior probability that it is wrong.

        With an epsilon, that it is worse than the best by more than epsilon: an estimate from 256 draws.
        """
        check_rule(0.5, epsilon, 2.0)
        problem, generator = self.problem, generator_of(rng)
        z = self.z_hat()[0] if z is None else z
        doubt = self.doubt(z, generator)
        rival = None if doubt.runner_up is None else problem.oracle.decode(doubt.runner_up)
        now = Situation(self.belief, problem.oracle, z, problem.space, self.measurements(), lambda: doubt, generator)
        return Recommendation(z, problem.oracle.decode(z), rival, now.risk(epsilon))

    @exclusive
    def doubt(self, z: Array, rng: int | np.random.Generator | None = 0, belief: GaussianBelief | None = None) -> Doubt:
        """The posterior probability that z is wrong (an estimate), and its most likely rival."""
        self._single("recommend")
        problem, generator = self.problem, generator_of(rng)
        try:
            return self._doubt.read(belief or self.belief, problem.oracle, z, problem.space, generator)
        except BaseException:
            self._forget_halves()
            raise

    def warn_if_surprising(self, arm: int, y: float) -> None:
        """A result the prior calls impossible means that prior_std, or noise_std, is in the wrong units."""
        self._judged += 1
        if self._warned or abs(y) <= AT_LEAST * self.problem.noise_std:
            return
        # Of results that are judged before they are learnt from, none is missed, and none counts more than twice.
        if is_surprising(self.belief, arm, y, self._judged + self.samples):
            self._warned = True
            warnings.warn(surprise_text(self.problem, y), PriorWarning, stacklevel=3)

    def _watch_noise(self, arm: int, y: float) -> None:
        if self.noise.see(arm, y):
            self.warn_of_noise(self.noise.text)

    def warn_of_noise(self, text: str) -> None:
        """What the guard says when it raises its alarm, once; the run goes on."""
        if text and not self._warned_of_noise:
            self._warned_of_noise = True
            warnings.warn(f"{text}: {NOISE_CURE}", NoiseWarning, stacklevel=4)

    def choose_or_spread(self) -> Arm:
        """Where no alternative exists there is nothing to learn: any arm will do, the least measured one."""
        try:
            return self.choose()
        except NoAlternativeError:
            return np.asarray(self.pulls.argmin(axis=1))
        except BaseException:
            self._forget_halves()
            raise

    def forget(self) -> None:
        """Drop what samplers have learnt on the way; what was learnt from measurements stays."""
        self.alternatives.forget()
        self._doubt = DoubtMeter(self._watch)

    def _forget_halves(self) -> None:
        """A sampler that was interrupted may hold half of what it was noting down: it begins anew."""
        with Step(self.turn):
            self.forget()

    def _issue(self, arm: int) -> Query:
        return self._ledger.issue(arm, self.problem.arms)

    @cached_property
    def _arm_of(self) -> dict[Hashable, int]:
        return {label: arm for arm, label in enumerate(self.problem.arms.labels)}

    def _single(self, what: str) -> None:
        if self.replications != 1:
            raise ParameterError(f"{what} is for one replication; this policy runs {self.replications}")

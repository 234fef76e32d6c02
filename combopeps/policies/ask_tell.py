"""`AskTell`: one run of a policy, by questions and answers.

    ask -> Query -> somebody measures -> tell -> learn

A policy chooses; what belongs to asking people is here: the book of queries, the guards that hold results against the
stated noise and prior, and that nothing is ever taken in by half.
"""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from combopeps.belief.scales import check_count
from combopeps.errors import NoiseWarning, ParameterError, PriorWarning
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.policies.guards import NOISE_CURE, NoiseGuard, PriorGuard
from combopeps.policies.history import History, history_of
from combopeps.policies.ledger import Ledger, Query, check_reward
from combopeps.policies.step import Step, exclusive
from combopeps.risk import Doubt
from combopeps.tables import Observed
from combopeps.tables.book import LabelBook
from combopeps.tables.rows import read_rows
from combopeps.tables.table import Table

if TYPE_CHECKING:
    from combopeps.policies.base import Policy

_USER = 5  # frames from a warning to whoever told the result


@dataclass(frozen=True)
class Recommendation:
    """The current answer, the one most likely to be right instead, and the probability of being wrong.

    With an epsilon, being wrong is to be worse than the best by more than epsilon.
    """

    z: Array
    answer: Any
    alternative: Any
    error_probability: float


def recommendation_of(oracle: ArgmaxOracle, z: Array, doubt: Doubt, risk: float | None) -> Recommendation:
    """As people read it; the risk is that of being wrong, unless another is given."""
    rival = None if doubt.runner_up is None else oracle.decode(doubt.runner_up)
    return Recommendation(z, oracle.decode(z), rival, doubt.probability if risk is None else risk)


@dataclass(frozen=True)
class AnswerFirst:
    """For a `Recommendation` that shows its answer first: a dataclass begins with the fields of its last base."""

    answer: Any


class AskTell:
    """Asks for measurements on behalf of a policy with one replication, and tells it the results.

    What `Policy` offers under the same name is explained there.
    """

    def __init__(self, policy: Policy) -> None:
        problem = policy.problem
        self.policy, self.turn = policy, policy.turn
        self.ledger = Ledger(problem.arms)
        self.noise = NoiseGuard(len(problem.arms), problem.noise_std)
        self._warned_of_noise = False
        self.prior = PriorGuard(problem.arms, policy.belief.prior_precision**-0.5, problem.noise_std)

    @exclusive
    def ask(self, n: int = 1) -> list[Query]:
        check_count("n", n)
        return [self.ledger.issue(int(self.policy.next_arms()[0])) for _ in range(n)]

    @exclusive
    def request(self, arms: Iterable[int]) -> list[Query]:
        wanted, count = [int(arm) for arm in arms], len(self.policy.problem.arms)
        if any(not 0 <= arm < count for arm in wanted):
            raise ParameterError(f"an arm is a number in 0..{count - 1}, got {wanted}")
        return [self.ledger.issue(arm) for arm in wanted]

    def tell(self, query: Query, y: float) -> None:
        value = self.check(y)
        with Step(self.turn):
            if self.ledger.accept(query, value):
                self._take(query.arm, value)
                self.ledger.close(query, value)

    def tell_many(self, results: Iterable[tuple[Query, float]]) -> None:
        pairs = [(query, self.check(y)) for query, y in results]
        with Step(self.turn):
            for query, value in self.ledger.news(pairs):
                self._take(query.arm, value)
                self.ledger.close(query, value)

    def observe(self, label: Hashable, y: float) -> None:
        value, arm = self.check(y), self.arm_of(label)
        with Step(self.turn):
            self._take(arm, value)

    def observe_table(self, rows: Any) -> Observed:
        history, observed = self.history(read_rows(rows))
        self.observe_many(history.arms, history.ys, self.weights_of(history), history.counts)
        return observed

    def observe_many(
        self,
        arms: Sequence[int],
        ys: Sequence[float],
        weights: ArrayLike | None = None,
        counts: ArrayLike | None = None,
    ) -> None:
        """Measurements that no query asked for, by the numbers of arms: all are checked before the first is taken.

        Each is the mean of `counts` measurements, and worth `weights` ordinary ones of its arm; by default 1.
        """
        numbers, values = [int(arm) for arm in arms], [self.check(y) for y in ys]
        if len(numbers) != len(values) or any(not 0 <= arm < len(self.policy.problem.arms) for arm in numbers):
            raise ParameterError(f"as many arms as results are wanted, each in 0..{len(self.policy.problem.arms) - 1}")
        check_single(weights, counts)
        with Step(self.turn):
            self.warn_of(numbers, values, depth=1)
            self.take_in(numbers, values, weights, counts)

    def history(self, table: Table) -> tuple[History, Observed]:
        """A table in terms of arms, and what was left out; a typed error names its first bad row."""
        return history_of(table, self.book, self.policy.problem.noise_std)

    def weights_of(self, history: History) -> Array:
        """How many ordinary measurements of its arm each is worth."""
        problem = self.policy.problem
        return history.weights(np.broadcast_to(problem.noise_std, len(problem.arms)))

    def take_in(
        self,
        arms: Sequence[int],
        ys: Sequence[float],
        weights: ArrayLike | None = None,
        counts: ArrayLike | None = None,
    ) -> None:
        """Learn from measurements that were checked and warned of. Weights and counts go in here, and only here."""
        check_single(weights, counts)
        if len(arms):
            self.policy.learn_many(arms, ys)
            self.noise.see_many(arms, ys)

    def abandon(self, query: Query) -> None:
        with Step(self.turn):
            self.ledger.abandon(query)

    def check(self, y: Any) -> float:
        """A result as a number, or `RewardError`."""
        return check_reward(y, self.policy.problem.noise_std)

    def arm_of(self, label: Hashable) -> int:
        """The number of an arm, from its label."""
        return self.book.find(label)

    def unasked(self, arms: Iterable[int]) -> list[int]:
        """Of arms that are wanted, those that nobody is measuring already."""
        waiting = Counter(query.arm for query in self.ledger.open.values())
        wanted = []
        for arm in arms:
            if waiting[arm]:
                waiting[arm] -= 1
            else:
                wanted.append(arm)
        return wanted

    def warn_of(self, arms: Sequence[int], ys: Sequence[float], depth: int = 0) -> None:
        """What these results will say against prior and noise, before they are taken in."""
        self._warn_of_prior(self.prior.judge_many(arms, ys, self.policy.pulls), depth)
        ahead = copy.deepcopy(self.noise)
        self._warn_of_noise(ahead.text if ahead.see_many(arms, ys) else "", depth)

    def _take(self, arm: int, y: float) -> None:
        self._warn_of_prior(self.prior.judge(arm, y, self.policy.pulls))
        if self.noise.see(arm, y):
            self._warn_of_noise(self.noise.text)
        self.policy.learn(arm, y)

    def _warn_of_prior(self, text: str, depth: int = 0) -> None:
        if text:
            warnings.warn(text, PriorWarning, stacklevel=_USER + depth)

    def _warn_of_noise(self, text: str, depth: int = 0) -> None:
        if text and not self._warned_of_noise:
            self._warned_of_noise = True  # also where the warning is an error: told again, the result is taken
            warnings.warn(f"{text}: {NOISE_CURE}", NoiseWarning, stacklevel=_USER + depth)

    @cached_property
    def book(self) -> LabelBook:
        """The labels of the arms."""
        return LabelBook(self.policy.problem.arms.labels, self.policy.problem.oracle)


def check_single(weights: ArrayLike | None, counts: ArrayLike | None) -> None:
    """Refuse what is worth more or less than one measurement."""
    if any(worth is not None and np.any(np.asarray(worth) != 1.0) for worth in (weights, counts)):
        raise ParameterError(
            "standard errors and counts other than 1 are not taken: leave out the columns sem and count, and give "
            "single measurements"
        )

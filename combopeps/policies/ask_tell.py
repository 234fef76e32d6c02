"""`AskTell`: one run of a policy, by questions and answers.

    ask -> Query -> somebody measures -> tell -> learn

A policy chooses; what belongs to asking people is here: the book of queries, and that nothing is ever taken in by half.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from combopeps.actions import Mask
from combopeps.errors import ParameterError, QueryError, RewardError
from combopeps.policies.guards import NoiseGuard
from combopeps.policies.history import History, history_of, history_told
from combopeps.policies.ledger import (
    ActionQuery,
    Ledger,
    Query,
    Reading,
    Readings,
    all_plain,
    check_query,
    check_reading,
    check_results,
    plain_readings,
)
from combopeps.policies.parts import read_parts
from combopeps.policies.pending import Pending
from combopeps.policies.step import Step, exclusive
from combopeps.policies.watched import Watched, watched
from combopeps.restore import Plain
from combopeps.tables import Observed
from combopeps.tables.book import LabelBook
from combopeps.tables.rows import read_rows
from combopeps.tables.table import Table
from combopeps.validation import MOST_QUERIES, check_count, shown

if TYPE_CHECKING:
    from combopeps.policies.base import Policy


class AskTell(Watched):
    """Asks for measurements on behalf of a policy with one replication, and tells it the results.

    What `Policy` offers under the same name is explained there.
    """

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.turn = policy.turn
        self.ledger = Ledger(policy.problem.arms, None if policy.problem.actions is None else self._action_again)

    @exclusive
    def ask(self, n: int = 1) -> list[Query]:
        check_count("n", n, MOST_QUERIES)
        if self.policy.problem.actions is not None:
            return self._ask_actions(n)
        queries = [self.ledger.issue(arm) for arm in self.policy.swept(n, self.open_arms)]
        pending = Pending(self.policy, self.open_arms)
        while len(queries) < n:
            arm = pending.choose()
            queries.append(self.ledger.issue(arm))
            pending.add(arm)
        return queries

    def _ask_actions(self, n: int) -> list[Query]:
        pending, queries = Pending(self.policy, self.open_arms), list[Query]()
        while len(queries) < n:
            queries.append(self.ledger.enter(self.query_for(pending.choose_action(), self.ledger.next_id)))
            pending.add(*queries[-1].parts)
        return queries

    def query_for(self, action: Mask, id: int) -> ActionQuery:
        """A query for an action, which the ledger does not know yet."""
        problem = self.policy.problem
        assert problem.actions is not None
        label, parts = problem.actions.spell_out(action)
        return ActionQuery(id, -1, label, problem.arms, parts, action)

    def _action_again(self, id: int, components: NDArray[np.int64]) -> ActionQuery:
        """A query for an action of which the numbers of its components are known."""
        actions = self.policy.problem.actions
        assert actions is not None
        action = np.zeros(actions.oracle.dim, dtype=bool)
        if len(components) and not 0 <= components.min() <= components.max() < len(action):
            raise ValueError("an action has components of its own set")
        action[components] = True
        return self.query_for(action, id)

    def request_actions(self, arms: Iterable[int], most: int) -> tuple[list[Query], list[int]]:
        """Queries for actions that show what somebody else wants to see, and what is left after so many."""
        chosen, left = self.actions_for(arms, most)
        return [self.ledger.enter(self.query_for(action, self.ledger.next_id)) for action in chosen], left

    def actions_for(self, arms: Iterable[int], most: int) -> tuple[list[Mask], list[int]]:
        """Actions that show what somebody else wants to see, and what is left after so many."""
        actions = self.policy.problem.actions
        assert actions is not None
        left, chosen = np.bincount(np.fromiter(arms, dtype=np.intp), minlength=len(self._noise)), list[Mask]()
        while left.any() and len(chosen) < most:
            action = actions.best(left[None].astype(np.float64))
            shown = actions.shown(action)[0]
            if not left[shown].any():  # nothing that could be done about it
                left[:] = 0
                break
            chosen.append(action[0])
            left[shown] = np.maximum(left[shown] - 1, 0)
        return chosen, np.repeat(np.arange(len(left)), left).tolist()

    def plain(self) -> Plain:
        """The book of queries, and what the noise looks like, as plain data.

        Fit, prior and noise that is smaller than stated are judged anew from the data. What this process has warned of
        is not stored.
        """
        return {"ledger": self.ledger.plain(), "noise": self.noise.plain()}

    def restore(self, data: Plain) -> None:
        """Take that back, if it does not contradict what the policy has learnt."""
        self.ledger.restore(data["ledger"])
        self.noise.restore(data["noise"], self.policy.pulls[0])
        if self.policy.problem.actions is None and (self.ledger.answers_per_arm > self.policy.pulls[0]).any():
            raise ValueError("more queries of an arm were answered than it was measured")

    @property
    def open_arms(self) -> list[int]:
        """The arms of open queries, each as often as it is waited for."""
        return [arm for query in self.ledger.open.values() for arm in query.parts]

    @exclusive
    def request(self, arms: Iterable[int]) -> list[Query]:
        if isinstance(arms, (str, bytes, Mapping)) or not isinstance(arms, Iterable):
            raise ParameterError(f"arms must be a sequence of numbers of arms, got {shown(arms)}")
        wanted, last = list(arms), len(self.policy.problem.arms) - 1
        for arm in wanted:
            if isinstance(arm, bool) or not isinstance(arm, (int, np.integer)) or not 0 <= arm <= last:
                raise ParameterError(f"an arm is a number in 0..{last}, got {shown(arm)}")
        return [self.ledger.issue(int(arm)) for arm in wanted]

    def tell(self, query: Query, y: Any, sem: float | None = None) -> None:
        reading = self.read(query, y, sem)
        with Step(self.turn):
            if self.ledger.accept(query, reading):
                self._take_answer(query, reading)

    def tell_many(self, results: Iterable[tuple[Any, ...]]) -> None:
        pairs = [(result[0], self.read(*result)) for result in check_results(results)]
        with Step(self.turn):
            for query, reading in self.ledger.news(pairs):
                self._take_answer(query, reading)

    def _take_answer(self, query: Query, reading: Reading | Readings) -> None:
        if isinstance(reading, Reading):
            self._take(query.arm, reading)
        else:
            assert isinstance(query, ActionQuery)
            history = history_told([(query, reading)])
            self.take_in(history, self.warn_of(history.arms, history.readings))
            self.policy.count_actions(query.action[None])
        self.ledger.close(query, reading)

    def observe(self, label: Hashable, y: float, sem: float | None = None, count: int = 1) -> None:
        arm = self.arm_of(label)
        reading = self.check(arm, y, sem, count)
        with Step(self.turn):
            self._take(arm, reading)

    def observe_table(self, rows: Any) -> Observed:
        history, observed = self.history(read_rows(rows))
        with Step(self.turn):
            self.take_in(history, self.warn_of(history.arms, history.readings))
        return observed

    def history(self, table: Table) -> tuple[History, Observed]:
        """A table in terms of arms, and what was left out; a typed error names its first bad row."""
        return history_of(table, self.book, self.check)

    def take_in(self, history: History, noise: NoiseGuard | None = None) -> None:
        """Learn from results that were checked and warned of, in their order; `noise` is what `warn_of` gave back."""
        arms, readings = history.arms, history.readings
        ys = [reading.y for reading in readings]
        if all_plain(readings):
            self.policy.learn_many(arms, ys)
        else:
            self.policy.learn_many(arms, ys, self._weights(arms, readings), [reading.count for reading in readings])
        if noise is None:
            self.noise.see_many(*watched(arms, readings))
        else:
            self.noise = noise

    def abandon(self, query: Query) -> None:
        with Step(self.turn):
            self.ledger.abandon(query)

    def read(self, query: Any, y: Any, sem: Any = None) -> Reading | Readings:
        """The result of a query, or a typed error."""
        check_query(query)
        if not isinstance(query, ActionQuery):
            return self.read_one(query, y, sem)
        if self.ledger.find(query.id) != query:
            raise QueryError(f"query {query.id} was not asked here")
        if sem is not None:
            raise RewardError("an action has several results: give (value, sem) for each of them, not one sem")
        return plain_readings(y, self.policy.problem.noise, query.parts) or read_parts(query, y, self.book, self.check)

    def read_one(self, query: Any, y: Any, sem: Any = None) -> Reading:
        """The result of a query for one arm, or a typed error."""
        check_query(query)
        noise = self._noise[query.arm if 0 <= query.arm < len(self._noise) else 0]
        return check_reading(y, noise, sem, known=self._known, of=query)

    def check(self, arm: int, y: Any, sem: Any = None, count: Any = 1) -> Reading:
        """A result of an arm, or a typed error."""
        label = self.policy.problem.arms.labels[arm]
        return check_reading(y, self._noise[arm], sem, count, known=self._known, of=label)

    def arm_of(self, label: Hashable) -> int:
        """The number of an arm, from its label."""
        return self.book.find(label)

    def unasked(self, arms: Iterable[int], more: Iterable[int] = ()) -> list[int]:
        """Of arms that are wanted, those that nobody is measuring already; `more` are about to be measured."""
        waiting = Counter(self.open_arms) + Counter(more)
        wanted = []
        for arm in arms:
            if waiting[arm]:
                waiting[arm] -= 1
            else:
                wanted.append(arm)
        return wanted

    def _take(self, arm: int, reading: Reading) -> None:
        self.watch(arm, reading)
        if reading.is_plain:
            self.policy.learn(arm, reading.y)
        else:
            self.policy.learn(arm, reading.y, self.weight_of(arm, reading), reading.count)

    @cached_property
    def book(self) -> LabelBook:
        """The labels of the arms."""
        return LabelBook(self.policy.problem.arms.labels, self.policy.problem.oracle)

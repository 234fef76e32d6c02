"""A stopping rule that keeps notes from look to look, and the book of what was measured for it.

Such a rule (`StoppingRule.keeps_notes`) asks for measurements and goes by what came of just these. Their queries are
answered in any order, while others are open, told late or observed: only results of the rule's own queries are fresh
data, all others go to the estimate alone. The rule looks again when all its queries are closed. Nothing of this is
stored: it looks when somebody asks for queries, so that its notes follow from the lines, as everything else does.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Container
from typing import Any

import numpy as np

from combopeps.belief import Measurements
from combopeps.policies.ledger import Query, Reading
from combopeps.problem import Problem
from combopeps.restore import Plain, array, fill, flag, whole, wholes
from combopeps.run.look import View
from combopeps.stopping import StoppingRule, Verdict

_FIRST_LOOK = 10


class Notes:
    """The rule, the arms it wants measured, and what came of those it wanted before."""

    def __init__(self, rule: StoppingRule, problem: Problem) -> None:
        self._rule, self._problem = rule, problem
        self._wishes: deque[int] = deque()  # in order; handed out one after the other
        self._open: set[int] = set()  # queries that were handed out for them
        self._weights, self._totals, self._pulls = np.zeros((3, len(problem.arms)))
        self._next_look = _FIRST_LOOK
        self._proved = False

    def is_due(self, samples: int) -> bool:
        """Would the rule look, after so many measurements?"""
        return not self._proved and not self._wishes and not self._open and samples >= self._next_look

    @property
    def fresh(self) -> Measurements:
        """What came of the rule's own queries."""
        sums = (self._weights.copy(), self._totals.copy(), self._pulls.copy())
        return Measurements(self._problem.signal, *sums)

    def look(self, view: View, samples: int) -> Verdict:
        """The rule's verdict, which it notes down, with the arms that are to be handed out."""
        verdict = view.check(self._rule)
        self._proved = verdict.stop
        self._wishes = deque([] if verdict.sample_next is None else verdict.sample_next.tolist())
        pause = max(1, int(samples * (self._rule.ratio - 1.0)))
        self._next_look = samples + (1 if self._wishes else pause)
        return verdict

    def preview(self, view: View) -> Verdict:
        """What `look` would say; nothing is noted down."""
        shared: list[Any] = [self._problem, self._problem.oracle, self._problem.signal, self._problem.arms]
        return view.check(copy.deepcopy(self._rule, {id(same): same for same in shared}))

    def enter(self, query: Query) -> None:
        """A query was handed out: for the next wish, if it is for that arm."""
        if self._wishes and query.arm == self._wishes[0]:
            self._wishes.popleft()
            self._open.add(query.id)

    def close(self, query: Query, reading: Reading, weight: float) -> None:
        """A query was answered."""
        if query.id in self._open:
            self._open.remove(query.id)
            self._pulls[query.arm] += 1.0
            self._weights[query.arm] += weight
            self._totals[query.arm] += weight * reading.y / self._problem.noise[query.arm]

    def abandon(self, query: Query) -> None:
        """A query will never be answered: at its next look the rule finds that a result is missing, and asks again."""
        self._open.discard(query.id)

    def standing(self, view: View) -> Verdict:
        """While no look is due, what was said last: what is proved stays so, and what is wanted is wanted still."""
        if self._proved:
            return view.check(self._rule)
        wishes = np.array(self._wishes, dtype=np.int64) if self._wishes else None
        return Verdict(False, sample_next=wishes, z=view.situation.z_hat)

    def plain(self) -> Plain | None:
        """The rule's notes, and the book, as plain data; None if the rule cannot say."""
        rule = self._rule.plain()
        if rule is None:
            return None
        return {
            "rule": rule, "wishes": np.array(self._wishes, dtype=np.int64), "open": sorted(self._open),
            "weights": self._weights, "totals": self._totals, "pulls": self._pulls,
            "next_look": self._next_look, "proved": bool(self._proved),
        }  # fmt: skip

    def restore(self, data: Plain, open_queries: Container[int]) -> None:
        """Take that back; the queries that it waits for are among the open ones."""
        self._rule.restore(data["rule"], self._problem)
        wishes = array(data["wishes"], np.int64, None)
        if len(wishes) and not 0 <= wishes.min() <= wishes.max() < len(self._problem.arms):
            raise ValueError("a wish is for one of the arms")
        self._wishes, self._open = deque(wishes.tolist()), set(wholes(data["open"]))
        if not all(id in open_queries for id in self._open):
            raise ValueError("a query that the rule waits for is not open")
        for sums, name in ((self._weights, "weights"), (self._totals, "totals"), (self._pulls, "pulls")):
            fill(sums, data[name])
        self._next_look, self._proved = whole(data["next_look"]), flag(data["proved"])

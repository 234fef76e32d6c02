"""State of a stopping rule that bases its claim on the measurements it has requested, in a campaign.

Such a rule (`StoppingRule.keeps_notes`) looks when queries are asked for and all queries of its requests are closed, in
whatever order that happens and whatever else is measured meanwhile. Its state after a look is part of the ask event.
"""

from __future__ import annotations

import copy
from collections.abc import Container
from typing import Any

import numpy as np

from combopeps.policies.ledger import Ledger, Query
from combopeps.problem import Problem
from combopeps.restore import Plain, flag, whole
from combopeps.run.look import View
from combopeps.stopping import StoppingRule, Verdict

_FIRST_LOOK = 10


class RuleState:
    """The rule, and when it looks again."""

    def __init__(self, rule: StoppingRule, problem: Problem) -> None:
        self._rule, self._problem = rule, problem
        self._next_look = _FIRST_LOOK
        self._proved = False

    def is_due(self, samples: int) -> bool:
        """Would the rule look, after so many measurements?"""
        return not self._proved and not self._rule.requests.outstanding and samples >= self._next_look

    def look(self, view: View, samples: int) -> Verdict:
        """The rule's verdict; what it requests is handed out next."""
        verdict = view.check(self._rule)
        self._proved = verdict.stop
        self._rule.request(verdict)
        pause = max(1, int(samples * (self._rule.ratio - 1.0)))
        self._next_look = samples + (1 if self._rule.requests.wanted else pause)
        return verdict

    def preview(self, view: View) -> Verdict:
        """What `look` would say; nothing is noted down."""
        shared: list[Any] = [self._problem, self._problem.oracle, self._problem.signal, self._problem.arms]
        return view.check(copy.deepcopy(self._rule, {id(same): same for same in shared}))

    def issue(self, query: Query) -> None:
        """A query was handed out."""
        self._rule.requests.issue(query)

    def leave(self, ledger: Ledger) -> None:
        """No longer follow the queries."""
        self._rule.requests.leave(ledger)

    def standing(self, view: View) -> Verdict:
        """While no look is due, what was said last: what is proved stays so, and what is wanted is wanted still."""
        if self._proved:
            return view.check(self._rule)
        wanted = self._rule.requests.wanted
        return Verdict(False, sample_next=np.array(wanted, dtype=np.int64) if wanted else None, z=view.situation.z_hat)

    def plain(self) -> Plain | None:
        """The rule's notes, as plain data; None if the rule cannot say."""
        rule = self._rule.plain()
        return None if rule is None else {"rule": rule, "next_look": self._next_look, "proved": bool(self._proved)}

    def restore(self, data: Plain, open_queries: Container[int]) -> None:
        """Restore from plain data; the queries that the rule waits for are among the open ones."""
        self._rule.restore(data["rule"], self._problem)
        self._rule.requests.require_open(open_queries)
        self._next_look, self._proved = whole(data["next_look"]), flag(data["proved"])

"""`Requests`: the measurements that a stopping rule has requested, and their results.

A rule that proves its claim on fresh data fixes what is to be measured before it sees any of it. The log is part of the
rule: it lists the arms that are still to be measured, the queries that were issued for them, and the sums of their
results. Only these are fresh data. Results of other queries, observations and repetitions join the estimate, not the
proof, so that measuring something else never discards an epoch. An abandoned request is issued again. Interrupting a
run and continuing it with the same rule changes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable

import numpy as np

from combopeps.belief import Measurements
from combopeps.certificates.fresh import FreshResults
from combopeps.errors import ParameterError
from combopeps.policies.ledger import Ledger, Query, Reading, Readings
from combopeps.problem import Problem
from combopeps.restore import Plain, array, fill, wholes


class Requests:
    """The log of one rule; it follows a ledger of queries (`Ledger.logs`).

    Attributes
    ----------
    wanted
        Arms to be measured, in order.
    fresh
        Sums of the results of requests since the current epoch began.
    """

    def __init__(self, problem: Problem) -> None:
        self._noise, self._following = problem.noise, False
        self.wanted: deque[int] = deque()
        self._open: dict[int, int] = {}  # arms by the ids of the queries that were issued for them
        self.fresh = FreshResults(problem.signal)
        self._weights, self._totals, self._pulls = np.zeros((3, len(problem.arms)))

    @property
    def outstanding(self) -> bool:
        """Whether results of requests are still to come."""
        return bool(self.wanted or self._open)

    @property
    def told(self) -> Measurements:
        """All results of queries while the log followed a run: of requests and of the policy's own choices."""
        return Measurements(self.fresh.arms, self._weights.copy(), self._totals.copy(), self._pulls.copy())

    def replace(self, arms: Iterable[int]) -> None:
        """Request these arms in place of those that have not been issued yet."""
        self.wanted = deque(int(arm) for arm in arms)

    def issue(self, query: Query) -> None:
        """A query was handed out: for the first wanted arm, if it is for that arm."""
        if self.wanted and query.arm == self.wanted[0]:
            self._open[query.id] = self.wanted.popleft()

    def answer(self, query: Query, said: Reading | Readings) -> None:
        """A query was answered; readings of actions are not logged."""
        if not isinstance(said, Reading):
            return
        noise = self._noise[query.arm]
        weight, value = said.weight(noise), said.y / noise
        self._weights[query.arm] += weight
        self._totals[query.arm] += weight * value
        self._pulls[query.arm] += said.count
        if self._open.pop(query.id, None) is not None:
            self.fresh.add(query.arm, value, 1.0 if said.sem is None else (said.sem / noise) ** 2)

    def abandon(self, query: Query) -> None:
        """A query was closed without a result: its arm is requested again."""
        arm = self._open.pop(query.id, None)
        if arm is not None:
            self.wanted.appendleft(arm)

    def follow(self, ledger: Ledger) -> None:
        """From now on, log the queries of a ledger that are answered or abandoned."""
        if self._following:
            raise ParameterError("this stopping rule serves a run that has not ended: make a new one for every run")
        self._following = True
        ledger.logs.append(self)

    def leave(self, ledger: Ledger) -> None:
        """At the end of a run: what was issued and not answered is requested again, by the next one.

        A repeated call changes nothing.
        """
        if self in ledger.logs:
            ledger.logs.remove(self)
        self._following = False
        self.wanted.extendleft(self._open.values())
        self._open.clear()

    def plain(self) -> Plain:
        """The log, as plain data."""
        return {
            "wanted": np.array(self.wanted, dtype=np.int64), "open": sorted(self._open),
            "arms": np.array([self._open[id] for id in sorted(self._open)], dtype=np.int64),
            "fresh": self.fresh.plain(), "weights": self._weights, "totals": self._totals, "pulls": self._pulls,
        }  # fmt: skip

    def restore(self, data: Plain) -> None:
        """Restore from plain data."""
        ids = wholes(data["open"])
        wanted, arms = array(data["wanted"], np.int64, None), array(data["arms"], np.int64, len(ids))
        for requested in (wanted, arms):
            if len(requested) and not 0 <= requested.min() <= requested.max() < len(self._pulls):
                raise ValueError("a request is for one of the arms")
        self.wanted, self._open = deque(wanted.tolist()), dict(zip(ids, arms.tolist(), strict=True))
        self.fresh.restore(data["fresh"])
        for sums, name in ((self._weights, "weights"), (self._totals, "totals"), (self._pulls, "pulls")):
            fill(sums, data[name])

    def require_open(self, open_queries: Container[int]) -> None:
        """Raise ValueError unless every query that was issued for a request is open."""
        if not all(id in open_queries for id in self._open):
            raise ValueError("a query that the rule waits for is not open")

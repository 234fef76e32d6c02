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
from combopeps.problem import Problem
from combopeps.state_dict import StateDict, array, fill, wholes


class Requests:
    """The log of one rule.

    Attributes
    ----------
    wanted
        Arms to be measured, in order.
    fresh
        Sums of the results of requests since the current epoch began.
    """

    def __init__(self, problem: Problem) -> None:
        self._noise, self._attached = problem.noise.tolist(), False
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
        """All results of queries of the run: of requests and of the policy's own choices."""
        return Measurements(self.fresh.arms, self._weights.copy(), self._totals.copy(), self._pulls.copy())

    def replace_told(self, told: Measurements) -> None:
        """Replace the sums of all results of queries, some of which were corrected or retracted."""
        self._weights[:], self._totals[:], self._pulls[:] = told.weights, told.totals, told.pulls

    def replace(self, arms: Iterable[int]) -> None:
        """Request these arms in place of those that have not been issued yet."""
        self.wanted = deque(int(arm) for arm in arms)

    def cancel(self) -> None:
        """Withdraw all requests, and forget their results."""
        self.wanted.clear()
        self._open.clear()
        self.fresh.restart()

    def issue(self, id: int, arm: int) -> None:
        """A query was issued: for the first requested arm, if it is for that arm."""
        if self.wanted and arm == self.wanted[0]:
            self._open[id] = self.wanted.popleft()

    def answer(self, id: int, arm: int, y: float, sem: float | None, count: int) -> bool:
        """Take the result of a query for a single arm; return whether it was requested."""
        noise = self._noise[arm]
        value = y / noise
        weight = float(count) if sem is None else (noise / sem) ** 2
        self._weights[arm] += weight
        self._totals[arm] += weight * value
        self._pulls[arm] += count
        if self._open.pop(id, None) is None:
            return False
        self.fresh.add(arm, value, 1.0 if sem is None else (sem / noise) ** 2)
        return True

    def abandon(self, id: int) -> None:
        """A query was closed without a result: its arm is requested again."""
        arm = self._open.pop(id, None)
        if arm is not None:
            self.wanted.appendleft(arm)

    def attach(self) -> None:
        """Begin to follow a session; ParameterError while another one is followed."""
        if self._attached:
            raise ParameterError("this stopping rule serves a run that has not ended: make a new one for every run")
        self._attached = True

    def detach(self) -> None:
        """At the end of a run: what was issued and not answered is requested again, by the next run.

        A repeated call changes nothing.
        """
        self._attached = False
        self.wanted.extendleft(self._open.values())
        self._open.clear()

    def state_dict(self) -> StateDict:
        ids = sorted(self._open)
        return {
            "wanted": np.array(self.wanted, dtype=np.int64), "open": ids,
            "arms": np.array([self._open[id] for id in ids], dtype=np.int64),
            "fresh": self.fresh.state_dict(), "weights": self._weights, "totals": self._totals, "pulls": self._pulls,
        }  # fmt: skip

    def load_state_dict(self, data: StateDict) -> None:
        ids = wholes(data["open"])
        wanted, arms = array(data["wanted"], np.int64, None), array(data["arms"], np.int64, len(ids))
        for requested in (wanted, arms):
            if len(requested) and not 0 <= requested.min() <= requested.max() < len(self._pulls):
                raise ValueError("a request is for one of the arms")
        self.wanted, self._open = deque(wanted.tolist()), dict(zip(ids, arms.tolist(), strict=True))
        self.fresh.load_state_dict(data["fresh"])
        for sums, name in ((self._weights, "weights"), (self._totals, "totals"), (self._pulls, "pulls")):
            fill(sums, data[name])

    def require_open(self, open_queries: Container[int]) -> None:
        """Raise ValueError unless every query that was issued for a request is open."""
        if not all(id in open_queries for id in self._open):
            raise ValueError("a query that the rule waits for is not open")

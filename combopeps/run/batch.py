"""A batch of measurements on its way from `measure` to the policy: what has come back is never lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from combopeps.errors import RewardError
from combopeps.policies.ledger import ActionQuery, Query
from combopeps.policies.step import Step

if TYPE_CHECKING:
    from combopeps.run.session import Session

Measure = Callable[[Any], Any]
Callback = Callable[[Any, Query, Any], None] | None


def said(query: Query, y: Any) -> tuple[Any, ...]:
    """What `measure` returned for one query: (y,), or (y, sem); of an action, y holds all of it."""
    is_pair = isinstance(y, tuple) and len(y) == 2 and not isinstance(query, ActionQuery)
    return y if is_pair else (y,)


class Returned:
    """Queries, and what `measure` returned for them; `single`: it gets the label of an only query, and not a list."""

    def __init__(self, *, single: bool) -> None:
        self.single = single
        self._queries: list[Query] = []
        self._returned: dict[int, Any] = {}
        self._results: list[Any] = []

    def _fetch(self, measure: Measure) -> None:
        """Measure, and keep what comes back."""
        labels = [query.label for query in self._queries]
        # A defaultdict calls and stores in C: no Ctrl-C comes between the return of `measure` and the dict.
        self._returned = defaultdict(partial(measure, labels[0] if self.single else labels))
        self._collect(self._returned[0])

    def _rescue(self) -> None:
        """After an exception: what has come back, if nobody has looked at it yet."""
        if self._returned and not self._results:
            returned = self._returned[0]
            if self.single or hasattr(returned, "__len__") or hasattr(returned, "__length_hint__"):
                with suppress(RewardError):  # all of it is there: taking it out measures nothing
                    self._collect(returned)

    def _collect(self, returned: Any) -> None:
        """One result for each query; those of a generator are kept as they come."""
        if self.single:
            self._results = [returned]
            return
        wanted = len(self._queries)
        try:
            if isinstance(returned, (Mapping, Set, str, bytes)):
                raise TypeError
            each = iter(returned)
        except TypeError:
            raise RewardError(
                f"measure got {wanted} labels and must return as many numbers, in the same order, got {returned!r:.40}"
            ) from None
        self._results = []
        self._results.extend(islice(each, wanted + 1))
        if len(self._results) != wanted:
            count = len(returned) if hasattr(returned, "__len__") else len(self._results)
            self._results = []  # nobody knows which belongs to which
            raise RewardError(f"measure got {wanted} labels and returned {count} numbers")


class Batch(Returned):
    """A batch of queries of a session."""

    def __init__(self, session: Session, *, single: bool) -> None:
        super().__init__(single=single)
        self.session, self.policy = session, session.policy
        self.told = 0  # how many results the policy has taken
        self._first = self.policy.ask_tell.ledger.next_id

    def run(self, choose: Callable[[], list[Query]], measure: Measure, callback: Callback) -> None:
        """Choose, measure, and tell; a result that is no number is reported after the others have been told."""
        self._queries = choose()
        if not self._queries:
            return
        self._fetch(measure)
        bad: list[RewardError] = []
        for query, y in zip(self._queries, self._results, strict=True):
            try:
                self.policy.tell(query, *said(query, y))
            except RewardError as error:
                bad.append(error)
                continue
            self.told += 1
            if callback is not None:
                callback(self.session, query, y if isinstance(query, ActionQuery) else float(said(query, y)[0]))
        if bad:
            raise bad[0]

    def keep(self) -> None:
        """After an exception: tell what has come back, and abandon the rest. Twice does no harm."""
        self.policy.turn.acquire()  # this once, wait for another thread
        try:
            self._keep()
        finally:
            self.policy.turn.release()

    def _keep(self) -> None:
        with Step(self.policy.turn):
            self._rescue()
            for query, y in zip(self._queries, self._results, strict=False):
                with suppress(Exception):  # the first exception is the one to report
                    self.policy.tell(query, *said(query, y))
            mine = {query.id for query in self._queries}
            for query in self.policy.open_queries:
                if query.id in mine or (not mine and query.id >= self._first):  # asked for, but never handed over
                    self.policy.abandon(query)

"""`Run`: measure for a session until its stopping rule, a budget or Ctrl-C ends it.

    ask -> measure -> tell -> ask -> ... -> look -> Result

One driver for sessions in memory, campaigns and remote campaigns: whatever has the methods of `Host`. What `measure`
has returned is never lost: it is told even if an exception or Ctrl-C comes in between.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from combopeps.errors import QueryError, RewardError
from combopeps.session.events import Lease, check_name
from combopeps.session.queries import Query
from combopeps.utils.formatting import probability_text
from combopeps.utils.locks import IgnoredInterrupts
from combopeps.utils.validation import MAX_QUERIES, check_callable, check_count, check_flag, check_positive

if TYPE_CHECKING:
    from combopeps.session.result import Result
    from combopeps.stopping.base import Verdict

Measure = Callable[[Any], Any]
Callback = Callable[[Any, Query, Any], None] | None
_ROUNDING = 1e-12  # sums of costs may exceed a budget by so much of it


class Host(Protocol):
    """What a driver needs of a session."""

    look_first: bool

    @property
    def run_client(self) -> str | None: ...
    @property
    def epsilon(self) -> float: ...
    @property
    def due(self) -> bool: ...
    @property
    def leases(self) -> Mapping[int, Lease]: ...
    def ask(self, n: int, /, *, client: str | None) -> list[Query]: ...
    @property
    def open_queries(self) -> list[Query]: ...
    def tell(self, query: Query, y: Any, sem: float | None = None, /, *, confirm: bool) -> None: ...
    def tell_many(self, results: Sequence[tuple[Any, ...]], /, *, confirm: bool) -> None: ...
    def observe(self, label: Any, y: float, sem: float | None, /, *, confirm: bool) -> None: ...
    def abandon(self, query: int, /) -> None: ...
    def look(self) -> Verdict: ...
    def cost_of(self, query: Query, /) -> float: ...
    def start_run(self, has_budget: bool, /) -> int | None: ...
    def finish_run(self, reason: str, made: int, by_cost: bool, /) -> Result: ...
    def end_run(self) -> None: ...
    def current_answer(self) -> tuple[Any, str]: ...


class Run:
    """One call of `run`.

    Parameters
    ----------
    host
        The session.
    measure, client, budget, budget_cost, progress, batch_size, callback
        As in `Session.run`.
    """

    def __init__(
        self,
        host: Host,
        measure: Measure,
        client: str | None,
        budget: int | None,
        budget_cost: float | None,
        progress: bool,
        batch_size: int,
        callback: Callback,
    ) -> None:
        check_run(measure, callback, progress, batch_size, budget, budget_cost)
        self.keeps_queries = client is not None  # a later call with this name continues with them
        self.client = host.run_client if client is None else check_name("client", client)
        self._known: set[int] = set()  # open queries that are not of this call
        self.host, self.measure, self.callback = host, measure, callback
        self.budget, self.budget_cost, self.batch_size = budget, budget_cost, batch_size
        self.progress = progress
        self.made, self.paid = 0, 0.0
        self._looked_at = -1  # results of this call at its last look
        self._too_expensive = False
        self._batch: Batch | None = None

    def run(self) -> Result:
        """Measure until something ends the run."""
        if self.client is None:
            self._known = {query.id for query in self.host.open_queries}
        limit = self.host.start_run(self.budget is not None or self.budget_cost is not None)
        self.budget = min((each for each in (self.budget, limit) if each is not None), default=None)
        interrupts = IgnoredInterrupts()
        try:
            try:
                with Progress(self.progress, self.budget) as shown:
                    reason = self._until_stopped(shown)
                self._clean_up()
                return self.host.finish_run(reason, self.made, self._too_expensive)
            except BaseException as error:
                self._explain(error)
                interrupts.begin()  # from here on one would replace an exception that has the session
                raise
        except BaseException as error:
            if getattr(error, "session", None) is not self.host:  # a Ctrl-C that came while the first was handled
                self._explain(error)
            raise interrupts.end(error)  # noqa: B904, the same exception

    def _until_stopped(self, shown: Progress) -> str:
        """Measure and look; return what ended the run."""
        host = self.host
        try:
            while not ((host.look_first or self.made) and host.due and self._look(shown)):
                if self._too_expensive or (self.budget is not None and self.made >= self.budget):
                    last = host.look_first and self._looked_at != self.made
                    return "" if last and self._look(shown) else "budget"
                self._measure()
            return ""
        except KeyboardInterrupt:
            self._keep()
            return "interrupted"

    def _look(self, shown: Progress) -> bool:
        self._looked_at = self.made
        verdict = self.host.look()
        if shown.show:
            answer, error = self.host.current_answer()
            error = (
                error if np.isnan(verdict.error_probability) else probability_text(verdict.error_probability, digits=1)
            )
            shown.update(self.made, answer, error, self.host.epsilon)
        return bool(verdict.stop)

    def _measure(self) -> None:
        """One batch, from the choice to what is recorded."""
        room = self.batch_size if self.budget is None else min(self.batch_size, self.budget - self.made)
        queries = self._affordable(self.host.ask(room, client=self.client))
        if not queries:
            return
        batch = self._batch = Batch(queries, single=self.batch_size == 1)
        try:
            batch.fetch(self.measure)
            bad = self._tell(batch.results(recorded=False))
            if self.callback is not None:
                for query, y in batch.results(recorded=True):
                    self.callback(self.host, query, float(query.arguments(y)[0]) if query.action is None else y)
        finally:
            self._count(batch)
        if bad is not None:
            raise bad
        self._batch = None

    def _affordable(self, queries: list[Query]) -> list[Query]:
        """Keep what the budget of cost allows; the rest is abandoned, and ends the run."""
        if self.budget_cost is None:
            return queries
        left = self.budget_cost * (1.0 + _ROUNDING) - self.paid
        kept = int((np.cumsum([self.host.cost_of(query) for query in queries]) <= left).sum())
        for query in queries[kept:]:
            self.host.abandon(query.id)
        self._too_expensive = kept < len(queries)
        return queries[:kept]

    def _tell(self, results: list[tuple[Query, Any]]) -> RewardError | None:
        """Record results: all at once, one by one where one of them is refused; return the first that is no result."""
        assert self._batch is not None
        if not results:
            return None
        query, y = results[0]
        try:
            if len(results) == 1:
                self.host.tell(query, *query.arguments(y), confirm=True)
            else:
                self.host.tell_many([(query, *query.arguments(y)) for query, y in results], confirm=True)
            self._batch.recorded.update([query.id for query, _ in results])
            return None
        except RewardError as error:
            if len(results) == 1:
                return error
        except QueryError:  # another client has closed a query meanwhile
            if len(results) == 1:
                self._batch.recorded.add(query.id)  # an observation counts each time it is made: once
                for label, (value, *sem) in query.parts(y):
                    if value is not None:
                        self.host.observe(label, value, sem[0] if sem else None, confirm=True)
                return None
        errors = [self._tell([result]) for result in results]
        return next((error for error in errors if error is not None), None)

    def _count(self, batch: Batch) -> None:
        for query in batch.count_new():
            self.made += 1
            if self.budget_cost is not None:
                self.paid += self.host.cost_of(query)

    def _keep(self) -> None:
        """Record what has come back, and close what will not be measured here; repeating it is harmless."""
        batch = self._batch
        if batch is not None:
            batch.rescue()
            with suppress(Exception):  # the first exception is the one to report
                self._tell(batch.results(recorded=False))
            self._count(batch)
        self._clean_up()

    def _clean_up(self) -> None:
        """Abandon open queries of this call, unless a later call continues with them."""
        if self.keeps_queries:
            return
        with suppress(Exception):
            if self.client is None:
                own = [query.id for query in self.host.open_queries if query.id not in self._known]
            else:
                own = [id for id, lease in self.host.leases.items() if lease.client == self.client]
            for id in own:
                self.host.abandon(id)

    def _explain(self, error: BaseException) -> None:
        """Attach the session, and what could not be recorded, to an exception."""
        self._keep()
        self.host.end_run()
        untold = [] if self._batch is None else self._batch.results(recorded=False)
        if getattr(error, "session", None) is self.host and getattr(error, "untold", None) == untold:
            return
        with suppress(Exception):  # an exception may refuse attributes
            BaseException.__setattr__(error, "session", self.host)
            BaseException.__setattr__(error, "untold", untold)
            error.add_note(f"{self.made} results of this call are recorded: continue with error.session.run(measure)")
            if untold:
                error.add_note(f"{len(untold)} could not be: error.session.tell_many(error.untold) records them")


class Batch:
    """Queries, and what `measure` returned for them.

    With `single`, `measure` gets the label of the only query, and not a list of labels.
    """

    def __init__(self, queries: list[Query], *, single: bool) -> None:
        self.queries, self.single = queries, single
        self.recorded: set[int] = set()
        self._counted: set[int] = set()
        self._returned: dict[int, Any] = {}
        self._results: list[Any] = []

    def fetch(self, measure: Measure) -> None:
        """Measure, and keep what comes back."""
        labels = [query.label for query in self.queries]
        # A defaultdict calls and stores in C: no Ctrl-C comes between the return of `measure` and the dict.
        self._returned = defaultdict(partial(measure, labels[0] if self.single else labels))
        self._collect(self._returned[0])

    def rescue(self) -> None:
        """After an exception: collect what `measure` returned, if that has not been done."""
        if self._returned and not self._results:
            returned = self._returned[0]
            if self.single or hasattr(returned, "__len__") or hasattr(returned, "__length_hint__"):
                with suppress(RewardError):  # all of it is there: taking it out measures nothing
                    self._collect(returned)

    def results(self, *, recorded: bool) -> list[tuple[Query, Any]]:
        """Results that are recorded, or those that are not known to be."""
        pairs = zip(self.queries, self._results, strict=False)
        return [(query, y) for query, y in pairs if (query.id in self.recorded) == recorded]

    def count_new(self) -> list[Query]:
        """Return the recorded queries that were not returned before."""
        if self.recorded == self._counted:
            return []
        new = [query for query in self.queries if query.id in self.recorded and query.id not in self._counted]
        self._counted |= self.recorded
        return new

    def _collect(self, returned: Any) -> None:
        """One result for each query; those of a generator are kept as they come."""
        if self.single:
            self._results = [returned]
            return
        expected = len(self.queries)
        try:
            if isinstance(returned, (Mapping, Set, str, bytes)):
                raise TypeError
            each = iter(returned)
        except TypeError:
            raise RewardError(
                f"measure got {expected} labels and must return as many numbers, in this order, got {returned!r:.40}"
            ) from None
        self._results = []
        self._results.extend(islice(each, expected + 1))
        if len(self._results) != expected:
            count = len(returned) if hasattr(returned, "__len__") else len(self._results)
            self._results = []  # it is unknown which belongs to which
            raise RewardError(f"measure got {expected} labels and returned {count} numbers")


class Progress:
    """A bar with measurements, current answer and error probability; it ends at the budget, if there is one."""

    def __init__(self, show: bool, budget: int | None) -> None:
        self.show, self.budget = show, budget

    def __enter__(self) -> Progress:
        if self.show:
            from tqdm import tqdm

            self._bar = tqdm(total=self.budget, unit=" samples")
        return self

    def __exit__(self, *exception: object) -> None:
        if self.show:
            self._bar.close()

    def update(self, made: int, answer: Any, error: str, epsilon: float) -> None:
        """Show an answer, and its error probability, after so many measurements."""
        wrong = "wrong" if epsilon == 0.0 else f"worse by more than {epsilon:g}"
        self._bar.n = made
        self._bar.set_postfix_str(f"{wrong} with p = {error}, answer {answer!s:.60}")


def check_run(measure: Any, callback: Any, progress: Any, batch_size: Any, budget: Any, budget_cost: Any) -> None:
    """Refuse arguments of `run` that cannot be used, before anything is measured."""
    check_callable("measure", measure)
    if callback is not None:
        check_callable("callback", callback)
    check_flag("progress", progress)
    check_count("batch_size", batch_size, MAX_QUERIES)
    if budget is not None:
        check_count("budget", budget)
    if budget_cost is not None:
        check_positive("budget_cost", budget_cost)

"""`Run`: main loop of a run, until its stopping rule, a budget or Ctrl-C ends it.

    ask -> measure -> tell -> ask -> ... -> look -> Result

The same loop drives sessions in memory, campaigns and remote campaigns, which implement the protocol `Host`. Values
returned by `measure` are never lost: they are recorded even if an exception or Ctrl-C follows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from combopeps.errors import QueryError, RewardError
from combopeps.session.events import Lease, check_name
from combopeps.session.queries import Query, QueryFactory, ResultReader
from combopeps.utils.formatting import probability_text
from combopeps.utils.locks import IgnoredInterrupts
from combopeps.utils.validation import MAX_QUERIES, check_callable, check_count, check_flag, check_positive

if TYPE_CHECKING:
    from combopeps.problem import Problem
    from combopeps.session.result import Result, Status
    from combopeps.stopping.base import Verdict

Measure = Callable[[Any], Any]
Callback = Callable[[Any, Query, Any], None] | None
_ROUNDING = 1e-12  # relative excess of a sum of costs over a budget that is attributed to rounding


class Host(Protocol):
    """Methods of a session that `Run` uses."""

    look_first: bool

    @property
    def problem(self) -> Problem: ...
    @property
    def run_client(self) -> str | None: ...
    @property
    def epsilon(self) -> float: ...
    @property
    def due(self) -> bool: ...
    @property
    def leases(self) -> Mapping[int, Lease]: ...
    @property
    def open_queries(self) -> list[Query]: ...
    def ask(self, n: int, /, *, client: str | None) -> list[Query]: ...
    def tell_many(self, results: Sequence[tuple[Any, ...]], /, *, confirm: bool) -> None: ...
    def observe(self, label: Any, y: float, sem: float | None, /, *, confirm: bool) -> None: ...
    def abandon(self, query: int, /) -> None: ...
    def look(self) -> Verdict: ...
    def status(self) -> Status: ...
    def start_run(self, has_budget: bool, /) -> int | None: ...
    def finish_run(self, reason: str, made: int, by_cost: bool, /) -> Result: ...
    def end_run(self) -> None: ...


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
        self.keeps_queries = client is not None  # open queries are continued by a later call with this name
        self.client = host.run_client if client is None else check_name("client", client)
        self._other_queries: set[int] = set()  # ids of queries that were open before this call
        self.host, self.measure, self.callback = host, measure, callback
        self.budget, self.budget_cost, self.batch_size = budget, budget_cost, batch_size
        self.progress = progress
        self._cost_of = QueryFactory(host.problem).cost
        self._last_look = -1  # value of `made` at the last look
        self._too_expensive = False
        self._batch = Batch([])

    @property
    def made(self) -> int:
        """Number of results of this call that are recorded."""
        return self._batch.made_before + len(self._batch.recorded)

    @property
    def paid(self) -> float:
        """Their cost, if there is a budget of cost."""
        batch = self._batch
        return batch.paid_before + sum(self._cost_of(query) for query in batch.queries if query.id in batch.recorded)

    def run(self) -> Result:
        """Measure until something ends the run."""
        if self.client is None:
            self._other_queries = {query.id for query in self.host.open_queries}
        limit = self.host.start_run(self.budget is not None or self.budget_cost is not None)
        self.budget = min((each for each in (self.budget, limit) if each is not None), default=None)
        interrupts = IgnoredInterrupts()
        try:
            try:
                with _progress_bar(self.progress, self.budget) as bar:
                    reason = self._until_stopped(bar)
                self._clean_up()
                return self.host.finish_run(reason, self.made, self._too_expensive)
            except BaseException as error:
                self._attach_session(error)
                interrupts.begin()  # a Ctrl-C from here on would replace the exception that has the session
                raise
        except BaseException as error:
            if getattr(error, "session", None) is not self.host:  # Ctrl-C while the first exception was handled
                self._attach_session(error)
            raise interrupts.end(error)  # noqa: B904, the same exception

    def _until_stopped(self, bar: Any) -> str:
        """Measure and look; return what ended the run."""
        host = self.host
        try:
            while not ((host.look_first or self.made) and host.due and self._look(bar)):
                if self._too_expensive or (self.budget is not None and self.made >= self.budget):
                    needs_last_look = host.look_first and self._last_look != self.made
                    return "" if needs_last_look and self._look(bar) else "budget"
                self._measure()
            return ""
        except KeyboardInterrupt:
            self._save_results()
            return "interrupted"

    def _look(self, bar: Any) -> bool:
        self._last_look = self.made
        verdict = self.host.look()
        if bar is not None:
            status, probability = self.host.status(), verdict.error_probability
            error = status.error_text if np.isnan(probability) else probability_text(probability, digits=1)
            wrong = "wrong" if self.host.epsilon == 0.0 else f"worse by more than {self.host.epsilon:g}"
            bar.n = self.made
            bar.set_postfix_str(f"{wrong} with p = {error}, answer {status.answer!s:.60}")
        return bool(verdict.stop)

    def _measure(self) -> None:
        """Ask for one batch, measure it, and record the results."""
        size = self.batch_size if self.budget is None else min(self.batch_size, self.budget - self.made)
        queries = self._affordable(self.host.ask(size, client=self.client))
        if not queries:
            return
        paid = 0.0 if self.budget_cost is None else self.paid
        batch = self._batch = Batch(queries, single=self.batch_size == 1, made_before=self.made, paid_before=paid)
        batch.fetch(self.measure)
        error = self._tell(batch.results(recorded=False))
        if self.callback is not None:
            for query, y in batch.results(recorded=True):
                self.callback(self.host, query, y)
        if error is not None:
            raise error

    def _affordable(self, queries: list[Query]) -> list[Query]:
        """Return the queries within the budget of cost; abandon the others, which ends the run."""
        if self.budget_cost is None:
            return queries
        left = self.budget_cost * (1.0 + _ROUNDING) - self.paid
        kept = int((np.cumsum([self._cost_of(query) for query in queries]) <= left).sum())
        for query in queries[kept:]:
            self.host.abandon(query.id)
        self._too_expensive = kept < len(queries)
        return queries[:kept]

    def _tell(self, results: list[tuple[Query, Any]]) -> RewardError | None:
        """Record results together, or one by one if that raises; return the first error of an invalid result."""
        if not results:
            return None
        query, y = results[0]
        try:
            self.host.tell_many(results, confirm=True)
            self._batch.recorded.update([query.id for query, _ in results])
            return None
        except RewardError as error:
            if len(results) == 1:
                return error
        except QueryError:  # another client has closed a query meanwhile
            if len(results) == 1:
                self._batch.recorded.add(query.id)  # first: a repeated observation would be counted again
                readings = ResultReader(self.host.problem).result(query, y)
                for label, reading in zip(query.components, readings, strict=True):
                    if reading is not None:
                        self.host.observe(label, reading.y, reading.sem, confirm=True)
                return None
        errors = [self._tell([result]) for result in results]
        return next((error for error in errors if error is not None), None)

    def _save_results(self) -> None:
        """Record the results that were returned, and abandon the other queries; idempotent."""
        self._batch.rescue()
        with suppress(Exception):  # the first exception is the one to report
            self._tell(self._batch.results(recorded=False))
        self._clean_up()

    def _clean_up(self) -> None:
        """Abandon open queries of this call, unless a later call continues with them."""
        if self.keeps_queries:
            return
        with suppress(Exception):
            if self.client is None:
                own = [query.id for query in self.host.open_queries if query.id not in self._other_queries]
            else:
                own = [id for id, lease in self.host.leases.items() if lease.client == self.client]
            for id in own:
                self.host.abandon(id)

    def _attach_session(self, error: BaseException) -> None:
        """Set the attributes `session` and `untold` (results that could not be recorded) of an exception."""
        self._save_results()
        self.host.end_run()
        untold = self._batch.results(recorded=False)
        if getattr(error, "session", None) is self.host and getattr(error, "untold", None) == untold:
            return
        with suppress(Exception):  # an exception may refuse attributes
            BaseException.__setattr__(error, "session", self.host)
            BaseException.__setattr__(error, "untold", untold)
            error.add_note(f"{self.made} results of this call are recorded: continue with error.session.run(measure)")
            if untold:
                error.add_note(f"{len(untold)} could not be: error.session.tell_many(error.untold) records them")


@dataclass
class Batch:
    """Queries, and the values that `measure` returned for them.

    With `single`, `measure` is called with the label of the only query, instead of a list of labels. `made_before` and
    `paid_before` are the number and cost of the results recorded before this batch.
    """

    queries: list[Query]
    single: bool = True
    made_before: int = 0
    paid_before: float = 0.0
    recorded: set[int] = field(default_factory=set)
    _returned: dict[int, Any] = field(default_factory=dict)
    _results: list[Any] = field(default_factory=list)

    def fetch(self, measure: Measure) -> None:
        """Call `measure`, and store the returned values."""
        labels = [query.label for query in self.queries]
        # A defaultdict calls and stores in C, so that Ctrl-C cannot come between the return of `measure` and the store.
        self._returned = defaultdict(partial(measure, labels[0] if self.single else labels))
        self._collect(self._returned[0])

    def rescue(self) -> None:
        """Collect the returned values after an exception, unless this has been done."""
        if self._returned and not self._results:
            returned = self._returned[0]
            if self.single or hasattr(returned, "__len__") or hasattr(returned, "__length_hint__"):
                with suppress(RewardError):  # a sized container is complete: iterating it does not measure
                    self._collect(returned)

    def results(self, *, recorded: bool) -> list[tuple[Query, Any]]:
        """Return the results that are recorded, or those that are not."""
        pairs = zip(self.queries, self._results, strict=False)
        return [(query, y) for query, y in pairs if (query.id in self.recorded) == recorded]

    def _collect(self, returned: Any) -> None:
        """Collect one result per query; values of a generator are stored one by one."""
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
            self._results = []  # they cannot be assigned to queries
            raise RewardError(f"measure got {expected} labels and returned {count} numbers")


def _progress_bar(show: bool, budget: int | None) -> AbstractContextManager[Any]:
    """Return a bar with measurements, current answer and error probability; a context of None without one."""
    if not show:
        return nullcontext()
    from tqdm import tqdm

    return closing(tqdm(total=budget, unit=" samples"))


def check_run(measure: Any, callback: Any, progress: Any, batch_size: Any, budget: Any, budget_cost: Any) -> None:
    """Validate the arguments of `run` before anything is measured."""
    check_callable("measure", measure)
    if callback is not None:
        check_callable("callback", callback)
    check_flag("progress", progress)
    check_count("batch_size", batch_size, MAX_QUERIES)
    if budget is not None:
        check_count("budget", budget)
    if budget_cost is not None:
        check_positive("budget_cost", budget_cost)

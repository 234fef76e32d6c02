"""`Run`: main loop of a run, until its stopping rule, a budget or Ctrl-C ends it.

    ask -> measure -> tell -> ask -> ... -> look -> Result

The same loop drives sessions in memory, campaigns and remote campaigns, which implement the protocol `Host`. Values
returned by `measure` are never lost: they are recorded even if an exception or Ctrl-C follows.
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
_ROUNDING = 1e-12  # relative excess of a sum of costs over a budget that is attributed to rounding


class Host(Protocol):
    """Methods of a session that `Run` uses."""

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
        self.keeps_queries = client is not None  # open queries are continued by a later call with this name
        self.client = host.run_client if client is None else check_name("client", client)
        self._other_queries: set[int] = set()  # ids of queries that were open before this call
        self.host, self.measure, self.callback = host, measure, callback
        self.budget, self.budget_cost, self.batch_size = budget, budget_cost, batch_size
        self.progress = progress
        self.made, self.paid = 0, 0.0  # results of this call, and their cost
        self._last_look = -1  # value of `made` at the last look
        self._too_expensive = False
        self._batch: Batch | None = None

    def run(self) -> Result:
        """Measure until something ends the run."""
        if self.client is None:
            self._other_queries = {query.id for query in self.host.open_queries}
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
                self._attach_session(error)
                interrupts.begin()  # a Ctrl-C from here on would replace the exception that has the session
                raise
        except BaseException as error:
            if getattr(error, "session", None) is not self.host:  # Ctrl-C while the first exception was handled
                self._attach_session(error)
            raise interrupts.end(error)  # noqa: B904, the same exception

    def _until_stopped(self, shown: Progress) -> str:
        """Measure and look; return what ended the run."""
        host = self.host
        try:
            while not ((host.look_first or self.made) and host.due and self._look(shown)):
                if self._too_expensive or (self.budget is not None and self.made >= self.budget):
                    needs_last_look = host.look_first and self._last_look != self.made
                    return "" if needs_last_look and self._look(shown) else "budget"
                self._measure()
            return ""
        except KeyboardInterrupt:
            self._save_results()
            return "interrupted"

    def _look(self, shown: Progress) -> bool:
        self._last_look = self.made
        verdict = self.host.look()
        if shown.show:
            answer, error = self.host.current_answer()
            error = (
                error if np.isnan(verdict.error_probability) else probability_text(verdict.error_probability, digits=1)
            )
            shown.update(self.made, answer, error, self.host.epsilon)
        return bool(verdict.stop)

    def _measure(self) -> None:
        """Ask for one batch, measure it, and record the results."""
        size = self.batch_size if self.budget is None else min(self.batch_size, self.budget - self.made)
        queries = self._affordable(self.host.ask(size, client=self.client))
        if not queries:
            return
        batch = self._batch = Batch(queries, single=self.batch_size == 1)
        try:
            batch.fetch(self.measure)
            error = self._tell(batch.results(recorded=False))
            if self.callback is not None:
                for query, y in batch.results(recorded=True):
                    self.callback(self.host, query, float(query.arguments(y)[0]) if query.action is None else y)
        finally:
            self._count(batch)
        if error is not None:
            raise error
        self._batch = None

    def _affordable(self, queries: list[Query]) -> list[Query]:
        """Return the queries within the budget of cost; abandon the others, which ends the run."""
        if self.budget_cost is None:
            return queries
        left = self.budget_cost * (1.0 + _ROUNDING) - self.paid
        kept = int((np.cumsum([self.host.cost_of(query) for query in queries]) <= left).sum())
        for query in queries[kept:]:
            self.host.abandon(query.id)
        self._too_expensive = kept < len(queries)
        return queries[:kept]

    def _tell(self, results: list[tuple[Query, Any]]) -> RewardError | None:
        """Record results together, or one by one if that raises; return the first error of an invalid result."""
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
                self._batch.recorded.add(query.id)  # first: a repeated observation would be counted again
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

    def _save_results(self) -> None:
        """Record the results that were returned, and abandon the other queries; idempotent."""
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
                own = [query.id for query in self.host.open_queries if query.id not in self._other_queries]
            else:
                own = [id for id, lease in self.host.leases.items() if lease.client == self.client]
            for id in own:
                self.host.abandon(id)

    def _attach_session(self, error: BaseException) -> None:
        """Set the attributes `session` and `untold` (results that could not be recorded) of an exception."""
        self._save_results()
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
    """Queries, and the values that `measure` returned for them.

    With `single`, `measure` is called with the label of the only query, instead of a list of labels.
    """

    def __init__(self, queries: list[Query], *, single: bool) -> None:
        self.queries, self.single = queries, single
        self.recorded: set[int] = set()
        self._counted: set[int] = set()
        self._returned: dict[int, Any] = {}
        self._results: list[Any] = []

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

    def count_new(self) -> list[Query]:
        """Return the recorded queries that were not returned by an earlier call."""
        if self.recorded == self._counted:
            return []
        new = [query for query in self.queries if query.id in self.recorded and query.id not in self._counted]
        self._counted |= self.recorded
        return new

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


class Progress:
    """Progress bar with measurements, current answer and error probability."""

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
        """Show the current answer and its error probability after `made` measurements."""
        wrong = "wrong" if epsilon == 0.0 else f"worse by more than {epsilon:g}"
        self._bar.n = made
        self._bar.set_postfix_str(f"{wrong} with p = {error}, answer {answer!s:.60}")


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

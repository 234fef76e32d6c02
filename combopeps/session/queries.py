"""Queries and their results: `Query`, validation of results, and the ledger that stores both.

A query is for one or several arms: one for a single measurement, and one for each component of an action. A result is a
tuple of readings, one for each arm of its query; None where nothing was read. The ledger has a row for each reading, in
the order in which results were recorded:

    row      event  query  arm  y  sem  count  in_proof  active

`query` is -1 for observations, `sem` 0 where the result has no standard error of its own, `count` 0 for a component of
an action that was not read. `in_proof` marks results of measurements that the stopping rule has requested; retracted
rows are not `active`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import inf, isfinite
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import ComboPepsError, LabelError, ParameterError, QueryError, RewardError
from combopeps.posterior.arms import Arms
from combopeps.posterior.stated_values import LARGEST_REWARD
from combopeps.problem import Problem
from combopeps.session.measurement_table import Table, TableSummary
from combopeps.utils.formatting import ShortRepr, short_repr
from combopeps.utils.label_format import label_text
from combopeps.utils.label_index import LabelIndex
from combopeps.utils.state_dict import StateDict, array
from combopeps.utils.validation import check_count

_MIN_SEM = 1e-6  # smallest standard error relative to the noise of the arm; the largest is its inverse
_MAX_COUNT = 10**12  # measurements in one mean
_OPEN, _ABANDONED = -1, -2  # instead of the row of a result
_DTYPES = {
    "event": np.int64, "query": np.int64, "arm": np.int64, "y": np.float64, "sem": np.float64, "count": np.int64,
    "in_proof": np.bool_, "active": np.bool_,
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class Query(ShortRepr):
    """A request to measure something once.

    Attributes
    ----------
    id
        Number of the query, from 0.
    label
        What to measure: the label of an arm, or an action as the action oracle decodes it.
    arms
        Numbers of the arms to be read; one unless the query is for an action.
    action
        Components of the action in the action oracle; None for a single arm.
    """

    id: int
    label: Any
    arms: tuple[int, ...]
    action: tuple[int, ...] | None = field(default=None, repr=False)
    _arms: Arms = field(default=None, compare=False, repr=False)  # type: ignore[assignment]

    @property
    def arm(self) -> int:
        """Number of the arm, if the query is for a single arm."""
        (arm,) = self.arms
        return arm

    @property
    def components(self) -> tuple[Any, ...]:
        """Labels of the arms to be read, in the order of their results."""
        return tuple(self._arms.labels[arm] for arm in self.arms)

    def arguments(self, y: Any) -> tuple[Any, ...]:
        """Return a measured value as arguments of `tell`: (y,), or (y, sem) for a pair of a single arm."""
        return y if self.action is None and isinstance(y, tuple) and len(y) == 2 else (y,)

    def parts(self, y: Any) -> list[tuple[Any, tuple[Any, ...]]]:
        """Return a measured value as pairs of a label and (y,), or (y, sem)."""
        values = [y] if self.action is None else y
        pairs = values.items() if isinstance(values, Mapping) else zip(self.components, values, strict=True)
        return [(label, value if isinstance(value, tuple) else (value,)) for label, value in pairs]

    @property
    def x(self) -> NDArray[np.float64]:
        """Row of the arm; for an action, the sum of the rows of its arms."""
        return np.asarray(self._arms.row(np.array(self.arms)).sum(axis=0))


class QueryFactory:
    """Creates the queries of a problem."""

    def __init__(self, problem: Problem) -> None:
        self._arms, self._action_set = problem.arms, problem.action_set

    def of_choice(self, id: int, choice: Any) -> Query:
        """Create a query from the choice of a policy: the number of an arm, or the row of an action."""
        return Query(id, *self._action_set.describe(choice), self._arms)

    def restored(self, id: int, measured: Sequence[int]) -> Query:
        """Create a query from the number of its arm, or of its action's components; ValueError if they are invalid."""
        return self.of_choice(id, self._action_set.restored(measured))

    def cost(self, query: Query) -> float:
        """Return the cost of measuring a query."""
        return self._action_set.cost_of_one(self.choice(query))

    def choice(self, query: Query) -> Any:
        """Return the choice from which the query was created."""
        return self._action_set.restored(measured_numbers(query))


def measured_numbers(query: Query) -> tuple[int, ...]:
    """Return the numbers by which `QueryFactory.restored` recreates a query."""
    return query.arms if query.action is None else query.action


@dataclass(frozen=True, slots=True, repr=False)
class Reading:
    """A measured value, its own standard error if there is one, and the number of measurements in the mean."""

    y: float
    sem: float | None = None
    count: int = 1

    @property
    def is_plain(self) -> bool:
        """Whether this is one measurement with the noise of its arm."""
        return self.sem is None and self.count == 1

    def weight(self, noise: float) -> float:
        """Return the weight: the number of single measurements with that noise that have the same variance."""
        return float(self.count) if self.sem is None else (noise / self.sem) ** 2

    def __repr__(self) -> str:
        sem = "" if self.sem is None else f" +- {self.sem:g}"
        return f"{self.y!r}{sem}" + (f" (mean of {self.count})" if self.count > 1 else "")


Readings = tuple[Reading | None, ...]


class ResultReader:
    """Validate results of queries and observations, and convert them to readings."""

    def __init__(self, problem: Problem) -> None:
        self._labels, self._noise = problem.arms.labels, problem.noise.tolist()
        self._noise_known = problem.noise_std is not None
        self.book = LabelIndex(problem.arms.labels, problem.oracle)

    def result(self, query: Query, y: Any, sem: Any = None) -> Readings:
        """Return the readings of a query, from y and sem of one arm, or from one entry per arm of an action."""
        if query.action is None:
            noise = self._noise[query.arm if 0 <= query.arm < len(self._noise) else 0]
            if type(y) is float and sem is None and -LARGEST_REWARD * noise <= y <= LARGEST_REWARD * noise:
                return (Reading(y),)  # fast path
            return (check_reading(y, noise, sem, known=self._noise_known, of=query),)
        if not 0 <= min(query.arms) <= max(query.arms) < len(self._noise):
            raise QueryError(f"query {query.id} was not asked here")
        if sem is not None:
            raise RewardError("an action has several results: give (value, sem) for each of them, not one sem")
        values = self._by_label(query, y) if isinstance(y, Mapping) else _in_order(query, y)
        readings = list[Reading | None]()
        for arm, value in zip(query.arms, values, strict=True):
            try:
                given = value if isinstance(value, tuple) and len(value) == 2 else (value,)
                readings.append(None if value is None else self.observation(arm, *given))
            except ComboPepsError as cause:
                raise type(cause)(f"the result of {short_repr(self._labels[arm], 60)}: {cause}") from None
        return tuple(readings)

    def observation(self, arm: int, y: Any, sem: Any = None, count: Any = 1) -> Reading:
        """Return the reading of an arm, validated."""
        return check_reading(y, self._noise[arm], sem, count, known=self._noise_known, of=self._labels[arm])

    def arm(self, label: Hashable) -> int:
        """Return the number of an arm, from its label."""
        return self.book.find(label)

    def _by_label(self, query: Query, values: Mapping[Any, Any]) -> list[Any]:
        found: dict[int, Any] = {}
        for label, value in values.items():
            arm = self.book.find(label)
            if arm not in query.arms:
                raise LabelError(
                    f"{short_repr(label, 60)} is not on the action of query {query.id}; its parts are "
                    f"{short_repr(list(query.components), 200)}"
                )
            if arm in found:
                raise LabelError(f"{short_repr(label, 60)} is given twice, by two of its names")
            found[arm] = value
        return [found.get(arm) for arm in query.arms]


def _in_order(query: Query, values: Any) -> list[Any]:
    expected = len(query.arms)
    if isinstance(values, (str, bytes, Set)) or not isinstance(values, Iterable):
        raise RewardError(
            f"query {query.id} is an action with {expected} parts: tell as many results, in the order of "
            f"query.components, or a dict of them, got {short_repr(values, 60)}"
        )
    results = list(values)
    if len(results) != expected:
        raise RewardError(
            f"query {query.id} has {expected} parts, got {len(results)} results; give None for what was not read, or a "
            f"dict; the parts are {short_repr(list(query.components), 200)}"
        )
    return results


def check_results(results: Any) -> list[tuple[Any, ...]]:
    """Validate pairs (query, y) and triples (query, y, sem), and return them as a list."""
    expected = "results are (query, y) or (query, y, sem), one after the other"
    if not isinstance(results, Iterable):
        raise ParameterError(f"{expected}, got {results!r:.40}")
    checked = []
    for number, result in enumerate(results):
        if not isinstance(result, (tuple, list)) or len(result) not in (2, 3):
            more = "; use observe(label, y, count=) for means" if isinstance(result, (tuple, list)) else ""
            raise ParameterError(f"{expected}, got {result!r:.40} as number {number} (counted from 0){more}")
        checked.append(tuple(result))
    return checked


def check_reading(
    y: Any, noise: float, sem: Any = None, count: Any = 1, known: bool = True, of: Query | Hashable = None
) -> Reading:
    """Validate a reading of an arm with this noise, and return it; errors name the query or label `of`.

    `known` is whether the problem states the noise level.
    """
    value = check_reward(y, noise, of)
    if sem is None and type(count) is int and count == 1:
        return Reading(value)
    if type(count) is not int or count != 1:
        check_count("count", count)
        if count > _MAX_COUNT:
            raise ParameterError(f"count{_named(of)} must be at most {_MAX_COUNT:g}, got {count!s:.40}")
    if sem is None:
        return Reading(value, None, int(count))
    if not known:
        raise ParameterError(
            "sem states the noise level, which Problem(noise_std=None) leaves open: state noise_std, or give the "
            "mean of several measurements with count="
        )
    is_number = isinstance(sem, Real) and not isinstance(sem, bool)
    if not (is_number and _MIN_SEM * noise <= sem <= noise / _MIN_SEM):
        raise RewardError(
            f"sem{_named(of)} must be a positive number, between {_MIN_SEM:g} and {1 / _MIN_SEM:g} times the noise "
            f"{noise:g} of its arm, got {sem!r:.40}; nothing was recorded"
        )
    return Reading(value, float(sem), int(count))


def check_reward(y: Any, noise_std: float = inf, of: Query | Hashable = None) -> float:
    """Validate a finite number of at most 1e100 standard deviations of the noise, and return it as a float."""
    try:
        if isinstance(y, (bool, np.bool_)):
            raise TypeError
        value = float(y)
    except (TypeError, ValueError):
        pair = ", or a tuple (y, sem) with its standard error" if isinstance(y, (tuple, list, np.ndarray)) else ""
        raise RewardError(f"a measurement{_named(of)} must be one number{pair}, got {y!r:.40}") from None
    except OverflowError:
        value = inf
    if not isfinite(value):
        raise RewardError(f"a measurement{_named(of)} must be finite, got {value}; nothing was recorded")
    if abs(value) > LARGEST_REWARD * noise_std:
        raise RewardError(
            f"a measurement{_named(of)} must be at most {LARGEST_REWARD:g} times noise_std = {noise_std:g}, "
            f"got {value:g}; nothing was recorded"
        )
    return value


def _named(of: Query | Hashable) -> str:
    """Return the name of a query or label for an error message."""
    if isinstance(of, Query):
        return f" of query {of.id} ({label_text(of.label):.60})"
    return "" if of is None else f" of {label_text(of)[:60]!r}"


def read_observations(table: Table, reader: ResultReader) -> tuple[list[int], list[Reading], TableSummary]:
    """Return arms and readings of a table, in its order, and a summary.

    All rows are validated; the error names the first invalid one. Rows of components that no answer contains are
    skipped, and counted in the summary.
    """
    faults, numbers = table.faults, _numbers(table, reader.book)
    arms, readings = list[int](), list[Reading]()
    rows = zip(numbers, table.values, table.sems, table.counts, strict=True)
    for row, (arm, y, sem, count) in enumerate(rows):
        if y is not None and arm >= 0:
            try:
                readings.append(reader.observation(arm, y, sem, count))
                arms.append(arm)
            except ComboPepsError as cause:
                faults.add(row, _invalid_column(reader.observation, arm, y, sem), str(cause), type(cause))
    faults.check()
    left_out = Counter(number for number in numbers if number < 0)
    reason = f"{reader.book.reason(next(iter(left_out)))}, so it is not measured" if left_out else ""
    named: dict[Hashable, int] = {reader.book.pruned(number): count for number, count in left_out.items()}
    return arms, readings, TableSummary(len(table), len(arms), named, reason)


def _invalid_column(check: Callable[..., Reading], arm: int, y: float, sem: float | None) -> str:
    """Return the first column of an invalid row that raises together with those before it."""
    for column, cells in (("value", (y,)), ("sem", (y, sem))):
        try:
            check(arm, *cells)
        except ComboPepsError:
            return column
    return "count"


def _numbers(table: Table, book: LabelIndex) -> list[int]:
    """Return the arm of every row, negative for pruned components; add unknown labels to the faults of the table."""
    cache: dict[Any, set[int]] = {}
    numbers, message = [], ""
    for row, label in enumerate(table.labels):
        found = _candidates(label, table, book, cache)
        if len(found) != 1:
            message = message or str(book.refusal(label, found))
            table.faults.add(row, "label", message, LabelError)
        numbers.append(min(found, default=-1))
    return numbers


def _candidates(label: Any, table: Table, book: LabelIndex, cache: dict[Any, set[int]]) -> set[int]:
    try:
        if label not in cache:
            cache[label] = book.meant(label, is_text=table.is_text)
        return cache[label]
    except TypeError:  # unhashable
        return set()


class ResultTable:
    """Results in growing columns: `table.y[: len(table)]`."""

    event: NDArray[np.int64]
    query: NDArray[np.int64]
    arm: NDArray[np.int64]
    y: NDArray[np.float64]
    sem: NDArray[np.float64]
    count: NDArray[np.int64]
    in_proof: NDArray[np.bool_]
    active: NDArray[np.bool_]

    def __init__(self) -> None:
        self._size, self._capacity = 0, 0
        self._grow(16)

    def __len__(self) -> int:
        return self._size

    def append(self, event: int, query: int, arm: int, reading: Reading | None) -> int:
        """Append a row, and return its number."""
        row = self._size
        if row == self._capacity:
            self._grow(2 * row)
        self.event[row], self.query[row], self.arm[row], self.active[row] = event, query, arm, True
        self.change(row, reading)
        self._size = row + 1
        return row

    def extend(self, event: NDArray[np.int64], arms: Sequence[int], readings: Sequence[Reading]) -> int:
        """Append observations, and return the number of the first row."""
        first, end = self._size, self._size + len(arms)
        if end > self._capacity:
            self._grow(max(end, 2 * self._capacity))
        rows = slice(first, end)
        self.event[rows], self.query[rows], self.arm[rows], self.active[rows] = event, -1, arms, True
        self.y[rows] = [reading.y for reading in readings]
        self.sem[rows] = [reading.sem or 0.0 for reading in readings]
        self.count[rows] = [reading.count for reading in readings]
        self._size = end
        return first

    def reading(self, row: int) -> Reading | None:
        """Return the reading of a row; None for a component that was not read."""
        count = self.count.item(row)
        return Reading(self.y.item(row), self.sem.item(row) or None, count) if count else None

    def change(self, row: int, reading: Reading | None) -> None:
        """Replace the reading of a row."""
        if reading is None:
            self.y[row] = self.sem[row] = self.count[row] = 0
        else:
            self.y[row], self.sem[row], self.count[row] = reading.y, reading.sem or 0.0, reading.count

    def rows_of_event(self, event: int) -> NDArray[np.intp]:
        """Return the rows of an event; empty if it recorded no result."""
        events = self.event[: self._size]
        return np.arange(np.searchsorted(events, event), np.searchsorted(events, event, side="right"))

    def counted(self) -> NDArray[np.intp]:
        """Return the rows with a reading that was not retracted."""
        return np.flatnonzero(self.active[: self._size] & (self.count[: self._size] > 0))

    def state_dict(self) -> StateDict:
        return {name: getattr(self, name)[: self._size] for name in _DTYPES}

    def load_state_dict(self, data: StateDict) -> None:
        size = len(data["event"])
        columns = {name: array(data[name], dtype, size) for name, dtype in _DTYPES.items()}
        if size and ((np.diff(columns["event"]) < 0).any() or columns["query"].min() < -1 or columns["arm"].min() < 0):
            raise ValueError("results must be in the order of their events")
        if not np.isfinite(columns["y"]).all() or not (np.isfinite(columns["sem"]) & (columns["sem"] >= 0.0)).all():
            raise ValueError("results and their standard errors must be finite")
        if (columns["count"] < 0).any():
            raise ValueError("the count of a result must not be negative")
        for name, column in columns.items():
            setattr(self, name, column)
        self._size = self._capacity = size
        self._grow(max(16, size))

    def _grow(self, capacity: int) -> None:
        for name, dtype in _DTYPES.items():
            grown: NDArray[Any] = np.zeros(capacity, dtype)
            grown[: self._size] = getattr(self, name, grown)[: self._size]
            setattr(self, name, grown)
        self._capacity = capacity


class Ledger:
    """Queries of a session, and their results.

    Attributes
    ----------
    open
        Open queries by id, oldest first.
    next_id
        Id of the next query: ids are consecutive.
    results
        All results.
    """

    def __init__(self, queries: QueryFactory) -> None:
        self._queries = queries
        self.open: dict[int, Query] = {}
        self.results = ResultTable()
        self._closed: dict[int, Query] = {}  # abandoned queries, and answered ones for actions
        self._rows = np.full(16, _OPEN, dtype=np.int64)  # by id: the first row of the result
        self._keys: dict[str, tuple[int, int]] = {}  # first row and number of rows, by idempotency key
        self.next_id = 0

    def enter(self, query: Query) -> None:
        """Open a query; ValueError unless its id is the next one."""
        if query.id != self.next_id:
            raise ValueError(f"query {query.id} is out of order: the next one is {self.next_id}")
        if self.next_id == len(self._rows):
            self._rows = np.concatenate([self._rows, np.full(len(self._rows), _OPEN, dtype=np.int64)])
        self.open[query.id] = query
        self.next_id += 1

    @property
    def open_arms(self) -> list[int]:
        """Arms of open queries; an arm of several queries is repeated."""
        return [arm for query in self.open.values() for arm in query.arms]

    def find(self, id: int) -> Query:
        """Return a query by its id, open or closed."""
        query = self.open.get(id) or self._closed.get(id)
        if query is None and 0 <= id < self.next_id:
            query = self._queries.restored(id, [self.results.arm.item(self._rows.item(id))])
        if query is None:
            raise QueryError(f"query {id!r} was never asked", unknown=True)
        return query

    def readings(self, query: Query) -> Readings | None:
        """Return the result of a query; None if it has none."""
        row = self._rows.item(query.id)
        return None if row < 0 else tuple(self.results.reading(row + part) for part in range(len(query.arms)))

    def is_new(self, query: Query, readings: Readings) -> bool:
        """Return whether a result is to be recorded; False for an identical repetition, QueryError if it cannot be."""
        if self.open.get(query.id) == query:
            return True
        if not 0 <= query.id < self.next_id or self.find(query.id) != query:
            raise QueryError(f"query {query.id} was not asked here")
        if self._rows.item(query.id) == _ABANDONED:
            raise QueryError(f"query {query.id} was abandoned; use observe(label, y) to record its result")
        recorded = self.readings(query)
        if recorded == readings:
            return False
        before, now = (given[0] if given is not None and len(given) == 1 else given for given in (recorded, readings))
        raise QueryError(
            f"query {query.id} was answered {before!r} before, now {now!r}; use observe for more data, or "
            "correct(event, y) for a wrong value"
        )

    def new_results(self, results: Iterable[tuple[Query, Readings]]) -> list[tuple[Query, Readings]]:
        """Return the results of a batch that are to be recorded, each query once; QueryError if one cannot be."""
        new: dict[int, tuple[Query, Readings]] = {}
        for query, readings in results:
            if self.is_new(query, readings) and new.setdefault(query.id, (query, readings))[1] != readings:
                raise QueryError(f"query {query.id} is in the batch twice, with different results")
        return list(new.values())

    def close(self, query: Query, readings: Readings, event: int) -> int:
        """Record a result, and return its first row."""
        del self.open[query.id]
        if query.action is not None:
            self._closed[query.id] = query
        rows = [self.results.append(event, query.id, *pair) for pair in zip(query.arms, readings, strict=True)]
        first = rows[0] if rows else len(self.results)
        self._rows[query.id] = first
        return first

    def observe(self, event: int, arms: Sequence[int], readings: Sequence[Reading], key: str | None) -> int:
        """Record observations of consecutive events, the first of which is `event`, and return the first row."""
        first = self.results.extend(event + np.arange(len(arms)), arms, readings)
        if key is not None:
            begin, size = self._keys.get(key, (first, 0))
            if begin + size != first or (size and self.results.event.item(first - 1) != event - 1):
                raise ValueError(f"idempotency key {key!r:.80} was used before")
            self._keys[key] = begin, size + len(arms)
        return first

    def is_repetition(self, key: str | None, arms: Sequence[int], readings: Sequence[Reading]) -> bool:
        """Return whether the same observations were recorded with this key; QueryError if others were."""
        if key is None or key not in self._keys:
            return False
        begin, size = self._keys[key]
        rows = slice(begin, begin + size)
        recorded = [self.results.reading(row) for row in range(begin, begin + size)]
        if self.results.arm[rows].tolist() != list(arms) or recorded != list(readings):
            raise QueryError(f"key {key!r} was used for another observation before; use a new key for each")
        return True

    def abandon(self, query: Query) -> None:
        """Close a query without a result."""
        self.require_open(query)
        self._closed[query.id] = self.open.pop(query.id)
        self._rows[query.id] = _ABANDONED

    def is_abandoned(self, id: int) -> bool:
        """Return whether a query was closed without a result."""
        return 0 <= id < self.next_id and self._rows.item(id) == _ABANDONED

    def require_open(self, query: Query) -> None:
        """Raise QueryError unless the query is open."""
        if self.open.get(query.id) != query:
            raise QueryError(f"query {query.id} is not open: it was closed before, or asked by another session")

    def state_dict(self) -> StateDict:
        kept = sorted(self._closed | self.open)
        measured = [measured_numbers(self._closed.get(id) or self.open[id]) for id in kept]
        return {
            "next_id": self.next_id, "results": self.results.state_dict(), "rows": self._rows[: self.next_id],
            "ids": np.array(kept, dtype=np.int64), "ends": np.cumsum([len(each) for each in measured], dtype=np.int64),
            "measured": np.array([number for each in measured for number in each], dtype=np.int64),
            "keys": [[key, *rows] for key, rows in self._keys.items()],
        }  # fmt: skip

    def load_state_dict(self, data: StateDict) -> None:
        self.results.load_state_dict(data["results"])
        self.next_id, size = int(data["next_id"]), len(self.results)
        rows = array(data["rows"], np.int64, self.next_id)
        if len(rows) and not _ABANDONED <= rows.min() <= rows.max() <= size:
            raise ValueError("the result of a query must be a row of the results")
        self._rows = np.concatenate([rows, np.full(max(16, self.next_id), _OPEN, dtype=np.int64)])
        ids, ends = array(data["ids"], np.int64, None), array(data["ends"], np.int64, None)
        parts = np.split(array(data["measured"], np.int64, None), ends[:-1]) if len(ids) else []
        for id, measured in zip(ids.tolist(), parts, strict=True):
            query = self._queries.restored(id, measured.tolist())
            (self.open if rows[id] == _OPEN else self._closed)[id] = query
        if set(np.flatnonzero(rows == _OPEN).tolist()) != self.open.keys():
            raise ValueError("open queries must be those without a result")
        for key, begin, count in data["keys"]:
            if not isinstance(key, str) or not 0 <= begin <= begin + count <= size:
                raise ValueError("an idempotency key must belong to results")
            self._keys[key] = begin, count

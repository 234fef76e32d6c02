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

from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import inf, isfinite
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import LabelError, ParameterError, QueryError, RewardError
from combopeps.posterior.arms import Arms
from combopeps.posterior.stated_values import LARGEST_REWARD
from combopeps.problem import Problem
from combopeps.utils.formatting import ShortRepr, short_repr
from combopeps.utils.label_format import label_text
from combopeps.utils.label_index import LabelIndex
from combopeps.utils.state_dict import StateDict, array
from combopeps.utils.validation import check_count

_MIN_SEM = 1e-6  # smallest standard error relative to the noise of the arm; the largest is its inverse
_MAX_COUNT = 10**12  # measurements in one mean
_OPEN, _ABANDONED = -1, -2  # instead of the row of a result
_COLUMNS = {
    "event": np.int64, "query": np.int64, "arm": np.int64, "y": np.float64, "sem": np.float64, "count": np.int64,
    "in_proof": np.bool_, "active": np.bool_,
}  # fmt: skip
_ROW = np.dtype(list(_COLUMNS.items()))


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

    @property
    def measured(self) -> tuple[int, ...]:
        """Numbers by which `QueryFactory.restored` recreates the query."""
        return self.arms if self.action is None else self.action

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
        choice: Any = self._action_set.restored(query.measured)
        return self._action_set.cost_of_one(choice)


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
            if isinstance(y, tuple) and len(y) == 2 and sem is None:
                y, sem = y
            return (check_reading(y, noise, sem, known=self._noise_known, of=query),)
        if not 0 <= min(query.arms) <= max(query.arms) < len(self._noise):
            raise QueryError(f"query {query.id} was not asked here")
        if sem is not None:
            raise RewardError("an action has several results: give (value, sem) for each of them, not one sem")
        values = self._by_label(query, y) if isinstance(y, Mapping) else _in_order(query, y)
        pairs = [value if isinstance(value, tuple) and len(value) == 2 else (value,) for value in values]
        parts = zip(query.arms, pairs, strict=True)
        return tuple(None if pair[0] is None else self.observation(arm, *pair) for arm, pair in parts)

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


def check_id(query: Any) -> int:
    """Validate the number of a query, and return it as an int."""
    if isinstance(query, bool) or not isinstance(query, (int, np.integer)):
        raise QueryError(
            f"a query is required, as ask() returned it, or its number, got {query!r:.40}; open_queries lists those "
            "that wait, and observe(label, y) takes results without a query"
        )
    return int(query)


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


class ResultTable:
    """Results in growing columns, which are attributes: `table.y[: len(table)]`."""

    def __init__(self) -> None:
        self._rows, self._size = np.zeros(16, _ROW), 0

    def __len__(self) -> int:
        return self._size

    def __getattr__(self, name: str) -> NDArray[Any]:
        if name not in _COLUMNS:
            raise AttributeError(f"results have no column {name!r}")
        column: NDArray[Any] = self._rows[name]
        return column

    def append(self, event: int, query: int, arm: int, reading: Reading | None) -> None:
        """Append a row."""
        if self._size == len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
        y, sem, count = (0.0, 0.0, 0) if reading is None else (reading.y, reading.sem or 0.0, reading.count)
        self._rows[self._size] = event, query, arm, y, sem, count, False, True
        self._size += 1

    def reading(self, row: int) -> Reading | None:
        """Return the reading of a row; None for a component that was not read."""
        count = self.count.item(row)
        return Reading(self.y.item(row), self.sem.item(row) or None, count) if count else None

    def change(self, row: int, reading: Reading | None) -> None:
        """Replace the reading of a row."""
        y, sem, count = (0.0, 0.0, 0) if reading is None else (reading.y, reading.sem or 0.0, reading.count)
        self._rows["y"][row], self._rows["sem"][row], self._rows["count"][row] = y, sem, count

    def rows_of_event(self, event: int) -> NDArray[np.intp]:
        """Return the rows of an event; empty if it recorded no result."""
        events = self.event[: self._size]
        return np.arange(np.searchsorted(events, event), np.searchsorted(events, event, side="right"))

    def counted(self) -> NDArray[np.intp]:
        """Return the rows with a reading that was not retracted."""
        return np.flatnonzero(self.active[: self._size] & (self.count[: self._size] > 0))

    def state_dict(self) -> StateDict:
        return {name: self._rows[name][: self._size].copy() for name in _COLUMNS}

    def load_state_dict(self, data: StateDict) -> None:
        size = len(data["event"])
        columns = {name: array(data[name], dtype, size) for name, dtype in _COLUMNS.items()}
        if size and ((np.diff(columns["event"]) < 0).any() or columns["query"].min() < -1 or columns["arm"].min() < 0):
            raise ValueError("results must be in the order of their events")
        if not np.isfinite(columns["y"]).all() or not (np.isfinite(columns["sem"]) & (columns["sem"] >= 0.0)).all():
            raise ValueError("results and their standard errors must be finite")
        if (columns["count"] < 0).any():
            raise ValueError("the count of a result must not be negative")
        self._rows, self._size = np.zeros(max(16, size), _ROW), size
        for name, column in columns.items():
            self._rows[name][:size] = column


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
        self._rows = list[int]()  # by id: the first row of the result
        self._keys: dict[str, tuple[int, int]] = {}  # first row and number of rows, by idempotency key

    @property
    def next_id(self) -> int:
        return len(self._rows)

    def enter(self, query: Query) -> None:
        """Open a query; ValueError unless its id is the next one."""
        if query.id != self.next_id:
            raise ValueError(f"query {query.id} is out of order: the next one is {self.next_id}")
        self.open[query.id] = query
        self._rows.append(_OPEN)

    @property
    def open_arms(self) -> list[int]:
        """Arms of open queries; an arm of several queries is repeated."""
        return [arm for query in self.open.values() for arm in query.arms]

    def find(self, given: Any) -> Query:
        """Return a query, open or closed, from its id; or itself."""
        if isinstance(given, Query):
            return given
        id = check_id(given)
        query = self.open.get(id) or self._closed.get(id)
        if query is None and 0 <= id < self.next_id:
            query = self._queries.restored(id, [self.results.arm.item(self._rows[id])])
        if query is None:
            raise QueryError(f"query {id!r} was never asked", unknown=True)
        return query

    def readings(self, query: Query) -> Readings | None:
        """Return the result of a query; None if it has none."""
        row = self._rows[query.id]
        return None if row < 0 else tuple(self.results.reading(row + part) for part in range(len(query.arms)))

    def is_new(self, query: Query, readings: Readings) -> bool:
        """Return whether a result is to be recorded; False for an identical repetition, QueryError if it cannot be."""
        if self.open.get(query.id) == query:
            return True
        if not 0 <= query.id < self.next_id or self.find(query.id) != query:
            raise QueryError(f"query {query.id} was not asked here")
        if self._rows[query.id] == _ABANDONED:
            raise QueryError(f"query {query.id} was abandoned; use observe(label, y) to record its result")
        recorded = self.readings(query)
        if recorded == readings:
            return False
        before, now = (given[0] if given is not None and len(given) == 1 else given for given in (recorded, readings))
        raise QueryError(
            f"query {query.id} was answered {before!r} before, now {now!r}; use observe for more data, or "
            "correct(event, y) for a wrong value"
        )

    def close(self, query: Query, readings: Readings, event: int) -> int:
        """Record a result, and return its first row."""
        del self.open[query.id]
        if query.action is not None:
            self._closed[query.id] = query
        self._rows[query.id] = first = len(self.results)
        for arm, reading in zip(query.arms, readings, strict=True):
            self.results.append(event, query.id, arm, reading)
        return first

    def answered_actions(self, rows: NDArray[np.intp]) -> list[Query]:
        """Return the queries for actions to which some of these rows belong."""
        ids = np.unique(self.results.query[rows]).tolist()
        return [self._closed[id] for id in ids if id in self._closed]

    def observe(self, event: int, arms: Sequence[int], readings: Sequence[Reading], key: str | None) -> None:
        """Record observations of consecutive events, the first of which is `event`."""
        first = len(self.results)
        for number, (arm, reading) in enumerate(zip(arms, readings, strict=True), event):
            self.results.append(number, -1, arm, reading)
        if key is not None:
            begin, size = self._keys.get(key, (first, 0))
            if begin + size != first or (size and self.results.event.item(first - 1) != event - 1):
                raise ValueError(f"idempotency key {key!r:.80} was used before")
            self._keys[key] = begin, size + len(arms)

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
        return 0 <= id < self.next_id and self._rows[id] == _ABANDONED

    def require_open(self, query: Query) -> None:
        """Raise QueryError unless the query is open."""
        if self.open.get(query.id) != query:
            raise QueryError(f"query {query.id} is not open: it was closed before, or asked by another session")

    def state_dict(self) -> StateDict:
        kept = sorted(self._closed | self.open)
        measured = [(self._closed.get(id) or self.open[id]).measured for id in kept]
        return {
            "results": self.results.state_dict(), "rows": np.array(self._rows, dtype=np.int64),
            "ids": np.array(kept, dtype=np.int64), "ends": np.cumsum([len(each) for each in measured], dtype=np.int64),
            "measured": np.array([number for each in measured for number in each], dtype=np.int64),
            "keys": [[key, *rows] for key, rows in self._keys.items()],
        }  # fmt: skip

    def load_state_dict(self, data: StateDict) -> None:
        self.results.load_state_dict(data["results"])
        rows, size = array(data["rows"], np.int64, None), len(self.results)
        if len(rows) and not _ABANDONED <= rows.min() <= rows.max() <= size:
            raise ValueError("the result of a query must be a row of the results")
        self._rows = rows.tolist()
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

"""`Ledger`: open, answered and abandoned queries, and all results in columns.

    row      event  query  arm  y  sem  count  in_proof  active

There is one row for each reading, in the order in which results were recorded. `query` is -1 for observations, `sem` 0
where the result has none of its own, `count` 0 for a part of an action that was not read. `in_proof` marks results of
measurements that the stopping rule has requested. Retracted rows are not `active`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import QueryError
from combopeps.session.queries import Query, QueryFactory, Reading, Readings, check_query, measured_numbers
from combopeps.state_dict import StateDict, array

_OPEN, _ABANDONED = -1, -2  # in place of a row
_DTYPES = {
    "event": np.int64, "query": np.int64, "arm": np.int64, "y": np.float64, "sem": np.float64, "count": np.int64,
    "in_proof": np.bool_, "active": np.bool_,
}  # fmt: skip


class ResultTable:
    """Results in columns that grow: `table.y[: len(table)]`."""

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
        if reading is None:
            self.y[row] = self.sem[row] = self.count[row] = 0
        else:
            self.y[row], self.sem[row], self.count[row] = reading.y, reading.sem or 0.0, reading.count
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
        """Return the reading of a row; None for a part that was not read."""
        count = self.count.item(row)
        return Reading(self.y.item(row), self.sem.item(row) or None, count) if count else None

    def change(self, row: int, reading: Reading | None) -> None:
        """Replace the reading of a row."""
        self.y[row], self.sem[row], self.count[row] = (
            (0.0, 0.0, 0) if reading is None else (reading.y, reading.sem or 0.0, reading.count)
        )

    def rows_of_event(self, event: int) -> NDArray[np.intp]:
        """Return the rows of an event; empty if it recorded no result."""
        events = self.event[: self._size]
        return np.arange(np.searchsorted(events, event), np.searchsorted(events, event, side="right"))

    def counted(self) -> NDArray[np.intp]:
        """Return the rows that hold a result which counts."""
        return np.flatnonzero(self.active[: self._size] & (self.count[: self._size] > 0))

    def state_dict(self) -> StateDict:
        return {name: getattr(self, name)[: self._size] for name in _DTYPES}

    def load_state_dict(self, data: StateDict) -> None:
        size = len(data["event"])
        columns = {name: array(data[name], dtype, size) for name, dtype in _DTYPES.items()}
        if size and ((np.diff(columns["event"]) < 0).any() or columns["query"].min() < -1 or columns["arm"].min() < 0):
            raise ValueError("results are in the order of their events")
        if not np.isfinite(columns["y"]).all() or not (np.isfinite(columns["sem"]) & (columns["sem"] >= 0.0)).all():
            raise ValueError("results and their standard errors are finite")
        if (columns["count"] < 0).any():
            raise ValueError("a result is the mean of some measurements")
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
        """Arms of open queries, each as often as it is being measured."""
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
        """Return what was told of a query; None if it has no result."""
        row = self._rows.item(query.id)
        return None if row < 0 else tuple(self.results.reading(row + part) for part in range(len(query.arms)))

    def is_new(self, query: Any, readings: Readings) -> bool:
        """Whether a result is to be recorded: False for an identical repetition; QueryError for what cannot be."""
        check_query(query)
        if self.open.get(query.id) == query:
            return True
        if not 0 <= query.id < self.next_id or self.find(query.id) != query:
            raise QueryError(f"query {query.id} was not asked here")
        if self._rows.item(query.id) == _ABANDONED:
            raise QueryError(f"query {query.id} was abandoned; use observe(label, y) if its result came after all")
        known = self.readings(query)
        if known == readings:
            return False
        before, now = (given[0] if given is not None and len(given) == 1 else given for given in (known, readings))
        raise QueryError(
            f"query {query.id} was answered {before!r} before, now {now!r}; use observe for more data, or "
            "correct(event, y) for a value that was wrong"
        )

    def new_results(self, results: Iterable[tuple[Query, Readings]]) -> list[tuple[Query, Readings]]:
        """Return what is to be recorded of a batch, each query once; raises before anything changes."""
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
        """Record observations of consecutive events from this one on, and return the first row."""
        first = self.results.extend(event + np.arange(len(arms)), arms, readings)
        if key is not None:
            begin, size = self._keys.get(key, (first, 0))
            if begin + size != first or (size and self.results.event.item(first - 1) != event - 1):
                raise ValueError(f"idempotency key {key!r:.80} was used before")
            self._keys[key] = begin, size + len(arms)
        return first

    def is_repetition(self, key: str | None, arms: Sequence[int], readings: Sequence[Reading]) -> bool:
        """Whether the same observations were recorded with this key; QueryError if others were."""
        if key is None or key not in self._keys:
            return False
        begin, size = self._keys[key]
        rows = slice(begin, begin + size)
        known = [self.results.reading(row) for row in range(begin, begin + size)]
        if self.results.arm[rows].tolist() != list(arms) or known != list(readings):
            raise QueryError(f"key {key!r} was used for another observation before; give each a key of its own")
        return True

    def abandon(self, query: Query) -> None:
        """Close a query without a result."""
        self.require_open(query)
        self._closed[query.id] = self.open.pop(query.id)
        self._rows[query.id] = _ABANDONED

    def is_abandoned(self, id: int) -> bool:
        """Whether a query was closed without a result."""
        return 0 <= id < self.next_id and self._rows.item(id) == _ABANDONED

    def require_open(self, query: Query) -> None:
        """Raise QueryError unless the query waits for a result."""
        check_query(query)
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
            raise ValueError("the result of a query is one of all results")
        self._rows = np.concatenate([rows, np.full(max(16, self.next_id), _OPEN, dtype=np.int64)])
        ids, ends = array(data["ids"], np.int64, None), array(data["ends"], np.int64, None)
        parts = np.split(array(data["measured"], np.int64, None), ends[:-1]) if len(ids) else []
        for id, measured in zip(ids.tolist(), parts, strict=True):
            query = self._queries.restored(id, measured.tolist())
            (self.open if rows[id] == _OPEN else self._closed)[id] = query
        if set(np.flatnonzero(rows == _OPEN).tolist()) != self.open.keys():
            raise ValueError("a query is open, answered or abandoned")
        for key, begin, count in data["keys"]:
            if not isinstance(key, str) or not 0 <= begin <= begin + count <= size:
                raise ValueError("an idempotency key belongs to results")
            self._keys[key] = begin, count

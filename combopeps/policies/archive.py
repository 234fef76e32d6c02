"""Queries and their results in arrays: what a file gives back at once, however many there are.

    id     ...  in increasing order
    asked  arm, or the numbers of an action's components;  where those of each query end: asked_end
    y, sem, count  of each reading (sem 0: none of its own; count 0: not read);  where those of each end: said_end

Where every query is for one arm and every result is one plain number, `asked_end`, `said_end`, `sem` and `count` are
not there. A `Query` is made when somebody wants it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from combopeps.restore import Plain, array

if TYPE_CHECKING:
    from combopeps.policies.ledger import Query, Reading, Readings

Numbers = NDArray[np.int64]
Make = Callable[[int, Numbers], "Query"]
"""A query from its id and what was asked for."""


class Asked:
    """Queries by id."""

    def __init__(self, data: Plain, make: Make) -> None:
        self.ids: Numbers = array(data["id"], np.int64, None)
        if len(self.ids) and (self.ids[0] < 0 or (np.diff(self.ids) <= 0).any()):
            raise ValueError("ids are whole numbers, in increasing order")
        self.asked: Numbers = array(data["asked"], np.int64, None)
        self.ends = _ends(data.get("asked_end"), len(self.ids), len(self.asked))
        self._make = make

    def __len__(self) -> int:
        return len(self.ids)

    def place(self, id: int) -> int:
        """Where a query stands; -1 if it is not here."""
        at = int(self.ids.searchsorted(id)) if len(self.ids) and id <= self.ids.item(-1) else len(self.ids)
        return at if at < len(self.ids) and self.ids.item(at) == id else -1

    def query(self, at: int) -> Query:
        """The query that stands there."""
        return self._make(self.ids.item(at), self.asked[_part(self.ends, at)])

    def queries(self) -> dict[int, Query]:
        """All of them."""
        return {self.ids.item(at): self.query(at) for at in range(len(self))}

    def plain(self) -> Plain:
        """As plain data."""
        return _columns(id=self.ids, asked=self.asked, asked_end=self.ends)


def asked_of(queries: Sequence[Query]) -> Plain:
    """Queries in the order of their ids, as plain data."""
    wanted = [query.asked for query in queries]
    single = all(query.arm >= 0 for query in queries)
    return _columns(
        id=np.array([query.id for query in queries], dtype=np.int64),
        asked=np.fromiter(chain.from_iterable(wanted), dtype=np.int64),
        asked_end=None if single else np.cumsum([len(each) for each in wanted], dtype=np.int64),
    )


class Answers(Mapping[int, "tuple[Query, Reading | Readings]"]):
    """Queries with their results, by id: old ones in arrays, from which `make` makes queries; new ones as they came."""

    def __init__(self, make: Make) -> None:
        self._new: dict[int, tuple[Query, Reading | Readings]] = {}
        self._old: _Said | None = None
        self._make = make

    def add(self, query: Query, value: Reading | Readings) -> None:
        """One more."""
        self._new[query.id] = query, value

    def __getitem__(self, id: int) -> tuple[Query, Reading | Readings]:
        found = self._new.get(id)
        if found is None and self._old is not None and (at := self._old.asked.place(id)) >= 0:
            found = self._old.asked.query(at), self._old.value(at)
        if found is None:
            raise KeyError(id)
        return found

    def __iter__(self) -> Iterator[int]:
        return chain(() if self._old is None else map(int, self._old.asked.ids), self._new)

    def __len__(self) -> int:
        return len(self._new) + (0 if self._old is None else len(self._old.asked))

    def plain(self) -> Plain:
        """As plain data; from now on all are kept so."""
        if self._new or self._old is None:
            new = [self._new[id] for id in sorted(self._new)]
            data = asked_of([query for query, _ in new]) | _said_of([value for _, value in new])
            self.restore(data if self._old is None else _merged(self._old.plain(), data))
        assert self._old is not None
        return self._old.plain()

    def restore(self, data: Plain) -> None:
        """Take that back."""
        self._new, self._old = {}, _Said(data, self._make)

    def per_arm(self, arms: int) -> Numbers:
        """How many of the queries in arrays were for each arm; ValueError for others, or for actions."""
        assert self._old is not None
        asked = self._old.asked
        if asked.ends is not None or (len(asked) and not 0 <= asked.asked.min() <= asked.asked.max() < arms):
            raise ValueError("a query is for one of the arms")
        return np.bincount(asked.asked, minlength=arms)

    @property
    def ids(self) -> Numbers:
        """Of the queries in arrays."""
        assert self._old is not None
        return self._old.asked.ids


class _Said:
    """Queries and their results in arrays."""

    def __init__(self, data: Plain, make: Make) -> None:
        from combopeps.policies.ledger import Reading

        self._reading = Reading
        self.asked = Asked(data, make)
        self.y = array(data["y"], np.float64, None)
        self.sem, self.count = (
            array(data[name], dtype, len(self.y)) if name in data else None
            for name, dtype in (("sem", np.float64), ("count", np.int64))
        )
        self.ends = _ends(data.get("said_end"), len(self.asked), len(self.y))
        if not np.isfinite(self.y).all() or (self.ends is None) != (self.asked.ends is None):
            raise ValueError("results are finite, one for each arm that was measured")
        if self.sem is not None and not (np.isfinite(self.sem) & (self.sem >= 0.0)).all():
            raise ValueError("a standard error is positive")
        if self.count is not None and (self.count < (self.ends is None)).any():
            raise ValueError("a result is the mean of some measurements")

    def value(self, at: int) -> Reading | Readings:
        """What was said of the query that stands there."""
        if self.ends is None:
            reading = self._one(at)
            assert reading is not None
            return reading
        part = _part(self.ends, at)
        return tuple(self._one(i) for i in range(part.start, part.stop))

    def _one(self, i: int) -> Reading | None:
        count = 1 if self.count is None else self.count.item(i)
        sem = 0.0 if self.sem is None else self.sem.item(i)
        return self._reading(self.y.item(i), sem or None, count) if count else None

    def plain(self) -> Plain:
        return self.asked.plain() | _columns(y=self.y, sem=self.sem, count=self.count, said_end=self.ends)


def _said_of(values: Sequence[Reading | Readings]) -> Plain:
    each = [value if isinstance(value, tuple) else (value,) for value in values]
    readings = list(chain.from_iterable(each))
    actions = any(isinstance(value, tuple) for value in values)
    plain = not actions and all(reading is not None and reading.is_plain for reading in readings)
    y = np.array([0.0 if one is None else one.y for one in readings], dtype=np.float64)
    if plain:
        return {"y": y}
    return _columns(
        y=y,
        sem=np.array([(one and one.sem) or 0.0 for one in readings], dtype=np.float64),
        count=np.array([0 if one is None else one.count for one in readings], dtype=np.int64),
        said_end=np.cumsum([len(value) for value in each], dtype=np.int64) if actions else None,
    )


def _merged(old: Plain, new: Plain) -> Plain:
    """Two sets of columns as one, in the order of ids."""
    if not len(new["id"]):
        return old
    if not len(old["id"]):
        return new
    merged = Plain()
    for name in old.keys() | new.keys():
        parts = [_filled(name, columns) for columns in (old, new)]
        if name.endswith("_end"):
            parts[1] = parts[1] + (parts[0][-1] if len(parts[0]) else 0)
        merged[name] = np.concatenate(parts)
    return merged if old["id"][-1] < new["id"][0] else _sorted(merged)


def _filled(name: str, columns: Plain) -> NDArray[Any]:
    """A column; the usual numbers where it is not there."""
    if name in columns:
        return np.asarray(columns[name])
    return np.zeros(len(columns["y"])) if name == "sem" else np.ones(len(columns["y"]), dtype=np.int64)


def _sorted(columns: Plain) -> Plain:
    order = np.argsort(columns["id"])
    into = Plain(id=columns["id"][order])
    for end, names in (("asked_end", ("asked",)), ("said_end", ("y", "sem", "count"))):
        at = order
        if end in columns:
            first = np.append(0, columns[end][:-1])
            sizes = (columns[end] - first)[order]
            into[end] = np.cumsum(sizes)
            at = np.repeat(first[order] - (into[end] - sizes), sizes) + np.arange(int(sizes.sum()))
        into |= {name: columns[name][at] for name in names if name in columns}
    return into


def _columns(**columns: NDArray[Any] | None) -> Plain:
    """Those that are there."""
    return {name: column for name, column in columns.items() if column is not None}


def _ends(given: Any, rows: int, size: int) -> Numbers | None:
    if given is None:
        if rows != size:
            raise ValueError("one number for each query is wanted")
        return None
    ends: Numbers = array(given, np.int64, rows)
    if (rows != 0 and (ends[0] < 0 or (np.diff(ends) < 0).any())) or (ends[-1] if rows else 0) != size:
        raise ValueError("where queries end contradicts how many numbers there are")
    return ends


def _part(ends: Numbers | None, at: int) -> slice:
    return slice(at, at + 1) if ends is None else slice(ends.item(at - 1) if at else 0, ends.item(at))

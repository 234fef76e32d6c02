"""The book of open and answered queries: every rule about `tell` in one small file."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from numbers import Real
from operator import attrgetter
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from combopeps.belief import Arms
from combopeps.belief.scales import LARGEST_REWARD
from combopeps.errors import ParameterError, QueryError, RewardError
from combopeps.forms import Brief
from combopeps.oracles.base import Array
from combopeps.policies.archive import Answers, Asked, Make, asked_of
from combopeps.restore import Plain, whole
from combopeps.tables.written import label_text
from combopeps.validation import check_count

_LEAST = 1e-6  # of a standard error, relative to the noise of the arm; its inverse at most
_MOST = 10**12  # measurements that one number is the mean of


@dataclass(frozen=True, repr=False)
class Query(Brief):
    """Please measure this arm once.

    Attributes
    ----------
    id
        Number of the query, from 0.
    arm
        Number of the arm.
    label
        What a person calls it.
    """

    id: int
    arm: int
    label: Any
    _arms: Arms = field(compare=False, repr=False)

    @property
    def x(self) -> NDArray[np.float64]:
        """The arm's row."""
        return self._arms.row(self.arm)

    @property
    def components(self) -> tuple[Any, ...]:
        """What is to be read: for one arm, its label."""
        return (self.label,)

    @property
    def parts(self) -> tuple[int, ...]:
        """The arms that are read."""
        return (self.arm,)

    @property
    def asked(self) -> Sequence[int]:
        """What it is for, in numbers: of the arm, or of the action's components."""
        return (self.arm,)


@dataclass(frozen=True, repr=False)
class ActionQuery(Query):
    """Please measure this action once, and read all components on it.

    Attributes
    ----------
    label
        The action as a person reads it.
    components
        What is to be read, in order.
    arm
        None of the arms: -1.
    parts
        The numbers of the components.
    action
        The row of the action, over the components of the action oracle.
    """

    parts: tuple[int, ...] = ()
    action: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool), compare=False, repr=False)

    @property
    def components(self) -> tuple[Any, ...]:
        return tuple(self._arms.labels[part] for part in self.parts)

    @property
    def asked(self) -> Sequence[int]:
        return np.flatnonzero(self.action).tolist()

    @property
    def x(self) -> NDArray[np.float64]:
        return np.asarray(self._arms.row(np.array(self.parts)).sum(axis=0))


@dataclass(frozen=True, slots=True, repr=False)
class Reading:
    """One result: a number, its own standard error if that is known, and how many measurements it is the mean of."""

    y: float
    sem: float | None = None
    count: int = 1

    @property
    def is_plain(self) -> bool:
        """One measurement with the noise of its arm."""
        return self.sem is None and self.count == 1

    def weight(self, noise: float) -> float:
        """How many ordinary measurements it is worth, of an arm with that noise."""
        return float(self.count) if self.sem is None else (noise / self.sem) ** 2

    def __repr__(self) -> str:
        sem = "" if self.sem is None else f" +- {self.sem:g}"
        return f"{self.y!r}{sem}" + (f" (mean of {self.count})" if self.count > 1 else "")


Readings = tuple[Reading | None, ...]
"""What an action showed of each of its components; None where nothing was read."""
_Said = TypeVar("_Said", Reading, Readings, Reading | Readings)
_Asked = TypeVar("_Asked", bound=Query)


class QueryLog(Protocol):
    """What follows the queries of a ledger."""

    def answer(self, query: Query, said: Reading | Readings, /) -> None: ...
    def abandon(self, query: Query, /) -> None: ...


class Ledger:
    """Which queries of some arms are open, answered or abandoned; `make` makes a query anew, for actions.

    `logs` are told of every query that is answered or abandoned.
    """

    def __init__(self, arms: Arms, make: Make | None = None) -> None:
        self._arms = arms
        self._make = make or self._of_an_arm
        self.open: dict[int, Query] = {}
        self._answers = Answers(self._make)
        self._abandoned: dict[int, Query] = {}
        self.next_id = 0
        self.logs: list[QueryLog] = []

    def issue(self, arm: int, id: int | None = None) -> Query:
        """Open a new query; with a number of its own, later than all others, when a ledger is restored."""
        return self.enter(Query(self.next_id if id is None else id, arm, self._arms.labels[arm], self._arms))

    def enter(self, query: _Asked) -> _Asked:
        """Open a query that has a number, later than all others."""
        self.next_id = query.id + 1
        self.open[query.id] = query
        return query

    def find(self, id: int) -> Query:
        """A query by its number, open or closed."""
        query = self.open.get(id) or self._abandoned.get(id)
        if query is None and (answered := self._answers.get(id)) is not None:
            query = answered[0]
        if query is None:
            raise QueryError(f"query {id!r} was never asked", unknown=True)
        return query

    def accept(self, query: Query, value: Reading | Readings) -> bool:
        """Is this news? False for an identical repetition; raises before anything changes."""
        check_query(query)
        told, known = self._answers.get(query.id, (None, value))
        if told == query:
            if known == value:
                return False
            raise QueryError(
                f"query {query.id} was answered {known!r} before, now {value!r}; use observe for more data"
            )
        if self._abandoned.get(query.id) == query:
            raise QueryError(f"query {query.id} was abandoned; use observe(arm, y) if its result came after all")
        if self.open.get(query.id) != query:
            raise QueryError(f"query {query.id} was not asked here")
        return True

    def news(self, results: Iterable[tuple[Query, _Said]]) -> list[tuple[Query, _Said]]:
        """What is news in a batch, each query once; raises before anything changes."""
        said: dict[int, tuple[Query, _Said]] = {}
        for query, value in results:
            if self.accept(query, value) and said.setdefault(query.id, (query, value))[1] != value:
                raise QueryError(
                    f"query {query.id} stands in the batch twice, with {said[query.id][1]!r} and {value!r}"
                )
        return list(said.values())

    def close(self, query: Query, value: Reading | Readings) -> None:
        """Write the answer down."""
        del self.open[query.id]
        self._answers.add(query, value)
        for log in self.logs:
            log.answer(query, value)

    def abandon(self, query: Query) -> None:
        """Close a query that will never be answered."""
        self.require_open(query)
        self._abandoned[query.id] = self.open.pop(query.id)
        for log in self.logs:
            log.abandon(query)

    def is_abandoned(self, id: int) -> bool:
        """Was it closed without an answer?"""
        return id in self._abandoned

    def plain(self) -> Plain:
        """All of it, as plain data."""
        return {
            "next_id": self.next_id,
            "open": asked_of([self.open[id] for id in sorted(self.open)]),
            "abandoned": asked_of([self._abandoned[id] for id in sorted(self._abandoned)]),
            "answers": self._answers.plain(),
        }

    def restore(self, data: Plain) -> None:
        """Take that back, if every query is one thing only."""
        self.next_id = whole(data["next_id"])
        self._answers.restore(data["answers"])
        self.open, self._abandoned = (Asked(data[name], self._make).queries() for name in ("open", "abandoned"))
        others = np.fromiter([*self.open, *self._abandoned], dtype=np.int64)
        ids = np.concatenate([others, self._answers.ids[-1:]])
        if len(ids) and ids.max() >= self.next_id:
            raise ValueError("a query has a number that was not given yet")
        if self.open.keys() & self._abandoned.keys() or np.isin(others, self._answers.ids).any():
            raise ValueError("a query is open, answered or abandoned")

    @property
    def answers_per_arm(self) -> NDArray[np.int64]:
        """How many queries of each arm were answered, right after `restore`; ValueError for other arms."""
        return self._answers.per_arm(len(self._arms))

    def _of_an_arm(self, id: int, asked: NDArray[np.int64]) -> Query:
        arm = whole(asked.item(), len(self._arms) - 1)
        return Query(id, arm, self._arms.labels[arm], self._arms)

    def require_open(self, query: Query) -> None:
        """Refuse a query that does not wait for a result."""
        check_query(query)
        if self.open.get(query.id) != query:
            raise QueryError(f"query {query.id} is not open: it was closed before, or asked by somebody else")


def check_query(query: Any) -> None:
    """A `Query`, or a typed error."""
    if not isinstance(query, Query):
        raise QueryError(
            f"a Query is wanted, as ask() returned it, got {query!r:.40}; "
            "open_queries lists those that wait, and observe(label, y) takes results that nobody asked for"
        )


def check_results(results: Any) -> list[tuple[Any, ...]]:
    """Pairs (query, y) and triples (query, y, sem) as they are, or a typed error."""
    wanted = "results are (query, y) or (query, y, sem), one after the other"
    if not isinstance(results, Iterable):
        raise ParameterError(f"{wanted}, got {results!r:.40}")
    said = []
    for number, result in enumerate(results):
        if not isinstance(result, (tuple, list)) or len(result) not in (2, 3):
            more = "; use observe(label, y, count=) for means" if isinstance(result, (tuple, list)) else ""
            raise ParameterError(f"{wanted}, got {result!r:.40} as number {number} (counted from 0){more}")
        said.append(tuple(result))
    return said


def check_reading(
    y: Any, noise: float, sem: Any = None, count: Any = 1, known: bool = True, of: Query | Hashable = None
) -> Reading:
    """A result of an arm with that noise (whose size is `known`), or a typed error; `of` is named in that."""
    value = check_reward(y, noise, of)
    if sem is None and type(count) is int and count == 1:
        return Reading(value)
    if type(count) is not int or count != 1:
        check_count("count", count)
        if count > _MOST:
            raise ParameterError(f"count{_named(of)} must be at most {_MOST:g}, got {count!s:.40}")
    if sem is None:
        return Reading(value, None, int(count))
    if not known:
        raise ParameterError(
            "sem says how large the noise is, which Problem(noise_std=None) leaves open: state noise_std, or give the "
            "mean of several measurements with count="
        )
    is_number = isinstance(sem, Real) and not isinstance(sem, bool)
    if not (is_number and _LEAST * noise <= sem <= noise / _LEAST):
        raise RewardError(
            f"sem{_named(of)} must be a positive number, between {_LEAST:g} and {1 / _LEAST:g} times the noise "
            f"{noise:g} of its arm, got {sem!r:.40}; nothing was learnt"
        )
    return Reading(value, float(sem), int(count))


_KIND, _PLAIN = attrgetter("sem", "count"), {(None, 1)}


def all_plain(readings: Iterable[Reading]) -> bool:
    """Is each one measurement with the noise of its arm?"""
    return set(map(_KIND, readings)) <= _PLAIN


def plain_readings(ys: Any, noise: Array, arms: Sequence[int]) -> Readings | None:
    """Results of several arms at once; None where they are not so many floats without a fault: look at each then."""
    if type(ys) is not list or not 0 < len(ys) == len(arms) or set(map(type, ys)) != {float}:
        return None
    if not (np.abs(ys) <= LARGEST_REWARD * noise[list(arms)]).all():
        return None
    return tuple(map(Reading, ys))


def check_reward(y: Any, noise_std: float = inf, of: Query | Hashable = None) -> float:
    """A finite real number, of at most 1e100 standard deviations of the noise, or a typed error."""
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
        raise RewardError(f"a measurement{_named(of)} must be finite, got {value}; nothing was learnt")
    if abs(value) > LARGEST_REWARD * noise_std:
        raise RewardError(
            f"a measurement{_named(of)} must be at most {LARGEST_REWARD:g} times noise_std = {noise_std:g}, "
            f"got {value:g}; nothing was learnt"
        )
    return value


def _named(of: Query | Hashable) -> str:
    """Of which query, or of what."""
    if isinstance(of, Query):
        return f" of query {of.id} ({label_text(of.label):.60})"
    return "" if of is None else f" of {label_text(of)[:60]!r}"

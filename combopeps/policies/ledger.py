"""The book of open and answered queries: every rule about `tell` in one small file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.belief import Arms
from combopeps.belief.scales import LARGEST_REWARD
from combopeps.errors import QueryError, RewardError
from combopeps.forms import Brief


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


class Ledger:
    """Which queries of some arms are open, answered or abandoned."""

    def __init__(self, arms: Arms) -> None:
        self._arms = arms
        self.open: dict[int, Query] = {}
        self._answers: dict[int, tuple[Query, float]] = {}
        self._abandoned: dict[int, Query] = {}
        self.next_id = 0

    def issue(self, arm: int, id: int | None = None) -> Query:
        """Open a new query; with a number of its own, later than all others, when a ledger is restored."""
        query = Query(self.next_id if id is None else id, arm, self._arms.labels[arm], self._arms)
        self.next_id = query.id + 1
        self.open[query.id] = query
        return query

    def find(self, id: int) -> Query:
        """A query by its number, open or closed."""
        query = self.open.get(id) or self._abandoned.get(id)
        if query is None and id in self._answers:
            query = self._answers[id][0]
        if query is None:
            raise QueryError(f"query {id!r} was never asked")
        return query

    def accept(self, query: Query, value: float) -> bool:
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

    def news(self, results: Iterable[tuple[Query, float]]) -> list[tuple[Query, float]]:
        """What is news in a batch, each query once; raises before anything changes."""
        said: dict[int, tuple[Query, float]] = {}
        for query, value in results:
            if self.accept(query, value) and said.setdefault(query.id, (query, value))[1] != value:
                raise QueryError(
                    f"query {query.id} stands in the batch twice, with {said[query.id][1]!r} and {value!r}"
                )
        return list(said.values())

    def close(self, query: Query, value: float) -> None:
        """Write the answer down."""
        del self.open[query.id]
        self._answers[query.id] = query, value

    def abandon(self, query: Query) -> None:
        """Close a query that will never be answered."""
        self.require_open(query)
        self._abandoned[query.id] = self.open.pop(query.id)

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


def check_reward(y: Any, noise_std: float = inf) -> float:
    """A finite real number, of at most 1e100 standard deviations of the noise, or a typed error."""
    try:
        value = float(y)
    except (TypeError, ValueError):
        raise RewardError(f"a measurement must be one number, got {y!r:.40}") from None
    except OverflowError:
        value = inf
    if not isfinite(value):
        raise RewardError(f"a measurement must be finite, got {value}; the query stays open")
    if abs(value) > LARGEST_REWARD * noise_std:
        raise RewardError(
            f"a measurement must be at most {LARGEST_REWARD:g} times noise_std = {noise_std:g}, got {value:g}; "
            "the query stays open"
        )
    return value

"""Queries and their results: what `ask` returns, and every check of what is told.

A query is for one or several arms: a single measurement has one, an action has one for each component that it shows. A
result is a tuple of readings, one for each arm of its query; None where nothing was read.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf, isfinite
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.belief import Arms
from combopeps.belief.scales import LARGEST_REWARD
from combopeps.errors import ComboPepsError, LabelError, ParameterError, QueryError, RewardError
from combopeps.forms import Brief, brief
from combopeps.problem import Problem
from combopeps.tables.book import LabelBook
from combopeps.tables.written import label_text
from combopeps.validation import check_count

_MIN_SEM = 1e-6  # of a standard error, relative to the noise of the arm; its inverse at most
_MAX_COUNT = 10**12  # measurements that one number is the mean of


@dataclass(frozen=True, repr=False)
class Query(Brief):
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
        Components of the action in the action oracle; None where the query is for a single arm.
    """

    id: int
    label: Any
    arms: tuple[int, ...]
    action: tuple[int, ...] | None = field(default=None, repr=False)
    _arms: Arms = field(default=None, compare=False, repr=False)  # type: ignore[assignment]

    @property
    def arm(self) -> int:
        """Number of the arm of a query for a single one."""
        (arm,) = self.arms
        return arm

    @property
    def components(self) -> tuple[Any, ...]:
        """Labels of what is to be read, in the order in which results are told."""
        return tuple(self._arms.labels[arm] for arm in self.arms)

    @property
    def x(self) -> NDArray[np.float64]:
        """Row of the arm; of an action, the sum of the rows of its arms."""
        return np.asarray(self._arms.row(np.array(self.arms)).sum(axis=0))


class QueryFactory:
    """Creates the queries of a problem."""

    def __init__(self, problem: Problem) -> None:
        self._problem, self._arms, self._actions = problem, problem.arms, problem.actions

    def of_choice(self, id: int, choice: Any) -> Query:
        """Create a query for what a policy has chosen: the number of an arm, or the row of an action."""
        if self._actions is None:
            arm = int(choice)
            return Query(id, self._arms.labels[arm], (arm,), None, self._arms)
        label, arms = self._actions.spell_out(choice)
        return Query(id, label, arms, tuple(np.flatnonzero(choice).tolist()), self._arms)

    def restored(self, id: int, measured: Sequence[int]) -> Query:
        """Create a query from numbers: of its arm, or of the components of its action; ValueError for others."""
        limit = len(self._arms) if self._actions is None else self._actions.oracle.dim
        if any(type(number) is not int or not 0 <= number < limit for number in measured):
            raise ValueError("a query is for arms of the problem, or for components of its actions")
        if self._actions is None:
            if len(measured) != 1:
                raise ValueError("a query is for one arm")
            return self.of_choice(id, measured[0])
        if any(one >= other for one, other in pairwise(measured)):
            raise ValueError("the components of an action are in increasing order")
        row = np.zeros(limit, dtype=bool)
        row[list(measured)] = True
        return self.of_choice(id, row)

    def cost(self, query: Query) -> float:
        """Return the cost of measuring a query."""
        if self._actions is None or query.action is None:
            return float(self._problem.cost[query.arm])
        return float(self._actions.cost_of(self.action_row(query))[0])

    def action_row(self, query: Query) -> NDArray[np.bool_]:
        """Return the row of a query's action, (1, components of the action oracle)."""
        assert self._actions is not None
        assert query.action is not None
        row = np.zeros((1, self._actions.oracle.dim), dtype=bool)
        row[0, list(query.action)] = True
        return row


def measured_numbers(query: Query) -> tuple[int, ...]:
    """Return the numbers by which `QueryFactory.restored` recreates a query."""
    return query.arms if query.action is None else query.action


@dataclass(frozen=True, slots=True, repr=False)
class Reading:
    """One number, its own standard error if there is one, and the number of measurements that it is the mean of."""

    y: float
    sem: float | None = None
    count: int = 1

    @property
    def is_plain(self) -> bool:
        """Whether it is one measurement with the noise of its arm."""
        return self.sem is None and self.count == 1

    def weight(self, noise: float) -> float:
        """Return its weight, in ordinary measurements of an arm with that noise."""
        return float(self.count) if self.sem is None else (noise / self.sem) ** 2

    def __repr__(self) -> str:
        sem = "" if self.sem is None else f" +- {self.sem:g}"
        return f"{self.y!r}{sem}" + (f" (mean of {self.count})" if self.count > 1 else "")


Readings = tuple[Reading | None, ...]


class ResultReader:
    """Checks results of queries and observations, and converts them to readings; the only place where this is done."""

    def __init__(self, problem: Problem) -> None:
        self._labels, self._noise = problem.arms.labels, problem.noise.tolist()
        self._noise_known, self._has_actions = problem.noise_std is not None, problem.actions is not None
        self.book = LabelBook(problem.arms.labels, problem.oracle)

    def result(self, query: Query, y: Any, sem: Any = None) -> Readings:
        """Return the readings of a query: of one arm from y and sem, of an action from one entry for each arm."""
        if query.action is None:
            noise = self._noise[query.arm if 0 <= query.arm < len(self._noise) else 0]
            if type(y) is float and sem is None and -LARGEST_REWARD * noise <= y <= LARGEST_REWARD * noise:
                return (Reading(y),)  # the usual case, without a further check
            return (check_reading(y, noise, sem, known=self._noise_known, of=query),)
        if not 0 <= min(query.arms) <= max(query.arms) < len(self._noise):
            raise QueryError(f"query {query.id} was not asked here")
        if sem is not None:
            raise RewardError("an action has several results: give (value, sem) for each of them, not one sem")
        each = self._by_label(query, y) if isinstance(y, Mapping) else _in_order(query, y)
        readings = list[Reading | None]()
        for arm, value in zip(query.arms, each, strict=True):
            try:
                given = value if isinstance(value, tuple) and len(value) == 2 else (value,)
                readings.append(None if value is None else self.observation(arm, *given))
            except ComboPepsError as cause:
                raise type(cause)(f"the result of {brief(self._labels[arm], 60)}: {cause}") from None
        return tuple(readings)

    def observation(self, arm: int, y: Any, sem: Any = None, count: Any = 1) -> Reading:
        """Return the reading of an arm."""
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
                    f"{brief(label, 60)} is not on the action of query {query.id}; its parts are "
                    f"{brief(list(query.components), 200)}"
                )
            if arm in found:
                raise LabelError(f"{brief(label, 60)} is given twice, by two of its names")
            found[arm] = value
        return [found.get(arm) for arm in query.arms]


def _in_order(query: Query, values: Any) -> list[Any]:
    expected = len(query.arms)
    if isinstance(values, (str, bytes, Set)) or not isinstance(values, Iterable):
        raise RewardError(
            f"query {query.id} is an action with {expected} parts: tell as many results, in the order of "
            f"query.components, or a dict of them, got {brief(values, 60)}"
        )
    each = list(values)
    if len(each) != expected:
        raise RewardError(
            f"query {query.id} has {expected} parts, got {len(each)} results; give None for what was not read, or a "
            f"dict; the parts are {brief(list(query.components), 200)}"
        )
    return each


def check_query(query: Any) -> None:
    """Raise QueryError unless this is a `Query`."""
    if not isinstance(query, Query):
        raise QueryError(
            f"a Query is required, as ask() returned it, or its number, got {query!r:.40}; open_queries lists those "
            "that wait, and observe(label, y) takes results without a query"
        )


def check_results(results: Any) -> list[tuple[Any, ...]]:
    """Return pairs (query, y) and triples (query, y, sem) as a list, or raise a typed error."""
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
    """Return a reading of an arm with that noise (whose level is `known`), or raise a typed error that names `of`."""
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
    """Return a finite number of at most 1e100 standard deviations of the noise, or raise a typed error."""
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
    """Name the query, or the label, that an error is about."""
    if isinstance(of, Query):
        return f" of query {of.id} ({label_text(of.label):.60})"
    return "" if of is None else f" of {label_text(of)[:60]!r}"

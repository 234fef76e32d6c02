"""`History`: a table of measurements, matched with the arms of a problem."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from combopeps.errors import ComboPepsError, LabelError
from combopeps.policies.ledger import Query, Reading, Readings
from combopeps.tables import Observed
from combopeps.tables.book import LabelBook
from combopeps.tables.table import Table

_NONE = -1  # no arm


@dataclass(frozen=True)
class History:
    """Results in the order in which they came, and the arms that they are of."""

    arms: list[int]
    readings: list[Reading]

    def add(self, arm: int, reading: Reading) -> None:
        """One more."""
        self.arms.append(arm)
        self.readings.append(reading)


def history_told(results: Iterable[tuple[Query, Reading | Readings]]) -> History:
    """What was told of queries, reading by reading; what an action showed and nobody read is left out."""
    history = History([], [])
    for query, said in results:
        readings = (said,) if isinstance(said, Reading) else said
        history.arms.extend(arm for arm, reading in zip(query.parts, readings, strict=True) if reading is not None)
        history.readings.extend(reading for reading in readings if reading is not None)
    return history


def history_of(table: Table, book: LabelBook, check: Callable[..., Reading]) -> tuple[History, Observed]:
    """All rows are checked; then those of what is in no answer are left out, and counted.

    `check(arm, y, sem, count)` makes a reading, or raises a typed error.
    """
    faults, numbers = table.faults, _numbers(table, book)
    history = History([], [])
    rows = zip(numbers, table.values, table.sems, table.counts, strict=True)
    for row, (arm, y, sem, count) in enumerate(rows):
        if y is not None and arm >= 0:
            try:
                history.add(arm, check(arm, y, sem, count))
            except ComboPepsError as cause:
                faults.add(row, _blamed(check, arm, y, sem), str(cause), type(cause))
    faults.check()
    left_out = Counter(number for number in numbers if number < 0)
    reason = f"{book.reason(next(iter(left_out)))}, so it is not measured" if left_out else ""
    named: dict[Hashable, int] = {book.pruned(number): count for number, count in left_out.items()}
    return history, Observed(len(table), len(history.arms), named, reason)


def _blamed(check: Callable[..., Reading], arm: int, y: float, sem: float | None) -> str:
    """The first cell of a bad row that is wrong together with those before it."""
    for field, cells in (("value", (y,)), ("sem", (y, sem))):
        try:
            check(arm, *cells)
        except ComboPepsError:
            return field
    return "count"


def _numbers(table: Table, book: LabelBook) -> list[int]:
    """The arm of every row, negative for what was pruned; the first label that is unknown is explained."""
    known: dict[Any, set[int]] = {}
    numbers, message = [], ""
    for row, label in enumerate(table.labels):
        found = _meant(label, table, book, known)
        if len(found) != 1:
            message = message or str(book.refusal(label, found))
            table.faults.add(row, "label", message, LabelError)
        numbers.append(min(found, default=_NONE))
    return numbers


def _meant(label: Any, table: Table, book: LabelBook, known: dict[Any, set[int]]) -> set[int]:
    try:
        if label not in known:
            known[label] = book.meant(label, is_text=table.is_text)
        return known[label]
    except TypeError:  # unhashable
        return set()

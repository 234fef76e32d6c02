"""Tables of measurements, matched with the arms of a problem."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

from combopeps.errors import ComboPepsError, LabelError
from combopeps.session.measurement_table import Observed, Table
from combopeps.session.queries import Reading, ResultReader
from combopeps.utils.label_index import LabelBook

_NO_ARM = -1


def read_observations(table: Table, reader: ResultReader) -> tuple[list[int], list[Reading], Observed]:
    """Return arms and readings of a table, in its order, and a summary.

    All rows are checked; a typed error names the first bad one. Rows of components that no answer has are left out, and
    counted in the summary.
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
                faults.add(row, _culprit(reader.observation, arm, y, sem), str(cause), type(cause))
    faults.check()
    left_out = Counter(number for number in numbers if number < 0)
    reason = f"{reader.book.reason(next(iter(left_out)))}, so it is not measured" if left_out else ""
    named: dict[Hashable, int] = {reader.book.pruned(number): count for number, count in left_out.items()}
    return arms, readings, Observed(len(table), len(arms), named, reason)


def _culprit(check: Callable[..., Reading], arm: int, y: float, sem: float | None) -> str:
    """Return the first cell of a bad row that is wrong together with those before it."""
    for column, cells in (("value", (y,)), ("sem", (y, sem))):
        try:
            check(arm, *cells)
        except ComboPepsError:
            return column
    return "count"


def _numbers(table: Table, book: LabelBook) -> list[int]:
    """Return the arm of every row, negative for what was pruned; the first label that is unknown is explained."""
    known: dict[Any, set[int]] = {}
    numbers, message = [], ""
    for row, label in enumerate(table.labels):
        found = _candidates(label, table, book, known)
        if len(found) != 1:
            message = message or str(book.refusal(label, found))
            table.faults.add(row, "label", message, LabelError)
        numbers.append(min(found, default=_NO_ARM))
    return numbers


def _candidates(label: Any, table: Table, book: LabelBook, known: dict[Any, set[int]]) -> set[int]:
    try:
        if label not in known:
            known[label] = book.meant(label, is_text=table.is_text)
        return known[label]
    except TypeError:  # unhashable
        return set()

"""`Table`: measurements as somebody wrote them down, each cell checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, isfinite, isnan
from typing import Any

from combopeps.errors import ComboPepsError, FileFormatError, LabelError, ParameterError, RewardError
from combopeps.tables.cells import is_missing, parse_cell
from combopeps.tables.faults import Faults
from combopeps.tables.written import as_label

MOST = 2**53  # as a count: beyond it, floats skip whole numbers


@dataclass(frozen=True)
class Table:
    """Rows that have not been compared with a problem yet.

    Attributes
    ----------
    labels
        What was measured, row by row; in a file as text, or tuples of text.
    values, sems, counts
        The results, their standard errors (None where there are none), and of how many measurements each is the mean.
    is_text
        Labels are known by how they are written only.
    faults
        What is wrong with the rows, so far. Until `faults.check()` has passed, values may be missing.
    """

    labels: list[Any]
    values: list[float]
    sems: list[float | None]
    counts: list[int]
    is_text: bool
    faults: Faults

    def __len__(self) -> int:
        return len(self.labels)


def checked(
    labels: list[Any], columns: Sequence[list[Any] | None], faults: Faults, decimal: str = ".", *, is_text: bool = False
) -> Table:
    """A table of labels and the columns value, sem and count, with a fault for every cell that makes no sense."""
    values, sems, counts = columns
    value_error, other_error = (FileFormatError, FileFormatError) if is_text else (RewardError, ParameterError)
    return Table(
        labels if is_text else [_label(row, label, faults) for row, label in enumerate(labels)],
        _column(values or [], "value", _value, decimal, faults, value_error),
        [None] * len(labels) if sems is None else _column(sems, "sem", _sem, decimal, faults, other_error),
        [1] * len(labels) if counts is None else _column(counts, "count", _count, decimal, faults, other_error),
        is_text,
        faults,
    )


def _column(
    cells: list[Any],
    field: str,
    read: Callable[[Any, str], Any],
    decimal: str,
    faults: Faults,
    error: type[ComboPepsError],
) -> list[Any]:
    entries = []
    for row, cell in enumerate(cells):
        try:
            entries.append(read(cell, decimal))
        except ValueError as cause:
            entries.append(None)
            faults.add(row, field, str(cause), error)
    return entries


def _label(row: int, label: Any, faults: Faults) -> Any:
    """Lists stand for tuples; what stands for nothing is no label."""
    try:
        hash(label)
    except TypeError:
        label = as_label(label)
    if any(map(_is_nothing, label if isinstance(label, tuple) else (label,))):
        faults.add(row, "label", f"got {label!r:.40}; say what was measured", LabelError)
    return label


def _value(cell: Any, decimal: str) -> float:
    if isinstance(cell, str):
        return parse_cell(cell, decimal)
    value = _number(cell)
    if value is None:
        raise ValueError(f"must be a finite number, and there is none: got {cell!r:.40}; leave such rows out")
    if not isfinite(value):
        raise ValueError(f"must be a finite number, got {value}; leave such rows out")
    return value


def _sem(cell: Any, decimal: str) -> float | None:
    value = _optional(cell, decimal)
    if value is None or (isfinite(value) and value > 0):
        return value
    raise ValueError(f"a standard error is a finite number above 0, got {value}; leave it empty where it is unknown")


def _count(cell: Any, _: str) -> int:
    value = _optional(cell, ".")
    if value is None:
        return 1
    if not (1 <= value < MOST and value == int(value)):
        raise ValueError(f"a count is a whole number, 1 or more, got {value:g}; leave it empty for single measurements")
    return int(value)


def _optional(cell: Any, decimal: str) -> float | None:
    """A number, or None where there is none."""
    if isinstance(cell, bool):
        raise ValueError(f"must be a finite number, got {cell!r}")
    if not isinstance(cell, str):
        return _number(cell)
    return None if is_missing(cell) else parse_cell(cell, decimal)


def _number(cell: Any) -> float | None:
    if _is_nothing(cell):
        return None
    try:
        return float(cell)
    except OverflowError:
        return inf
    except (TypeError, ValueError):
        raise ValueError(f"must be a finite number, got {cell!r:.40}") from None


def _is_nothing(cell: Any) -> bool:
    """None, NaN, and the NA of pandas."""
    return cell is None or (isinstance(cell, float) and isnan(cell)) or type(cell).__name__ in ("NAType", "NaTType")

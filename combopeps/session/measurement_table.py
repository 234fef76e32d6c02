"""`Table`: measurements as somebody wrote them down, each cell checked.

`read_rows`: measurements from a file, a data frame or a list.

`Faults`: what is wrong with the rows of a table, gathered from all of them before the first is taken.

`Observed`: what became of the rows of a table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite, isnan
from pathlib import Path
from typing import Any

from combopeps.errors import ComboPepsError, FileFormatError, LabelError, ParameterError, RewardError
from combopeps.utils.csv_files import (
    ColumnError,
    Columns,
    CsvFile,
    NotationError,
    decimal_mark,
    is_digits,
    is_missing,
    measurement_columns,
    parse_cell,
    part_columns,
    read_csv,
    result_columns,
)
from combopeps.utils.label_format import as_label, label_text
from combopeps.utils.label_index import LabelBook

_NAMED_ROWS = 5  # further rows that a message names


class Faults:
    """Where the rows of a table come from, and what is wrong with them.

    Parameters
    ----------
    rows
        How many there are.
    number
        From the index of a row to the number by which people find it.
    file
        The file; None for rows in memory.

    Examples
    --------
    >>> faults = Faults(9, lambda row: row + 2, Path("history.csv"))
    >>> faults.add(4, "value", "there is no number, got 'NA'; leave such rows out")
    >>> faults.add(6, "value", "there is no number, got ''; leave such rows out")
    >>> faults.check()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    combopeps.errors.FileFormatError: history.csv, line 6, value: there is no number, got 'NA'; leave such rows...
    """

    def __init__(self, rows: int, number: Callable[[int], int], file: Path | None = None) -> None:
        self.rows, self.number, self.file = rows, number, file
        self._found: dict[int, tuple[str, str, type[ComboPepsError]]] = {}

    def add(self, row: int, field: str, message: str, error: type[ComboPepsError] = FileFormatError) -> None:
        """Note what is wrong with a row; the first fault of a row counts."""
        self._found.setdefault(row, (field, message, error))

    def check(self) -> None:
        """Raise what is wrong with the first bad row, and say how many there are."""
        if not self._found:
            return
        first, *others = sorted(self._found)
        field, message, error = self._found[first]
        line, place = self.number(first), "line" if self.file else "row"
        where = f"{self.file}, line {line}" if self.file else f"row {line} (counted from 0)"
        next_ones = ", ".join(str(self.number(row)) for row in others[:_NAMED_ROWS])
        many = f"the next in {place} {next_ones}{', ...' if len(others) > _NAMED_ROWS else ''}; " if others else ""
        are = "rows are" if others else "rows is"
        count = f"({len(self._found)} of {self.rows} {are} wrong, {many}nothing was taken)"
        text = f"{where}, {field}: {message} {count}"
        if error is FileFormatError:
            raise FileFormatError(text, str(self.file or ""), line, field)
        raise error(text)


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


_WANTED = (
    "give a data frame, the path of a CSV file, or a list of rows: (label, value[, sem[, count]]), or dicts with "
    "these keys"
)


def read_rows(rows: Any) -> Table:
    """Measurements from whatever people have at hand; what is wrong with single rows is noted in `faults`.

    Examples
    --------
    >>> table = read_rows([("a", 1.5), ("b", 2.5)])
    >>> table.labels, table.values
    (['a', 'b'], [1.5, 2.5])
    """
    if isinstance(rows, (str, os.PathLike)):
        return _of_file(read_csv(rows), measurement_columns)
    if isinstance(rows, (bytes, Mapping)):
        raise ParameterError(f"a {type(rows).__name__} is no table of measurements; {_WANTED}")
    if hasattr(rows, "columns") and hasattr(rows, "__getitem__"):
        return _of_frame(rows)
    if not isinstance(rows, Iterable):
        raise ParameterError(f"a {type(rows).__name__} is no table of measurements; {_WANTED}")
    return _of_list(list(rows))


def read_results(path: str | os.PathLike[str]) -> list[tuple[int, float, float | None]]:
    """From a CSV file: numbers of queries, their results, and the standard errors of these where there are some."""
    table = _of_file(read_csv(path), result_columns)
    _check_ids(table, table.labels)
    table.faults.check()
    return [(int(text), y, sem) for text, y, sem in zip(table.labels, table.values, table.sems, strict=True)]


def read_parts_told(path: str | os.PathLike[str], book: LabelBook) -> list[tuple[int, dict[Hashable, Any]]]:
    """From a CSV file with a row for every part of an action that was read: numbers of queries, and what they showed.

    What they showed is {label: value}, or {label: (value, sem)}; labels are found in the book.
    """
    table = _of_file(read_csv(path), part_columns)
    _check_ids(table, [label[0] for label in table.labels])
    told: dict[str, dict[Hashable, Any]] = {}
    refusal = ""  # the search for similar labels is for the first unknown one only
    for row, ((id, *words), y, sem) in enumerate(zip(table.labels, table.values, table.sems, strict=True)):
        parts = [word.strip() for word in words]
        try:
            if refusal and len(book.meant_by_words(parts)) != 1:
                raise LabelError(refusal)
            label = book.by_words(parts)
        except LabelError as cause:
            refusal = refusal or str(cause)
            table.faults.add(row, "label", str(cause), LabelError)
            continue
        shown = told.setdefault(id.strip(), {})
        if label in shown:
            table.faults.add(row, "label", f"{label!r:.60} of query {id.strip():.20} stands there twice", LabelError)
        shown[label] = y if sem is None else (y, sem)
    table.faults.check()
    return [(int(id), shown) for id, shown in told.items()]


def _check_ids(table: Table, ids: Sequence[str]) -> None:
    for row, text in enumerate(ids):
        if not is_digits(text.strip(), most=15):
            table.faults.add(row, "id", f"must be the number of a query, as `ask` gave it, got {text.strip()!r:.40}")


def _of_file(file: CsvFile, columns_of: Callable[[Sequence[str]], Columns]) -> Table:
    try:
        at = columns_of(file.header)
    except ColumnError as cause:
        file.refuse(str(cause), file.first, cause.column)
    lines, rows = [line for line, _ in file.rows], [row for _, row in file.rows]
    numeric = [column for column in (at.value, at.sem) if column is not None]
    try:
        decimal = decimal_mark([row[column] for row in rows for column in numeric], file.delimiter)
    except NotationError as cause:
        row, column = divmod(cause.row, len(numeric))
        file.refuse(str(cause), lines[row], file.header[numeric[column]])
    faults = Faults(len(rows), lines.__getitem__, file.path)
    labels = [_label_of(cells, at) for cells in rows]
    for row, label in enumerate(labels):
        if not all(part.strip() for part in (label if isinstance(label, tuple) else (label,))):
            faults.add(row, file.header[at.label[0]], "is empty; say what was measured")
    columns = [None if i is None else [cells[i] for cells in rows] for i in (at.value, at.sem, at.count)]
    return checked(labels, columns, faults, decimal, is_text=True)


def _of_frame(frame: Any) -> Table:
    """Of pandas, or of anything like it: columns by name, each with a list of its entries."""
    index = getattr(frame, "index", None)
    own = [name for name in getattr(index, "names", ()) if name is not None and name not in frame.columns]
    if own and hasattr(frame, "reset_index"):  # groupby(...).agg(...) leaves the labels there
        frame = frame.reset_index(own)
    names = list(frame.columns)
    try:
        at = measurement_columns(names)
    except ColumnError as cause:
        raise ParameterError(f"{cause.column}: {cause}") from None
    parts = [_entries(frame[names[i]]) for i in at.label]
    labels = list(zip(*parts, strict=True)) if len(parts) > 1 else parts[0]
    columns = [None if i is None else _entries(frame[names[i]]) for i in (at.value, at.sem, at.count)]
    return checked(labels, columns, Faults(len(labels), _counted))


def _entries(column: Any) -> list[Any]:
    listed = getattr(column, "tolist", None) or getattr(column, "to_list", None)
    return list(column if listed is None else listed())


def _of_list(rows: list[Any]) -> Table:
    faults = Faults(len(rows), _counted)
    known: dict[tuple[Any, ...], Columns] = {}
    entries = [_entry(row, number, faults, known) for number, row in enumerate(rows)]
    labels, *columns = ([entry[i] for entry in entries] for i in range(4))
    return checked(labels, columns, faults)


def _entry(row: Any, number: int, faults: Faults, known: dict[tuple[Any, ...], Columns]) -> tuple[Any, ...]:
    """Label, value, sem and count of one row."""
    if hasattr(row, "_asdict"):  # as a data frame's itertuples() gives them
        row = row._asdict()
    if isinstance(row, Mapping):
        names, cells = tuple(row), list(row.values())
        if names not in known:
            try:
                known[names] = measurement_columns(names)
            except ColumnError as cause:
                faults.add(number, cause.column, str(cause), ParameterError)
                return "", 0.0, None, None
        at = known[names]
        return _label_of(cells, at), *(None if i is None else cells[i] for i in (at.value, at.sem, at.count))
    if hasattr(row, "tolist"):
        row = row.tolist()
    if not isinstance(row, (tuple, list)) or not 2 <= len(row) <= 4:
        faults.add(number, "row", f"got {row!r:.60}; {_WANTED}", ParameterError)
        return "", 0.0, None, None
    return (*row, None, None)[:4]


def _label_of(cells: Sequence[Any], at: Columns) -> Any:
    return cells[at.label[0]] if len(at.label) == 1 else tuple([cells[i] for i in at.label])


def _counted(row: int) -> int:
    return row


_NAMED_LABELS = 3


@dataclass(frozen=True, repr=False)
class Observed:
    """What became of a table of measurements: all of it, as nothing is ever taken by half.

    Attributes
    ----------
    rows, taken
        How many rows there were, and how many of them are measurements now.
    left_out
        Labels that belong to the problem but are in no answer, such as edges on no route, and how many rows each of
        them had. Nothing can be learnt from these.
    reason
        Why the first of them is not measured, in words; empty when all rows were taken.

    Examples
    --------
    >>> Observed(7, 5, {("a", "b"): 2}, "edge ('a', 'b') lies on no route from 's' to 't'")
    5 of 7 rows taken; 2 left out: edge ('a', 'b') lies on no route from 's' to 't'
    """

    rows: int
    taken: int
    left_out: dict[Hashable, int] = field(default_factory=dict)
    reason: str = ""

    def __repr__(self) -> str:
        if not self.rows:
            return "no rows"
        if not self.left_out:
            return f"all {self.rows} rows taken" if self.rows != 1 else "1 row taken"
        others: list[Any] = list(self.left_out)[1:]
        more = ", ".join(map(label_text, others[:_NAMED_LABELS])) + (", ..." if len(others) > _NAMED_LABELS else "")
        also = f"; nor do {len(others)} others: {more}" if len(others) > 1 else f"; nor does {more}" if others else ""
        said = f"{self.taken} of {self.rows} rows taken; {self.rows - self.taken} left out: {self.reason}"
        return said + also

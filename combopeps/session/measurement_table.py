"""Read tables of measurements from CSV files, data frames and lists, and check their cells.

The faults of all rows are collected before an error is raised, and a table is recorded as a whole or not at all.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite, isnan
from pathlib import Path
from typing import Any

from combopeps.errors import ComboPepsError, FileFormatError, LabelError, ParameterError, RewardError
from combopeps.session.queries import Reading, ResultReader
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
from combopeps.utils.formatting import ShortRepr, shorten
from combopeps.utils.label_format import as_label, label_text
from combopeps.utils.label_index import LabelIndex

MAX_COUNT = 2**53  # of measurements in a row: beyond it, floats skip integers
_MAX_NAMED_ROWS = 5  # further faulty rows that a message names
_MAX_NAMED_LABELS = 3  # labels that the summary of a table names
_MAX_OBSERVED = 300  # characters of the repr of an `TableSummary`
_MAX_ID_DIGITS = 15
_FORMATS = (
    "give a data frame, the path of a CSV file, or a list of rows: (label, value[, sem[, count]]), or dicts with "
    "these keys"
)


class Faults:
    """Faults of the rows of a table.

    Parameters
    ----------
    rows
        Number of rows.
    file, lines
        Path of the file, and the lines of its rows; without them, messages name the index of a row in memory.

    Examples
    --------
    >>> faults = Faults(9, Path("history.csv"), range(2, 11))
    >>> faults.add(4, "value", "there is no number, got 'NA'; leave such rows out")
    >>> faults.add(6, "value", "there is no number, got ''; leave such rows out")
    >>> faults.check()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    combopeps.errors.FileFormatError: history.csv, line 6, value: there is no number, got 'NA'; leave such rows...
    """

    def __init__(self, rows: int, file: Path | None = None, lines: Sequence[int] | None = None) -> None:
        self.rows, self.file, self._numbers = rows, file, range(rows) if lines is None else lines
        self._found: dict[int, tuple[str, str, type[ComboPepsError]]] = {}

    def add(self, row: int, field: str, message: str, error: type[ComboPepsError] = FileFormatError) -> None:
        """Add a fault of a row; only the first fault of each row is kept."""
        self._found.setdefault(row, (field, message, error))

    def check(self) -> None:
        """Raise the fault of the first faulty row, with the number of the others, if there are faults."""
        if not self._found:
            return
        first, *others = sorted(self._found)
        field, message, error = self._found[first]
        line, unit = self._numbers[first], "line" if self.file else "row"
        where = f"{self.file}, line {line}" if self.file else f"row {line} (counted from 0)"
        next_rows = ", ".join(str(self._numbers[row]) for row in others[:_MAX_NAMED_ROWS])
        ellipsis = ", ..." if len(others) > _MAX_NAMED_ROWS else ""
        next_faults = f"the next in {unit} {next_rows}{ellipsis}; " if others else ""
        rows_are = "rows are" if others else "rows is"
        count = f"({len(self._found)} of {self.rows} {rows_are} wrong, {next_faults}nothing was taken)"
        text = f"{where}, {field}: {message} {count}"
        if error is FileFormatError:
            raise FileFormatError(text, str(self.file or ""), line, field)
        raise error(text)


Row = tuple[Any, float, float | None, int]  # label, value, sem, count


@dataclass(frozen=True)
class Table:
    """Rows of measurements, and their faults.

    Attributes
    ----------
    rows
        Label, value, its standard error (None where unknown), and the number of measurements that it is the mean of.
        Labels have not been matched with arms yet. Numbers of faulty cells are None until `faults.check()` has raised.
    is_text
        Whether labels are text, or tuples of text, to be compared with the text of labels.
    faults
        Faults found so far.
    """

    rows: list[Row]
    is_text: bool
    faults: Faults


def _parse_cells(
    cells: Iterable[tuple[Any, ...]], faults: Faults, decimal: str = ".", *, is_text: bool = False
) -> Table:
    """Return a table from label, value, sem and count of each row; invalid cells are added to the faults."""
    rows = list[Any]()
    for number, (label, *given) in enumerate(cells):
        parsed = list[Any]()
        for (name, (parse, error)), cell in zip(_PARSERS.items(), given, strict=True):
            try:
                parsed.append(parse(cell, decimal))
            except ValueError as cause:
                parsed.append(None)
                faults.add(number, name, str(cause), FileFormatError if is_text else error)
        rows.append((label if is_text else _checked_label(number, label, faults), *parsed))
    return Table(rows, is_text, faults)


def _checked_label(row: int, label: Any, faults: Faults) -> Any:
    """Return a hashable label: lists become tuples. Missing labels are faults."""
    try:
        hash(label)
    except TypeError:
        label = as_label(label)
    if any(map(_is_missing_object, label if isinstance(label, tuple) else (label,))):
        faults.add(row, "label", f"got {label!r:.40}; say what was measured", LabelError)
    return label


def _parse_value(cell: Any, decimal: str) -> float:
    value = parse_cell(cell, decimal) if isinstance(cell, str) else _parse_number(cell, decimal)
    if value is None:
        raise ValueError(f"must be a finite number, and there is none: got {cell!r:.40}; leave such rows out")
    if not isfinite(value):
        raise ValueError(f"must be a finite number, got {value}; leave such rows out")
    return value


def _parse_sem(cell: Any, decimal: str) -> float | None:
    value = _parse_number(cell, decimal)
    if value is None or (isfinite(value) and value > 0 and not isinstance(cell, bool)):
        return value
    raise ValueError(f"a standard error is a finite number above 0, got {cell!r:.40}; leave it empty where unknown")


def _parse_count(cell: Any, decimal: str) -> int:
    value = _parse_number(cell, decimal)
    if value is None:
        return 1
    if not (1 <= value < MAX_COUNT and value == int(value)) or isinstance(cell, bool):
        raise ValueError(f"a count is a whole number, 1 or more, got {cell!r:.40}; leave it empty for single results")
    return int(value)


def _parse_number(cell: Any, decimal: str) -> float | None:
    """Return a cell as a float, infinite if it is too large; None for a missing value."""
    if isinstance(cell, str):
        return None if is_missing(cell) else parse_cell(cell, decimal)
    try:
        return None if _is_missing_object(cell) else float(cell)
    except OverflowError:
        return inf
    except (TypeError, ValueError):
        raise ValueError(f"must be a finite number, got {cell!r:.40}") from None


_PARSERS: dict[str, tuple[Callable[[Any, str], Any], type[ComboPepsError]]] = {
    "value": (_parse_value, RewardError), "sem": (_parse_sem, ParameterError), "count": (_parse_count, ParameterError),
}  # fmt: skip
"""By column: the parser of its cells, and the error for rows in memory."""


def _is_missing_object(cell: Any) -> bool:
    """Return whether a cell is None, NaN, or the NA or NaT of pandas (recognised by name: pandas is optional)."""
    return cell is None or (isinstance(cell, float) and isnan(cell)) or type(cell).__name__ in ("NAType", "NaTType")


def read_rows(rows: Any) -> Table:
    """Read measurements; faults of single rows are collected in `Table.faults`.

    Parameters
    ----------
    rows
        Path of a CSV file, a data frame, or a list of rows: (label, value[, sem[, count]]), or dicts with these keys.

    Examples
    --------
    >>> read_rows([("a", 1.5), ("b", 2.5)]).rows
    [('a', 1.5, None, 1), ('b', 2.5, None, 1)]
    """
    if isinstance(rows, (str, os.PathLike)):
        return _from_file(read_csv(rows), measurement_columns)
    if isinstance(rows, (bytes, Mapping)):
        raise ParameterError(f"a {type(rows).__name__} is no table of measurements; {_FORMATS}")
    if hasattr(rows, "columns") and hasattr(rows, "__getitem__"):
        return _from_frame(rows)
    if not isinstance(rows, Iterable):
        raise ParameterError(f"a {type(rows).__name__} is no table of measurements; {_FORMATS}")
    return _from_list(list(rows))


def read_observations(rows: Any, reader: ResultReader) -> tuple[list[int], list[Reading], TableSummary]:
    """Return arms and readings of the rows that `read_rows` reads, in their order, and a summary.

    All rows are validated; the error names the first invalid one. Rows of components that no answer contains are
    skipped, and counted in the summary.
    """
    table = read_rows(rows)
    faults, numbers = table.faults, _find_arms(table, reader.book)
    arms, readings = list[int](), list[Reading]()
    for number, (arm, (_, *cells)) in enumerate(zip(numbers, table.rows, strict=True)):
        if cells[0] is not None and arm >= 0:
            try:
                readings.append(reader.observation(arm, *cells))
                arms.append(arm)
            except ComboPepsError as cause:
                first = str(cause).split()[0]  # the message begins with the parameter, if it is not the value
                faults.add(number, first if first in _PARSERS else "value", str(cause), type(cause))
    faults.check()
    left_out = Counter(number for number in numbers if number < 0)
    reason = f"{reader.book.reason(next(iter(left_out)))}, so it is not measured" if left_out else ""
    named: dict[Hashable, int] = {reader.book.pruned(number): count for number, count in left_out.items()}
    return arms, readings, TableSummary(len(table.rows), len(arms), named, reason)


def _find_arms(table: Table, book: LabelIndex) -> list[int]:
    """Return the arm of every row, negative for pruned components; add unknown labels to the faults of the table."""
    known: dict[Any, set[int]] = {}
    numbers, message = [], ""
    for row, (label, *_) in enumerate(table.rows):
        try:
            if label not in known:
                known[label] = book.meant(label, is_text=table.is_text)
            found = known[label]
        except TypeError:  # unhashable
            found = set()
        if len(found) != 1:
            message = message or str(book.refusal(label, found))
            table.faults.add(row, "label", message, LabelError)
        numbers.append(min(found, default=-1))
    return numbers


def read_results(path: str | os.PathLike[str]) -> list[tuple[int, float, float | None]]:
    """Read numbers of queries, their results, and standard errors (None where unknown) from a CSV file."""
    table = _from_file(read_csv(path), result_columns)
    _check_ids(table, [text for text, *_ in table.rows])
    return [(int(text), y, sem) for text, y, sem, _ in table.rows]


def read_action_results(path: str | os.PathLike[str], book: LabelIndex) -> list[tuple[int, dict[Hashable, Any]]]:
    """Read results of actions from a CSV file with one row for every part that was read.

    Parameters
    ----------
    path
        The file, with the columns id, label (or source and target, left and right), value, and optionally sem.
    book
        Index of the labels of the problem.

    Returns
    -------
    list of tuple
        Numbers of queries, and the results of their parts: {label: value}, or {label: (value, sem)}.
    """
    table = _from_file(read_csv(path), part_columns)
    _check_ids(table, [label[0] for label, *_ in table.rows])
    results: dict[str, dict[Hashable, Any]] = {}
    unknown = ""  # only the first unknown label is explained: the search for similar ones is expensive
    for row, ((id, *words), y, sem, _) in enumerate(table.rows):
        words = [word.strip() for word in words]
        try:
            if unknown and len(book.candidates_by_words(words)) != 1:
                raise LabelError(unknown)
            label = book.by_words(words)
        except LabelError as cause:
            unknown = unknown or str(cause)
            table.faults.add(row, "label", str(cause), LabelError)
            continue
        parts = results.setdefault(id.strip(), {})
        if label in parts:
            table.faults.add(row, "label", f"{label!r:.60} of query {id.strip():.20} stands there twice", LabelError)
        parts[label] = y if sem is None else (y, sem)
    table.faults.check()
    return [(int(id), parts) for id, parts in results.items()]


def _check_ids(table: Table, ids: Sequence[str]) -> None:
    for row, text in enumerate(ids):
        if not is_digits(text.strip(), most=_MAX_ID_DIGITS):
            table.faults.add(row, "id", f"must be the number of a query, as `ask` gave it, got {text.strip()!r:.40}")
    table.faults.check()


def _from_file(file: CsvFile, columns_of: Callable[[Sequence[str]], Columns]) -> Table:
    try:
        at = columns_of(file.header)
    except ColumnError as cause:
        file.refuse(str(cause), file.first, cause.column)
    lines, rows = [line for line, _ in file.rows], [row for _, row in file.rows]
    numeric = [column for column in (at.value, at.sem) if column is not None]
    try:
        decimal = decimal_mark([row[column] for row in rows for column in numeric], file.delimiter)
    except NotationError as cause:
        number, column = divmod(cause.row, len(numeric))
        file.refuse(str(cause), lines[number], file.header[numeric[column]])
    faults = Faults(len(rows), file.path, lines)
    for number, row in enumerate(rows):
        if not all(row[i].strip() for i in at.label):
            faults.add(number, file.header[at.label[0]], "is empty; say what was measured")
    return _parse_cells((_cells_of(row, at) for row in rows), faults, decimal, is_text=True)


def _from_frame(frame: Any) -> Table:
    """Read a pandas DataFrame, or anything with `columns` and columns by name that can be listed."""
    index = getattr(frame, "index", None)
    levels = [name for name in getattr(index, "names", ()) if name is not None and name not in frame.columns]
    if levels and hasattr(frame, "reset_index"):  # groupby(...).agg(...) moves the labels to the index
        frame = frame.reset_index(levels)
    names = list(frame.columns)
    try:
        at = measurement_columns(names)
    except ColumnError as cause:
        raise ParameterError(f"{cause.column}: {cause}") from None
    used = [i for i in (*at.label, at.value, at.sem, at.count) if i is not None]
    rows = list(zip(*(_entries(frame[names[i]]) for i in used), strict=True))
    at = measurement_columns([names[i] for i in used])
    return _parse_cells((_cells_of(row, at) for row in rows), Faults(len(rows)))


def _entries(column: Any) -> list[Any]:
    listed = getattr(column, "tolist", None) or getattr(column, "to_list", None)
    return list(column if listed is None else listed())


def _from_list(rows: list[Any]) -> Table:
    faults = Faults(len(rows))
    columns_by_names: dict[tuple[Any, ...], Columns] = {}
    entries = (_entry(row, number, faults, columns_by_names) for number, row in enumerate(rows))
    return _parse_cells(entries, faults)


def _entry(row: Any, number: int, faults: Faults, columns_by_names: dict[tuple[Any, ...], Columns]) -> tuple[Any, ...]:
    """Return label, value, sem and count of a row; `columns_by_names` caches the columns of dicts with equal keys."""
    if hasattr(row, "_asdict"):  # a row of `DataFrame.itertuples()`
        row = row._asdict()
    if isinstance(row, Mapping):
        names, cells = tuple(row), list(row.values())
        if names not in columns_by_names:
            try:
                columns_by_names[names] = measurement_columns(names)
            except ColumnError as cause:
                faults.add(number, cause.column, str(cause), ParameterError)
                return "", 0.0, None, None
        return _cells_of(cells, columns_by_names[names])
    if hasattr(row, "tolist"):
        row = row.tolist()
    if not isinstance(row, (tuple, list)) or not 2 <= len(row) <= 4:
        faults.add(number, "row", f"got {row!r:.60}; {_FORMATS}", ParameterError)
        return "", 0.0, None, None
    return (*row, None, None)[:4]


def _cells_of(row: Sequence[Any], at: Columns) -> tuple[Any, ...]:
    """Return label, value, sem and count of a row; None where there is no column."""
    label = row[at.label[0]] if len(at.label) == 1 else tuple([row[i] for i in at.label])
    return label, *[None if i is None else row[i] for i in (at.value, at.sem, at.count)]


@dataclass(frozen=True, repr=False)
class TableSummary(ShortRepr):
    """Summary of a recorded table of measurements.

    Attributes
    ----------
    rows, taken
        Number of rows, and how many of them were recorded.
    left_out
        Labels of the problem that are in no answer, such as edges on no route, and their numbers of rows. Such
        measurements carry no information on the best answer.
    reason
        Why the first of these labels is not measured; empty if all rows were recorded.

    Examples
    --------
    >>> TableSummary(7, 5, {("a", "b"): 2}, "edge ('a', 'b') lies on no route from 's' to 't'")
    5 of 7 rows taken; 2 left out: edge ('a', 'b') lies on no route from 's' to 't'
    """

    rows: int
    taken: int
    left_out: dict[Hashable, int] = field(default_factory=dict)
    reason: str = ""

    def __repr__(self) -> str:
        return shorten(str(self), _MAX_OBSERVED)

    def __str__(self) -> str:
        if not self.rows:
            return "no rows"
        if not self.left_out:
            return f"all {self.rows} rows taken" if self.rows != 1 else "1 row taken"
        others: list[Any] = list(self.left_out)[1:]
        more = ", ".join(map(label_text, others[:_MAX_NAMED_LABELS]))
        more += ", ..." if len(others) > _MAX_NAMED_LABELS else ""
        also = f"; nor do {len(others)} others: {more}" if len(others) > 1 else f"; nor does {more}" if others else ""
        return f"{self.taken} of {self.rows} rows taken; {self.rows - self.taken} left out: {self.reason}{also}"

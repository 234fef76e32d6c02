"""`read_rows`: measurements from a file, a data frame or a list."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from combopeps.errors import LabelError, ParameterError
from combopeps.tables.book import LabelBook
from combopeps.tables.cells import NotationError, decimal_mark, is_digits
from combopeps.tables.columns import ColumnError, Columns, measurement_columns, part_columns, result_columns
from combopeps.tables.csv_files import CsvFile, read_csv
from combopeps.tables.faults import Faults
from combopeps.tables.table import Table, checked

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

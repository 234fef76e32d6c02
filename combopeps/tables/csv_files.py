"""`read_csv`: the one reader of CSV files, as pandas, R and spreadsheets write them.

What separates fields is read off the header, or off a line `sep=;` above it, and never guessed from the rest.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from combopeps import files
from combopeps.files import refuse
from combopeps.tables.cells import NotationError, decimal_mark, parse_cell
from combopeps.validation import as_path

Rows = list[tuple[int, list[str]]]
_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs"}
_SEPARATOR = re.compile(r'"?sep=([,;\t])"?(\r\n|\r|\n)', re.IGNORECASE)
_FIRST = re.compile(r'[\r\n]*((?:[^"\r\n]|"(?:[^"]|"")*")*)')  # the first line that is not empty, with what it quotes
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_INDEX = re.compile(r"|unnamed: \d+(_level_\d+)?(\.\d+)?", re.IGNORECASE)  # as pandas calls a column without a name
_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}  # what Excel's "Unicode Text" is
_CSV_UTF8 = 'save it as "CSV UTF-8"'
_KINDS = {
    b"PK\x03\x04": f"this is an Excel workbook, not CSV; {_CSV_UTF8}, or hand over the data frame of pandas.read_excel",
    b"\xd0\xcf\x11\xe0": f"this is an old Excel workbook, not CSV; {_CSV_UTF8}",
    b"\x1f\x8b": "this is compressed; unpack it first",
    b"PAR1": "this is Parquet, not CSV; hand over the data frame of pandas.read_parquet",
}


@dataclass(frozen=True)
class CsvFile:
    """The header of a file, and its other rows: each with the number of its line, and as many cells as the header."""

    path: Path
    header: list[str]
    rows: Rows
    delimiter: str
    first: int = 1
    """The line of the header."""

    def refuse(self, message: str, line: int | None = None, field: str = "") -> NoReturn:
        """Raise a `FileFormatError` that begins with file, line and field."""
        refuse(self.path, message, line, field)

    def numbers(self, cells: Sequence[tuple[int, str, str]]) -> list[float]:
        """The numbers in some cells, each with its line and column; refused by these."""
        try:
            decimal = decimal_mark([text for _, _, text in cells], self.delimiter)
        except NotationError as cause:
            line, field, _ = cells[cause.row]
            self.refuse(str(cause), line, field)
        values = []
        for line, field, text in cells:
            try:
                values.append(parse_cell(text, decimal))
            except ValueError as cause:
                self.refuse(str(cause), line, field)
        return values


def is_index(name: str) -> bool:
    """Is this the name of a column that has none, such as the row numbers that pandas and R put in front?"""
    return _INDEX.fullmatch(name.strip()) is not None


def read_csv(path: str | os.PathLike[str]) -> CsvFile:
    r"""Read a file whose fields are separated by commas, semicolons or tabs; its first line names the columns.

    Empty lines do not count, nor do columns without a name and without content.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "x.csv"
    ...     _ = path.write_text("label;value\na;3,5\n")
    ...     file = read_csv(path)
    >>> file.header, file.rows
    (['label', 'value'], [(2, ['a', '3,5'])])
    """
    path = as_path(path)
    text, skipped = _text(path), 0
    declared = _SEPARATOR.match(text)
    if declared:
        text, skipped = text[declared.end() :], 1
    delimiter = declared[1] if declared else _delimiter(path, text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    lines: Rows = []
    line = 1 + skipped
    try:
        for row in reader:
            if row and any(map(str.strip, row)):
                lines.append((line, row))
            line = reader.line_num + 1 + skipped
    except csv.Error as cause:
        refuse(path, f"this is not CSV: {cause}", reader.line_num + skipped)
    if len(lines) < 2:
        refuse(path, "a header and at least one row are needed")
    (first, header), *rows = lines
    _check_lengths(path, header, rows, _NAMES[delimiter])
    header, rows = _named(path, first, [name.strip() for name in header], rows)
    return CsvFile(path, header, rows, delimiter, first)


def _text(path: Path) -> str:
    """UTF-8, with or without a mark, or UTF-16 with one."""
    data = files.read(path)
    for mark, what in _KINDS.items():
        if data.startswith(mark):
            refuse(path, what)
    encoding = next((name for mark, name in _MARKS.items() if data.startswith(mark)), "utf-8-sig")
    try:
        text = data.decode(encoding)
        bad = data.find(b"\0") if encoding == "utf-8-sig" else text.find("\0")
    except UnicodeDecodeError as cause:
        text, bad = "", cause.start
    if bad >= 0:  # UTF-16 without a mark looks like UTF-8 with zeros in between
        seen = data[:bad].count(b"\n") if encoding == "utf-8-sig" else text[:bad].count("\n")
        refuse(path, f"this is not UTF-8 text; {_CSV_UTF8}", seen + 1)
    return text


def _delimiter(path: Path, text: str) -> str:
    """The one that stands in the header, outside of quotes."""
    found = _FIRST.match(text)
    header = _QUOTED.sub("", found[1]) if found else ""
    there = [mark for mark in _NAMES if mark in header]
    if len(there) > 1:
        names = " and ".join(_NAMES[mark] for mark in there)
        refuse(
            path,
            f"the header holds {names}; put what belongs to a name in quotes, or write a line of its own above it that "
            "says which separates fields: sep=,",
            text[: found.start(1)].count("\n") + 1 if found else 1,
        )
    return there[0] if there else ","


def _check_lengths(path: Path, header: list[str], rows: Rows, separators: str) -> None:
    wrong = [(line, len(row)) for line, row in rows if len(row) != len(header)]
    if not wrong:
        return
    if len(wrong) == len(rows) and all(length == len(header) + 1 for _, length in wrong):
        refuse(
            path,
            f"every row has one field more than the header, which has {len(header)}: separate fields by {separators}, "
            "write decimals with a point, and, in R, use write.csv(..., row.names=FALSE)",
            wrong[0][0],
        )
    many = f" ({len(wrong)} of {len(rows)} lines are wrong)" if len(wrong) > 1 else ""
    refuse(
        path,
        f"the header has {len(header)} fields, this line {wrong[0][1]}; separate them by {separators}, and put a field "
        f"that contains one in quotes{many}",
        wrong[0][0],
    )


def _named(path: Path, first: int, header: list[str], rows: Rows) -> tuple[list[str], Rows]:
    """Without columns that have neither name nor content; the first one may be an index, others need a name."""
    seen: set[str] = set()
    kept = []
    for column, name in enumerate(header):
        if not name and column:
            if any(row[column].strip() for _, row in rows):
                refuse(path, f"column {column + 1} has no name; give it one, or leave it out", first, "header")
            continue
        if name in seen:
            refuse(path, f"{name!r} stands there twice", first, "header")
        seen.add(name)
        kept.append(column)
    if len(kept) == len(header):
        return header, rows
    return [header[i] for i in kept], [(line, [row[i] for i in kept]) for line, row in rows]

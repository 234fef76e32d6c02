"""Read CSV files written by pandas, R and spreadsheets: dialects, numbers, and the roles of columns.

- `read_csv`: the delimiter is taken from the header, or from a line such as `sep=;` above it, never from other rows.
- `decimal_mark`, `parse_cell`: a comma or point between digits may be a decimal mark or a thousands separator. This is
  decided from all numbers of a file; a file that leaves it open is refused.
- `measurement_columns`, `result_columns`, `part_columns`: columns are found by name, in any case, with some synonyms.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import inf, nan
from pathlib import Path
from typing import NoReturn

from combopeps.utils import files
from combopeps.utils.files import raise_format_error
from combopeps.utils.label_format import printable
from combopeps.utils.validation import as_path

MAX_ABS_VALUE = 1e150  # as for theta: beyond it, sums of squares overflow
_MISSING_VALUES = {"", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "nat", "-", "--", "?", "<na>", "."}
_GROUPED_PATTERN = r"[-+]?[1-9]\d{0,2}(%s\d{3})+"
_GROUPED = {mark: re.compile(_GROUPED_PATTERN % re.escape(mark)) for mark in ",."}
_NUMBER = re.compile(r"\s*+[-+]?(?=[.,]*+\d)[\d.,]++([eE][-+]?\d++)?\s*+")  # possessive: linear in its length
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:[.,' \u00a0\u2009\u202f\u2019_]\d{2,3})+(?:[.,]\d*)?")
_NUMBER_CURE = "write thousands without separators and decimals with a point"


class NotationError(ValueError):
    """The decimal mark of a file is ambiguous or inconsistent; `row` is the first such cell."""

    def __init__(self, message: str, row: int = 0) -> None:
        super().__init__(message)
        self.row = row


def is_plain(text: str) -> bool:
    """Return whether text has no underscores and no digits of other scripts, which `float` accepts."""
    return text.isascii() and "_" not in text


def is_digits(text: str, most: int = 18) -> bool:
    """Return whether text is a whole number of at most `most` ASCII digits."""
    return text.isascii() and text.isdigit() and len(text) <= most


def is_missing(text: str) -> bool:
    """Return whether a cell denotes a missing value."""
    return text.strip().lower() in _MISSING_VALUES


def decimal_mark(cells: Sequence[str], delimiter: str = ",") -> str:
    """Return the decimal mark of some cells, "." or ",".

    Raises
    ------
    NotationError
        If the cells contradict each other, or may as well have thousands separators.

    Examples
    --------
    >>> decimal_mark(["3,25", "1,125"], ";"), decimal_mark(["3.25", "4"], ",")
    (',', '.')
    """
    dots, commas = (
        [row for row, cell in enumerate(cells) if mark in cell and _NUMBER.fullmatch(cell)] for mark in ".,"
    )
    if dots and commas:
        row = max(dots[0], commas[0])
        other = cells[commas[0] if row == dots[0] else dots[0]]
        raise NotationError(
            f"got {cells[row].strip()!r:.40} here and {other.strip()!r:.40} elsewhere; {_NUMBER_CURE}", row
        )
    mark, rows = (",", commas) if commas else (".", dots)
    if rows and (mark == "," or delimiter != ",") and all(_GROUPED[mark].fullmatch(cells[row].strip()) for row in rows):
        text = cells[rows[0]].strip()
        cure = _NUMBER_CURE if mark == "," else "write thousands without separators, or separate fields by commas"
        raise NotationError(
            f"{text!r:.40} may be {text.replace(mark, ''):.40} or a decimal fraction, and no other number of the file "
            f"shows which; {cure}",
            rows[0],
        )
    return mark


def parse_cell(text: str, decimal: str = ".") -> float:
    """Parse a finite number; a ValueError describes what is wrong with the cell, and the cure."""
    try:
        plain = text if decimal == "." else _with_point(text)
        value = float(plain) if is_plain(plain) else nan
    except ValueError:
        value = inf
    if abs(value) < MAX_ABS_VALUE:
        return value
    cell = text.strip()
    if is_missing(cell):
        raise ValueError(f"must be a finite number, and there is none: got {cell!r}; leave such rows out")
    if _THOUSANDS.fullmatch(cell):
        raise ValueError(f"must be a finite number without thousands separators, got {cell!r:.40}; {_NUMBER_CURE}")
    raise ValueError(f"must be a finite number below {MAX_ABS_VALUE:g}, got {cell!r:.40}; {_NUMBER_CURE}")


def _with_point(text: str) -> str:
    """Replace a decimal comma by a point."""
    if "." in text or text.count(",") > 1:
        raise ValueError
    return text.replace(",", ".")


Rows = list[tuple[int, list[str]]]  # with the numbers of their lines
_DELIMITER_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs"}
_SEPARATOR = re.compile(r'"?sep=([,;\t])"?(\r\n|\r|\n)', re.IGNORECASE)
_FIRST_LINE = re.compile(r'[\r\n]*((?:[^"\r\n]|"(?:[^"]|"")*")*)')  # first non-empty line, quoted line breaks included
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_INDEX_NAME = re.compile(
    r"|unnamed: \d+(_level_\d+)?(\.\d+)?", re.IGNORECASE
)  # names that pandas gives to unnamed columns
_BYTE_ORDER_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}  # "Unicode Text" of Excel
_CSV_UTF8 = 'save it as "CSV UTF-8"'
_OTHER_FORMATS = {
    b"PK\x03\x04": f"this is an Excel workbook, not CSV; {_CSV_UTF8}, or pass the data frame of pandas.read_excel",
    b"\xd0\xcf\x11\xe0": f"this is an old Excel workbook, not CSV; {_CSV_UTF8}",
    b"\x1f\x8b": "this is compressed; unpack it first",
    b"PAR1": "this is Parquet, not CSV; pass the data frame of pandas.read_parquet",
}


@dataclass(frozen=True)
class CsvFile:
    """The header and the rows of a file; every row has the number of its line, and as many cells as the header."""

    path: Path
    header: list[str]
    rows: Rows
    delimiter: str
    first: int = 1
    """Line number of the header."""

    def refuse(self, message: str, line: int | None = None, field: str = "") -> NoReturn:
        """Raise a `FileFormatError` that begins with file, line and field."""
        raise_format_error(self.path, message, line, field)

    def numbers(self, cells: Sequence[tuple[int, str, str]]) -> list[float]:
        """Parse cells given as (line, field, text); errors name line and field."""
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


def is_unnamed_column(name: str) -> bool:
    """Return whether a column has no name, such as the row numbers that pandas and R write."""
    return _INDEX_NAME.fullmatch(name.strip()) is not None


def read_csv(path: str | os.PathLike[str]) -> CsvFile:
    r"""Read a file with fields separated by commas, semicolons or tabs, and column names in the first line.

    Empty lines and columns without name and content are skipped.

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
    text, skipped = _decode(path), 0
    declared = _SEPARATOR.match(text)
    if declared:
        text, skipped = text[declared.end() :], 1
    delimiter = declared[1] if declared else _detect_delimiter(path, text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    lines: Rows = []
    line = 1 + skipped
    try:
        for row in reader:
            if row and any(map(str.strip, row)):
                lines.append((line, row))
            line = reader.line_num + 1 + skipped
    except csv.Error as cause:
        raise_format_error(path, f"this is not CSV: {cause}", reader.line_num + skipped)
    if len(lines) < 2:
        raise_format_error(path, "a header and at least one row are needed")
    (first, header), *rows = lines
    _check_lengths(path, header, rows, _DELIMITER_NAMES[delimiter])
    header, rows = _drop_empty_columns(path, first, [name.strip() for name in header], rows)
    return CsvFile(path, header, rows, delimiter, first)


def _decode(path: Path) -> str:
    """Read and decode a file: UTF-8 with or without a byte order mark, or UTF-16 with one."""
    data = files.read_regular(path)
    for mark, message in _OTHER_FORMATS.items():
        if data.startswith(mark):
            raise_format_error(path, message)
    encoding = next((name for mark, name in _BYTE_ORDER_MARKS.items() if data.startswith(mark)), "utf-8-sig")
    try:
        text = data.decode(encoding)
        bad = data.find(b"\0") if encoding == "utf-8-sig" else text.find("\0")
    except UnicodeDecodeError as cause:
        text, bad = "", cause.start
    if bad >= 0:  # UTF-16 without a byte order mark decodes as UTF-8 with null characters
        line_breaks = data[:bad].count(b"\n") if encoding == "utf-8-sig" else text[:bad].count("\n")
        raise_format_error(path, f"this is not UTF-8 text; {_CSV_UTF8}", line_breaks + 1)
    return text


def _detect_delimiter(path: Path, text: str) -> str:
    """Return the delimiter in the header, outside of quotes."""
    found = _FIRST_LINE.match(text)
    header = _QUOTED.sub("", found[1]) if found else ""
    candidates = [mark for mark in _DELIMITER_NAMES if mark in header]
    if len(candidates) > 1:
        names = " and ".join(_DELIMITER_NAMES[mark] for mark in candidates)
        raise_format_error(
            path,
            f"the header holds {names}; put names with such characters in quotes, or declare the delimiter in a "
            "line above the header: sep=,",
            text[: found.start(1)].count("\n") + 1 if found else 1,
        )
    return candidates[0] if candidates else ","


def _check_lengths(path: Path, header: list[str], rows: Rows, separators: str) -> None:
    """Refuse a file with rows that are not as long as the header."""
    wrong = [(line, len(row)) for line, row in rows if len(row) != len(header)]
    if not wrong:
        return
    if len(wrong) == len(rows) and all(length == len(header) + 1 for _, length in wrong):
        raise_format_error(
            path,
            f"every row has one field more than the header, which has {len(header)}: separate fields by {separators}, "
            "write decimals with a point, and, in R, use write.csv(..., row.names=FALSE)",
            wrong[0][0],
        )
    many = f" ({len(wrong)} of {len(rows)} lines are wrong)" if len(wrong) > 1 else ""
    raise_format_error(
        path,
        f"the header has {len(header)} fields, this line {wrong[0][1]}; separate them by {separators}, and put a field "
        f"that contains one in quotes{many}",
        wrong[0][0],
    )


def _drop_empty_columns(path: Path, first: int, header: list[str], rows: Rows) -> tuple[list[str], Rows]:
    """Drop columns without name and content; a column with content needs a name, unless it is the first."""
    seen: set[str] = set()
    kept = []
    for column, name in enumerate(header):
        if not name and column:
            if any(row[column].strip() for _, row in rows):
                raise_format_error(
                    path, f"column {column + 1} has no name; give it one, or leave it out", first, "header"
                )
            continue
        if name in seen:
            raise_format_error(path, f"duplicate column {name!r}", first, "header")
        seen.add(name)
        kept.append(column)
    if len(kept) == len(header):
        return header, rows
    return [header[i] for i in kept], [(line, [row[i] for i in kept]) for line, row in rows]


# Synonyms of each role. A column with the first name takes precedence over the others.
_COLUMN_NAMES = {
    "label": ("label", "item"),
    "source": ("source", "from"),
    "target": ("target", "to"),
    "key": ("key",),
    "left": ("left",),
    "right": ("right",),
    "value": ("value", "y", "mean"),
    "sem": ("sem", "se", "stderr", "std_error", "standard_error"),
    "count": ("count", "n"),
    "id": ("id", "query"),
}
_SPREADS = ("std", "sd", "stdev", "std_dev", "var", "variance")  # of measurements, or of their mean?
_LABEL_COLUMNS = (("label",), ("source", "target"), ("left", "right"))
_LABEL_CURE = "name it label; or source and target (and key) for edges, left and right for pairs"


class ColumnError(ValueError):
    """A column is missing or ambiguous; `column` is its role."""

    def __init__(self, message: str, column: str) -> None:
        super().__init__(message)
        self.column = column


@dataclass(frozen=True)
class Columns:
    """Positions of the columns of a table: the parts of the label, the value, and its standard error and count."""

    label: tuple[int, ...]
    value: int
    sem: int | None = None
    count: int | None = None


def measurement_columns(names: Sequence[Hashable]) -> Columns:
    """Find the columns of a table of measurements; raise a `ColumnError` if one is missing or ambiguous.

    Examples
    --------
    >>> measurement_columns(["Unnamed: 0", "Source", "target", "day", "Value"])
    Columns(label=(1, 2), value=4, sem=None, count=None)
    """
    at = _find_columns(names)
    ways = [way for way in _LABEL_COLUMNS if all(part in at for part in way)]
    if len(ways) > 1:
        both = " and ".join(", ".join(way) for way in ways)
        raise ColumnError(f"there are {both}, and each may be the label; leave one of them out", "label")
    if not ways:
        raise ColumnError(
            f"no column holds the labels of what was measured; {_LABEL_CURE}; {_describe_available(names)}", "label"
        )
    if "value" not in at:
        raise ColumnError(f"no column holds the results; name it value; {_describe_available(names)}", "value")
    parts = (*ways[0], "key") if ways[0][0] == "source" and "key" in at else ways[0]
    return Columns(tuple(at[part] for part in parts), at["value"], at.get("sem"), at.get("count"))


def result_columns(names: Sequence[Hashable]) -> Columns:
    """Find the columns of a table of results, in which queries are given by their number, `id`."""
    at = _find_columns(names)
    for role, what in (("id", "the numbers of the queries"), ("value", "the results")):
        if role not in at:
            raise ColumnError(f"no column holds {what}; name it {role}; {_describe_available(names)}", role)
    return Columns((at["id"],), at["value"], at.get("sem"))


def part_columns(names: Sequence[Hashable]) -> Columns:
    """Find the columns of a table of results of actions: the number of the query, then the parts of the label.

    Examples
    --------
    >>> part_columns(["id", "source", "target", "value"])
    Columns(label=(0, 1, 2), value=3, sem=None, count=None)
    """
    query, part = result_columns(names), measurement_columns(names)
    return Columns(query.label + part.label, part.value, part.sem)


def _find_columns(names: Sequence[Hashable]) -> dict[str, int]:
    """Return the positions of columns by their role."""
    by_name: dict[str, list[int]] = {}
    for position, name in enumerate(names):
        if isinstance(name, str):
            by_name.setdefault(_normalise(name), []).append(position)
    at = {}
    for role, known in _COLUMN_NAMES.items():
        found = [position for name in known for position in by_name.get(name, [])]
        if len(by_name.get(role, [])) != 1 and len(found) > 1:
            both = " and ".join(repr(names[position]) for position in found[:2])
            raise ColumnError(f"{both} may both be the {role}; leave one of them out, or rename it", role)
        if found:
            at[role] = found[0]
    spread = next((name for name in _SPREADS if name in by_name), None)
    if spread is not None and "sem" not in at:
        raise ColumnError(
            "the meaning of this column is ambiguous: if it is the standard error of the value, name it sem; if it is "
            "the standard deviation of single measurements, leave it out and pass it to Problem(noise_std=)",
            str(names[by_name[spread][0]]),
        )
    return at


def _normalise(name: str) -> str:
    return name.strip().casefold().replace(" ", "_").replace("-", "_")


def _describe_available(names: Sequence[Hashable]) -> str:
    named = [printable(name) for name in names if not (isinstance(name, str) and is_unnamed_column(name))]
    return f"there are {', '.join(named[:8])}{', ...' if len(named) > 8 else ''}" if named else "there are none"

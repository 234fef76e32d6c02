"""`read_csv`: the one reader of CSV files, as pandas, R and spreadsheets write them.

What separates fields is read off the header, or off a line `sep=;` above it, and never guessed from the rest.

Numbers in the cells of a file, as pandas, R and spreadsheets of several countries write them.

A comma between digits may be a decimal mark or set thousands apart, and so may a point. Which one it is can be seen
from a file as a whole, or not at all: then the file is refused. Nothing is guessed.

Which column of a table holds what: by name, whatever the case, and under a few other names that are as clear.
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
from combopeps.utils.files import refuse
from combopeps.utils.label_format import shown
from combopeps.utils.validation import as_path

LARGEST = 1e150  # as for theta: beyond it, sums of squares overflow
_MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "nat", "-", "--", "?", "<na>", "."}
_GROUPS = r"[-+]?[1-9]\d{0,2}(%s\d{3})+"
_GROUPED = {mark: re.compile(_GROUPS % re.escape(mark)) for mark in ",."}
_NUMERIC = re.compile(r"\s*+[-+]?(?=[.,]*+\d)[\d.,]++([eE][-+]?\d++)?\s*+")  # possessive: linear in its length
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:[.,' \u00a0\u2009\u202f\u2019_]\d{2,3})+(?:[.,]\d*)?")
_PLAIN = "write thousands without separators and decimals with a point"


class NotationError(ValueError):
    """The cells of a file do not say what a comma or a point means; `row` is the first that shows it."""

    def __init__(self, message: str, row: int = 0) -> None:
        super().__init__(message)
        self.row = row


def is_plain(text: str) -> bool:
    """No 1_000 and no digits of other scripts, which Python reads as numbers."""
    return text.isascii() and "_" not in text


def is_digits(text: str, most: int = 18) -> bool:
    """A whole number in plain notation, of at most so many digits."""
    return text.isascii() and text.isdigit() and len(text) <= most


def is_missing(text: str) -> bool:
    """Does the cell say that there is no value?"""
    return text.strip().lower() in _MISSING


def decimal_mark(cells: Sequence[str], delimiter: str = ",") -> str:
    """The decimal mark of all these numbers, "." or ","; `NotationError` where that cannot be known.

    Examples
    --------
    >>> decimal_mark(["3,25", "1,125"], ";"), decimal_mark(["3.25", "4"], ",")
    (',', '.')
    """
    dots, commas = (
        [row for row, cell in enumerate(cells) if mark in cell and _NUMERIC.fullmatch(cell)] for mark in ".,"
    )
    if dots and commas:
        row = max(dots[0], commas[0])
        other = cells[commas[0] if row == dots[0] else dots[0]]
        raise NotationError(f"got {cells[row].strip()!r:.40} here and {other.strip()!r:.40} elsewhere; {_PLAIN}", row)
    mark, rows = (",", commas) if commas else (".", dots)
    if rows and (mark == "," or delimiter != ",") and all(_GROUPED[mark].fullmatch(cells[row].strip()) for row in rows):
        text = cells[rows[0]].strip()
        cure = _PLAIN if mark == "," else "write thousands without separators, or separate fields by commas"
        raise NotationError(
            f"{text!r:.40} may be {text.replace(mark, ''):.40} or a decimal fraction, and no other number of the file "
            f"tells which; {cure}",
            rows[0],
        )
    return mark


def parse_cell(text: str, decimal: str = ".") -> float:
    """A finite number in plain notation; ValueError says what stands there instead, and the cure."""
    try:
        plain = text if decimal == "." else _with_point(text)
        value = float(plain) if is_plain(plain) else nan
    except ValueError:
        value = inf
    if abs(value) < LARGEST:
        return value
    cell = text.strip()
    if is_missing(cell):
        raise ValueError(f"must be a finite number, and there is none: got {cell!r}; leave such rows out")
    if _THOUSANDS.fullmatch(cell):
        raise ValueError(f"must be a finite number without thousands separators, got {cell!r:.40}; {_PLAIN}")
    raise ValueError(f"must be a finite number below {LARGEST:g}, got {cell!r:.40}; {_PLAIN}")


def _with_point(text: str) -> str:
    if "." in text or text.count(",") > 1:
        raise ValueError
    return text.replace(",", ".")


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


# The first name of each is the one that counts where there are several.
NAMES = {
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
_SPREADS = ("std", "sd", "stdev", "std_dev", "var", "variance")  # of single measurements, or of their mean?
_LABELS = (("label",), ("source", "target"), ("left", "right"))
_LABEL_CURE = "name it label; or source and target (and key) for edges, left and right for pairs"


class ColumnError(ValueError):
    """A column is missing, or there are two of a kind; `column` says which."""

    def __init__(self, message: str, column: str) -> None:
        super().__init__(message)
        self.column = column


@dataclass(frozen=True)
class Columns:
    """Where things stand in a row: the parts of the label, the value, and what else is known about it."""

    label: tuple[int, ...]
    value: int
    sem: int | None = None
    count: int | None = None


def measurement_columns(names: Sequence[Hashable]) -> Columns:
    """The columns of a table of measurements; `ColumnError` where they cannot be told.

    Examples
    --------
    >>> measurement_columns(["Unnamed: 0", "Source", "target", "day", "Value"])
    Columns(label=(1, 2), value=4, sem=None, count=None)
    """
    at = _found(names)
    ways = [way for way in _LABELS if all(part in at for part in way)]
    if len(ways) > 1:
        both = " and ".join(", ".join(way) for way in ways)
        raise ColumnError(f"there are {both}, and each may say what was measured; leave one of them out", "label")
    if not ways:
        raise ColumnError(f"no column says what was measured; {_LABEL_CURE}; {_there(names)}", "label")
    if "value" not in at:
        raise ColumnError(f"no column holds the results; name it value; {_there(names)}", "value")
    parts = (*ways[0], "key") if ways[0][0] == "source" and "key" in at else ways[0]
    return Columns(tuple(at[part] for part in parts), at["value"], at.get("sem"), at.get("count"))


def result_columns(names: Sequence[Hashable]) -> Columns:
    """The columns of a table of results, in which a query stands by its number, `id`."""
    at = _found(names)
    for role, what in (("id", "the numbers of the queries"), ("value", "the results")):
        if role not in at:
            raise ColumnError(f"no column holds {what}; name it {role}; {_there(names)}", role)
    return Columns((at["id"],), at["value"], at.get("sem"))


def part_columns(names: Sequence[Hashable]) -> Columns:
    """The columns of a table of results of actions: the number of the query first, then the parts of the label.

    Examples
    --------
    >>> part_columns(["id", "source", "target", "value"])
    Columns(label=(0, 1, 2), value=3, sem=None, count=None)
    """
    query, part = result_columns(names), measurement_columns(names)
    return Columns(query.label + part.label, part.value, part.sem)


def _found(names: Sequence[Hashable]) -> dict[str, int]:
    """From roles to positions."""
    written: dict[str, list[int]] = {}
    for position, name in enumerate(names):
        if isinstance(name, str):
            written.setdefault(_plain(name), []).append(position)
    at = {}
    for role, known in NAMES.items():
        there = [position for name in known for position in written.get(name, [])]
        if len(written.get(role, [])) != 1 and len(there) > 1:
            both = " and ".join(repr(names[position]) for position in there[:2])
            raise ColumnError(f"{both} may both be the {role}; leave one of them out, or rename it", role)
        if there:
            at[role] = there[0]
    spread = next((name for name in _SPREADS if name in written), None)
    if spread is not None and "sem" not in at:
        raise ColumnError(
            "a spread is not taken: if it is the standard error of the value, name it sem; if it is the standard "
            "deviation of single measurements, leave it out and give it to Problem(noise_std=)",
            str(names[written[spread][0]]),
        )
    return at


def _plain(name: str) -> str:
    return name.strip().casefold().replace(" ", "_").replace("-", "_")


def _there(names: Sequence[Hashable]) -> str:
    named = [shown(name) for name in names if not (isinstance(name, str) and is_index(name))]
    return f"there are {', '.join(named[:8])}{', ...' if len(named) > 8 else ''}" if named else "there are none"

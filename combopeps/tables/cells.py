"""Numbers in the cells of a file, as pandas, R and spreadsheets of several countries write them.

A comma between digits may be a decimal mark or set thousands apart, and so may a point. Which one it is can be seen
from a file as a whole, or not at all: then the file is refused. Nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import inf, nan

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

"""`Faults`: what is wrong with the rows of a table, gathered from all of them before the first is taken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from combopeps.errors import ComboPepsError, FileFormatError

_NAMED = 5  # further rows that a message names


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
        next_ones = ", ".join(str(self.number(row)) for row in others[:_NAMED])
        many = f"the next in {place} {next_ones}{', ...' if len(others) > _NAMED else ''}; " if others else ""
        are = "rows are" if others else "rows is"
        count = f"({len(self._found)} of {self.rows} {are} wrong, {many}nothing was taken)"
        text = f"{where}, {field}: {message} {count}"
        if error is FileFormatError:
            raise FileFormatError(text, str(self.file or ""), line, field)
        raise error(text)

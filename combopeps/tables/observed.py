"""`Observed`: what became of the rows of a table."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from combopeps.tables.written import label_text

_NAMED = 3


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
        more = ", ".join(map(label_text, others[:_NAMED])) + (", ..." if len(others) > _NAMED else "")
        also = f"; nor do {len(others)} others: {more}" if len(others) > 1 else f"; nor does {more}" if others else ""
        said = f"{self.taken} of {self.rows} rows taken; {self.rows - self.taken} left out: {self.reason}"
        return said + also

"""Plain Markdown tables, for the terminal and for files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table with aligned columns."""
    cells = [[str(cell).replace("|", r"\|") for cell in row] for row in rows]  # a size such as |Z| is no border
    widths = [max(len(row[i]) for row in [list(header), *cells]) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"

    return "\n".join([line(list(header)), "|" + "|".join("-" * (w + 2) for w in widths) + "|", *map(line, cells)])


def without_targets(text: str) -> str:
    """Drop columns of targets from the tables of a text: they are printed, and not part of the documentation."""
    lines: list[str] = []
    dropped: set[int] | None = None
    for line in text.split("\n"):
        if not line.startswith("|"):
            dropped = None
        else:
            cells = re.split(r"(?<!\\)\|", line)
            if dropped is None:  # the header of a table
                dropped = {i for i, cell in enumerate(cells) if cell.strip() in ("wanted", "reached")}
            line = "|".join(cell for i, cell in enumerate(cells) if i not in dropped)
        lines.append(line)
    return "\n".join(lines)

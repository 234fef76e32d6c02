"""Plain Markdown tables, for the terminal and for files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table with aligned columns."""
    cells = [[str(cell).replace("|", r"\|") for cell in row] for row in rows]  # a size such as |Z| is no border
    widths = [max(len(row[i]) for row in [list(header), *cells]) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"

    return "\n".join([line(list(header)), "|" + "|".join("-" * (w + 2) for w in widths) + "|", *map(line, cells)])

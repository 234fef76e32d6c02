"""What pictures are made of. Places are percentages across and pixels, or per mille of the picture, down.

Nothing here is HTML: templates write these shapes, and escape what people have named.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Key:
    """A line of the legend: how it looks (a class of the style sheet), and what it means."""

    look: str
    text: str


@dataclass(frozen=True)
class Line:
    """A stroke by the commands of an SVG path, or straight from one point to another; a title for the pointer."""

    look: str
    width: float
    path: str = ""
    ends: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    title: str = ""


@dataclass(frozen=True)
class Node:
    """A named point, with its label beside it: moved so many pixels, and anchored there."""

    x: float
    y: float
    label: str = ""
    title: str = ""
    dx: float = 0.0
    dy: float = 0.0
    anchor: str = "middle"
    look: str = ""


@dataclass(frozen=True)
class Tick:
    """A mark of an axis."""

    at: float
    text: str


@dataclass(frozen=True)
class Row:
    """An interval with its middle on a common axis, all in percent; how often it was measured, and marks in words."""

    label: str
    at: float
    low: float
    high: float
    text: str
    count: int | None
    look: str
    note: str = ""
    heading: str = ""


@dataclass(frozen=True)
class Picture:
    """A problem drawn: a network, two columns (a matching), or rows.

    Attributes
    ----------
    form
        "network", "columns" or "rows".
    title, summary
        What is to be seen, as a heading and for those who do not see it.
    shape
        Of a network: a class that says how wide it is for its height.
    height
        Of two columns, in pixels.
    cut
        Of a ranking: before which row the cut is, in words at `cut_text`.
    before, after, note
        What was left out, in words.
    """

    form: str
    title: str
    summary: str
    legend: tuple[Key, ...] = ()
    shape: str = ""
    height: int = 0
    lines: tuple[Line, ...] = ()
    nodes: tuple[Node, ...] = ()
    rows: tuple[Row, ...] = ()
    ticks: tuple[Tick, ...] = ()
    cut: int | None = None
    cut_text: str = ""
    counted: str = "times"
    before: str = ""
    after: str = ""
    note: str = ""


@dataclass(frozen=True)
class Chart:
    """A curve on a logarithmic scale: points in percent across and down, ticks of both axes, and the level wanted."""

    points: tuple[tuple[float, float, str], ...] = ()
    across: tuple[Tick, ...] = ()
    down: tuple[Tick, ...] = ()
    level: float = 0.0
    level_text: str = ""
    note: str = ""
    data: tuple[tuple[int, float], ...] = field(default=())

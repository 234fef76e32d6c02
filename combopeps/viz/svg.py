"""What pictures are made of. Places are percentages across and pixels, or per mille of the picture, down.

Nothing here is HTML: templates write these shapes, and escape what people have named.

Axes: round numbers, and where they lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, floor, isfinite, log10

from combopeps.utils.formatting import probability_text


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


LEAST = 1e-12  # of a probability that is drawn


def round_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """At most so many round numbers between two, evenly spaced.

    Examples
    --------
    >>> round_ticks(0.3, 9.1)
    [2.0, 4.0, 6.0, 8.0]
    """
    if not (isfinite(low) and isfinite(high)) or not high > low:
        return [low] if isfinite(low) else []
    size = 10.0 ** floor(log10(high - low))
    for step in (size * factor for factor in (0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 2.5, 5.0)):
        first, last = ceil(low / step), floor(high / step)
        if last - first < most:
            return [i * step + 0.0 for i in range(first, last + 1)]
    return [low, high]


def number_text(value: float) -> str:
    """A tick: no more digits than it takes, and a true minus."""
    text = f"{value:,.0f}" if abs(value) >= 10_000 and value == round(value) else f"{value:.6g}"
    return text.replace("-", "−")


def log_chart(data: Sequence[tuple[int, float]], delta: float, left_out: int = 0) -> Chart:
    """Error probabilities over the number of measurements: logarithmic down, in percent of the plot both ways."""
    shown = [(t, p) for t, p in data if p == p]
    if not shown:
        return Chart()
    least = min([max(p, LEAST) for _, p in shown] + [delta])
    bottom = max(LEAST, 10.0 ** floor(log10(least) - 0.15))
    depth = -log10(bottom)
    last = max(t for t, _ in shown)

    def percent(p: float, digits: int = 2) -> str:
        return probability_text(p, digits=digits, percent=True)

    def down(p: float) -> float:
        return round(min(100.0, -log10(min(1.0, max(p, LEAST))) / depth * 100.0), 2)

    points = tuple((round(100.0 * t / last, 2), down(p), f"{t:,}: {percent(p, 1)}") for t, p in shown)
    step = max(1, ceil(depth / 6))
    powers = [Tick(down(10.0**-k), percent(10.0**-k)) for k in range(0, int(depth) + 1, step)]
    across = [
        Tick(round(100.0 * t / last, 2), number_text(t)) for t in round_ticks(0.0, float(last), 5) if t == round(t)
    ]
    notes = []
    if any(p < LEAST for _, p in shown):
        notes.append("points at the bottom are below what is drawn")
    if left_out:
        notes.append(f"{left_out} points were left out to save time")
    note = "; ".join(notes)
    return Chart(points, tuple(across), tuple(powers), down(delta), percent(delta), note, tuple(shown))

"""Shapes of pictures and charts: plain data that templates turn into SVG.

Horizontal positions are percentages of the width. Vertical ones are pixels; in networks, both are per mille of the
picture. Nothing here is HTML: templates escape all labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, floor, isfinite, log10

from combopeps.utils.formatting import probability_text

MIN_PROBABILITY = 1e-12  # smaller probabilities are drawn at the bottom of the chart


@dataclass(frozen=True)
class LegendEntry:
    """An entry of the legend: a CSS class and its meaning."""

    css_class: str
    text: str


@dataclass(frozen=True)
class Line:
    """A line: the commands of an SVG path, or two end points (x1, y1, x2, y2); `title` is the tooltip."""

    css_class: str
    width: float
    path: str = ""
    ends: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    title: str = ""


@dataclass(frozen=True)
class Node:
    """A point with a label, which is moved by (dx, dy) pixels and anchored there."""

    x: float
    y: float
    label: str = ""
    title: str = ""
    dx: float = 0.0
    dy: float = 0.0
    anchor: str = "middle"
    css_class: str = ""


@dataclass(frozen=True)
class Tick:
    """A tick of an axis: its position in percent, and its label."""

    at: float
    text: str


@dataclass(frozen=True)
class Row:
    """A row of a table of estimates.

    Attributes
    ----------
    label
        What is estimated.
    at, low, high
        Estimate and ends of its interval, in percent of the common axis.
    text
        The estimate as text.
    count
        Number of measurements; None where they are not counted.
    status
        "in" the answer, in the runner-up only ("runner-up"), or "out".
    note, heading
        Remark beside the label, and the name of the group that begins with this row.
    """

    label: str
    at: float
    low: float
    high: float
    text: str
    count: int | None
    status: str
    note: str = ""
    heading: str = ""


@dataclass(frozen=True)
class Picture:
    """A picture of a problem: a network, two columns of nodes (a matching), or rows of estimates.

    Attributes
    ----------
    form
        "network", "columns" or "rows".
    title, summary
        Heading, and description for screen readers.
    shape
        CSS class for the aspect ratio of a network.
    height
        Height of two columns, in pixels.
    cut, cut_text
        Index of the row below the cut of a ranking, and the text of the cut.
    before, after, note
        Sentences about what was left out above and below, and about the drawing.
    """

    form: str
    title: str
    summary: str
    legend: tuple[LegendEntry, ...] = ()
    shape: str = ""
    height: int = 0
    lines: tuple[Line, ...] = ()
    nodes: tuple[Node, ...] = ()
    rows: tuple[Row, ...] = ()
    ticks: tuple[Tick, ...] = ()
    cut: int | None = None
    cut_text: str = ""
    before: str = ""
    after: str = ""
    note: str = ""


@dataclass(frozen=True)
class Chart:
    """Error probabilities on a logarithmic scale.

    Attributes
    ----------
    points
        (x, y, tooltip): x in percent of the width, y in percent of the height, from the top.
    x_ticks, y_ticks
        Ticks of both axes.
    target, target_text
        Position of delta in percent of the height, and its label; empty if delta is not the target.
    note
        Sentences about points that were clipped or left out.
    data
        Numbers of measurements and error probabilities.
    """

    points: tuple[tuple[float, float, str], ...] = ()
    x_ticks: tuple[Tick, ...] = ()
    y_ticks: tuple[Tick, ...] = ()
    target: float = 0.0
    target_text: str = ""
    note: str = ""
    data: tuple[tuple[int, float], ...] = field(default=())


def round_ticks(low: float, high: float, max_ticks: int = 5) -> list[float]:
    """Return at most `max_ticks` evenly spaced round numbers between low and high.

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
        if last - first < max_ticks:
            return [i * step + 0.0 for i in range(first, last + 1)]  # + 0.0 turns -0.0 into 0.0
    return [low, high]


def number_text(value: float) -> str:
    """Return a number in its shortest form, with a true minus sign."""
    text = f"{value:,.0f}" if abs(value) >= 10_000 and value == round(value) else f"{value:.6g}"
    return text.replace("-", "−")


def log_chart(data: Sequence[tuple[int, float]], delta: float | None, left_out: int = 0) -> Chart:
    """Return a chart of error probabilities: linear in the number of measurements, logarithmic in the probability.

    `delta` is marked, unless it is None: the rule has another target.
    """
    shown = [(t, p) for t, p in data if p == p]  # without NaN
    if not shown:
        return Chart()
    least = min([max(p, MIN_PROBABILITY) for _, p in shown] + [delta or 0.1])
    bottom = max(MIN_PROBABILITY, 10.0 ** floor(log10(least) - 0.15))  # the lowest point keeps away from the edge
    decades = -log10(bottom)
    last = max(t for t, _ in shown)

    def percent(p: float, digits: int = 2) -> str:
        return probability_text(p, digits=digits, percent=True)

    def y_position(p: float) -> float:
        return round(min(100.0, -log10(min(1.0, max(p, MIN_PROBABILITY))) / decades * 100.0), 2)

    points = tuple((round(100.0 * t / last, 2), y_position(p), f"{t:,}: {percent(p, 1)}") for t, p in shown)
    step = max(1, ceil(decades / 6))
    y_ticks = [Tick(y_position(10.0**-k), percent(10.0**-k)) for k in range(0, int(decades) + 1, step)]
    x_ticks = [
        Tick(round(100.0 * t / last, 2), number_text(t)) for t in round_ticks(0.0, float(last), 5) if t == round(t)
    ]
    notes = []
    if any(p < MIN_PROBABILITY for _, p in shown):
        notes.append(f"points at the bottom are below {MIN_PROBABILITY:g}")
    if left_out:
        notes.append(f"{left_out} points were left out to save time")
    note = "; ".join(notes)
    target = (0.0, "") if delta is None else (y_position(delta), percent(delta))
    return Chart(points, tuple(x_ticks), tuple(y_ticks), *target, note, tuple(shown))

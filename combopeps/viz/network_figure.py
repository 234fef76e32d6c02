"""Picture of a route or a tree on its network, for the report page.

Edges are drawn in a square of 1,000 x 1,000 units that is stretched to the width of the page; dots and labels are not
stretched. Labels are placed so that they overlap neither each other nor a dot, both on a narrow and on a wide screen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary

import numpy as np

from combopeps.oracles import ShortestPathOracle, SpanningTreeOracle
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.viz.graph_layout import MAX_LAYOUT_EDGES, MAX_ZOOMED_FRACTION, Layout, Network, layout_of
from combopeps.viz.svg import LegendEntry, Line, Node, Picture
from combopeps.viz.view_model import PictureData, clipped_node

_MAX_SINGLE_LINES = 250  # edges up to which each is a line of its own, with a tooltip
_MAX_MEASURED, _MAX_UNMEASURED = 3_000, 3_000  # edges of larger networks that are drawn
_MAX_LABELLED_NODES = 40  # in larger networks, only the ends of the route have labels
_MAX_EXTRA_WIDTH = 5.0  # of the edge with the most measurements
_ASPECT_RATIOS = {"s-wide": 2.0, "s-usual": 1.5, "s-square": 1.0, "s-tall": 0.75}  # by CSS class
_FREE_SHAPE = "s-free"  # CSS class of a picture that may be stretched in either direction
# Sizes for which labels are placed: width in pixels, and aspect ratio if the picture may be stretched.
_WIDE_SCREEN, _NARROW_SCREEN = (860.0, 1.8), (340.0, 0.9)
_LETTER_WIDTH, _DOT_RADIUS = 7.2, 6.0  # pixels
_MARGIN = 16.0  # pixels above and below the picture
_MAX_LABEL_LENGTH = 18  # characters
_LABEL_POSITIONS = (  # anchor, dx, dy; the first ones are preferred
    ("middle", 0.0, -11.0), ("middle", 0.0, 20.0), ("start", 12.0, 4.5), ("end", -12.0, 4.5),
    ("start", 8.0, -7.0), ("end", -8.0, -7.0), ("start", 8.0, 17.0), ("end", -8.0, 17.0),
)  # fmt: skip
_MAX_COST = 100.0  # of the position of a label: what one overlapped label costs

_Box = tuple[float, float, float, float]
_Edges = tuple[tuple[Hashable, ...], ...]
_layouts: WeakKeyDictionary[ArgmaxOracle, Layout] = WeakKeyDictionary()


def has_network_picture(oracle: ArgmaxOracle) -> bool:
    """Return whether an oracle has a network, with coordinates or small enough for a layout."""
    return isinstance(oracle, ShortestPathOracle | SpanningTreeOracle) and (
        oracle.dim <= MAX_LAYOUT_EDGES or oracle.pos is not None
    )


def network_picture(data: PictureData) -> Picture:
    """Draw the answer, the runner-up where it differs, and other edges as wide as they were measured often."""
    oracle = cast(Network, data.oracle)
    if oracle not in _layouts:
        _layouts[oracle] = layout_of(oracle, None)
    layout, edges = _layouts[oracle], cast(_Edges, oracle.components)
    number = {node: i for i, node in enumerate(layout.positions)}
    ends = np.array([[number[edge[0]], number[edge[1]]] for edge in edges])
    places, shape, is_zoomed = _scaled_positions(data, layout, ends)
    is_large = oracle.dim > _MAX_SINGLE_LINES
    lines, hidden = _grouped_lines(data, places[ends]) if is_large else (_single_lines(data, places[ends], edges), 0)
    notes = [layout.note] if layout.note else []
    notes += [f"a part of the network of {oracle.dim:,} edges"] if is_zoomed else []
    notes += [f"{hidden:,} edges that are in neither are not drawn"] if hidden else []
    is_tree = isinstance(oracle, SpanningTreeOracle)
    return Picture(
        "network",
        "The tree on its network" if is_tree else "The route on its network",
        f"A network of {len(number):,} nodes and {oracle.dim:,} edges, with the answer and the runner-up drawn on it.",
        _legend(data),
        shape=shape,
        lines=tuple(lines),
        nodes=_labelled_nodes(oracle, data, places, ends, list(number), shape),
        note="; ".join(notes),
    )


def _legend(data: PictureData) -> tuple[LegendEntry, ...]:
    counts = np.nan_to_num(data.counts)
    entries = [LegendEntry("k-answer", "the answer")] if data.z.any() else []
    entries += [LegendEntry("k-dashed", "the runner-up, where it differs")] if data.added.any() else []
    entries += [LegendEntry("k-seen", "the thicker, the more often measured")] if counts.any() else []
    entries += [LegendEntry("k-faint", "never measured")] if (counts == 0).any() else []
    return tuple(entries)


def _scaled_positions(data: PictureData, layout: Layout, ends: Any) -> tuple[Array, str, bool]:
    """Return positions in the square, the CSS class of the shape, and whether only a part of the network is shown."""
    raw = np.array(list(layout.positions.values()), dtype=float) * (1.0, -1.0)  # y of SVG points down
    if layout.aspect is not None:
        raw[:, 1] *= layout.aspect
    is_relevant = (data.z != 0) | (data.runner_up != 0) | (np.nan_to_num(data.counts) > 0)
    shown, is_zoomed = raw, False
    if data.oracle.dim > _MAX_SINGLE_LINES and is_relevant.any():
        relevant = raw[ends[is_relevant].ravel()]
        is_zoomed = bool((np.ptp(relevant, axis=0) < MAX_ZOOMED_FRACTION * np.ptp(raw, axis=0)).all())
        shown = relevant if is_zoomed else raw
    low, size = shown.min(axis=0), np.ptp(shown, axis=0)
    size = np.where(size > 0, size, size.max() or 1.0)
    margin = 0.25 if is_zoomed else 0.04
    low, size = low - margin * size, size * (1 + 2 * margin)
    shape = _FREE_SHAPE
    if layout.is_map:  # keep its proportions: extend the section to the closest of the aspect ratios
        ratio = float(size[0] / size[1])
        shape = min(_ASPECT_RATIOS, key=lambda name: abs(np.log(_ASPECT_RATIOS[name] / ratio)))
        extended = size * np.maximum(1.0, [_ASPECT_RATIOS[shape] / ratio, ratio / _ASPECT_RATIOS[shape]])
        low, size = low - (extended - size) / 2, extended
    return 50.0 + (raw - low) / size * 900.0, shape, is_zoomed


def _single_lines(data: PictureData, lines: Array, edges: _Edges) -> list[Line]:
    """Return a line with a tooltip for each edge; antiparallel and parallel edges are bent apart."""
    widths, pairs, copies = data.relative_counts, {edge[:2] for edge in edges}, Counter[Any]()
    layers: dict[str, list[Line]] = {"e-faint": [], "e-seen": [], "e-in": [], "e-runner-up": []}  # from back to front
    for c, (u, v, *_) in enumerate(edges):
        bend = (40.0 if (v, u) in pairs else 0.0) + 60.0 * copies[u, v]
        copies[u, v] += 1
        path, width = _bent_path(lines[c], bend), _MAX_EXTRA_WIDTH * float(widths[c])
        css_class = "e-in" if data.z[c] else "e-runner-up" if data.added[c] else "e-seen" if widths[c] else "e-faint"
        base = {"e-in": 3.0, "e-runner-up": 2.5}.get(css_class, 1.0)
        layers[css_class].append(Line(css_class, round(base + width, 1), path, title=data.tooltip(c)))
    return [line for layer in layers.values() for line in layer]


def _grouped_lines(data: PictureData, lines: Array) -> tuple[list[Line], int]:
    """Return one path for each kind of edge and width, and the number of edges that are left out."""
    widths, is_chosen = data.relative_counts, (data.z != 0) | (data.runner_up != 0)
    is_inside = ((lines >= -20.0) & (lines <= 1020.0)).all(axis=(1, 2))
    measured = np.flatnonzero((widths > 0) & ~is_chosen & is_inside)
    measured = measured[np.argsort(-widths[measured], kind="stable")]
    rest = np.flatnonzero((widths == 0) & ~is_chosen & is_inside)
    few = len(rest) <= _MAX_UNMEASURED
    kept = rest if few else rest[np.linspace(0, len(rest) - 1, _MAX_UNMEASURED).astype(int)]
    drawn = [Line("e-faint", 0.7, _path(lines[kept]))] if len(kept) else []
    for css_class, picked, base in (
        ("e-seen", measured[:_MAX_MEASURED], 1.0),
        ("e-in", np.flatnonzero(data.z), 3.0),
    ):
        level = np.round(4.0 * widths[picked])
        drawn += [Line(css_class, base + one, _path(lines[picked[level == one]])) for one in np.unique(level)]
    if data.added.any():
        drawn.append(Line("e-runner-up", 3.0, _path(lines[data.added])))
    return drawn, len(rest) - len(kept) + max(0, len(measured) - _MAX_MEASURED)


def _path(lines: Array) -> str:
    """Return the commands of an SVG path that draws all lines."""
    rounded = np.round(lines).astype(int).reshape(-1, 4).tolist()
    return "".join(f"M{x1} {y1}L{x2} {y2}" for x1, y1, x2, y2 in rounded)


def _bent_path(line: Array, bend: float) -> str:
    """Return the commands of a line, or of a quadratic Bézier curve that leaves it by `bend`."""
    (x1, y1), (x2, y2) = line
    if not bend:
        return f"M{x1:.0f} {y1:.0f}L{x2:.0f} {y2:.0f}"
    direction = line[1] - line[0]
    offset = np.array([-direction[1], direction[0]]) / (float(np.hypot(*direction)) or 1.0) * bend
    x, y = (line[0] + line[1]) / 2 + offset
    return f"M{x1:.0f} {y1:.0f}Q{x:.0f} {y:.0f} {x2:.0f} {y2:.0f}"


class _LabelledNode(NamedTuple):
    """A node with a label: its position in percent, and whether it is an end of the route or on the answer."""

    label: str
    position: Array
    is_end: bool
    is_chosen: bool


def _labelled_nodes(
    oracle: Network, data: PictureData, places: Array, ends: Any, names: list[Hashable], shape: str
) -> tuple[Node, ...]:
    """Return dots with labels for all nodes, in large networks for the ends of the route only."""
    tips = [oracle.source, oracle.target] if isinstance(oracle, ShortestPathOracle) else []
    all_labelled = len(names) <= _MAX_LABELLED_NODES
    on_answer = {int(i) for i in ends[data.z != 0].ravel()}
    nodes: Iterable[_LabelledNode] = [
        _LabelledNode(clipped_node(name), (places[i] / 10.0).round(2), name in tips, i in on_answer)
        for i, name in enumerate(names)
        if all_labelled or name in tips
    ]
    lines = places[ends] / 10.0 if all_labelled else np.zeros((0, 2, 2))
    return _place_labels([*nodes], lines, shape)


def _place_labels(nodes: list[_LabelledNode], lines: Array, shape: str) -> tuple[Node, ...]:
    """Place labels greedily: ends first, then nodes of the answer, each at the position with the fewest overlaps.

    A label without a free position is only shown in the tooltip of its dot.
    """
    sizes = [np.array([width, width / _ASPECT_RATIOS.get(shape, ratio)]) for width, ratio in
             (_WIDE_SCREEN, _NARROW_SCREEN)]  # fmt: skip
    dots = [np.array([node.position / 100.0 * size for node in nodes]) for size in sizes]
    strokes = [_points_on(lines / 100.0 * size) for size in sizes]
    taken: list[list[_Box]] = [[], []]
    placed = list[Node]()
    for node in sorted(nodes, key=lambda node: (not node.is_end, not node.is_chosen)):
        is_short = len(node.label) <= _MAX_LABEL_LENGTH
        text = node.label if is_short else node.label[: _MAX_LABEL_LENGTH - 1] + "…"
        costs = []
        for anchor, dx, dy in _LABEL_POSITIONS:
            boxes = [_label_box(node.position / 100.0 * size, text, anchor, dx, dy) for size in sizes]
            cost_by_size = [
                _overlap_cost(box, size, taken[k], dots[k], strokes[k])
                for k, (box, size) in enumerate(zip(boxes, sizes, strict=True))
            ]
            costs.append((max(cost_by_size), boxes, anchor, dx, dy))
        cost, boxes, anchor, dx, dy = min(costs, key=lambda found: found[0])
        fits = cost < _MAX_COST or node.is_end
        css_class = "n-end" if node.is_end else "n-in" if node.is_chosen else ""
        x, y = float(node.position[0]), float(node.position[1])
        title = "" if fits and text == node.label else node.label
        placed.append(Node(x, y, text if fits else "", title, dx, dy, anchor, css_class))
        if fits:
            for boxes_of_size, box in zip(taken, boxes, strict=True):
                boxes_of_size.append(box)
    return tuple(placed)


def _points_on(lines: Array) -> Array:
    """Return nine points on each line, to count how many of them a label would cover."""
    steps = np.linspace(0.1, 0.9, 9)[None, :, None]
    return np.asarray(lines[:, :1] * (1 - steps) + lines[:, 1:] * steps).reshape(-1, 2)


def _label_box(position: Array, text: str, anchor: str, dx: float, dy: float) -> _Box:
    """Return left, top, right and bottom of a label in pixels."""
    width = _LETTER_WIDTH * len(text)
    left = position[0] + dx - {"middle": width / 2, "start": 0.0, "end": width}[anchor]
    return float(left), float(position[1] + dy - 12.0), float(left + width), float(position[1] + dy + 4.0)


def _overlap_cost(box: _Box, size: Array, taken: list[_Box], dots: Array, strokes: Array) -> float:
    """Return a weighted number of overlaps: labels count most, then dots and the edge of the picture, then lines."""
    left, top, right, bottom = box
    outside = max(-left, right - size[0], -top - _MARGIN, bottom - size[1] - _MARGIN)
    labels = sum(left < x2 and right > x1 and top < y2 and bottom > y1 for x1, y1, x2, y2 in taken)
    covered = _count_inside(dots, left - _DOT_RADIUS, top - _DOT_RADIUS, right + _DOT_RADIUS, bottom + _DOT_RADIUS)
    other_dots = max(0, covered - 1)  # one is the node's own
    return _MAX_COST * labels + 30.0 * other_dots + 20.0 * float(outside > 2.0) + _count_inside(strokes, *box)


def _count_inside(points: Array, left: float, top: float, right: float, bottom: float) -> int:
    if not len(points):
        return 0
    x, y = points.T
    return int(((x > left) & (x < right) & (y > top) & (y < bottom)).sum())

"""A route or a tree on its network.

Edges are drawn in a square of 1,000 x 1,000 that is stretched to the width of the page; names and dots are not.

Names beside the nodes of a network, so that they cover neither each other nor a dot, on a phone as on a desk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary

import numpy as np

from combopeps.oracles import ShortestPathOracle, SpanningTreeOracle
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.viz.layout import Layout, layout_of
from combopeps.viz.svg import Key, Line, Node, Picture
from combopeps.viz.view_model import Seen, clipped_node

_WIDE, _NARROW = (860.0, 1.8), (340.0, 0.9)  # pixels across, and width for height, of a picture that may stretch
_RATIOS = {"s-wide": 2.0, "s-usual": 1.5, "s-square": 1.0, "s-tall": 0.75}
_LETTER, _HIGH, _DOT = 7.2, 16.0, 6.0  # pixels
_MARGIN = 16.0  # pixels above and below the picture
_MAX_NAME = 18  # characters
_SIDES = (
    ("middle", 0.0, -11.0), ("middle", 0.0, 20.0), ("start", 12.0, 4.5), ("end", -12.0, 4.5),
    ("start", 8.0, -7.0), ("end", -8.0, -7.0), ("start", 8.0, 17.0), ("end", -8.0, 17.0),
)  # fmt: skip
Box = tuple[float, float, float, float]


class Spot(NamedTuple):
    """A node to be named: its number, name and place in percent, and whether it is an end, or on the answer."""

    number: int
    name: str
    at: Array
    is_end: bool
    is_chosen: bool


def place_names(spots: list[Spot], lines: Array, shape: str) -> tuple[Node, ...]:
    """Each name on the side where it covers least; those of ends and of the answer choose first.

    A name that finds no room goes into the title of its dot.
    """
    sizes = [_size(width, ratio, shape) for width, ratio in (_WIDE, _NARROW)]
    dots = [np.array([spot.at / 100.0 * size for spot in spots]) for size in sizes]
    strokes = [_along(lines / 100.0 * size) for size in sizes]
    taken: list[list[Box]] = [[], []]
    nodes = list[Node]()
    for spot in sorted(spots, key=lambda spot: (not spot.is_end, not spot.is_chosen)):
        text = spot.name if len(spot.name) <= _MAX_NAME else spot.name[: _MAX_NAME - 1] + "…"
        costs = []
        for anchor, dx, dy in _SIDES:
            boxes = [_box(spot.at / 100.0 * size, text, anchor, dx, dy) for size in sizes]
            trouble = [
                _cost(box, size, taken[k], dots[k], strokes[k])
                for k, (box, size) in enumerate(zip(boxes, sizes, strict=True))
            ]
            costs.append((max(trouble), boxes, anchor, dx, dy))
        cost, boxes, anchor, dx, dy = min(costs, key=lambda found: found[0])
        fits = cost < 100.0 or spot.is_end
        look = "n-end" if spot.is_end else "n-in" if spot.is_chosen else ""
        place = float(spot.at[0]), float(spot.at[1])
        title = "" if fits and text == spot.name else spot.name
        nodes.append(Node(*place, text if fits else "", title, dx, dy, anchor, look))
        if fits:
            for kept, box in zip(taken, boxes, strict=True):
                kept.append(box)
    return tuple(nodes)


def _size(width: float, ratio: float, shape: str) -> Array:
    return np.array([width, width / _RATIOS.get(shape, ratio)])


def _along(lines: Array) -> Array:
    """Points on lines, to see whether a name covers them."""
    steps = np.linspace(0.1, 0.9, 9)[None, :, None]
    return np.asarray(lines[:, :1] * (1 - steps) + lines[:, 1:] * steps).reshape(-1, 2)


def _box(at: Array, text: str, anchor: str, dx: float, dy: float) -> Box:
    width = _LETTER * len(text)
    left = at[0] + dx - {"middle": width / 2, "start": 0.0, "end": width}[anchor]
    return float(left), float(at[1] + dy - 12.0), float(left + width), float(at[1] + dy + 4.0)


def _cost(box: Box, size: Array, taken: list[Box], dots: Array, strokes: Array) -> float:
    left, top, right, bottom = box
    outside = max(-left, right - size[0], -top - _MARGIN, bottom - size[1] - _MARGIN)
    covers = sum(left < c and right > a and top < d and bottom > b for a, b, c, d in taken)
    hits = _inside(dots, left - _DOT, top - _DOT, right + _DOT, bottom + _DOT)
    return 100.0 * covers + 30.0 * max(0, hits - 1) + 20.0 * float(outside > 2.0) + _inside(strokes, *box)


def _inside(points: Array, left: float, top: float, right: float, bottom: float) -> int:
    if not len(points):
        return 0
    x, y = points.T
    return int(((x > left) & (x < right) & (y > top) & (y < bottom)).sum())


Network = ShortestPathOracle | SpanningTreeOracle
MOST_EDGES = 20_000  # that a layout is affordable for where nodes have no coordinates
_SMALL = 250  # edges up to which each is a line of its own, with a title
_FAINT, _SEEN = 3_000, 3_000  # edges of a large network that are drawn: not measured, measured
_NAMED = 40  # nodes
_WIDEST = 5.0
_CLOSE = 0.5  # of a large map, both ways: where all that there is to see lies in less, the rest is left out
_SHAPES = {"s-wide": 2.0, "s-usual": 1.5, "s-square": 1.0, "s-tall": 0.75}
_layouts: WeakKeyDictionary[ArgmaxOracle, Layout] = WeakKeyDictionary()
_Edges = tuple[tuple[Hashable, ...], ...]


def has_picture(oracle: ArgmaxOracle) -> bool:
    """Is it a network, with coordinates or small enough for a layout?"""
    return isinstance(oracle, ShortestPathOracle | SpanningTreeOracle) and (
        oracle.dim <= MOST_EDGES or oracle.pos is not None
    )


def network(seen: Seen) -> Picture:
    """The answer, the rival where it differs, and edges as wide as they were measured."""
    oracle = cast(Network, seen.oracle)
    if oracle not in _layouts:
        _layouts[oracle] = layout_of(oracle, None)
    layout, edges = _layouts[oracle], cast(_Edges, oracle.components)
    number = {node: i for i, node in enumerate(layout.at)}
    ends = np.array([[number[edge[0]], number[edge[1]]] for edge in edges])
    places, shape, part = _framed(seen, layout, ends)
    large = oracle.dim > _SMALL
    lines, hidden = _many(seen, places[ends]) if large else (_few(seen, places[ends], edges), 0)
    notes = [layout.note] if layout.note else []
    notes += [f"a part of the network of {oracle.dim:,} edges"] if part else []
    notes += [f"{hidden:,} edges that are in neither are not drawn"] if hidden else []
    tree = isinstance(oracle, SpanningTreeOracle)
    return Picture(
        "network",
        "The tree on its network" if tree else "The route on its network",
        f"A network of {len(number):,} nodes and {oracle.dim:,} edges, with the answer and its rival drawn on it.",
        _legend(seen),
        shape=shape,
        lines=tuple(lines),
        nodes=_nodes(oracle, seen, places, ends, list(number), shape),
        note="; ".join(notes),
    )


def _legend(seen: Seen) -> tuple[Key, ...]:
    keys = [Key("k-answer", "the answer")] if seen.z.any() else []
    keys += [Key("k-dashed", "its rival, where it differs")] if seen.added.any() else []
    keys += [Key("k-seen", "the thicker, the more often measured")] if np.nan_to_num(seen.counts).any() else []
    keys += [Key("k-faint", "never measured")] if (np.nan_to_num(seen.counts) == 0).any() else []
    return tuple(keys)


def _framed(seen: Seen, layout: Layout, ends: Any) -> tuple[Array, str, bool]:
    """Places in the square, the shape that it is stretched to, and whether only a part is shown."""
    raw = np.array(list(layout.at.values()), dtype=float) * (1.0, -1.0)
    if layout.aspect is not None:
        raw[:, 1] *= layout.aspect
    interest = (seen.z != 0) | (seen.rival != 0) | (np.nan_to_num(seen.counts) > 0)
    bounds, part = raw, False
    if seen.oracle.dim > _SMALL and interest.any():
        close = raw[ends[interest].ravel()]
        part = bool((np.ptp(close, axis=0) < _CLOSE * np.ptp(raw, axis=0)).all())
        bounds = close if part else raw
    low, size = bounds.min(axis=0), np.ptp(bounds, axis=0)
    size = np.where(size > 0, size, size.max() or 1.0)
    margin = 0.25 if part else 0.04
    low, size = low - margin * size, size * (1 + 2 * margin)
    shape = "s-free"
    if layout.is_map:
        ratio = float(size[0] / size[1])
        shape = min(_SHAPES, key=lambda name: abs(np.log(_SHAPES[name] / ratio)))
        wanted = size * np.maximum(1.0, [_SHAPES[shape] / ratio, ratio / _SHAPES[shape]])
        low, size = low - (wanted - size) / 2, wanted
    inner = 50.0 + (raw - low) / size * 900.0
    return inner, shape, part


def _few(seen: Seen, lines: Array, edges: _Edges) -> list[Line]:
    """Each edge a line with a title; the two directions of a street, and parallel edges, bend apart."""
    share, pairs, copies = seen.share, {edge[:2] for edge in edges}, Counter[Any]()
    drawn: dict[str, list[Line]] = {"e-faint": [], "e-seen": [], "e-in": [], "e-rival": []}
    for c, (u, v, *_) in enumerate(edges):
        bend = (40.0 if (v, u) in pairs else 0.0) + 60.0 * copies[u, v]
        copies[u, v] += 1
        path, width = _bent(lines[c], bend), _WIDEST * float(share[c])
        look = "e-in" if seen.z[c] else "e-rival" if seen.added[c] else "e-seen" if share[c] else "e-faint"
        base = {"e-in": 3.0, "e-rival": 2.5}.get(look, 1.0)
        drawn[look].append(Line(look, round(base + width, 1), path, title=seen.about(c)))
    return [line for kind in drawn.values() for line in kind]


def _many(seen: Seen, lines: Array) -> tuple[list[Line], int]:
    """One path for each kind of edge and width; how many edges are left out."""
    share, chosen = seen.share, (seen.z != 0) | (seen.rival != 0)
    inside = ((lines >= -20.0) & (lines <= 1020.0)).all(axis=(1, 2))
    measured = np.flatnonzero((share > 0) & ~chosen & inside)
    measured = measured[np.argsort(-share[measured], kind="stable")]
    rest = np.flatnonzero((share == 0) & ~chosen & inside)
    kept = rest if len(rest) <= _FAINT else rest[np.linspace(0, len(rest) - 1, _FAINT).astype(int)]
    drawn = [Line("e-faint", 0.7, _path(lines[kept]))] if len(kept) else []
    for look, picked, base in (("e-seen", measured[:_SEEN], 1.0), ("e-in", np.flatnonzero(seen.z), 3.0)):
        level = np.round(4.0 * share[picked])
        drawn += [Line(look, base + one, _path(lines[picked[level == one]])) for one in np.unique(level)]
    if seen.added.any():
        drawn.append(Line("e-rival", 3.0, _path(lines[seen.added])))
    return drawn, len(rest) - len(kept) + max(0, len(measured) - _SEEN)


def _path(lines: Array) -> str:
    whole = np.round(lines).astype(int).reshape(-1, 4).tolist()
    return "".join(f"M{a} {b}L{c} {d}" for a, b, c, d in whole)


def _bent(line: Array, bend: float) -> str:
    (a, b), (c, d) = line
    if not bend:
        return f"M{a:.0f} {b:.0f}L{c:.0f} {d:.0f}"
    way = line[1] - line[0]
    side = np.array([-way[1], way[0]]) / (float(np.hypot(*way)) or 1.0) * bend
    x, y = (line[0] + line[1]) / 2 + side
    return f"M{a:.0f} {b:.0f}Q{x:.0f} {y:.0f} {c:.0f} {d:.0f}"


def _nodes(
    oracle: Network, seen: Seen, places: Array, ends: Any, names: list[Hashable], shape: str
) -> tuple[Node, ...]:
    """Dots and names, in large networks of the two ends only."""
    tips = [oracle.source, oracle.target] if isinstance(oracle, ShortestPathOracle) else []
    few = len(names) <= _NAMED
    on_answer = {int(i) for i in ends[seen.z != 0].ravel()}
    spots: Iterable[Spot] = [
        Spot(i, clipped_node(name), (places[i] / 10.0).round(2), name in tips, i in on_answer)
        for i, name in enumerate(names)
        if few or name in tips
    ]
    lines = places[ends] / 10.0 if few else np.zeros((0, 2, 2))
    return place_names([*spots], lines, shape)

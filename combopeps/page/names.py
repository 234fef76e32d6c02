"""Names beside the nodes of a network, so that they cover neither each other nor a dot, on a phone as on a desk."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from combopeps.oracles.base import Array
from combopeps.page.shapes import Node

_WIDE, _NARROW = (860.0, 1.8), (340.0, 0.9)  # pixels across, and width for height, of a picture that may stretch
_RATIOS = {"s-wide": 2.0, "s-usual": 1.5, "s-square": 1.0, "s-tall": 0.75}
_LETTER, _HIGH, _DOT = 7.2, 16.0, 6.0  # pixels
_MARGIN = 16.0  # pixels above and below the picture
_LONGEST = 18  # characters
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
        text = spot.name if len(spot.name) <= _LONGEST else spot.name[: _LONGEST - 1] + "…"
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

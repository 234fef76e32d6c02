"""Where nodes lie: coordinates among the attributes of a graph's nodes, under the names that people give them."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import networkx as nx

Place = tuple[float, float]
_DEGREES = (("lon", "lat"), ("lng", "lat"), ("long", "lat"), ("longitude", "latitude"))
_PAIRS = (("x", "y"), *_DEGREES)
_POINTS = ("pos", "graphics")  # one attribute for both; the second is that of GML
_LARGEST = 1e150
_PLAIN = re.compile(r"[-+]?[0-9.]+([eE][-+]?[0-9]+)?")


def find_places(graph: nx.Graph[Any], nodes: Collection[Hashable]) -> tuple[dict[Hashable, Place] | None, bool]:
    """Coordinates of nodes, and whether they are degrees; None unless one pair of names places at least half of them.

    Examples
    --------
    >>> import networkx as nx
    >>> graph = nx.Graph([("Bern", "Chur")])
    >>> graph.add_node("Bern", Longitude=7.45, Latitude=46.95)
    >>> graph.add_node("Chur", Longitude=9.53, Latitude=46.85)
    >>> find_places(graph, list(graph))
    ({'Bern': (7.45, 46.95), 'Chur': (9.53, 46.85)}, True)
    """
    if not any(data for _, data in graph.nodes(data=True)):  # most graphs
        return None, False
    told = {node: {str(key).lower(): value for key, value in graph.nodes[node].items()} for node in nodes}
    for names in (*((name,) for name in _POINTS), *_PAIRS):
        found = {node: place for node, data in told.items() if (place := _place(data, names)) is not None}
        if 2 * len(found) >= len(told) and len(set(found.values())) > 1:
            degrees = names in _DEGREES or "4326" in str(graph.graph.get("crs", ""))
            return found, degrees or looks_like_degrees(found.values())
    return None, False


def as_place(value: Any) -> Place | None:
    """A point: two numbers, a text that holds two, or an object with x and y; None for anything else."""
    if isinstance(value, Mapping):
        return _place({str(key).lower(): part for key, part in value.items()}, ("x", "y"))
    if isinstance(value, str):
        value = re.split(r"[,;\s]+", value.strip(" ()[]!"))
    if not isinstance(value, (Sequence, np.ndarray)) or len(value) != 2:
        return None
    x, y = _number(value[0]), _number(value[1])
    return None if x is None or y is None else (x, y)


def looks_like_degrees(places: Iterable[Place]) -> bool:
    """Longitudes and latitudes, where no name says so: in their range, no whole numbers, and far from the origin.

    Layouts and plans begin at the origin or lie around it. A town that is taken for a plan is drawn too wide, no more.
    """
    points = np.array(list(places))
    low, high = points.min(axis=0), points.max(axis=0)
    in_range = bool((np.abs(points) <= (180.0, 90.0)).all()) and bool((points % 1.0).any())
    away = np.maximum(np.maximum(low, -high), 0.0).max()  # of the box from the origin
    return in_range and bool(away > (high - low).max())


def _place(data: Mapping[str, Any], names: tuple[str, ...]) -> Place | None:
    if not all(name in data for name in names):
        return None
    return as_place(data[names[0]] if len(names) == 1 else [data[name] for name in names])


def _number(value: Any) -> float | None:
    """A finite number, or the text of one: some files hold texts only."""
    if isinstance(value, str) and _PLAIN.fullmatch(value.strip()):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, Real) or not abs(float(value)) < _LARGEST:
        return None
    return float(value)

"""Positions of the nodes of a network: their coordinates, or a layout where there are none."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import cos, radians
from numbers import Real
from typing import Any, cast

import numpy as np

from combopeps.errors import ParameterError
from combopeps.oracles import ShortestPathOracle, SpanningTreeOracle
from combopeps.oracles.base import Array
from combopeps.oracles.graph_arrays import Point, look_like_degrees, parse_point

Network = ShortestPathOracle | SpanningTreeOracle
MAX_LAYOUT_EDGES = 20_000  # without coordinates: a layout of larger networks takes too long
# A large network is zoomed if all that is measured or drawn lies within this fraction of its width and of its height.
MAX_ZOOMED_FRACTION = 0.5
_MAX_KAMADA_KAWAI_NODES = 150  # its time grows with the cube of the number of nodes
_PIVOTS = 30  # of pivot scaling, for larger networks
_MIN_COS_LATITUDE = 0.1  # near the poles: maps are stretched by a factor of 10 at most


@dataclass(frozen=True)
class Layout:
    """Positions of nodes.

    Attributes
    ----------
    positions
        Position of each node, (2,).
    aspect
        Height of a unit of y divided by the width of a unit of x, for maps; None where any aspect ratio will do.
    note
        Remark about the positions, for the title.
    """

    positions: dict[Hashable, Array]
    aspect: float | None = None
    note: str = ""

    @property
    def is_map(self) -> bool:
        """Whether positions are coordinates of the nodes."""
        return self.aspect is not None


def layout_of(oracle: Network, pos: Mapping[Hashable, Any] | None) -> Layout:
    """Return the given coordinates, else those of the oracle, else a computed layout."""
    edges = [edge[:2] for edge in cast("tuple[tuple[Hashable, ...], ...]", oracle.components)]
    nodes = dict.fromkeys(node for edge in edges for node in edge)
    if pos is not None:
        given = _checked(pos, nodes)
        return _map_layout(given, edges, look_like_degrees(given.values()))
    if oracle.pos is not None:
        return _map_layout(oracle.pos, edges, oracle.in_degrees)
    if isinstance(oracle, SpanningTreeOracle):
        return Layout(_computed_positions(edges, *edges[0], directed=False))
    return Layout(_computed_positions(edges, oracle.source, oracle.target, directed=oracle.directed))


def _checked(pos: Mapping[Hashable, Any], nodes: Mapping[Hashable, None]) -> dict[Hashable, Point]:
    """Return the coordinates of the nodes that have some; raise if they are invalid, or fewer than half have some."""
    if not isinstance(pos, Mapping):
        raise ParameterError(f"pos must be a dict of nodes and their coordinates, got {type(pos).__name__}")
    found: dict[Hashable, Point] = {}
    for node in nodes:
        if node in pos:
            place = parse_point(pos[node])
            if place is None:
                raise ParameterError(f"pos[{node!r:.40}] must be two finite numbers, got {pos[node]!r:.40}")
            found[node] = place
    missing = [node for node in nodes if node not in found]
    if 2 * len(found) < len(nodes):
        raise ParameterError(
            f"pos has coordinates for {len(found)} of {len(nodes)} nodes, and at least half are needed; "
            f"missing are {', '.join(map(repr, missing[:3]))}, ..."
        )
    return found


def _map_layout(places: Mapping[Hashable, Point], edges: Sequence[tuple[Hashable, ...]], in_degrees: bool) -> Layout:
    """Return a layout with equal scales in both directions.

    A degree of longitude is shorter than a degree of latitude by the cosine of the latitude.
    """
    positions = {node: np.array(place) for node, place in places.items()}
    placed = len(positions)
    _interpolate_missing(positions, edges)
    latitude = float(np.mean([place[1] for place in places.values()]))
    aspect = 1.0 / max(_MIN_COS_LATITUDE, cos(radians(latitude))) if in_degrees else 1.0
    missing = len(positions) - placed
    subject = "node without coordinates stands" if missing == 1 else "nodes without coordinates stand"
    return Layout(positions, aspect, f"{missing} {subject} between neighbours" if missing else "")


def _interpolate_missing(positions: dict[Hashable, Array], edges: Sequence[tuple[Hashable, ...]]) -> None:
    """Place nodes without coordinates at the mean of their neighbours, repeatedly until all are placed."""
    neighbours: dict[Hashable, list[Hashable]] = {}
    for u, v in edges:
        for node, other in ((u, v), (v, u)):
            if node not in positions:
                neighbours.setdefault(node, []).append(other)
    while neighbours:
        means = {
            node: np.mean([positions[other] for other in others if other in positions], axis=0)
            for node, others in neighbours.items()
            if any(other in positions for other in others)
        }
        positions.update(means)
        neighbours = {node: others for node, others in neighbours.items() if node not in means}


def _computed_positions(
    edges: Sequence[tuple[Any, ...]], source: Hashable, target: Hashable, *, directed: bool
) -> dict[Hashable, Array]:
    """Return positions that are computed from the graph.

    Nodes that are pairs of numbers are their own coordinates. Directed acyclic graphs are drawn in layers. Others are
    embedded by graph distances, with source and target level: small ones by the layout of Kamada and Kawai, which uses
    the distances between all pairs of nodes, large ones by the distances from a few pivots.
    """
    import networkx as nx

    graph: nx.Graph[Any] = nx.DiGraph(list(edges)) if directed else nx.Graph(list(edges))
    if all(isinstance(node, tuple) and len(node) == 2 and all(isinstance(x, Real) for x in node) for node in graph):
        return {node: np.array(node, dtype=float) for node in graph}
    if directed and nx.is_directed_acyclic_graph(graph):
        return _layered(graph)
    if len(graph) <= _MAX_KAMADA_KAWAI_NODES:
        return _levelled(nx.kamada_kawai_layout(graph.to_undirected()), source, target)
    return _levelled(_pivot_scaling(graph), source, target)


def _pivot_scaling(graph: Any) -> dict[Hashable, Array]:
    """Embed a graph in two dimensions by the distances from a few nodes far apart (PivotMDS).

        C = -(D² - row means - column means + mean) / 2,   positions = C times the leading eigenvectors of C'C

    Classical multidimensional scaling with D restricted to the columns of the pivots (Brandes and Pich, 2007).
    """
    import networkx as nx
    from scipy.sparse.csgraph import dijkstra

    adjacency = nx.to_scipy_sparse_array(graph, weight=None, format="csr")
    distances: list[Array] = []
    pivot = 0
    for _ in range(_PIVOTS):
        distances.append(dijkstra(adjacency, directed=False, indices=[pivot], unweighted=True)[0])
        pivot = int(np.min(distances, axis=0).argmax())  # the farthest from all pivots so far
    squares = np.array(distances).T ** 2
    centred = -0.5 * (squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean())
    positions = centred @ np.linalg.eigh(centred.T @ centred)[1][:, -2:]
    return dict(zip(graph, positions, strict=True))


def _layered(graph: Any) -> dict[Hashable, Array]:
    """Place each node one layer after the last of its predecessors, spread evenly within the layer."""
    import networkx as nx

    positions = {}
    for x, layer in enumerate(nx.topological_generations(graph)):
        ranks = np.arange(len(layer)) - (len(layer) - 1) / 2.0
        for node, rank in zip(sorted(layer, key=str), ranks, strict=True):
            # Odd layers are shifted, so that an edge that skips a layer does not run through its nodes.
            positions[node] = np.array([float(x), -float(rank) - 0.15 * (x % 2)])
    return positions


def _levelled(layout: dict[Hashable, Array], source: Hashable, target: Hashable) -> dict[Hashable, Array]:
    """Rotate a layout so that the source is left of the target, at the same height."""
    direction = np.asarray(layout[target]) - np.asarray(layout[source])
    cosine, sine = direction / (np.linalg.norm(direction) or 1.0)
    rotation = np.array([[cosine, sine], [-sine, cosine]])
    return {node: rotation @ np.asarray(place) for node, place in layout.items()}

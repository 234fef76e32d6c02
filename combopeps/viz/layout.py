"""Where the nodes of a network stand in a picture: at their coordinates, or where a layout puts them."""

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
from combopeps.oracles.graph import Place, as_place, looks_like_degrees

_SMALL = 150  # nodes that a careful layout is affordable for
_PIVOTS = 30  # of a large network
_NEAR_THE_POLE = 0.1  # no map is drawn more than ten times as wide as its degrees


@dataclass(frozen=True)
class Layout:
    """A point for each node; the aspect of a map (None: any will do), and what to say about it."""

    at: dict[Hashable, Array]
    aspect: float | None = None
    note: str = ""

    @property
    def is_map(self) -> bool:
        """Do nodes stand at coordinates of their own?"""
        return self.aspect is not None


def layout_of(oracle: ShortestPathOracle | SpanningTreeOracle, pos: Mapping[Hashable, Any] | None) -> Layout:
    """The coordinates given, or those of the oracle; without any, a layout."""
    edges = [edge[:2] for edge in cast("tuple[tuple[Hashable, ...], ...]", oracle.components)]
    nodes = dict.fromkeys(node for edge in edges for node in edge)
    if pos is not None:
        given = _checked(pos, nodes)
        return _map(given, edges, looks_like_degrees(given.values()))
    if oracle.pos is not None:
        return _map(oracle.pos, edges, oracle.in_degrees)
    if isinstance(oracle, SpanningTreeOracle):
        return Layout(_positions(edges, *edges[0], directed=False))
    return Layout(_positions(edges, oracle.source, oracle.target, directed=oracle.directed))


def _checked(pos: Mapping[Hashable, Any], nodes: Mapping[Hashable, None]) -> dict[Hashable, Place]:
    if not isinstance(pos, Mapping):
        raise ParameterError(f"pos must be a dict of nodes and their coordinates, got {type(pos).__name__}")
    found: dict[Hashable, Place] = {}
    for node in nodes:
        if node in pos:
            place = as_place(pos[node])
            if place is None:
                raise ParameterError(f"pos[{node!r:.40}] must be two finite numbers, got {pos[node]!r:.40}")
            found[node] = place
    missing = [node for node in nodes if node not in found]
    if 2 * len(found) < len(nodes):
        raise ParameterError(
            f"pos places {len(found)} of {len(nodes)} nodes, and at least half are needed; "
            f"there is nothing for {', '.join(map(repr, missing[:3]))}, ..."
        )
    return found


def _map(places: Mapping[Hashable, Place], edges: Sequence[tuple[Hashable, ...]], in_degrees: bool) -> Layout:
    """Equal scales both ways; a degree of longitude is shorter than one of latitude by the cosine of that."""
    at = {node: np.array(place) for node, place in places.items()}
    placed = len(at)
    _fill_in(at, edges)
    latitude = float(np.mean([place[1] for place in places.values()]))
    aspect = 1.0 / max(_NEAR_THE_POLE, cos(radians(latitude))) if in_degrees else 1.0
    few = len(at) - placed
    stand = "node without coordinates stands" if few == 1 else "nodes without coordinates stand"
    return Layout(at, aspect, f"{few} {stand} between neighbours" if few else "")


def _fill_in(at: dict[Hashable, Array], edges: Sequence[tuple[Hashable, ...]]) -> None:
    """A node that has no coordinates goes to the middle of its neighbours."""
    neighbours: dict[Hashable, list[Hashable]] = {}
    for u, v in edges:
        for node, other in ((u, v), (v, u)):
            if node not in at:
                neighbours.setdefault(node, []).append(other)
    while neighbours:
        middle = {
            node: np.mean([at[other] for other in others if other in at], axis=0)
            for node, others in neighbours.items()
            if any(other in at for other in others)
        }
        at.update(middle)
        neighbours = {node: others for node, others in neighbours.items() if node not in middle}


def _positions(
    edges: Sequence[tuple[Any, ...]], source: Hashable, target: Hashable, *, directed: bool
) -> dict[Hashable, Array]:
    """Pairs of numbers are coordinates; acyclic graphs go by layers; others by distances, turned upright.

    Kamada and Kawai take the distances between all nodes, which is for small graphs; large ones take those from pivots.
    """
    import networkx as nx

    graph: nx.Graph[Any] = nx.DiGraph(list(edges)) if directed else nx.Graph(list(edges))
    if all(isinstance(node, tuple) and len(node) == 2 and all(isinstance(x, Real) for x in node) for node in graph):
        return {node: np.array(node, dtype=float) for node in graph}
    if directed and nx.is_directed_acyclic_graph(graph):
        return _layers(graph)
    if len(graph) <= _SMALL:
        return _turned(nx.kamada_kawai_layout(graph.to_undirected()), source, target)
    return _turned(_by_pivots(graph), source, target)


def _by_pivots(graph: Any) -> dict[Hashable, Array]:
    """Distances from a few nodes far apart, scaled to two dimensions: for a mesh, about what it looks like.

        C = -(D² - row means - column means + mean) / 2,   positions = C times the leading eigenvectors of C'C

    Classical scaling with D restricted to the columns of the pivots.
    """
    import networkx as nx
    from scipy.sparse.csgraph import dijkstra

    links = nx.to_scipy_sparse_array(graph, weight=None, format="csr")
    hops: list[Array] = []
    pivot = 0
    for _ in range(_PIVOTS):
        hops.append(dijkstra(links, directed=False, indices=[pivot], unweighted=True)[0])
        pivot = int(np.min(hops, axis=0).argmax())  # the farthest from all pivots so far
    squares = np.array(hops).T ** 2
    centred = -0.5 * (squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean())
    places = centred @ np.linalg.eigh(centred.T @ centred)[1][:, -2:]
    return dict(zip(graph, places, strict=True))


def _layers(graph: Any) -> dict[Hashable, Array]:
    """Each node one step after the last of its predecessors, spread evenly within its layer."""
    import networkx as nx

    at = {}
    for x, layer in enumerate(nx.topological_generations(graph)):
        ranks = np.arange(len(layer)) - (len(layer) - 1) / 2.0
        for node, rank in zip(sorted(layer, key=str), ranks, strict=True):
            at[node] = np.array([float(x), -float(rank) - 0.15 * (x % 2)])  # a shift: edges over a layer stay visible
    return at


def _turned(layout: dict[Hashable, Array], source: Hashable, target: Hashable) -> dict[Hashable, Array]:
    """Rotated so that source and target lie level."""
    way = np.asarray(layout[target]) - np.asarray(layout[source])
    cosine, sine = way / (np.linalg.norm(way) or 1.0)
    turn = np.array([[cosine, sine], [-sine, cosine]])
    return {node: turn @ np.asarray(place) for node, place in layout.items()}

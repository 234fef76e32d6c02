"""Conversion of networkx graphs to arrays: route networks without irrelevant edges, Laplacians, node positions."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, cast

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from combopeps.errors import GraphError
from combopeps.utils.formatting import short_repr

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Index = NDArray[np.integer[Any]]
Point = tuple[float, float]

_SHOWN_PARTS, _SHOWN_NODES = 5, 4  # connected components that an error names, and nodes of each
_MAX_PYTHON_ARCS = 2000  # up to which a search in Python takes less time than importing `csgraph`
_DEGREES = (("lon", "lat"), ("lng", "lat"), ("long", "lat"), ("longitude", "latitude"))
_COORDINATE_PAIRS = (("x", "y"), *_DEGREES)
_POINT_ATTRIBUTES = ("pos", "graphics")  # one attribute for both coordinates; "graphics" is that of GML
_MAX_COORDINATE = 1e150
_PLAIN_NUMBER = re.compile(r"[-+]?[0-9.]+([eE][-+]?[0-9]+)?")


@dataclass(frozen=True)
class RouteNetwork:
    """The arcs that can be on a route, as described in `combopeps.oracles.path` (source 0, target n-1)."""

    indptr: Index
    tails: Index
    heads: Index
    component: Index
    acyclic: bool

    @cached_property
    def entering(self) -> tuple[Index, Index]:
        """Arcs grouped by head: offsets of the groups, and the arcs."""
        order = np.argsort(self.heads, kind="stable")
        return np.searchsorted(self.heads[order], np.arange(self.size + 1)), order

    @property
    def size(self) -> int:
        """The number of nodes."""
        return len(self.indptr) - 1


def check_graph(graph: Any, source: Hashable, target: Hashable) -> None:
    """Raise `GraphError` for a graph, source or target that cannot define routes."""
    if not isinstance(graph, nx.Graph):
        raise GraphError(f"graph must be a networkx graph, got {type(graph).__name__}")
    if graph.number_of_edges() == 0:
        raise GraphError("the graph has no edges; add some before asking for a route")
    for name, node in (("source", source), ("target", target)):
        if node not in graph or node != node:
            some = list(graph.nodes)[:5]
            raise GraphError(f"{name} {node!r} is not a node of the graph; its nodes are {some}, ...")
    if source == target:
        raise GraphError(f"source and target are both {source!r}; a route needs two different nodes")


def check_connected(graph: Any) -> None:
    """Raise `GraphError` for a graph that has no spanning trees."""
    if not isinstance(graph, nx.Graph):
        raise GraphError(f"graph must be a networkx graph, got {type(graph).__name__}")
    if graph.is_directed():
        raise GraphError("spanning trees need an undirected graph; give graph.to_undirected()")
    if graph.number_of_nodes() < 2:
        raise GraphError(f"the graph has {graph.number_of_nodes()} nodes; a spanning tree needs two, joined by edges")
    parts = sorted(cast("Iterable[set[Hashable]]", nx.connected_components(graph)), key=len, reverse=True)
    if len(parts) > 1:
        shown = [
            short_repr([node for node in graph if node in part][:_SHOWN_NODES], 100) for part in parts[:_SHOWN_PARTS]
        ]
        sizes = [f"{text} ({len(part)} nodes)" for text, part in zip(shown, parts, strict=False)]
        more = f" and {len(parts) - _SHOWN_PARTS} more" if len(parts) > _SHOWN_PARTS else ""
        raise GraphError(
            f"the graph is not connected, and no tree spans it: its {len(parts)} components hold {'; '.join(sizes)}"
            f"{more}. Add edges between them, or take each apart: graph.subgraph(nodes) for nodes in "
            "networkx.connected_components(graph)"
        )


def log_determinant(n: int, u: Index, v: Index, *, max_dense: int) -> float:
    """Compute ln det of the Laplacian without its last row and column; sparse above `max_dense` nodes."""
    from scipy.sparse import csc_array, diags_array

    ends, others = np.concatenate([u, v]), np.concatenate([v, u])
    laplacian = diags_array(np.bincount(ends, minlength=n).astype(np.float64)) - _adjacency(n, ends, others)
    reduced = csc_array(laplacian)[:-1, :-1]
    if n <= max_dense:
        return float(np.linalg.slogdet(reduced.toarray())[1])
    from scipy.sparse.linalg import splu

    return float(np.log(np.abs(splu(reduced, permc_spec="MMD_AT_PLUS_A").U.diagonal())).sum())


def edge_labels(graph: nx.Graph[Any]) -> list[tuple[Hashable, ...]]:
    """Return the edges (u, v), or (u, v, key) of a multigraph, in the order of the graph."""
    if isinstance(graph, (nx.MultiGraph, nx.MultiDiGraph)):
        return list(graph.edges(keys=True))
    return list(graph.edges())


def route_network(
    graph: nx.Graph[Any],
    labels: list[tuple[Hashable, ...]],
    source: Hashable,
    target: Hashable,
    *,
    prune: bool | Literal["cuts"],
) -> tuple[RouteNetwork, NDArray[np.bool_]]:
    """Return the network of all routes, and the mask of the edges that are components.

    An edge is on a route if a simple source-target path uses it. The test is exact for acyclic and for undirected
    graphs. For directed graphs with cycles it is NP-hard, and an edge is kept unless reachability, a cut node or a
    dominator rules it out; with `prune="cuts"` dominators are not used.
    """
    number = {node: i for i, node in enumerate(graph.nodes)}
    u = np.array([number[label[0]] for label in labels], dtype=np.int64)
    v = np.array([number[label[1]] for label in labels], dtype=np.int64)
    edge = np.arange(len(labels))
    if not graph.is_directed():
        u, v, edge = np.concatenate([u, v]), np.concatenate([v, u]), np.concatenate([edge, edge])
    n, s, t = len(number), number[source], number[target]
    on_route = _on_route(n, u, v, s, t, dominators=prune != "cuts")
    if not on_route.any():
        raise GraphError(f"there is no route from {source!r} to {target!r}; add edges, or swap the two")

    kept = np.ones(len(labels), dtype=bool)
    if prune:
        kept[:] = False
        kept[edge[on_route]] = True
    component = np.cumsum(kept) - 1
    u, v, edge = u[on_route], v[on_route], edge[on_route]
    return _number_nodes(n, u, v, component[edge], s, t, directed=graph.is_directed()), kept


def _number_nodes(n: int, u: Index, v: Index, component: Index, s: int, t: int, *, directed: bool) -> RouteNetwork:
    """Number the nodes topologically on an acyclic graph, otherwise with the source first and the target last."""
    from combopeps.oracles._graph_kernels import topological_order

    others = np.setdiff1d(np.unique(u), [s])  # the target is no tail of an arc on a route
    rank = np.full(n, -1)
    rank[np.concatenate([[s], others, [t]])] = np.arange(len(others) + 2)
    network = _group_arcs(rank[u], rank[v], component, acyclic=False)
    if not directed:
        return network
    order = topological_order(network.indptr, network.heads)
    if len(order) < network.size:
        return network
    position = np.argsort(order)
    return _group_arcs(position[network.tails], position[network.heads], network.component, acyclic=True)


def _group_arcs(tails: Index, heads: Index, component: Index, *, acyclic: bool) -> RouteNetwork:
    """Sort arcs by head on an acyclic graph, by tail otherwise."""
    group = heads if acyclic else tails
    order = np.argsort(group, kind="stable")
    indptr: Index = np.searchsorted(group[order], np.arange(heads.max() + 2))
    indptr, tails, heads, component = (
        array.astype(np.int32) for array in (indptr, tails[order], heads[order], component[order])
    )
    return RouteNetwork(indptr, tails, heads, component, acyclic)


def _on_route(n: int, u: Index, v: Index, s: int, t: int, *, dominators: bool) -> NDArray[np.bool_]:
    """Return the mask of the arcs that can be on a simple s-t route, by elimination until nothing changes."""
    keep: NDArray[np.bool_] = (u != v) & (v != s) & (u != t)
    while True:
        left = keep & _reachable(n, u[keep], v[keep], s)[u] & _reachable(n, v[keep], u[keep], t)[v]
        if _has_cycle(n, u[left], v[left]):
            block = _route_block(n, u[left], v[left], s, t)
            left &= block[u] & block[v]
            if dominators:
                is_back = _head_dominates_tail(n, u[left], v[left], s) | _head_dominates_tail(n, v[left], u[left], t)
                left[left] = ~is_back
        if np.array_equal(left, keep):
            return keep
        keep = left


def _reachable(n: int, u: Index, v: Index, start: int) -> NDArray[np.bool_]:
    """Return the mask of the nodes that are reachable from the start."""
    reached = np.zeros(n, dtype=bool)
    if len(u) > _MAX_PYTHON_ARCS:
        from scipy.sparse.csgraph import breadth_first_order

        reached[breadth_first_order(_adjacency(n, u, v), start, return_predecessors=False)] = True
        return reached
    successors = defaultdict(list)
    for tail, head in zip(u.tolist(), v.tolist(), strict=True):
        successors[tail].append(head)
    reached[start], frontier = True, [start]
    while frontier:
        new = [node for node in successors[frontier.pop()] if not reached[node]]
        reached[new] = True
        frontier += new
    return reached


def _has_cycle(n: int, u: Index, v: Index) -> bool:
    """Test whether arcs contain a directed cycle."""
    from combopeps.oracles._graph_kernels import topological_order

    order = np.argsort(u, kind="stable")
    indptr = np.searchsorted(u[order], np.arange(n + 1)).astype(np.int32)
    return len(topological_order(indptr, v[order].astype(np.int32))) < n


def _head_dominates_tail(n: int, u: Index, v: Index, start: int) -> NDArray[np.bool_]:
    """Test for every arc whether all walks from the start to its tail visit its head."""
    from combopeps.oracles._graph_kernels import head_dominates_tail

    order = np.argsort(u, kind="stable")
    indptr = np.searchsorted(u[order], np.arange(n + 1))
    return np.asarray(head_dominates_tail(start, indptr, v[order], u, v))


def _route_block(n: int, u: Index, v: Index, s: int, t: int) -> NDArray[np.bool_]:
    """Return the nodes of the biconnected component that an edge s-t would be in: no single node cuts them off."""
    graph = nx.Graph(zip(u.tolist(), v.tolist(), strict=True))
    graph.add_edge(s, t)
    inside = np.zeros(n, dtype=bool)
    for nodes in cast("Iterable[set[int]]", nx.biconnected_components(graph)):
        if s in nodes and t in nodes:
            inside[list(nodes)] = True
    return inside


def _adjacency(n: int, u: Index, v: Index) -> csr_array:
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(u)), (u, v)), shape=(n, n))


def node_positions(graph: nx.Graph[Any], nodes: Collection[Hashable]) -> tuple[dict[Hashable, Point] | None, bool]:
    """Read node coordinates from common attribute names, and whether they are longitudes and latitudes.

    None unless one attribute, or one pair of attributes, gives positions of at least half of the nodes.

    Examples
    --------
    >>> import networkx as nx
    >>> graph = nx.Graph([("Bern", "Chur")])
    >>> graph.add_node("Bern", Longitude=7.45, Latitude=46.95)
    >>> graph.add_node("Chur", Longitude=9.53, Latitude=46.85)
    >>> node_positions(graph, list(graph))
    ({'Bern': (7.45, 46.95), 'Chur': (9.53, 46.85)}, True)
    """
    if not any(data for _, data in graph.nodes(data=True)):  # most graphs
        return None, False
    attributes = {node: {str(key).lower(): value for key, value in graph.nodes[node].items()} for node in nodes}
    for names in (*((name,) for name in _POINT_ATTRIBUTES), *_COORDINATE_PAIRS):
        found = {node: place for node, data in attributes.items() if (place := _read_place(data, names)) is not None}
        if 2 * len(found) >= len(attributes) and len(set(found.values())) > 1:
            degrees = names in _DEGREES or "4326" in str(graph.graph.get("crs", ""))
            return found, degrees or look_like_degrees(found.values())
    return None, False


def parse_point(value: Any) -> Point | None:
    """Parse a point: two numbers, a string of two numbers, or a mapping with x and y; None for anything else."""
    if isinstance(value, Mapping):
        return _read_place({str(key).lower(): part for key, part in value.items()}, ("x", "y"))
    if isinstance(value, str):
        value = re.split(r"[,;\s]+", value.strip(" ()[]!"))
    if not isinstance(value, (Sequence, np.ndarray)) or len(value) != 2:
        return None
    x, y = _parse_coordinate(value[0]), _parse_coordinate(value[1])
    return None if x is None or y is None else (x, y)


def look_like_degrees(places: Iterable[Point]) -> bool:
    """Guess whether unnamed coordinates are longitudes and latitudes: in range, not all integers, far from the origin.

    Computed layouts start at the origin or surround it. A false negative affects only the aspect ratio of plots.
    """
    points = np.array(list(places))
    low, high = points.min(axis=0), points.max(axis=0)
    in_range = bool((np.abs(points) <= (180.0, 90.0)).all()) and bool((points % 1.0).any())
    distance = np.maximum(np.maximum(low, -high), 0.0).max()  # of the bounding box from the origin
    return in_range and bool(distance > (high - low).max())


def _read_place(data: Mapping[str, Any], names: tuple[str, ...]) -> Point | None:
    if not all(name in data for name in names):
        return None
    return parse_point(data[names[0]] if len(names) == 1 else [data[name] for name in names])


def _parse_coordinate(value: Any) -> float | None:
    """Return a finite number, also from its text because some file formats have text attributes only."""
    if isinstance(value, str) and _PLAIN_NUMBER.fullmatch(value.strip()):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, Real) or not abs(float(value)) < _MAX_COORDINATE:
        return None
    return float(value)

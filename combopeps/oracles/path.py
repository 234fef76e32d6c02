"""Oracle of the simple routes from a source to a target in a graph: dynamic programming, or Dijkstra's algorithm.

In its kernels nodes are 0 .. n-1, the source is 0 and the target n-1. Arcs are grouped by head on an acyclic graph
and by tail otherwise: the arcs of node v are `indptr[v] : indptr[v + 1]`. Arc e goes from `tails[e]` to `heads[e]`, and
its length is coordinate `component[e]` of theta (in an undirected graph two arcs share a coordinate).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from functools import cached_property
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from combopeps.errors import AnswerError, GraphError
from combopeps.oracles.base import ArgmaxOracle, Array, Confusions, LogCardinality, Sparse
from combopeps.oracles.input_checks import as_vector, reversed_edge
from combopeps.utils.formatting import html_of_tuple, short_repr
from combopeps.utils.jit import njit
from combopeps.utils.validation import check_choice, check_flag

if TYPE_CHECKING:
    import networkx as nx

_log = logging.getLogger(__name__)


class MultiPath(NamedTuple):
    """A route in a graph with parallel edges: its nodes, and the key of the edge after each but the last."""

    nodes: list[Hashable]
    keys: list[Hashable]

    def _repr_html_(self) -> str:
        return html_of_tuple(self)


class ShortestPathOracle(ArgmaxOracle):
    """Oracle of the simple source-target routes: the shortest one (`objective="min"`), or the longest.

    With "min", z is minus the indicator of the route, so that z @ theta is minus its length. On acyclic graphs theta
    may have any sign (dynamic programming). Graphs with cycles and undirected graphs need theta >= 0 (Dijkstra's
    algorithm) and `objective="min"`, because longest simple routes are NP-hard.

    Parameters
    ----------
    graph
        networkx `DiGraph`, `MultiDiGraph`, `Graph` or `MultiGraph`. It is read once and not kept. Coordinates among the
        attributes of its nodes (pos, x and y, lon and lat) are kept in `pos`, for plots.
    source, target
        Two different nodes.
    objective
        "min" for lengths, "max" for rewards.
    prune
        Drop edges that are on no route, as they do not affect the answer; `pruned` lists them. On directed graphs with
        cycles the test is a heuristic (the exact one is NP-hard) and may keep some of them. "cuts" uses reachability
        and cut nodes, but not dominators: the rule of instance files, whose components must not change.

    Examples
    --------
    >>> import networkx as nx
    >>> graph = nx.DiGraph([("home", "bridge"), ("bridge", "work"), ("home", "tunnel"), ("tunnel", "work")])
    >>> oracle = ShortestPathOracle(graph, "home", "work")
    >>> oracle.components
    (('home', 'bridge'), ('home', 'tunnel'), ('bridge', 'work'), ('tunnel', 'work'))
    >>> oracle.decode(oracle.argmax([5.0, 4.0, 3.0, 9.0]))
    ['home', 'bridge', 'work']
    """

    binary = antichain = exchanges = quick = True

    def __init__(
        self,
        graph: nx.Graph[Any],
        source: Hashable,
        target: Hashable,
        *,
        objective: Literal["min", "max"] = "min",
        prune: bool | Literal["cuts"] = True,
    ) -> None:
        from combopeps.oracles.graph_arrays import check_graph, edge_labels, node_positions, route_network

        check_choice("objective", objective, ("min", "max"))
        if not isinstance(prune, str) or prune != "cuts":
            check_flag("prune", prune)
        check_graph(graph, source, target)
        labels = edge_labels(graph)
        self._network, kept = network, _ = route_network(graph, labels, source, target, prune=prune)
        self._arrays = network.indptr, network.tails, network.heads, network.component  # as the kernels take them
        if objective == "max" and not self._network.acyclic:
            raise GraphError(
                "the longest simple route of a graph with cycles or undirected edges is NP-hard; "
                'use a directed acyclic graph, or objective="min" with theta >= 0'
            )
        super().__init__(label for label, keep in zip(labels, kept, strict=True) if keep)
        self.source, self.target = source, target
        self.directed, self.multigraph = graph.is_directed(), graph.is_multigraph()
        self.pruned = tuple(label for label, keep in zip(labels, kept, strict=True) if not keep)
        if self.pruned:
            _log.info("dropped %d of %d edges that lie on no route", len(self.pruned), len(labels))
        edges = cast(tuple[tuple[Hashable, ...], ...], self._components)
        self.pos, self.in_degrees = node_positions(graph, dict.fromkeys(node for edge in edges for node in edge[:2]))
        self.unit = 1.0 if objective == "max" else -1.0
        self.domain = "real" if self._network.acyclic else "nonnegative"

    def __repr__(self) -> str:
        return (
            f"ShortestPathOracle({short_repr(self.source, 60)} -> {short_repr(self.target, 60)}, {self.dim} edges, "
            f"{len(self.pruned)} pruned, objective={self.objective!r}, theta {self.domain})"
        )

    def _summary(self) -> Mapping[str, Any]:
        return {
            **super()._summary(),
            "source": self.source,
            "target": self.target,
            "pruned": len(self.pruned),
            "objective": self.objective,
            "theta": self.domain,
        }

    def _argmax_batch(self, thetas: Array) -> Array:
        routes = dag_routes if self._network.acyclic else cyclic_routes
        best = np.zeros(thetas.shape)
        routes(*self._arrays, thetas, self.unit, best)
        return best

    def decode(self, z: ArrayLike) -> list[Hashable] | MultiPath:
        """Return the nodes of the route in order; of a multigraph, a `MultiPath` of nodes and keys."""
        return self.decode_in_order(z)[0]

    def decode_in_order(self, z: ArrayLike) -> tuple[list[Hashable] | MultiPath, list[int]]:
        """Return the route, and the indices of its edges from the source to the target."""
        labels, chosen = cast(tuple[tuple[Hashable, ...], ...], self._components), self._chosen(as_vector(z, self.dim))
        edges = self._in_topological_order(chosen) or self._walk(chosen)
        nodes: list[Hashable] = [self.source]
        if self.directed:
            nodes += [labels[i][1] for i in edges]
        else:
            for i in edges:
                nodes.append(labels[i][1] if labels[i][0] == nodes[-1] else labels[i][0])
        return MultiPath(nodes, [labels[i][2] for i in edges]) if self.multigraph else nodes, edges

    def _in_topological_order(self, chosen: list[int]) -> list[int]:
        """Sort the edges of a route of an acyclic graph; empty if they are no route, or the graph has cycles."""
        if not self._network.acyclic or not chosen:
            return []
        tail, head = self._ends
        order = sorted(chosen, key=tail.__getitem__)
        heads = [head[i] for i in order]
        is_route = tail[order[0]] == 0 and heads[-1] == self._network.size - 1
        return order if is_route and [tail[i] for i in order[1:]] == heads[:-1] else []

    @cached_property
    def _ends(self) -> tuple[list[int], list[int]]:
        """Topological numbers of the tail and head of every edge of an acyclic graph; -1 if it is on no route."""
        ends = np.full((2, self.dim), -1)
        ends[:, self._network.component] = self._network.tails, self._network.heads
        return ends[0].tolist(), ends[1].tolist()

    def _walk(self, chosen: list[int]) -> list[int]:
        """Follow the edges of a route from the source to the target; `AnswerError` if they are no simple route."""
        labels = cast(tuple[tuple[Hashable, ...], ...], self._components)
        leaving: dict[Hashable, list[tuple[Hashable, int]]] = {}
        for i in chosen:
            leaving.setdefault(labels[i][0], []).append((labels[i][1], i))
            if not self.directed:
                leaving.setdefault(labels[i][1], []).append((labels[i][0], i))
        nodes: list[Hashable] = [self.source]
        edges: list[int] = []
        while nodes[-1] != self.target:
            steps = [step for step in leaving.get(nodes[-1], ()) if step[0] not in nodes[-2:]]
            if len(steps) != 1 or len(edges) == self.dim:
                raise AnswerError(f"z is not a route: {len(steps)} of its edges continue from {nodes[-1]!r}")
            nodes.append(steps[0][0])
            edges.append(steps[0][1])
        if len(edges) != len(chosen) or len(set(nodes)) != len(nodes):
            raise AnswerError("z is not a simple route: some of its edges are off the route or in a loop")
        return edges

    def encode(self, answer: Any) -> Array:
        """Return the vector of a list of nodes; of a multigraph, of a `MultiPath` or a pair (nodes, keys)."""
        if self.multigraph:
            try:
                nodes, keys = (list(part) for part in answer)
            except (TypeError, ValueError):
                raise AnswerError(f"a route with parallel edges is a pair (nodes, keys), got {answer!r}") from None
            if len(keys) != len(nodes) - 1:
                raise AnswerError(f"{len(nodes)} nodes need {len(nodes) - 1} keys, got {len(keys)}")
            labels: list[tuple[Any, ...]] = list(zip(nodes[:-1], nodes[1:], keys, strict=True))
        else:
            if isinstance(answer, str) or not isinstance(answer, Iterable):
                raise AnswerError(f"a route is a list of nodes, got {answer!r}")
            nodes = list(answer)
            labels = list(pairwise(nodes))
        z = super().encode(labels)
        if not labels or nodes[0] != self.source or nodes[-1] != self.target or len(set(nodes)) != len(nodes):
            raise AnswerError(f"a route visits no node twice and leads from {self.source!r} to {self.target!r}")
        return z

    def why_pruned(self, label: Hashable) -> str:
        return f"edge {label!r} lies on no route from {self.source!r} to {self.target!r}"

    def aliases(self, label: Hashable) -> tuple[Hashable, ...]:
        return () if self.directed else reversed_edge(label, 3 if self.multigraph else 2)

    def facets_up_to(self, z: ArrayLike, most: int) -> Sparse | None:
        """Return the single detours from a route, if there are at most `most`."""
        from combopeps.oracles.exchanges import detours

        self.decode(z)
        return detours(self._network, as_vector(z, self.dim), self.unit, most)

    def through(self, thetas: Array) -> Array | None:
        """Bound by the shortest source-target walk through every edge; None on acyclic graphs."""
        if self._network.acyclic:
            return None
        best = np.empty(thetas.shape)
        cyclic_walk_bounds(*self._arrays, *self._network.entering, thetas, self.unit, best)
        return best

    def confusions(self, *, whole: bool = False) -> Confusions | None:
        """Count the detours from a fixed route, each weighted by the probability that a random walk follows it.

        On an acyclic graph the walk leaves a node by each of its edges with equal probability. Detours that leave the
        route at the same node are disjoint events: their weights add up to at most 1 - p_a, for the edge a of the
        route.
        """
        if not self._network.acyclic:
            from combopeps.oracles.exchanges import cyclic_confusions

            by_size = super().confusions(whole=whole)
            by_walks = cyclic_confusions(self._network, self.dim, directed=self.directed, whole=whole)
            least_charge = float(np.abs(self.argmax(by_walks.charge)) @ by_walks.charge)
            is_smaller = by_size is not None and by_size.log_count <= by_walks.log_count + least_charge
            return by_size if is_smaller else by_walks
        tails = [cast(tuple[Hashable, ...], label)[0] for label in self._components]
        degree = Counter(tails)
        charge = np.log([degree[tail] for tail in tails])
        weight = 1.0 - np.exp(-charge)
        per_edge = np.log1p(weight) if whole else weight
        total = float(np.abs(self.argmax(self.unit * per_edge)) @ per_edge)
        return Confusions(total if whole else log(max(total, 1e-300)), charge)

    def equalities(self) -> Sparse | None:
        """Return flow conservation at every node of a directed graph; None for undirected graphs."""
        from scipy.sparse import csr_array

        if not self.directed:
            return None
        ends = [cast(tuple[Hashable, ...], label)[:2] for label in self._components]
        number = {node: i for i, node in enumerate(dict.fromkeys(node for pair in ends for node in pair))}
        rows = np.array([[number[node] for node in pair] for pair in ends]).T.ravel()
        signs = np.repeat([1.0, -1.0], self.dim)
        return csr_array((signs, (rows, np.tile(np.arange(self.dim), 2))), shape=(len(number), self.dim))

    @property
    def log_cardinality(self) -> LogCardinality:
        """Exact on an acyclic graph (dynamic programming), otherwise the smaller of two upper bounds.

        The product of the out-degrees, because a route chooses one arc at each node that it leaves; and 2^(cycle rank),
        because routes are distinct points of an affine space over GF(2) of that dimension.
        """
        from combopeps.oracles._graph_kernels import log_route_count

        indptr, tails, _, component = self._arrays
        if self._network.acyclic:
            return LogCardinality(float(log_route_count(indptr, tails)), exact=True)
        choices = float(np.log(np.maximum(np.diff(indptr), 1)).sum())
        cycle_rank = len(np.unique(component)) - self._network.size + 1
        return LogCardinality(min(choices, cycle_rank * log(2)), exact=False)


def _count_route_steps(indptr, tails, heads, component, thetas, *_):
    return len(thetas) * (len(indptr) + len(heads))


@njit(steps=_count_route_steps)
def dag_routes(indptr, tails, heads, component, thetas, unit, best):
    """argmax_z z @ theta over routes of an acyclic graph, by dynamic programming; written into the zeros of `best`.

    Each node reduces its entering arcs to two scalars, which compiles to selects: a branch would be mispredicted half
    of the time.
    """
    n = len(indptr) - 1
    cost = np.empty(n)
    entry = np.empty(n, np.int64)
    for b in range(len(thetas)):
        theta = thetas[b]
        cost[0] = 0.0
        for v in range(1, n):
            low, arc = np.inf, indptr[v]
            for e in range(indptr[v], indptr[v + 1]):
                candidate = cost[tails[e]] - unit * theta[component[e]]
                better = candidate < low
                low = candidate if better else low
                arc = e if better else arc
            cost[v], entry[v] = low, arc
        _mark_route(entry, tails, component, n - 1, best[b], unit)


@njit(steps=_count_route_steps)
def cyclic_routes(indptr, tails, heads, component, thetas, unit, best):
    """argmax_z z @ theta over simple routes, theta >= 0, by Dijkstra's algorithm; written into the zeros of `best`."""
    n = len(indptr) - 1
    cost = np.empty(n)
    entry = np.empty(n, np.int64)
    settled = np.empty(n, np.bool_)
    keys = np.empty(len(heads) + 1)
    nodes = np.empty(len(heads) + 1, np.int64)
    for b in range(len(thetas)):
        theta = thetas[b]
        cost[:] = np.inf
        cost[0] = 0.0
        settled[:] = False
        keys[0], nodes[0], size = 0.0, 0, 1
        while True:
            u = nodes[0]
            size = _heap_pop(keys, nodes, size)
            if u == n - 1:
                break
            if settled[u]:
                continue
            settled[u] = True
            for e in range(indptr[u], indptr[u + 1]):
                candidate = cost[u] - unit * theta[component[e]]
                if candidate < cost[heads[e]]:
                    cost[heads[e]] = candidate
                    entry[heads[e]] = e
                    size = _heap_push(keys, nodes, size, candidate, heads[e])
        _mark_route(entry, tails, component, n - 1, best[b], unit)


@njit
def cyclic_walk_bounds(indptr, tails, heads, component, into, arcs_into, thetas, unit, best):
    """Write minus the length of the shortest source-target walk through each component into `best`; theta >= 0.

    The arcs that enter node v are `arcs_into[into[v] : into[v + 1]]`.
    """
    n = len(indptr) - 1
    from_source, to_target = np.empty(n), np.empty(n)
    keys = np.empty(len(heads) + 1)
    nodes = np.empty(len(heads) + 1, np.int64)
    all_arcs = np.arange(len(heads))
    best[:] = -np.inf
    for b in range(len(thetas)):
        _distances(0, indptr, all_arcs, heads, component, thetas[b], unit, from_source, keys, nodes)
        _distances(n - 1, into, arcs_into, tails, component, thetas[b], unit, to_target, keys, nodes)
        for e in range(len(heads)):
            a = component[e]
            best[b, a] = max(best[b, a], unit * thetas[b, a] - from_source[tails[e]] - to_target[heads[e]])


@njit(inner=True)
def _distances(start, indptr, arcs, ends, component, theta, unit, cost, keys, nodes):
    """Write the distance of every node from `start` into `cost` (Dijkstra); arc e leads to `ends[e]`."""
    cost[:] = np.inf
    cost[start] = 0.0
    keys[0], nodes[0], size = 0.0, start, 1
    while size:
        key, u = keys[0], nodes[0]
        size = _heap_pop(keys, nodes, size)
        if key > cost[u]:
            continue
        for i in range(indptr[u], indptr[u + 1]):
            e = arcs[i]
            candidate = key - unit * theta[component[e]]
            if candidate < cost[ends[e]]:
                cost[ends[e]] = candidate
                size = _heap_push(keys, nodes, size, candidate, ends[e])


@njit(inner=True)
def _mark_route(entry, tails, component, node, z, unit):
    while node != 0:
        z[component[entry[node]]] = unit
        node = tails[entry[node]]


@njit(inner=True)
def _heap_push(keys, nodes, size, key, node):
    i = size
    while i > 0:
        parent = (i - 1) >> 1
        if keys[parent] <= key:
            break
        keys[i], nodes[i] = keys[parent], nodes[parent]
        i = parent
    keys[i], nodes[i] = key, node
    return size + 1


@njit(inner=True)
def _heap_pop(keys, nodes, size):
    size -= 1
    key, node = keys[size], nodes[size]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        keys[i], nodes[i] = keys[child], nodes[child]
        i = child
    keys[i], nodes[i] = key, node
    return size

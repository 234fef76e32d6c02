"""Z = all simple routes from a source to a target."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Hashable, Iterable
from functools import cached_property
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from combopeps.errors import AnswerError, GraphError
from combopeps.oracles.base import ArgmaxOracle, Array, Confusions, LogCardinality, Sparse
from combopeps.oracles.input_checks import as_vector, other_way_round
from combopeps.utils.formatting import short_repr
from combopeps.utils.validation import check_choice, check_flag

if TYPE_CHECKING:
    import networkx as nx

_log = logging.getLogger(__name__)


class MultiPath(NamedTuple):
    """A route in a graph with parallel edges: its nodes, and the key of the edge after each but the last."""

    nodes: list[Hashable]
    keys: list[Hashable]


class ShortestPathOracle(ArgmaxOracle):
    """The shortest route under measured lengths (`objective="min"`), or the longest on an acyclic graph.

    With "min", z is minus the indicator of the route, so that z @ theta is minus its length. Acyclic graphs
    take theta of any sign (dynamic programming). Graphs with cycles and undirected graphs need theta >= 0
    (Dijkstra's algorithm), and "max" is refused there.

    Parameters
    ----------
    graph
        networkx `DiGraph`, `MultiDiGraph`, `Graph` or `MultiGraph`. It is read once and not kept. Coordinates that its
        nodes have as attributes (pos, x and y, lon and lat) are kept in `pos`, for pictures.
    source, target
        Two different nodes.
    objective
        "min" for lengths, "max" for rewards.
    prune
        Leave out edges that lie on no route: nothing can be learnt from them. `pruned` lists them. On directed graphs
        with cycles that cannot always be told; "cuts" leaves out what reachability and single nodes rule out, but not
        dominators: files are read so, whose components must not change.

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
        from combopeps.oracles.graph import check_graph, edge_labels, find_places, route_network

        check_choice("objective", objective, ("min", "max"))
        if not isinstance(prune, str) or prune != "cuts":
            check_flag("prune", prune)
        check_graph(graph, source, target)
        labels = edge_labels(graph)
        self._network, kept = route_network(graph, labels, source, target, prune=prune)
        if objective == "max" and not self._network.acyclic:
            raise GraphError(
                "the longest simple route of a graph with cycles or undirected edges is NP-hard; "
                'use a directed acyclic graph, or objective="min" with theta >= 0'
            )
        super().__init__(label for label, keep in zip(labels, kept, strict=True) if keep)
        self.source, self.target, self.objective = source, target, objective
        self.directed, self.multigraph = graph.is_directed(), graph.is_multigraph()
        self.pruned = tuple(label for label, keep in zip(labels, kept, strict=True) if not keep)
        if self.pruned:
            _log.info("dropped %d of %d edges that lie on no route", len(self.pruned), len(labels))
        edges = cast(tuple[tuple[Hashable, ...], ...], self._components)
        self.pos, self.in_degrees = find_places(graph, dict.fromkeys(node for edge in edges for node in edge[:2]))
        self.unit = 1.0 if objective == "max" else -1.0
        self.domain = "real" if self._network.acyclic else "nonnegative"

    def __repr__(self) -> str:
        return (
            f"ShortestPathOracle({short_repr(self.source, 60)} -> {short_repr(self.target, 60)}, {self.dim} edges, "
            f"{len(self.pruned)} pruned, objective={self.objective!r}, theta {self.domain})"
        )

    def _argmax_batch(self, thetas: Array) -> Array:
        from combopeps.oracles._graph_kernels import cyclic_routes, dag_routes

        routes = dag_routes if self._network.acyclic else cyclic_routes
        best = np.zeros(thetas.shape)
        routes(*self._network.arrays, thetas, self.unit, best)
        return best

    def decode(self, z: ArrayLike) -> list[Hashable] | MultiPath:
        """The nodes of the route in order; with parallel edges a `MultiPath` of nodes and keys."""
        return self.decode_in_order(z)[0]

    def decode_in_order(self, z: ArrayLike) -> tuple[list[Hashable] | MultiPath, list[int]]:
        """The route, and its edges from the source to the target."""
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
        """Edges that are a route of an acyclic graph, in order; none if they are not, or there are cycles."""
        if not self._network.acyclic or not chosen:
            return []
        tail, head = self._ends
        order = sorted(chosen, key=tail.__getitem__)
        after = [head[i] for i in order]
        is_route = tail[order[0]] == 0 and after[-1] == self._network.size - 1
        return order if is_route and [tail[i] for i in order[1:]] == after[:-1] else []

    @cached_property
    def _ends(self) -> tuple[list[int], list[int]]:
        """Of an acyclic graph: the topological numbers of the tail and the head of every edge; -1 if on no route."""
        ends = np.full((2, self.dim), -1)
        ends[:, self._network.component] = self._network.tails, self._network.heads
        return ends[0].tolist(), ends[1].tolist()

    def _walk(self, chosen: list[int]) -> list[int]:
        """The edges of a route in order, from node to node; `AnswerError` where they are none."""
        labels = cast(tuple[tuple[Hashable, ...], ...], self._components)
        leaving: dict[Hashable, list[tuple[Hashable, int]]] = {}
        for i in chosen:
            leaving.setdefault(labels[i][0], []).append((labels[i][1], i))
            if not self.directed:
                leaving.setdefault(labels[i][1], []).append((labels[i][0], i))
        nodes: list[Hashable] = [self.source]
        edges: list[int] = []
        while nodes[-1] != self.target:
            onward = [step for step in leaving.get(nodes[-1], ()) if step[0] not in nodes[-2:]]
            if len(onward) != 1 or len(edges) == self.dim:
                raise AnswerError(f"z is not a route: {len(onward)} of its edges lead on from {nodes[-1]!r}")
            nodes.append(onward[0][0])
            edges.append(onward[0][1])
        if len(edges) != len(chosen) or len(set(nodes)) != len(nodes):
            raise AnswerError("z is not a simple route: some of its edges lie off the way or in a loop")
        return edges

    def encode(self, answer: Any) -> Array:
        """The vector of a node list, or of a `MultiPath` (or a pair nodes, keys) with parallel edges."""
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
        return () if self.directed else other_way_round(label, 3 if self.multigraph else 2)

    def facets_up_to(self, z: ArrayLike, most: int) -> Sparse | None:
        """The single detours from a route."""
        from combopeps.oracles.confusions import detours

        self.decode(z)
        return detours(self._network, as_vector(z, self.dim), self.unit, most)

    def through(self, thetas: Array) -> Array | None:
        """The shortest walk through every edge, with cycles: from the source to it, and from it to the target."""
        from combopeps.oracles._graph_kernels import cyclic_through

        if self._network.acyclic:
            return None
        best = np.empty(thetas.shape)
        cyclic_through(*self._network.arrays, *self._network.entering, thetas, self.unit, best)
        return best

    def confusions(self, *, whole: bool = False) -> Confusions | None:
        """Detours from a fixed route, each weighted by the probability that a random walk takes it.

        On an acyclic graph the walk leaves a node by each of its edges with the same probability p. Detours that
        leave the route at the same node are disjoint events: together they weigh at most 1 - p_a, a the route's edge.
        """
        if not self._network.acyclic:
            from combopeps.oracles.confusions import cyclic_confusions

            few = super().confusions(whole=whole)
            many = cyclic_confusions(self._network, self.dim, directed=self.directed, whole=whole)
            shortest = float(np.abs(self.argmax(many.charge)) @ many.charge)
            return few if few is not None and few.log_count <= many.log_count + shortest else many
        tails = [cast(tuple[Hashable, ...], label)[0] for label in self._components]
        degree = Counter(tails)
        charge = np.log([degree[tail] for tail in tails])
        weight = 1.0 - np.exp(-charge)
        per_edge = np.log1p(weight) if whole else weight
        total = float(np.abs(self.argmax(self.unit * per_edge)) @ per_edge)
        return Confusions(total if whole else log(max(total, 1e-300)), charge)

    def equalities(self) -> Sparse | None:
        """What enters a node leaves it; only known for directed graphs."""
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
        """Exact by dynamic programming on an acyclic graph.

        Otherwise the smaller of two upper bounds: a route picks one arc at each node it leaves, and routes
        are different points of an affine space over GF(2) whose dimension is the cycle rank.
        """
        from combopeps.oracles._graph_kernels import log_route_count

        indptr, tails, _, component = self._network.arrays
        if self._network.acyclic:
            return LogCardinality(float(log_route_count(indptr, tails)), exact=True)
        choices = float(np.log(np.maximum(np.diff(indptr), 1)).sum())
        cycle_rank = len(np.unique(component)) - self._network.size + 1
        return LogCardinality(min(choices, cycle_rank * log(2)), exact=False)

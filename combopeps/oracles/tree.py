"""Z = all spanning trees of a connected graph."""

from __future__ import annotations

import logging
from collections.abc import Hashable
from functools import cached_property
from math import comb, e, log
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.errors import AnswerError
from combopeps.oracles.base import ArgmaxOracle, Array, Confusions, LogCardinality, Sparse
from combopeps.oracles.input_checks import as_vector, other_way_round
from combopeps.utils.validation import check_choice

if TYPE_CHECKING:
    import networkx as nx

_log = logging.getLogger(__name__)
_DENSE = 1000  # nodes up to which a full Laplacian is small
_TABLE = 16  # entries per edge up to which a table of all pairs of nodes is the faster way


class SpanningTreeOracle(ArgmaxOracle):
    """The spanning tree with the least total weight (`objective="min"`), or the greatest.

    With "min", z is minus the indicator of the tree, so that z @ theta is minus its weight. Weights may have any sign,
    and zero is a weight like any other; among equal edges the earlier ones win.

    Parameters
    ----------
    graph
        Connected networkx `Graph` or `MultiGraph`. It is read once and not kept. A loop is in no tree: `pruned` lists
        them. Coordinates that its nodes have as attributes (pos, x and y, lon and lat) are kept in `pos`, for pictures.
    objective
        "min" for costs, "max" for rewards.

    Examples
    --------
    >>> import networkx as nx
    >>> graph = nx.Graph([("ale", "bonn"), ("bonn", "caen"), ("ale", "caen"), ("caen", "diss")])
    >>> oracle = SpanningTreeOracle(graph)
    >>> oracle.components
    (('ale', 'bonn'), ('ale', 'caen'), ('bonn', 'caen'), ('caen', 'diss'))
    >>> oracle.decode(oracle.argmax([5.0, 4.0, -3.0, 9.0]))
    [('ale', 'caen'), ('bonn', 'caen'), ('caen', 'diss')]
    """

    binary = antichain = quick = True

    def __init__(self, graph: nx.Graph[Any], objective: Literal["min", "max"] = "min") -> None:
        from combopeps.oracles.graph import check_connected, edge_labels, find_places

        check_choice("objective", objective, ("min", "max"))
        check_connected(graph)
        labels = edge_labels(graph)
        super().__init__(label for label in labels if label[0] != label[1])
        self.objective, self.multigraph = objective, graph.is_multigraph()
        self.unit = 1.0 if objective == "max" else -1.0
        self.pruned = tuple(label for label in labels if label[0] == label[1])
        if self.pruned:
            _log.info("dropped %d of %d edges that are loops", len(self.pruned), len(labels))
        self.pos, self.in_degrees = find_places(graph, list(graph.nodes))
        number = {node: i for i, node in enumerate(graph.nodes)}
        edges = cast(tuple[tuple[Hashable, ...], ...], self._components)
        self._nodes = len(number)
        self._u, self._v = np.array([[number[node] for node in edge[:2]] for edge in edges], dtype=np.int32).T.copy()

    def __repr__(self) -> str:
        return f"SpanningTreeOracle({self._nodes} nodes, {self.dim} edges, objective={self.objective!r})"

    def _argmax_batch(self, thetas: Array) -> Array:
        from combopeps.oracles._graph_kernels import best_trees

        best = np.zeros(thetas.shape)
        best_trees(self._u, self._v, self._nodes, thetas, self.unit, best)
        return best

    def _membership_batch(self, z: Array, thetas: Array) -> NDArray[np.bool_]:
        from combopeps.oracles._graph_kernels import still_best, still_best_dense

        order, parent, above, _ = self._hang_up(z)
        if self._nodes**2 <= _TABLE * self.dim:
            still = still_best_dense(self._u, self._v, order, parent, above, thetas, self.unit)
        else:
            still = still_best(self._u, self._v, self._nodes, z, thetas, self.unit)
        return np.asarray(still)

    def decode(self, z: ArrayLike) -> list[Hashable]:
        """The edges of the tree, in the order of the components."""
        vector = as_vector(z, self.dim)
        self._hang_up(vector)
        return [self._components[i] for i in np.flatnonzero(vector)]

    def encode(self, answer: Any) -> Array:
        """The vector of a collection of edges, each written in either direction."""
        z = super().encode(answer)
        self._hang_up(z)
        return z

    def why_pruned(self, label: Hashable) -> str:
        return f"edge {label!r} is a loop, which is in no tree"

    def aliases(self, label: Hashable) -> tuple[Hashable, ...]:
        return other_way_round(label, 3 if self.multigraph else 2)

    def facets(self, z: ArrayLike) -> Sparse:
        """The swaps of a tree edge for another edge whose cycle holds it: complete and without redundancy.

        Neighbours of a base of a matroid are one exchange away, and a base that no exchange improves is a best one.
        """
        rows = self.facets_up_to(z, self.facet_count)
        assert rows is not None
        return rows

    def facets_up_to(self, z: ArrayLike, most: int) -> Sparse | None:
        """The same, where they are at most `most`: how many there are depends on how long the cycles are."""
        from scipy.sparse import csr_array

        from combopeps.oracles._graph_kernels import count_swaps, list_swaps

        vector = as_vector(z, self.dim)
        _, parent, above, depth = self._hang_up(vector)
        start = np.zeros(self.dim, dtype=np.int64)
        swaps = count_swaps(self._u, self._v, vector, parent, above, depth, most, start)
        if swaps > most:
            return None
        columns, data = np.empty((swaps, 2), dtype=np.int32), np.empty((swaps, 2))
        list_swaps(self._u, self._v, vector, parent, above, depth, self.unit, start, columns, data)
        indptr = np.arange(0, 2 * swaps + 1, 2, dtype=np.int32)
        return csr_array((data.ravel(), columns.ravel(), indptr), shape=(swaps, self.dim))

    @cached_property
    def facet_count(self) -> int:
        """An upper bound, summed over blocks of r tree edges and s others, at most p of them parallel.

        A cycle holds at most r tree edges: r s. Distances in a tree, summed over all pairs of its r + 1 nodes, are
        largest on a path, where they are C(r + 2, 3): p C(r + 2, 3) - r.
        """
        of_edge, edges, trees = self._blocks
        pairs = np.sort(np.stack([self._u, self._v], axis=1), axis=1)
        _, first, copies = np.unique(pairs, axis=0, return_index=True, return_counts=True)
        parallel = np.zeros(len(edges), dtype=np.int64)
        np.maximum.at(parallel, of_edge[first], copies)
        sizes = zip(trees.tolist(), (edges - trees).tolist(), parallel.tolist(), strict=True)
        return sum(min(r * s, p * comb(r + 2, 3) - r) for r, s, p in sizes)

    @cached_property
    def log_cardinality(self) -> LogCardinality:
        """Kirchhoff's theorem: the determinant of the Laplacian without one row and column."""
        from combopeps.oracles.graph import log_determinant

        if self.dim == self._nodes - 1:
            return LogCardinality(0.0, exact=True)
        return LogCardinality(max(0.0, log_determinant(self._nodes, self._u, self._v, _DENSE)), exact=True)

    def confusions(self, *, whole: bool = False) -> Confusions:
        """The swaps across a fixed tree z*, of which there are at most P = `facet_count`.

        Symmetric exchange: if e is in z_hat and not in z*, some f in z* and not in z_hat makes trees of both
        z_hat - e + f and z* - f + e. The second says that f is better than e, and that the pair is one of the P; the
        first that the certificate of z_hat has looked at it. Whole answers: the edges that two trees do not share pair
        off into such swaps (Brualdi), so that at most C(P, m) <= P^m / m! trees differ from z* in m edges, and at most
        C(r, m) C(s, m) <= (r s)^m / m!^2, r and s the numbers of edges in z* and outside.
        """
        swaps, inside = max(self.facet_count, 1), self._nodes - 1
        if not whole:
            return Confusions(log(swaps), np.zeros(self.dim))
        pairs = max(inside * (self.dim - inside), 1)
        count, per_edge = min((e - 1.0, swaps), (1.2796, pairs), key=lambda way: way[0] * way[1])
        return Confusions(log(count), np.full(self.dim, log(per_edge)))  # sum_{m >= 1} 1 / m!^2 < 1.2796

    def equalities(self) -> Sparse:
        """Every block of the graph holds as many edges of a tree as it has nodes, less one; nothing else is fixed."""
        from scipy.sparse import csr_array

        block = self._blocks.of_edge
        return csr_array((np.ones(self.dim), (block, np.arange(self.dim))), shape=(int(block.max()) + 1, self.dim))

    @cached_property
    def _blocks(self) -> _Blocks:
        from combopeps.oracles._graph_kernels import blocks

        z = self.argmax(np.zeros(self.dim))
        of_edge = blocks(self._u, self._v, self._nodes, z, *self._hang_up(z)[1:])
        return _Blocks(of_edge, np.bincount(of_edge), np.bincount(of_edge, weights=z != 0.0).astype(np.int64))

    def _hang_up(self, z: Array) -> tuple[Any, Any, Any, Any]:
        """Nodes from the root down, their parents, the edges to those, and depths, as the kernels take them."""
        from combopeps.oracles._graph_kernels import rooted

        *tree, is_tree = rooted(self._u, self._v, self._nodes, z, self.unit)
        if not is_tree:
            super().decode(z)  # raises where entries are no 0 and unit
            raise AnswerError(
                f"z is not a spanning tree: it takes {self._nodes - 1} edges that join all {self._nodes} nodes and "
                f"close no cycle; z has {np.count_nonzero(z)}"
            )
        return cast(tuple[Any, Any, Any, Any], tuple(tree))


class _Blocks(NamedTuple):
    """The largest parts of a graph that no single node cuts: the block of every edge, its edges, those in a tree."""

    of_edge: NDArray[np.int32]
    edges: NDArray[np.int64]
    trees: NDArray[np.int64]

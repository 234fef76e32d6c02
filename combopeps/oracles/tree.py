"""Oracle of the spanning trees of a connected graph."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping
from functools import cached_property
from math import comb, e, log
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.errors import AnswerError
from combopeps.oracles.base import ArgmaxOracle, Array, Confusions, LogCardinality, Sparse
from combopeps.oracles.input_checks import as_vector, reversed_edge
from combopeps.utils.validation import check_choice

if TYPE_CHECKING:
    import networkx as nx

_log = logging.getLogger(__name__)
_MAX_DENSE_NODES = 1000  # up to which the determinant is computed from a dense Laplacian
_MAX_PAIRS_PER_EDGE = 16  # up to which the membership test by a table of all pairs of nodes is faster


class SpanningTreeOracle(ArgmaxOracle):
    """Oracle of the spanning trees of a graph: the tree of least total weight (`objective="min"`), or of greatest.

    With "min", z is minus the indicator of the tree, so that z @ theta is minus its weight. Weights may be negative or
    zero; among edges of equal weight the earlier ones win. Solved by Boruvka's algorithm.

    Parameters
    ----------
    graph
        Connected networkx `Graph` or `MultiGraph`. It is read once and not kept. A self-loop is in no tree: `pruned`
        lists them. Coordinates among the attributes of its nodes (pos, x and y, lon and lat) are kept in `pos`, for
        plots.
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
        from combopeps.oracles.graph_arrays import check_connected, edge_labels, node_positions

        check_choice("objective", objective, ("min", "max"))
        check_connected(graph)
        labels = edge_labels(graph)
        super().__init__(label for label in labels if label[0] != label[1])
        self.multigraph = graph.is_multigraph()
        self.unit = 1.0 if objective == "max" else -1.0
        self.pruned = tuple(label for label in labels if label[0] == label[1])
        if self.pruned:
            _log.info("dropped %d of %d edges that are loops", len(self.pruned), len(labels))
        self.pos, self.in_degrees = node_positions(graph, list(graph.nodes))
        number = {node: i for i, node in enumerate(graph.nodes)}
        edges = cast(tuple[tuple[Hashable, ...], ...], self._components)
        self._nodes = len(number)
        self._u, self._v = np.array([[number[node] for node in edge[:2]] for edge in edges], dtype=np.int32).T.copy()

    def __repr__(self) -> str:
        return f"SpanningTreeOracle({self._nodes} nodes, {self.dim} edges, objective={self.objective!r})"

    def _summary(self) -> Mapping[str, Any]:
        return {**super()._summary(), "nodes": self._nodes, "objective": self.objective}

    def _argmax_batch(self, thetas: Array) -> Array:
        from combopeps.oracles._graph_kernels import best_trees

        best = np.zeros(thetas.shape)
        best_trees(self._u, self._v, self._nodes, thetas, self.unit, best)
        return best

    def _membership_batch(self, z: Array, thetas: Array) -> NDArray[np.bool_]:
        from combopeps.oracles._graph_kernels import tree_membership, tree_membership_dense

        order, parent, above, _ = self._root_tree(z)
        if self._nodes**2 <= _MAX_PAIRS_PER_EDGE * self.dim:
            is_best = tree_membership_dense(self._u, self._v, order, parent, above, thetas, self.unit)
        else:
            is_best = tree_membership(self._u, self._v, self._nodes, z, thetas, self.unit)
        return np.asarray(is_best)

    def decode(self, z: ArrayLike) -> list[Hashable]:
        """Return the edges of the tree, in the order of the components."""
        vector = as_vector(z, self.dim)
        self._root_tree(vector)
        return [self._components[i] for i in np.flatnonzero(vector)]

    def encode(self, answer: Any) -> Array:
        """Return the vector of a collection of edges, each written in either direction."""
        z = super().encode(answer)
        self._root_tree(z)
        return z

    def why_pruned(self, label: Hashable) -> str:
        return f"edge {label!r} is a loop, which is in no tree"

    def aliases(self, label: Hashable) -> tuple[Hashable, ...]:
        return reversed_edge(label, 3 if self.multigraph else 2)

    def facets(self, z: ArrayLike) -> Sparse:
        """Return the swaps of a tree edge for another edge whose cycle contains it: complete and irredundant.

        Spanning trees are the bases of a matroid, and a base that no single exchange improves is a best one.
        """
        rows = self.facets_up_to(z, self.facet_count)
        assert rows is not None
        return rows

    def facets_up_to(self, z: ArrayLike, most: int) -> Sparse | None:
        """Return the swaps if there are at most `most`, else None; their number depends on the lengths of cycles."""
        from scipy.sparse import csr_array

        from combopeps.oracles._graph_kernels import count_swaps, list_swaps

        vector = as_vector(z, self.dim)
        _, parent, above, depth = self._root_tree(vector)
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
        """Upper bound, summed over the blocks of the graph: r tree edges, s other edges, at most p parallel edges.

        The smaller of r s, because a cycle contains at most r tree edges, and p C(r + 2, 3) - r, because the sum of the
        distances between all pairs of r + 1 nodes of a tree is largest on a path, where it is C(r + 2, 3).
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
        """Exact: the determinant of the Laplacian without one row and column (Kirchhoff's theorem)."""
        from combopeps.oracles.graph_arrays import log_determinant

        if self.dim == self._nodes - 1:
            return LogCardinality(0.0, exact=True)
        log_trees = log_determinant(self._nodes, self._u, self._v, max_dense=_MAX_DENSE_NODES)
        return LogCardinality(max(0.0, log_trees), exact=True)

    def confusions(self, *, whole: bool = False) -> Confusions:
        """Count the swaps at a fixed tree z*, at most P = `facet_count`.

        Symmetric exchange: for every e in z_hat and not in z* there is an f in z* and not in z_hat such that both
        z_hat - e + f and z* - f + e are trees. By the second, f is better than e and the pair is one of the P; by the
        first, it is among the swaps that a certificate of z_hat considers.

        With `whole`, the edges that two trees do not share can be paired into such swaps (Brualdi, 1969), so that at
        most C(P, m) <= P^m / m! trees differ from z* in m edges; and at most C(r, m) C(s, m) <= (r s)^m / m!^2, for r
        edges in z* and s outside.
        """
        swaps, inside = max(self.facet_count, 1), self._nodes - 1
        if not whole:
            return Confusions(log(swaps), np.zeros(self.dim))
        pairs = max(inside * (self.dim - inside), 1)
        # sum_{m >= 1} 1 / m! = e - 1, and sum_{m >= 1} 1 / m!^2 < 1.2796
        count, per_edge = min((e - 1.0, swaps), (1.2796, pairs), key=lambda bound: bound[0] * bound[1])
        return Confusions(log(count), np.full(self.dim, log(per_edge)))

    def equalities(self) -> Sparse:
        """Return the block indicators: a tree has as many edges in a block as the block has nodes, less one."""
        from scipy.sparse import csr_array

        block = self._blocks.of_edge
        return csr_array((np.ones(self.dim), (block, np.arange(self.dim))), shape=(int(block.max()) + 1, self.dim))

    @cached_property
    def _blocks(self) -> _Blocks:
        from combopeps.oracles._graph_kernels import blocks

        z = self.argmax(np.zeros(self.dim))
        of_edge = blocks(self._u, self._v, self._nodes, z, *self._root_tree(z)[1:])
        return _Blocks(of_edge, np.bincount(of_edge), np.bincount(of_edge, weights=z != 0.0).astype(np.int64))

    def _root_tree(self, z: Array) -> tuple[Any, Any, Any, Any]:
        """Return the nodes from the root down and, by node, its parent, the edge to it and the depth."""
        from combopeps.oracles._graph_kernels import root_tree

        *tree, is_tree = root_tree(self._u, self._v, self._nodes, z, self.unit)
        if not is_tree:
            super().decode(z)  # raises the specific error for entries other than 0 and unit
            raise AnswerError(
                f"z is not a spanning tree: it takes {self._nodes - 1} edges that join all {self._nodes} nodes and "
                f"close no cycle; z has {np.count_nonzero(z)}"
            )
        return cast(tuple[Any, Any, Any, Any], tuple(tree))


class _Blocks(NamedTuple):
    """Biconnected components of a graph."""

    of_edge: NDArray[np.int32]  # the block of every edge
    edges: NDArray[np.int64]  # the number of edges of every block
    trees: NDArray[np.int64]  # the number of edges that any spanning tree has in every block

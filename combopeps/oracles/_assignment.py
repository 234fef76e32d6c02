"""Two ways to solve one assignment problem: the best sum of weights over left-saturating matchings; is there one?

Each engine is built once from the edges (rows `left[e]`, columns `right[e]`, sorted by row, then column) and
then maps a weight vector over edges to the numbers of the chosen edges, one per left node.
"""

from __future__ import annotations

from math import ceil, log2

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import OracleError
from combopeps.oracles.base import Array

Index = NDArray[np.intp]

_DENSE_ENTRIES = 1 << 23  # a full matrix of 64 MB


class DenseScipy:
    """`scipy.optimize.linear_sum_assignment`: floats, a full matrix; missing edges are infinitely bad."""

    def __init__(self, left: Index, right: Index, shape: tuple[int, int], maximize: bool) -> None:
        from scipy.optimize import linear_sum_assignment

        self.solve, self.maximize = linear_sum_assignment, maximize
        self.left, self.right, self.shape = left, right, shape
        self.first = np.arange(shape[0]) * shape[1]
        self.complete = len(left) == shape[0] * shape[1]
        if not self.complete:
            self.edge = np.zeros(shape, dtype=np.intp)
            self.edge[left, right] = np.arange(len(left))

    def __call__(self, weights: Array) -> Index:
        if self.complete:
            columns = self.solve(weights.reshape(self.shape), self.maximize)[1]
            columns += self.first
            return columns
        matrix = np.full(self.shape, -np.inf if self.maximize else np.inf)
        matrix[self.left, self.right] = weights
        return self.edge[self.solve(matrix, self.maximize)]


class OrTools:
    """OR-Tools `SimpleLinearSumAssignment`: integers, memory linear in the edges.

    Costs are shifted to be non-negative and scaled by a power of two as far as int64 allows: the solver
    multiplies by n and adds up n terms, so n^2 times the largest cost must stay below 2^61. A matching it calls
    optimal is within |left| half units of the last bit of the best.

    Rectangular problems are made square with a mirror image: a copy of every edge from the right side to the
    left at no cost, and an edge from every right node to its own mirror. That is 2 E + |right| edges, where
    padding with dummy rows would take |right|^2.
    """

    MAX_BITS = 52

    def __init__(self, left: Index, right: Index, shape: tuple[int, int], maximize: bool) -> None:
        rows, columns = shape
        self.edges, self.rows, self.maximize = len(left), rows, maximize
        self.keys, self.columns = left * columns + right, columns
        if rows < columns:
            mirror = np.arange(columns)
            left, right = (
                np.concatenate([left, rows + right, rows + mirror]),
                np.concatenate([right, columns + left, mirror]),
            )
        self.left, self.right = left.astype(np.int32), right.astype(np.int32)
        nodes = rows if rows == columns else rows + columns
        self.bits = min(self.MAX_BITS, int(60 - 2 * ceil(log2(nodes + 1))))

    def __call__(self, weights: Array) -> Index:
        from ortools.graph.python.linear_sum_assignment import SimpleLinearSumAssignment

        solver = SimpleLinearSumAssignment()
        solver.add_arcs_with_cost(self.left, self.right, self.integers(-weights if self.maximize else weights))
        status = solver.solve()
        if status != solver.OPTIMAL:
            raise OracleError(f"OR-Tools answered {status.name} on a feasible assignment", weights)
        mates = np.fromiter(map(solver.right_mate, range(self.rows)), dtype=np.intp, count=self.rows)
        return np.searchsorted(self.keys, np.arange(self.rows) * self.columns + mates)

    def integers(self, costs: Array) -> NDArray[np.int64]:
        """Costs as non-negative integers below 2^bits, order preserved up to the last bit; mirror edges cost 0."""
        shifted = costs - costs.min()
        top = shifted.max()
        exponent = self.bits - int(np.frexp(top)[1]) if top > 0 else 0
        scaled = np.zeros(len(self.left), dtype=np.int64)
        scaled[: self.edges] = np.rint(np.ldexp(shifted, exponent))
        return scaled


Engine = DenseScipy | OrTools


def measured_choice(rows: int, edges: int, columns: int) -> type[Engine]:
    """The cheaper of the two (`python -m benchmarks.oracles`): OR-Tools for many nodes and few edges.

    The mirror image makes nearly square problems several times dearer for OR-Tools: there a full matrix wins as long
    as there is room for it. (SciPy's sparse solver, min_weight_full_bipartite_matching, was seen not to return on
    weights with near ties.)
    """
    sparse = rows >= 64 and 6 * edges <= rows * columns
    nearly_square = rows < columns < 2 * rows and rows * columns <= _DENSE_ENTRIES
    return OrTools if sparse and not nearly_square else DenseScipy


def deficient_set(left: Index, right: Index, shape: tuple[int, int]) -> tuple[list[int], list[int]] | None:
    """Left nodes S and all their neighbours N(S) with |N(S)| < |S| (Hall), or None when the left side can be saturated.

    S is what alternating paths reach from one left node that a maximum matching leaves free: S without it is
    matched one to one with N(S).
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    graph = csr_array((np.ones(len(left), dtype=np.int8), (left, right)), shape=shape)
    mate_of_left = maximum_bipartite_matching(graph, perm_type="column")
    if (mate_of_left >= 0).all():
        return None
    mate_of_right = {int(j): i for i, j in enumerate(mate_of_left) if j >= 0}
    start = int(np.flatnonzero(mate_of_left < 0)[0])
    reached, neighbours, frontier = {start}, set(), [start]
    while frontier:
        i = frontier.pop()
        for j in graph.indices[graph.indptr[i] : graph.indptr[i + 1]].tolist():
            if j not in neighbours:
                neighbours.add(j)
                reached.add(mate_of_right[j])
                frontier.append(mate_of_right[j])
    return sorted(reached), sorted(neighbours)

"""Three ways to solve one assignment problem: the best sum of weights over left-saturating matchings; is there one?

Each engine is built once from the edges (rows `left[e]`, columns `right[e]`, sorted by row, then column; component
`order[e]`), and then fills `best`, (B, d), with the entry `unit` at the chosen components of every row of `thetas`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import ceil, log2

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import OracleError
from combopeps.oracles.base import Array

Index = NDArray[np.intp]

_MANY = 2000  # rows


class Compiled:
    """Shortest augmenting paths: floats, memory linear in the edges, no mirror image for rectangular problems."""

    name = "compiled"

    def __init__(self, left: Index, right: Index, shape: tuple[int, int], order: Index) -> None:
        rows, self.columns = shape
        self.first, self.column = np.searchsorted(left, np.arange(rows + 1)), right.astype(np.int64)
        self.order = order.astype(np.int64)

    def fill(self, thetas: Array, unit: float, best: Array) -> None:
        """See above."""
        from combopeps.oracles._augmenting_kernels import assignments

        if not assignments(self.first, self.column, self.columns, self.order, thetas, -unit, unit, best):
            raise OracleError("no assignment was found where there is one", thetas)


class OneByOne(ABC):
    """A solver that takes costs of edges, one vector at a time, and returns the numbers of the chosen edges."""

    def __init__(self, order: Index) -> None:
        self.order = order
        self.in_order = bool((order[:-1] < order[1:]).all())

    @abstractmethod
    def solve(self, costs: Array) -> Index:
        """The edges of the least sum."""

    def fill(self, thetas: Array, unit: float, best: Array) -> None:
        """See above."""
        for theta, z in zip(thetas, best, strict=True):
            if self.in_order:
                z[self.solve(-unit * theta)] = unit
            else:
                z[self.order[self.solve(-unit * theta[self.order])]] = unit


class DenseScipy(OneByOne):
    """`scipy.optimize.linear_sum_assignment`: floats, a full matrix; missing edges are infinitely bad."""

    name = "scipy"

    def __init__(self, left: Index, right: Index, shape: tuple[int, int], order: Index) -> None:
        from scipy.optimize import linear_sum_assignment

        super().__init__(order)
        self.assign = linear_sum_assignment
        self.left, self.right, self.shape = left, right, shape
        self.first = np.arange(shape[0]) * shape[1]
        self.complete = len(left) == shape[0] * shape[1]
        if not self.complete:
            self.edge = np.zeros(shape, dtype=np.intp)
            self.edge[left, right] = np.arange(len(left))

    def solve(self, costs: Array) -> Index:
        """By one call."""
        if self.complete:
            columns = self.assign(costs.reshape(self.shape))[1]
            columns += self.first
            return columns
        matrix = np.full(self.shape, np.inf)
        matrix[self.left, self.right] = costs
        return self.edge[self.assign(matrix)]


class OrTools(OneByOne):
    """OR-Tools `SimpleLinearSumAssignment`: integers, memory linear in the edges.

    Costs are shifted to be non-negative and scaled by a power of two as far as int64 allows: the solver
    multiplies by n and adds up n terms, so n^2 times the largest cost must stay below 2^61. A matching it calls
    optimal is within |left| half units of the last bit of the best.

    Rectangular problems are made square with a mirror image: a copy of every edge from the right side to the
    left at no cost, and an edge from every right node to its own mirror. That is 2 E + |right| edges, where
    padding with dummy rows would take |right|^2.
    """

    name = "ortools"
    MAX_BITS = 52

    def __init__(self, left: Index, right: Index, shape: tuple[int, int], order: Index) -> None:
        super().__init__(order)
        rows, columns = shape
        self.edges, self.rows = len(left), rows
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

    def solve(self, costs: Array) -> Index:
        """By a solver of its own."""
        from ortools.graph.python.linear_sum_assignment import SimpleLinearSumAssignment

        solver = SimpleLinearSumAssignment()
        solver.add_arcs_with_cost(self.left, self.right, self.integers(costs))
        status = solver.solve()
        if status != solver.OPTIMAL:
            raise OracleError(f"OR-Tools answered {status.name} on a feasible assignment", costs)
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


Engine = Compiled | DenseScipy | OrTools
ENGINES: dict[str, type[Engine]] = {kind.name: kind for kind in (Compiled, DenseScipy, OrTools)}


def measured_choice(rows: int, edges: int, columns: int) -> type[Engine]:
    """The cheapest of the three (`python -m benchmarks.oracles`).

    Paths get long where there are thousands of rows and hardly a column to spare: there OR-Tools is faster. Full
    matrices are what SciPy is made for: on small ones it loses some microseconds, and saves loading a compiler.
    (SciPy's sparse solver, min_weight_full_bipartite_matching, was seen not to return on weights with near ties.)
    """
    if rows > _MANY and 2 * columns < 3 * rows:
        return OrTools if 6 * edges <= rows * columns else DenseScipy
    return DenseScipy if edges == rows * columns else Compiled


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

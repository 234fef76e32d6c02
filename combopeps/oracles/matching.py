"""Oracle of the bipartite matchings that match every left node, and three assignment solvers.

A solver is built once from the edges (rows `left[e]`, columns `right[e]`, sorted by row, then column; component
`order[e]`). Its method `fill` then writes `unit` at the chosen components of every row of `thetas` into the zeros of
`best`, (B, d).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from math import ceil, comb, factorial, lgamma, log, log2
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.errors import AnswerError, LabelError, MatchingError, OracleError
from combopeps.oracles.base import ArgmaxOracle, Array, Confusions, LogCardinality, Sparse
from combopeps.oracles.input_checks import as_labels, as_vector, count_or_labels
from combopeps.utils.validation import check_choice, check_flag

Index = NDArray[np.intp]

_MIN_ORTOOLS_ROWS = 2000  # from which OR-Tools or SciPy may be faster than augmenting paths
_MAX_ENUMERATED_NODES = 6  # up to which cycles are counted with weight 1


class Compiled:
    """Shortest augmenting paths: float costs, memory linear in the number of edges, no padding to a square problem."""

    name = "compiled"

    def __init__(self, left: Index, right: Index, shape: tuple[int, int], order: Index) -> None:
        rows, self.columns = shape
        self.first, self.column = np.searchsorted(left, np.arange(rows + 1)), right.astype(np.int64)
        self.order = order.astype(np.int64)

    def fill(self, thetas: Array, unit: float, best: Array) -> None:
        """Solve one problem per row of `thetas`."""
        from combopeps.oracles._set_kernels import solve_assignments

        if not solve_assignments(self.first, self.column, self.columns, self.order, thetas, -unit, unit, best):
            raise OracleError("no assignment was found although one exists", thetas)


class SingleSolver(ABC):
    """Base class of solvers of one problem at a time."""

    def __init__(self, order: Index) -> None:
        self.order = order
        self.is_ordered = bool((order[:-1] < order[1:]).all())

    @abstractmethod
    def solve(self, costs: Array) -> Index:
        """Return the indices of the edges of a minimum-cost assignment, for costs by edge."""

    def fill(self, thetas: Array, unit: float, best: Array) -> None:
        """Solve one problem per row of `thetas`."""
        for theta, z in zip(thetas, best, strict=True):
            if self.is_ordered:
                z[self.solve(-unit * theta)] = unit
            else:
                z[self.order[self.solve(-unit * theta[self.order])]] = unit


class DenseScipy(SingleSolver):
    """`scipy.optimize.linear_sum_assignment`: float costs in a dense matrix, infinite for missing edges."""

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
        """Return the indices of the edges of a minimum-cost assignment."""
        if self.complete:
            columns = self.assign(costs.reshape(self.shape))[1]
            columns += self.first
            return columns
        matrix = np.full(self.shape, np.inf)
        matrix[self.left, self.right] = costs
        return self.edge[self.assign(matrix)]


class OrTools(SingleSolver):
    """OR-Tools `SimpleLinearSumAssignment`: integer costs, memory linear in the number of edges.

    Costs are shifted to be non-negative and scaled by a power of two as far as int64 allows: the solver multiplies by n
    and adds n terms, so that n^2 times the largest cost must be below 2^61. A matching that it reports as optimal is
    within |left| half units of the last bit of the optimum.

    Rectangular problems are made square with a mirror image of the graph: a copy of every edge from the right side to
    the left at no cost, and an edge from every right node to its mirror. That makes 2 E + |right| edges, where padding
    with dummy rows would take |right|^2.
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
        """Return the indices of the edges of a minimum-cost assignment."""
        from ortools.graph.python.linear_sum_assignment import SimpleLinearSumAssignment

        solver = SimpleLinearSumAssignment()
        solver.add_arcs_with_cost(self.left, self.right, self.integers(costs))
        status = solver.solve()
        if status != solver.OPTIMAL:
            raise OracleError(f"OR-Tools returned {status.name} for a feasible assignment", costs)
        mates = np.fromiter(map(solver.right_mate, range(self.rows)), dtype=np.intp, count=self.rows)
        return np.searchsorted(self.keys, np.arange(self.rows) * self.columns + mates)

    def integers(self, costs: Array) -> NDArray[np.int64]:
        """Scale costs to non-negative integers below 2^bits; mirror edges cost 0."""
        shifted = costs - costs.min()
        top = shifted.max()
        exponent = self.bits - int(np.frexp(top)[1]) if top > 0 else 0
        scaled = np.zeros(len(self.left), dtype=np.int64)
        scaled[: self.edges] = np.rint(np.ldexp(shifted, exponent))
        return scaled


Engine = Compiled | DenseScipy | OrTools
ENGINES: dict[str, type[Engine]] = {kind.name: kind for kind in (Compiled, DenseScipy, OrTools)}


def choose_engine(rows: int, edges: int, columns: int) -> type[Engine]:
    """Return the solver that was measured to be fastest at this size (`python -m benchmarks.oracles`).

    Augmenting paths get long with thousands of rows and few spare columns: there OR-Tools is faster. On complete graphs
    SciPy is fastest; on small ones it loses some microseconds, but needs no compilation. (SciPy's sparse solver,
    `min_weight_full_bipartite_matching`, did not return on some weights with near ties.)
    """
    if rows > _MIN_ORTOOLS_ROWS and 2 * columns < 3 * rows:
        return OrTools if 6 * edges <= rows * columns else DenseScipy
    return DenseScipy if edges == rows * columns else Compiled


def deficient_set(left: Index, right: Index, shape: tuple[int, int]) -> tuple[list[int], list[int]] | None:
    """Return left nodes S and their neighbours N(S) with |N(S)| < |S|; None if all left nodes can be matched (Hall).

    S are the left nodes that alternating paths reach from one left node that a maximum matching leaves free: the others
    of S are matched one to one with N(S).
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


class MatchingOracle(ArgmaxOracle):
    """Oracle of the bipartite matchings that match every left node to a right node of its own (assignment problem).

    Parameters
    ----------
    left, right
        Labels of the two sides (or their numbers of nodes), |left| <= |right|.
    edges
        The allowed pairs (left, right); all pairs by default. Components follow this order.
    maximize
        True for rewards. False for costs: then z is minus the indicator of the matching.
    engine
        "compiled" (shortest augmenting paths), "ortools", "scipy" (dense matrix), or "auto" for the one that was
        measured to be fastest at this size. OR-Tools computes with integers of at most 52 bits, fewer for more nodes:
        if one entry of theta is huge, the others are rounded coarsely. The other engines have no such limit.

    Examples
    --------
    >>> oracle = MatchingOracle(["ann", "bob"], ["dig", "plant", "water"])
    >>> z = oracle.argmax([3, 2, 1,   4, 1, 0])
    >>> oracle.decode(z)
    {'ann': 'plant', 'bob': 'dig'}
    """

    binary = antichain = exchanges = quick = True

    def __init__(
        self,
        left: int | Iterable[Hashable],
        right: int | Iterable[Hashable],
        edges: Iterable[tuple[Hashable, Hashable]] | None = None,
        maximize: bool = True,
        *,
        engine: Literal["auto", "compiled", "ortools", "scipy"] = "auto",
    ) -> None:
        self.left, self.right = count_or_labels(left, "left"), count_or_labels(right, "right")
        rows, columns = shape = len(self.left), len(self.right)
        check_choice("engine", engine, ("auto", *sorted(ENGINES)))
        check_flag("maximize", maximize)
        if rows > columns:
            raise MatchingError(
                f"{rows} left nodes cannot have a right node each out of {columns}; swap the two sides",
                self.left,
                self.right,
            )
        pairs: Iterable[Hashable]
        if edges is None:
            pairs = ((i, j) for i in self.left for j in self.right)
            i, j = np.divmod(np.arange(rows * columns), columns)
        else:
            pairs = _as_pairs(edges)
            i, j = _node_indices(pairs, self.left, self.right)
            as_labels(pairs, "edges")
        super().__init__(pairs)
        self.unit = 1.0 if maximize else -1.0
        order = np.lexsort((j, i))  # engines take edges by row, then column
        self._left_of, self._right_of = i[order], j[order]
        self._order = None if bool((order[:-1] < order[1:]).all()) else order
        self._check_feasible(shape)
        solver = choose_engine(rows, self.dim, columns) if engine == "auto" else ENGINES[engine]
        self._engine = solver(self._left_of, self._right_of, shape, order)
        if isinstance(self._engine, OrTools):
            self.resolution = 8 * rows * 2.0**-self._engine.bits

    @property
    def engine(self) -> str:
        """The solver in use: "compiled", "ortools" or "scipy"."""
        return self._engine.name

    def __repr__(self) -> str:
        return f"MatchingOracle({len(self.left)} x {len(self.right)}, {self.dim} edges, engine={self.engine})"

    def _summary(self) -> Mapping[str, Any]:
        return {**super()._summary(), "left": len(self.left), "right": len(self.right), "engine": self.engine}

    def _argmax_batch(self, thetas: Array) -> Array:
        best = np.zeros(thetas.shape)
        self._engine.fill(thetas, self.unit, best)
        return best

    def decode(self, z: ArrayLike) -> dict[Hashable, Hashable]:
        """Return a dict left -> right, in the order of the left nodes."""
        pairs = super().decode(as_vector(z, self.dim))
        mate = dict(pairs)
        if len(pairs) != len(self.left) or len(mate) != len(pairs) or len(set(mate.values())) != len(pairs):
            raise AnswerError(f"z is not a matching of all {len(self.left)} left nodes")
        return {i: mate[i] for i in self.left}

    def encode(self, answer: Any) -> Array:
        """Return the vector of a dict left -> right."""
        try:
            pairs = dict(answer).items()
        except (TypeError, ValueError):
            raise AnswerError(f"a matching is a dict left -> right, got {answer!r}") from None
        z = super().encode(pairs)
        self.decode(z)
        return z

    def facets_up_to(self, z: ArrayLike, most: int) -> Sparse | None:
        """Return the alternating cycles, and the alternating paths to a free right node, if at most `most`."""
        from combopeps.oracles.exchanges import alternating_exchanges

        self.decode(z)
        vector, order = as_vector(z, self.dim), self._order
        if order is None:
            return alternating_exchanges(self._left_of, self._right_of, vector, self.unit, most)
        rows = alternating_exchanges(self._left_of, self._right_of, vector[order], self.unit, most)
        return None if rows is None else rows[:, np.argsort(order)]

    def confusions(self, *, whole: bool = False) -> Confusions:
        """Count the alternating cycles of a fixed matching and, with free right nodes, alternating paths.

        With few nodes, all cycles have weight 1. Otherwise a cycle is weighted by the probability that a random walk
        follows it, from a left node to a random neighbour and from there to its mate: cycles through a node are
        disjoint events, and so are paths from it, and a cycle has at least two left nodes as starting points.
        """
        n, m = len(self.left), len(self.right)
        complete = self.dim == n * m and n == m
        if complete and not whole and n <= _MAX_ENUMERATED_NODES:
            cycles = sum(comb(n, size) * factorial(size - 1) for size in range(2, n + 1))
            return Confusions(log(max(cycles, 1e-300)), np.zeros(self.dim))
        degrees = np.bincount(self._left_of, minlength=n).astype(np.float64)
        charge = np.empty(self.dim)
        charge[slice(None) if self._order is None else self._order] = np.log(degrees)[self._left_of]
        leave = 1.0 - 1.0 / degrees
        if complete:  # of the n! / ((n - m)! n^m) ways to move m nodes, 1/m are cycles; at most half move all of them
            moved = np.cumprod(1.0 - np.arange(n) / n)[1:]
            count = 0.5 * moved.sum() if whole else (moved / np.arange(2, n + 1)).sum()
        elif whole:
            return Confusions(float(np.log1p(leave).sum()), charge)
        else:
            count = leave.sum() / (2.0 if n == m else 1.0)
        return Confusions(log(max(float(count), 1e-300)), charge)

    def equalities(self) -> Sparse:
        """Return the sums of edges at every left node and, if |left| = |right|, at every right node."""
        from scipy.sparse import csr_array

        n, m = len(self.left), len(self.right)
        column = np.arange(self.dim) if self._order is None else self._order
        sides = [self._left_of, self._right_of + n] if n == m else [self._left_of]
        rows = np.concatenate(sides)
        entries = (np.ones(len(rows)), (rows, np.tile(column, len(sides))))
        return csr_array(entries, shape=(n + m if n == m else n, self.dim))

    @property
    def log_cardinality(self) -> LogCardinality:
        """Exact if all pairs are allowed, else the smaller of two upper bounds.

        The product of the left degrees r_i; and the bound of Bregman and Minc on a permanent after padding with full
        rows: prod_i (r_i!)^(1/r_i) * (m!)^((m - n)/m) / (m - n)!.
        """
        n, m = len(self.left), len(self.right)
        if self.dim == n * m:
            return LogCardinality(lgamma(m + 1) - lgamma(m - n + 1), exact=True)
        degrees = np.bincount(self._left_of, minlength=n)
        product = float(np.log(degrees).sum())
        bregman = sum(lgamma(r + 1) / r for r in degrees.tolist())
        bregman += lgamma(m + 1) * (m - n) / m - lgamma(m - n + 1)
        return LogCardinality(min(product, bregman), exact=False)

    def _check_feasible(self, shape: tuple[int, int]) -> None:
        """Raise `MatchingError` naming a deficient set if no matching covers the left side."""
        if self.dim == shape[0] * shape[1]:
            return
        deficient = deficient_set(self._left_of, self._right_of, shape)
        if deficient is not None:
            nodes, neighbours = [self.left[i] for i in deficient[0]], [self.right[j] for j in deficient[1]]
            raise MatchingError(
                f"no matching gives every left node its own right node: the {len(nodes)} left nodes "
                f"{_list_some(nodes)} share only {len(neighbours)} neighbours {_list_some(neighbours)}; "
                "add edges there",
                nodes,
                neighbours,
            )


def _as_pairs(edges: Iterable[tuple[Hashable, Hashable]]) -> list[tuple[Hashable, Hashable]]:
    """Return edges as a list of pairs; `LabelError` for anything else."""
    if not isinstance(edges, Iterable):
        raise LabelError(f"edges must be pairs (left, right), got {edges!r}")
    if isinstance(edges, np.ndarray):
        edges = edges.tolist()
    pairs = list[tuple[Hashable, Hashable]]()
    for edge in edges:
        pair = tuple(edge) if isinstance(edge, (tuple, list)) else (edge,)
        if len(pair) != 2:
            raise LabelError(f"an edge is a pair (left, right), got {pair!r}")
        pairs.append((pair[0], pair[1]))
    return pairs


def _node_indices(
    pairs: list[tuple[Hashable, Hashable]], left: tuple[Hashable, ...], right: tuple[Hashable, ...]
) -> tuple[Index, Index]:
    """Return the left and the right node index of every edge; `LabelError` for unknown nodes."""
    ends = np.empty((2, len(pairs)), dtype=np.intp)
    for side, name, labels in ((0, "left", left), (1, "right", right)):
        number = {label: i for i, label in enumerate(labels)}
        for e, pair in enumerate(pairs):
            try:
                ends[side, e] = number[pair[side]]
            except (KeyError, TypeError):
                raise LabelError(f"edge {pair!r} names no {name} node; list it in {name}=") from None
    return ends[0], ends[1]


def _list_some(labels: list[Hashable]) -> str:
    shown = ", ".join(repr(label) for label in labels[:8])
    return f"[{shown}{', ...' if len(labels) > 8 else ''}]"

"""Z = all matchings that give every left node its own right node.

Three ways to solve one assignment problem: the best sum of weights over left-saturating matchings; is there one?

Each engine is built once from the edges (rows `left[e]`, columns `right[e]`, sorted by row, then column; component
`order[e]`), and then fills `best`, (B, d), with the entry `unit` at the chosen components of every row of `thetas`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from math import ceil, comb, factorial, lgamma, log, log2
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.errors import AnswerError, LabelError, MatchingError, OracleError
from combopeps.oracles.base import ArgmaxOracle, Array, Confusions, LogCardinality, Sparse
from combopeps.oracles.input_checks import as_labels, as_vector, count_or_labels
from combopeps.utils.validation import check_choice, check_flag

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
        from combopeps.oracles._set_kernels import assignments

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


_FEW_NODES = 6


class MatchingOracle(ArgmaxOracle):
    """The best assignment of every left node to a right node of its own.

    Parameters
    ----------
    left, right
        Labels of the two sides (or their numbers of nodes), |left| <= |right|.
    edges
        The allowed pairs (left, right); all pairs by default. Components follow this order.
    maximize
        True for rewards. False for costs: then z is minus the indicator of the matching.
    engine
        "compiled" (shortest augmenting paths), "ortools", "scipy" (a full matrix), or "auto" for the one that was
        measured to be fastest at this size. OR-Tools computes with integers of at most 52 bits, fewer for more nodes:
        with one huge entry in theta the others become coarse; the others have no such limit.

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
            i, j = _numbers(pairs, self.left, self.right)
            as_labels(pairs, "edges")
        super().__init__(pairs)
        self.unit = 1.0 if maximize else -1.0
        order = np.lexsort((j, i))  # engines want edges by row, then column
        self._left_of, self._right_of = i[order], j[order]
        self._order = None if bool((order[:-1] < order[1:]).all()) else order
        self._refuse_deficiency(shape)
        kind = measured_choice(rows, self.dim, columns) if engine == "auto" else ENGINES[engine]
        self._engine = kind(self._left_of, self._right_of, shape, order)
        if isinstance(self._engine, OrTools):
            self.resolution = 8 * rows * 2.0**-self._engine.bits

    @property
    def engine(self) -> str:
        """The solver in use: "compiled", "ortools" or "scipy"."""
        return self._engine.name

    def __repr__(self) -> str:
        return f"MatchingOracle({len(self.left)} x {len(self.right)}, {self.dim} edges, engine={self.engine})"

    def _argmax_batch(self, thetas: Array) -> Array:
        best = np.zeros(thetas.shape)
        self._engine.fill(thetas, self.unit, best)
        return best

    def decode(self, z: ArrayLike) -> dict[Hashable, Hashable]:
        """A dict left -> right, in the order of the left nodes."""
        pairs = super().decode(as_vector(z, self.dim))
        mate = dict(pairs)
        if len(pairs) != len(self.left) or len(mate) != len(pairs) or len(set(mate.values())) != len(pairs):
            raise AnswerError(f"z is not a matching of all {len(self.left)} left nodes")
        return {i: mate[i] for i in self.left}

    def encode(self, answer: Any) -> Array:
        """The vector of a dict left -> right."""
        try:
            pairs = dict(answer).items()
        except (TypeError, ValueError):
            raise AnswerError(f"a matching is a dict left -> right, got {answer!r}") from None
        z = super().encode(pairs)
        self.decode(z)
        return z

    def facets_up_to(self, z: ArrayLike, most: int) -> Sparse | None:
        """The alternating cycles through a matching, and the alternating paths that end at a free right node."""
        from combopeps.oracles.confusions import alternating

        self.decode(z)
        vector, order = as_vector(z, self.dim), self._order
        if order is None:
            return alternating(self._left_of, self._right_of, vector, self.unit, most)
        rows = alternating(self._left_of, self._right_of, vector[order], self.unit, most)
        return None if rows is None else rows[:, np.argsort(order)]

    def confusions(self, *, whole: bool = False) -> Confusions:
        """Alternating cycles through a fixed matching, and alternating paths where right nodes may stay free.

        Few nodes: all cycles count alike. Otherwise each is weighted by the probability of the random walk that goes
        from a left node to a random neighbour and from there to its mate: cycles through a node are disjoint events,
        and so are paths from it; a cycle has at least two nodes to start from.
        """
        n, m = len(self.left), len(self.right)
        complete = self.dim == n * m and n == m
        if complete and not whole and n <= _FEW_NODES:
            cycles = sum(comb(n, size) * factorial(size - 1) for size in range(2, n + 1))
            return Confusions(log(max(cycles, 1e-300)), np.zeros(self.dim))
        degrees = np.bincount(self._left_of, minlength=n).astype(np.float64)
        charge = np.empty(self.dim)
        charge[slice(None) if self._order is None else self._order] = np.log(degrees)[self._left_of]
        leave = 1.0 - 1.0 / degrees
        if complete:  # of n! / ((n - m)! n^m) ways to send m nodes elsewhere, 1/m are cycles, at most half move all
            moved = np.cumprod(1.0 - np.arange(n) / n)[1:]
            count = 0.5 * moved.sum() if whole else (moved / np.arange(2, n + 1)).sum()
        elif whole:
            return Confusions(float(np.log1p(leave).sum()), charge)
        else:
            count = leave.sum() / (2.0 if n == m else 1.0)
        return Confusions(log(max(float(count), 1e-300)), charge)

    def equalities(self) -> Sparse:
        """Every left node has one edge, and every right node when there are as many."""
        from scipy.sparse import csr_array

        n, m = len(self.left), len(self.right)
        column = np.arange(self.dim) if self._order is None else self._order
        sides = [self._left_of, self._right_of + n] if n == m else [self._left_of]
        rows = np.concatenate(sides)
        entries = (np.ones(len(rows)), (rows, np.tile(column, len(sides))))
        return csr_array(entries, shape=(n + m if n == m else n, self.dim))

    @property
    def log_cardinality(self) -> LogCardinality:
        """Exact when all pairs are allowed, else the smaller of two upper bounds.

        The product of the left degrees, and the bound of Bregman and Minc on a permanent after padding
        with full rows: prod_i (r_i!)^(1/r_i) * (m!)^((m - n)/m) / (m - n)!.
        """
        n, m = len(self.left), len(self.right)
        if self.dim == n * m:
            return LogCardinality(lgamma(m + 1) - lgamma(m - n + 1), exact=True)
        degrees = np.bincount(self._left_of, minlength=n)
        product = float(np.log(degrees).sum())
        bregman = sum(lgamma(r + 1) / r for r in degrees.tolist())
        bregman += lgamma(m + 1) * (m - n) / m - lgamma(m - n + 1)
        return LogCardinality(min(product, bregman), exact=False)

    def _refuse_deficiency(self, shape: tuple[int, int]) -> None:
        if self.dim == shape[0] * shape[1]:
            return
        deficient = deficient_set(self._left_of, self._right_of, shape)
        if deficient is not None:
            crowd, room = [self.left[i] for i in deficient[0]], [self.right[j] for j in deficient[1]]
            raise MatchingError(
                f"no matching gives every left node its own right node: the {len(crowd)} left nodes "
                f"{_some(crowd)} share only {len(room)} neighbours {_some(room)}; add edges there",
                crowd,
                room,
            )


def _as_pairs(edges: Iterable[tuple[Hashable, Hashable]]) -> list[tuple[Hashable, Hashable]]:
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


def _numbers(
    pairs: list[tuple[Hashable, Hashable]], left: tuple[Hashable, ...], right: tuple[Hashable, ...]
) -> tuple[np.ndarray[Any, np.dtype[np.intp]], np.ndarray[Any, np.dtype[np.intp]]]:
    ends = np.empty((2, len(pairs)), dtype=np.intp)
    for side, name, labels in ((0, "left", left), (1, "right", right)):
        number = {label: i for i, label in enumerate(labels)}
        for e, pair in enumerate(pairs):
            try:
                ends[side, e] = number[pair[side]]
            except (KeyError, TypeError):
                raise LabelError(f"edge {pair!r} names no {name} node; list it in {name}=") from None
    return ends[0], ends[1]


def _some(labels: list[Hashable]) -> str:
    shown = ", ".join(repr(label) for label in labels[:8])
    return f"[{shown}{', ...' if len(labels) > 8 else ''}]"

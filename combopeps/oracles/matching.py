"""Z = all matchings that give every left node its own right node."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from math import comb, factorial, lgamma, log
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from combopeps.errors import AnswerError, LabelError, MatchingError
from combopeps.oracles._assignment import ENGINES, OrTools, deficient_set, measured_choice
from combopeps.oracles._validate import as_labels, as_vector, count_or_labels
from combopeps.oracles.base import ArgmaxOracle, Array, Confusions, LogCardinality, Sparse
from combopeps.validation import check_choice, check_flag

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

    def few_facets(self, z: ArrayLike, most: int) -> Sparse | None:
        """The alternating cycles through a matching, and the alternating paths that end at a free right node."""
        from combopeps.oracles._exchanges import alternating

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

"""Eight families of answers whose number is known exactly, however large it is, and a planted truth on each.

| family | Z | number of answers |
|---|---|---|
| top-k | k of d items | C(d, k) |
| grid | monotone routes across n x n corners | C(2n - 2, n - 1) |
| rings | simple routes through L one-way rings of w stops; streets from each to all of the next ring | w^(2L) |
| matching | assignments of n workers to n tasks | n! |
| band | the same, worker i fit for the tasks i, i + 1 and i + 2 modulo n | Lucas(n) + 2 |
| partition | k of each of g groups of n | C(n, k)^g |
| tree | spanning trees of n nodes, every two of them joined | n^(n - 2) |
| knapsack | loads of at most c out of d items that weigh 1, 2, 3, 1, 2, 3, ... | see `loads` |

Rings are the cyclic network: on every ring a route enters at one of w stops and leaves at one of w, and the way between
the two is one and only. Lucas(n) + 2 is the permanent of the circulant matrix I + P + P^2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import comb, factorial, log10

import numpy as np

from benchmarks._problems import grid_oracle
from combopeps import (
    ArgmaxOracle,
    KnapsackOracle,
    MatchingOracle,
    PartitionOracle,
    Problem,
    ShortestPathOracle,
    SpanningTreeOracle,
    TopKOracle,
)

NOISE = 0.3
Size = tuple[int, ...]


@dataclass(frozen=True)
class Family:
    """How to make its members, and how many answers they have."""

    oracle: Callable[..., ArgmaxOracle]
    count: Callable[..., int]
    formula: str
    label: str
    sizes: tuple[Size, ...]
    need: float = 1.0  # samples, beside those of routes and matchings
    guess: float = 6e-8  # seconds of a round per component, for budgets that do not hang on the machine

    def name(self, size: Size) -> str:
        """A member, in words."""
        return self.label.format(*size)

    def dim(self, size: Size) -> int:
        """How many components."""
        return _dim(self.oracle, size)

    def digits(self, size: Size) -> float:
        """log10 |Z|."""
        return log10(self.count(*size))


@cache
def _dim(oracle: Callable[..., ArgmaxOracle], size: Size) -> int:
    return oracle(*size).dim


def rings_oracle(rings: int, stops: int) -> ShortestPathOracle:
    """Rings one after the other, between a start and an end."""
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_edges_from(("start", (0, i)) for i in range(stops))
    for ring in range(rings):
        graph.add_edges_from(((ring, i), (ring, (i + 1) % stops)) for i in range(stops))
        if ring + 1 < rings:
            graph.add_edges_from(((ring, i), (ring + 1, j)) for i, j in product(range(stops), repeat=2))
    graph.add_edges_from(((rings - 1, i), "end") for i in range(stops))
    return ShortestPathOracle(graph, "start", "end")


def band_oracle(n: int) -> MatchingOracle:
    """Three tasks for each worker."""
    return MatchingOracle(n, n, [(i, (i + shift) % n) for i in range(n) for shift in range(3)])


def partition_oracle(groups: int, size: int, k: int) -> PartitionOracle:
    """k of every group."""
    return PartitionOracle([range(size * g, size * (g + 1)) for g in range(groups)], k)


def tree_oracle(n: int) -> SpanningTreeOracle:
    """Trees of the complete graph (Cayley)."""
    import networkx as nx

    return SpanningTreeOracle(nx.complete_graph(n))


def knapsack_oracle(d: int, capacity: int) -> KnapsackOracle:
    """Items that weigh 1, 2 and 3."""
    return KnapsackOracle([1 + i % 3 for i in range(d)], capacity)


@cache
def loads(d: int, capacity: int) -> int:
    """How many sets of these items fit: the coefficients of prod_i (1 + x^weight_i) up to x^capacity, added up."""
    ways = [1] + [0] * capacity
    for weight in (1, 2, 3):
        chosen = [comb(len(range(weight - 1, d, 3)), i) for i in range(capacity // weight + 1)]
        ways = [sum(chosen[i] * ways[c - weight * i] for i in range(c // weight + 1)) for c in range(capacity + 1)]
    return sum(ways)


def lucas(n: int) -> int:
    """2, 1, 3, 4, 7, 11, ..."""
    this, following = 2, 1
    for _ in range(n):
        this, following = following, this + following
    return this


# The largest decade of d holds three sizes, for the slopes; LinGame can list the first three sizes.
FAMILIES: dict[str, Family] = {
    "top-k": Family(
        TopKOracle, comb, "C(d, k)", "{1} of {0}",
        ((12, 3), (20, 4), (25, 5), (200, 20), (1000, 50), (10_000, 100), (31_600, 100), (100_000, 100)),
        need=2.0,
    ),
    "grid": Family(
        grid_oracle, lambda n: comb(2 * n - 2, n - 1), "C(2n - 2, n - 1)", "{0} x {0}",
        ((6,), (8,), (10,), (30,), (64,), (113,), (200,)),
    ),
    "rings": Family(
        rings_oracle, lambda rings, stops: stops ** (2 * rings), "w^(2L)", "{0} rings of {1}",
        ((3, 3), (4, 3), (5, 3), (32, 3), (105, 3), (330, 3), (1000, 3)),
    ),
    "matching": Family(
        lambda n: MatchingOracle(n, n), factorial, "n!", "{0} x {0}",
        ((5,), (7,), (8,), (16,), (32,), (56,), (100,)),
    ),
    "band": Family(
        band_oracle, lambda n: lucas(n) + 2, "Lucas(n) + 2", "{0} x {0}, 3 tasks each",
        ((10,), (16,), (22,), (144,), (480,), (960,), (1440,)),
    ),
    "partition": Family(
        partition_oracle, lambda groups, size, k: comb(size, k) ** groups, "C(n, k)^g", "{2} of {1} in {0} groups",
        ((3, 5, 1), (4, 7, 1), (4, 5, 2), (10, 10, 2), (100, 10, 1), (3, 2000, 20), (100, 50, 5), (1000, 10, 1)),
        need=2.0,
    ),
    "tree": Family(
        tree_oracle, lambda n: n ** (n - 2), "n^(n - 2)", "{0} nodes",
        ((5,), (6,), (7,), (16,), (64,), (100,), (140,), (200,)),
        need=2.0,
    ),
    "knapsack": Family(
        knapsack_oracle, loads, "coefficients of the product of 1 + x^weight", "{0} items, capacity {1}",
        ((9, 9), (12, 13), (18, 13), (120, 40), (600, 100), (1000, 300), (3000, 300), (10_000, 300)),
        need=2.0,
        guess=6e-7,  # a table of d times the capacity, which stays the same where slopes are measured
    ),
}  # fmt: skip


def planted(oracle: ArgmaxOracle, seed: int = 0) -> np.ndarray:
    """theta with a gap of 1 in every component: 1 on the best answer and 0 elsewhere, or lengths 0.5 and 1.5.

    The planted route has as few edges as any, so that no shortcut through longer edges beats it.
    """
    random = np.random.default_rng(seed).uniform(size=oracle.dim)
    if oracle.unit > 0:
        return oracle.argmax(random)
    return 1.5 + oracle.argmax(1.0 + random / oracle.dim)


def problem(family: str, size: Size) -> tuple[Problem, np.ndarray]:
    """The problem and its truth."""
    oracle = FAMILIES[family].oracle(*size)
    return Problem(oracle, noise_std=NOISE, prior_mean=0.0, prior_std=1.0), planted(oracle)

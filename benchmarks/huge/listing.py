"""Z listed answer by answer, for LinGame, which goes through all of them in every round."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations, product

import numpy as np

from benchmarks.huge.families import FAMILIES, NOISE, Size, problem
from combopeps import (
    ArgmaxOracle,
    ExplicitOracle,
    KnapsackOracle,
    MatchingOracle,
    PartitionOracle,
    Problem,
    ShortestPathOracle,
    SpanningTreeOracle,
    TopKOracle,
)

MOST = 100_000
"""Answers that are listed at most: at d = 200 they take 160 MB, twice, and every round reads them all."""


def can_be_listed(family: str, size: Size) -> bool:
    """Are there few enough answers?"""
    return FAMILIES[family].count(*size) <= MOST


def listed_problem(family: str, size: Size) -> tuple[Problem, np.ndarray]:
    """The same problem on an `ExplicitOracle`; Theta is all of R^d, also where the routes have cycles."""
    original, theta = problem(family, size)
    oracle = original.oracle
    rows = [sorted(chosen) for chosen in answers(oracle)]
    Z = np.zeros((len(rows), oracle.dim))
    chosen = np.fromiter(chain.from_iterable(rows), np.int64)  # a row may be empty
    Z[np.repeat(np.arange(len(rows)), [len(row) for row in rows]), chosen] = oracle.unit
    return Problem(
        ExplicitOracle(Z, components=oracle.components), noise_std=NOISE, prior_mean=0.0, prior_std=1.0
    ), theta


def answers(oracle: ArgmaxOracle) -> Iterator[set[int] | tuple[int, ...]]:
    """The components of every answer."""
    if isinstance(oracle, TopKOracle):
        return combinations(range(oracle.dim), oracle.k)
    if isinstance(oracle, MatchingOracle):
        return _matchings(oracle)
    if isinstance(oracle, PartitionOracle):
        return _choices(oracle)
    if isinstance(oracle, SpanningTreeOracle):
        return _trees(oracle)
    if isinstance(oracle, KnapsackOracle):
        return _loads(oracle.weights, oracle.capacity)
    assert isinstance(oracle, ShortestPathOracle)
    return _routes(oracle)


def _trees(oracle: SpanningTreeOracle) -> Iterator[set[int]]:
    import networkx as nx

    for tree in nx.SpanningTreeIterator(nx.Graph(oracle.components)):
        yield {oracle.index(edge) for edge in tree.edges}


def _loads(weights: np.ndarray, room: float) -> Iterator[tuple[int, ...]]:
    """Without the last item, and with it."""
    if len(weights) == 0:
        yield ()
        return
    yield from _loads(weights[:-1], room)
    if weights[-1] <= room:
        for load in _loads(weights[:-1], room - weights[-1]):
            yield (*load, len(weights) - 1)


def _choices(oracle: PartitionOracle) -> Iterator[tuple[int, ...]]:
    groups = [[oracle.index(label) for label in members] for members in oracle.groups.values()]
    picks = [list(combinations(group, k)) for group, k in zip(groups, oracle.quotas.values(), strict=True)]
    return (tuple(chain.from_iterable(chosen)) for chosen in product(*picks))


def _routes(oracle: ShortestPathOracle) -> Iterator[set[int]]:
    import networkx as nx

    graph = nx.DiGraph(list(oracle.components))
    for edges in nx.all_simple_edge_paths(graph, oracle.source, oracle.target):
        yield {oracle.index(edge) for edge in edges}


def _matchings(oracle: MatchingOracle) -> Iterator[tuple[int, ...]]:
    tasks: dict[object, list[tuple[object, int]]] = {worker: [] for worker in oracle.left}
    for i, (worker, task) in enumerate(oracle.components):  # type: ignore[misc]
        tasks[worker].append((task, i))
    workers = list(tasks.values())

    def extend(chosen: tuple[int, ...], taken: frozenset[object]) -> Iterator[tuple[int, ...]]:
        if len(chosen) == len(workers):
            yield chosen
            return
        for task, i in workers[len(chosen)]:
            if task not in taken:
                yield from extend((*chosen, i), taken | {task})

    return extend((), frozenset())

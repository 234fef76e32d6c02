"""Small random problems of every family, with Z listed by itertools and networkx instead of the package."""

from dataclasses import dataclass
from itertools import combinations, permutations

import networkx as nx
import numpy as np

from combopeps import (
    ExplicitOracle,
    MatchingOracle,
    MatroidOracle,
    PartitionOracle,
    ShortestPathOracle,
    SpanningTreeOracle,
    TopKOracle,
)
from combopeps.oracles.base import ArgmaxOracle


@dataclass(frozen=True)
class Case:
    """An oracle, all of its answers, an estimate theta and how many measurements each component has had."""

    oracle: ArgmaxOracle
    Z: np.ndarray
    theta: np.ndarray
    n: np.ndarray

    @property
    def z_hat(self):
        return self.Z[(self.Z @ self.theta).argmax()]

    @property
    def others(self):
        """z - z_hat of all other answers."""
        y = self.Z - self.z_hat
        return y[y.any(axis=1)]


class Listed(ArgmaxOracle):
    """A user's own 0/1 set: it says that it is binary, and nothing else."""

    binary = True

    def __init__(self, Z):
        super().__init__(range(Z.shape[1]))
        self.Z = Z

    def _argmax_batch(self, thetas):
        return self.Z[(thetas @ self.Z.T).argmax(axis=1)]


def rows_of(answers, components, unit):
    index = {label: i for i, label in enumerate(components)}
    rows = np.zeros((len(answers), len(components)))
    for row, labels in zip(rows, answers, strict=True):
        row[[index[label] for label in labels]] = unit
    return rows


def routes(oracle, graph, source, target):
    """All simple routes as rows."""
    keys = {"keys": True} if graph.is_multigraph() else {}
    spelling = {label: label for label in graph.edges(**keys)}
    if not graph.is_directed():
        spelling |= {(v, u, *key): (u, v, *key) for u, v, *key in graph.edges(**keys)}
    paths = [[spelling[step] for step in path] for path in nx.all_simple_edge_paths(graph, source, target)]
    return rows_of(paths, oracle.components, oracle.unit)


def matchings(oracle):
    """All left-saturating matchings as rows."""
    allowed = set(oracle.components)
    pairings = [list(zip(oracle.left, mates, strict=True)) for mates in permutations(oracle.right, len(oracle.left))]
    return rows_of([pairs for pairs in pairings if allowed.issuperset(pairs)], oracle.components, oracle.unit)


def top_k(rng):
    d = int(rng.integers(3, 9))
    k = int(rng.integers(1, d))
    Z = np.zeros((0, d))
    for chosen in combinations(range(d), k):
        Z = np.concatenate([Z, np.isin(np.arange(d), chosen)[None].astype(float)])
    return TopKOracle(d, k=k), Z


def grid(rng):
    graph = nx.DiGraph()
    rows, columns = (int(size) for size in rng.integers(2, 5, size=2))
    for i in range(rows):
        for j in range(columns):
            graph.add_edges_from(((i, j), (a, b)) for a, b in ((i + 1, j), (i, j + 1)) if a < rows and b < columns)
    corner = (rows - 1, columns - 1)
    oracle = ShortestPathOracle(graph, (0, 0), corner)
    return oracle, routes(oracle, graph, (0, 0), corner)


def random_dag(rng, multigraph=False):
    """A chain 0 -> 1 -> ... with random shortcuts (and parallel edges)."""
    size = int(rng.integers(4, 8))
    graph = nx.MultiDiGraph() if multigraph else nx.DiGraph()
    graph.add_edges_from((i, i + 1) for i in range(size - 1))
    pairs = list(combinations(range(size), 2))
    for i in rng.choice(len(pairs), size=min(len(pairs), size + 2), replace=multigraph):
        graph.add_edge(*pairs[i])
    objective = "min" if rng.random() < 0.5 else "max"
    oracle = ShortestPathOracle(graph, 0, size - 1, objective=objective)
    return oracle, routes(oracle, graph, 0, size - 1)


def multi_dag(rng):
    return random_dag(rng, multigraph=True)


def square(rng):
    size = int(rng.integers(2, 6))
    engine = "scipy" if rng.random() < 0.5 else "ortools"
    oracle = MatchingOracle(size, size, maximize=bool(rng.random() < 0.5), engine=engine)
    return oracle, matchings(oracle)


def rectangular(rng):
    n = int(rng.integers(2, 4))
    oracle = MatchingOracle(n, n + int(rng.integers(1, 3)), maximize=bool(rng.random() < 0.5))
    return oracle, matchings(oracle)


def sparse(rng):
    """A matching that is there, and half of the other pairs."""
    n = int(rng.integers(3, 6))
    m = n + int(rng.integers(0, 2))
    mates = rng.permutation(m)[:n]
    edges = [(i, j) for i in range(n) for j in range(m) if mates[i] == j or rng.random() < 0.5]
    oracle = MatchingOracle(n, m, [edges[i] for i in rng.permutation(len(edges))])
    return oracle, matchings(oracle)


def explicit(rng):
    d = int(rng.integers(2, 6))
    Z = np.unique(rng.integers(-2, 3, size=(int(rng.integers(3, 30)), d)).astype(float), axis=0)
    return ExplicitOracle(Z), Z


def small_subsets(rng):
    """All subsets of size 1 or 2: answers contain each other."""
    d = int(rng.integers(3, 7))
    Z = np.array([row for row in _all_rows(d) if 1 <= row.sum() <= 2])
    return Listed(Z), Z


def knapsack(rng):
    d = int(rng.integers(3, 7))
    weight = rng.uniform(0.2, 1.0, d)
    rows = _all_rows(d)
    Z = rows[rows @ weight <= 1.0]
    return Listed(Z), Z


def cyclic(rng):
    size = int(rng.integers(4, 7))
    graph = nx.gnp_random_graph(size, 0.6, seed=int(rng.integers(1 << 30)), directed=bool(rng.random() < 0.5))
    graph.add_edges_from((i, i + 1) for i in range(size - 1))
    graph.add_edge(0, size - 1)
    if graph.is_directed():
        graph.add_edges_from(
            [(0, size - 2), (size - 2, size - 3), (size - 3, size - 1)]
        )  # a cycle of routes in any case
    oracle = ShortestPathOracle(graph, 0, size - 1)
    return oracle, routes(oracle, graph, 0, size - 1)


def trees(oracle, size):
    """All spanning trees as rows: n - 1 edges without a cycle, by sorting edges into parts."""
    rows = []
    for chosen in combinations(range(oracle.dim), size - 1):
        part = {node: node for label in oracle.components for node in label[:2]}
        for i in chosen:
            old, new = (part[node] for node in oracle.components[i][:2])
            part = {node: new if p == old else p for node, p in part.items()}
        if len(set(part.values())) == 1:
            rows.append(np.isin(np.arange(oracle.dim), chosen) * oracle.unit)
    return np.array(rows)


def tree(rng):
    """A random tree and some other edges, with bridges, loops and, half of the time, parallel edges."""
    size = int(rng.integers(2, 6))
    graph = nx.MultiGraph() if rng.random() < 0.5 else nx.Graph()
    graph.add_edges_from((i, int(rng.integers(i))) for i in range(1, size))
    graph.add_edges_from(rng.integers(size, size=(int(rng.integers(1, 6)), 2)).tolist())
    oracle = SpanningTreeOracle(graph, "min" if rng.random() < 0.5 else "max")
    return oracle, trees(oracle, size)


def quotas_of(rng, exactly):
    """So many of each of two or three groups; two where answers are many."""
    sizes = rng.integers(1, 4, size=2 + int(exactly and rng.random() < 0.5))
    quotas = rng.integers(1, sizes + 1)
    ends = np.cumsum(sizes)
    groups = [range(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    objective = "max" if rng.random() < 0.5 else "min"
    oracle = PartitionOracle(groups, quotas.tolist(), exactly=exactly, objective=objective)
    rows = _all_rows(oracle.dim)
    held = np.stack([rows[:, list(group)].sum(axis=1) for group in groups], axis=1)
    return oracle, oracle.unit * rows[((held == quotas) if exactly else (held <= quotas)).all(axis=1)]


def partition(rng):
    return quotas_of(rng, exactly=True)


def at_most(rng):
    return quotas_of(rng, exactly=False)


class Forest:
    """Are these edges without a cycle? By networkx."""

    def __call__(self, edges):
        return not edges or nx.is_forest(nx.Graph(edges))


def forests(rng, bases=False):
    """All forests of a small graph, or its spanning trees."""
    graph = nx.gnp_random_graph(4, 0.5, seed=int(rng.integers(1 << 30)))
    graph.add_edges_from([(0, 1), (1, 2), (2, 0)])
    oracle = MatroidOracle(graph.edges, Forest(), bases=bases, objective="max" if rng.random() < 0.5 else "min")
    rows = _all_rows(oracle.dim)
    Z = np.array([row for row in rows if Forest()([oracle.components[i] for i in np.flatnonzero(row)])])
    return oracle, oracle.unit * (Z[Z.sum(axis=1) == Z.sum(axis=1).max()] if bases else Z)


def spanning(rng):
    return forests(rng, bases=True)


def _all_rows(d):
    return (np.arange(1 << d)[:, None] >> np.arange(d) & 1).astype(float)


FAMILIES = {
    "top-k": top_k,
    "grid": grid,
    "dag": random_dag,
    "multigraph": multi_dag,
    "square matching": square,
    "rectangular matching": rectangular,
    "sparse matching": sparse,
    "explicit": explicit,
    "size 1 or 2": small_subsets,
    "knapsack": knapsack,
    "cyclic": cyclic,
    "tree": tree,
    "partition": partition,
    "at most": at_most,
    "matroid": spanning,
    "independent sets": forests,
}


def draw(family, rng, scale=1.0):
    """A random case with at least two answers; measurements spread over four decades, theta of this size."""
    while True:
        oracle, Z = FAMILIES[family](rng)
        if len(Z) > 1:
            break
    theta = scale * rng.normal(size=oracle.dim)
    if oracle.domain == "nonnegative":
        theta = np.abs(theta)
    return Case(oracle, Z, theta, 10.0 ** rng.uniform(-1, 3, oracle.dim) * 10.0 ** rng.uniform(0, 2))

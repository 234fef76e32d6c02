"""Independence tests of matroids of all well-known kinds, and of set systems that are not matroids."""

from itertools import combinations

import networkx as nx
import numpy as np


class Uniform:
    def __init__(self, most):
        self.most = most

    def __call__(self, chosen):
        return len(chosen) <= self.most


class Laminar:
    """At most a number of elements from each of several sets, pairwise disjoint or nested."""

    def __init__(self, limits):
        self.limits = limits

    def __call__(self, chosen):
        return all(len(members & set(chosen)) <= most for members, most in self.limits)


class Graphic:
    """Acyclic edge sets, with parallel edges (u, v, key) and loops."""

    def __call__(self, edges):
        parent = {}

        def root(node):
            while node in parent:
                node = parent[node]
            return node

        for u, v, *_ in edges:
            a, b = root(u), root(v)
            if a == b:
                return False
            parent[a] = b
        return True


class Linear:
    """Linearly independent columns, over the reals or over GF(2)."""

    def __init__(self, A, binary=False):
        self.A, self.binary = np.asarray(A), binary

    def __call__(self, columns):
        if not columns:
            return True
        rows = self.A[:, columns].T
        if not self.binary:
            return np.linalg.matrix_rank(rows) == len(columns)
        basis = []
        for bits in (int("".join(map(str, row)), 2) for row in rows.tolist()):
            for other in basis:
                bits = min(bits, bits ^ other)
            if bits == 0:
                return False
            basis.append(bits)
        return True


class Transversal:
    """Sets of left nodes that a bipartite graph can match."""

    def __init__(self, jobs):
        self.jobs = jobs

    def __call__(self, people):
        graph = nx.Graph()
        graph.add_nodes_from((("person", p) for p in people), bipartite=0)
        graph.add_edges_from((("person", p), ("job", j)) for p in people for j in self.jobs[p])
        top = [("person", p) for p in people]
        return len(nx.bipartite.maximum_matching(graph, top)) == 2 * len(people)


class Matching:
    """Edge sets without common ends: not a matroid."""

    def __call__(self, edges):
        ends = [node for edge in edges for node in edge]
        return len(set(ends)) == len(ends)


class Knapsack:
    """Sets within a capacity: not a matroid unless all weights are equal."""

    def __init__(self, weights, capacity):
        self.weights, self.capacity = weights, capacity

    def __call__(self, chosen):
        return sum(self.weights[i] for i in chosen) <= self.capacity


class Stable:
    """Stable sets of a graph: not a matroid unless its components are cliques."""

    def __init__(self, graph):
        self.graph = graph

    def __call__(self, nodes):
        return not any(self.graph.has_edge(u, v) for u, v in combinations(nodes, 2))


class NotHereditary:
    """Pairs are independent, their single elements are not."""

    def __call__(self, chosen):
        return len(chosen) in (0, 2) or (len(chosen) == 1 and chosen[0] != 0)


def random_matroid(rng):
    """Return components and an independence test."""
    d, kind = int(rng.integers(1, 8)), int(rng.integers(6))
    if kind == 0:
        return range(d), Uniform(int(rng.integers(1, d + 1)))
    if kind == 1:
        half = set(range(d // 2))
        limits = [(half, int(rng.integers(0, 3))), (set(range(d)), int(rng.integers(1, d + 1)))]
        limits.append((set(range(d // 2, d)), int(rng.integers(1, 4))))
        return range(d), Laminar(limits)
    if kind == 2:
        edges = [(int(u), int(v), i) for i, (u, v) in enumerate(rng.integers(0, 4, size=(d, 2)))]
        return [*edges, (0, 1, "at least one")], Graphic()
    if kind == 5:
        jobs = [sorted(set(rng.integers(0, 4, size=int(rng.integers(0, 3))).tolist())) for _ in range(d)]
        return range(d), Transversal([[0, 1], *jobs[1:]])
    A = rng.integers(0, 2, size=(3, d))
    A[0, 0] = 1
    return range(d), Linear(A, binary=kind == 3)


def independent_sets(components, test, *, bases):
    """Return all independent sets, as tuples of indices, by testing every subset."""
    labels = list(components)
    found = [
        chosen
        for size in range(len(labels) + 1)
        for chosen in combinations(range(len(labels)), size)
        if test([labels[i] for i in chosen])
    ]
    most = max(map(len, found))
    return [chosen for chosen in found if len(chosen) == most] if bases else found


MATROIDS = {
    "uniform": (range(9), Uniform(4)),
    "partition": (range(9), Laminar([(set(range(3 * g, 3 * g + 3)), g + 1) for g in range(3)])),
    "laminar": (range(10), Laminar([(set(range(4)), 2), (set(range(8)), 3), (set(range(10)), 4)])),
    "graphic": (list(nx.complete_graph(5).edges), Graphic()),
    "graphic with loops and parallels": (
        list(nx.MultiGraph([(0, 1), (0, 1), (1, 2), (2, 2), (2, 0)]).edges),
        Graphic(),
    ),
    "linear over the reals": (range(9), Linear(np.random.default_rng(0).normal(size=(4, 9)).round(1))),
    "linear over GF(2)": (range(9), Linear(np.random.default_rng(1).integers(0, 2, size=(4, 9)), binary=True)),
    "transversal": (range(7), Transversal([[0], [0, 1], [1, 2], [2], [3, 0], [3], [1]])),
    "free": (range(4), Uniform(4)),
}

NOT_MATROIDS = {
    "matchings of a path": ("exchange", list(nx.path_graph(5).edges), Matching()),
    "matchings of a complete graph": ("exchange", list(nx.complete_graph(6).edges), Matching()),
    "a knapsack": ("exchange", range(8), Knapsack([5, 1, 2, 1, 3, 2, 4, 1], 6)),
    "a knapsack with one large item": ("exchange", range(12), Knapsack([4] + [1] * 11, 5)),
    "stable sets of a cycle": ("exchange", range(6), Stable(nx.cycle_graph(6))),
    "two rules at once": (
        "exchange",
        range(6),
        lambda s: len({i // 2 for i in s}) == len(s) == len({i % 3 for i in s}),
    ),
    "pairs without members": ("subsets", range(6), NotHereditary()),
    "an even number": ("subsets", range(6), lambda s: len(s) % 2 == 0 or len(s) == 1 or (len(s) == 3 and 0 not in s)),
}

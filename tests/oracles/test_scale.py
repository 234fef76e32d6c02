"""Large sets: memory grows with d, not with its square; and the other end, empty batches and single answers."""

import tracemalloc
from math import lgamma

import networkx as nx
import numpy as np
import pytest

from combopeps import ExplicitOracle, MatchingOracle, ShortestPathOracle, SpanningTreeOracle, TopKOracle
from combopeps.oracles import CheckedOracle


@pytest.fixture
def peak():
    """Stops measuring and gives the most memory, in bytes, that was in use at once."""

    def stop():
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    yield stop
    tracemalloc.stop()


def grid(n):
    graph = nx.DiGraph()
    graph.add_edges_from(((i, j), (i + 1, j)) for i in range(n - 1) for j in range(n))
    graph.add_edges_from(((i, j), (i, j + 1)) for i in range(n) for j in range(n - 1))
    return graph


def test_grid_of_300_by_300(peak):
    n = 300
    graph = grid(n)
    tracemalloc.start()
    oracle = ShortestPathOracle(graph, (0, 0), (n - 1, n - 1))
    assert oracle.dim == 2 * n * (n - 1) == 179_400
    assert oracle.log_cardinality.exact
    assert oracle.log_cardinality == pytest.approx(lgamma(2 * n - 1) - 2 * lgamma(n), abs=1e-6)
    assert oracle.log_cardinality == pytest.approx(411.08, abs=0.01)

    thetas = np.random.default_rng(0).normal(size=(3, oracle.dim))
    best = oracle.argmax(thetas)
    np.testing.assert_array_equal(oracle.encode(oracle.decode(best[0])), best[0])
    assert oracle.membership(best[0], thetas).tolist() == [True, False, False]
    # 0.5 GB or so; d^2 single bits would be 4 GB.
    assert peak() < 3_000 * oracle.dim

    np.testing.assert_array_equal(np.count_nonzero(best, axis=1), 2 * (n - 1))
    length = dict(zip(oracle.components, thetas[0].tolist(), strict=True))
    assert -best[0] @ thetas[0] == pytest.approx(shortest_by_rows(n, length))


def shortest_by_rows(n, length):
    """The textbook recursion on the grid itself."""
    cost = {(0, 0): 0.0}
    for i in range(n):
        for j in range(n):
            before = [u for u in ((i - 1, j), (i, j - 1)) if min(u) >= 0]
            if before:
                cost[i, j] = min(cost[u] + length[u, (i, j)] for u in before)
    return cost[n - 1, n - 1]


def test_undirected_grid_of_100_by_100(peak):
    graph = grid(100).to_undirected()
    tracemalloc.start()
    oracle = ShortestPathOracle(graph, (0, 0), (99, 99))
    theta = np.random.default_rng(0).exponential(size=oracle.dim)
    z = oracle.argmax(theta)
    assert peak() < 3_000 * oracle.dim
    for (u, v), length in zip(oracle.components, theta, strict=True):
        graph.edges[u, v]["weight"] = length
    assert -z @ theta == pytest.approx(nx.dijkstra_path_length(graph, (0, 0), (99, 99)))
    np.testing.assert_array_equal(oracle.encode(oracle.decode(z)), z)


def test_sparse_matching_of_5000(peak):
    n, degree = 5_000, 10
    rng = np.random.default_rng(0)
    hidden = rng.permutation(n)
    edges = [(i, int(j)) for i in range(n) for j in {hidden[i], *rng.choice(n, degree - 1, replace=False)}]
    planted = np.array([j == hidden[i] for i, j in edges])
    tracemalloc.start()
    oracle = MatchingOracle(n, n, edges)
    theta = rng.uniform(size=oracle.dim)
    z = oracle.argmax(theta)
    assert len(oracle.decode(z)) == n
    assert z @ theta >= theta[planted].sum()
    # A weight of more than 1 on top makes the hidden matching the only best one.
    np.testing.assert_array_equal(oracle.argmax(theta + 2.0 * planted), planted)
    assert oracle.log_cardinality < n * np.log(degree)
    # One dense n-by-n table of floats would be 200 MB, d^2 single bits 310 MB.
    assert peak() < 60e6


def test_top_half_of_200_000(peak):
    d = 200_000
    tracemalloc.start()
    oracle = TopKOracle(d, d // 2)
    theta = np.random.default_rng(0).permutation(d).astype(float)
    z = oracle.argmax(theta)
    np.testing.assert_array_equal(z, theta >= d // 2)
    assert oracle.membership(z, theta)
    assert not oracle.membership(z, -theta)
    assert oracle.log_cardinality == pytest.approx(d * np.log(2), rel=1e-3)
    assert peak() < 1_000 * d


def test_trees_of_a_complete_graph_of_100(peak):
    """99 of 4,950 edges: 10^196 trees, and at most a third of 480,249 swaps."""
    n = 100
    tracemalloc.start()
    oracle = SpanningTreeOracle(nx.complete_graph(n))
    assert oracle.log_cardinality == pytest.approx((n - 2) * np.log(n), rel=1e-12)  # Cayley
    theta = np.random.default_rng(0).normal(size=oracle.dim)
    z = oracle.argmax(theta)
    assert (oracle.facets(z) @ theta < 0.0).all()
    on_a_path = oracle.encode([(i, i + 1) for i in range(n - 1)])
    assert oracle.facets(on_a_path).shape[0] == oracle.facet_count == n * (n * n - 1) // 6 - (n - 1)
    assert peak() < 30e6


def test_trees_of_a_grid_of_100_by_100(peak):
    graph = grid(100).to_undirected()
    tracemalloc.start()
    oracle = SpanningTreeOracle(graph)
    theta = np.random.default_rng(0).normal(size=oracle.dim)
    z = oracle.argmax(theta)
    np.testing.assert_array_equal(oracle.encode(oracle.decode(z)), z)
    assert oracle.membership(z, theta)
    assert not oracle.membership(z, -theta)
    assert oracle.facets_up_to(z, 1000) is None
    # The number of trees of a square lattice grows like exp(4 G / pi) per node, G Catalan's constant.
    assert oracle.log_cardinality / len(graph) == pytest.approx(1.166, abs=0.02)
    assert peak() < 3_000 * oracle.dim
    for (u, v), weight in zip(oracle.components, theta, strict=True):
        graph.edges[u, v]["weight"] = weight
    assert -z @ theta == pytest.approx(nx.minimum_spanning_tree(graph).size(weight="weight"))


SMALL = {
    "top-k": lambda: TopKOracle(5, 2),
    "top-d": lambda: TopKOracle(5, 5),
    "top-1 of 1": lambda: TopKOracle(1, 1),
    "path": lambda: ShortestPathOracle(grid(3), (0, 0), (2, 2)),
    "one edge": lambda: ShortestPathOracle(nx.Graph([("a", "b")]), "a", "b"),
    "cyclic path": lambda: ShortestPathOracle(nx.complete_graph(4, nx.DiGraph), 0, 3),
    "scipy": lambda: MatchingOracle(3, 4, engine="scipy"),
    "ortools": lambda: MatchingOracle(3, 4, engine="ortools"),
    "compiled": lambda: MatchingOracle(3, 4, engine="compiled"),
    "one pair": lambda: MatchingOracle(1, 1, engine="ortools"),
    "trees": lambda: SpanningTreeOracle(nx.complete_graph(4)),
    "trees of a sparse graph": lambda: SpanningTreeOracle(nx.cycle_graph(30)),
    "one tree": lambda: SpanningTreeOracle(nx.star_graph(3)),
    "explicit": lambda: ExplicitOracle([[1.0, 2.0], [3.0, 0.0]]),
    "one row": lambda: ExplicitOracle([[1.0, 2.0]]),
}


@pytest.mark.parametrize("wrap", [lambda oracle: oracle, lambda oracle: CheckedOracle(oracle, mode="always")])
@pytest.mark.parametrize("build", SMALL.values(), ids=SMALL)
def test_an_empty_batch_has_no_answers(build, wrap):
    oracle = wrap(build())
    nothing = np.zeros((0, oracle.dim))
    assert oracle.argmax(nothing).shape == (0, oracle.dim)
    assert oracle.membership(oracle.argmax(np.ones(oracle.dim)), nothing).shape == (0,)


@pytest.mark.parametrize("name", ["top-d", "top-1 of 1", "one edge", "one pair", "one tree", "one row"])
def test_a_single_answer_is_always_the_best(name):
    oracle = SMALL[name]()
    thetas = np.random.default_rng(0).exponential(size=(10, oracle.dim))
    best = oracle.argmax(thetas)
    np.testing.assert_array_equal(best, np.repeat(best[:1], 10, axis=0))
    assert oracle.membership(best[0], thetas).all()
    assert oracle.log_cardinality == 0.0
    facets = oracle.facets(best[0])
    assert facets is None or facets.shape == (0, oracle.dim)


def test_dropped_edges_are_counted_and_listed(caplog):
    graph = nx.DiGraph([("s", "t"), ("s", "dead end"), ("nowhere", "t"), ("x", "y")])
    with caplog.at_level("INFO", logger="combopeps"):
        oracle = ShortestPathOracle(graph, "s", "t")
    assert oracle.pruned == (("s", "dead end"), ("nowhere", "t"), ("x", "y"))
    assert "3 pruned" in repr(oracle)
    assert "dropped 3 of 4 edges" in caplog.text
    assert ShortestPathOracle(graph, "s", "t", prune=False).components == tuple(graph.edges)

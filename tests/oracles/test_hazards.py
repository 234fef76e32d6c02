"""Known hazards of NumPy, networkx and SciPy."""

import networkx as nx
import numpy as np
import pytest
from scipy.sparse.csgraph import minimum_spanning_tree

from combopeps import ExplicitOracle, MatchingOracle, ShortestPathOracle, SpanningTreeOracle, TopKOracle
from combopeps.errors import DomainError, ParameterError, ThetaError

RING = [(i, (i + step) % 6) for i in range(6) for step in (1, 5)] + [(1, 5), (5, 1), (2, 4), (4, 2)]  # with cycles


def test_the_longest_route_starts_at_the_source_though_every_prefix_is_negative():
    rewards = {("s", "a"): -5.0, ("a", "t"): 2.0, ("s", "b"): -7.0, ("b", "t"): 1.0, ("a", "b"): -1.0}
    graph = nx.DiGraph((u, v, {"weight": reward}) for (u, v), reward in rewards.items())
    assert nx.dag_longest_path(graph)[0] != "s"  # the trap: networkx drops the negative prefix
    oracle = ShortestPathOracle(graph, "s", "t", objective="max")
    z = oracle.argmax([rewards[edge] for edge in oracle.components])
    assert oracle.decode(z) == ["s", "a", "t"]


@pytest.mark.parametrize("objective", ["min", "max"])
def test_acyclic_routes_keep_their_ends_whatever_the_signs(objective):
    graph = nx.DiGraph([(i, j) for i in range(7) for j in range(i + 1, 7)])
    oracle = ShortestPathOracle(graph, 0, 6, objective=objective)
    thetas = np.random.default_rng(0).normal(size=(200, oracle.dim))
    thetas[100:] = -np.abs(thetas[100:])
    for z in oracle.argmax(thetas):
        nodes = oracle.decode(z)
        assert (nodes[0], nodes[-1]) == (0, 6)


@pytest.mark.parametrize("kind", [nx.DiGraph, nx.Graph, nx.MultiDiGraph, nx.MultiGraph])
def test_an_edge_of_length_zero_is_an_edge(kind):
    graph = kind([("s", "a"), ("a", "t"), ("a", "s"), ("t", "a"), ("s", "t")])
    oracle = ShortestPathOracle(graph, "s", "t")
    theta = np.array([1.0 if {"s", "t"} == set(edge[:2]) else 0.0 for edge in oracle.components])
    best = oracle.decode(oracle.argmax(theta))
    assert getattr(best, "nodes", best) == ["s", "a", "t"]
    assert oracle.argmax(theta) @ theta == 0.0


def test_routes_avoid_cycles_of_length_zero():
    oracle = ShortestPathOracle(nx.DiGraph(RING), 0, 3)
    nodes = oracle.decode(oracle.argmax(np.zeros(oracle.dim)))
    assert (nodes[0], nodes[-1]) == (0, 3)
    assert len(set(nodes)) == len(nodes)


def test_a_weight_of_zero_is_a_weight():
    graph = nx.cycle_graph(4)
    oracle = SpanningTreeOracle(graph)
    theta = np.array([0.0, 1.0, 2.0, 0.0])
    weights = np.zeros((4, 4))
    weights[tuple(np.array(oracle.components).T)] = theta
    assert minimum_spanning_tree(weights).sum() == 3.0  # the trap: SciPy takes zeros for missing edges
    assert -oracle.argmax(theta) @ theta == 1.0


@pytest.mark.parametrize("kind", [nx.DiGraph, nx.Graph])
def test_negative_cycles_are_rejected(kind):
    oracle = ShortestPathOracle(kind(RING), 0, 3)
    assert oracle.domain == "nonnegative"
    lengths = np.ones((3, oracle.dim))
    lengths[1, 2] = -1e-12
    for theta in (lengths, lengths[1], -lengths):
        with pytest.raises(DomainError, match="clip theta at 0"):
            oracle.argmax(theta)
        with pytest.raises(DomainError, match="clip theta at 0"):
            oracle.membership(oracle.argmax(lengths[0]), theta)


def test_minus_zero_is_not_negative():
    oracle = ShortestPathOracle(nx.DiGraph(RING), 0, 3)
    theta = np.full(oracle.dim, -0.0)
    assert oracle.decode(oracle.argmax(theta)) == oracle.decode(oracle.argmax(np.zeros(oracle.dim)))


def test_minus_zero_ties_with_zero():
    assert TopKOracle(3, 1).decode(TopKOracle(3, 1).argmax([-0.0, 0.0, -1.0])) == {0}
    with pytest.raises(ParameterError, match="duplicate"):
        ExplicitOracle([[0.0, 1.0], [-0.0, 1.0]])
    assert ExplicitOracle([[0.0, 1.0], [1.0, 0.0]], labels=["a", "b"]).decode([-0.0, 1.0]) == "a"
    assert TopKOracle(2, 1).decode([-0.0, 1.0]) == {1}


def test_choosing_none_is_rejected():
    assert len(np.argpartition([3, 1, 2], -0)[-0:]) == 3  # the trap: k = 0 selects everything
    with pytest.raises(ParameterError, match=r"1\.\.3"):
        TopKOracle(3, 0)


def test_nan_is_not_the_largest_item():
    theta = np.array([1.0, np.nan, 2.0])
    assert np.argpartition(theta, -1)[-1] == 1  # the trap
    with pytest.raises(ThetaError, match="finite"):
        TopKOracle(3, 1).argmax(theta)


def test_choosing_all_has_one_answer():
    oracle = TopKOracle(4, 4)
    theta = np.array([[-1.0, 0.0, 2.0, 2.0], [0.0, 0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(oracle.argmax(theta), np.ones((2, 4)))
    np.testing.assert_array_equal(oracle.membership(np.ones(4), theta), [True, True])
    assert oracle.facets(np.ones(4)).shape == (0, 4)
    assert oracle.log_cardinality == 0.0


TIED = {
    "top-k": (TopKOracle(4, 2), np.ones(4)),
    "path": (ShortestPathOracle(nx.DiGraph([(0, 1), (1, 3), (0, 2), (2, 3)]), 0, 3), np.ones(4)),
    "cyclic path": (ShortestPathOracle(nx.DiGraph(RING), 0, 3), None),
    "matching": (MatchingOracle(3, 3), np.ones(9)),
    "tree": (SpanningTreeOracle(nx.complete_graph(4)), np.ones(6)),
    "sparse tree": (SpanningTreeOracle(nx.cycle_graph(20)), np.ones(20)),
    "explicit": (ExplicitOracle([[0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [0.2, 0.3, 0.1]]), np.ones(3)),
}


@pytest.mark.parametrize(("oracle", "theta"), TIED.values(), ids=TIED)
def test_a_tied_answer_is_still_a_best_one(oracle, theta):
    theta = np.ones(oracle.dim) if theta is None else theta
    rivals = np.unique(oracle.argmax(np.random.default_rng(0).uniform(0.1, 2.0, size=(200, oracle.dim))), axis=0)
    tied = [z for z in rivals if abs(z @ theta - oracle.argmax(theta) @ theta) < 1e-12]
    assert len(tied) > 1
    for z in tied:
        assert oracle.membership(z, theta)


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e-9, 1e9, 1e100])
@pytest.mark.parametrize("name", TIED)
def test_the_answer_does_not_depend_on_the_unit_of_measurement(name, scale):
    oracle = TIED[name][0]
    thetas = np.random.default_rng(0).exponential(size=(50, oracle.dim))
    np.testing.assert_array_equal(oracle.argmax(scale * thetas), oracle.argmax(thetas))


@pytest.mark.parametrize("order", ["C", "F", "strided", "reversed", "float32", "int", "list", "big endian", "locked"])
def test_the_memory_layout_of_theta_does_not_matter(order):
    oracle = TopKOracle(6, 2)
    thetas = np.random.default_rng(0).integers(-9, 9, size=(8, 6)).astype(float)
    twice = np.repeat(thetas, 2, axis=1)
    locked = thetas.copy()
    locked.flags.writeable = False
    layouts = {
        "C": thetas,
        "F": np.asfortranarray(thetas),
        "strided": twice[:, ::2],
        "reversed": thetas[::-1, ::-1].copy()[::-1, ::-1],
        "float32": thetas.astype(np.float32),
        "int": thetas.astype(int),
        "list": thetas.tolist(),
        "big endian": thetas.astype(">f8"),
        "locked": locked,
    }
    given = layouts[order]
    np.testing.assert_array_equal(oracle.argmax(given), oracle.argmax(thetas))
    np.testing.assert_array_equal(given, thetas)


def test_theta_stays_writeable_for_its_owner():
    theta = np.arange(4.0)
    for asked in (theta, theta[None]):
        TopKOracle(4, 2).argmax(asked)
        asked[...] = 1.0
    np.testing.assert_array_equal(theta, np.ones(4))

"""Spanning trees: larger graphs against networkx, edge labels, and facets."""

import networkx as nx
import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import SpanningTreeOracle, TopTwo
from combopeps.alternatives.replications import ListedCones
from combopeps.oracles.base import strictly_better
from combopeps.policies.baselines import LinGame

GRAPHS = {
    "complete": nx.complete_graph(30),
    "random": nx.gnm_random_graph(200, 1000, seed=1),
    "grid": nx.grid_2d_graph(15, 15),
    "sparse": nx.connected_watts_strogatz_graph(300, 4, 0.3, seed=2),
    "blocks": nx.barbell_graph(12, 20),
}


def thetas_for(oracle, size, rng):
    """Return smooth thetas, and small integers with many ties."""
    smooth = rng.normal(size=(size, oracle.dim))
    return np.concatenate([smooth, rng.integers(-3, 4, size=(size, oracle.dim))])


@pytest.mark.parametrize("objective", ["min", "max"])
@pytest.mark.parametrize("name", GRAPHS)
def test_networkx_finds_no_better_tree(name, objective):
    graph, rng = GRAPHS[name].copy(), np.random.default_rng(0)
    oracle = SpanningTreeOracle(graph, objective)
    search = nx.minimum_spanning_tree if objective == "min" else nx.maximum_spanning_tree
    for theta in thetas_for(oracle, 5, rng):
        z = oracle.argmax(theta)
        for edge, weight in zip(oracle.components, theta, strict=True):
            graph.edges[edge]["weight"] = weight
        assert oracle.unit * (z @ theta) == pytest.approx(search(graph).size(weight="weight"), abs=1e-9)
        assert nx.is_tree(nx.Graph(oracle.decode(z)))


def test_networkx_finds_no_better_tree_among_parallel_edges():
    rng = np.random.default_rng(1)
    graph = nx.MultiGraph(rng.integers(40, size=(400, 2)).tolist())
    oracle = SpanningTreeOracle(graph)
    for theta in thetas_for(oracle, 10, rng):
        for edge, weight in zip(oracle.components, theta, strict=True):
            graph.edges[edge]["weight"] = weight
        best = nx.minimum_spanning_tree(graph).size(weight="weight")
        assert -oracle.argmax(theta) @ theta == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("name", GRAPHS)
def test_both_membership_tests_agree_with_argmax(name):
    """Far from the answer, close to it, and tied with it up to rounding."""
    oracle, rng = SpanningTreeOracle(GRAPHS[name]), np.random.default_rng(2)
    for theta in thetas_for(oracle, 2, rng):
        z = oracle.argmax(theta)
        near = theta + rng.choice([0.0, 1e-3, 0.1], size=(40, 1)) * rng.normal(size=(40, oracle.dim))
        tied = theta * (1.0 + 1e-15 * rng.normal(size=(40, oracle.dim)))
        near = np.concatenate([near, tied, rng.normal(size=(5, oracle.dim)), 0.1 * near])
        still = oracle.membership(z, near)
        np.testing.assert_array_equal(still, ~strictly_better(oracle.argmax(near), z, near))
        assert 0 < still.sum() < len(still)


def test_among_equal_edges_the_earlier_ones_win():
    oracle = SpanningTreeOracle(nx.complete_graph(5))
    assert oracle.decode(oracle.argmax(np.zeros(10))) == [(0, 1), (0, 2), (0, 3), (0, 4)]
    parallel = SpanningTreeOracle(nx.MultiGraph([(0, 1), (0, 1), (1, 2), (1, 2)]), "max")
    assert parallel.decode(parallel.argmax(np.ones(4))) == [(0, 1, 0), (1, 2, 0)]


def test_edge_aliases_and_pruned_loops():
    graph = nx.MultiGraph([("a", "b"), ("b", "c"), ("c", "a"), ("b", "a"), ("c", "c")])
    oracle = SpanningTreeOracle(graph)
    assert oracle.pruned == (("c", "c", 0),)
    assert oracle.why_pruned(("c", "c", 0)) == "edge ('c', 'c', 0) is a loop, which is in no tree"
    assert oracle.aliases(("a", "b", 1)) == (("b", "a", 1),)
    assert oracle.index(("b", "a", 1)) == oracle.index(("a", "b", 1))
    z = oracle.encode([("b", "a", 1), ("c", "b", 0)])
    assert sorted(oracle.decode(z)) == [("a", "b", 1), ("b", "c", 0)]


def test_node_positions_are_kept():
    graph = nx.Graph([(0, 1), (1, 2), (2, 0)])
    nx.set_node_attributes(graph, {0: (7.5, 46.9), 1: (9.5, 46.8), 2: (8.5, 47.4)}, "pos")
    oracle = SpanningTreeOracle(graph)
    assert oracle.pos[1] == (9.5, 46.8)
    assert oracle.in_degrees
    assert SpanningTreeOracle(nx.path_graph(3)).pos is None


def test_replications_with_different_numbers_of_facets():
    """Replications whose answers have 3 to 10 facets: stars, paths and trees in between."""
    oracle, rng = SpanningTreeOracle(nx.complete_graph(4)), np.random.default_rng(3)
    lists, sizes = ListedCones(oracle, 3), set()
    for thetas in rng.normal(size=(30, 3, oracle.dim)):
        z_hat = oracle.argmax(thetas)
        lists.set_answers(z_hat)
        gap, width = lists.weigh(thetas, np.ones((3, oracle.dim)))
        for r in range(3):
            rows = oracle.facets(z_hat[r])
            size = rows.shape[0]
            sizes.add(size)
            np.testing.assert_allclose(gap[r, :size], -(rows @ thetas[r]))
            assert (gap[r, size:] == np.inf).all()
            assert (width[r, :size] == 2.0).all()
            best = gap.argmin(axis=1)
            np.testing.assert_array_equal(lists.pick(best)[r], rows.toarray()[best[r]])
    assert sizes == {6, 7}
    assert max(sizes) == oracle.facet_count


@pytest.mark.parametrize("policy", [TopTwo, LinGame])
def test_a_policy_finds_the_tree(policy):
    oracle = SpanningTreeOracle(nx.complete_graph(5))
    theta = np.random.default_rng(4).permutation(10).astype(float)
    noise, made = np.random.default_rng(5), policy(unit_problem(oracle, prior_std=5.0), rng=6)
    for _ in range(300):
        arm = made.next_arms()
        made.learn(arm, theta[arm] + noise.normal())
    np.testing.assert_array_equal(made.z_hat()[0], oracle.argmax(theta))

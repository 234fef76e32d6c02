"""Instances are saved and loaded without changes; those that cannot be saved are rejected."""

import json

import networkx as nx
import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import Box, ExplicitOracle, MatchingOracle, ShortestPathOracle, TopKOracle, load_instance, save_instance
from combopeps.errors import InstanceError
from combopeps.io import Instance
from combopeps.io.instance_files import to_document
from combopeps.oracles import CheckedOracle
from combopeps.posterior import ParameterSpace


def random_graph(kind, seed):
    """Return a random graph with 24 edges, nodes of every kind of label, and a route from "s" to (9, "t")."""
    rng = np.random.default_rng(seed)
    nodes = ["s", (9, "t"), 3, 2.5, ("a", (1, 2)), "é", -4]
    graph = kind()
    graph.add_nodes_from(nodes[i] for i in rng.permutation(len(nodes)))
    for _ in range(24):
        u, v = rng.choice(len(nodes), size=2, replace=False)
        graph.add_edge(nodes[u], nodes[v])
    graph.add_edge("s", (9, "t"))
    return graph


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_random_networks(kind, seed, tmp_path):
    oracle = ShortestPathOracle(random_graph(kind, seed), "s", (9, "t"))
    theta = np.random.default_rng(seed).random(oracle.dim)
    instance = Instance("net", unit_problem(oracle), theta)
    save_instance(instance, tmp_path / "net.json")
    again = load_instance(tmp_path / "net.json")
    assert again.labels == instance.labels
    assert [*map(repr, again.labels)] == [*map(repr, instance.labels)]  # 3 stays an int, 2.5 a float
    assert np.array_equal(again.theta, theta)
    assert again.best == instance.best
    assert (again.oracle.directed, again.oracle.multigraph) == (oracle.directed, oracle.multigraph)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("directed", [True, False])
def test_theta_is_matched_to_edges_in_any_order(directed, seed, tmp_path):
    """With pruned and reversed edges in any order, the length of a route is that of networkx."""
    rng = np.random.default_rng(seed)
    network = nx.gnp_random_graph(8, 0.4, seed=seed, directed=directed)
    network.add_edges_from([(0, 1), (1, 7)])
    edges = [edge if directed or rng.random() < 0.5 else edge[::-1] for edge in network.edges]
    edges = [edges[i] for i in rng.permutation(len(edges))]
    theta = rng.random(len(edges)).tolist()
    for (u, v), length in zip(edges, theta, strict=True):
        network.edges[u, v]["weight"] = length
    oracle = {"kind": "path", "edges": edges, "source": 0, "target": 7, "directed": directed}
    document = {"schema": "combopeps/instance", "version": 1, "name": "x", "oracle": oracle, "theta": theta}
    (tmp_path / "x.json").write_text(json.dumps(document))
    instance = load_instance(tmp_path / "x.json")
    assert [network.edges[edge]["weight"] for edge in instance.labels] == instance.theta.tolist()
    assert instance.best == nx.shortest_path(network, 0, 7, weight="weight")


EYE = np.eye(3)


@pytest.mark.parametrize(
    "problem",
    [
        unit_problem(TopKOracle([("a", 1), ("b", 2), "c"], k=2), noise_std=0.25, prior_std=7.0),
        unit_problem(TopKOracle(np.arange(3), k=1)),
        unit_problem(TopKOracle(3, k=1), arms=[2, 0, 1]),
        unit_problem(TopKOracle(3, k=1), arms=EYE + 1),
        unit_problem(TopKOracle(3, k=1), arms={"x": EYE[0] * 2, ("y", 1): EYE[1], 0: EYE[2]}),
        unit_problem(TopKOracle(3, k=1), arms=np.vstack([EYE, -3 * EYE[:1]])),
        unit_problem(TopKOracle(3, k=1), space=Box(-1, 5)),
        unit_problem(TopKOracle(3, k=1), space=Box([0, -np.inf, -1], np.inf)),
        unit_problem(TopKOracle(3, k=1), space=Box()),
        unit_problem(ExplicitOracle(EYE, labels=["n", "e", (0, 0)], components=["x", "y", "z"])),
        unit_problem(MatchingOracle(["ann", "bob"], 3, [("bob", 1), ("ann", 2), ("ann", 0)], maximize=False)),
        unit_problem(MatchingOracle(2, 2, [(1, 1), (0, 0), (0, 1), (1, 0)])),
    ],
    ids=lambda problem: repr(problem),
)
def test_problems_of_every_form(problem, tmp_path):
    theta = np.linspace(0.1, 0.9, problem.oracle.dim)
    instance = Instance("x", problem, theta)
    save_instance(instance, tmp_path / "x.json")
    again = load_instance(tmp_path / "x.json")
    assert to_document(again) == to_document(instance)
    assert again.labels == instance.labels
    assert again.best == instance.best
    assert again.arms.labels == problem.arms.labels
    rows = np.arange(len(problem.arms))
    assert np.array_equal(again.arms.row(rows), problem.arms.row(rows))
    assert again.problem.space == problem.space
    assert (again.noise_std, again.problem.prior_std) == (problem.noise_std, problem.prior_std)


class Odd(ParameterSpace):
    def bounds(self, dim):
        return np.zeros(dim), np.ones(dim)


def unpruned():
    graph = nx.DiGraph([("s", "t"), ("s", "dead end")])
    return ShortestPathOracle(graph, "s", "t", prune=False)


@pytest.mark.parametrize(
    "make",
    [
        lambda: unit_problem(CheckedOracle(TopKOracle(3, 1))),
        lambda: unit_problem(TopKOracle([frozenset("a"), "b"], 1)),
        lambda: unit_problem(TopKOracle([True, "b"], 1)),
        lambda: unit_problem(TopKOracle(2, 1), space=Odd()),
        lambda: unit_problem(unpruned()),
    ],
    ids=["wrapped", "label", "bool", "space", "unpruned"],
)
def test_unsupported_instances_are_rejected_before_writing(make, tmp_path):
    with pytest.raises(InstanceError):
        save_instance(Instance("x", make()), tmp_path / "x.json")
    assert not list(tmp_path.iterdir())


def test_only_an_instance_is_saved(tmp_path):
    with pytest.raises(InstanceError, match="Problem"):
        save_instance(unit_problem(TopKOracle(3, 1)), tmp_path / "x.json")


def test_saving_replaces_the_old_file(tmp_path):
    for k in (1, 2):
        save_instance(Instance("x", unit_problem(TopKOracle(3, k))), tmp_path / "x.json")
    assert load_instance(tmp_path / "x.json").oracle.k == 2
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]

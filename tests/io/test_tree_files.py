"""Spanning trees in files: kinds, networks, and the two published instances."""

import json
import math

import networkx as nx
import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import Campaign, SpanningTreeOracle, load_instance, save_instance
from combopeps.errors import FileFormatError, GraphError, InstanceError
from combopeps.io import Instance, read_tree

HEAD = {"schema": "combopeps/instance", "version": 1, "name": "x"}


def random_graph(kind, seed):
    """Return a connected graph with loops, parallel edges if allowed, and nodes of every kind of label."""
    rng = np.random.default_rng(seed)
    nodes = ["s", (9, "t"), 3, 2.5, ("a", (1, 2)), "é", -4]
    graph = kind()
    graph.add_nodes_from(nodes[i] for i in rng.permutation(len(nodes)))
    nx.add_path(graph, [nodes[i] for i in rng.permutation(len(nodes))])
    for _ in range(15):
        u, v = rng.choice(len(nodes), size=2)
        graph.add_edge(nodes[u], nodes[v])
    if seed % 2:
        for node in graph:
            graph.nodes[node].update(x=float(rng.normal()), y=float(rng.normal()))
    return graph


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("kind", [nx.Graph, nx.MultiGraph])
@pytest.mark.parametrize("objective", ["min", "max"])
def test_random_trees_round_trip(kind, objective, seed, tmp_path):
    oracle = SpanningTreeOracle(random_graph(kind, seed), objective)
    theta = np.random.default_rng(seed).normal(size=oracle.dim)
    instance = Instance("trees", unit_problem(oracle), theta)
    save_instance(instance, tmp_path / "x.json")
    again = load_instance(tmp_path / "x.json")
    assert [*map(repr, again.labels)] == [*map(repr, instance.labels)]
    assert again.best == instance.best
    assert again.oracle.pruned == oracle.pruned
    assert (again.oracle.pos, again.oracle.in_degrees) == (oracle.pos, oracle.in_degrees)
    assert (again.oracle.objective, again.oracle.multigraph) == (objective, oracle.multigraph)
    Campaign.create(tmp_path / "run", instance).ask()
    assert Campaign.open(tmp_path / "run").problem.oracle.components == oracle.components


@pytest.mark.parametrize("seed", range(5))
def test_theta_is_matched_to_edges_in_any_order(seed, tmp_path):
    rng = np.random.default_rng(seed)
    network = nx.gnp_random_graph(8, 0.6, seed=seed)
    edges = [edge[:: 1 if rng.random() < 0.5 else -1] for edge in network.edges]
    edges = [edges[i] for i in rng.permutation(len(edges))]
    theta = rng.normal(size=len(edges)).tolist()
    network.add_weighted_edges_from((*edge, w) for edge, w in zip(edges, theta, strict=True))
    (tmp_path / "x.json").write_text(json.dumps({**HEAD, "oracle": {"kind": "tree", "edges": edges}, "theta": theta}))
    instance = load_instance(tmp_path / "x.json")
    assert {frozenset(edge) for edge in instance.best} == {
        frozenset(edge) for edge in nx.minimum_spanning_edges(network, data=False)
    }


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"edges": [["a", "b"], ["b", "a"]]}, "oracle.edges[1]"),
        ({"edges": [["a", "b", 0]]}, "oracle.edges[0]"),
        ({"edges": []}, "oracle.edges"),
        ({"edges": [["a", "b"], ["c", "d"]]}, "oracle"),
        ({"objective": "most"}, "oracle.objective"),
        ({"multigraph": 1}, "oracle.multigraph"),
        ({"directed": False}, "oracle"),
        ({"source": "a"}, "oracle"),
        ({"pruned": [["a", "b"]]}, "oracle.pruned[0]"),
        ({"pos": [["a", 1]]}, "oracle.pos[0]"),
        ({"pos": [["q", 1, 2]]}, "oracle.pos[0][0]"),
    ],
)
def test_errors_name_the_field(changes, field, tmp_path):
    oracle = {"kind": "tree", "edges": [["a", "b"], ["b", "c"], ["a", "c"]]}
    (tmp_path / "x.json").write_text(json.dumps({**HEAD, "oracle": oracle | changes}))
    with pytest.raises(InstanceError) as caught:
        load_instance(tmp_path / "x.json")
    assert caught.value.field == field


@pytest.mark.parametrize(("name", "count", "tau"), [("tree-e20", 20, 8.36e-4), ("tree-e25", 25, 7.16e-4)])
def test_the_published_trees(name, count, tau):
    """The tree by networkx, the number of trees by Kirchhoff's theorem, and reference digits of tau*."""
    from combopeps import lower_bound

    instance = load_instance(name)
    network = nx.Graph()
    network.add_weighted_edges_from((*e, w) for e, w in zip(instance.labels, instance.theta, strict=True))
    assert instance.oracle.dim == count
    assert set(instance.best) == {tuple(sorted(edge)) for edge in nx.maximum_spanning_edges(network, data=False)}
    laplacian = nx.laplacian_matrix(network, weight=None).toarray()[1:, 1:]
    assert math.exp(instance.oracle.log_cardinality) == pytest.approx(np.linalg.det(laplacian), rel=1e-9)
    assert lower_bound(instance.problem, instance.theta, relative_gap=0.002).tau_star == pytest.approx(tau, rel=0.01)


def write_gr(path, arcs):
    lines = [f"p sp {max(max(a[:2]) for a in arcs)} {len(arcs)}", *(f"a {u} {v} {w}" for u, v, w in arcs)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_two_directions_are_one_edge(tmp_path):
    path = write_gr(tmp_path / "x.gr", [(1, 2, 5), (2, 1, 5), (2, 3, 4), (1, 3, 9)])
    instance = read_tree(path, objective="max")
    assert instance.labels == ((1, 2), (1, 3), (2, 3))
    assert instance.best == [(1, 2), (1, 3)]
    assert instance.origin == "edge attribute `weight`"


def test_different_directions_are_rejected(tmp_path):
    path = write_gr(tmp_path / "x.gr", [(1, 2, 5), (2, 1, 6), (2, 3, 4)])
    with pytest.raises(FileFormatError, match=r"1 to 2 has 5.*back it is 6.*undirected") as caught:
        read_tree(path)
    assert caught.value.field == "weight"
    path = write_gr(tmp_path / "y.gr", [(1, 2, 5), (1, 2, 6), (2, 3, 4)])
    with pytest.raises(FileFormatError, match="parallel links"):
        read_tree(path)


def test_networks_without_spanning_trees(tmp_path):
    nx.write_graphml(nx.Graph([("a", "b"), ("c", "d")]), tmp_path / "x.graphml")
    with pytest.raises(GraphError):
        read_tree(tmp_path / "x.graphml")


@pytest.mark.parametrize("suffix", ["graphml", "gml", "json"])
def test_formats(tmp_path, suffix):
    graph = nx.Graph()
    graph.add_weighted_edges_from([("a", "b", 3.0), ("b", "c", 1.0), ("a", "c", 2.0), ("c", "d", 0.0)])
    path = tmp_path / f"x.{suffix}"
    if suffix == "json":
        path.write_text(json.dumps(nx.node_link_data(graph, edges="edges")))
    else:
        {"graphml": nx.write_graphml, "gml": nx.write_gml}[suffix](graph, path)
    instance = read_tree(path, noise_std=0.5)
    assert {frozenset(edge) for edge in instance.best} == {frozenset("bc"), frozenset("ac"), frozenset("cd")}


def test_a_tntp_network_keeps_all_its_nodes(tmp_path):
    """Routes do not pass nodes below FIRST THRU NODE, but trees contain them."""
    path = tmp_path / "x_net.tntp"
    path.write_text(
        "<NUMBER OF NODES> 3\n<FIRST THRU NODE> 3\n<END OF METADATA>\n~ init_node term_node free_flow_time ;\n"
        "1 3 2 ;\n3 1 2 ;\n2 3 4 ;\n3 2 4 ;\n1 2 9 ;\n2 1 9 ;\n"
    )
    (tmp_path / "x_node.tntp").write_text("node x y ;\n1 0 0 ;\n2 1 0 ;\n3 0 1 ;\n")
    instance = read_tree(path)
    assert {frozenset(edge) for edge in instance.best} == {frozenset((1, 3)), frozenset((2, 3))}
    assert instance.oracle.pos[3] == (0.0, 1.0)

"""Edges of graphs with cycles that are on no simple route: against enumeration and networkx."""

import networkx as nx
import numpy as np
import pytest

from combopeps import ShortestPathOracle
from combopeps.io.oracle_kinds import read_oracle, write_oracle
from combopeps.io.parsing import Field
from combopeps.oracles.graph_arrays import _head_dominates_tail


def digraph(rng):
    n = int(rng.integers(4, 8))
    graph = nx.gnp_random_graph(n, float(rng.uniform(0.2, 0.6)), seed=int(rng.integers(1 << 30)), directed=True)
    graph.add_edges_from((i, i + 1) for i in range(n - 1) if rng.random() < 0.8)
    return graph, n - 1


def test_no_arc_of_a_route_is_pruned_and_more_is_pruned_than_by_cuts():
    rng, kept, by_cuts, needed = np.random.default_rng(0), 0, 0, 0
    for _ in range(150):
        graph, target = digraph(rng)
        on_route = {edge for path in nx.all_simple_edge_paths(graph, 0, target) for edge in path}
        if not on_route:
            continue
        components = set(ShortestPathOracle(graph, 0, target).components)
        loosely = set(ShortestPathOracle(graph, 0, target, prune="cuts").components)
        assert on_route <= components <= loosely
        needed, kept, by_cuts = needed + len(on_route), kept + len(components), by_cuts + len(loosely)
    assert kept - needed < 0.2 * (by_cuts - needed)


def test_dominators_agree_with_networkx():
    rng, some = np.random.default_rng(1), 0
    for _ in range(60):
        graph, _ = digraph(rng)
        edges = np.array(list(graph.edges), dtype=np.int64)
        above = nx.immediate_dominators(graph, 0)
        expected = []
        for u, v in edges.tolist():
            chain = [u] if u in above else []
            while chain and chain[-1] != 0:
                chain.append(above[chain[-1]])
            expected.append(v in chain)
        found = _head_dominates_tail(len(graph), edges[:, 0], edges[:, 1], 0)
        assert found.tolist() == expected
        some += sum(expected)
    assert some > 50


def test_arcs_to_a_dominator_are_pruned():
    graph = nx.DiGraph([(0, 1), (1, 2), (2, 1), (2, 3), (1, 3), (3, 2)])
    assert (2, 1) not in ShortestPathOracle(graph, 0, 3).components  # 1 has been passed before
    assert (2, 1) in ShortestPathOracle(graph, 0, 3, prune="cuts").components


@pytest.mark.parametrize("kind", [nx.DiGraph, nx.MultiDiGraph])
def test_shortest_walk_through_every_edge(kind):
    """Against networkx: from the source to the edge and on to the target; never longer than a route through it."""
    rng = np.random.default_rng(2)
    for _ in range(30):
        graph, target = digraph(rng)
        graph = kind(graph)
        if not nx.has_path(graph, 0, target):
            continue
        oracle = ShortestPathOracle(graph, 0, target)
        if oracle.domain == "real":
            assert oracle.through(np.zeros((1, oracle.dim))) is None
            continue
        theta = rng.uniform(size=(3, oracle.dim))
        found = oracle.through(theta)
        weighted = nx.DiGraph()
        for row, values in zip(theta, found, strict=True):
            weighted.add_weighted_edges_from((*edge[:2], w) for edge, w in zip(oracle.components, row, strict=True))
            there = nx.single_source_dijkstra_path_length(weighted, 0)
            back = nx.single_source_dijkstra_path_length(weighted.reverse(), target)
            for edge, w, value in zip(oracle.components, row, values, strict=True):
                assert value == pytest.approx(-(there[edge[0]] + w + back[edge[1]]))


def test_files_keep_their_components():
    """Campaigns store arms by index, so that files are read without pruning by dominators."""
    graph = nx.DiGraph([(0, 1), (1, 2), (2, 1), (2, 3), (1, 3), (3, 2), (0, 2)])
    for prune in (True, "cuts"):
        oracle = ShortestPathOracle(graph, 0, 3, prune=prune)
        again, _ = read_oracle(Field(write_oracle(oracle), "oracle"))
        assert again.components == oracle.components
        assert again.domain == oracle.domain

"""Every oracle against enumeration, on thousands of small random sets and thetas, including ties."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from brute_force import assert_agrees, matchings, routes, rows_of, spanning_trees, subsets
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from combopeps import ExplicitOracle, MatchingOracle, ShortestPathOracle, SpanningTreeOracle, TopKOracle
from combopeps.errors import GraphError, MatchingError

SETTINGS = settings(deadline=None, max_examples=250)
seeds = st.integers(0, 2**32 - 1)


@SETTINGS
@given(d=st.integers(1, 8), data=st.data(), seed=seeds)
def test_topk(d, data, seed):
    k = data.draw(st.integers(1, d))
    oracle = TopKOracle(d, k)
    assert oracle.log_cardinality.exact
    assert_agrees(oracle, subsets(d, k), seed)


@SETTINGS
@given(rows=st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), min_size=1, max_size=30), seed=seeds)
def test_explicit(rows, seed):
    Z = np.unique(np.array(rows, dtype=float), axis=0)
    oracle = ExplicitOracle(np.random.default_rng(seed).permutation(Z))
    assert oracle.log_cardinality.exact
    assert_agrees(oracle, Z, seed)


@SETTINGS
@given(seed=seeds, size=st.integers(1, 300), batch=st.integers(1, 700))
def test_explicit_in_blocks(seed, size, batch):
    rng = np.random.default_rng(seed)
    Z, thetas = rng.normal(size=(size, 4)), rng.normal(size=(batch, 4))
    best = ExplicitOracle(Z).argmax(thetas)
    np.testing.assert_array_equal(best, Z[(thetas @ Z.T).argmax(axis=1)])


@st.composite
def graphs(draw, kind, *, acyclic):
    """A graph on up to 7 nodes with shuffled names; loops, dead ends and unreachable parts included.

    Seven times out of eight a route from the first to the last node is laid down before anything else.
    """
    n = draw(st.integers(2, 7 if acyclic else 6))
    node = st.integers(0, n - 1)
    pair = st.tuples(node, node)
    if acyclic:
        pair = pair.filter(lambda e: e[0] != e[1]).map(lambda e: (min(e), max(e)))
    edges = draw(st.lists(pair, min_size=1, max_size=14))
    if draw(st.integers(0, 7)):
        stops = sorted(draw(st.sets(node)) | {0, n - 1})
        edges += pairwise(stops)
    names = draw(st.permutations([f"n{i}" for i in range(n)]))
    graph = kind()
    graph.add_nodes_from(draw(st.permutations(names)))
    graph.add_edges_from((names[u], names[v]) for u, v in edges)
    return graph, names[0], names[-1]


def assert_routes_agree(graph, source, target, seed, **options):
    """Compare values and kept edges: all edges on routes, and where that is decidable, no others."""
    listed = routes(graph, source, target)
    if not listed:
        with pytest.raises(GraphError, match="no route"):
            ShortestPathOracle(graph, source, target, **options)
        return
    oracle = ShortestPathOracle(graph, source, target, **options)
    edges = set(graph.edges(keys=True) if graph.is_multigraph() else graph.edges())
    assert set(oracle.components) | set(oracle.pruned) == edges
    assert len(oracle.components) + len(oracle.pruned) == len(edges)
    used = {label for route in listed for label in route}
    if not options.get("prune", True):
        assert oracle.pruned == ()
    elif oracle.domain == "real" or not graph.is_directed():
        assert set(oracle.components) == used
    else:
        assert set(oracle.components) >= used
    assert_agrees(oracle, rows_of(listed, oracle.components, oracle.unit), seed)


@SETTINGS
@given(rows=st.integers(1, 4), columns=st.integers(2, 4), objective=st.sampled_from(["min", "max"]), seed=seeds)
def test_grids(rows, columns, objective, seed):
    grid = nx.DiGraph()
    grid.add_edges_from(((i, j), (i + 1, j)) for i in range(rows - 1) for j in range(columns))
    grid.add_edges_from(((i, j), (i, j + 1)) for i in range(rows) for j in range(columns - 1))
    assert_routes_agree(grid, (0, 0), (rows - 1, columns - 1), seed, objective=objective)


@pytest.mark.parametrize("kind", [nx.DiGraph, nx.MultiDiGraph])
@SETTINGS
@given(data=st.data(), objective=st.sampled_from(["min", "max"]), prune=st.booleans(), seed=seeds)
def test_acyclic_graphs(kind, data, objective, prune, seed):
    graph, source, target = data.draw(graphs(kind, acyclic=True))
    assert_routes_agree(graph, source, target, seed, objective=objective, prune=prune)


@pytest.mark.parametrize("kind", [nx.DiGraph, nx.MultiDiGraph, nx.Graph, nx.MultiGraph])
@SETTINGS
@given(data=st.data(), prune=st.booleans(), seed=seeds)
def test_graphs_with_cycles(kind, data, prune, seed):
    graph, source, target = data.draw(graphs(kind, acyclic=False))
    assert_routes_agree(graph, source, target, seed, prune=prune)


@SETTINGS
@given(data=st.data(), seed=seeds)
def test_longest_routes_need_an_acyclic_network(data, seed):
    graph, source, target = data.draw(graphs(nx.DiGraph, acyclic=False))
    assume(nx.has_path(graph, source, target))
    oracle = ShortestPathOracle(graph, source, target)
    if nx.is_directed_acyclic_graph(nx.DiGraph(oracle.components)):
        assert oracle.domain == "real"
        assert_routes_agree(graph, source, target, seed, objective="max")
    else:
        assert oracle.domain == "nonnegative"
        with pytest.raises(GraphError, match="cycles"):
            ShortestPathOracle(graph, source, target, objective="max")


@pytest.mark.parametrize("kind", [nx.Graph, nx.MultiGraph])
@settings(deadline=None, max_examples=300)
@given(data=st.data(), objective=st.sampled_from(["min", "max"]), seed=seeds)
def test_spanning_trees(kind, data, objective, seed):
    """Connected graphs, 7 of 8 at least, with 24 thetas each: smooth, full of zeros and ties, of any sign."""
    graph, *_ = data.draw(graphs(kind, acyclic=False))
    if data.draw(st.integers(0, 7)):
        graph.add_edges_from(pairwise([next(iter(part)) for part in nx.connected_components(graph)]))
    if not nx.is_connected(graph):
        with pytest.raises(GraphError, match="not connected"):
            SpanningTreeOracle(graph, objective)
        return
    oracle = SpanningTreeOracle(graph, objective)
    edges = list(graph.edges(keys=True) if graph.is_multigraph() else graph.edges())
    assert oracle.components == tuple(edge for edge in edges if edge[0] != edge[1])
    assert oracle.pruned == tuple(edge for edge in edges if edge[0] == edge[1])
    assert oracle.log_cardinality.exact
    Z = rows_of(spanning_trees(graph), oracle.components, oracle.unit)
    assert_agrees(oracle, Z, seed)
    rank = np.linalg.matrix_rank(Z - Z[0])
    assert np.linalg.matrix_rank(oracle.equalities().toarray()) == oracle.equalities().shape[0] == oracle.dim - rank
    counts = [oracle.facets(z).shape[0] for z in Z[:50]]
    assert max(counts) <= oracle.facet_count
    assert (oracle.facet_count == 0) == (len(Z) == 1)


engines = st.sampled_from(["auto", "compiled", "scipy", "ortools"])


@SETTINGS
@given(n=st.integers(1, 4), surplus=st.integers(0, 2), maximize=st.booleans(), engine=engines, seed=seeds)
def test_complete_and_rectangular_matchings(n, surplus, maximize, engine, seed):
    left, right = [f"w{i}" for i in range(n)], [f"j{i}" for i in range(n + surplus)]
    oracle = MatchingOracle(left, right, maximize=maximize, engine=engine)
    assert oracle.log_cardinality.exact
    listed = matchings(left, right, oracle.components)
    assert_agrees(oracle, rows_of(listed, oracle.components, 1.0 if maximize else -1.0), seed)


@SETTINGS
@given(
    n=st.integers(1, 5), surplus=st.integers(0, 2), data=st.data(), maximize=st.booleans(), engine=engines, seed=seeds
)
def test_sparse_matchings(n, surplus, data, maximize, engine, seed):
    left, right = [f"w{i}" for i in range(n)], [f"j{i}" for i in range(n + surplus)]
    pairs = st.tuples(st.sampled_from(left), st.sampled_from(right))
    edges = data.draw(st.lists(pairs, min_size=n, max_size=4 * n, unique=True))
    listed = matchings(left, right, edges)
    if not listed:
        with pytest.raises(MatchingError) as caught:
            MatchingOracle(left, right, edges, maximize=maximize, engine=engine)
        crowd, room = caught.value.left_set, caught.value.neighbours
        assert {j for i, j in edges if i in crowd} == set(room)
        assert len(set(room)) < len(set(crowd)) == len(crowd)
        return
    oracle = MatchingOracle(left, right, edges, maximize=maximize, engine=engine)
    assert oracle.components == tuple(edges)
    assert_agrees(oracle, rows_of(listed, oracle.components, 1.0 if maximize else -1.0), seed)

"""`check_oracle` passes on every oracle and every variant of it."""

import itertools
import pickle

import networkx as nx
import numpy as np
import pytest
from matroids import MATROIDS

from combopeps import (
    ExplicitOracle,
    KnapsackOracle,
    MatchingOracle,
    MatroidOracle,
    MilpOracle,
    PartitionOracle,
    ShortestPathOracle,
    SpanningTreeOracle,
    TopKOracle,
    check_oracle,
)
from combopeps.oracles import CheckedOracle


def grid(kind=nx.DiGraph):
    return kind([((i, j), (i + a, j + b)) for i in range(3) for j in range(3) for a, b in ((0, 1), (1, 0))])


def parallel(kind):
    return kind([*grid().edges(), *list(grid().edges())[:5], ((0, 0), (3, 2))])


def cyclic(kind):
    """Return a ring with chords in both directions, a dead end and a loop."""
    edges = [(i, (i + step) % 8) for i in range(8) for step in (1, 3, 7)]
    return kind([*edges, (2, "dead end"), (5, 5)])


def sparse_edges(n, degree, columns=None):
    """Return a circulant pattern: `degree` neighbours of each of n left nodes, including a perfect matching."""
    return [(i, (i + shift * (shift + 1) // 2) % (columns or n)) for i in range(n) for shift in range(degree)]


ORACLES = {
    "top 1": lambda: TopKOracle(6, 1),
    "top k": lambda: TopKOracle(["ale", "bock", "cider", "dubbel", "export", "fest", "gose"], 3),
    "top d": lambda: TopKOracle(4, 4),
    "top 1 of 1": lambda: TopKOracle(1, 1),
    "top k of many": lambda: TopKOracle(200, 20),
    "grid": lambda: ShortestPathOracle(grid(), (0, 0), (3, 2)),
    "grid max": lambda: ShortestPathOracle(grid(), (0, 0), (3, 2), objective="max"),
    "grid unpruned": lambda: ShortestPathOracle(grid(), (0, 0), (2, 2), prune=False),
    "one edge": lambda: ShortestPathOracle(nx.DiGraph([("a", "b")]), "a", "b"),
    "parallel": lambda: ShortestPathOracle(parallel(nx.MultiDiGraph), (0, 0), (3, 2)),
    "parallel max": lambda: ShortestPathOracle(parallel(nx.MultiDiGraph), (0, 0), (3, 2), objective="max"),
    "cyclic": lambda: ShortestPathOracle(cyclic(nx.DiGraph), 0, 5),
    "cyclic unpruned": lambda: ShortestPathOracle(cyclic(nx.DiGraph), 0, 5, prune=False),
    "cyclic parallel": lambda: ShortestPathOracle(cyclic(nx.MultiDiGraph), 0, 5),
    "undirected": lambda: ShortestPathOracle(grid(nx.Graph), (0, 0), (3, 2)),
    "undirected unpruned": lambda: ShortestPathOracle(cyclic(nx.Graph), 0, 5, prune=False),
    "undirected parallel": lambda: ShortestPathOracle(parallel(nx.MultiGraph), (0, 0), (3, 2)),
    "tree": lambda: SpanningTreeOracle(grid(nx.Graph)),
    "tree max": lambda: SpanningTreeOracle(grid(nx.Graph), objective="max"),
    "tree parallel": lambda: SpanningTreeOracle(parallel(nx.MultiGraph)),
    "tree with a loop": lambda: SpanningTreeOracle(cyclic(nx.MultiGraph), "max"),
    "tree of blocks": lambda: SpanningTreeOracle(nx.barbell_graph(4, 2)),
    "tree of a sparse graph": lambda: SpanningTreeOracle(nx.cycle_graph(40)),
    "tree of a complete graph": lambda: SpanningTreeOracle(nx.complete_graph(12)),
    "tree and nothing else": lambda: SpanningTreeOracle(nx.path_graph(4)),
    "tree of one edge": lambda: SpanningTreeOracle(nx.Graph([("a", "b")])),
    "knapsack": lambda: KnapsackOracle([3, 1, 4, 1, 5, 9, 0], 9),
    "knapsack of fractions": lambda: KnapsackOracle([0.3, 0.1, 0.4, 0.15], 0.5),
    "program": lambda: MilpOracle(5, [[1, 1, 1, 0, 0], [0, 0, 1, 2, 3]], [1, 0], [1, 4]),
    "program of costs": lambda: MilpOracle(4, [[1, 1, 1, 1]], 2, 3, objective="min"),
    "program of integers": lambda: MilpOracle(3, [[1, 2, -1]], -2, 3, bounds=([-1, 0, 0], [2, 3, 1])),
    "explicit": lambda: ExplicitOracle(np.random.default_rng(0).normal(size=(30, 4))),
    "explicit 0/1": lambda: ExplicitOracle([z for z in itertools.product((0, 1), repeat=4) if sum(z) != 2]),
    "explicit one row": lambda: ExplicitOracle([[1.5, -2.0]], labels=["only"]),
    "explicit large": lambda: ExplicitOracle(1e6 * np.array(list(itertools.permutations([0.1, 0.2, 0.3])))),
    "groups": lambda: PartitionOracle({"a": [0, 1, 2], "b": [3, 4], "c": range(5, 12)}, {"a": 1, "b": 2, "c": 3}),
    "groups min": lambda: PartitionOracle([[0, 1, 2], [3, 4], range(5, 12)], [0, 1, 6], objective="min"),
    "groups, at most": lambda: PartitionOracle([[0, 1, 2], [3, 4], range(5, 10)], [1, 2, 3], exactly=False),
    "groups, at most, min": lambda: PartitionOracle([[0, 1, 2], [3, 4]], [0, 1], exactly=False, objective="min"),
    "groups, all of them": lambda: PartitionOracle([[0, 1], [2]], [2, 1]),
    "many groups": lambda: PartitionOracle([range(5 * g, 5 * g + 5) for g in range(60)], 2),
    "large groups": lambda: PartitionOracle([range(100), range(100, 150)], [50, 9], exactly=False),
    "matroid": lambda: MatroidOracle(*MATROIDS["graphic with loops and parallels"], objective="min"),
    "matroid of vectors": lambda: MatroidOracle(*MATROIDS["linear over GF(2)"]),
    "matroid, independent sets": lambda: MatroidOracle(*MATROIDS["laminar"], bases=False),
    "explicit small": lambda: ExplicitOracle(1e-13 * np.array(list(itertools.permutations([0.1, 0.2, 0.3])))),
}
for engine, maximize in itertools.product(("compiled", "scipy", "ortools"), (True, False)):
    options = {"engine": engine, "maximize": maximize}
    ORACLES |= {
        f"complete {engine} {maximize=}": lambda options=options: MatchingOracle(4, 4, **options),
        f"single {engine} {maximize=}": lambda options=options: MatchingOracle(["only"], ["one"], **options),
        f"rectangular {engine} {maximize=}": lambda options=options: MatchingOracle(3, 5, **options),
        f"sparse {engine} {maximize=}": lambda options=options: MatchingOracle(6, 6, sparse_edges(6, 3), **options),
        f"sparse rectangular {engine} {maximize=}": lambda options=options: MatchingOracle(
            5, 9, sparse_edges(5, 4, 9)[::-1], **options
        ),
    }
ORACLES |= {
    "sparse larger": lambda: MatchingOracle(70, 70, sparse_edges(70, 5)),
    "sparse larger rectangular": lambda: MatchingOracle(70, 90, sparse_edges(70, 5, 90), engine="ortools"),
}


@pytest.fixture(params=ORACLES.values(), ids=ORACLES)
def oracle(request):
    return request.param()


def test_contract_holds(oracle):
    report = check_oracle(oracle, raises=False)
    assert report.violations == {}
    assert len(report.passed) == (15 if isinstance(oracle, MatroidOracle) else 13)


def test_contract_holds_for_checked_oracles(oracle):
    report = check_oracle(CheckedOracle(oracle, mode="always"), raises=False)
    assert report.violations == {}


def test_checked_oracle_does_not_change_answers(oracle):
    rng = np.random.default_rng(1)
    thetas = np.concatenate([rng.exponential(size=(20, oracle.dim)), rng.integers(0, 3, size=(20, oracle.dim))])
    expected = oracle.argmax(thetas)
    for mode in ("always", "sampled"):
        checked = CheckedOracle(oracle, mode=mode)
        assert (checked.dim, checked.components) == (oracle.dim, oracle.components)
        assert (checked.domain, checked.unit) == (oracle.domain, oracle.unit)
        np.testing.assert_array_equal(checked.argmax(thetas), expected)
        np.testing.assert_array_equal([checked.argmax(theta) for theta in thetas[:20]], expected[:20])
        np.testing.assert_array_equal(checked.membership(expected[0], thetas), oracle.membership(expected[0], thetas))
        assert checked.decode(expected[0]) == oracle.decode(expected[0])
        np.testing.assert_array_equal(checked.encode(oracle.decode(expected[0])), expected[0])


def test_pickled_copies_give_the_same_answers(oracle):
    twin = pickle.loads(pickle.dumps(oracle))
    thetas = np.random.default_rng(2).exponential(size=(5, oracle.dim))
    np.testing.assert_array_equal(twin.argmax(thetas), oracle.argmax(thetas))
    assert twin.components == oracle.components
    assert twin.log_cardinality == oracle.log_cardinality
    assert twin.log_cardinality.exact == oracle.log_cardinality.exact


@pytest.mark.parametrize("engine", ["compiled", "scipy", "ortools"])
def test_the_requested_engine_is_in_use(engine):
    assert engine in MatchingOracle(3, 3, engine=engine).engine.lower()


def test_auto_selects_the_fastest_engine_for_the_size():
    assert "compiled" in repr(MatchingOracle(200, 200, sparse_edges(200, 5)))
    assert "scipy" in repr(MatchingOracle(30, 30))
    assert "ortools" in repr(MatchingOracle(2500, 2500, sparse_edges(2500, 3)))


def test_the_text_of_the_report():
    report = check_oracle(TopKOracle(5, 2))
    assert report.ok
    assert str(report) == "TopKOracle: 13 checks passed, 0 failed"

"""Invalid input raises typed errors of one base class, whose messages name the remedy."""

import networkx as nx
import numpy as np
import pytest

from combopeps import (
    ComboPepsError,
    ExplicitOracle,
    MatchingOracle,
    MatroidOracle,
    PartitionOracle,
    ShortestPathOracle,
    SpanningTreeOracle,
    TopKOracle,
)
from combopeps.errors import AnswerError, DomainError, GraphError, LabelError, MatchingError, ParameterError, ThetaError
from combopeps.oracles import CheckedOracle

DIAMOND = nx.DiGraph([("s", "a"), ("a", "t"), ("s", "b"), ("b", "t")])
RING = nx.DiGraph([(0, 1), (0, 2), (1, 2), (2, 1), (2, 3), (1, 3)])
LINE = nx.path_graph(4)
TWO_PARTS = nx.Graph([(0, 1), (2, 3)])
UNHASHABLE = ["s"]


def path(graph, source="s", target="t", **options):
    return lambda: ShortestPathOracle(graph, source, target, **options)


def matching(*args, **options):
    return lambda: MatchingOracle(*args, **options)


def tree(*args, **options):
    return lambda: SpanningTreeOracle(*args, **options)


def top(*args):
    return lambda: TopKOracle(*args)


def explicit(*args, **options):
    return lambda: ExplicitOracle(*args, **options)


CONSTRUCTION = {
    "graph without nodes": (path(nx.DiGraph()), GraphError, "add some"),
    "graph without edges": (path(nx.empty_graph(["s", "t"])), GraphError, "add some"),
    "not a graph": (path([("s", "t")]), GraphError, "networkx"),
    "nothing for a graph": (path(None), GraphError, "networkx"),
    "unknown source": (path(DIAMOND, "x"), GraphError, "its nodes are"),
    "unknown target": (path(DIAMOND, "s", "x"), GraphError, "its nodes are"),
    "unhashable source": (path(DIAMOND, UNHASHABLE), GraphError, "not a node"),
    "source is target": (path(DIAMOND, "s", "s"), GraphError, "two different nodes"),
    "no route": (path(DIAMOND, "t", "s"), GraphError, "swap"),
    "no route, undirected": (path(TWO_PARTS, 0, 3), GraphError, "add edges"),
    "only a loop": (path(nx.DiGraph([("s", "s"), ("t", "s")])), GraphError, "no route"),
    "longest with cycles": (path(RING, 0, 3, objective="max"), GraphError, 'objective="min"'),
    "longest undirected": (path(LINE, 0, 3, objective="max"), GraphError, "acyclic"),
    "unknown objective": (path(DIAMOND, objective="best"), ParameterError, '"min" or "max"'),
    "tree: not a graph": (tree([("s", "t")]), GraphError, "networkx"),
    "tree: directed": (tree(DIAMOND), GraphError, "to_undirected"),
    "tree: no nodes": (tree(nx.Graph()), GraphError, "needs two"),
    "tree: one node": (tree(nx.Graph([("s", "s")])), GraphError, "needs two"),
    "tree: no edges": (tree(nx.empty_graph(3)), GraphError, "not connected"),
    "tree: two parts": (tree(TWO_PARTS), GraphError, r"2 components hold \[0, 1\] .*; \[2, 3\] .*Add edges"),
    "tree: many parts": (tree(nx.empty_graph(30)), GraphError, "and 25 more"),
    "tree: unknown objective": (tree(LINE, "best"), ParameterError, '"min" or "max"'),
    "k = 0": (top(4, 0), ParameterError, r"1\.\.4"),
    "k < 0": (top(4, -1), ParameterError, r"1\.\.4"),
    "k > d": (top(4, 5), ParameterError, r"1\.\.4"),
    "k a bool": (top(4, True), ParameterError, "integer"),
    "k a float": (top(4, 2.0), ParameterError, "integer"),
    "k a string": (top(4, "2"), ParameterError, "integer"),
    "k None": (top(4, None), ParameterError, "integer"),
    "d = 0": (top(0, 1), ParameterError, "at least 1"),
    "d < 0": (top(-3, 1), ParameterError, "at least 1"),
    "d a float": (top(4.0, 1), LabelError, "sequence of labels"),
    "d a bool": (top(True, 1), LabelError, "sequence of labels"),
    "no items": (top([], 1), LabelError, "at least one"),
    "one string for labels": (top("abc", 1), LabelError, "in a list"),
    "repeated items": (top(["a", "b", "a"], 1), LabelError, "different"),
    "unhashable items": (top([["a"], ["b"]], 1), LabelError, "tuple"),
    "more left than right": (matching(3, 2), MatchingError, "swap"),
    "unknown left node": (matching(2, 2, [(0, 0), (5, 1)]), LabelError, "list it in left="),
    "unknown right node": (matching(2, 2, [(0, 0), (1, 5)]), LabelError, "list it in right="),
    "unhashable end": (matching(2, 2, [(0, 0), (1, [1])]), LabelError, "list it in right="),
    "edge of three": (matching(2, 2, [(0, 0, 1)]), LabelError, "pair"),
    "edge of one": (matching(2, 2, [0, 1]), LabelError, "pair"),
    "edge a string": (matching(["a"], ["b"], ["ab"]), LabelError, "pair"),
    "edges not a list": (matching(2, 2, 5), LabelError, "pair"),
    "no edges": (matching(2, 2, []), ComboPepsError, "at least one|add edges"),
    "repeated edge": (matching(2, 2, [(0, 0), (1, 1), (0, 0)]), LabelError, "different"),
    "repeated left node": (matching(["a", "a"], 2), LabelError, "different"),
    "unhashable right node": (matching(1, [["b"]]), LabelError, "tuple"),
    "no left nodes": (matching([], 2), LabelError, "at least one"),
    "no matching": (matching(2, 2, [(0, 0), (1, 0)]), MatchingError, "add edges"),
    "unknown engine": (matching(2, 2, engine="cplex"), ParameterError, '"auto", "compiled", "ortools" or "scipy"'),
    "Z a vector": (explicit([1.0, 2.0]), ParameterError, "one answer per row"),
    "Z empty": (explicit([]), ParameterError, "one answer per row"),
    "Z without columns": (explicit(np.ones((2, 0))), ParameterError, "one answer per row"),
    "Z of three dimensions": (explicit(np.ones((2, 2, 2))), ParameterError, "one answer per row"),
    "Z ragged": (explicit([[1.0, 2.0], [3.0]]), ParameterError, "rectangular"),
    "Z of strings": (explicit([["a", "b"]]), ParameterError, "real numbers"),
    "Z complex": (explicit([[1j, 0.0]]), ParameterError, "real numbers"),
    "Z of objects": (explicit([[None, 0.0]]), ParameterError, "real numbers"),
    "Z repeats a row": (explicit([[1, 0], [0, 1], [1, 0]]), ParameterError, r"row 2 .*np\.unique"),
    "Z holds NaN": (explicit([[1, 0], [np.nan, 1]]), ParameterError, "row 1 of Z is not finite"),
    "Z holds infinity": (explicit([[1, np.inf], [0, 1]]), ParameterError, "row 0 of Z is not finite"),
    "labels of Z too few": (explicit([[1, 0], [0, 1]], ["a"]), LabelError, "components="),
    "labels of Z repeated": (explicit([[1, 0], [0, 1]], ["a", "a"]), LabelError, "different"),
    "components of Z too many": (explicit([[1, 0], [0, 1]], components=["a", "b", "c"]), LabelError, "length 2"),
    "unknown mode": (lambda: CheckedOracle(TopKOracle(2, 1), mode="never"), ParameterError, '"sampled" or "always"'),
}


@pytest.mark.parametrize(("build", "error", "cure"), CONSTRUCTION.values(), ids=CONSTRUCTION)
def test_construction(build, error, cure):
    with pytest.raises(error, match=cure) as caught:
        build()
    assert isinstance(caught.value, ComboPepsError)


ORACLES = {
    "top-k": TopKOracle(4, 2),
    "path": ShortestPathOracle(DIAMOND, "s", "t"),
    "cyclic path": ShortestPathOracle(nx.complete_graph(4, nx.DiGraph), 0, 2, prune=False),
    "matching": MatchingOracle(2, 2),
    "ortools": MatchingOracle(2, 2, engine="ortools"),
    "tree": SpanningTreeOracle(nx.cycle_graph(4), "max"),
    "sparse tree": SpanningTreeOracle(nx.cycle_graph(20)),
    "explicit": ExplicitOracle(np.eye(4)),
    "groups": PartitionOracle([[0, 1], [2, 3]], 1),
    "groups, at most": PartitionOracle([[0, 1], [2, 3]], 1, exactly=False),
    "matroid": MatroidOracle(4, lambda chosen: len(chosen) <= 2),
    "checked": CheckedOracle(TopKOracle(4, 2)),
}

THETAS = {
    "NaN": (lambda d: np.full(d, np.nan), "finite"),
    "one NaN in a batch": (lambda d: np.eye(d) * np.where(np.eye(d) > 0, np.nan, 1.0), "finite"),
    "infinity": (lambda d: np.full(d, np.inf), "finite"),
    "minus infinity": (lambda d: np.r_[np.zeros(d - 1), -np.inf], "finite"),
    "complex": (lambda d: np.ones(d) * 1j, "convert"),
    "objects": (lambda d: np.array([None] * d), "convert"),
    "fractions of any size": (lambda d: [10**400] + [0] * (d - 1), "convert"),
    "strings": (lambda d: ["1.0"] * d, "convert"),
    "dates": (lambda d: np.zeros(d, dtype="M8[D]"), "convert"),
    "a string": (lambda d: "theta", "convert"),
    "nothing": (lambda d: None, "convert"),
    "ragged": (lambda d: [[1.0] * d, [1.0]], "rectangular"),
    "too short": (lambda d: np.ones(d - 1), r"\(B, \d+\)"),
    "too long": (lambda d: np.ones((3, d + 1)), r"\(B, \d+\)"),
    "no numbers": (lambda d: [], r"\(B, \d+\)"),
    "a number": (lambda d: 1.0, r"\(B, \d+\)"),
    "three dimensions": (lambda d: np.ones((2, 2, d)), r"\(B, \d+\)"),
    "a column": (lambda d: np.ones((d, 1)), r"\(B, \d+\)"),
    "too large to add up": (lambda d: np.full(d, 1e300), "divide"),
}


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize(("theta", "cure"), THETAS.values(), ids=THETAS)
def test_theta(name, theta, cure):
    oracle = ORACLES[name]
    z = oracle.argmax(np.ones(oracle.dim))
    for question in (oracle.argmax, lambda theta: oracle.membership(z, theta)):
        with pytest.raises(ThetaError, match=cure) as caught:
            question(theta(oracle.dim))
        assert isinstance(caught.value, ComboPepsError)


def test_large_theta_without_overflow_is_accepted():
    for oracle in ORACLES.values():
        theta = np.random.default_rng(0).uniform(size=oracle.dim)
        np.testing.assert_array_equal(oracle.argmax(1e150 * theta), oracle.argmax(theta))


def test_oracles_are_unchanged_after_invalid_input():
    for oracle in ORACLES.values():
        theta = np.arange(1.0, oracle.dim + 1)
        before = oracle.argmax(theta)
        with pytest.raises(ThetaError):
            oracle.argmax(theta * np.nan)
        np.testing.assert_array_equal(oracle.argmax(theta), before)


def test_negative_lengths_with_cycles():
    with pytest.raises(DomainError, match="clip theta at 0"):
        ORACLES["cyclic path"].argmax(-np.ones(ORACLES["cyclic path"].dim))


NO_VECTORS = {
    "too short": [1.0],
    "matrix": np.ones((1, 4)),
    "NaN": [np.nan, 0, 0, 1],
    "strings": ["a", "b", "c", "d"],
    "ragged": [[1], [1, 2], [3], [4]],
    "zeros": [0, 0, 0, 0],
    "half": [0.5, 0.5, 0, 0],
    "everything": [1, 1, 1, 1],
    "everything, as a cost": [-1, -1, -1, -1],
    "one too few": [1, 0, 0, 1e-9],
}


@pytest.mark.parametrize("z", NO_VECTORS.values(), ids=NO_VECTORS)
@pytest.mark.parametrize("name", ["top-k", "path", "matching", "tree", "explicit", "groups", "matroid", "checked"])
def test_decoding_invalid_answers(name, z):
    with pytest.raises(AnswerError):
        ORACLES[name].decode(z)


def test_decoding_invalid_routes():
    graph = nx.Graph([("s", "a"), ("a", "t"), ("s", "b"), ("b", "t"), ("a", "b"), ("b", "c"), ("c", "t")])
    oracle = ShortestPathOracle(graph, "s", "t")
    chosen = {
        "only half the way": [("s", "a")],
        "a fork": [("s", "a"), ("s", "b"), ("a", "t")],
        "an edge off the way": [("s", "a"), ("a", "t"), ("b", "c")],
        "a detour in a loop": [("s", "a"), ("a", "b"), ("b", "c"), ("c", "t"), ("b", "t")],
    }
    for edges in chosen.values():
        z = np.zeros(oracle.dim)
        z[[oracle.index(edge) for edge in edges]] = -1.0
        with pytest.raises(AnswerError, match="route"):
            oracle.decode(z)


MULTI = ShortestPathOracle(nx.MultiDiGraph(DIAMOND), "s", "t")
FOUR_NODES = SpanningTreeOracle(nx.complete_graph(4))
NO_ANSWERS = {
    "top-k: a number": (ORACLES["top-k"], 5),
    "top-k: nothing": (ORACLES["top-k"], None),
    "top-k: too few": (ORACLES["top-k"], [0]),
    "top-k: too many": (ORACLES["top-k"], [0, 1, 2]),
    "top-k: twice the same": (ORACLES["top-k"], [0, 0]),
    "top-k: a stranger": (ORACLES["top-k"], [0, "x"]),
    "top-k: unhashable": (ORACLES["top-k"], [0, [1]]),
    "path: a number": (ORACLES["path"], 5),
    "path: nothing": (ORACLES["path"], None),
    "path: empty": (ORACLES["path"], []),
    "path: one node": (ORACLES["path"], ["s"]),
    "path: wrong way round": (ORACLES["path"], ["t", "a", "s"]),
    "path: not an edge": (ORACLES["path"], ["s", "t"]),
    "path: half the way": (ORACLES["path"], ["s", "a"]),
    "path: a stranger": (ORACLES["path"], ["s", "x", "t"]),
    "path: unhashable": (ORACLES["path"], ["s", ["a"], "t"]),
    "path: twice round": (ORACLES["cyclic path"], [0, 1, 0, 2]),
    "parallel: a number": (MULTI, 5),
    "parallel: nodes only": (MULTI, ["s", "a", "t"]),
    "parallel: no keys": (MULTI, (["s", "a", "t"], [])),
    "parallel: keys a number": (MULTI, (["s", "a", "t"], 0)),
    "parallel: nodes a number": (MULTI, (0, [0, 0])),
    "parallel: unknown key": (MULTI, (["s", "a", "t"], [0, 7])),
    "parallel: unhashable": (MULTI, (["s", ["a"], "t"], [0, 0])),
    "matching: a number": (ORACLES["matching"], 5),
    "matching: nothing": (ORACLES["matching"], None),
    "matching: no pairs": (ORACLES["matching"], [1, 2]),
    "matching: a string": (ORACLES["matching"], "ab"),
    "matching: too few": (ORACLES["matching"], {0: 0}),
    "matching: shared": (ORACLES["matching"], {0: 0, 1: 0}),
    "matching: a stranger": (ORACLES["matching"], {0: 0, 1: 5}),
    "matching: unhashable": (ORACLES["matching"], {0: 0, 1: [1]}),
    "tree: a number": (ORACLES["tree"], 5),
    "tree: nothing": (ORACLES["tree"], None),
    "tree: a string": (ORACLES["tree"], "ab"),
    "tree: empty": (ORACLES["tree"], []),
    "tree: too few": (ORACLES["tree"], [(0, 1), (1, 2)]),
    "tree: a cycle": (ORACLES["tree"], [(0, 1), (1, 2), (2, 3), (3, 0)]),
    "tree: a cycle and a node left out": (FOUR_NODES, [(0, 1), (1, 2), (0, 2)]),
    "tree: twice the same": (ORACLES["tree"], [(0, 1), (1, 0), (2, 3)]),
    "tree: not an edge": (ORACLES["tree"], [(0, 1), (1, 2), (1, 3)]),
    "tree: a node": (ORACLES["tree"], [0, 1, 2]),
    "tree: unhashable": (ORACLES["tree"], [[0, 1], (1, 2), (2, 3)]),
    "explicit: a stranger": (ORACLES["explicit"], "x"),
    "explicit: unhashable": (ORACLES["explicit"], [0]),
}


@pytest.mark.parametrize(("oracle", "answer"), NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_encoding_invalid_answers(oracle, answer):
    with pytest.raises(AnswerError):
        oracle.encode(answer)


@pytest.mark.parametrize("z", [[1.0], np.ones((2, 2)), "abcd", [1, 0, 0, 0, 0, 1], [0, 0, 0, np.nan]], ids=str)
@pytest.mark.parametrize("name", ["top-k", "explicit"])
def test_facets_of_invalid_answers(name, z):
    with pytest.raises(AnswerError):
        ORACLES[name].facets(z)


@pytest.mark.parametrize("z", [[1.0], np.ones((1, 4)), "abcd", [0, 0, 0, np.nan]], ids=str)
@pytest.mark.parametrize("name", ORACLES)
def test_membership_of_invalid_answers(name, z):
    with pytest.raises(AnswerError):
        ORACLES[name].membership(z, np.ones(ORACLES[name].dim))


@pytest.mark.parametrize("seed", range(20))
def test_named_left_nodes_violate_halls_condition(seed):
    rng = np.random.default_rng(seed)
    left, right = [f"w{i}" for i in range(30)], [f"j{i}" for i in range(32)]
    crowd = rng.choice(30, size=6, replace=False)
    edges = {(left[i], right[j]) for i in range(30) for j in rng.choice(32, size=8) if i not in crowd}
    edges |= {(left[i], right[j]) for i in crowd for j in rng.choice(5, size=3)}
    with pytest.raises(MatchingError, match="add edges there") as caught:
        MatchingOracle(left, right, sorted(edges))
    named, room = set(caught.value.left_set), set(caught.value.neighbours)
    assert {j for i, j in edges if i in named} == room
    assert len(room) < len(named)
    assert len(named) == len(caught.value.left_set)


def test_more_left_than_right_nodes_are_named():
    with pytest.raises(MatchingError) as caught:
        MatchingOracle(["a", "b", "c"], ["x", "y"])
    assert caught.value.left_set == ["a", "b", "c"]
    assert caught.value.neighbours == ["x", "y"]

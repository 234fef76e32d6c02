"""Which arm is meant: by the label itself, by how it is written, or by its parts; what is ambiguous is refused."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit_problem import unit_problem

from combopeps import MatchingOracle, ShortestPathOracle, TopKOracle
from combopeps.errors import LabelError
from combopeps.oracles import CheckedOracle
from combopeps.utils.label_format import label_text
from combopeps.utils.label_index import LabelIndex


def book(oracle, arms=None):
    return LabelIndex(unit_problem(oracle, arms).arms.labels, oracle)


def routes(edges, source, target, kind=nx.DiGraph):
    return ShortestPathOracle(kind(edges), source, target)


def test_items():
    found = book(TopKOracle([7, "eight", 0.5], k=1))
    assert [found.find(label) for label in (7, "eight", 0.5)] == [0, 1, 2]
    assert [found.match(text, is_text=True) for text in ("7", " eight ", "0.5")] == [0, 1, 2]
    assert found.match(np.int64(7)) == found.match(7.0) == 0
    assert found.by_words(["7"]) == 7
    for wrong in ("7", "nine", (7,), [7], None):
        with pytest.raises(LabelError):
            found.find(wrong)


@pytest.mark.parametrize("nodes", [range(4), "abcd", [(0, 0), (0, 1), (1, 0), (1, 1)], ["Palo Alto", "x", "y\n", "z"]])
@pytest.mark.parametrize("kind", [nx.DiGraph, nx.Graph])
def test_edges_as_they_are_printed(nodes, kind):
    a, b, c, d = nodes
    found = book(oracle := routes([(a, b), (b, d), (a, c), (c, d)], a, d, kind))
    for arm, label in enumerate(oracle.components):
        ways = [label] if kind is nx.DiGraph else [label, label[::-1]]
        for way in ways:
            assert found.find(way) == arm
            assert found.match(label_text(way), is_text=True) == arm
            assert found.match(str(way), is_text=True) == arm  # as pandas writes a tuple
            assert found.match(tuple(map(str, way)), is_text=True) == arm
            assert found.by_words([label_text(way)]) == label
            assert found.by_words(label_text(way).split(" ")) == label  # not quoted
            assert found.by_words([str(part) for part in way]) == label
        if kind is nx.DiGraph:
            with pytest.raises(LabelError):
                found.find(label[::-1])


def test_parallel_edges():
    graph = nx.MultiGraph([("a", "b", "fast"), ("a", "b", "slow")])
    found = book(oracle := ShortestPathOracle(graph, "a", "b"))
    for arm, label in enumerate(oracle.components):
        assert found.find((label[1], label[0], label[2])) == arm
        assert found.match(f"b - a - {label[2]}", is_text=True) == arm
    with pytest.raises(LabelError, match="a - b - fast"):
        found.match(("a", "b"))


def test_pairs():
    found = book(MatchingOracle(["ann", "bob"], ["dig", "plant"]))
    assert found.match("bob - dig", is_text=True) == found.find(("bob", "dig")) == 2
    with pytest.raises(LabelError):
        found.find(("dig", "bob"))


def test_nodes_with_a_dash_in_their_names():
    edges = [("a", "b - c"), ("a - b", "c"), ("s", "a"), ("s", "a - b"), ("b - c", "t"), ("c", "t")]
    found = book(oracle := routes(edges, "s", "t"))
    for words in (["a - b - c"], ["a", "-", "b", "-", "c"]):
        with pytest.raises(LabelError, match=r"may be \('a - b', 'c'\) or \('a', 'b - c'\).*one word each") as caught:
            found.by_words(words)
    with pytest.raises(LabelError, match="columns source and target"):
        found.match("a - b - c", is_text=True)
    assert "Python" in str(caught.value)
    assert found.by_words(["a", "b - c"]) == ("a", "b - c")
    assert found.by_words(["a - b", "c"]) == ("a - b", "c")
    assert found.match(("a - b", "c"), is_text=True) == oracle.index(("a - b", "c"))
    assert found.by_words(["s - a - b"]) == ("s", "a - b")  # nothing else is written so


def test_a_number_and_its_digits_are_two_labels_and_one_text():
    found = book(TopKOracle([1, "1", "b"], k=1))
    assert (found.match(1), found.match("1")) == (0, 1)
    for act in (lambda: found.match("1", is_text=True), lambda: found.by_words(["1"])):
        with pytest.raises(LabelError, match=r"'1' may be '1' or 1, which are written alike"):
            act()
    assert found.match("b", is_text=True) == 2


@pytest.mark.parametrize("wrap", [lambda oracle: oracle, CheckedOracle])
@pytest.mark.parametrize("kind", [nx.DiGraph, nx.Graph])
def test_edges_on_no_route_are_named_as_such(kind, wrap):
    oracle = wrap(routes([("s", "a"), ("a", "t"), ("a", "dead end"), ("far", "away")], "s", "t", kind))
    found = book(oracle)
    why = r"edge \('a', 'dead end'\) lies on no route from 's' to 't', so it is not measured; leave it out"
    with pytest.raises(LabelError, match=why):
        found.find(("a", "dead end"))
    with pytest.raises(LabelError, match=why):
        found.by_words(["a - dead end"])
    assert found.match("far - away", is_text=True) < 0
    assert found.pruned(found.match(("far", "away"))) == ("far", "away")
    if kind is nx.Graph:
        with pytest.raises(LabelError, match="lies on no route"):
            found.find(("dead end", "a"))


def test_what_is_unknown_is_answered_with_what_may_be_meant():
    found = book(TopKOracle(["arabica", "robusta", "liberica"], k=1))
    with pytest.raises(LabelError, match="did you mean robusta"):
        found.match("robust", is_text=True)
    with pytest.raises(LabelError, match="there are arabica, robusta, liberica"):
        found.match("tea", is_text=True)


def test_a_component_that_no_arm_measures():
    oracle = routes([("s", "a"), ("a", "t"), ("s", "t")], "s", "t")
    found = LabelIndex([("s", "a"), ("s", "t")], oracle)
    with pytest.raises(LabelError, match="no arm of the problem measures"):
        found.find(("a", "t"))


def test_arms_with_labels_of_their_own():
    oracle = routes([("s", "a"), ("a", "t"), ("s", "t")], "s", "t", nx.Graph)
    rows = {("way", "there"): [1.0, 1.0, 0.0], "direct": [0.0, 0.0, 1.0], "first": [1.0, 0.0, 0.0]}
    found = book(oracle, rows)
    assert found.find("direct") == 1
    assert found.by_words(["way", "there"]) == ("way", "there")
    assert found.by_words(["way - there"]) == ("way", "there")


PARTS = st.sampled_from(["a", "b", "a - b", " - ", "-", "1", 1, "b - a", ("a", "b"), "('a', 'b')"])
LABELS = st.lists(st.one_of(PARTS, st.tuples(PARTS, PARTS), st.tuples(PARTS, PARTS, PARTS)), min_size=2, unique=True)


@settings(max_examples=200, deadline=None)
@given(LABELS)
def test_no_text_is_ever_taken_for_another_label(labels):
    """A text finds a label only if no other one is written like it, in whatever way."""
    found = LabelIndex(labels, TopKOracle(labels, k=1))
    for arm, label in enumerate(labels):
        assert found.find(label) == arm
        for text in (label_text(label), str(label)):
            alike = {i for i, other in enumerate(labels) if text in (label_text(other), str(other))}
            try:
                assert {found.match(text, is_text=True)} == alike == {arm}
            except LabelError:
                assert len(alike) > 1

"""A result for programs and for people: JSON, a table, short text and small HTML."""

import json
import sys
from dataclasses import dataclass, replace
from datetime import date
from html.parser import HTMLParser

import networkx as nx
import numpy as np
import pytest
from unit_problem import unit_problem

from benchmarks._problems import grid_oracle
from combopeps import Box, ExplicitOracle, MatchingOracle, Session, ShortestPathOracle, TopKOracle, identify, simulate
from combopeps.errors import DependencyError
from combopeps.io import Instance
from combopeps.oracles import CheckedOracle
from combopeps.session import Recommendation, Trace
from combopeps.utils.formatting import brief, html_table, plain

TRUTH = {"a": 0.1, "b": 2.0, "c": 1.2}


@pytest.fixture(scope="module")
def result():
    noise = np.random.default_rng(0)
    return identify(
        unit_problem(TopKOracle(TRUTH, k=1)), lambda item: TRUTH[item] + noise.normal(), stopping="certified", budget=60
    )


def is_plain(value):
    if type(value) is list:
        return all(map(is_plain, value))
    if type(value) is dict:
        return all(type(key) is str and is_plain(entry) for key, entry in value.items())
    return value is None or type(value) in (bool, int, str) or (type(value) is float and np.isfinite(value))


def test_json_has_every_field_but_the_session_and_its_belief(result):
    document = result.to_dict()
    assert is_plain(document)
    assert json.loads(result.to_json()) == document
    assert set(document) == set(result.__dataclass_fields__) - {"session", "belief"}
    assert document["answer"] == ["b"]
    assert document["z"] == [0.0, 1.0, 0.0]
    assert document["pulls"] == [[label, result.pulls[label]] for label in TRUTH]
    assert np.isnan(result.evidence.risk)
    assert document["evidence"]["risk"] is None
    assert [look["t"] for look in document["looks"]] == [look.t for look in result.looks]
    assert result.to_json(indent=1).count("\n") > 20
    with pytest.raises(ValueError, match="not JSON compliant"):
        json.dumps(float("nan"), allow_nan=False)  # what a NaN would have done


def test_fields_that_are_added_are_in_the_json_too(result):
    @dataclass(frozen=True, repr=False)
    class Richer(type(result)):
        worth: float = 2.5

    richer = Richer(**{name: getattr(result, name) for name in result.__dataclass_fields__})
    assert richer.to_dict()["worth"] == 2.5
    assert "worth=2.5" in repr(richer)
    assert "worth" in richer._repr_html_()


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (("a", ("b", 1)), ["a", ["b", 1]]),
        ({("a", "b"): 1}, [[["a", "b"], 1]]),
        ({"a": 1}, [["a", 1]]),
        ({3, "x", 1.5, ("u", "v")}, [1.5, 3, "x", ["u", "v"]]),
        ([np.int64(3), np.float64("nan"), np.bool_(True), np.str_("s")], [3, None, True, "s"]),
        (np.array([[1.0, np.inf], [-np.inf, 2.0]]), [[1.0, None], [None, 2.0]]),
        (date(2024, 2, 29), "2024-02-29"),
        (b"\xffa", "\\xffa"),
        (1j, "1j"),
        (None, None),
    ],
)
def test_values_as_json_has_them(value, wanted):
    found = plain(value)
    assert found == wanted
    assert is_plain(found)


def test_answers_of_every_kind_are_plain():
    graph = nx.MultiDiGraph([("s", "t"), ("s", "t")])
    oracles = [MatchingOracle(["u", "v"], [1, 2]), ShortestPathOracle(graph, "s", "t"), ExplicitOracle(np.eye(2))]
    answers = [plain(oracle.decode(oracle.argmax(2.0 ** np.arange(oracle.dim)))) for oracle in oracles]
    assert answers == [[["u", 1], ["v", 2]], {"nodes": ["s", "t"], "keys": [0]}, 1]


def test_a_table_of_components(result):
    pandas = pytest.importorskip("pandas")
    frame = result.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == ["label", "mean", "std", "pulls", "in_answer"]
    assert frame["label"].tolist() == list(TRUTH)
    assert frame["pulls"].dtype == np.int64
    assert frame["pulls"].tolist() == list(result.pulls.values())
    assert frame["in_answer"].tolist() == [False, True, False]
    np.testing.assert_array_equal(frame["mean"], result.belief.theta_hat[0])
    np.testing.assert_allclose(frame["std"], 1 / np.sqrt(1 + frame["pulls"]))


def test_a_table_with_arms_that_are_no_components():
    pytest.importorskip("pandas")
    arms = {"sum": [1.0, 1.0, 0.0], "b": [0.0, 1.0, 0.0], "twice b": [0.0, 2.0, 0.0], "c": [0.0, 0.0, -1.0]}
    theta, noise = np.array([2.0, 0.5, 0.2]), np.random.default_rng(0)
    problem = unit_problem(TopKOracle(["a", "b", "c"], k=1), arms)
    result = identify(problem, lambda x: float(np.dot(arms[x], theta) + noise.normal()), stopping="budget", budget=40)
    frame, pulls = result.to_frame(), result.pulls
    assert np.isnan(frame["pulls"][0])
    assert frame["pulls"].tolist()[1:] == [pulls["b"] + pulls["twice b"], pulls["c"]]
    np.testing.assert_allclose(frame["std"], np.sqrt(np.diag(result.belief.covariance()[0])))


@pytest.mark.parametrize("arms", [None, np.eye(3) + 0.1])
def test_a_table_belongs_to_its_result_though_the_session_continues(arms):
    pytest.importorskip("pandas")
    problem = unit_problem(TopKOracle(3, k=1), arms)
    result = identify(problem, lambda arm: float(arm == 1), stopping="budget", budget=20)
    before = result.to_frame()
    result.session.observe(0, 0.3)
    assert result.to_frame().equals(before)
    assert result.session.belief.theta_hat[0, 0] != before["mean"][0]
    assert result.session.belief.std[0, 0] < before["std"][0]


def test_tables_without_pandas_name_the_cure(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    trace = Trace(
        np.array([1]), np.ones((1, 1), bool), np.ones((1, 1), np.int64), np.zeros(1), np.zeros(1), 0, np.ones((1, 1))
    )
    for show in (result.to_frame, trace.to_frame):
        with pytest.raises(DependencyError, match=r"pip install 'combopeps\[pandas\]'"):
            show()


def test_traces_as_tables():
    pytest.importorskip("pandas")
    trace = simulate(unit_problem(TopKOracle(3, k=1)), [1.0, 0.0, 0.0], budget=50, replications=20)
    frame = trace.to_frame()
    rate, error = trace.identification_rate()
    assert frame["t"].tolist() == trace.t.tolist()
    for name, wanted in (("rate", rate), ("two_se", error), ("draws", trace.draws), ("seconds", trace.seconds)):
        np.testing.assert_array_equal(frame[name], wanted)
    assert len(repr(trace)) < 200
    assert f"{rate[-1]:.3g}" in repr(trace)


# Short, however large the problem.

SOURCE = "a node with a long name " * 1000
BIG = {
    "top-k": lambda: TopKOracle(100_000, k=50_000),
    "names": lambda: TopKOracle([f"item number {i} " * 10 for i in range(100_000)], k=500),
    "matching": lambda: MatchingOracle(100, 100),
    "grid": lambda: grid_oracle(100),
    "rows": lambda: ExplicitOracle(np.eye(300), labels=[("row", i) for i in range(300)]),
    "long names": lambda: ShortestPathOracle(nx.DiGraph([(SOURCE, "b"), ("b", "t"), (SOURCE, "t")]), SOURCE, "t"),
    "checked": lambda: CheckedOracle(TopKOracle(5000, k=3)),
}


@pytest.mark.parametrize("name", BIG)
def test_every_repr_is_short(name, result):
    oracle = BIG[name]()
    problem = unit_problem(oracle)
    theta = np.random.default_rng(0).uniform(size=(2, oracle.dim))
    z, rival = oracle.argmax(theta)
    shown = {"z": z, "answer": oracle.decode(z), "runner_up": oracle.decode(rival), "error_probability": 0.1}
    pulls = dict.fromkeys(problem.arms.labels, 7)
    session = Session(problem)
    query = session.ask()
    large = replace(result, **shown, pulls=pulls, tied=[oracle.decode(rival)] * 40, claim="because " * 200)
    instance = Instance("big", problem, theta[0], note="from somewhere " * 500)
    space = Box(-theta[0], theta[0] + 1)
    things = [oracle, problem, session, session.policy, query, instance, space, large, Recommendation(**shown)]
    assert [type(x).__name__ for x in things if not 10 < len(repr(x)) < 2000] == []
    assert all(len(x._repr_html_()) < 10_000 for x in (large, Recommendation(**shown)))


def test_what_is_small_is_shown_in_full(result):
    text = repr(result)
    assert text.startswith(f"Result(answer={{'b'}}, z=array([0., 1., 0.]), runner_up={result.runner_up!r}, ")
    assert f"claim={result.claim!r}" in text
    assert "session=" not in text
    most = max(result.pulls, key=result.pulls.get)
    assert f"pulls={{{most!r}: " in text
    assert repr(result.session.policy).startswith(
        "GreedyInformation(Problem(TopKOracle(1 of 3), 3 arms, noise_std=1), 6"
    )
    query = Session(TopKOracle(["b"], k=1)).ask()
    assert repr(query) == "Query(id=0, label='b', arms=(0,))"


def test_collections_lose_entries_before_they_are_cut():
    assert brief(list(range(100)), most=30) == "[0, 1, 2, 3, 4, 5, ...]"
    assert brief({i: i for i in range(100, 0, -1)}, most=35) == "{100: 100, 99: 99, 98: 98, ...}"
    assert len(brief("x" * 10_000, most=50)) <= 50
    assert brief(np.zeros(10_000), most=80).startswith("array([0., 0., 0., ..., 0., 0., 0.]")


class Reader(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.text = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        assert {name for name, _ in attrs} <= {"style"}
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


EVIL = "<script>alert('&\"')</script>"


def test_html_is_well_formed_and_escaped(result):
    trace = simulate(unit_problem(TopKOracle(3, k=1)), [1.0, 0.0, 0.0], budget=50, replications=20)
    pages = [
        replace(result, answer={EVIL}, pulls={EVIL: 3}, claim=EVIL)._repr_html_(),
        result._repr_html_(),
        result.session.status()._repr_html_(),
        result.top_answers[0]._repr_html_(),
        trace._repr_html_(),
        html_table(EVIL, [(EVIL, EVIL)], [EVIL, EVIL]),
    ]
    for page in pages:
        read = Reader(page)
        assert read.open == []
        assert set(read.tags) <= {"table", "caption", "b", "tr", "th", "td"}
        assert "table" in read.tags
    assert EVIL in Reader(pages[0]).text
    assert result.claim in Reader(pages[1]).text
    assert "error probability" in Reader(pages[2]).text

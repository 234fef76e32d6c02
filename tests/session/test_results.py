"""A result for programs and for people: the most probable answers, JSON, a table, pictures, short text, small HTML."""

import json
import pickle
import sys
from dataclasses import dataclass, replace
from datetime import date
from html.parser import HTMLParser

import networkx as nx
import numpy as np
import pytest
from scipy.stats import norm
from unit_problem import unit_problem

from benchmarks._problems import grid_oracle
from combopeps import (
    Box,
    BudgetRule,
    Campaign,
    ExplicitOracle,
    MatchingOracle,
    Session,
    ShortestPathOracle,
    TopKOracle,
    TopTwo,
    identify,
    load_instance,
    simulate,
)
from combopeps.alternatives import HitAndRunSampler, RejectionSampler
from combopeps.errors import DependencyError, ParameterError
from combopeps.io import Instance
from combopeps.oracles import CheckedOracle
from combopeps.session import Recommendation, TopAnswer
from combopeps.utils.formatting import html_table, short_repr, to_json_data
from combopeps.viz.answers import plot_measured, plot_result
from combopeps.viz.curves import plot_pulls

TRUTH = {"a": 0.1, "b": 2.0, "c": 1.2}
ITEMS = TRUTH | {"d": 1.9}


def run_of(truth=ITEMS, k=2, **options):
    noise = np.random.default_rng(0)
    return identify(unit_problem(TopKOracle(truth, k=k)), lambda item: truth[item] + noise.normal(), **options)


@pytest.fixture(scope="module")
def result():
    return run_of(TRUTH, 1, stopping="certified", budget=60)


@pytest.fixture(scope="module")
def trace():
    return simulate(unit_problem(TopKOracle(3, k=1)), [1.0, 0.0, 0.0], budget=50, replications=20)


def is_plain(value):
    if type(value) is list:
        return all(map(is_plain, value))
    if type(value) is dict:
        return all(type(key) is str and is_plain(entry) for key, entry in value.items())
    return value is None or type(value) in (bool, int, str) or (type(value) is float and np.isfinite(value))


def test_json_has_every_field_but_the_session_and_its_posterior(result):
    document = result.to_dict()
    assert is_plain(document)
    assert json.loads(result.to_json()) == document
    assert set(document) == set(result.__dataclass_fields__) - {"session", "posterior"}
    assert document["answer"] == ["b"]
    assert document["z"] == [0.0, 1.0, 0.0]
    assert document["pulls"] == [[label, result.pulls[label]] for label in TRUTH]
    assert np.isnan(result.evidence.error_probability)
    assert document["evidence"]["error_probability"] is None
    assert [look["t"] for look in document["looks"]] == [look.t for look in result.looks]
    assert result.to_json(indent=1).count("\n") > 20


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
    found = to_json_data(value)
    assert found == wanted
    assert is_plain(found)


def test_answers_of_every_kind_are_plain():
    graph = nx.MultiDiGraph([("s", "t"), ("s", "t")])
    oracles = [MatchingOracle(["u", "v"], [1, 2]), ShortestPathOracle(graph, "s", "t"), ExplicitOracle(np.eye(2))]
    answers = [to_json_data(oracle.decode(oracle.argmax(2.0 ** np.arange(oracle.dim)))) for oracle in oracles]
    assert answers == [[["u", 1], ["v", 2]], {"nodes": ["s", "t"], "keys": [0]}, 1]


def test_a_table_of_components(result):
    pandas = pytest.importorskip("pandas")
    frame = result.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == ["label", "mean", "std", "pulls", "in_answer", "inclusion"]
    assert frame["label"].tolist() == list(TRUTH)
    assert frame["pulls"].dtype == np.int64
    assert frame["pulls"].tolist() == list(result.pulls.values())
    assert frame["in_answer"].tolist() == [False, True, False]
    np.testing.assert_array_equal(frame["mean"], result.posterior.theta_hat[0])
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
    np.testing.assert_allclose(frame["std"], np.sqrt(np.diag(result.posterior.covariance()[0])))


@pytest.mark.parametrize("arms", [None, np.eye(3) + 0.1])
def test_a_table_belongs_to_its_result_though_the_session_continues(arms):
    pytest.importorskip("pandas")
    problem = unit_problem(TopKOracle(3, k=1), arms)
    result = identify(problem, lambda arm: float(arm == 1), stopping="budget", budget=20)
    before = result.to_frame()
    result.session.observe(0, 0.3)
    assert result.to_frame().equals(before)
    assert result.session.posterior.theta_hat[0, 0] != before["mean"][0]
    assert result.session.posterior.std[0, 0] < before["std"][0]


def test_tables_without_pandas_name_the_cure(result, trace, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    for show in (result.to_frame, trace.to_frame):
        with pytest.raises(DependencyError, match=r"pip install 'combopeps\[pandas\]'"):
            show()


def test_traces_as_tables(trace):
    pytest.importorskip("pandas")
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
    policy = repr(result.session.policy)
    assert policy.startswith("GreedyInformation(Problem(TopKOracle(1 of 3), 3 arms, noise_std=1), 6")
    query = Session(TopKOracle(["b"], k=1)).ask()
    assert repr(query) == "Query(id=0, label='b', arms=(0,))"


def test_collections_lose_entries_before_they_are_cut():
    assert short_repr(list(range(100)), most=30) == "[0, 1, 2, 3, 4, 5, ...]"
    assert short_repr({i: i for i in range(100, 0, -1)}, most=35) == "{100: 100, 99: 99, 98: 98, ...}"
    assert len(short_repr("x" * 10_000, most=50)) <= 50
    assert short_repr(np.zeros(10_000), most=80).startswith("array([0., 0., 0., ..., 0., 0., 0.]")


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


def test_html_is_well_formed_and_escaped(result, trace):
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


def taught(problem, means, times=1, **options):
    """A session in which each arm was measured so often, always with the same result."""
    session = Session(problem, policy=TopTwo(problem, 0, **options))
    for label, y in means.items():
        for _ in range(times):
            session.observe(label, y)
    return session


def frozen(answer):
    return frozenset(answer) if isinstance(answer, set) else answer


def probabilities(tops):
    return {frozen(top.answer): top.probability for top in tops}


def shares(session, draws=100_000):
    """By brute force on R^d, or where draws fall into Theta."""
    posterior, oracle, space = session.posterior, session.problem.oracle, session.problem.space
    noise = np.random.default_rng(7).standard_normal((draws, oracle.dim)) @ posterior.normal.root.T
    thetas = posterior.theta_hat[0] + noise
    thetas = thetas[space.contains(thetas)]
    answers, counts = np.unique(oracle.argmax(thetas), axis=0, return_counts=True)
    return {frozen(oracle.decode(z)): count / len(thetas) for z, count in zip(answers, counts, strict=True)}


GENERAL = {"ab": [1.0, 1.0, 0.0], "bc": [0.0, 1.0, -1.0], "c": [0.0, 0.0, 2.0]}
SESSIONS = {
    "items": lambda: taught(unit_problem(TopKOracle(ITEMS, k=2)), ITEMS, 3),
    "rows": lambda: taught(unit_problem(ExplicitOracle([[1, 0], [0, 1], [0.9, 0.4]])), {0: 0.5, 1: 0.4}),
    "box": lambda: taught(unit_problem(TopKOracle(3, k=1), space=Box(0, 1)), {0: 0.5, 1: 0.1, 2: -1.0}),
    "general arms": lambda: taught(unit_problem(TopKOracle(list("abc"), k=1), GENERAL), {"ab": 1.0, "c": 0.5}),
    "general arms in a box": lambda: taught(
        unit_problem(TopKOracle(list("abc"), k=1), GENERAL, space=Box(-1, 2)), {"ab": 1.0, "c": 0.5}
    ),
}


@pytest.mark.parametrize("name", SESSIONS)
def test_probabilities_are_shares_of_draws(name):
    """Five standard errors of 4,096 draws (of about half as many in the box that rejects them)."""
    session = SESSIONS[name]()
    tops = session.top_answers(20)
    for top in tops:
        assert isinstance(top, TopAnswer)
        np.testing.assert_array_equal(session.problem.oracle.encode(top.answer), top.z)
    found, expected = probabilities(tops), shares(session)
    assert len(found) > 1
    for answer, p in expected.items():
        assert found.get(answer, 0.0) == pytest.approx(p, abs=5 * np.sqrt(p / 1500) + 1e-3)
    assert sum(found.values()) == pytest.approx(1.0)
    assert list(found.values()) == sorted(found.values(), reverse=True)


@pytest.mark.parametrize("sampler", [None, RejectionSampler(cap=100), HitAndRunSampler()])
def test_tiny_probabilities_are_right_whatever_the_policy_samples_with(sampler):
    """Of two items the wrong one has Phi(-gap / width), exactly; of three the smallest is the rival of a rival."""
    means = {"a": 3.0, "b": 2.0, "c": 0.0}
    session = taught(unit_problem(TopKOracle(means, k=1), prior_std=100.0), means, 100, sampler=sampler)
    theta, variance = session.posterior.theta_hat[0], session.posterior.variance[0]
    wrong = norm.sf((theta[0] - theta[1]) / np.sqrt(variance[0] + variance[1]))
    found = session.top_answers()
    assert [frozen(top.answer) for top in found[:2]] == [{"a"}, {"b"}]
    assert 1e-13 < found[1].probability < 1e-11
    assert found[1].probability == pytest.approx(wrong, rel=0.05)
    assert found[0].probability == pytest.approx(1.0 - wrong)


def values(tops):
    return [(top.z.tolist(), top.probability) for top in tops]


def test_at_most_n_are_returned():
    session = SESSIONS["items"]()
    assert len(session.top_answers(2)) == 2
    assert values(session.top_answers(2)) == values(session.top_answers()[:2])
    for bad in (0, -1, 1.5, True):
        with pytest.raises(ParameterError, match="n "):
            session.top_answers(bad)


def test_those_of_a_result_agree_with_its_error_probability_and_never_change():
    first, second = run_of(delta=0.01), run_of(delta=0.01)
    assert [top.answer for top in first.top_answers[:2]] == [first.answer, first.runner_up]
    assert 1.0 - first.top_answers[0].probability == pytest.approx(first.error_probability, rel=0.3)
    noise = np.random.default_rng(1)
    further = second.session.run(lambda x: ITEMS[x] + noise.normal(), budget=200)
    assert values(first.top_answers) == values(second.top_answers)
    assert values(further.top_answers) != values(second.top_answers)
    assert values(pickle.loads(pickle.dumps(first)).top_answers) == values(first.top_answers)


# ---------------------------------------------------------------- whole actions


TOWN = load_instance("town")


def driven(problem, **options):
    rng, actions = np.random.default_rng(0), problem.actions

    def drive(route):
        return [TOWN.theta[i] + rng.normal() for i in actions.decode_in_order(actions.find(route))[1]]

    return identify(problem, drive, **options)


def test_actions_and_readings_are_counted():
    result = driven(TOWN.problem.copy_with(actions="answers", cost=1.0), budget=400)
    assert result.actions == result.session.policy.actions[0] == result.cost
    assert result.samples == sum(result.pulls.values()) > result.actions
    assert json.loads(result.to_json())["actions"] == result.actions
    left = 'style="text-align:left"'
    assert f"<th {left}>actions</th><td {left}>{result.actions}</td>" in result._repr_html_()
    assert result.to_frame()["pulls"].tolist() == list(result.pulls.values())
    single = run_of(TRUTH, 1, budget=5)
    assert single.actions is single.to_dict()["actions"] is None
    assert "actions" not in single._repr_html_()


def test_a_initial_design_reads_every_component_so_often():
    problem = unit_problem(TopKOracle(9, k=3), actions="answers")
    result = identify(problem, lambda team: [0.0] * 3, initial_design=2, stopping=BudgetRule(simulations=0), budget=6)
    assert set(result.pulls.values()) == {2}


def test_pictures_show_readings_of_components(tmp_path):
    result = driven(TOWN.problem.copy_with(actions="answers", cost=1.0), budget=30, stopping=BudgetRule(simulations=0))
    ax = plot_pulls(result)
    assert sum(bar.get_width() for bar in ax.patches) <= result.samples
    assert f"{result.samples:,}" in plot_result(result).get_title()
    campaign = Campaign.create(tmp_path / "run", unit_problem(TopKOracle(["a", "b", "c"], k=2), actions="answers"))
    campaign.tell(campaign.ask(), [1.0, 2.0])
    status = campaign.status()
    assert "after 2 samples" in plot_measured(campaign.problem, status, campaign.posterior).get_title()
    assert "actions" in status._repr_html_()
    plot_pulls(status)

"""Observations from a table: the same as its rows one by one, and all of them or none."""

import csv
import pickle
import time
import warnings

import networkx as nx
import numpy as np
import pytest
from sessions import session_of
from unit_problem import unit_problem

from combopeps import PEPS, ComboPepsError, ShortestPathOracle, TopKOracle, TopTwo
from combopeps.errors import FileFormatError, LabelError, NoiseWarning, ParameterError, PriorWarning, RewardError
from combopeps.policies import Uniform
from combopeps.session import Observed

ROADS = [("home", "bridge"), ("home", "tunnel"), ("tunnel", "bridge"), ("bridge", "work"), ("tunnel", "work")]


def roads(kind=nx.Graph, more=()):
    oracle = ShortestPathOracle(kind([*ROADS, *more]), "home", "work")
    return unit_problem(oracle, noise_std=0.5, prior_std=5.0)


def state(session):
    """Everything that a table may change."""
    return pickle.dumps(session.state_dict())


def history(problem, count, seed=0):
    rng = np.random.default_rng(seed)
    arms = rng.integers(0, len(problem.arms), size=count)
    theta = rng.uniform(1, 9, size=len(problem.arms))
    return [(problem.arms.labels[arm], float(theta[arm] + 0.5 * rng.normal())) for arm in arms]


@pytest.mark.parametrize("kind", [TopTwo, PEPS, Uniform])
def test_a_table_is_its_rows_one_by_one(kind, tmp_path):
    problem = roads()
    rows = history(problem, 60)
    one, table, file = (session_of(kind, problem) for _ in range(3))
    for label, y in rows:
        one.observe(label, y)
    assert table.observe_table(rows) == Observed(60, 60)
    with (tmp_path / "x.csv").open("w", newline="") as out:
        csv.writer(out).writerows([("target", "source", "value"), *((*label, y) for label, y in rows)])  # the other way
    assert file.observe_table(tmp_path / "x.csv") == Observed(60, 60)
    following, noise = one.ask().arm, one.state_dict()["diagnostics"]
    for session in (table, file):
        assert session.measurements() == one.measurements()
        np.testing.assert_array_equal(session.belief.theta_hat, one.belief.theta_hat)
        np.testing.assert_allclose(session.state_dict()["diagnostics"]["squares"], noise["squares"], rtol=1e-9)
        assert session.samples == 60
        assert session.ask().arm == following


def test_open_queries_stay_open():
    session = session_of(TopTwo, roads())
    query = session.ask()
    session.observe_table([(("home", "tunnel"), 4.0), (("work", "bridge"), 5.0)])
    assert session.open_queries == [query]
    assert session.samples == 2


BAD = {
    "nan": (("home", "bridge"), float("nan"), RewardError),
    "text": (("home", "bridge"), "warm", RewardError),
    "huge": (("home", "bridge"), 1e101, RewardError),
    "label": (("home", "work"), 1.0, LabelError),
    "list": ({}, 1.0, LabelError),
}


@pytest.mark.parametrize("policy", [TopTwo, PEPS])
@pytest.mark.parametrize("name", BAD)
def test_a_bad_last_row_and_nothing_has_changed(name, policy, tmp_path):
    label, y, error = BAD[name]
    problem = roads()
    run = session_of(policy, problem)
    run.observe_table(history(problem, 5))
    before = state(run)
    rows = [*history(problem, 30, seed=1), (label, y)]
    with pytest.raises(error, match=r"^row 30 \(counted from 0\).*\(1 of 31 rows is wrong, nothing was taken\)$"):
        run.observe_table(rows)
    if label:
        path = tmp_path / "x.csv"
        path.write_text("source,target,value\n" + "".join(f"{u},{v},{x}\n" for (u, v), x in rows))
        with pytest.raises(ComboPepsError, match=r"x\.csv, line 32, .*1 of 31 rows is wrong") as caught:
            run.observe_table(path)
        assert isinstance(caught.value, FileFormatError if name in ("nan", "text") else error)
    assert state(run) == before


def test_unknown_labels_are_counted_and_the_first_is_explained():
    session = session_of(TopTwo, TopKOracle(["arabica", "robusta"], k=1))
    rows = [("robusta", 1.0), ("robust", 1.0), ("tea", 1.0), ("tea", float("nan"))]
    with pytest.raises(LabelError, match=r"row 1 .*'robust' is not .*did you mean robusta.*3 of 4 .*next in row 2, 3;"):
        session.observe_table(rows)


def test_many_unknown_labels_are_refused_quickly():
    session = session_of(TopTwo, TopKOracle([f"item {i}" for i in range(3000)], k=1))
    start = time.process_time()
    with pytest.raises(LabelError, match="30000 of 30000"):
        session.observe_table([(f"thing {i}", 1.0) for i in range(30_000)])
    assert time.process_time() - start < 3.0


@pytest.mark.parametrize("kind", [nx.DiGraph, nx.Graph])
def test_rows_of_edges_on_no_route_are_left_out_and_counted(kind, tmp_path):
    problem = roads(kind, [("bridge", "pier"), ("pier", "boat")])
    session = session_of(TopTwo, problem)
    rows = [(("home", "bridge"), 9.0), (("bridge", "pier"), 1.0), (("pier", "boat"), 2.0), (("bridge", "pier"), 1.5)]
    found = session.observe_table(rows)
    assert found == Observed(4, 1, {("bridge", "pier"): 2, ("pier", "boat"): 1}, found.reason)
    assert repr(found) == (
        "1 of 4 rows taken; 3 left out: edge ('bridge', 'pier') lies on no route from 'home' to 'work', so it is not "
        "measured; nor does pier - boat"
    )
    assert session.samples == 1
    (tmp_path / "x.csv").write_text("label,value\nbridge - pier,1\npier - boat,2\n")
    assert session.observe_table(tmp_path / "x.csv").taken == 0
    assert session.samples == 1
    with pytest.raises(LabelError, match="lies on no route from 'home' to 'work', so it is not measured; leave it out"):
        session.observe(("bridge", "pier"), 1.0)
    with pytest.raises(LabelError, match="'pier - moon' is not the label"):
        session.observe_table([*rows, (("pier", "moon"), 1.0)])


def test_edges_without_direction_are_observed_either_way():
    session = session_of(TopTwo, roads())
    session.observe(("bridge", "home"), 9.0)
    session.observe(("home", "bridge"), 9.0)
    assert session.policy.pulls[0, session.problem.oracle.index(("home", "bridge"))] == 2
    with pytest.raises(LabelError):
        session_of(TopTwo, roads(nx.DiGraph)).observe(("bridge", "home"), 9.0)


def test_texts_find_numbers(tmp_path):
    session = session_of(TopTwo, TopKOracle(3, k=1))
    (tmp_path / "x.csv").write_text("label,value\n0,1.0\n2,0.5\n")
    session.observe_table(str(tmp_path / "x.csv"))
    session.observe_table([("1", 1.0), (np.int64(1), 1.0)])
    assert session.policy.pulls.tolist() == [[1, 2, 1]]


@pytest.mark.parametrize(
    "rows", [[("a", 1.0, 1e-9)], [("b", 1.0), ("a", 1.0, 1e9)], [("b", 1.0), ("a", 1.0, None, 10**13)]]
)
def test_rows_that_are_worth_too_much_or_too_little_are_refused(rows):
    session = session_of(TopTwo, TopKOracle(["a", "b"], k=1))
    with pytest.raises((ParameterError, RewardError), match=r"sem|count"):
        session.observe_table(rows)
    assert session.samples == 0


def test_the_worth_of_rows():
    session = session_of(TopTwo, unit_problem(TopKOracle(["a", "b"], k=1), noise_std=2.0))
    rows = [("a", 1.0), ("b", 1.0, 0.5), ("a", 1.0, None, 9), ("b", 1.0, 4.0, 9), ("a", 1.0, 2.0)]
    session.observe_table(rows)
    assert session.policy.weights.tolist() == [[1.0 + 9.0 + 1.0, 16.0 + 0.25]]
    assert session.policy.pulls.tolist() == [[11, 10]]
    one_by_one = session_of(TopTwo, session.problem)
    for label, y, *more in rows:
        one_by_one.observe(label, y, *more)
    np.testing.assert_allclose(session.belief.theta_hat, one_by_one.belief.theta_hat, rtol=1e-14)


def test_warnings_come_once_and_name_the_line_of_the_caller():
    session = session_of(TopTwo, TopKOracle(["a", "b"], k=1))
    rows = [("a", 1e4), ("b", 1.0), ("b", 20.0)] * 9
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        session.observe_table(rows)
    assert [warning.category for warning in seen] == [PriorWarning, NoiseWarning]
    assert {warning.filename for warning in seen} == {__file__}
    assert session.samples == 27
    assert "times as large as stated" in session.status().warning


def test_a_warning_that_is_an_error_comes_before_anything_is_recorded():
    session = session_of(TopTwo, TopKOracle(["a", "b"], k=1))
    before = state(session)
    with pytest.raises(PriorWarning):
        session.observe_table([("a", 1e4)] * 3)
    assert state(session) == before
    session.observe_table([("a", 1e4)] * 3)  # told again, it is recorded
    assert session.samples == 3


def test_a_hundred_thousand_rows(tmp_path):
    graph = nx.DiGraph(((i, j), (i + a, j + 1 - a)) for i in range(30) for j in range(30) for a in (0, 1) if max(i + a, j + 1 - a) < 30)  # fmt: skip
    problem = unit_problem(ShortestPathOracle(graph, (0, 0), (29, 29)), noise_std=0.5, prior_std=9.0)
    rows = history(problem, 100_000)
    with (tmp_path / "x.csv").open("w", newline="") as out:
        csv.writer(out).writerows([("label", "value"), *rows])
    for table in (rows, tmp_path / "x.csv"):
        session, start = session_of(TopTwo, problem), time.process_time()
        assert session.observe_table(table).taken == 100_000
        assert time.process_time() - start < 5.0
        assert session.samples == 100_000


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Observed(0, 0), "no rows"),
        (Observed(1, 1), "1 row taken"),
        (Observed(9, 9), "all 9 rows taken"),
        (Observed(9, 4, {"x": 5}, "'x' is in no answer"), "4 of 9 rows taken; 5 left out: 'x' is in no answer"),
        (
            Observed(9, 2, dict.fromkeys(range(7), 1), "0 is in no answer"),
            "2 of 9 rows taken; 7 left out: 0 is in no answer; nor do 6 others: 1, 2, 3, ...",
        ),
    ],
)
def test_in_words(found, text):
    assert repr(found) == text

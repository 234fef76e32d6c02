"""Results with a standard error of their own, means of several, and tables of them: a ridge regression, row by row."""

import csv
import time
import warnings

import networkx as nx
import numpy as np
import pytest
from sessions import POLICY_NAMES, covariance_of, session_of, state_of
from unit_problem import unit_problem

from benchmarks._problems import grid_oracle
from combopeps import PEPS, Box, Campaign, ComboPepsError, Problem, Session, ShortestPathOracle, TopKOracle, TopTwo
from combopeps.campaign.open_store import store_at
from combopeps.errors import (
    FileFormatError,
    LabelError,
    NoiseWarning,
    ParameterError,
    PriorWarning,
    QueryError,
    RewardError,
    StateFileError,
)
from combopeps.policies.baselines import Uniform
from combopeps.session import TableSummary

ROWS = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [2.0, 0.0, 0.0]])
NOISE = np.array([0.5, 1.0, 2.0, 4.0])
STATED = {"noise_std": NOISE, "prior_mean": 0.5, "prior_std": 2.0}
PROBLEMS = {
    "unit arms": Problem(TopKOracle(list("pqrs"), k=2), **STATED | {"prior_std": [1, 2, 3, 4]}),
    "general arms": Problem(TopKOracle(3, k=1), dict(zip("pqrs", ROWS, strict=True)), **STATED),
}
GIVEN = [("p", 1.0, None, 1), ("q", -0.5, 0.25, 1), ("r", 0.7, None, 6), ("s", 1.5, 8.0, 1), ("p", 0.2, 0.1, 3),
         ("r", 0.1, None, 1), ("q", 0.3, 1.0, 1)]  # fmt: skip


def assert_is_ridge(session, given):
    """Mean and covariance, from variances alone: no posterior, no weights, no units of the noise."""
    problem = session.problem
    X, d = problem.arms.row(np.arange(len(problem.arms))), problem.oracle.dim
    V = np.diag(np.broadcast_to(np.asarray(problem.prior_std, float), d) ** -2.0)
    S = V @ np.full(d, 0.5)
    for label, y, sem, count in given:
        arm = problem.arms.labels.index(label)
        variance = NOISE[arm] ** 2 / count if sem is None else sem**2
        V = V + np.outer(X[arm], X[arm]) / variance
        S = S + X[arm] * y / variance
    np.testing.assert_allclose(session.posterior.theta_hat[0], np.linalg.solve(V, S), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(covariance_of(session.posterior), np.linalg.inv(V), rtol=1e-10, atol=1e-12)
    assert session.samples == sum(count for *_, count in given)


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_observations_are_those_of_a_ridge_regression(problem):
    session, table = (session_of(TopTwo, problem) for _ in range(2))
    for label, y, sem, count in GIVEN:
        session.observe(label, y, sem=sem, count=count)
    table.observe_table(GIVEN)
    for one in (session, table):
        assert_is_ridge(one, GIVEN)
        assert one.status().pulls == {"p": 4, "q": 2, "r": 7, "s": 1}
        assert one.open_queries == []


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_told_one_by_one_or_many_at_once(problem):
    one, many = (session_of(TopTwo, problem) for _ in range(2))
    asked = one.ask(5)
    results = list(zip(asked, [0.4, -0.2, 1.0, 0.3, 0.9], [None, 0.3, 2.0, None, 0.01], strict=True))
    for query, y, sem in results:
        one.tell(query, y, sem)
    assert many.ask(5) == asked
    many.tell_many((query, y) if sem is None else (query, y, sem) for query, y, sem in results)
    assert one.measurements() == many.measurements()
    for session in (one, many):
        assert_is_ridge(session, [(query.label, y, sem, 1) for query, y, sem in results])


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_a_mean_of_many_is_as_good_as_the_many(name):
    space = Box(-9.0, 9.0) if "doubling" in name else None
    problem = unit_problem(TopKOracle(3, k=1), noise_std=[0.5, 1.0, 2.0], space=space)
    at_once, one_by_one = (Session(problem, policy=name) for _ in range(2))
    at_once.observe(1, 0.75, count=4)
    if "doubling" not in name:  # an epoch is over after so many results
        for _ in range(4):
            one_by_one.observe(1, 0.75)
        np.testing.assert_allclose(at_once.posterior.theta_hat, one_by_one.posterior.theta_hat, rtol=1e-12)
        np.testing.assert_allclose(covariance_of(at_once.posterior), covariance_of(one_by_one.posterior), rtol=1e-12)
        np.testing.assert_allclose(at_once.policy.totals, one_by_one.policy.totals)
    assert at_once.status().pulls == {0: 0, 1: 4, 2: 0}
    np.testing.assert_array_equal(at_once.policy.weights, [[0.0, 4.0, 0.0]])


def test_a_standard_error_is_refused_where_the_noise_is_unknown(tmp_path):
    problem = unit_problem(TopKOracle(3, k=1), noise_std=None)
    session = session_of(TopTwo, problem)
    query = session.ask()
    with pytest.raises(ParameterError, match="noise_std=None"):
        session.tell(query, 1.0, 0.5)
    assert session.open_queries == [query]
    session.observe(0, 1.0, count=3)
    assert session.status().pulls == {0: 3, 1: 0, 2: 0}
    Campaign.create(tmp_path / "c.db", problem)
    store = store_at(tmp_path / "c.db")
    with store.locked():
        store.append([{"kind": "observe", "arm": 0, "label": 0, "y": 1.0, "sem": 0.5}], store.read().end)
    with pytest.raises(StateFileError, match="sem states the noise level"):
        Campaign.open(tmp_path / "c.db")


def test_means_do_not_alarm_the_guard_of_the_noise():
    """Repetitions of means are closer to each other than the noise, those with large errors further apart."""
    session = session_of(TopTwo, unit_problem(TopKOracle(2, k=1), prior_std=100.0))
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(60):
            session.observe(0, 10.0 * rng.normal(), sem=10.0)
            session.observe(1, 0.1 * rng.normal(), count=100)
    assert session.status().warning == ""


@pytest.mark.parametrize("name", ["top-two", "peps"])
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_a_campaign_keeps_them(problem, name, tmp_path):
    campaign, given = Campaign.create(tmp_path / "c.db", problem, policy=name, rng=3), []
    for y, sem in ((0.0, None), (0.1, 0.3), (0.2, 2.5)) * 2:
        query = campaign.ask()
        campaign.tell(query, y, sem)
        given.append((query.label, y, sem, 1))
    campaign.observe_table(GIVEN)
    asked = campaign.ask(2)
    campaign.tell_many([(asked[0], 0.5), (asked[1].id, 0.25, 0.125)])
    given += [*GIVEN, (asked[0].label, 0.5, None, 1), (asked[1].label, 0.25, 0.125, 1)]
    again = Campaign.open(campaign.path)
    for one in (campaign, again):
        assert_is_ridge(one, given)
    np.testing.assert_array_equal(again.posterior.theta_hat, campaign.posterior.theta_hat)
    again.tell(asked[1].id, 0.25, 0.125)  # harmless
    with pytest.raises(QueryError):
        again.tell(asked[1].id, 0.25)
    assert [query.arm for query in again.ask(3)] == [query.arm for query in Campaign.open(campaign.path).open_queries]


@pytest.mark.parametrize("batch", [1, 4])
def test_measure_may_return_standard_errors(batch):
    truth, told = {"p": 0.0, "q": 2.0, "r": 1.0, "s": 0.5}, []
    session = session_of(TopTwo, PROBLEMS["unit arms"], session={"stopping": "budget"})

    def one(label):
        sem = 0.2 if label == "r" else None
        told.append((label, truth[label], sem, 1))
        return truth[label] if sem is None else (truth[label], sem)

    session.run(one if batch == 1 else lambda labels: [one(label) for label in labels], budget=24, batch_size=batch)
    assert len(told) == 24
    assert_is_ridge(session, told)


# ---------------------------------------------------------------- tables

ROADS = [("home", "bridge"), ("home", "tunnel"), ("tunnel", "bridge"), ("bridge", "work"), ("tunnel", "work")]


def roads(kind=nx.Graph, more=()):
    oracle = ShortestPathOracle(kind([*ROADS, *more]), "home", "work")
    return unit_problem(oracle, noise_std=0.5, prior_std=5.0)


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
    open_query, *_ = [session.ask() for session in (one, table, file)]
    for label, y in rows:
        one.observe(label, y)
    assert table.observe_table(rows) == TableSummary(60, 60)
    with (tmp_path / "x.csv").open("w", newline="") as out:
        csv.writer(out).writerows([("target", "source", "value"), *((*label, y) for label, y in rows)])  # the other way
    assert file.observe_table(tmp_path / "x.csv") == TableSummary(60, 60)
    following = one.ask().arm
    for session in (table, file):
        assert session.measurements() == one.measurements()
        np.testing.assert_array_equal(session.posterior.theta_hat, one.posterior.theta_hat)
        assert session.status().warning == one.status().warning
        assert (session.samples, session.open_queries) == (60, [open_query])
        assert session.ask().arm == following


BAD_ROWS = {
    "nan": (("home", "bridge"), float("nan"), RewardError),
    "text": (("home", "bridge"), "warm", RewardError),
    "huge": (("home", "bridge"), 1e101, RewardError),
    "label": (("home", "work"), 1.0, LabelError),
    "list": ({}, 1.0, LabelError),
}


@pytest.mark.parametrize("policy", [TopTwo, PEPS])
@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_bad_last_row_and_nothing_has_changed(name, policy, tmp_path):
    label, y, error = BAD_ROWS[name]
    problem = roads()
    session = session_of(policy, problem)
    session.observe_table(history(problem, 5))
    before = state_of(session)
    rows = [*history(problem, 30, seed=1), (label, y)]
    with pytest.raises(error, match=r"^row 30 \(counted from 0\).*\(1 of 31 rows is wrong, nothing was taken\)$"):
        session.observe_table(rows)
    if label:
        path = tmp_path / "x.csv"
        path.write_text("source,target,value\n" + "".join(f"{u},{v},{x}\n" for (u, v), x in rows))
        with pytest.raises(ComboPepsError, match=r"x\.csv, line 32, .*1 of 31 rows is wrong") as caught:
            session.observe_table(path)
        assert isinstance(caught.value, FileFormatError if name in ("nan", "text") else error)
    assert state_of(session) == before


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
    assert found == TableSummary(4, 1, {("bridge", "pier"): 2, ("pier", "boat"): 1}, found.reason)
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
    assert session.status().pulls["home", "bridge"] == 2
    with pytest.raises(LabelError):
        session_of(TopTwo, roads(nx.DiGraph)).observe(("bridge", "home"), 9.0)


def test_texts_find_numbers(tmp_path):
    session = session_of(TopTwo, TopKOracle(3, k=1))
    (tmp_path / "x.csv").write_text("label,value\n0,1.0\n2,0.5\n")
    session.observe_table(str(tmp_path / "x.csv"))
    session.observe_table([("1", 1.0), (np.int64(1), 1.0)])
    assert session.status().pulls == {0: 1, 1: 2, 2: 1}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (("b", 1e200), "value"),
        (("b", 1.0, 1e-9), "sem"),
        (("b", 1.0, 1e9), "sem"),
        (("b", 1.0, True), "sem"),
        (("b", 1.0, None, 10**13), "count"),
        (("b", 1.0, None, True), "count"),
        (("b", 1.0, 0.1), "sem"),  # where the noise is not stated
    ],
)
def test_the_error_names_the_row_and_the_cell(row, words):
    problem = unit_problem(TopKOracle(["a", "b"], k=1), noise_std=None if row[-1] == 0.1 else 1.0)
    session = session_of(TopTwo, problem)
    with pytest.raises((ParameterError, RewardError), match=rf"row 1 \(counted from 0\), {words}: "):
        session.observe_table([("a", 1.0), row])
    assert session.samples == 0


def test_warnings_come_once_and_name_the_line_of_the_caller():
    session = session_of(TopTwo, TopKOracle(["a", "b"], k=1))
    rows = [("a", 1e4), ("b", 1.0), ("b", 20.0)] * 9
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        session.observe_table(rows)
    assert [warning.category for warning in seen] == [NoiseWarning, PriorWarning]
    assert {warning.filename for warning in seen} == {__file__}
    assert session.samples == 27
    assert "times as large as stated" in session.status().warning


def test_a_warning_that_is_an_error_comes_before_anything_is_recorded():
    session = session_of(TopTwo, TopKOracle(["a", "b"], k=1))
    before = state_of(session)
    with pytest.raises(PriorWarning):
        session.observe_table([("a", 1e4)] * 3)
    assert state_of(session) == before
    session.observe_table([("a", 1e4)] * 3)  # told again, it is recorded
    assert session.samples == 3


def test_a_hundred_thousand_rows(tmp_path):
    problem = unit_problem(grid_oracle(30), noise_std=0.5, prior_std=9.0)
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
        (TableSummary(0, 0), "no rows"),
        (TableSummary(1, 1), "1 row taken"),
        (TableSummary(9, 9), "all 9 rows taken"),
        (TableSummary(9, 4, {"x": 5}, "'x' is in no answer"), "4 of 9 rows taken; 5 left out: 'x' is in no answer"),
        (
            TableSummary(9, 2, dict.fromkeys(range(7), 1), "0 is in no answer"),
            "2 of 9 rows taken; 7 left out: 0 is in no answer; nor do 6 others: 1, 2, 3, ...",
        ),
    ],
)
def test_in_words(found, text):
    assert repr(found) == text

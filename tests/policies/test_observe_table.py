"""A history from a table: the same as its rows one by one, and all of it or nothing."""

import csv
import time
import warnings

import networkx as nx
import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import (
    PEPS,
    ComboPepsError,
    FileFormatError,
    LabelError,
    NoiseWarning,
    Observed,
    ParameterError,
    PriorWarning,
    RewardError,
    ShortestPathOracle,
    TopKOracle,
    TopTwo,
    Uniform,
)

ROADS = [("home", "bridge"), ("home", "tunnel"), ("tunnel", "bridge"), ("bridge", "work"), ("tunnel", "work")]


def roads(kind=nx.Graph, more=()):
    oracle = ShortestPathOracle(kind([*ROADS, *more]), "home", "work")
    return unit_problem(oracle, noise_std=0.5, prior_std=5.0)


def state(policy):
    """Everything that a table may change, as bytes."""
    guard = policy.noise
    seen = guard._count.tobytes(), guard._mean.tobytes(), tuple(guard._reached), tuple(guard._squares)
    return (
        policy.belief.theta_hat.tobytes(),
        policy.pulls.tobytes(),
        policy.totals.tobytes(),
        seen,
    )


def history(problem, count, seed=0):
    rng = np.random.default_rng(seed)
    arms = rng.integers(0, len(problem.arms), size=count)
    theta = rng.uniform(1, 9, size=len(problem.arms))
    return [(problem.arms.labels[arm], float(theta[arm] + 0.5 * rng.normal())) for arm in arms]


@pytest.mark.parametrize("kind", [TopTwo, PEPS, Uniform])
def test_a_table_is_its_rows_one_by_one(kind, tmp_path):
    problem = roads()
    rows = history(problem, 60)
    one, table, file = (kind(problem, 0) for _ in range(3))
    for label, y in rows:
        one.observe(label, y)
    assert table.observe_table(rows) == Observed(60, 60)
    with (tmp_path / "x.csv").open("w", newline="") as out:
        csv.writer(out).writerows([("target", "source", "value"), *((*label, y) for label, y in rows)])  # the other way
    assert file.observe_table(tmp_path / "x.csv") == Observed(60, 60)
    following = one.ask().arm
    for policy in (table, file):
        np.testing.assert_array_equal(policy.pulls, one.pulls)
        np.testing.assert_array_equal(policy.belief.theta_hat, one.belief.theta_hat)
        np.testing.assert_allclose(policy.noise._squares, one.noise._squares, rtol=1e-9)
        assert policy.samples == 60
        assert policy.ask().arm == following


def test_after_queries_and_with_open_ones():
    problem = roads()
    policy = TopTwo(problem, 0)
    query = policy.ask()
    policy.observe_table([(("home", "tunnel"), 4.0), (("work", "bridge"), 5.0)])
    assert policy.open_queries == [query]
    assert policy.samples == 2
    policy.tell(query, 4.0)
    assert policy.samples == 3


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
    run = policy(problem, 0)
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
    policy = TopTwo(unit_problem(TopKOracle(["arabica", "robusta"], k=1)), 0)
    rows = [("robusta", 1.0), ("robust", 1.0), ("tea", 1.0), ("tea", float("nan"))]
    with pytest.raises(LabelError, match=r"row 1 .*'robust' is not .*did you mean robusta.*3 of 4 .*next in row 2, 3;"):
        policy.observe_table(rows)


def test_many_unknown_labels_take_no_time():
    policy = TopTwo(unit_problem(TopKOracle([f"item {i}" for i in range(3000)], k=1)), 0)
    start = time.process_time()
    with pytest.raises(LabelError, match="30000 of 30000"):
        policy.observe_table([(f"thing {i}", 1.0) for i in range(30_000)])
    assert time.process_time() - start < 3.0


@pytest.mark.parametrize("kind", [nx.DiGraph, nx.Graph])
def test_rows_of_edges_on_no_route_are_left_out_and_counted(kind, tmp_path):
    problem = roads(kind, [("bridge", "pier"), ("pier", "boat")])
    policy = TopTwo(problem, 0)
    rows = [(("home", "bridge"), 9.0), (("bridge", "pier"), 1.0), (("pier", "boat"), 2.0), (("bridge", "pier"), 1.5)]
    found = policy.observe_table(rows)
    assert found == Observed(4, 1, {("bridge", "pier"): 2, ("pier", "boat"): 1}, found.reason)
    assert repr(found) == (
        "1 of 4 rows taken; 3 left out: edge ('bridge', 'pier') lies on no route from 'home' to 'work', so it is not "
        "measured; nor does pier - boat"
    )
    assert policy.samples == 1
    (tmp_path / "x.csv").write_text("label,value\nbridge - pier,1\npier - boat,2\n")
    assert policy.observe_table(tmp_path / "x.csv").taken == 0
    assert policy.samples == 1
    with pytest.raises(LabelError, match="lies on no route from 'home' to 'work', so it is not measured; leave it out"):
        policy.observe(("bridge", "pier"), 1.0)
    with pytest.raises(LabelError, match="'pier - moon' is not the label"):
        policy.observe_table([*rows, (("pier", "moon"), 1.0)])


def test_edges_without_direction_are_observed_either_way():
    policy = TopTwo(roads(), 0)
    policy.observe(("bridge", "home"), 9.0)
    policy.observe(("home", "bridge"), 9.0)
    assert policy.pulls[0, policy.problem.oracle.index(("home", "bridge"))] == 2
    with pytest.raises(LabelError):
        TopTwo(roads(nx.DiGraph), 0).observe(("bridge", "home"), 9.0)


def test_texts_find_numbers(tmp_path):
    policy = TopTwo(unit_problem(TopKOracle(3, k=1)), 0)
    (tmp_path / "x.csv").write_text("label,value\n0,1.0\n2,0.5\n")
    policy.observe_table(str(tmp_path / "x.csv"))
    policy.observe_table([("1", 1.0), (np.int64(1), 1.0)])
    assert policy.pulls.tolist() == [[1, 2, 1]]


@pytest.mark.parametrize(
    "rows", [[("a", 1.0, 1e-9)], [("b", 1.0), ("a", 1.0, 1e9)], [("b", 1.0), ("a", 1.0, None, 10**13)]]
)
def test_rows_that_are_worth_too_much_or_too_little_are_refused(rows):
    policy = TopTwo(unit_problem(TopKOracle(["a", "b"], k=1)), 0)
    with pytest.raises((ParameterError, RewardError), match=r"sem|count"):
        policy.observe_table(rows)
    assert policy.samples == 0


def test_the_worth_of_rows():
    policy = TopTwo(unit_problem(TopKOracle(["a", "b"], k=1), noise_std=2.0), 0)
    rows = [("a", 1.0), ("b", 1.0, 0.5), ("a", 1.0, None, 9), ("b", 1.0, 4.0, 9), ("a", 1.0, 2.0)]
    policy.observe_table(rows)
    assert policy.weights.tolist() == [[1.0 + 9.0 + 1.0, 16.0 + 0.25]]
    assert policy.pulls.tolist() == [[11, 10]]
    one_by_one = TopTwo(policy.problem, 0)
    for label, y, *more in rows:
        one_by_one.observe(label, y, *more)
    np.testing.assert_allclose(policy.belief.theta_hat, one_by_one.belief.theta_hat, rtol=1e-14)


def test_warnings_come_once_and_name_the_line_of_the_user():
    policy = TopTwo(unit_problem(TopKOracle(["a", "b"], k=1), noise_std=1.0, prior_mean=0.0, prior_std=1.0), 0)
    rows = [("a", 1e4), ("b", 1.0), ("b", 20.0)] * 9
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        policy.observe_table(rows)
    assert [warning.category for warning in seen] == [PriorWarning, NoiseWarning]
    assert {warning.filename for warning in seen} == {__file__}
    assert policy.samples == 27
    assert policy.noise.alarmed


def test_a_warning_that_is_an_error_comes_before_anything_is_taken():
    policy = TopTwo(unit_problem(TopKOracle(["a", "b"], k=1)), 0)
    before = policy.pulls.copy(), policy.noise._count.copy()
    with pytest.raises(PriorWarning):
        policy.observe_table([("a", 1e4)] * 3)
    np.testing.assert_array_equal(policy.pulls, before[0])
    np.testing.assert_array_equal(policy.noise._count, before[1])
    policy.observe_table([("a", 1e4)] * 3)  # said again, it is taken
    assert policy.samples == 3


def test_a_hundred_thousand_rows(tmp_path):
    graph = nx.DiGraph(((i, j), (i + a, j + 1 - a)) for i in range(30) for j in range(30) for a in (0, 1) if max(i + a, j + 1 - a) < 30)  # fmt: skip
    problem = unit_problem(ShortestPathOracle(graph, (0, 0), (29, 29)), noise_std=0.5, prior_std=9.0)
    rows = history(problem, 100_000)
    with (tmp_path / "x.csv").open("w", newline="") as out:
        csv.writer(out).writerows([("label", "value"), *rows])
    for table in (rows, tmp_path / "x.csv"):
        policy, start = TopTwo(problem, 0), time.process_time()
        assert policy.observe_table(table).taken == 100_000
        assert time.process_time() - start < 5.0
        assert policy.samples == 100_000


def test_replications_have_no_tables():
    with pytest.raises(ParameterError, match="3"):
        TopTwo(unit_problem(TopKOracle(3, k=1)), 0, replications=3).observe_table([(0, 1.0)])


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

"""Observations without a query: tables are recorded all or nothing, and a key counts once."""

import json
import time
import warnings

import networkx as nx
import numpy as np
import pytest
from backends import events
from cases import filled, problems, same_state
from unit_problem import unit_problem

from combopeps import Campaign, ComboPepsError, ShortestPathOracle, TopKOracle, load_instance, save_instance
from combopeps.errors import FileFormatError, LabelError, NoiseWarning, ParameterError, QueryError, RewardError
from combopeps.io import Instance
from combopeps.session import TableSummary

ROWS = [("a", 1.25), ("c", 0.5, 0.25), ("a", 1.5), ("e", 2.25, None, 3), ("b", 0.75)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "campaign.db"


@pytest.mark.parametrize("policy", ["top-two", "peps"])
def test_a_table_is_its_rows_one_by_one(tmp_path, policy):
    table, single = (filled(tmp_path / name, policy=policy) for name in "ab")
    assert table.observe_table(ROWS) == TableSummary(5, 5)
    for label, y, sem, count in (row + (None, 1)[len(row) - 2 :] for row in ROWS):
        single.observe(label, y, sem, count=count)
    same_state(table, single)
    same_state(Campaign.open(tmp_path / "a"), single)


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (("b", float("nan")), RewardError),
        (("b", 1e200), RewardError),
        (("b", 1.0, 1e-9), RewardError),
        (("z", 1.0), LabelError),
        (("b", 1.0, None, 0), ParameterError),
        (("b",), ParameterError),
    ],
    ids=str,
)
def test_with_a_bad_last_row_nothing_is_recorded(path, bad, error):
    campaign = filled(path)
    before, policy = events(path), campaign.policy
    with pytest.raises(error, match="1 of 6 rows is wrong, nothing was taken"):
        campaign.observe_table([*ROWS, bad])
    assert events(path) == before
    assert campaign.policy is policy  # nothing had to be read again
    same_state(campaign, Campaign.open(path))


def test_a_bad_file_is_refused_before_the_lock_is_taken(path, tmp_path):
    campaign = filled(path)
    before = events(path)
    (tmp_path / "x.csv").write_text("label,result\na,1\n")
    with campaign.store.locked(), pytest.raises(FileFormatError, match="name it value"):
        Campaign.open(path, timeout=0.0).observe_table(tmp_path / "x.csv")
    assert events(path) == before


def test_a_warning_that_is_an_error_comes_before_anything_is_written(path):
    campaign = filled(path)
    before = events(path)
    with pytest.raises(NoiseWarning):
        campaign.observe_table([*ROWS, ("a", 1e6)])
    assert events(path) == before
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        Campaign.open(path).observe_table([*ROWS, ("a", 1e6)])
    assert {warning.filename for warning in seen} == {__file__}
    assert Campaign.open(path).samples == 13


@pytest.fixture
def keyed(path):
    campaign = Campaign.create(path, problems()["topk"])
    campaign.observe_table(ROWS, key="nightly")
    campaign.observe("a", 1.5, key="first")
    return campaign


def test_the_same_with_a_key_counts_once(keyed, path):
    before = events(path)
    for each in (keyed, Campaign.open(path)):
        assert each.observe_table(ROWS, key="nightly").taken == 5
        each.observe("a", 1.5, key="first")
        each.observe_table([("a", 1.5)], key="first")  # a table of one row is one observation
    assert events(path) == before
    assert keyed.observe_table([], key="none").taken == 0


@pytest.mark.parametrize(
    "other",
    [[*ROWS, ("d", 7.0)], ROWS[:3], [ROWS[0], ("b", 99.0), *ROWS[2:]], [ROWS[1], ROWS[0], *ROWS[2:]],
     [("d", *ROWS[0][1:]), *ROWS[1:]], ROWS[:1], []],
    ids=["longer", "shorter", "value", "order", "label", "one row", "empty"],
)  # fmt: skip
def test_another_table_with_the_same_key_is_refused(keyed, path, other):
    before = events(path)
    with pytest.raises(QueryError, match="'nightly' was used for another"):
        keyed.observe_table(other, key="nightly")
    assert events(path) == before


@pytest.mark.parametrize(
    ("key", "other"),
    [("first", ("a", 2.5)), ("first", ("b", 1.5)), ("first", ("a", 1.5, 0.25)), ("nightly", ("a", 1.25))],
)
def test_another_observation_with_the_same_key_is_refused(keyed, path, key, other):
    before = events(path)
    for each in (keyed, Campaign.open(path)):
        with pytest.raises(QueryError, match=f"'{key}' was used for another"):
            each.observe(*other, key=key)
    assert events(path) == before


def town(kind=nx.Graph):
    graph = kind([("s", "a"), ("a", "t"), ("s", "b"), ("b", "t"), ("b", "pier"), ("pier", "boat"), (7, 8)])
    return unit_problem(ShortestPathOracle(graph, "s", "t"), prior_std=5.0)


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_edges_on_no_route_are_known_in_an_instance_file(tmp_path, kind):
    problem = town(kind)
    assert len(problem.oracle.pruned) == 3
    save_instance(Instance("town", problem, [1.0, 2.0, 3.0, 4.0]), tmp_path / "town.json")
    again = load_instance(tmp_path / "town.json")
    assert again.oracle.pruned == problem.oracle.pruned
    assert again.theta.tolist() == [1.0, 2.0, 3.0, 4.0]
    document = json.loads((tmp_path / "town.json").read_text())
    del document["sha256"]
    if kind is not nx.Graph:
        return
    for bad, part in (
        ([["a", "s"]], "stands among the edges"), ([["x"]], "2 parts"), ([["x", "y"], ["y", "x"]], "twice"),
    ):  # fmt: skip
        document["oracle"]["pruned"] = bad
        (tmp_path / "bad.json").write_text(json.dumps(document))
        with pytest.raises(ComboPepsError, match=part):
            load_instance(tmp_path / "bad.json")
    del document["oracle"]["pruned"]  # as older files are
    (tmp_path / "old.json").write_text(json.dumps(document))
    assert load_instance(tmp_path / "old.json").oracle.pruned == ()


def test_names_on_no_route_that_cannot_be_stored_are_forgotten(path):
    graph = nx.Graph([("s", "a"), ("a", "t"), ("a", frozenset([1])), ("a", "end")])
    Campaign.create(path, unit_problem(ShortestPathOracle(graph, "s", "t")))
    assert Campaign.open(path).problem.oracle.pruned == (("a", "end"),)


def test_a_hundred_thousand_rows_take_seconds(path):
    rng = np.random.default_rng(0)
    problem = unit_problem(TopKOracle([f"item {i}" for i in range(300)], k=5), prior_std=9.0)
    rows = [
        (f"item {i}", float(y)) for i, y in zip(rng.integers(0, 300, 100_000), rng.normal(size=100_000), strict=True)
    ]
    campaign = Campaign.create(path, problem)
    start = time.process_time()
    assert campaign.observe_table(rows).taken == 100_000
    assert time.process_time() - start < 5.0
    assert campaign.samples == 100_000
    same_state(campaign, Campaign.open(path))

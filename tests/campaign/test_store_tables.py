"""Tables in a campaign: recorded as one, all or nothing."""

import json
import time
import warnings

import networkx as nx
import numpy as np
import pytest
from backends import events
from cases import filled, same_state
from unit_problem import unit_problem

from combopeps import Campaign, ComboPepsError, ShortestPathOracle, TopKOracle, load_instance, save_instance
from combopeps.campaign import check
from combopeps.campaign.store import store_at
from combopeps.errors import FileFormatError, LabelError, NoiseWarning, ParameterError, RewardError, StateFileError
from combopeps.io import Instance
from combopeps.session import Observed

ROWS = [("a", 1.25), ("c", 0.5), ("a", 1.5), ("e", 2.25), ("b", 0.75)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "campaign.db"


@pytest.mark.parametrize("policy", ["top-two", "peps"])
def test_a_table_is_its_rows_one_by_one(tmp_path, policy):
    table, single = (filled(tmp_path / name, policy=policy) for name in "ab")
    assert table.observe_table(ROWS) == Observed(5, 5)
    for label, y in ROWS:
        single.observe(label, y)
    same_state(table, single)
    again = Campaign.open(tmp_path / "a")
    same_state(again, single)


def test_from_a_file_between_queries(path, tmp_path):
    campaign = filled(path)
    waiting = campaign.open_queries
    (tmp_path / "x.csv").write_text(",label,value\n0,a,1.5\n1,b,2.5\n")
    assert repr(campaign.observe_table(tmp_path / "x.csv")) == "all 2 rows taken"
    assert campaign.open_queries == waiting
    assert Campaign.open(path).samples == 7
    campaign.tell(waiting[0], 0.5)
    same_state(campaign, Campaign.open(path))


BAD = {
    "nan": (("b", float("nan")), RewardError),
    "huge": (("b", 1e200), RewardError),
    "label": (("z", 1.0), LabelError),
    "count": (("b", 1.0, None, -1), ParameterError),
    "short": (("b",), ParameterError),
}


@pytest.mark.parametrize("policy", ["top-two", "peps"])
@pytest.mark.parametrize("name", BAD)
def test_a_bad_last_row_and_not_a_byte_has_changed(path, name, policy):
    campaign = filled(path, policy=policy)
    before, policy = events(path), campaign.policy
    bad, error = BAD[name]
    with pytest.raises(error, match="1 of 6 rows is wrong, nothing was taken"):
        campaign.observe_table([*ROWS, bad])
    assert events(path) == before
    assert campaign.policy is policy
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
    assert Campaign.open(path).samples == 11


def with_line(path, **fields):
    """The file with one more line, a measurement of a."""
    store = store_at(path)
    with store.locked():
        store.append([{"kind": "observe", "arm": 0, "label": "a", "y": 1.0, **fields}], store.read().end)
    return path


def test_a_standard_error_and_a_count_may_stand_in_a_line(path):
    filled(path)
    assert Campaign.open(with_line(path, sem=0.5, count=1)).samples == 6  # as exact as one measurement is
    assert check(path).faults == []


@pytest.mark.parametrize(
    "fields",
    [{"sem": 0}, {"sem": -1.0}, {"sem": None}, {"sem": "1"}, {"sem": True}, {"count": 0}, {"count": 1.5},
     {"count": True}, {"count": None}, {"weight": 2.0}],
    ids=str,
)  # fmt: skip
def test_what_makes_no_sense_in_a_line_is_refused(path, fields):
    filled(path)
    with pytest.raises(StateFileError, match="event 11: "):
        Campaign.open(with_line(path, **fields))


def test_what_is_worth_nothing_is_refused_before_it_is_written(path):
    campaign = filled(path)
    before = events(path)
    for rows in ([("a", 1.0, 1e-9)], [("a", 1.0), ("a", 1.0, None, 0)]):
        with pytest.raises((ParameterError, RewardError), match=r"sem|count"):
            campaign.observe_table(rows)
    assert events(path) == before


def test_standard_errors_and_counts_are_in_the_file(path):
    campaign = filled(path)
    pulls, belief = campaign.status().pulls, campaign.belief
    campaign.observe_table([("a", 1.0, 0.25), ("a", 2.0, None, 3)])
    again = Campaign.open(path)
    assert again.status().pulls == pulls | {"a": pulls["a"] + 4}
    assert (
        again.belief.precision[0].tolist()
        == (belief.precision[0] + [4.0 * (4.0 + 3.0), *[0.0] * (belief.dim - 1)]).tolist()
    )


def town(kind=nx.Graph):
    graph = kind([("s", "a"), ("a", "t"), ("s", "b"), ("b", "t"), ("b", "pier"), ("pier", "boat"), (7, 8)])
    return unit_problem(ShortestPathOracle(graph, "s", "t"), prior_std=5.0)


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_edges_on_no_route_are_known_in_a_file(path, kind):
    problem = town(kind)
    pruned, kept = problem.oracle.pruned, problem.oracle.components
    assert len(pruned) == 3
    Campaign.create(path, problem)
    campaign = Campaign.open(path)
    assert campaign.problem.oracle.pruned == pruned
    found = campaign.observe_table([(kept[0], 1.0), (pruned[0], 2.0), (pruned[2], 3.0), (pruned[0], 2.5)])
    assert found.left_out == {pruned[0]: 2, pruned[2]: 1}
    assert campaign.samples == found.taken == 1
    with pytest.raises(LabelError, match="lies on no route from 's' to 't', so it is not measured"):
        campaign.observe(pruned[0], 1.0)
    with pytest.raises(LabelError, match="is not the label"):
        campaign.observe(("s", "moon"), 1.0)


def test_edges_on_no_route_are_known_in_an_instance_file(tmp_path):
    problem = town()
    save_instance(Instance("town", problem, [1.0, 2.0, 3.0, 4.0]), tmp_path / "town.json")
    again = load_instance(tmp_path / "town.json")
    assert again.oracle.pruned == problem.oracle.pruned
    assert again.theta.tolist() == [1.0, 2.0, 3.0, 4.0]
    document = json.loads((tmp_path / "town.json").read_text())
    del document["sha256"]
    for bad, part in (
        ([["a", "s"]], "stands among the edges"),
        ([["x"]], "2 parts"),
        ([["x", "y"], ["y", "x"]], "twice"),
    ):
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


def test_a_hundred_thousand_rows(path):
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

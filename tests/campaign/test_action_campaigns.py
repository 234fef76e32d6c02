"""Campaigns in which a query is a whole action: asked for, told part by part, and restored bit for bit."""

import json
import sys
from itertools import product

import networkx as nx
import numpy as np
import pytest
from backends import events
from cases import ROADS, measured, same_state
from memory_store import MemoryStore
from test_processes import crash_and_compare
from unit_problem import unit_problem

from combopeps import (
    ArgmaxOracle,
    Campaign,
    MatchingOracle,
    Session,
    ShortestPathOracle,
    SpanningTreeOracle,
    TopKOracle,
)
from combopeps.campaign import copy
from combopeps.campaign.store import store_at
from combopeps.errors import InstanceError, LabelError, ParameterError, QueryError, RewardError, StateFileError

TEAM = TopKOracle(["a", "b", "c", "d"], k=2)


def problems():
    roads = nx.DiGraph(ROADS)
    parallel = nx.MultiGraph([("s", "t", "fast"), ("s", "t", "slow"), ("s", "m", 0), ("m", "t", 0)])
    return {
        "teams": unit_problem(TEAM, noise_std=0.5, actions="answers", cost=2.0, part_cost={"a": 0.25}),
        "rows": unit_problem(TEAM, actions={"left": [1, 1, 0, 0], ("right", 2): [0, 0, 1, 1], "odd": [1, 0, 1, 0]}),
        "numbered rows": unit_problem(TEAM, actions=[[1, 1, 1, 0], [0, 0, 1, 1]]),
        "another set": unit_problem(TEAM, actions=TopKOracle(["x", "d", "c", "b", "a"], k=3), part_cost=0.5),
        "routes": unit_problem(ShortestPathOracle(roads, "home", "work"), prior_std=3.0, actions="answers"),
        "parallel": unit_problem(ShortestPathOracle(parallel, "s", "t"), prior_std=3.0, actions="answers"),
        "trees": unit_problem(SpanningTreeOracle(nx.complete_graph(5)), prior_std=3.0, actions="answers"),
        "pairs": unit_problem(MatchingOracle(3, 3), actions="answers", noise_std=None),
    }


@pytest.fixture
def path(tmp_path):
    return tmp_path / "campaign.db"


def busy(path, name="teams", **options):
    """Queries that are told, told in part, abandoned and open, and an observation."""
    campaign = Campaign.create(path, problems()[name], **options)
    for _ in range(2):
        first, second, third = campaign.ask(3)
        campaign.tell(first, measured(first))
        campaign.tell_many([(third.id, dict(zip(third.components, measured(third), strict=True)))])
        campaign.abandon(second)
        campaign.ask()
    campaign.observe(campaign.problem.arms.labels[0], 1.25)
    return campaign


@pytest.mark.parametrize("name", problems())
def test_a_reopened_campaign_asks_the_same(path, tmp_path, name):
    campaign = busy(path, name)
    copy(path, tmp_path / "copy")
    again = Campaign.open(tmp_path / "copy")
    same_state(campaign, again)
    assert campaign.actions == again.actions == 4
    queries = campaign.ask(2)
    assert queries == again.ask(2)
    for query in queries:
        campaign.tell(query, measured(query))
        again.tell(query, measured(query))
    same_state(campaign, Campaign.open(tmp_path / "copy"))
    assert events(path) == events(tmp_path / "copy")


@pytest.mark.parametrize("options", [{}, {"sweep": 2}, {"stopping": "certified"}], ids=["", "sweep", "certified"])
@pytest.mark.parametrize("policy", ["top-two", "peps", "uniform"])
def test_every_policy_is_restored(path, policy, options):
    campaign = busy(path, policy=policy, **options)
    for number in range(3):
        again = Campaign.open(path)
        same_state(campaign, again)
        copy(path, path.with_name(f"{number}.db"))
        query = campaign.ask()
        if policy != "peps":  # whose weights are not restored
            assert Campaign.open(path.with_name(f"{number}.db")).ask() == query
        campaign = again


def test_the_posterior_is_that_of_the_same_readings_one_by_one(path):
    campaign = busy(path)
    session = Session(problems()["teams"])
    for line in events(path):
        if line["kind"] == "tell":
            for label, y in zip(line["labels"], line["ys"], strict=True):
                if y is not None:
                    session.observe(label, y)
    session.observe("a", 1.25)
    np.testing.assert_allclose(campaign.belief.theta_hat, session.belief.theta_hat, rtol=1e-12)
    status = campaign.status()
    assert status.samples == session.samples == sum(status.pulls.values())
    assert status.actions == 4
    assert (
        campaign.cost
        == status.cost
        == sum(2.0 + 0.25 * ("a" in line["labels"]) for line in events(path) if line["kind"] == "tell")
    )
    assert json.loads(status.to_json())["actions"] == 4
    assert "actions=4" in repr(status)


def test_a_sweep_sees_everything_so_often(path):
    campaign = Campaign.create(path, unit_problem(TopKOracle(9, k=3), actions="answers"), sweep=2)
    asked = [part for query in campaign.ask(6) for part in query.arms]
    assert sorted(asked) == sorted([*range(9)] * 2)


def test_open_actions_count_as_if_measured(path):
    campaign = Campaign.create(path, unit_problem(TopKOracle(9, k=3), actions="answers"))
    assert sorted(part for _ in range(3) for part in campaign.ask().arms) == list(range(9))


def test_parts_have_standard_errors(path):
    campaign = Campaign.create(path, problems()["teams"])
    query = campaign.ask()
    campaign.tell(query, [(1.5, 0.1), -0.5])
    assert events(path)[-1]["sems"] == [0.1, None]
    same_state(campaign, Campaign.open(path))
    session = Session(problems()["teams"])
    session.observe(query.components[0], 1.5, 0.1)
    session.observe(query.components[1], -0.5)
    np.testing.assert_allclose(campaign.belief.theta_hat, session.belief.theta_hat, rtol=1e-12)


def test_the_same_again_is_harmless(path):
    campaign = Campaign.create(path, problems()["teams"])
    query = campaign.ask()
    campaign.tell(query, [1.0, None])
    before = events(path)
    Campaign.open(path).tell(query.id, {query.components[0]: 1.0})
    campaign.tell_many([(query, [1.0, None]), (query.id, (1.0, None))])
    assert events(path) == before


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ([1.0], RewardError, "2 parts, got 1"),
        ([1.0, 2.0, 3.0], RewardError, "2 parts, got 3"),
        (3.0, RewardError, "2 parts"),
        ([1.0, float("inf")], RewardError, "finite"),
        ([1.0, (2.0, -1.0)], RewardError, "sem"),
        ({"nobody": 1.0}, LabelError, "nobody"),
        ("other", LabelError, "not on the action"),
    ],
)
def test_bad_results_change_nothing(path, values, error, words):
    campaign = Campaign.create(path, problems()["teams"])
    first, query = campaign.ask(2)
    if isinstance(values, str):
        values = {next(label for label in "abcd" if label not in query.label): 1.0}
    before = events(path)
    with pytest.raises(error, match=words):
        campaign.tell(query, values)
    with pytest.raises(error, match=words):
        campaign.tell_many([(first, [1.0, 2.0]), (query.id, values)])
    assert events(path) == before
    assert (campaign.samples, campaign.actions, len(campaign.open_queries)) == (0, 0, 2)


def test_other_misuse_changes_nothing(path):
    campaign = Campaign.create(path, problems()["teams"])
    query = campaign.ask()
    other = Session(unit_problem(TopKOracle(99, k=50), actions="answers")).ask()
    before = events(path)
    with pytest.raises(QueryError, match="not asked here"):
        campaign.tell(other, [0.0] * 50)
    with pytest.raises(QueryError, match="never asked"):
        campaign.tell(7, [1.0, 2.0])
    with pytest.raises(RewardError, match="not one sem"):
        campaign.tell(query, [1.0, 2.0], 0.5)
    assert events(path) == before
    campaign.abandon(query)
    with pytest.raises(QueryError, match="abandoned"):
        campaign.tell(query, [1.0, 2.0])
    with pytest.raises(ParameterError, match="top-two"):
        Campaign.create(path.with_name("other"), problems()["teams"], policy="lingape")
    assert not path.with_name("other").exists()


class Neighbours(ArgmaxOracle):
    """Two side by side."""

    binary = True

    def _argmax_batch(self, thetas):
        first = (thetas[:, :-1] + thetas[:, 1:]).argmax(axis=1)
        return np.eye(self.dim)[first] + np.eye(self.dim)[first + 1]


def test_user_defined_oracles(path):
    """Their answers may be the actions; a user-defined set of actions has to be listed."""
    campaign = Campaign.create(path, unit_problem(Neighbours(["a", "b", "c"]), actions="answers"))
    query = campaign.ask()
    again = Campaign.open(path, oracle=Neighbours(["a", "b", "c"]))
    again.tell(query, [1.0, 2.0])
    same_state(campaign, again)
    with pytest.raises(InstanceError, match=r"Neighbours .* rows"):
        Campaign.create(path.with_name("other"), unit_problem(TEAM, actions=Neighbours(list("abcd"))))
    assert not path.with_name("other").exists()


def test_files_without_actions_have_no_fields_for_them(path):
    Campaign.create(path, unit_problem(TEAM, cost={"a": 2.0, "b": 1.0, "c": 1.0, "d": 1.0}))
    assert "action" not in str(events(path))
    assert "part_cost" not in str(events(path))
    assert Campaign.open(path).actions is None
    assert Campaign.open(path).status().actions is None


def rewritten(path, number, **changes):
    """A campaign in which one event was changed, with right checksums."""
    events = [event for _, event in store_at(path).read().events]
    events[number] |= changes
    other = path.with_name(f"{path.name}-{number}-{len(list(path.parent.iterdir()))}")
    store_at(other).create(events)
    return other


ASKED = {"id": 0, "measured": [0, 1], "label": ["a", "b"]}


@pytest.mark.parametrize(
    ("number", "changes"),
    [
        (1, {"queries": [ASKED | {"measured": [0, 2]}]}),
        (1, {"queries": [ASKED | {"measured": [1, 0]}]}),
        (1, {"queries": [ASKED | {"measured": [0, 0, 1]}]}),
        (1, {"queries": [ASKED | {"measured": [0, 1, 2], "label": ["a", "b", "c"]}]}),
        (1, {"queries": [ASKED | {"measured": [0, 4]}]}),
        (1, {"queries": [ASKED | {"measured": [True, False]}]}),
        (1, {"queries": [ASKED | {"measured": []}]}),
        (1, {"queries": [ASKED | {"measured": 3}]}),
        (1, {"queries": [{"id": 0, "arm": 0, "label": "a"}]}),
        (2, {"ys": [1.0]}),
        (2, {"ys": None}),
        (2, {"ys": ["1", "2"]}),
        (2, {"ys": [1.0, True]}),
        (2, {"arms": [0, 1]}),
        (2, {"labels": ["a", "b", "c"], "ys": [1.0, 2.0, 3.0]}),
        (2, {"labels": [], "ys": []}),
        (2, {"labels": ["a", "x"]}),
        (2, {"sems": 0}),
        (2, {"sems": [1.0]}),
        (2, {"sems": ["a", None]}),
        (2, {"sem": 1.0}),
        (2, {"id": 5}),
        (2, {"id": None}),
        (0, {"policy": "lingape"}),
    ],
)
def test_contradictory_events_are_refused(path, number, changes):
    campaign = Campaign.create(path, problems()["teams"])
    query = campaign.ask()
    campaign.tell(query, [1.0, 2.0])
    path = rewritten(path, 1, queries=[ASKED])  # not what was chosen
    path = rewritten(path, 2, labels=["a", "b"])
    assert Campaign.open(path).samples == 2
    with pytest.raises(StateFileError, match=f"event {number + 1}"):
        Campaign.open(rewritten(path, number, **changes))


def test_actions_in_a_campaign_of_single_arms_are_refused(path):
    Campaign.create(path, unit_problem(TEAM)).ask()
    with pytest.raises(StateFileError, match="event 2: a query is for one arm"):
        Campaign.open(rewritten(path, 1, queries=[ASKED]))


@pytest.mark.skipif(sys.platform == "win32", reason="fork and SIGKILL")
@pytest.mark.parametrize(
    ("policy", "fault"),
    [("top-two", "before commit"), ("peps", "after commit")]
    + [
        pytest.param(*case, marks=pytest.mark.slow)
        for case in product(["top-two", "peps"], ["", "before insert", "before commit", "after commit"])
        if case not in [("top-two", "before commit"), ("peps", "after commit")]
    ],
)
def test_killed_and_continued(path, policy, fault):
    place = lambda name="campaign.db": path.with_name(name)  # noqa: E731
    crash_and_compare(place, 5, 1, policy, filter(None, [fault]), problem=problems()["teams"])


def test_two_campaigns_take_turns_on_one_file(path):
    one, other = Campaign.create(path, problems()["routes"]), Campaign.open(path)
    for _ in range(4):
        first, second = one.ask(), other.ask()
        assert second.id == first.id + 1
        one.tell(second.id, measured(second))
        other.tell(first, measured(first))
        same_state(one, other)
    stored = events(path)
    for number, event in enumerate(stored):
        if event["kind"] == "ask":  # the events before it alone decide
            before = MemoryStore()
            before.create(stored[:number])
            assert list(Campaign.open(before).ask().action) == event["queries"][0]["measured"]

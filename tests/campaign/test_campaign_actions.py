"""Campaigns in which a query is a whole action: told part by part, and restored bit for bit."""

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
from combopeps.errors import InstanceError

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
def test_a_reopened_campaign_asks_for_the_same_actions(path, tmp_path, name):
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


@pytest.mark.parametrize(
    "options", [{}, {"initial_design": 2}, {"stopping": "certified"}], ids=["", "initial_design", "certified"]
)
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
    campaign, session = busy(path), Session(problems()["teams"])
    campaign.tell(campaign.ask(), [(1.5, 0.1), -0.5])
    assert events(path)[-1]["sems"] == [0.1, None]
    told = [event for event in events(path) if event["kind"] == "tell"]
    for event in told:
        sems = event.get("sems", [None] * len(event["ys"]))
        for label, y, sem in zip(event["labels"], event["ys"], sems, strict=True):
            if y is not None:
                session.observe(label, y, sem)
    session.observe("a", 1.25)
    for each in (campaign, Campaign.open(path)):
        np.testing.assert_allclose(each.posterior.theta_hat, session.posterior.theta_hat, rtol=1e-12)
    status = campaign.status()
    assert status.samples == session.samples == sum(status.pulls.values())
    assert status.actions == json.loads(status.to_json())["actions"] == len(told) == 5
    assert campaign.cost == status.cost == sum(2.0 + 0.25 * ("a" in event["labels"]) for event in told)
    assert "actions=5" in repr(status)


class Neighbours(ArgmaxOracle):
    """Two side by side."""

    binary = True

    def _argmax_batch(self, thetas):
        first = (thetas[:, :-1] + thetas[:, 1:]).argmax(axis=1)
        return np.eye(self.dim)[first] + np.eye(self.dim)[first + 1]


def test_answers_of_an_oracle_of_ones_own_may_be_the_actions(path):
    """A set of actions that only an oracle of one's own describes has to be listed."""
    campaign = Campaign.create(path, unit_problem(Neighbours(["a", "b", "c"]), actions="answers"))
    query = campaign.ask()
    again = Campaign.open(path, oracle=Neighbours(["a", "b", "c"]))
    again.tell(query, [1.0, 2.0])
    same_state(campaign, again)
    with pytest.raises(InstanceError, match=r"Neighbours .* rows"):
        Campaign.create(path.with_name("other"), unit_problem(TEAM, actions=Neighbours(list("abcd"))))
    assert not path.with_name("other").exists()


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
def test_a_killed_campaign_of_actions_continues(path, policy, fault):
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

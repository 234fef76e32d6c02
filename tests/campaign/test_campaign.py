"""Ask, tell, observe, abandon and status."""

import time

import numpy as np
import pytest
from backends import events, slow_on_a_server
from cases import filled, go_on, measured, problems, same_state
from unit_problem import unit_problem

from combopeps import ArgmaxOracle, Campaign, ComboPepsError, TopKOracle
from combopeps.campaign import copy
from combopeps.errors import LabelError, ParameterError, PriorWarning, QueryError, RewardError, StateFileError
from combopeps.io import Instance

POLICIES = ["top-two", "peps"]


@pytest.fixture
def path(place):
    return place()


@slow_on_a_server
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", problems())
def test_reopened_at_every_step_it_has_the_same_data_and_claims(place, name, policy):
    straight = Campaign.create(place("one"), problems()[name], policy=policy, rng=5)
    for step in range(12):
        for query in straight.ask(1 + step % 3):
            straight.tell(query, measured(query))
            same_state(straight, Campaign.open(place("one")))
        if step % 4 == 0:
            straight.status()
    copy(place("one"), place("two"))
    same_state(straight, Campaign.open(place("two")))


def test_queries_do_not_depend_on_where_they_are_asked(place):
    """Of a policy that remembers nothing, on a set whose facets are listed: also after reopening."""
    straight = Campaign.create(place("one"), problems()["topk"], rng=5)
    broken = Campaign.create(place("two"), problems()["topk"], rng=5)
    for step in range(12):
        queries = straight.ask(1 + step % 3)
        assert queries == broken.ask(1 + step % 3)
        for query in queries:
            straight.tell(query, measured(query))
            broken.tell(query, measured(query))
        broken = Campaign.open(place("two"))
    assert events(place("one")) == events(place("two"))


def test_doubling_peps_draws_its_ties_anew_in_every_epoch_and_still_comes_back(tmp_path):
    from combopeps import Box

    problem = unit_problem(TopKOracle(4, k=1), space=Box(0.0, 3.0))
    straight = Campaign.create(tmp_path / "one", problem, policy="doubling-peps")
    go_on(straight, 20)
    again = Campaign.open(tmp_path / "one")
    same_state(straight, again)


def test_three_queries_at_once_are_those_asked_one_by_one(place):
    together = Campaign.create(place("one"), problems()["topk"]).ask(3)
    single = Campaign.create(place("two"), problems()["topk"])
    assert together == [single.ask() for _ in range(3)]


def test_seeds_differ(tmp_path):
    runs = [Campaign.create(tmp_path / str(seed), problems()["topk"], rng=seed).ask(12) for seed in range(4)]
    assert len({tuple(query.arm for query in run) for run in runs}) == 4


def test_random_numbers_of_queries_differ(tmp_path):
    """All from one belief: were they the same, so would be the arms."""
    arms = {query.arm for query in Campaign.create(tmp_path / "one", problems()["topk"]).ask(40)}
    assert len(arms) == 5


def test_it_finds_the_best_answer_and_says_when_to_stop(path):
    campaign = Campaign.create(path, problems()["topk"], delta=0.01)
    assert not campaign.status().stop
    go_on(campaign, 200)
    status = Campaign.open(path).status()
    assert status.answer == {"d", "e"}
    assert status.runner_up != status.answer
    assert status.stop
    assert status.error_probability <= 0.01 == status.delta
    assert status.samples == sum(status.pulls.values()) == 200
    assert list(status.pulls) == list("abcde")
    assert status.open_queries == []


def test_tuples_come_back_as_labels(path):
    campaign = Campaign.create(path, problems()["route"])
    query = campaign.ask()
    assert Campaign.open(path).open_queries[0].label == query.label
    campaign.observe(("home", "bridge"), 2.0)
    campaign.observe(["home", "bridge"], 3.0)  # as JSON has it
    assert campaign.status().pulls["home", "bridge"] == 2
    assert events(path)[-1]["label"] == ["home", "bridge"]


def test_what_is_refused_changes_nothing(path):
    campaign = filled(path)
    told, abandoned, waiting = 0, 4, campaign.open_queries[0]
    before, policy = events(path), campaign.policy
    for error, act in [
        (QueryError, lambda: campaign.tell(told, 99.0)),
        (QueryError, lambda: campaign.tell(abandoned, 0.0)),
        (QueryError, lambda: campaign.tell(1000, 0.0)),
        (QueryError, lambda: campaign.tell(True, 0.0)),
        (QueryError, lambda: campaign.tell("0", 0.0)),
        (QueryError, lambda: campaign.tell_many([(waiting, 0.0), (waiting, 1.0)])),
        (QueryError, lambda: campaign.tell_many([(waiting, 0.0), (1000, 1.0)])),
        (QueryError, lambda: campaign.abandon(told)),
        (QueryError, lambda: campaign.abandon(abandoned)),
        (RewardError, lambda: campaign.tell(waiting, float("nan"))),
        (RewardError, lambda: campaign.tell(waiting, float("inf"))),
        (RewardError, lambda: campaign.tell(waiting, 1e300)),
        (RewardError, lambda: campaign.tell(waiting, "warm")),
        (RewardError, lambda: campaign.observe("a", None)),
        (LabelError, lambda: campaign.observe("z", 0.0)),
        (LabelError, lambda: campaign.observe({}, 0.0)),
        (ParameterError, lambda: campaign.ask(0)),
        (ParameterError, lambda: campaign.ask(1.5)),
    ]:
        with pytest.raises(error):
            act()
        assert events(path) == before
    assert campaign.policy is policy  # it was not read again
    same_state(campaign, Campaign.open(path))


def test_a_query_of_another_campaign_is_refused(place):
    mine = Campaign.create(place("mine"), problems()["topk"])
    theirs = Campaign.create(place("theirs"), problems()["grid"])
    mine.ask()
    query = theirs.ask()
    with pytest.raises(QueryError):
        mine.tell(query, 0.0)
    with pytest.raises(QueryError):
        mine.abandon(query)


def test_a_measurement_that_contradicts_the_prior_warns_and_counts(path):
    campaign = Campaign.create(path, problems()["topk"])
    with pytest.warns(PriorWarning):
        campaign.observe("a", 1e6)
    assert Campaign.open(path).status().samples == 1  # and reading does not warn again


def test_create_never_overwrites(path):
    filled(path)
    before = events(path)
    with pytest.raises(StateFileError, match="exists already"):
        Campaign.create(path, problems()["topk"])
    assert events(path) == before


class Own(ArgmaxOracle):
    def _argmax_batch(self, thetas):
        return np.eye(self.dim)[thetas.argmax(axis=1)]


@pytest.mark.parametrize(
    "options",
    [{"policy": "best"}, {"policy": 3}, {"delta": 0.0}, {"delta": "0.1"}, {"delta": float("nan")}, {"rng": -1},
     {"rng": 1.5}, {"rng": True}, {"stopping": "never"}, {"stopping": None}, {"policy": "doubling-peps"}],
    ids=str,
)  # fmt: skip
def test_bad_options_leave_no_file(path, options):
    with pytest.raises(ComboPepsError):
        Campaign.create(path, problems()["topk"], **options)
    assert events(path) is None


def test_an_oracle_that_a_file_cannot_describe_must_be_brought(path):
    Campaign.create(path, unit_problem(Own(["a", "b"])))
    with pytest.raises(ComboPepsError, match="Own"):
        Campaign.open(path)


def test_the_truth_of_an_instance_is_not_stored(path):
    Campaign.create(path, Instance("secret", problems()["topk"], theta=[0.125, 0.25, 0.375, 0.4375, 0.75]))
    header = events(path)[0]
    assert header["problem"]["theta"] is None
    assert header["problem"]["name"] == "secret"
    assert header["versions"].keys() == {"combopeps", "numpy", "python"}


@pytest.mark.parametrize("where", ["missing/file", ".", "nul\0"], ids=["missing", "folder", "nul"])
def test_places_that_cannot_be(tmp_path, where):
    with pytest.raises((StateFileError, ParameterError)):
        Campaign.open(tmp_path / where)
    with pytest.raises((StateFileError, ParameterError)):
        Campaign.create(tmp_path / where, problems()["topk"])


@pytest.mark.parametrize("policy", POLICIES)
def test_a_choice_that_fails_leaves_no_trace(path, monkeypatch, policy):
    campaign, twin = filled(path, policy=policy), Campaign.open(path)
    before = events(path)

    def fails(*_, **__):
        raise StateFileError("the disk is full")

    monkeypatch.setattr(campaign.store, "append", fails)
    with pytest.raises(StateFileError):
        campaign.ask()
    monkeypatch.undo()
    assert events(path) == before
    campaign.status()
    same_state(campaign, twin)
    assert campaign.ask(2) == twin.open_queries[-2:]


def test_every_event_says_when_and_by_whom(path):
    with pytest.raises(ParameterError, match="author must be a text"):
        Campaign.create(path, problems()["topk"], author="")
    campaign = Campaign.create(path, problems()["topk"], author="ann")
    campaign.tell(campaign.ask(), 1.0)
    Campaign.open(path, author="bob").observe("a", 0.5)
    Campaign.open(path).observe("a", 0.5)
    stored = [event for _, event in campaign.store.read().events]
    assert [event.get("by") for event in stored] == ["ann", "ann", "ann", "bob", None]
    times = [event["at"] for event in stored]
    assert times == sorted(times)
    assert abs(time.time() - times[0]) < 600

"""What campaigns ask and store; opening one restores its data and claims, and never chooses again."""

import time

import numpy as np
import pytest
from backends import events, slow_on_a_server
from cases import filled, measured, problems, same_state
from unit_problem import unit_problem

from combopeps import Box, Campaign, ComboPepsError, TopKOracle
from combopeps.campaign import copy
from combopeps.errors import StateFileError
from combopeps.io import Instance
from combopeps.policies.registry import POLICIES

PROBLEM = unit_problem(TopKOracle(["a", "b", "c", "d", "e", "f"], k=2), noise_std=1.0)
CHOOSING = ["top-two", "greedy", "peps", "lingame", "lingape", "clucb", "uniform"]
STEPS = [(name, policy) for name in problems() for policy in ("top-two", "peps")]


@pytest.fixture
def path(place):
    return place()


def value(query):
    return float(np.sin(1.0 + 3 * query.id + 7 * query.arm))


def campaign_at(path, **options):
    """A campaign in which some queries of several asks are open, told late, or abandoned."""
    campaign = Campaign.create(path, PROBLEM, **options)
    for _ in range(3):
        first, second, *rest = campaign.ask(5)
        campaign.tell_many((query, value(query)) for query in rest)
        campaign.ask()
        campaign.tell(first, value(first))
        campaign.abandon(second)
    campaign.observe("c", 0.25)
    campaign.ask(2)
    return campaign


@slow_on_a_server
@pytest.mark.parametrize(("name", "policy"), [*STEPS, ("box", "doubling-peps")])
def test_a_campaign_reopened_at_any_step_has_the_same_data_and_claims(place, name, policy):
    box = unit_problem(TopKOracle(5, k=1), space=Box(0.0, 3.0))
    straight = Campaign.create(place("one"), {"box": box, **problems()}[name], policy=policy, rng=5)
    for step in range(12):
        for query in straight.ask(1 + step % 3):
            straight.tell(query, measured(query))
            same_state(straight, Campaign.open(place("one")))
        if step % 4 == 0:
            straight.status()
    copy(place("one"), place("two"))
    same_state(straight, Campaign.open(place("two")))


@slow_on_a_server
@pytest.mark.parametrize("policy", ["top-two", "greedy"])
@pytest.mark.parametrize(
    "options", [{}, {"initial_design": 3}, {"stopping": "certified"}], ids=["", "initial_design", "certified"]
)
def test_a_reopened_campaign_with_a_memoryless_policy_asks_the_same(place, policy, options):
    campaign = campaign_at(place("run.db"), policy=policy, **options)
    copy(place("run.db"), place("copy.db"))
    again = Campaign.open(place("copy.db"))
    for n in (1, 4, 2):
        assert campaign.ask(n) == again.ask(n)
    again = Campaign.open(place("copy.db"))
    assert campaign.ask(3) == again.ask(3)


@slow_on_a_server
@pytest.mark.parametrize("stopping", ["posterior", "certified", "verified"])
@pytest.mark.parametrize("policy", CHOOSING)
def test_opening_never_chooses_again(place, monkeypatch, policy, stopping):
    """Neither the policy chooses, nor does the rule look, whatever had to be read: all events, or a checkpoint's rest."""
    campaign = campaign_at(place("run.db"), policy=policy, stopping=stopping)

    def fails(*_):
        raise AssertionError("decided again")

    with monkeypatch.context() as patch:
        for name in ("choose", "weigh", "next_arms", "next_actions"):
            patch.setattr(POLICIES[policy], name, fails)
        patch.setattr(type(campaign.rule), "check", fails)
        again = Campaign.open(place("run.db"))
        assert again.open_queries == campaign.open_queries
        assert again.measurements() == campaign.measurements()
        np.testing.assert_array_equal(again.posterior.theta_hat, campaign.posterior.theta_hat)
        with pytest.raises(AssertionError, match="decided again"):  # the control
            again.ask(20)
    same_state(again, campaign)


@pytest.mark.parametrize("policy", ["uniform", "lingame", "peps", "top-two", "greedy"])
def test_a_campaign_opened_anew_for_every_query_asks_what_an_uninterrupted_one_asks(tmp_path, policy):
    """With a checkpoint after each choice where, and only where, a policy learns from these."""
    long, short = (Campaign.create(tmp_path / f"{name}.db", PROBLEM, policy=policy) for name in ("long", "short"))
    for _ in range(30):
        short = Campaign.open(short.path)
        queries = [each.ask() for each in (long, short)]
        assert queries[0] == queries[1]
        if short.policy.learns_from_choices:
            short.save_checkpoint()
            short = Campaign.open(short.path)
        for each in (long, short):
            each.tell(queries[0], value(queries[0]))
        if short.policy.learns_from_choices:
            short.save_checkpoint()


def test_queries_differ_by_seed_and_by_number(tmp_path):
    """All are asked for at once, from one posterior: with the same random numbers all arms would be the same."""
    runs = [Campaign.create(tmp_path / str(seed), problems()["topk"], rng=seed).ask(40) for seed in range(4)]
    assert len({tuple(query.arm for query in run[:12]) for run in runs}) == 4
    assert all(len({query.arm for query in run}) == 5 for run in runs)


def test_a_initial_design_is_decided_by_the_seed_and_the_events(place):
    one = Campaign.create(place("one.db"), PROBLEM, rng=5, initial_design=True)
    two = Campaign.open(place("one.db"))
    assert one.initial_design == two.initial_design == 1
    one.observe("d", 0.5)
    labels = [(one, two)[k % 2].ask().label for k in range(5)]
    assert sorted(labels) == ["a", "b", "c", "e", "f"]
    other = Campaign.create(place("other.db"), PROBLEM, rng=5, initial_design=True)
    order = [query.label for query in other.ask(6)]
    assert [label for label in order if label != "d"] == labels
    third = Campaign.create(place("third.db"), PROBLEM, rng=6, initial_design=True)
    assert order != [query.label for query in third.ask(6)]
    two.abandon(two.open_queries[1])
    assert one.ask().label == labels[1]


@pytest.mark.parametrize(
    "options",
    [{"policy": "best"}, {"policy": 3}, {"delta": 0.0}, {"delta": "0.1"}, {"delta": float("nan")}, {"rng": -1},
     {"rng": 1.5}, {"rng": True}, {"stopping": "never"}, {"stopping": None}, {"stopping": "budget"},
     {"policy": "doubling-peps"}, {"initial_design": -2}, {"author": ""}, {"timeout": -1}, {"epsilon": -1.0},
     {"epsilon": float("nan")}, {"epsilon": float("inf")}, {"epsilon": "0.1"}, {"epsilon": None}],
    ids=str,
)  # fmt: skip
def test_invalid_options_are_refused_before_a_file_is_created(tmp_path, options):
    with pytest.raises(ComboPepsError):
        Campaign.create(tmp_path / "run.db", problems()["topk"], **options)
    assert list(tmp_path.iterdir()) == []


def test_options_and_fields_that_are_not_used_are_not_stored(tmp_path):
    filled(tmp_path / "run.db")
    assert set(events(tmp_path / "run.db")[0]) == {
        "kind", "schema", "problem", "policy", "delta", "stopping", "seed", "versions",
    }  # fmt: skip
    text = str(events(tmp_path / "run.db"))
    assert not any(f"'{word}'" in text for word in ("client", "until", "lease", "key", "action", "part_cost", "sems"))
    campaign = Campaign.open(tmp_path / "run.db")
    assert (campaign.epsilon, campaign.initial_design, campaign.actions, campaign.status().actions) == (
        0.0,
        0,
        None,
        None,
    )


def test_the_truth_of_an_instance_is_not_stored(path):
    Campaign.create(path, Instance("secret", problems()["topk"], theta=[0.125, 0.25, 0.375, 0.4375, 0.75]))
    header = events(path)[0]
    assert header["problem"]["theta"] is None
    assert header["problem"]["name"] == "secret"
    assert header["versions"].keys() == {"combopeps", "numpy", "python"}


@pytest.mark.parametrize("policy", ["top-two", "peps"])
def test_a_choice_that_cannot_be_stored_changes_nothing(path, monkeypatch, policy):
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


def test_every_event_has_its_time_and_author(path):
    campaign = Campaign.create(path, problems()["topk"], author="ann")
    campaign.tell(campaign.ask(), 1.0)
    Campaign.open(path, author="bob").observe("a", 0.5)
    Campaign.open(path).observe("a", 0.5)
    stored = [event for _, event in campaign.store.read().events]
    assert [event.get("by") for event in stored] == ["ann", "ann", "ann", "bob", None]
    times = [event["at"] for event in stored]
    assert times == sorted(times)
    assert abs(time.time() - times[0]) < 600

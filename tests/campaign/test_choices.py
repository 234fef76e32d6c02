"""What campaigns ask: open queries and a first sweep count, and opening one never chooses again."""

import json

import numpy as np
import pytest
from backends import events, slow_on_a_server
from cases import same_state
from unit_problem import unit_problem

from combopeps import Campaign, TopKOracle
from combopeps.campaign import copy, records
from combopeps.campaign.store import SCHEMA
from combopeps.cli import main
from combopeps.errors import ParameterError
from combopeps.policies.base import Fantasies
from combopeps.policies.registry import POLICIES as CLASSES
from combopeps.session import state

PROBLEM = unit_problem(TopKOracle(["a", "b", "c", "d", "e", "f"], k=2), noise_std=1.0)
POLICIES = ["top-two", "greedy", "peps", "lingame", "lingape", "clucb", "uniform"]
MEMORYLESS = ["top-two", "greedy"]


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
@pytest.mark.parametrize("policy", MEMORYLESS)
@pytest.mark.parametrize("options", [{}, {"sweep": 3}, {"stopping": "certified"}], ids=["", "sweep", "certified"])
def test_a_reopened_campaign_asks_the_same(place, policy, options):
    campaign = campaign_at(place("run.db"), policy=policy, **options)
    copy(place("run.db"), place("copy.db"))
    again = Campaign.open(place("copy.db"))
    for n in (1, 4, 2):
        assert campaign.ask(n) == again.ask(n)
    again = Campaign.open(place("copy.db"))
    assert campaign.ask(3) == again.ask(3)


@slow_on_a_server
@pytest.mark.parametrize("stopping", ["posterior", "certified", "verified"])
@pytest.mark.parametrize("policy", POLICIES)
def test_opening_never_chooses_again(place, monkeypatch, policy, stopping):
    """Neither the policy chooses, nor does the rule look, whatever had to be read: all events, or a checkpoint's rest."""
    campaign = campaign_at(place("run.db"), policy=policy, stopping=stopping)

    def fails(*_):
        raise AssertionError("decided again")

    with monkeypatch.context() as patch:
        for name in ("choose", "weigh", "next_arms", "next_actions"):
            patch.setattr(CLASSES[policy], name, fails)
        patch.setattr(type(campaign.rule), "check", fails)
        again = Campaign.open(place("run.db"))
        assert again.open_queries == campaign.open_queries
        same_results(again, campaign)
        with pytest.raises(AssertionError, match="decided again"):  # the control
            again.ask(20)
    same_state(again, campaign)


@pytest.mark.parametrize("policy", ["uniform", "lingame", "peps", "top-two", "greedy"])
def test_a_campaign_that_is_opened_for_every_query_goes_on(tmp_path, policy):
    """With a checkpoint after each choice where a policy learns from these, it asks what an uninterrupted one asks."""
    long, short = (Campaign.create(tmp_path / f"{name}.db", PROBLEM, policy=policy) for name in ("long", "short"))
    for _ in range(30):
        short = Campaign.open(short.path)
        queries = [each.ask() for each in (long, short)]
        assert queries[0] == queries[1]
        short.save_checkpoint()
        short = Campaign.open(short.path)
        for each in (long, short):
            each.tell(queries[0], value(queries[0]))
        short.save_checkpoint()


def test_policies_without_a_learner_need_no_checkpoint(tmp_path):
    path = tmp_path / "run.db"
    Campaign.create(path, PROBLEM, policy="uniform")
    for _ in range(24):
        campaign = Campaign.open(path)
        campaign.tell(campaign.ask(), 1.0)
    assert set(campaign.status().pulls.values()) == {4}


@pytest.mark.parametrize(("policy", "learns"), [("lingame", True), ("uniform", False)])
def test_the_command_line_keeps_what_a_policy_learns(tmp_path, capsys, policy, learns):
    path = tmp_path / "run.db"
    campaign = Campaign.create(path, PROBLEM, policy=policy)
    assert main(["ask", "--state", str(path)]) == 0
    assert (campaign.store.checkpoint() is not None) == learns
    capsys.readouterr()


def same_results(one, other):
    assert one.measurements() == other.measurements()
    assert (one.samples, one.open_queries, one.leases) == (other.samples, other.open_queries, other.leases)
    np.testing.assert_array_equal(one.belief.theta_hat, other.belief.theta_hat)


def test_open_queries_are_not_asked_for_again(tmp_path, monkeypatch):
    """Thirty items that look alike: fewer of them are asked for twice where open queries count."""

    def repeated(name):
        campaign = Campaign.create(tmp_path / name, unit_problem(TopKOracle(30, k=1), noise_std=0.1))
        return 30 - len({campaign.ask().arm for _ in range(30)})

    aware = repeated("aware.db")

    class Blind(Fantasies):
        def __init__(self, policy, arms):
            super().__init__(policy, ())

        def add(self, arms):
            pass

    monkeypatch.setattr(state, "Fantasies", Blind)
    assert aware < repeated("blind.db")


def test_a_sweep_is_decided_by_the_seed_and_the_events(place):
    one = Campaign.create(place("one.db"), PROBLEM, rng=5, sweep=True)
    two = Campaign.open(place("one.db"))
    assert one.sweep == two.sweep == 1
    one.observe("d", 0.5)
    labels = [(one, two)[k % 2].ask().label for k in range(5)]
    assert sorted(labels) == ["a", "b", "c", "e", "f"]
    other = Campaign.create(place("other.db"), PROBLEM, rng=5, sweep=True)
    order = [query.label for query in other.ask(6)]
    assert [label for label in order if label != "d"] == labels
    third = Campaign.create(place("third.db"), PROBLEM, rng=6, sweep=True)
    assert order != [query.label for query in third.ask(6)]
    two.abandon(two.open_queries[1])
    assert one.ask().label == labels[1]


def test_a_header_without_a_sweep_is_as_before(tmp_path):
    Campaign.create(tmp_path / "run.db", PROBLEM)
    assert "sweep" not in events(tmp_path / "run.db")[0]
    assert Campaign.open(tmp_path / "run.db").sweep == 0


@pytest.mark.parametrize("sweep", [0, -1, 1.5, True, "1"])
def test_a_wrong_sweep_in_a_header_is_refused(sweep):
    header = {"kind": "campaign", "schema": SCHEMA, "problem": {}, "policy": "top-two", "delta": 0.05, "seed": 0}
    with pytest.raises(ValueError, match="sweep must be an integer of at least 1"):
        records.check_header({**header, "stopping": "posterior", "versions": {}, "sweep": sweep})


def test_nothing_is_stored_when_the_sweep_is_refused(tmp_path):
    with pytest.raises(ParameterError, match="sweep must be True"):
        Campaign.create(tmp_path / "run.db", PROBLEM, sweep=-2)
    assert not (tmp_path / "run.db").exists()


def test_on_the_command_line(tmp_path, capsys):
    state = str(tmp_path / "run.db")
    assert main(["init", "town", "--state", state, "--sweep", "2", "--json"]) == 0
    arms = json.loads(capsys.readouterr().out)["arms"]
    assert main(["ask", "--state", state, "-n", str(2 * arms), "--json"]) == 0
    labels = [tuple(query["label"]) for query in json.loads(capsys.readouterr().out)["queries"]]
    assert {labels.count(label) for label in labels} == {2}
    assert len(set(labels)) == arms
    assert main(["solve", "town", "--sweep", "3", "--json"]) in (0, 3)
    assert min(count for _, count in json.loads(capsys.readouterr().out)["pulls"]) >= 3

"""Campaigns choose with open queries in mind, and by a first sweep: always a function of the events."""

import json

import numpy as np
import pytest
from backends import events, slow_on_a_server
from unit_problem import unit_problem

from combopeps import Campaign, ParameterError, TopKOracle
from combopeps.campaign import copy, records, state
from combopeps.campaign.store import SCHEMA
from combopeps.cli import main
from combopeps.policies.pending import Pending

PROBLEM = unit_problem(TopKOracle(["a", "b", "c", "d", "e", "f"], k=2), noise_std=1.0)
POLICIES = ["top-two", "peps", "lingame", "lingape", "clucb", "uniform"]
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
def test_reopened_it_goes_on_the_same(place, policy, options):
    campaign = campaign_at(place("run.db"), policy=policy, **options)
    copy(place("run.db"), place("copy.db"))
    again = Campaign.open(place("copy.db"))
    assert again.status().next == campaign.status().next == campaign.status().next
    for n in (1, 4, 2):
        assert campaign.ask(n) == again.ask(n)
    again = Campaign.open(place("copy.db"))
    assert campaign.ask(3) == again.ask(3)


@slow_on_a_server
@pytest.mark.parametrize("policy", POLICIES)
def test_the_preview_is_what_comes(place, policy):
    campaign = campaign_at(place("run.db"), policy=policy)
    for _ in range(4):
        wanted = campaign.status().next
        assert campaign.ask().label == wanted


def test_open_queries_are_not_asked_for_again(tmp_path, monkeypatch):
    """Thirty items that look alike: whoever knows what is under way asks for fewer of them twice."""

    def repeated(name):
        campaign = Campaign.create(tmp_path / name, unit_problem(TopKOracle(30, k=1), noise_std=0.1))
        return 30 - len({campaign.ask().arm for _ in range(30)})

    aware = repeated("aware.db")

    class Blind(Pending):
        def __init__(self, policy, arms):
            super().__init__(policy, ())

        def add(self, arm):
            pass

    monkeypatch.setattr(state, "Pending", Blind)
    assert aware < repeated("blind.db")


def test_a_sweep_is_decided_by_the_seed_and_the_lines(place):
    one = Campaign.create(place("one.db"), PROBLEM, seed=5, sweep=True)
    two = Campaign.open(place("one.db"))
    assert one.sweep == two.sweep == 1
    one.observe("d", 0.5)
    labels = [(one, two)[k % 2].ask().label for k in range(5)]
    assert sorted(labels) == ["a", "b", "c", "e", "f"]
    other = Campaign.create(place("other.db"), PROBLEM, seed=5, sweep=True)
    order = [query.label for query in other.ask(6)]
    assert [label for label in order if label != "d"] == labels
    third = Campaign.create(place("third.db"), PROBLEM, seed=6, sweep=True)
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
    with pytest.raises(ValueError, match="sweep must be a whole number"):
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

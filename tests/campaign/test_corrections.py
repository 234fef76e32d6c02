"""Corrections and retractions in campaigns: events with a time and an author, which the stopping rule takes in."""

import csv

import numpy as np
import pytest
from backends import events
from cases import filled, same_state
from test_campaign_verified import at_work, ended, requests_of, topk
from unit_problem import unit_problem

from combopeps import Campaign, TopKOracle
from combopeps.campaign import check, copy, export
from combopeps.errors import NoiseWarning


@pytest.fixture
def path(place):
    return place()


def test_every_correction_is_an_event_with_a_time_and_an_author(path):
    campaign = filled(path)
    first, second, *_, observed = campaign.measurements()
    assert observed.query is None
    Campaign.open(path, author="ann").correct(first.event, 1.5)
    Campaign.open(path, author="bob").correct(observed.event, 2.0, sem=0.25)
    Campaign.open(path, author="eve").retract(second.event)
    assert events(path)[-3:] == [
        {"kind": "correct", "event": first.event, "ys": [1.5]},
        {"kind": "correct", "event": observed.event, "ys": [2.0], "sems": [0.25]},
        {"kind": "retract", "event": second.event},
    ]
    stored = [event for _, event in campaign.store.read().events]
    assert [event["by"] for event in stored[-3:]] == ["ann", "bob", "eve"]
    assert stored[-1]["at"] >= stored[-2]["at"] >= stored[0]["at"]
    assert campaign.status().corrections == Campaign.open(path).status().corrections == 3
    assert campaign.samples == 4
    assert [one.retracted for one in campaign.measurements()] == [False, True, False, False, False]
    assert campaign.measurements() == Campaign.open(path).measurements()
    same_state(campaign, Campaign.open(path))
    assert check(path).faults == []


def test_corrected_campaigns_are_copied_exported_and_saved_in_checkpoints(place, tmp_path):
    campaign = filled(place("one.db"))
    first, second, *_ = campaign.measurements()
    campaign.correct(first.event, 1.5, sem=0.5)
    campaign.retract(second.event)
    campaign.save_checkpoint()
    campaign.ask()
    copy(place("one.db"), place("two.db"))
    same_state(Campaign.open(place("one.db")), Campaign.open(place("two.db")))  # by a checkpoint, by all events
    export(place("one.db"), tmp_path / "out.csv")
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert [int(row["event"]) for row in rows] == [one.event for one in campaign.measurements() if not one.retracted]
    assert (rows[0]["value"], rows[0]["sem"]) == ("1.5", "0.5")


def in_proof(campaign):
    """Events with results that the proof under way, or the one that is complete, rests on."""
    results = campaign.state_dict()["ledger"]["results"]
    return results["event"][results["in_proof"]].tolist()


def attempted(path):
    """A campaign with a proof under way on results of several epochs."""
    campaign = Campaign.create(path, topk(), stopping="verified", delta=0.1, policy="top-two")
    at_work(campaign, epochs=2)
    assert len(in_proof(campaign)) > 4
    return campaign


@pytest.mark.parametrize("act", ["correct", "retract"])
def test_a_correction_of_a_result_in_a_proof_gives_the_proof_up(place, act):
    """What is left of delta proves the answer on new results."""
    campaign = attempted(place())
    other, before = Campaign.open(place()), campaign.rule.state_dict()
    event = in_proof(campaign)[0]
    other.correct(event, 0.5) if act == "correct" else other.retract(event)
    campaign.samples  # noqa: B018, reads it
    for each in (campaign, other, Campaign.open(place())):
        state = each.rule.state_dict()
        assert each.rule.proof is None
        assert (state["attempt"], state["placed"]) == (None, [])
        assert (state["left"], state["attempts"]) == (before["left"], before["attempts"])
        assert requests_of(each).fresh.samples == 0
        assert not requests_of(each).outstanding
        assert in_proof(each) == []
    assert before["left"] < 0.1 * 0.98
    status = ended(campaign)
    assert status.answer == {"a"}
    assert "1 result was corrected or retracted" in status.claim
    assert campaign.rule.state_dict()["left"] < before["left"]
    same_state(campaign, Campaign.open(place()))


@pytest.mark.parametrize("act", ["correct", "retract"])
def test_a_correction_of_a_result_in_a_complete_proof_takes_the_claim_back(tmp_path, act):
    campaign = Campaign.create(tmp_path / "run.db", topk(), stopping="verified", policy="top-two")
    ended(campaign)
    campaign.look()
    assert campaign.verdict.stop
    event = in_proof(campaign)[-1]
    if act == "correct":
        campaign.correct(event, campaign.measurements()[-1].y + 0.01)
    else:
        campaign.retract(event)
    for each in (campaign, Campaign.open(tmp_path / "run.db")):
        assert not each.status().stop
        assert each.status().claim == ""
    assert ended(campaign).answer == {"a"}


def test_a_correction_of_another_result_leaves_the_proof(tmp_path):
    campaign = attempted(tmp_path / "run.db")
    campaign.observe("c", 0.5)
    known = campaign.rule.state_dict()
    others = [one.event for one in campaign.measurements() if one.event not in set(in_proof(campaign))]
    campaign.correct(others[0], 0.25)
    campaign.retract(others[-1])  # of the observation
    state = campaign.rule.state_dict()
    for name in ("attempt", "placed", "attempts", "left"):
        np.testing.assert_equal(state[name], known[name])
    same_state(campaign, Campaign.open(tmp_path / "run.db"))
    status = ended(campaign)
    assert "2 results were corrected or retracted" in status.claim
    event = [one.event for one in campaign.measurements() if one.event not in set(in_proof(campaign))][1]
    campaign.correct(event, 0.125)
    assert campaign.status().stop
    assert "3 results were" in Campaign.open(tmp_path / "run.db").status().claim


@pytest.mark.parametrize("stopping", ["certified", "clucb"])
def test_certificates_hold_the_corrected_results(tmp_path, stopping):
    """A misprint that is corrected leaves the campaign as certain as the right results are."""
    truth = {"a": 0.0, "b": 3.0, "c": 1.0}
    problem = unit_problem(TopKOracle(truth, k=1), prior_std=3.0)
    made, right = (Campaign.create(tmp_path / f"{name}.db", problem, stopping=stopping, delta=0.3) for name in "mr")
    rows = list(truth.items()) * 60
    right.observe_table(rows)
    with pytest.warns(NoiseWarning, match="No claim holds"):
        made.observe_table([*rows[:60], ("a", -40.0), *rows[61:]], confirm=True)
    made.correct(made.measurements()[60].event, truth["a"])
    np.testing.assert_allclose(made.posterior.theta_hat, right.posterior.theta_hat, rtol=1e-12)
    ours, theirs = made.status(), right.status()
    assert ours.stop
    assert (ours.answer, ours.stop, ours.warning) == (theirs.answer, theirs.stop, theirs.warning)
    assert ours.claim.startswith(theirs.claim)
    same_state(made, Campaign.open(tmp_path / "m.db"))

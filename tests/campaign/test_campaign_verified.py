"""Verified campaigns: only results of requested measurements are fresh, in any order, and all follows from the events."""

import multiprocessing

import networkx as nx
import numpy as np
import pytest
from backends import events, slow_on_a_server
from cases import same_state
from unit_problem import unit_problem

from combopeps import Campaign, ExplicitOracle, KnapsackOracle, MatchingOracle, ShortestPathOracle, TopKOracle
from combopeps.campaign import copy
from combopeps.errors import ParameterError
from combopeps.oracles import constrained_argmax as listing
from combopeps.stopping import verified
from combopeps.stopping.certificates.e_process import BettingAttempt
from combopeps.stopping.certificates.fixed_plan import FixedPlan

TRUTH = np.array([1.5, 0.0, 0.8, -0.5])


def topk():
    return unit_problem(TopKOracle(["a", "b", "c", "d"], k=1), prior_std=3.0)


def value(query, truth=TRUTH):
    """Depends on the query alone, so that interrupted and uninterrupted campaigns get the same results."""
    return float(truth[query.arm] + np.random.default_rng([5, query.id, query.arm]).normal())


def measure(campaign):
    query = campaign.ask()
    campaign.tell(query, value(query))


def attempt_of(campaign):
    return campaign.rule._attempt


def requests_of(campaign):
    return campaign.rule.requests


def at_work(campaign, epochs=1, most=600):
    """Go on until bets are under way, and so many epochs of them are over."""
    for _ in range(most):
        measure(campaign)
        attempt = attempt_of(campaign)
        if attempt is not None and attempt.lead.I.min() > 0.0:
            epochs -= 1
        if epochs <= 0:
            return attempt
    raise AssertionError("no bets")


def ended(campaign, most=3000, **options):
    while not campaign.status().stop:
        assert campaign.samples < most
        campaign.tell_many([(query, value(query, **options)) for query in campaign.ask(10)])
    return campaign.status()


def test_a_claim_does_not_change_with_later_results(place):
    campaign = Campaign.create(place("run.db"), topk(), stopping="verified")
    status = ended(campaign)
    assert status.answer == {"a"}
    assert "confirmed on fresh data" in status.claim
    measure(campaign)
    again = Campaign.open(place("run.db")).status()
    assert (again.stop, again.answer, again.claim) == (True, status.answer, status.claim)


@slow_on_a_server
@pytest.mark.parametrize("initial_design", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_a_campaign_reopened_at_any_time_asks_the_same(place, initial_design):
    """The second campaign is opened anew for every operation: every query is the same, and so is the state of the rule.

    The policy chooses by data alone. What PEPS has learnt on the way to its choices is as old as the last checkpoint.
    """
    options = {"policy": "top-two", "initial_design": initial_design, "stopping": "verified"}
    one = Campaign.create(place("one.db"), topk(), **options)
    Campaign.create(place("two.db"), topk(), **options)
    for i in range(40):
        two = Campaign.open(place("two.db"))
        first, second = one.ask(1 + i % 3), two.ask(1 + i % 3)
        assert first == second
        for query in reversed(first):
            if i % 7 == 3 and query is first[0]:
                one.abandon(query)
                two.abandon(query.id)
            else:
                one.tell(query, value(query))
                Campaign.open(place("two.db")).tell(query.id, value(query))
        if i % 10 == 9:
            one.observe("b", 0.3)
            two.observe("b", 0.3)
    two = Campaign.open(place("two.db"))
    same_state(one, two)
    mine, its = attempt_of(one), attempt_of(two)
    assert isinstance(mine, BettingAttempt)
    np.testing.assert_array_equal(mine.wanted, its.wanted)
    assert len(mine.placed) == len(its.placed) > 1
    for my_bet, its_bet in zip(mine.placed, its.placed, strict=True):
        for name in ("z_hat", "X", "I", "g0", "v0", "passed", "threshold"):
            np.testing.assert_array_equal(getattr(my_bet, name), getattr(its_bet, name), name)


def test_looks_of_the_rule_are_events(tmp_path):
    at_work(Campaign.create(tmp_path / "run.db", topk(), stopping="verified"))
    stored = events(tmp_path / "run.db")
    assert {event["kind"] for event in stored} == {"campaign", "ask", "tell", "look"}
    assert 1 < sum(event["kind"] == "look" for event in stored) < len(stored) / 4


def test_a_status_changes_nothing(tmp_path):
    """One of two twins is looked at after each step."""
    plain = Campaign.create(tmp_path / "plain.db", topk(), stopping="verified")
    watched = Campaign.create(tmp_path / "watched.db", topk(), stopping="verified")
    for _ in range(60):
        measure(plain)
        measure(watched)
        watched.status()
        watched.status()
    assert attempt_of(plain) is not None
    same_state(plain, watched)


def epoch_begun(tmp_path):
    """A campaign whose bets have just begun an epoch, of which one query is open."""
    campaign = Campaign.create(tmp_path / "run.db", topk(), stopping="verified")
    attempt = at_work(campaign)
    while requests_of(campaign).outstanding:
        measure(campaign)
    return campaign, attempt, campaign.ask()


def measure_requests(campaign):
    """Until all that the rule has requested is issued, and only the query of `epoch_begun` is open."""
    while requests_of(campaign).wanted:
        measure(campaign)


def finish_epoch(campaign):
    """Tell all results that the rule has requested; return them with their arms."""
    seen = []
    while requests_of(campaign).wanted:
        campaign.ask()
    for query in [query for query in campaign.open_queries if query.id in requests_of(campaign).state_dict()["open"]]:
        seen.append((query.arm, value(query)))
        campaign.tell(query, value(query))
    return seen


def test_only_results_of_requested_queries_are_bets(tmp_path):
    """Late results, and observations, go to the estimate: the bets are what the epoch's own results say."""
    campaign, attempt, first = epoch_begun(tmp_path)
    X, known, wanted = attempt.lead.X.copy(), attempt.lead.I.copy(), attempt.wanted.copy()
    campaign.observe("b", 6.0)
    campaign.observe("a", -4.0, sem=2.0)
    seen = finish_epoch(campaign)
    np.testing.assert_array_equal(np.bincount([arm for arm, _ in seen], minlength=4), wanted)
    assert not campaign.look().stop
    means = np.array([np.mean([y for arm, y in seen if arm == a] or [0.0]) for a in range(4)])
    counts = np.bincount([arm for arm, _ in seen], minlength=4)
    for f, row in enumerate(attempt.lead.rows.toarray()):
        support = np.flatnonzero(row)
        if (counts[support] == 0).any():
            assert attempt.lead.I[f] == known[f]
            continue
        width = float((1.0 / counts[support]).sum())
        if attempt.lead.I[f] != known[f]:  # it had not passed before
            assert attempt.lead.I[f] - known[f] == pytest.approx(1.0 / width)
            assert attempt.lead.X[f] - X[f] == pytest.approx(-row @ means / width)
    assert first.id not in requests_of(campaign).state_dict()["open"]


def test_an_epoch_waits_for_all_its_results_while_other_queries_are_issued(tmp_path):
    campaign, attempt, first = epoch_begun(tmp_path)
    before = attempt.lead.I.copy()
    measure_requests(campaign)
    others = campaign.ask(6)  # the policy's choices
    for query in others:
        campaign.tell(query, value(query))
    np.testing.assert_array_equal(attempt_of(campaign).lead.I, before)
    campaign.tell(first, value(first))
    campaign.ask()
    assert (before < attempt_of(campaign).lead.I).any()


def test_an_abandoned_query_is_asked_for_again(tmp_path):
    """Its epoch goes on with a result in its place; no share of delta is lost."""
    campaign, attempt, first = epoch_begun(tmp_path)
    before = attempt.lead.I.copy()
    measure_requests(campaign)
    campaign.abandon(first)
    again = campaign.ask()
    assert again.arm == first.arm
    np.testing.assert_array_equal(attempt_of(campaign).lead.I, before)
    campaign.tell(again, value(again))
    campaign.ask()
    assert (before < attempt_of(campaign).lead.I).any()
    assert campaign.rule.attempts == 1


def test_a_query_of_the_policy_is_never_fresh(tmp_path, monkeypatch):
    """Its result is told while an epoch is under way, in which its arm is wanted too."""
    campaign, _, first = epoch_begun(tmp_path)
    fresh = requests_of(campaign).fresh.counts.sum()
    campaign.tell(first, value(first))
    assert requests_of(campaign).fresh.counts.sum() == fresh + 1
    measure_requests(campaign)
    now = requests_of(campaign).fresh.counts.sum()
    assert campaign.due
    monkeypatch.setattr(Campaign, "_is_due", lambda self: False)
    query = campaign.ask()
    campaign.tell(query, 5.0)
    assert requests_of(campaign).fresh.counts.sum() == now


def work(path, seed):
    campaign, rng = Campaign.open(path, timeout=60.0), np.random.default_rng(seed)
    for _ in range(40):
        query = campaign.ask()
        if rng.random() < 0.1:
            campaign.abandon(query)
        else:
            campaign.tell(query, value(query))


@pytest.mark.slow
def test_two_processes_ask_and_tell_at_the_same_time(tmp_path):
    """Two that ask and tell at the same time, and one that reads it all afterwards and goes on as they would."""
    path = tmp_path / "run.db"
    mine = Campaign.create(path, topk(), stopping="verified")
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=work, args=(path, seed)) for seed in range(2)]
    for process in others:
        process.start()
    for process in others:
        process.join()
    assert [process.exitcode for process in others] == [0, 0]
    copy(path, tmp_path / "copy.db")
    again = Campaign.open(tmp_path / "copy.db")
    same_state(mine, again)
    assert mine.ask(5) == again.ask(5)


PROBLEMS = {
    "route": lambda: unit_problem(
        ShortestPathOracle(nx.DiGraph([(0, 1), (1, 3), (0, 2), (2, 3), (0, 3)]), 0, 3), prior_std=5.0
    ),
    "matching": lambda: unit_problem(MatchingOracle(3, 3), prior_std=5.0),
    "knapsack": lambda: unit_problem(KnapsackOracle([2, 3, 4, 5], 8), prior_std=5.0),
    "explicit": lambda: unit_problem(
        ExplicitOracle(np.eye(3)), np.array([[1.0, 1, 0], [0, 1, 1], [1, 0, 1]]), prior_std=5.0
    ),
}


@pytest.mark.parametrize("kind", PROBLEMS)
def test_routes_matchings_knapsacks_and_listed_sets_are_verified(tmp_path, kind):
    """Far gaps: they end, with the best answer."""
    problem = PROBLEMS[kind]()
    theta = 5.0 * np.sin(2.0 + np.arange(problem.oracle.dim))
    means = problem.arms.dot(theta)
    campaign = Campaign.create(tmp_path / "run.db", problem, stopping="verified", delta=0.1)
    status = ended(campaign, truth=means)
    np.testing.assert_array_equal(status.z, problem.oracle.argmax(theta))


def test_a_plan_for_a_set_that_cannot_be_listed_survives_reopening(tmp_path, monkeypatch):
    """Sets that cannot be listed: reopened again and again, a plan is kept to, and ends with the claim."""
    monkeypatch.setattr(verified, "rival_rows", lambda *_: None)
    monkeypatch.setattr(listing, "can_list", lambda oracle: False)
    Campaign.create(tmp_path / "run.db", topk(), stopping="verified", delta=0.2)
    kinds = set()
    while not (campaign := Campaign.open(tmp_path / "run.db")).status().stop:
        assert campaign.samples < 2000
        for query in campaign.ask(5):
            campaign.tell(query, value(query))
        campaign.observe("d", 0.0)
        kinds.add(type(attempt_of(campaign)))
    assert FixedPlan in kinds
    assert BettingAttempt not in kinds
    assert campaign.status().answer == {"a"}


def test_verification_of_actions_is_refused_with_the_cure(tmp_path):
    problem = unit_problem(MatchingOracle(3, 3), actions="answers")
    with pytest.raises(ParameterError, match='stopping="certified"'):
        Campaign.create(tmp_path / "run.db", problem, stopping="verified")
    assert not (tmp_path / "run.db").exists()


@pytest.mark.slow
def test_opening_thousands_of_results_takes_seconds(tmp_path):
    """Looks are few: opening 5,000 results takes at most six times what a posterior campaign of the same lines takes,
    and a second."""
    from time import perf_counter

    problem = unit_problem(TopKOracle(8, k=2))
    truth, seconds = np.linspace(0.3, 0.0, 8), {}
    for stopping in ("posterior", "verified"):
        path = tmp_path / f"{stopping}.db"
        campaign = Campaign.create(path, problem, stopping=stopping)
        for _ in range(1000):
            campaign.tell_many([(query, value(query, truth)) for query in campaign.ask(5)])
        start = perf_counter()
        Campaign.open(path)
        seconds[stopping] = perf_counter() - start
    assert seconds["verified"] < 6 * seconds["posterior"] + 1.0

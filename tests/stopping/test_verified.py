"""`VerifiedRule` step by step: its allocation is fixed, and it speaks of no other answer than the one it fixed."""

from dataclasses import replace

import numpy as np
import pytest

from combopeps import Problem, TopKOracle, TopTwo, VerifiedRule, identify
from combopeps.certificates import bets
from combopeps.run.look import View
from combopeps.stopping import verified


def situation(policy, doubt=0.0, seed=0):
    """The policy's moment without a prior, with this doubt about its answer."""
    flat = View(policy, seed).situation.without_prior()
    flat = replace(flat, doubt=lambda: doubt)
    return replace(flat, flat=lambda: flat)


def explored(values=(1.0, 0.0), each=5):
    policy = TopTwo(Problem(TopKOracle(len(values), k=1)), 0)
    for arm, value in enumerate(values):
        for _ in range(each):
            policy.learn(arm, value)
    return policy


def feed(policy, arms, values):
    for arm in arms.tolist():
        policy.learn(arm, values[arm])


@pytest.fixture
def by_plan(monkeypatch):
    """As if rivals could not be listed."""
    monkeypatch.setattr(verified, "rival_rows", lambda *_: None)
    monkeypatch.setattr(verified, "list_answers", lambda *_: None)


def test_it_waits_for_exploration():
    rule = VerifiedRule(0.05, explore=0.2)
    verdict = rule.check(situation(explored(), doubt=0.3))
    assert (verdict.stop, verdict.sample_next, rule.attempts) == (False, None, 0)


def test_fresh_data_that_agree_end_it():
    policy, rule = explored(), VerifiedRule(0.05)
    verdict = rule.check(situation(policy))
    assert rule.attempts == 1
    while not verdict.stop:
        feed(policy, verdict.sample_next, [1.0, 0.0])
        verdict = rule.check(situation(policy))
    assert rule.attempts == 1


def test_old_data_do_not_count():
    """A lead of the old data alone is never confirmed by fresh data without one."""
    policy, rule = explored((0.5, 0.0), each=20), VerifiedRule(0.05)
    verdict = rule.check(situation(policy))
    for _ in range(12):
        assert not verdict.stop
        feed(policy, verdict.sample_next, [1.0, 1.0])
        verdict = rule.check(situation(policy))


def test_a_certificate_of_the_run_ends_what_verification_would_not(monkeypatch):
    """Bets that never win: the run ends all the same, by what it has measured itself."""
    monkeypatch.setattr(bets.Bet, "log_evidence", lambda self: np.full(len(self.X), -1.0))
    policy, rule = explored(), VerifiedRule(0.05)
    verdict = rule.check(situation(policy))
    while not verdict.stop:
        feed(policy, verdict.sample_next, [1.0, 0.0])
        verdict = rule.check(situation(policy))
    assert "certified on all data of the run" in verdict.claim
    assert policy.samples < 200


def test_history_does_not_count_for_that_certificate(monkeypatch):
    monkeypatch.setattr(bets.Bet, "log_evidence", lambda self: np.full(len(self.X), -1.0))
    policy, rule = explored((9.0, 0.0), each=2000), VerifiedRule(0.05)
    verdict = rule.check(situation(policy))
    for _ in range(20):
        assert not verdict.stop
        feed(policy, verdict.sample_next, [0.0, 0.0])
        verdict = rule.check(situation(policy))


def test_something_else_measured_voids_a_plan(by_plan):
    policy, rule = explored(), VerifiedRule(0.05)
    verdict = rule.check(situation(policy))
    feed(policy, verdict.sample_next, [5.0, 0.0])
    policy.observe(0, 5.0)
    verdict = rule.check(situation(policy))
    assert not verdict.stop
    assert rule.attempts == 2


def test_something_else_measured_voids_an_epoch_of_bets():
    policy, rule = explored(), VerifiedRule(0.05)
    verdict = rule.check(situation(policy))
    feed(policy, verdict.sample_next, [5.0, 0.0])
    policy.observe(0, 5.0)
    verdict = rule.check(situation(policy))
    assert not verdict.stop
    assert rule.attempts == 1
    assert all((bet.I == 0.0).all() for bet in rule._attempt.placed)
    while not verdict.stop:
        feed(policy, verdict.sample_next, [5.0, 0.0])
        verdict = rule.check(situation(policy))
    assert rule.attempts == 1


@pytest.mark.parametrize("values", [[30.0, 10.0], [5.0, -5.0]])
def test_the_claim_is_about_the_answer_that_was_fixed(values):
    """Fresh data favour item 0; in the first case all data together favour item 1."""
    policy, rule = explored((0.0, -5.0), each=1), VerifiedRule(0.05)
    for _ in range(1000):
        policy.learn(0, 0.0)
    assert policy.z_hat()[0][0] == 1.0
    verdict = rule.check(situation(policy))
    while not verdict.stop:
        assert rule.attempts == 1
        feed(policy, verdict.sample_next, values)
        verdict = rule.check(situation(policy))
    assert verdict.z[0] == 1.0


def test_attempts_share_delta():
    policy, rule, spent = explored(), VerifiedRule(0.05), 0.0
    for _ in range(6):
        before = rule._left
        rule._begin(situation(policy))
        spent += before - rule._left
    assert spent <= 0.05
    assert rule._left > 0


@pytest.mark.parametrize("seed", range(4))
def test_the_loop_does_not_disturb_a_plan(seed, by_plan):
    """Counts at the looks are the planned ones: every attempt that began is looked at."""
    looked, began = [], []

    class Watched(VerifiedRule):
        def _begin(self, situation):
            began.append(1)
            return super()._begin(situation)

        def _go_on(self, situation, attempt):
            fresh = (situation.data - attempt.start).counts
            looked.append(np.array_equal(fresh, attempt.counts[attempt._look]))
            return super()._go_on(situation, attempt)

    noise = np.random.default_rng(seed)
    truth = [0.3, 0.0, -0.2]
    identify(TopKOracle(3, k=1), lambda i: truth[i] + noise.normal(), stopping=Watched(0.05), budget=3000, rng=seed)
    assert began
    assert all(looked)


def test_a_short_attempt_late_in_a_run_is_not_disturbed():
    """After 2,000 measurements looks are 200 apart, far more than the attempt needs: it is not topped up by the policy."""
    problem, noise = Problem(TopKOracle(2, k=1)), np.random.default_rng(0)
    truth, rule = [1.0, 0.0], VerifiedRule(0.05)
    explored = identify(problem, lambda i: truth[i] + noise.normal(), stopping="budget", budget=2000)
    result = identify(problem, lambda i: truth[i] + noise.normal(), stopping=rule, policy=explored.policy, budget=600)
    assert result.stop_reason == "verified"
    assert result.samples < 2150

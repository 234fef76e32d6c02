"""`VerifiedRule` step by step: its allocation is fixed, and it speaks of no other answer than the one it fixed."""

from dataclasses import replace
from itertools import count, pairwise

import numpy as np
import pytest
from unit_problem import unit_problem
from unlisted import Unlisted

from combopeps import TopKOracle, TopTwo, VerifiedRule, identify
from combopeps.stopping import View


def view(policy, error_probability=0.0, seed=0):
    """The policy's moment without a prior, at which its answer is wrong with this probability."""
    flat = View(policy, seed).without_prior()
    flat.error_probability, flat.without_prior = (lambda epsilon=0.0: error_probability), (lambda: flat)
    return flat


def explored(values=(1.0, 0.0), each=5, prior_std=1.0, hidden=lambda oracle: oracle):
    policy = TopTwo(unit_problem(hidden(TopKOracle(len(values), k=1)), prior_std=prior_std), 0)
    for arm, value in enumerate(values):
        for _ in range(each):
            policy.learn(arm, value)
    return policy


def begun(rule, policy):
    """The rule, for the problem of a policy."""
    rule.check_problem(policy.problem)
    return rule


IDS = count()


def measure(policy, rule, arm, y, sem=None):
    """A query for this arm, and its result."""
    id = next(IDS)
    rule.requests.issue(id, arm)
    rule.requests.answer(id, arm, y, sem, 1)
    policy.learn(arm, y, 1.0 if sem is None else sem**-2)


def remaining_delta(rule):
    return rule.state_dict()["left"]


def feed(policy, rule, verdict, values):
    """Measure what the rule requests."""
    rule.request(verdict)
    while rule.requests.wanted:
        arm = rule.requests.wanted[0]
        measure(policy, rule, arm, values[arm])


def test_it_waits_for_exploration():
    policy = explored()
    rule = begun(VerifiedRule(0.05, explore=0.2), policy)
    verdict = rule.check(view(policy, error_probability=0.3))
    assert (verdict.stop, verdict.requested_arms, rule.attempts) == (False, None, 0)


def test_fresh_data_that_agree_end_it():
    policy = explored()
    rule = begun(VerifiedRule(0.05), policy)
    verdict = rule.check(view(policy))
    assert rule.attempts == 1
    while not verdict.stop:
        feed(policy, rule, verdict, [1.0, 0.0])
        verdict = rule.check(view(policy))
    assert rule.attempts == 1


def test_old_data_do_not_count():
    """A lead of the old data alone is never confirmed by fresh data without one."""
    policy = explored((0.5, 0.0), each=20)
    rule = begun(VerifiedRule(0.05), policy)
    verdict = rule.check(view(policy))
    for _ in range(12):
        assert not verdict.stop
        feed(policy, rule, verdict, [1.0, 1.0])
        verdict = rule.check(view(policy))


def test_a_certificate_of_the_run_ends_what_verification_would_not():
    """Bets on ties never win: the run ends all the same, by what its other queries have measured."""
    policy = explored()
    rule = begun(VerifiedRule(0.05), policy)
    verdict = rule.check(view(policy))
    while not verdict.stop:
        feed(policy, rule, verdict, [0.0, 0.0])
        for arm in (0, 1):
            measure(policy, rule, arm, [3.0, -3.0][arm])
        verdict = rule.check(view(policy))
    assert "certified on all queries of the run" in verdict.claim
    assert policy.samples < 200


def test_history_does_not_count_for_that_certificate():
    policy = explored((9.0, 0.0), each=2000, prior_std=10.0)
    rule = begun(VerifiedRule(0.05), policy)
    verdict = rule.check(view(policy))
    for _ in range(20):
        assert not verdict.stop
        feed(policy, rule, verdict, [0.0, 0.0])
        verdict = rule.check(view(policy))


def test_what_else_is_measured_is_not_part_of_a_plan():
    policy = explored(hidden=Unlisted)
    rule = begun(VerifiedRule(0.05), policy)
    verdict = rule.check(view(policy))
    while not verdict.stop:
        policy.learn(0, 5.0)
        feed(policy, rule, verdict, [5.0, 0.0])
        verdict = rule.check(view(policy))
    assert rule.attempts == 1


def test_a_standard_error_of_its_own_makes_a_plan_fail():
    policy = explored(hidden=Unlisted)
    rule = begun(VerifiedRule(0.05), policy)
    verdict = rule.check(view(policy))
    rule.request(verdict)
    arm = rule.requests.wanted[0]
    measure(policy, rule, arm, [5.0, 0.0][arm], 0.5)
    feed(policy, rule, replace(verdict, requested_arms=None), [5.0, 0.0])
    left = remaining_delta(rule)
    verdict = rule.check(view(policy))
    assert not verdict.stop
    assert rule.attempts == 2
    assert remaining_delta(rule) < left


def test_what_else_is_measured_is_not_part_of_an_epoch():
    """Observations and other queries change neither what the epoch requests nor its bets."""
    evidence = []
    for disturbed in (False, True):
        policy = explored()
        rule = begun(VerifiedRule(0.05), policy)
        verdict = rule.check(view(policy))
        if disturbed:
            policy.learn(0, -3.0)
            for arm in (0, 1, 1):
                measure(policy, rule, arm, 3.0)
        feed(policy, rule, verdict, [1.0, 0.0])
        rule.check(view(policy))
        evidence.append([(bet["X"].copy(), bet["I"].copy()) for bet in rule.state_dict()["placed"]])
    np.testing.assert_array_equal(evidence[0], evidence[1])
    assert (np.array(evidence)[:, :, 1] > 0.0).all()


@pytest.mark.parametrize("values", [[30.0, 10.0], [5.0, -5.0]])
def test_the_claim_is_about_the_answer_that_was_fixed(values):
    """Fresh data favour item 0; in the first case all data together favour item 1."""
    policy = explored((0.0, -5.0), each=1, prior_std=30.0)
    rule = begun(VerifiedRule(0.05), policy)
    for _ in range(1000):
        policy.learn(0, 0.0)
    assert policy.z_hat()[0][0] == 1.0
    verdict = rule.check(view(policy))
    while not verdict.stop:
        assert rule.attempts == 1
        feed(policy, rule, verdict, values)
        verdict = rule.check(view(policy))
    assert verdict.z[0] == 1.0


def test_attempts_share_delta():
    """Each attempt takes a part of what the ones before have left; a result with its own error ends it."""
    policy = explored(hidden=Unlisted)
    rule, left = begun(VerifiedRule(0.05), policy), [0.05]
    verdict = rule.check(view(policy))
    for number in range(1, 4):
        assert rule.attempts == number
        left.append(remaining_delta(rule))
        rule.request(verdict)
        measure(policy, rule, rule.requests.wanted[0], 0.0, 0.5)
        feed(policy, rule, replace(verdict, requested_arms=None), [1.0, 0.0])
        verdict = rule.check(view(policy))
    assert all(one > other > 0.0 for one, other in pairwise(left))


@pytest.mark.parametrize("seed", range(4))
def test_the_loop_does_not_disturb_a_plan(seed):
    """Counts at the looks are the planned ones: every attempt that began is looked at."""
    looked = []

    class Watched(VerifiedRule):
        def check(self, view):
            attempt = self.state_dict()["attempt"]
            if attempt is not None and not self.requests.outstanding:
                looked.append(np.array_equal(self.requests.fresh.counts, attempt["counts"][attempt["look"]]))
            return super().check(view)

    noise = np.random.default_rng(seed)
    truth = [0.3, 0.0, -0.2]
    identify(
        unit_problem(Unlisted(TopKOracle(3, k=1))),
        lambda i: truth[i] + noise.normal(),
        stopping=Watched(0.05),
        budget=3000,
        rng=seed,
    )
    assert looked
    assert all(looked)


def test_a_short_attempt_late_in_a_run_is_not_disturbed():
    """After 2,000 measurements looks are 200 apart, far more than the attempt needs: it is not topped up by the policy."""
    problem, noise = unit_problem(TopKOracle(2, k=1)), np.random.default_rng(0)
    truth, rule = [1.0, 0.0], VerifiedRule(0.05)
    explored = identify(problem, lambda i: truth[i] + noise.normal(), stopping="budget", budget=2000)
    result = identify(
        problem, lambda i: truth[i] + noise.normal(), stopping=rule, policy=explored.session.policy, budget=600
    )
    assert result.stop_reason == "verified"
    assert result.samples < 2150

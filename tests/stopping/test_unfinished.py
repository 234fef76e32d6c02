"""A run of a guaranteed rule that its budget ends: which claim failed, and what would have ended the run."""

import numpy as np
import pytest
from unlisted import Unlisted

from combopeps import Problem, TopKOracle, TopTwo, VerifiedRule, identify

TRUTH = [0.5, 0.4, 0.0, -0.1]


def problem():
    return Problem(TopKOracle(4, k=2), noise_std=1.0, prior_mean=0.0, prior_std=1.0)


def run(stopping, budget, seed=0, truth=TRUTH, **options):
    noise = np.random.default_rng(seed)
    return identify(
        problem(), lambda i: truth[i] + noise.normal(), stopping=stopping, budget=budget, rng=seed, **options
    )


@pytest.mark.parametrize("rule", ["verified", "certified", "guaranteed"])
def test_the_claim_says_how_far_the_proof_has_come(rule):
    result = run(rule, 70, delta=0.1, truth=[1.0, 0.9, 0.0, -0.1])
    assert result.error_probability <= 0.1
    assert result.stop_reason == "budget"
    assert result.claim.startswith("none: the run was ended by its budget; the answer is not the best with posterior")
    assert "but the proof for every theta is not complete" in result.claim
    assert " has reached " in result.claim
    assert "more measurements" in result.claim
    assert 'stopping="posterior" would have ended the run' in result.claim
    assert run("posterior", 70, delta=0.1, truth=[1.0, 0.9, 0.0, -0.1]).stop_reason == "posterior"


def test_before_the_proof_has_begun_it_says_so():
    result = run("verified", 12, truth=[0.0, 0.0, 0.0, 0.0])
    assert "has not explored enough to begin it" in result.claim
    assert "would have ended" not in result.claim


def test_answers_within_epsilon_are_not_indistinguishable():
    """Two of the items are tied, which does not matter: no answer is worse by more than epsilon."""
    tied = [1.0, 0.5, 0.5, -3.0]
    result = run(VerifiedRule(1e-90, epsilon=0.7), 1500, truth=tied)
    assert result.error_probability < 1e-30
    assert (result.stop_reason, result.tied) == ("budget", [])
    assert run(VerifiedRule(0.001), 1500, truth=tied).stop_reason == "indistinguishable"


@pytest.mark.parametrize("by_plan", [False, True])
def test_the_estimate_of_what_is_missing_has_the_right_size(by_plan):
    """Against attempts that go on to their end: the median of 9 runs within a factor of 3."""
    stated = problem()
    if by_plan:
        stated = Problem(Unlisted(stated.oracle), noise_std=1.0, prior_mean=0.0, prior_std=1.0)
    ratios = []
    for seed in range(9):
        noise, policy, rule = np.random.default_rng(seed), TopTwo(stated, seed), VerifiedRule(0.1)
        measure = lambda i, noise=noise: TRUTH[i] + noise.normal()  # noqa: E731
        while rule.proof is None:
            identify(policy.problem, measure, policy=policy, stopping=rule, budget=100)
        told, before, attempts = rule.proof.remaining, policy.samples, rule.attempts
        identify(policy.problem, measure, policy=policy, stopping=rule, budget=20_000)
        if rule.attempts == attempts:  # the estimate is for the attempt under way
            ratios.append(told / (policy.samples - before))
    assert len(ratios) > 3
    assert 1 / 3 < np.median(ratios) < 3

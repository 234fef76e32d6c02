"""A guarantee for every theta rests on the measurements alone: no prior, no posterior that a policy swaps, no scale."""

import warnings

import numpy as np
import pytest
from runs import Instance, run_many
from unit_problem import unit_problem

from combopeps import Box, CertifiedRule, ExplicitOracle, TopKOracle, VerifiedRule, identify
from combopeps.errors import PriorWarning
from combopeps.policies.registry import policy_class
from combopeps.posterior.arms import Arms
from combopeps.posterior.least_squares import Measurements, flat_posterior
from combopeps.stopping import View

RULES = {"certified": CertifiedRule, "verified": VerifiedRule}
THETA = np.array([1.0, 0.8, 0.2, 0.0, -0.5])


def run(problem, theta, rule, *, policy="uniform", seed=0, budget=20_000, **options):
    noise = Instance(problem, np.asarray(theta, dtype=float), budget).measure(np.random.default_rng(seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PriorWarning)  # some of these priors are absurd: that is the point
        return identify(problem, noise, stopping=rule, policy=policy, budget=budget, rng=seed, **options)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("prior_std", [1e-12, 2.0**-26, 1e-8, 1e-3, 1e3, 1e12])
def test_the_prior_changes_nothing(rule, prior_std):
    """Measurements that do not depend on the prior give the same result to the last digit."""
    plain = run(unit_problem(TopKOracle(5, k=2)), THETA, RULES[rule](0.05))
    other = run(unit_problem(TopKOracle(5, k=2), prior_std=prior_std), THETA, RULES[rule](0.05))
    assert plain.stop_reason == other.stop_reason == rule
    assert (plain.answer, plain.samples, plain.pulls) == (other.answer, other.samples, other.pulls)
    assert plain.evidence.statistic == other.evidence.statistic


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("prior_std", [1e-12, 1e-8, 1e12])
def test_a_policy_that_is_misled_by_its_prior_still_ends_with_the_right_answer(rule, prior_std):
    result = run(unit_problem(TopKOracle(5, k=2), prior_std=prior_std), THETA, RULES[rule](0.05), policy="top-two")
    assert (result.stop_reason, result.answer) == (rule, {0, 1})


def test_information_is_not_recovered_from_a_posterior():
    policy = policy_class("uniform")(unit_problem(TopKOracle(3, k=1), prior_std=2.0**-26, noise_std=0.5), 0)
    for arm, y in [(0, 1.0), (0, 3.0), (1, 5.0), (2, -1.0)]:
        policy.learn(arm, y)
    data = policy.measurements()
    np.testing.assert_array_equal(data.information, [8.0, 4.0, 4.0])
    np.testing.assert_array_equal(flat_posterior(data).theta_hat[0], [2.0, 5.0, -1.0])


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e5])
def test_least_squares_of_general_arms_is_numpys(scale):
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(9, 4)) @ np.diag([1.0, 1.0, 0.5, 2.0])
    rows[:3] *= scale
    counts, totals = rng.integers(1, 9, 9).astype(float), np.zeros(9)
    theta = rng.normal(size=4)
    totals[:] = counts * (rows @ theta) + rng.normal(size=9)
    posterior = flat_posterior(Measurements(Arms(rows).scaled(np.full(9, 0.5)), counts, totals / 2.0))
    weight = np.sqrt(counts)[:, None]
    expected = np.linalg.lstsq(weight * rows, totals / np.sqrt(counts), rcond=None)[0]
    np.testing.assert_allclose(posterior.theta_hat[0], expected, rtol=1e-6, atol=1e-9)
    covariance = 4.0 * np.linalg.inv((rows.T * counts) @ rows)
    np.testing.assert_allclose(posterior.L[0] @ posterior.L[0].T, covariance, rtol=1e-5, atol=1e-12)


def test_missing_arms_complete_the_span():
    rng = np.random.default_rng(4)
    for _ in range(50):
        rows = rng.integers(-1, 2, size=(8, 4)).astype(float)
        rows = rows[rows.any(axis=1)]
        counts = (rng.random(len(rows)) < 0.3).astype(float)
        data = Measurements(Arms(np.concatenate([rows, 2 * rows])), np.tile(counts, 2), np.zeros(2 * len(rows)))
        missing = data.missing
        more = data.counts.copy()
        more[missing] += 1.0
        assert (data.counts[missing] == 0.0).all()
        assert Measurements(data.arms, more, data.totals).complete
        rank = np.linalg.matrix_rank(rows)
        assert len(missing) == rank - (np.linalg.matrix_rank(rows[counts > 0]) if counts.any() else 0)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("scale", [1e2, 1e5, 1e8])
@pytest.mark.parametrize("rows", [[[1.0, 0.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, -1.0]]], ids=["skew", "sum"])
def test_arms_of_scales_far_apart(rule, scale, rows):
    """One arm is a precision instrument; what the other one has to tell is found in as many measurements as ever."""
    arms = np.array(rows)
    arms[0] *= scale
    problem = unit_problem(ExplicitOracle(np.eye(2)), arms)
    result = run(problem, [1.0, 0.3], RULES[rule](0.05), policy="top-two")
    assert (result.stop_reason, result.answer) == (rule, 0)
    assert result.samples < 200


@pytest.mark.parametrize("rule", RULES)
def test_units_of_a_component_change_nothing(rule):
    """Unit arms with coefficients c, theta over c: the same measurements, the same result."""
    scale = 2.0 ** np.array([0, 20, -20, 3, -7])
    plain = run(unit_problem(TopKOracle(5, k=2), np.eye(5)), THETA, RULES[rule](0.05))
    oracle = ExplicitOracle([z for z in np.array(np.meshgrid(*[[0, 1]] * 5)).reshape(5, -1).T * 1.0 if z.sum() == 2])
    listed = run(unit_problem(oracle, np.eye(5)), THETA, RULES[rule](0.05))
    scaled = ExplicitOracle(oracle.Z / scale)
    other = run(unit_problem(scaled, np.diag(1.0 / scale)), THETA * scale, RULES[rule](0.05))
    assert plain.answer == {0, 1}
    assert other.samples == listed.samples
    assert other.evidence.statistic == pytest.approx(listed.evidence.statistic)


@pytest.mark.parametrize("rule", RULES)
def test_a_policy_that_begins_its_posterior_anew_loses_no_data(rule):
    """Algorithm 2 forgets at every epoch; the rule sees all epochs, and none twice."""
    problem = unit_problem(TopKOracle(4, k=1), space=Box(-2.0, 2.0))
    policy = policy_class("doubling-peps")(problem, 0)
    noise, told = np.random.default_rng(0), np.zeros((2, 4))
    for _ in range(200):
        arm, y = policy.next_arms().item(), float(noise.normal())
        policy.learn(arm, y)
        told[:, arm] += 1.0, y
    data = View(policy, 0).data
    np.testing.assert_allclose([data.counts, data.totals], told, rtol=1e-12)
    result = run(problem, [1.0, 0.3, 0.0, 0.0], RULES[rule](0.05), policy="doubling-peps")
    assert (result.stop_reason, result.answer) == (rule, {0})


def test_differences_across_posteriors_are_caught():
    """Negative control: data read off a posterior that was begun anew in between are wrong."""
    problem = unit_problem(TopKOracle(4, k=1), space=Box(-2.0, 2.0))
    policy, noise = policy_class("doubling-peps")(problem, 0), np.random.default_rng(0)
    for _ in range(200):
        policy.learn(policy.next_arms(), noise.normal())
    read_off = policy.posterior.precision[0] - policy.posterior.prior_precision
    assert read_off.sum() != policy.measurements().information.sum()


def test_the_result_is_the_answer_that_was_certified():
    """With an absurd prior the posterior prefers another answer than the data do; the claim is about the latter."""
    problem = unit_problem(TopKOracle(2, k=1), prior_std=1e-3)
    policy = policy_class("uniform")(problem, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(4000):
            policy.learn(0, 1.0)  # more often than the others: the posterior moves there only
        for _ in range(40):
            policy.learn(1, 3.0)
        assert problem.oracle.decode(policy.z_hat()[0]) == {0}
        result = identify(problem, lambda i: [1.0, 3.0][i], policy=policy, stopping="certified", budget=10_000)
    assert (result.stop_reason, result.answer) == ("certified", {1})


def test_a_few_runs_with_a_strong_prior_are_right():
    instance = Instance(unit_problem(TopKOracle(3, k=1), prior_std=1e-6), np.array([0.0, 0.0, 1.5]), 3000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PriorWarning)
        outcome = run_many(lambda: CertifiedRule(0.1), instance, 8, seed=5)
    assert (outcome.stopped, outcome.errors) == (8, 0)

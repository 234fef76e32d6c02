"""Priors component by component: the belief before data, after data, and in words."""

import warnings

import numpy as np
import pytest
from sessions import session_of
from unit_problem import unit_problem

from combopeps import Box, ExplicitOracle, Problem, TopKOracle, TopTwo, identify
from combopeps.errors import PriorWarning
from combopeps.policies.registry import POLICIES, policy_class

MEAN, STD = np.array([0.5, -2.0, 0.0, 10.0]), np.array([0.1, 1.0, 3.0, 20.0])
ROWS = np.array(
    [[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, -1.0, 0.0], [0.0, 0.0, 1.0, 2.0], [1.0, 0.0, 0.0, 1.0], [3.0, 0.0, 0.0, 0.0]]
)
NOISE = np.array([0.5, 1.0, 2.0, 0.3, 1.5])
KINDS = {
    "diagonal": lambda: Problem(TopKOracle(4, k=2), noise_std=NOISE[:4], prior_mean=MEAN, prior_std=STD),
    "dense": lambda: Problem(TopKOracle(4, k=2), ROWS, NOISE, prior_mean=MEAN, prior_std=STD),
}


def covariance(belief, r=0):
    alone = belief.row(r)
    return np.stack([alone.covariance_dot(e[None])[0] for e in np.eye(belief.dim)])


def posterior(problem, arms, ys):
    """By conditioning the joint normal of theta and y one by one, not by precisions."""
    mean, C = MEAN, np.diag(STD**2)
    for arm, y in zip(arms, ys, strict=True):
        x = problem.arms.row(int(arm))
        gain = C @ x / (x @ C @ x + problem.noise[arm] ** 2)
        mean, C = mean + gain * (y - x @ mean), C - np.outer(gain, x @ C)
    return mean, C


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("replications", [1, 3])
def test_before_any_measurement_the_prior_stands(kind, replications):
    belief = TopTwo(KINDS[kind](), 0, replications=replications).belief
    for r in range(replications):
        np.testing.assert_array_equal(belief.theta_hat[r], MEAN)
        np.testing.assert_allclose(covariance(belief, r), np.diag(STD**2), rtol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 7, 600])
def test_after_measurements_it_is_conditioned(kind, count):
    problem, rng = KINDS[kind](), np.random.default_rng(1)
    policy = TopTwo(problem, 0)
    arms, ys = rng.integers(0, len(problem.arms), size=count), rng.normal(size=count)
    for arm, y in zip(arms, ys, strict=True):
        policy.learn(int(arm), float(y))
    mean, spread = posterior(problem, arms, ys)
    np.testing.assert_allclose(policy.belief.theta_hat[0], mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(covariance(policy.belief), spread, rtol=1e-6, atol=1e-9)
    many = TopTwo(problem, 0)
    many.learn_many(arms, ys)
    np.testing.assert_array_equal(many.belief.theta_hat, policy.belief.theta_hat)


@pytest.mark.parametrize("kind", KINDS)
def test_replications_side_by_side_have_it_too(kind):
    problem, rng = KINDS[kind](), np.random.default_rng(2)
    policy = TopTwo(problem, 0, replications=3)
    arms, ys = rng.integers(0, len(problem.arms), size=(20, 3)), rng.normal(size=(20, 3))
    for arm, y in zip(arms, ys, strict=True):
        policy.learn(arm, y)
    for r in range(3):
        mean, spread = posterior(problem, arms[:, r], ys[:, r])
        np.testing.assert_allclose(policy.belief.theta_hat[r], mean, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(covariance(policy.belief, r), spread, rtol=1e-7, atol=1e-9)


def test_a_prior_by_label():
    problem = unit_problem(TopKOracle(["a", "b", "c"], k=1), prior_mean={"c": 4.0}, prior_std={"a": 0.5})
    belief = TopTwo(problem, 0).belief
    np.testing.assert_array_equal(belief.theta_hat[0], [0.0, 0.0, 4.0])
    np.testing.assert_allclose(belief.variance[0], [0.25, 1.0, 1.0])
    assert session_of(TopTwo, problem).status().answer == {"c"}


@pytest.mark.parametrize("name", [name for name, policy in POLICIES.items() if policy.by_name])
def test_every_policy_begins_with_it(name):
    space = Box(-20.0, 20.0) if "doubling" in name else None
    problem = unit_problem(TopKOracle(4, k=1), prior_mean=[0, 5.0, 0, 0], prior_std=[1, 0.1, 2, 1], space=space)
    session = session_of(policy_class(name), problem)
    np.testing.assert_array_equal(session.belief.theta_hat[0], [0.0, 5.0, 0.0, 0.0])
    np.testing.assert_allclose(session.belief.prior_precision, [1.0, 100.0, 0.25, 1.0])
    assert session.status().answer == {1}
    for _ in range(8):
        query = session.ask()
        session.tell(query, [0.0, 5.0, 0.0, 0.0][query.arm])
    assert session.status().answer == {1}


def test_the_currency_of_the_prior_does_not_matter():
    """theta shifted by a constant shifts no difference of answers of equal size: the same arms are asked for."""

    def arms(shift):
        problem = unit_problem(TopKOracle(5, k=2), prior_mean=shift + np.arange(5.0), prior_std=2.0)
        policy, truth = TopTwo(problem, 3), shift + np.arange(5.0)[::-1]
        found = []
        for _ in range(40):
            arm = int(policy.next_arms()[0])
            policy.learn(arm, float(truth[arm]))
            found.append(arm)
        return found

    assert arms(0.0) == arms(1024.0)


def test_no_index_is_favoured_by_a_common_mean():
    """Ties between equal means are broken at random, however large the mean is."""
    for mean in (0.0, 1.0, 1e6, 1e12):
        problem = unit_problem(TopKOracle(4, k=1), prior_mean=mean)
        answers = TopTwo(problem, 0, replications=400).z_hat().argmax(axis=1)
        assert np.bincount(answers, minlength=4).min() > 60


def test_a_strong_prior_is_believed_and_said():
    truth, rng = [0.0, 0.0, 0.3], np.random.default_rng(0)
    problem = unit_problem(TopKOracle(3, k=1), prior_mean=[0, 0, 3.0], prior_std=[0.1, 0.1, 0.1])
    with pytest.warns(PriorWarning, match="2 is .* standard deviations off its prior mean 3"):
        result = identify(problem, lambda x: truth[x] + rng.normal(), delta=0.05)
    assert result.answer == {2}
    assert result.samples <= 20
    assert "the prior stated for each component" in result.claim


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "prior N(0, 1) in every component"),
        ({"prior_std": 2.0}, "prior N(0, 2^2) in every component"),
        ({"prior_mean": 1.5, "prior_std": 2.0}, "prior N(1.5, 2^2) in every component"),
        ({"prior_mean": [1, 1, 1]}, "prior N(1, 1) in every component"),
        ({"prior_mean": [1, 1, 2]}, "the prior stated for each component"),
        ({"prior_std": {1: 0.5}}, "the prior stated for each component"),
    ],
)
def test_the_prior_in_words(options, words):
    assert TopTwo(unit_problem(TopKOracle(3, k=1), **options), 0).belief.prior_in_words == words


def test_the_guard_of_the_prior_looks_at_every_component():
    problem = unit_problem(TopKOracle(2, k=1), prior_mean=[100.0, 0.0], prior_std=[1.0, 50.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session = session_of(TopTwo, problem)
        session.observe(0, 101.0)
        session.observe(1, 80.0)
    with pytest.warns(PriorWarning, match=r"0 is 14 standard deviations off its prior mean 100 \(prior_std = 1\)"):
        session_of(TopTwo, problem).observe(0, 80.0)


def test_the_guard_of_the_prior_looks_along_general_arms():
    rows = np.array([[1.0, 1.0], [1.0, -1.0]])
    problem = Problem(ExplicitOracle(np.eye(2)), rows, [2.0, 1.0], prior_mean=[3.0, 4.0], prior_std=[3.0, 4.0])
    with pytest.warns(PriorWarning, match=r"\d is 9.8 standard deviations off its prior mean"):
        session_of(TopTwo, problem).observe(0, 60.0)


def test_the_option_of_a_policy_takes_the_place_of_the_width():
    problem = unit_problem(TopKOracle(3, k=1), prior_mean=[1, 2, 3], prior_std=[1, 2, 3])
    belief = TopTwo(problem, 0, prior_precision=4.0).belief
    np.testing.assert_array_equal(belief.theta_hat[0], [1.0, 2.0, 3.0])
    np.testing.assert_allclose(belief.variance[0], 0.25)

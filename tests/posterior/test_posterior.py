"""theta_hat and V^-1 against one dense solve from all measurements."""

import numpy as np
import pytest
from ridge import covariance, general_arms, in_units, ridge_posterior, unit_arms

from combopeps import ExplicitOracle
from combopeps.posterior import Arms, DensePosterior, DiagonalPosterior, GaussianPosterior

KINDS = {"diagonal": (DiagonalPosterior, unit_arms(7, 1)), "dense": (DensePosterior, general_arms(9, 7, 2))}


def measure(posterior, rounds, seed, *, counts=False, noise_std=1.0):
    """Random measurements of random arms in units of the noise: their rows and rewards without it, and counts."""
    rng = np.random.default_rng(seed)
    rows, rewards, numbers = [], [], []
    for _ in range(rounds):
        arm, y, count = int(rng.integers(len(posterior.arms))), float(rng.normal()), int(rng.integers(1, 9))
        count = count if counts else 1
        posterior.update(arm, y / noise_std, count=count)
        rows.append(posterior.arms.row(arm) * noise_std)
        rewards.append(y)
        numbers.append(count)
    return np.array(rows), np.array(rewards), numbers


@pytest.mark.parametrize("kind", KINDS)
def test_the_arms_choose_the_representation(kind):
    expected, matrix = KINDS[kind]
    assert type(GaussianPosterior.start(Arms(matrix))) is expected


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize(("prior_precision", "noise_std"), [(1.0, 1.0), (0.01, 1.0), (1.0, 3.0), (25.0, 0.1)])
@pytest.mark.parametrize("kind", KINDS)
def test_posterior_equals_a_new_solve(kind, prior_precision, noise_std, counts):
    make, matrix = KINDS[kind]
    posterior = make(in_units(matrix, noise_std), prior_precision=prior_precision)
    rows, rewards, numbers = measure(posterior, 40, seed=3, counts=counts, noise_std=noise_std)
    mean, cov = ridge_posterior(rows, rewards, numbers, prior_precision=prior_precision, noise_std=noise_std)
    np.testing.assert_allclose(posterior.theta_hat[0], mean, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(covariance(posterior), cov, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_prior_without_measurements(kind):
    make, matrix = KINDS[kind]
    posterior = make(Arms(matrix), prior_precision=4.0)
    np.testing.assert_array_equal(posterior.theta_hat, np.zeros((1, 7)))
    np.testing.assert_allclose(covariance(posterior), np.eye(7) / 4.0, rtol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mean_with_count_equals_single_results(kind):
    make, matrix = KINDS[kind]
    one_by_one, at_once = make(in_units(matrix, 2.0)), make(in_units(matrix, 2.0))
    rewards = np.random.default_rng(4).normal(size=12)
    for y in rewards / 2.0:
        one_by_one.update(3, y)
    at_once.update(3, rewards.mean() / 2.0, count=12)
    np.testing.assert_allclose(at_once.theta_hat, one_by_one.theta_hat, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(covariance(at_once), covariance(one_by_one), rtol=1e-11, atol=1e-13)


def test_a_dense_posterior_in_unit_arms_agrees_with_the_diagonal_one():
    arms = Arms(unit_arms(7, 1))
    diagonal, dense = DiagonalPosterior(arms), DensePosterior(arms)
    for posterior in (diagonal, dense):
        measure(posterior, 60, seed=5)
    np.testing.assert_allclose(dense.theta_hat, diagonal.theta_hat, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(covariance(dense), np.diag(diagonal.variance[0]), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_is_independent(kind):
    make, matrix = KINDS[kind]
    posterior = make(Arms(matrix))
    measure(posterior, 5, seed=6)
    twin = posterior.copy()
    before = posterior.theta_hat.copy(), covariance(posterior)
    measure(twin, 5, seed=7)
    np.testing.assert_array_equal(posterior.theta_hat, before[0])
    np.testing.assert_array_equal(covariance(posterior), before[1])
    assert not np.array_equal(twin.theta_hat, posterior.theta_hat)


def test_rewards_in_other_units_give_the_same_standardised_posterior():
    """theta / sigma is all that matters: y and noise_std scaled together scale theta_hat, V0 scaled back."""
    rows = np.eye(4)
    metres, kilometres = (
        DiagonalPosterior(in_units(rows, 500.0), prior_precision=1e-6),
        DiagonalPosterior(in_units(rows, 0.5)),
    )
    for arm, y in enumerate([1200.0, -300.0, 50.0, 7.0]):
        metres.update(arm, y / 500.0)
        kilometres.update(arm, y / 1000.0 / 0.5)
    np.testing.assert_allclose(metres.theta_hat, 1000.0 * kilometres.theta_hat, rtol=1e-12)
    np.testing.assert_allclose(metres.variance, 1e6 * kilometres.variance, rtol=1e-12)


def test_arms_that_are_answers_too():
    points = np.array([[0.6, 0.8], [1.0, 0.0], [0.0, 1.0]])
    posterior = GaussianPosterior.start(Arms.of(ExplicitOracle(points), points))
    rows, rewards, _ = measure(posterior, 30, seed=8)
    np.testing.assert_allclose(posterior.theta_hat[0], ridge_posterior(rows, rewards)[0], rtol=1e-10)

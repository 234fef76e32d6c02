"""Rounding errors do not accumulate: after many updates the posterior equals a new solve."""

import numpy as np
import pytest
from ridge import covariance, general_arms, ridge_posterior, unit_arms

from combopeps.posterior import Arms, DensePosterior, DiagonalPosterior

ALLOWED = 1e-8


def drift(posterior, updates, seed):
    """The largest deviation of theta_hat and V^-1 from a solve, relative to the largest entry of each.

    Measurements are grouped by arm for the solve: it sees the sums, not the sequence.
    """
    rng = np.random.default_rng(seed)
    K = len(posterior.arms)
    chosen = rng.choice(K, size=updates, p=rng.dirichlet(np.full(K, 0.5)))
    rewards = rng.normal(size=updates) + 1.0
    for arm, y in zip(chosen.tolist(), rewards.tolist(), strict=True):
        posterior.update(arm, y)
    counts = np.bincount(chosen, minlength=K)
    means = np.bincount(chosen, rewards, minlength=K) / np.maximum(counts, 1)
    mean, cov = ridge_posterior(posterior.arms.row(np.arange(K)), means, counts)
    return max(
        np.abs(posterior.theta_hat[0] - mean).max() / np.abs(mean).max(),
        np.abs(covariance(posterior) - cov).max() / np.abs(cov).max(),
    )


@pytest.mark.parametrize("d", [5, 50])
@pytest.mark.parametrize("make", [DiagonalPosterior, DensePosterior])
def test_no_drift_after_20_thousand_updates(make, d):
    arms = unit_arms(d, 0) if make is DiagonalPosterior else general_arms(2 * d, d, 0)
    measured = drift(make(Arms(arms)), 20_000, seed=d)
    assert measured < ALLOWED, f"{measured:.2g}"


@pytest.mark.slow
@pytest.mark.parametrize("d", [5, 50])
@pytest.mark.parametrize("make", [DiagonalPosterior, DensePosterior])
def test_no_drift_after_a_million_updates(make, d):
    arms = unit_arms(d, 0) if make is DiagonalPosterior else general_arms(2 * d, d, 0)
    measured = drift(make(Arms(arms)), 1_000_000, seed=d)
    assert measured < ALLOWED, f"{measured:.2g}"


def test_a_small_error_is_detected():
    class Forgetful(DensePosterior):
        def _learn(self, arm, y, scale):
            super()._learn(arm, y, scale)
            self.L *= 1.0 + 1e-8

    assert drift(Forgetful(Arms(general_arms(10, 5, 0))), 400, seed=5) > ALLOWED


@pytest.mark.parametrize("updates", [511, 512, 513, 1024])
def test_continuity_at_the_factorisation_from_scratch(updates):
    measured = drift(DensePosterior(Arms(general_arms(8, 4, 1))), updates, seed=1)
    assert measured < 1e-11, f"{measured:.2g}"


def test_nearly_parallel_arms_stay_accurate():
    """Condition number 1e8: the arms differ by 1e-4 only."""
    rows = np.array([[1.0, 1.0, 0.0], [1.0, 1.0001, 0.0], [0.0, 1.0, 1.0]])
    measured = drift(DensePosterior(Arms(rows)), 5_000, seed=2)
    assert measured < 1e-7, f"{measured:.2g}"

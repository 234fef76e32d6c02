"""The allocation of a verification that was rehearsed: held against fresh simulated data."""

import numpy as np
import pytest
from unit_problem import unit_problem

from benchmarks._problems import grid_oracle
from combopeps import CertifiedRule, MatchingOracle, VerifiedRule, identify
from combopeps.posterior import Arms, DiagonalPosterior
from combopeps.posterior.gaussian import Normal
from combopeps.stopping.certificates.fixed_plan import plan_by_simulation
from combopeps.stopping.certificates.glr import glr_bound

QUANTILE = 2.2


def believed(oracle, theta, pulls, arms=None, noise_std=1.0):
    """A posterior that has measured every arm equally often, without an error."""
    every = Arms.of(oracle, arms)
    posterior = DiagonalPosterior(every.scaled(np.full(len(every), 1.0 / noise_std)))
    for arm in range(len(posterior.arms)):
        row = posterior.arms.row(np.array([arm]))[0]
        for _ in range(pulls):
            posterior.update(np.array([arm]), np.array([row @ theta]))
    return posterior


def passes(posterior, oracle, z_hat, n, trials=60):
    """The share of simulated verifications in which every other answer is beaten."""
    rng, done = np.random.default_rng(5), 0
    for _ in range(trials):
        fresh = Normal(posterior.theta_hat[0] + rng.standard_normal(oracle.dim) / np.sqrt(n), 1.0 / n)
        bound = glr_bound(oracle, z_hat, fresh, target=0.5 * QUANTILE**2, rng=rng)
        done += bound.value >= 0.5 * QUANTILE**2
    return done / trials


@pytest.fixture(scope="module")
def assignment():
    oracle = MatchingOracle(6, 6)
    posterior = believed(oracle, np.eye(6).ravel(), 8)
    return posterior, oracle, oracle.argmax(posterior.theta_hat[0])


def test_a_rehearsed_plan_passes_more_often_than_not_and_a_fraction_of_it_does_not(assignment):
    posterior, oracle, z_hat = assignment
    shares = [
        passes(
            posterior,
            oracle,
            z_hat,
            plan_by_simulation(posterior, oracle, z_hat, QUANTILE, np.random.default_rng(seed)),
        )
        for seed in range(3)
    ]
    n = plan_by_simulation(posterior, oracle, z_hat, QUANTILE, np.random.default_rng(0))
    assert np.mean(shares) > 0.4
    assert passes(posterior, oracle, z_hat, n / 8) < 0.1


def test_every_arm_is_measured_and_those_of_the_answer_most(assignment):
    posterior, oracle, z_hat = assignment
    n = plan_by_simulation(posterior, oracle, z_hat, QUANTILE, np.random.default_rng(1))
    assert n.min() > 0.2 * n.mean()
    assert n[z_hat != 0].mean() > 1.2 * n[z_hat == 0].mean()


def test_the_more_informative_of_two_arms_gets_all(assignment):
    _, oracle, z_hat = assignment
    units = np.vstack([np.eye(36), 2.0 * np.eye(36)])
    posterior = believed(oracle, np.eye(6).ravel(), 4, Arms(units))
    n = plan_by_simulation(posterior, oracle, z_hat, QUANTILE, np.random.default_rng(1))
    assert (n[:36] == 0).all()
    assert (n[36:] > 0).all()


@pytest.mark.parametrize("make", [VerifiedRule, CertifiedRule])
@pytest.mark.parametrize("oracle", [grid_oracle(10), MatchingOracle(10, 10)], ids=["grid", "matching"])
def test_guaranteed_rules_stop_on_sets_too_large_to_know_all_rivals(make, oracle):
    best = oracle.argmax(np.random.default_rng(0).uniform(size=oracle.dim))
    theta = best + (1.0 if oracle.unit < 0 else 0.0)
    value, noise = dict(zip(oracle.components, theta, strict=True)), np.random.default_rng(1)
    result = identify(
        unit_problem(oracle), lambda x: value[x] + noise.normal(), stopping=make(0.05), budget=120 * oracle.dim
    )
    assert result.stop_reason == result.rule
    assert np.array_equal(result.z, best)

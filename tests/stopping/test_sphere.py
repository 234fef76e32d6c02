"""The randomised sphere test: wrongly passed with probability nu at most, and the comparison can fail."""

import numpy as np
import pytest
from scipy.stats import binomtest

from combopeps import ExplicitOracle, MatchingOracle, TopKOracle
from combopeps.errors import ParameterError
from combopeps.posterior.gaussian import Normal
from combopeps.stopping.certificates import glr
from combopeps.stopping.certificates.glr import cap_height, sphere_test

NU, TRIALS, FALSE_ALARM = 0.1, 10_000, 1e-4
DIRECTIONS = 8


def dense(d, seed):
    return np.random.default_rng(seed).normal(size=(d, d)) / np.sqrt(d)


SITUATIONS = {  # oracle, theta, root of the covariance
    "dimension 1": (ExplicitOracle([[1.0], [0.0]]), np.array([1.0]), np.array([[0.5]])),
    "dimension 2": (ExplicitOracle([[1.0, 0.0], [0.0, 0.0]]), np.array([1.0, 0.3]), dense(2, 0)),
    "dense, one rival": (ExplicitOracle([[1.0, 0, 0, 0, 0], [0, 1.0, 0, 0, 0]]), np.arange(5.0)[::-1], dense(5, 1)),
    "top-k subspace": (TopKOracle(4, k=1), np.array([1.0, 0.0, -9.0, -9.0]), np.eye(4)),
    "top-k, dense": (TopKOracle(3, k=1), np.array([1.0, 0.0, -30.0]), dense(3, 2)),
    "matching, dense": (MatchingOracle(2, 2), np.array([1.0, 0.0, 0.0, 0.0]), dense(4, 3)),
}


def true_glr(oracle, theta, root):
    Z = np.unique(oracle.argmax(np.random.default_rng(0).normal(size=(500, oracle.dim))), axis=0)
    z_hat = oracle.argmax(theta)
    y = Z - z_hat
    y = y[y.any(axis=1)]
    return float((0.5 * (y @ theta) ** 2 / ((y @ root) ** 2).sum(axis=1)).min())


def false_passes(name, trials=TRIALS, beta_factor=1.0 + 1e-9, **options):
    """Passes of a beta that the GLR statistic lies just below."""
    oracle, theta, root = SITUATIONS[name]
    beta, rng = beta_factor * true_glr(oracle, theta, root), np.random.default_rng(8)
    estimate, z_hat = Normal(theta, root), oracle.argmax(theta)
    return sum(
        sphere_test(oracle, z_hat, estimate, beta, NU, rng, directions=DIRECTIONS, **options).value >= beta
        for _ in range(trials)
    )


def too_many(passes, trials=TRIALS):
    """More than nu can explain; a correct test is accused with probability FALSE_ALARM at most."""
    return binomtest(passes, trials, NU, alternative="greater").pvalue < FALSE_ALARM


@pytest.mark.parametrize("name", SITUATIONS)
def test_false_passes(name):
    trials = 2000
    passes = false_passes(name, trials)
    assert not too_many(passes, trials)
    if "matching" not in name and name != "dimension 1":  # one rival: the probability is nu itself
        assert binomtest(passes, trials, NU).pvalue > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("name", SITUATIONS)
def test_false_passes_in_many_trials(name):
    assert not too_many(false_passes(name))


@pytest.mark.parametrize("name", ["dimension 2", "top-k subspace", "dense, one rival"])
def test_a_radius_without_the_cap_fails(name, monkeypatch):
    monkeypatch.setattr(glr, "cap_height", lambda dim, share: 1.0)
    assert too_many(false_passes(name, 1000), 1000)


@pytest.mark.parametrize("name", ["dimension 2", "dense, one rival"])
def test_a_cap_for_a_larger_nu_fails(name, monkeypatch):
    monkeypatch.setattr(glr, "cap_height", lambda dim, share: cap_height(dim, 0.7 * share))
    assert too_many(false_passes(name, 3000), 3000)


def test_a_cap_of_the_sphere():
    """P(u_1 >= c) = share, by simulation; five standard errors."""
    for dim in (1, 2, 3, 10):
        u = np.random.default_rng(9).normal(size=(200_000, dim))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        for share in (0.5,) if dim == 1 else (0.4, 0.1, 0.01):
            seen = (u[:, 0] >= cap_height(dim, share)).mean()
            assert abs(seen - share) < 5 * np.sqrt(share / 200_000)


@pytest.mark.parametrize("name", SITUATIONS)
def test_plain_cases_pass_and_fail(name):
    assert false_passes(name, 50, beta_factor=1e-4) == 50
    assert false_passes(name, 50, beta_factor=50.0) <= 25


def test_an_epsilon_counts_as_gap():
    oracle, theta, root = SITUATIONS["dimension 2"]
    beta, rng = 4.0 * true_glr(oracle, theta, root) * 1.001, np.random.default_rng(8)
    estimate, z_hat = Normal(theta, root), oracle.argmax(theta)
    passes = sum(
        sphere_test(oracle, z_hat, estimate, beta, NU, rng, directions=DIRECTIONS, epsilon=1.0).value >= beta
        for _ in range(2000)
    )
    assert binomtest(passes, 2000, NU).pvalue > FALSE_ALARM


@pytest.mark.parametrize(("nu", "beta"), [(0.0, 1.0), (1.0, 1.0), (0.1, 0.0), (0.1, -1.0)])
def test_bad_parameters(nu, beta):
    oracle, theta, root = SITUATIONS["dimension 2"]
    with pytest.raises(ParameterError):
        sphere_test(oracle, oracle.argmax(theta), Normal(theta, root), beta, nu, np.random.default_rng(0))

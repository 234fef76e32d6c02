"""Draws of the noise have covariance V^-1: statistical, false alarm 1e-4 for the whole file."""

import numpy as np
import pytest
from ridge import covariance, general_arms, unit_arms
from scipy.stats import chi2, norm

from combopeps.posterior import Arms, DensePosterior, DiagonalPosterior

KINDS = {"diagonal": (DiagonalPosterior, unit_arms(5, 1)), "dense": (DensePosterior, general_arms(6, 5, 2))}
FALSE_ALARM = 1e-4
DRAWS = 20_000


def measured(kind):
    make, matrix = KINDS[kind]
    posterior = make(Arms(matrix))
    rng = np.random.default_rng(3)
    for _ in range(40):
        posterior.update(int(rng.integers(len(matrix))), float(rng.normal()))
    return posterior


def smallest_p(draws, cov):
    """Bonferroni over the variances and means along 40 fixed directions: each is chi-square and normal exactly."""
    directions = np.random.default_rng(4).normal(size=(40, cov.shape[0]))
    along = draws @ directions.T / np.sqrt(np.einsum("kd,de,ke->k", directions, cov, directions))
    squares = (along**2).sum(axis=0)
    variance = 2 * np.minimum(chi2.cdf(squares, len(draws)), chi2.sf(squares, len(draws)))
    mean = 2 * norm.sf(np.abs(along.mean(axis=0)) * np.sqrt(len(draws)))
    return 80 * min(variance.min(), mean.min())


@pytest.mark.parametrize("kind", KINDS)
def test_covariance_of_draws(kind):
    posterior = measured(kind)
    draws = posterior.noise(np.random.default_rng(5).standard_normal((1, DRAWS, 5)))[0]
    assert smallest_p(draws, covariance(posterior)) > FALSE_ALARM / 2


@pytest.mark.parametrize("kind", KINDS)
def test_ten_percent_more_variance_is_detected(kind):
    posterior = measured(kind)
    draws = posterior.noise(np.random.default_rng(5).standard_normal((1, DRAWS, 5)))[0]
    assert smallest_p(draws * np.sqrt(1.1), covariance(posterior)) < FALSE_ALARM / 2


@pytest.mark.parametrize("kind", KINDS)
def test_noise_is_a_root_of_the_covariance(kind):
    """L L' = V^-1, exactly: the images of the unit vectors give L."""
    posterior = measured(kind)
    L = posterior.noise(np.eye(5)[None])[0].T
    np.testing.assert_allclose(L @ L.T, covariance(posterior), rtol=1e-11, atol=1e-13)

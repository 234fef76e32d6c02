"""A diagonal posterior over 10^5 components costs O(d) memory."""

import tracemalloc

import numpy as np

from combopeps import TopKOracle
from combopeps.posterior import Arms, DiagonalPosterior, GaussianPosterior

D = 100_000


def test_hundred_thousand_components_fit_in_a_few_vectors():
    oracle = TopKOracle(D, 10)
    tracemalloc.start()
    try:
        posterior = GaussianPosterior.start(Arms.of(oracle))
        rng = np.random.default_rng(0)
        for arm in rng.integers(D, size=300):
            posterior.update(arm, 1.0)
        noise = posterior.noise(rng.standard_normal((1, 1, D)))
        product = posterior.covariance_dot(np.ones((1, D)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(posterior, DiagonalPosterior)
    assert noise.shape == (1, 1, D)
    assert 0 < product.min() < product.max() == 1.0
    assert peak < 20 * 8 * D, f"{peak / 8 / D:.1f} vectors of length d"


def test_an_update_touches_one_component():
    posterior = GaussianPosterior.start(Arms.of(TopKOracle(D, 10)))
    before = posterior.theta_hat.copy(), posterior.variance.copy()
    posterior.update(4321, 2.0)
    assert np.flatnonzero(posterior.theta_hat != before[0]).tolist() == [4321]
    assert np.flatnonzero(posterior.variance != before[1]).tolist() == [4321]

"""R replications in one posterior equal R posteriors, at the cost of one pass of numpy."""

import numpy as np
import pytest
from ridge import covariance, general_arms, in_units, unit_arms

from combopeps.posterior import Arms, DensePosterior, DiagonalPosterior

KINDS = {"diagonal": (DiagonalPosterior, unit_arms(6, 1)), "dense": (DensePosterior, general_arms(8, 6, 2))}


@pytest.mark.parametrize("kind", KINDS)
def test_replications_are_separate_posteriors(kind):
    make, matrix = KINDS[kind]
    R, arms, rng = 5, in_units(matrix, 2.0), np.random.default_rng(3)
    together = make(arms, replications=R, prior_precision=0.5)
    alone = [make(arms, prior_precision=0.5) for _ in range(R)]
    for _ in range(600):  # past a factorisation from scratch
        chosen, y, count = rng.integers(len(arms), size=R), rng.normal(size=R), int(rng.integers(1, 4))
        together.update(chosen, y, count=count)
        for r in range(R):
            alone[r].update(chosen[r], y[r], count=count)
    for r in range(R):
        np.testing.assert_allclose(together.theta_hat[r], alone[r].theta_hat[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(covariance(together, r), covariance(alone[r]), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_one_arm_and_one_reward_serve_all_replications(kind):
    make, matrix = KINDS[kind]
    posterior = make(Arms(matrix), replications=3)
    posterior.update(2, 1.5)
    assert (posterior.theta_hat == posterior.theta_hat[0]).all()
    assert posterior.theta_hat.any()


@pytest.mark.parametrize("kind", KINDS)
def test_calls_do_not_depend_on_replications(kind, monkeypatch):
    """No loop over replications: as many numpy calls for 500 as for 1."""
    make, matrix = KINDS[kind]
    calls = []
    learn = make._learn
    monkeypatch.setattr(make, "_learn", lambda self, *args: (calls.append(len(args[0])), learn(self, *args)))
    make(Arms(matrix), replications=500).update(np.arange(500) % len(matrix), np.ones(500))
    assert calls == [500]


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_shares_memory_with_the_whole(kind):
    make, matrix = KINDS[kind]
    posterior = make(Arms(matrix), replications=4)
    row = posterior.row(2)
    assert row.replications == 1
    assert row.theta_hat.shape == (1, 6)
    posterior.update([0, 1, 2, 3], [1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(row.theta_hat[0], posterior.theta_hat[2])
    assert row.theta_hat.any()
    normals = np.random.default_rng(4).normal(size=(4, 3, 6))
    np.testing.assert_allclose(row.noise(normals[2:3])[0], posterior.noise(normals)[2], rtol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_noise_and_covariances_of_each_replication_are_its_own(kind):
    make, matrix = KINDS[kind]
    posterior = make(Arms(matrix), replications=2)
    for _ in range(20):
        posterior.update([0, 3], [1.0, 1.0])
    normals = np.repeat(np.random.default_rng(5).normal(size=(1, 4, 6)), 2, axis=0)
    first, second = posterior.noise(normals)
    assert not np.allclose(first, second)
    y = np.random.default_rng(6).normal(size=(2, 6))
    for r in range(2):
        np.testing.assert_allclose(posterior.covariance_dot(y)[r], covariance(posterior, r) @ y[r], rtol=1e-12)

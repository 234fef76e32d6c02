"""Quantities derived from a posterior, against its full covariance."""

import numpy as np
import pytest
from ridge import general_arms, in_units, unit_arms
from scipy.sparse import csr_array

from combopeps.posterior import Arms, GaussianPosterior
from combopeps.posterior.least_squares import Measurements, flat_posterior

ROWS = {"diagonal": unit_arms(6, 1), "dense": general_arms(8, 6, 2)}


def learnt(kind, replications=2):
    rng = np.random.default_rng(3)
    posterior = GaussianPosterior.start(in_units(ROWS[kind], 0.7), replications=replications)
    for _ in range(40):
        posterior.update(rng.integers(len(ROWS[kind]), size=replications), rng.normal(size=replications) / 0.7)
    covariance = posterior.covariance()
    return posterior, covariance if covariance.ndim == 3 else np.array([np.diag(row) for row in covariance])


@pytest.mark.parametrize("kind", ROWS)
def test_quantities_equal_those_of_the_covariance(kind):
    posterior, C = learnt(kind)
    rng, X = np.random.default_rng(4), ROWS[kind]
    y = rng.normal(size=(5, 6)) * (rng.random((5, 6)) < 0.5)
    y[[1, 4]] = 0.0
    width = np.einsum("nd,de,ne->n", y, C[0], y)
    assert posterior.is_diagonal == (kind == "diagonal")
    np.testing.assert_allclose(posterior.std**2, np.einsum("rii->ri", C))
    np.testing.assert_allclose(posterior.arm_widths(), np.einsum("kd,rde,ke->rk", X, C, X) / 0.7**2)
    np.testing.assert_allclose(posterior.covariance_dot(y[:2]), np.einsum("rde,re->rd", C, y[:2]))
    for rows in (y, csr_array(y)):
        np.testing.assert_allclose(posterior.quadratic(rows), width, atol=1e-15)
        np.testing.assert_allclose(posterior.normal.gaps(rows), -y @ posterior.theta_hat[0], atol=1e-15)


@pytest.mark.parametrize("kind", ROWS)
def test_whitening_inverts_drawing(kind):
    posterior, _ = learnt(kind, replications=1)
    normals = np.random.default_rng(5).normal(size=(1, 4, 6))
    np.testing.assert_allclose(posterior.whiten(posterior.theta_hat + posterior.noise(normals)[0]), normals[0])
    np.testing.assert_allclose(posterior.normal.root @ posterior.normal.root.T, learnt(kind, 1)[1][0])


@pytest.mark.parametrize("kind", ROWS)
def test_the_posterior_without_a_prior_is_least_squares(kind):
    arms = in_units(ROWS[kind], 0.5)
    counts = np.arange(1.0, len(arms) + 1.0)
    data = Measurements(arms, counts, counts * arms.dot(np.arange(6.0)))
    posterior, estimate = flat_posterior(data), data.least_squares()
    np.testing.assert_allclose(posterior.theta_hat[0], np.arange(6.0), atol=1e-9)
    rows = np.random.default_rng(6).normal(size=(3, 6))
    np.testing.assert_allclose(posterior.quadratic(rows), estimate.quadratic(rows))


def test_first_of_equally_strong_arms():
    gain, arm = Arms(np.array([[0.0, 1.0], [2.0, 0.0], [-2.0, 0.0], [1.0, 0.0]])).strongest
    np.testing.assert_array_equal(gain, [4.0, 1.0])
    np.testing.assert_array_equal(arm, [1, 0])


@pytest.mark.parametrize("kind", ["unit", "general"])
def test_part_orthogonal_to_all_arms(kind):
    arms = Arms(np.eye(3)[:2] if kind == "unit" else np.array([[1.0, 1.0, 0.0], [1.0, -1.0, 0.0]]))
    np.testing.assert_allclose(arms.blind(np.array([[1.0, 2.0, 3.0]])), [[0.0, 0.0, 3.0]], atol=1e-12)

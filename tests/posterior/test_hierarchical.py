"""The estimated prior against the restricted likelihood, computed from contrasts of the raw results."""

import numpy as np
import pytest
from scipy.linalg import null_space

from combopeps import ExplicitOracle, TopKOracle
from combopeps.posterior import Arms
from combopeps.posterior.hierarchical import HierarchicalPrior

SIGMA = 0.7


def results(rows, theta, counts, rng):
    """Weights, totals and the raw results of every arm, in units in which the noise is SIGMA."""
    raw = [rng.normal(row @ theta, SIGMA, size=n) for row, n in zip(rows, counts, strict=True)]
    return np.array([counts], dtype=float), np.array([[y.sum() for y in raw]]), raw


def posterior_of_tau(rows, raw, centre=None):
    """Mean and 10 % quantile of tau given contrasts of all raw results, on a fine grid, with DuMouchel's prior."""
    X = np.concatenate([np.tile(row, (len(y), 1)) for row, y in zip(rows, raw, strict=True)])
    y = np.concatenate(raw)
    if centre is None:
        C = null_space((X @ np.ones(X.shape[1]))[None]).T
    else:
        C, y = np.eye(len(y)), y - X @ centre
    unit = SIGMA / np.median(np.abs(rows).max(axis=1))
    values, vectors = np.linalg.eigh(C @ X @ X.T @ C.T)
    squares = (vectors.T @ C @ y) ** 2
    log_tau = np.linspace(-12.0, 12.0, 20_001)
    tau = np.exp(log_tau)[:, None]
    v = tau**2 * values + SIGMA**2
    log_density = -0.5 * (np.log(v) + squares / v).sum(axis=1) + log_tau - 2.0 * np.log(unit + tau[:, 0])
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    return (tau[:, 0] * density).sum(), np.exp(np.interp(0.1, np.cumsum(density), log_tau))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("counts", [[1, 2, 3, 1, 1, 4], [3, 3, 0, 1, 0, 2], [2, 1, 1, 0, 0, 0]])
def test_unit_arms_agree_with_contrasts(seed, counts):
    rng = np.random.default_rng(seed)
    theta = 5.0 + 2.0 * rng.normal(size=6)
    weights, totals, raw = results(np.eye(6), theta, counts, rng)
    found = HierarchicalPrior(Arms.of(TopKOracle(6, k=1)), None, None).estimate(weights, totals, np.array([SIGMA]))
    assert found.spread[0] == pytest.approx(posterior_of_tau(np.eye(6), raw)[1], rel=0.02)


@pytest.mark.parametrize("seed", range(4))
def test_general_arms_agree_with_contrasts(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(7, 4))
    weights, totals, raw = results(rows, rng.normal(3.0, 1.5, size=4), [1, 0, 2, 3, 1, 1, 2], rng)
    arms = Arms.of(ExplicitOracle(rows), rows)
    found = HierarchicalPrior(arms, None, None).estimate(weights, totals, np.array([SIGMA]))
    assert found.spread[0] == pytest.approx(posterior_of_tau(rows, raw)[0], rel=0.02)


def test_a_given_mean_is_kept():
    rng = np.random.default_rng(0)
    weights, totals, raw = results(np.eye(5), rng.normal(size=5), [2] * 5, rng)
    found = HierarchicalPrior(Arms.of(TopKOracle(5, k=1)), 1.0, None).estimate(weights, totals, np.array([SIGMA]))
    assert found.mean.tolist() == [[1.0] * 5]
    assert found.spread[0] == pytest.approx(posterior_of_tau(np.eye(5), raw, centre=np.ones(5))[1], rel=0.02)


def test_a_given_std_is_kept():
    """With tau known, mu has the generalised least squares estimate and its variance."""
    rng = np.random.default_rng(0)
    std, counts = np.array([0.5, 1.0, 2.0, 3.0]), np.array([1, 2, 3, 4])
    weights, totals, _ = results(np.eye(4), rng.normal(7.0, std), counts, rng)
    found = HierarchicalPrior(Arms.of(TopKOracle(4, k=1)), None, std).estimate(weights, totals, np.array([SIGMA]))
    v = std**2 + SIGMA**2 / counts
    mu = ((totals[0] / counts) / v).sum() / (1 / v).sum()
    np.testing.assert_allclose(found.mean, np.full((1, 4), mu))
    np.testing.assert_allclose(found.precision[0], 1.0 / (std**2 + 1.0 / (1.0 / v).sum()))


@pytest.mark.parametrize(("shift", "scale"), [(1e6, 1.0), (-3e3, 1e-3), (5e5, 1e3)])
def test_invariance_under_units(shift, scale):
    rng = np.random.default_rng(0)
    weights, totals, _ = results(np.eye(8), rng.normal(size=8), [1, 2, 0, 3, 1, 1, 0, 5], rng)
    prior = HierarchicalPrior(Arms.of(TopKOracle(8, k=1)), None, None)
    usual = prior.estimate(weights, totals, np.array([SIGMA]))
    other = prior.estimate(weights, scale * totals + shift * weights, np.array([scale * SIGMA]))
    np.testing.assert_allclose(other.spread, scale * usual.spread, rtol=1e-5)
    np.testing.assert_allclose(other.level, scale * usual.level + shift, rtol=1e-9, atol=1e-5 * scale)


def test_consistency_with_many_components():
    """Ten thousand components: both estimates are within five standard errors."""
    rng, d = np.random.default_rng(0), 10_000
    counts = rng.integers(0, 3, size=d)
    theta = rng.normal(42.0, 0.3, size=d)
    totals = counts * theta + np.sqrt(counts) * SIGMA * rng.normal(size=d)
    arms = Arms.of(TopKOracle(d, k=1))
    found = HierarchicalPrior(arms, None, None).estimate(counts[None].astype(float), totals[None], np.array([SIGMA]))
    assert found.level[0] == pytest.approx(42.0, abs=5 * 0.8 / np.sqrt(d / 2))
    assert found.spread[0] == pytest.approx(0.3, abs=0.06)


def test_a_prior_without_data():
    found = HierarchicalPrior(Arms.of(TopKOracle(3, k=1)), None, None).estimate(
        np.zeros((2, 3)), np.zeros((2, 3)), np.ones(2)
    )
    assert found.mean.shape == found.precision.shape == (2, 3)
    assert (found.precision > 0.0).all()

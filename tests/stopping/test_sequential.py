"""Group-sequential boundaries: published constants, multivariate normal probabilities, and simulation."""

import numpy as np
import pytest
from scipy.stats import binomtest, multivariate_normal, norm

from combopeps.errors import ParameterError
from combopeps.stopping.certificates.alpha_spending import boundaries, guaranteed_fractions

FALSE_ALARM = 1e-4
LOOKS = np.arange(1, 6) / 5
POCOCK = np.full(5, 2.413)  # five equally spaced looks, one-sided .025 (Jennison and Turnbull's tables)
O_BRIEN_FLEMING = 2.040 / np.sqrt(LOOKS)


def spend_of(fractions, c):
    """What a boundary spends at each look, by integrals of the multivariate normal density."""
    correlation = np.sqrt(np.minimum.outer(fractions, fractions) / np.maximum.outer(fractions, fractions))
    stays = [1.0, float(norm.cdf(c[0]))]
    for j in range(2, len(c) + 1):
        options = {"abseps": 1e-8, "releps": 1e-8, "maxpts": 500_000}
        stays.append(float(multivariate_normal.cdf(c[:j], cov=correlation[:j, :j], **options)))
    return -np.diff(stays)


@pytest.mark.parametrize("published", [POCOCK, O_BRIEN_FLEMING], ids=["Pocock", "O'Brien-Fleming"])
def test_published_constants_come_back(published):
    """The constants have four digits: 5e-4 of c is 2e-4 of probability at most."""
    spend = spend_of(LOOKS, published)
    assert spend.sum() == pytest.approx(0.025, abs=2e-4)
    np.testing.assert_allclose(boundaries(LOOKS, spend), published, atol=5e-3)


def crossings(fractions, c, paths, seed):
    """First crossings at each look, of simulated Brownian motion."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=(paths, len(c))) * np.sqrt(np.diff(fractions, prepend=0.0))
    above = np.cumsum(steps, axis=1) / np.sqrt(fractions) > c
    first = above & (np.cumsum(above, axis=1) == 1)
    return first.sum(axis=0)


@pytest.mark.parametrize("seed", range(3))
def test_brownian_motion_crosses_as_often_as_was_said(seed):
    """15 comparisons, each with false-alarm rate 1e-4."""
    rng = np.random.default_rng(seed)
    fractions = np.sort(rng.uniform(0.05, 1.0, 5))
    spend = rng.dirichlet(np.ones(5) * 2) * 0.1 + 1e-3
    paths = 100_000
    for seen, alpha in zip(crossings(fractions, boundaries(fractions, spend), paths, seed), spend, strict=True):
        assert binomtest(int(seen), paths, float(alpha)).pvalue > FALSE_ALARM


def test_a_boundary_without_multiplicity_crosses_too_often():
    paths = 20_000
    seen = crossings(LOOKS, np.full(5, norm.isf(0.05)), paths, 0).sum()
    assert binomtest(int(seen), paths, 0.05, alternative="greater").pvalue < FALSE_ALARM


COUNTS = np.array([[1, 10, 8], [5, 12, 10], [20, 14, 40], [21, 60, 41]])
SPEND = np.array([0.02, 0.03, 0.03, 0.02])


def comparison_crossings(fractions, y, paths=60_000, seed=4):
    """How often the comparison y crosses at some look, with the counts above and no difference in truth."""
    rng, c = np.random.default_rng(seed), boundaries(fractions, SPEND)
    steps = np.sqrt(np.diff(COUNTS, axis=0, prepend=0)) * rng.normal(size=(paths, *COUNTS.shape))
    estimates = (np.cumsum(steps, axis=1) / COUNTS) @ y
    return int((estimates / np.sqrt((y**2 / COUNTS).sum(axis=1)) > c).any(axis=1).sum()), paths


@pytest.mark.parametrize("y", [[1, -1, 0], [1, 0, -1], [0, 1, -1], [1, 1, -2], [0.1, 3, 1]])
def test_guaranteed_fractions_hold_for_every_comparison(y):
    fractions = guaranteed_fractions(COUNTS)
    assert (np.diff(fractions) > 0).all()
    assert fractions[-1] == 1.0
    seen, paths = comparison_crossings(fractions, np.array(y, dtype=float))
    assert binomtest(seen, paths, SPEND.sum(), alternative="greater").pvalue > FALSE_ALARM


def test_fractions_that_are_not_guaranteed_fail():
    """As if nearly everything had been measured at the first look."""
    seen, paths = comparison_crossings(np.array([0.97, 0.98, 0.99, 1.0]), np.array([1.0, -1.0, 0.0]))
    assert binomtest(seen, paths, SPEND.sum(), alternative="greater").pvalue < FALSE_ALARM


def test_guaranteed_fractions_are_below_every_true_one():
    rng = np.random.default_rng(5)
    for _ in range(200):
        counts = np.cumsum(rng.integers(1, 50, size=(4, 5)), axis=0)
        y = rng.normal(size=5)
        information = 1 / (y**2 / counts).sum(axis=1)
        assert (guaranteed_fractions(counts) <= information / information[-1] + 1e-12).all()


@pytest.mark.parametrize(
    ("fractions", "spend"),
    [
        ([0.5, 0.5], [0.01, 0.01]),
        ([0.0, 1.0], [0.01, 0.01]),
        ([0.5, 1.0], [0.0, 0.01]),
        ([0.5, 1.0], [0.6, 0.4]),
        ([1.0], [0.1, 0.1]),
    ],
)
def test_bad_boundaries(fractions, spend):
    with pytest.raises(ParameterError):
        boundaries(np.array(fractions), np.array(spend))

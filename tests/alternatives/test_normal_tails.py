"""The compiled normal tails against SciPy, far beyond where probabilities underflow.

Kolmogorov-Smirnov tests have a false alarm of 1e-4 for all of them together.
"""

from math import inf, log

import numpy as np
import pytest
from scipy import special, stats
from scipy.integrate import quad

from combopeps.posterior.normal_tails import (
    draw_interval,
    draw_tail,
    interval_mean,
    interval_variance,
    log_interval,
    log_ndtr,
)
from combopeps.random import stream_from

DRAWS = 20_000


@pytest.mark.parametrize("x", [8.0, 5.0001, 4.9999, 1.0, 0.0, -1.0, -5.0, -24.99, -25.01, -37.5, -38.6, -100.0, -1e4])
def test_log_ndtr(x):
    assert log_ndtr(x) == pytest.approx(special.log_ndtr(x), rel=1e-13, abs=1e-15)


def test_log_ndtr_is_continuous():
    grid = np.concatenate([np.linspace(-40, 10, 4001), [-25.0, 5.0], np.nextafter([-25.0, 5.0], 100)])
    np.testing.assert_allclose([log_ndtr(x) for x in grid], special.log_ndtr(grid), rtol=1e-12, atol=1e-15)


def test_a_probability_of_1e_minus_300_is_not_zero():
    x = stats.norm.ppf(1e-300)
    assert log_ndtr(x) == pytest.approx(-300 * log(10), rel=1e-12)
    assert np.isfinite(log_ndtr(-1e6))
    assert log_ndtr(-inf) == -inf
    assert log_ndtr(inf) == 0.0


def reference_log_interval(a, b):
    """ln of the integral of the density, with its largest value taken out first."""
    peak = min(max(0.0, a), b)
    scaled, _ = quad(
        lambda x: np.exp(0.5 * (peak - x) * (peak + x)),
        max(a, peak - 40.0 / (1.0 + abs(peak))) if a < peak else a,
        min(b, peak + 40.0 / (1.0 + abs(peak))) if b > peak else b,
        epsabs=0,
        epsrel=1e-12,
        limit=200,
    )
    return stats.norm.logpdf(peak) + log(scaled)


INTERVALS = [
    (-1.0, 2.0),
    (0.0, 1e-6),
    (-1e-9, 1e-9),
    (3.0, 3.5),
    (-3.5, -3.0),
    (30.0, 31.0),
    (-31.0, -30.0),
    (37.0, 37.0 + 1e-8),
    (60.0, 61.0),
    (60.0, 60.0 + 1.7e-5),
    (200.0, 200.1),
    (-1000.0, -999.5),
    (5.0, 5.00017),
    (0.0, 40.0),
    (-40.0, 40.0),
]


@pytest.mark.parametrize(("a", "b"), INTERVALS)
def test_log_interval(a, b):
    assert log_interval(a, b) == pytest.approx(reference_log_interval(a, b), rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("a", [-3.0, 0.0, 4.0, 39.0, 500.0])
def test_half_open_intervals_are_tails(a):
    assert log_interval(a, inf) == pytest.approx(special.log_ndtr(-a), rel=1e-12)
    assert log_interval(-inf, -a) == pytest.approx(special.log_ndtr(-a), rel=1e-12)


def test_the_whole_line_has_probability_one():
    assert log_interval(-inf, inf) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("a", [0.0, 1.0, 10.0, 50.0, 300.0])
def test_log_interval_is_continuous_where_the_method_changes(a):
    """Around b - a = 1e-3 / (1 + a), from rectangle to difference of tails."""
    seam = 1e-3 / (1.0 + a)
    below, above = log_interval(a, a + 0.999999 * seam), log_interval(a, a + 1.000001 * seam)
    assert above - below == pytest.approx(2e-6, rel=0.2, abs=2e-9)


@pytest.mark.parametrize(
    ("a", "b"), [(-1.0, 2.0), (2.0, inf), (-inf, 0.5), (5.0, 6.0), (-6.0, -5.0), (20.0, inf), (30.0, 30.5)]
)
def test_mean_and_variance_of_an_interval(a, b):
    law = stats.truncnorm(a, b)
    mass = log_interval(a, b)
    mean = interval_mean(a, b, mass)
    assert mean == pytest.approx(law.mean(), rel=1e-8)
    if abs(a) < 10:
        assert interval_variance(a, b, mass, mean) == pytest.approx(law.var(), rel=1e-5)


@pytest.mark.parametrize("a", [20.0, 126.0, 1e3, 1e4, 2.5e5])
def test_the_variance_of_a_far_tail_is_at_most_that_of_an_exponential(a):
    """1/a^2 is an upper bound in spite of cancellation."""
    for low, high in ((a, inf), (a, 2 * a), (-inf, -a)):
        mass = log_interval(low, high)
        variance = interval_variance(low, high, mass, interval_mean(low, high, mass))
        assert 0.0 < variance <= 1.001 / a**2 + 2e-9, (low, high, variance)


TAILS = [-3.0, 0.0, 0.39, 0.41, 2.0, 8.0, 39.0, 1000.0]
BOUNDED = [
    (-1.0, 2.0),
    (-0.2, 0.3),
    (0.5, 0.9),
    (3.0, 3.01),
    (3.0, 9.0),
    (-9.0, -3.0),
    (40.0, 40.01),
    (40.0, 41.0),
    (0.0, 5.0),
]
COMPARISONS = len(TAILS) + len(BOUNDED)


def uniform(draws, a, b):
    """Draws from [a, b] sent through their distribution function, in log space."""
    if a < 0 and b <= 0:
        return uniform(-draws, -b, -a)
    whole = log_interval(a, b)
    return np.array([np.exp(log_interval(a, x) - whole) for x in draws])


@pytest.mark.parametrize("a", TAILS)
def test_draws_from_a_tail(a):
    stream = stream_from(np.random.default_rng(1))
    draws = np.array([draw_tail(stream, a) for _ in range(DRAWS)])
    assert (draws > a).all()
    assert stats.kstest(uniform(draws, a, inf), "uniform").pvalue > 1e-4 / COMPARISONS


@pytest.mark.parametrize(("a", "b"), BOUNDED)
def test_draws_from_an_interval(a, b):
    stream = stream_from(np.random.default_rng(2))
    draws = np.array([draw_interval(stream, a, b) for _ in range(DRAWS)])
    assert (draws >= a).all()
    assert (draws <= b).all()
    assert stats.kstest(uniform(draws, a, b), "uniform").pvalue > 1e-4 / COMPARISONS


def test_the_test_of_draws_detects_a_uniform_distribution():
    draws = np.random.default_rng(3).uniform(0.5, 0.9, size=DRAWS)
    assert stats.kstest(uniform(draws, 0.5, 0.9), "uniform").pvalue < 1e-4 / COMPARISONS

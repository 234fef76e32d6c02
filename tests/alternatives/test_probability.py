"""P(Alt) against formulas, numerical integration and long Monte Carlo, down to probabilities that underflow."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtr
from scipy.stats import binom
from situations import PROBLEMS, Situation, at, measured

from combopeps import Box, ExplicitOracle, TopKOracle
from combopeps.alternatives import HalfSpaceSampler, draw_thetas
from combopeps.posterior import Arms, GaussianPosterior, RealSpace
from combopeps.posterior.normal_tails import log_interval


def probability(situation, seed=1, draws=20_000, eta=1.0, **options):
    sampler = HalfSpaceSampler(**options)
    return sampler.probability(
        situation.posterior, situation.oracle, situation.z_hat, seed, draws=draws, space=situation.space, eta=eta
    )


def explicit(Z, theta, count, arms=None):
    oracle = ExplicitOracle(Z)
    return Situation(measured(oracle, np.asarray(theta, dtype=float), count, arms), oracle)


def whitened(situation):
    """Every other answer as a half-space {a @ xi > b} of the standard normal xi."""
    posterior, Z = situation.posterior, situation.oracle.Z
    L = posterior.noise(np.eye(posterior.dim)[None])[0].T
    y = Z[(situation.z_hat != Z).any(axis=1)] - situation.z_hat
    return y @ L, -y @ posterior.theta_hat[0]


def integrate_plane(situation):
    """P(Alt) in d = 2: along the angle phi, the ray of xi leaves the cone at r(phi), and P(|xi| > r) = exp(-r^2/2)."""
    a, gap = whitened(situation)

    def beyond(phi):
        slope = a @ np.array([np.cos(phi), np.sin(phi)])
        if not (slope > 0).any():
            return 0.0
        return np.exp(-0.5 * (gap[slope > 0] / slope[slope > 0]).min() ** 2) / (2 * np.pi)

    pieces = np.linspace(0.0, 2 * np.pi, 65)
    return sum(quad(beyond, *ends, epsabs=1e-14, epsrel=1e-9, limit=200)[0] for ends in pairwise(pieces))


def integrate_sphere(situation, n=1500):
    """The same in d = 3: midpoints of a grid over the sphere, P(|xi| > r) of a chi with 3 degrees of freedom."""
    a, gap = whitened(situation)
    height = -1.0 + (2.0 * np.arange(n) + 1.0) / n
    phi = 2 * np.pi * (np.arange(n) + 0.5) / n
    total = 0.0
    for h in height:
        flat = np.sqrt(1 - h * h)
        slope = np.stack([flat * np.cos(phi), flat * np.sin(phi), np.full(n, h)], axis=1) @ a.T
        with np.errstate(divide="ignore"):
            r = np.where(slope > 0, gap / slope, np.inf).min(axis=1)
        finite = r[np.isfinite(r)]
        total += (2 * ndtr(-finite) + np.sqrt(2 / np.pi) * finite * np.exp(-0.5 * finite**2)).sum()
    return total / n / n


PLANE = np.array([[1.0, 0.0], [0.6, 0.8], [0.3, -0.9], [-1.0, 0.2], [0.9, 0.35]])
SPACE = np.random.default_rng(5).normal(size=(9, 3))
SPACE /= np.linalg.norm(SPACE, axis=1, keepdims=True)
OBLIQUE = np.array([[1.0, 0.5], [-0.2, 1.0]])


@pytest.mark.parametrize("arms", [None, OBLIQUE], ids=["diagonal", "dense"])
@pytest.mark.parametrize("count", [1, 10, 40, 150])
def test_plane_by_numerical_integration(count, arms):
    situation = explicit(PLANE, [1.0, 0.1], count, arms)
    found, truth = probability(situation), integrate_plane(situation)
    assert found.complete
    assert np.exp(found.log_probability) == pytest.approx(truth, rel=4 * found.relative_error + 1e-6)
    assert found.relative_error < 0.01


@pytest.mark.parametrize("arms", [None, SPACE[:4]], ids=["diagonal", "dense"])
@pytest.mark.parametrize("count", [2, 20, 80])
def test_space_by_numerical_integration(count, arms):
    situation = explicit(SPACE, SPACE[0], count, arms)
    found, truth = probability(situation), integrate_sphere(situation)
    assert np.exp(found.log_probability) == pytest.approx(truth, rel=4 * found.relative_error + 2e-4)


@pytest.mark.parametrize("rho", [-0.9, -0.3, 0.0, 0.5, 0.95])
def test_two_half_spaces_through_the_mean(rho):
    """Sheppard: the complement of two half-spaces at angle arccos(rho) has probability 1/4 + arcsin(rho) / 2 pi."""
    Z = np.array([[0.0, 0.0], [1.0, 0.0], [rho, np.sqrt(1 - rho**2)]])
    oracle = ExplicitOracle(Z)
    posterior = GaussianPosterior.start(Arms.of(oracle))
    found = HalfSpaceSampler().probability(posterior, oracle, Z[0], 1, draws=20_000)
    truth = 1 - (0.25 + np.arcsin(rho) / (2 * np.pi))
    assert np.exp(found.log_probability) == pytest.approx(truth, rel=4 * found.relative_error)


def test_an_orthant():
    """Three independent half-spaces through the mean: 1 - 1/8."""
    Z = np.concatenate([np.zeros((1, 3)), np.eye(3)])
    oracle = ExplicitOracle(Z)
    posterior = GaussianPosterior.start(Arms.of(oracle))
    found = HalfSpaceSampler().probability(posterior, oracle, Z[0], 1, draws=20_000)
    assert np.exp(found.log_probability) == pytest.approx(7 / 8, rel=4 * found.relative_error)


@pytest.mark.parametrize("arms", [None, OBLIQUE], ids=["diagonal", "dense"])
@pytest.mark.parametrize("wanted", [1e-3, 30.0, 700.0, 2000.0, 1e5])
def test_one_half_space_in_log_space(wanted, arms):
    """ln Phi(-b), exactly: with one half-space there is no Monte Carlo error."""
    situation = explicit(np.array([[1.0, 0.0], [0.0, 1.0]]), [np.sqrt(2 * wanted), 0.0], 1, arms)
    a, gap = whitened(situation)
    truth = log_ndtr(-gap[0] / np.linalg.norm(a[0]))
    found = probability(situation, draws=200)
    assert found.log_probability == pytest.approx(truth, rel=1e-11)
    assert found.relative_error < 1e-12


@pytest.mark.parametrize("wanted", [700.0, 2000.0])
def test_many_half_spaces_in_log_space(wanted):
    """Bonferroni bounds ln P from both sides: max ln Phi(-b) <= ln P <= ln sum Phi(-b)."""
    oracle = TopKOracle(8, 2)
    situation = Situation(measured(oracle, np.sqrt(4 * wanted) * np.r_[1.0, 1.0, np.zeros(6)], 1), oracle)
    a = oracle.facets(situation.z_hat).toarray() @ np.diag(np.sqrt(situation.posterior.variance[0]))
    gap = -oracle.facets(situation.z_hat) @ situation.posterior.theta_hat[0]
    parts = log_ndtr(-gap / np.linalg.norm(a, axis=1))
    found = probability(situation, draws=5000)
    assert parts.max() < -0.4 * wanted
    assert parts.max() <= found.log_probability <= np.logaddexp.reduce(parts) + 1e-9
    assert found.log_probability == pytest.approx(np.logaddexp.reduce(parts), abs=0.1)  # hardly any overlap out there


@pytest.mark.parametrize("far", [1.0, 8.0, 40.0, 70.0])
@pytest.mark.parametrize("box", [Box(-1.0, 100.0), Box(0.0, np.inf), Box(-np.inf, 30.0)], ids=str)
def test_two_coordinates_in_a_box_by_numerical_integration(far, box):
    """ln P(theta_1 > theta_0 | box) from the densities, their largest value taken out before integrating."""
    oracle = TopKOracle(2, 1)
    situation = Situation(measured(oracle, np.array([far, 0.0]), 1), oracle, box)
    (low, high), mean = (end[0] for end in box.bounds(2)), situation.posterior.theta_hat[0]
    s = np.sqrt(0.5)

    def log_joint(x):
        """Density of theta_0 at x, times P(x < theta_1 < high)."""
        tail = log_interval((x - mean[1]) / s, (high - mean[1]) / s)
        return -0.5 * ((x - mean[0]) / s) ** 2 + tail

    start, stop = max(low, mean[0] / 2 - 12.0), min(high, mean[0] / 2 + 12.0)
    top = max(log_joint(x) for x in np.linspace(start, stop, 2001)[:-1])
    ends = np.linspace(start, stop, 41)
    total = sum(quad(lambda x: np.exp(log_joint(x) - top), *pair)[0] for pair in pairwise(ends))
    inside = sum(log_interval((low - m) / s, (high - m) / s) for m in mean)
    truth = top + np.log(total / s / np.sqrt(2 * np.pi)) - inside
    found = probability(situation, draws=40_000)
    assert found.relative_error < 0.1
    assert found.log_probability == pytest.approx(truth, abs=4 * found.relative_error + 1e-4)


@pytest.mark.parametrize("boxed", [False, True])
@pytest.mark.parametrize("p", [0.3, 1e-2])
@pytest.mark.parametrize("name", PROBLEMS)
def test_long_monte_carlo(name, p, boxed):
    """Hits of plain draws are binomial: false alarm 1e-4 for all, one part in a hundred granted to unknown facets."""
    situation = at(name, p, boxed=boxed)
    found = probability(situation)
    n = 40_000
    thetas, inside = draw_thetas(situation.posterior, situation.space or RealSpace(), n, np.random.default_rng(2))
    hits = int((~situation.oracle.membership(situation.z_hat, thetas[inside])).sum())
    estimate = np.exp(found.log_probability)
    low, high = estimate * (1 - 4.5 * found.relative_error), estimate * (1.01 + 4.5 * found.relative_error)
    assert binom.ppf(1e-4 / 32, inside.sum(), low) <= hits <= binom.ppf(1 - 1e-4 / 32, inside.sum(), min(high, 1.0))


@pytest.mark.parametrize("boxed", [False, True])
@pytest.mark.parametrize("name", ["top-k", "sphere"])
def test_the_standard_error_is_calibrated(name, boxed):
    """Intervals of two standard errors hold the truth about 95 % of the time over 200 seeds.

    The number of misses is binomial; more than 24 or none at all would be a false alarm below 1e-3 each.
    """
    situation = at(name, 1e-1, boxed=boxed)
    sampler = HalfSpaceSampler()
    ask = situation.posterior, situation.oracle, situation.z_hat
    truth = sampler.probability(*ask, 0, draws=400_000, space=situation.space)
    assert truth.relative_error < 0.005
    runs = [sampler.probability(*ask, seed, draws=400, space=situation.space) for seed in range(1, 201)]
    ratios = np.exp([run.log_probability - truth.log_probability for run in runs])
    misses = int((np.abs(ratios - 1) > 2 * np.array([run.relative_error for run in runs])).sum())
    assert 1 <= misses <= 24, f"{misses} misses of 200"


@pytest.mark.parametrize("eta", [0.25, 4.0])
def test_eta_divides_the_covariance(eta):
    """theta_hat scaled by sqrt(eta) under the same covariance is the same problem."""
    oracle = TopKOracle(6, 2)
    theta = np.array([1.0, 0.9, 0.6, 0.5, 0.3, 0.1])
    direct = probability(Situation(measured(oracle, theta, 10), oracle), eta=eta, draws=40_000)
    scaled = probability(Situation(measured(oracle, theta * np.sqrt(eta), 10), oracle), draws=40_000, seed=2)
    error = np.hypot(direct.relative_error, scaled.relative_error)
    assert direct.log_probability == pytest.approx(scaled.log_probability, abs=4 * error)

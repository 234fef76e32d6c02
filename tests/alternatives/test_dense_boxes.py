"""General arms in a box: the minimax tilts against plain draws that were rejected, formulas, and numerical integrals.

The reference draws from the posterior on R^d, discards what is outside the box or has z_hat as its answer, and shares
no code with the samplers. False alarm 1e-3 for all comparisons of distributions in this file together; seeds are
fixed. The same comparison must detect proposals that are accepted without weights, and a posterior without its
correlations.
"""

import copy
from functools import cache

import networkx as nx
import numpy as np
import pytest
from scipy.special import log_ndtr, logsumexp
from scipy.stats import binom, multivariate_normal
from situations import Situation, measured, road_network
from unit_problem import unit_problem

from combopeps import Box, ExplicitOracle, ShortestPathOracle, identify
from combopeps.alternatives import (
    Alternatives,
    AutoSampler,
    HalfSpaceSampler,
    RejectionSampler,
    SamplingStats,
    draw_thetas,
)
from combopeps.alternatives import half_space as halfspace
from combopeps.alternatives import truncated_normal as minimax
from combopeps.alternatives.base import draw_thetas_and_noise
from combopeps.alternatives.check import compare_distributions
from combopeps.alternatives.truncated_normal import MinimaxWeights, Tilted, tilted_box
from combopeps.errors import SamplerCapError
from combopeps.oracles.base import strictly_better
from combopeps.posterior import Arms, GaussianPosterior
from combopeps.posterior.gaussian import Normal

SAMPLERS = {
    "half-space": HalfSpaceSampler,
    "auto, one try": lambda: AutoSampler(tries=1),
    "rejection in the box": RejectionSampler,
}
CASES = range(20)
ENOUGH = 1e-3 / (len(CASES) * (len(SAMPLERS) + 1) + 2)
DRAWS = 2000


def routes(oracle, n, seed):
    """The best routes at random lengths: n rows of 0 and 1."""
    lengths = np.random.default_rng(seed).exponential(size=(40 * n, oracle.dim))
    return np.unique(np.abs(oracle.argmax(lengths)), axis=0)[:n]


@cache
def case(seed):
    """The first random situation in which one plain draw in a thousand is an alternative in the box."""
    rng = np.random.default_rng(1000 + seed)
    while True:
        situation = on_a_map(rng) if seed % 2 else in_any_box(rng)
        if len(alternatives(situation, 20_000, rng)[0]) > 20:
            return situation


def on_a_map(rng):
    """Whole routes on a small map with cycles."""
    oracle = road_network(3)
    lengths = rng.uniform(0.1, 1.0, oracle.dim)
    arms = routes(oracle, 12, int(rng.integers(1000)))
    posterior = measured(oracle, lengths, rng.uniform(0.5, 6.0), arms, prior_mean=0.5, prior_precision=4.0)
    return Situation(posterior, oracle, Box(0.0, np.inf))


def in_any_box(rng):
    """Listed answers, oblique arms, and a box that cuts anywhere."""
    d = int(rng.integers(2, 8))
    oracle = ExplicitOracle(rng.normal(size=(2 * d, d)))
    posterior = measured(oracle, rng.normal(size=d), rng.uniform(0.3, 8.0), rng.normal(size=(d, d)))
    centre, std = posterior.theta_hat[0] + 0.7 * posterior.std[0] * rng.normal(size=d), posterior.std[0]
    low = np.where(rng.random(d) < 0.3, -np.inf, centre - std * rng.exponential(1.5, size=d))
    high = np.where(rng.random(d) < 0.4, np.inf, centre + std * rng.exponential(1.5, size=d))
    return Situation(posterior, oracle, Box(low, high))


def alternatives(situation, draws, rng):
    """By plain rejection: thetas, their answers, and how many draws were in the box."""
    posterior, oracle = situation.posterior, situation.oracle
    thetas = posterior.theta_hat[0] + rng.standard_normal((draws, posterior.dim)) @ posterior.spread[0].T
    thetas = thetas[situation.space.contains(thetas)]
    best = oracle.argmax(thetas)
    beaten = strictly_better(best, situation.z_hat, thetas)
    return thetas[beaten], best[beaten], len(thetas)


@cache
def reference(seed):
    """2,000 alternatives by plain rejection; how many there were, and the draws in the box and at all."""
    rng, found, inside, hits, draws = np.random.default_rng(2000 + seed), [], 0, 0, 0
    while hits < DRAWS:
        thetas, best, some = alternatives(case(seed), 100_000, rng)
        found.append((thetas, best))
        inside, hits, draws = inside + some, hits + len(thetas), draws + 100_000
    thetas, best = (np.concatenate(parts)[:DRAWS] for parts in zip(*found, strict=True))
    return Alternatives(thetas, best, SamplingStats(draws, draws)), hits, inside, draws


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("seed", CASES)
def test_same_distribution_as_plain_rejection(seed, name):
    truth = reference(seed)[0]
    found = case(seed).draw(SAMPLERS[name](), DRAWS, seed=3)
    test = compare_distributions(found, truth)
    assert test.p_value > ENOUGH, str(test)


@pytest.mark.parametrize("seed", CASES)
def test_draws_in_the_box(seed):
    """Plain posterior draws, as rules and PEPS use them: all of them are in the box."""
    situation, rng = case(seed), np.random.default_rng(4)
    posterior, box = situation.posterior, situation.space
    thetas, exact = draw_thetas(posterior, box, DRAWS, rng)
    assert exact.all()
    assert box.contains(thetas).all()
    plain = np.empty((0, posterior.dim))
    while len(plain) < DRAWS:
        more = posterior.theta_hat[0] + rng.standard_normal((50_000, posterior.dim)) @ posterior.spread[0].T
        plain = np.concatenate([plain, more[box.contains(more)]])[:DRAWS]
    z = np.zeros_like(thetas)
    test = compare_distributions(
        Alternatives(thetas, z, SamplingStats(1, 1)), Alternatives(plain, z[: len(plain)], SamplingStats(1, 1))
    )
    assert test.p_value > ENOUGH, str(test)


class AcceptsAll(HalfSpaceSampler):
    """Draws coordinate by coordinate and accepts everything, without tilt and weights."""

    def _sample(self, question, n, rng):
        def draw(tilted, *args, **options):
            return _DRAW(tilted._replace(mu=0.0 * tilted.mu, log_m=-1e9), *args, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Tilted, "draw", draw)
            return super()._sample(question, n, rng)


_DRAW = Tilted.draw


class IgnoresCorrelations(HalfSpaceSampler):
    """Right variances, but no correlations."""

    def _sample(self, question, n, rng):
        posterior = copy.deepcopy(question.posterior)
        posterior.become(Normal(posterior.theta_hat[0], np.diag(posterior.std[0])))
        return super()._sample(question._replace(posterior=posterior), n, rng)


@pytest.mark.parametrize(("wrong", "often"), [(AcceptsAll, 12), (IgnoresCorrelations, 17)])
def test_wrong_distributions_are_detected(wrong, often):
    """In most cases: not where few proposals are rejected, or where the correlations are weak."""
    tests = [compare_distributions(case(seed).draw(wrong(), DRAWS, seed=3), reference(seed)[0]) for seed in CASES]
    assert sum(test.p_value < ENOUGH for test in tests) >= often


@pytest.mark.parametrize("seed", CASES)
def test_probabilities(seed):
    """P(Theta) and P(Alt | Theta) within 4.5 standard errors of both: false alarm 7e-6 each, 3e-4 for all forty."""
    situation, (_, hits, inside, draws) = case(seed), reference(seed)
    found = HalfSpaceSampler().probability(
        situation.posterior, situation.oracle, situation.z_hat, 5, draws=20_000, space=situation.space
    )
    share = found.inside / found.tries
    for mine, error, count, total in (
        (np.exp(found.log_space) * share, np.sqrt((1 - share) / share / found.tries), inside, draws),
        (np.exp(found.log_probability), found.relative_error, hits, inside),
    ):
        truth = count / total
        assert abs(mine / truth - 1) < 4.5 * np.hypot(error, np.sqrt((1 - truth) / count))
    assert np.exp(found.log_probability) < found.upper_bound(1e-3)


def test_mass_of_a_box_against_another_algorithm():
    """Genz's integration in scipy, for random covariances in 2 to 5 dimensions; false alarm 7e-6 each."""
    rng = np.random.default_rng(6)
    for d in (2, 3, 4, 5) * 3:
        root = rng.normal(size=(d, d))
        mean, low = rng.normal(size=d), rng.normal(size=d) - 0.5
        high = low + rng.exponential(3.0, size=d)
        truth = multivariate_normal(mean, root @ root.T, seed=0, maxpts=1_000_000, releps=1e-5).cdf(
            high, lower_limit=low
        )
        tilted = Tilted.of(root @ root.T, mean, (low, high))
        kept, tries = tilted.draw(rng, 20_000, 20_000)
        share = len(kept) / tries
        assert np.exp(tilted.log_m) * share == pytest.approx(
            truth, rel=4.5 * np.sqrt((1 - share) / share / tries) + 1e-4
        )
        assert truth <= np.exp(tilted.log_m) * (1 + 1e-4)


def log_integral(posterior, y, low, high):
    """ln P(y @ theta > 0, theta in the box) in two dimensions: theta_1 given theta_0 is normal, theta_0 on a fine grid."""
    C, mean = posterior.covariance()[0], posterior.theta_hat[0]

    def integrand(x):
        centre, std = mean[1] + C[0, 1] / C[0, 0] * (x - mean[0]), np.sqrt(C[1, 1] - C[0, 1] ** 2 / C[0, 0])
        edge = -y[0] * x / y[1]
        a, b = (np.maximum(low[1], edge), high[1]) if y[1] > 0 else (low[1], np.minimum(high[1], edge))
        a, b = (a - centre) / std, (b - centre) / std
        a, b = np.where(a > 0, -b, a), np.where(a > 0, -a, b)  # in the lower tail
        with np.errstate(all="ignore"):
            inner = np.where(b > a, log_ndtr(b) + np.log1p(-np.exp(log_ndtr(a) - log_ndtr(b))), -np.inf)
        return inner - 0.5 * (x - mean[0]) ** 2 / C[0, 0] - 0.5 * np.log(2 * np.pi * C[0, 0])

    x = np.linspace(low[0], high[0], 100_001)
    matters = np.flatnonzero(integrand(x) > integrand(x).max() - 60)
    x = np.linspace(x[max(0, matters[0] - 1)], x[min(len(x), matters[-1] + 2) - 1], 400_001)
    return logsumexp(integrand(x)) + np.log(x[1] - x[0])


@pytest.mark.parametrize("count", [1, 20, 300, 3000, 30_000])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_far_tails_by_numerical_integration(seed, count):
    """Two answers in the plane, down to ln P below -1,000; false alarm 7e-6 each."""
    rng = np.random.default_rng(50 + seed)
    oracle = ExplicitOracle(np.array([[1.0, 0.2], [-0.3, 1.0]]))
    arms = np.array([[1.0, 0.6], [0.5, 1.0]]) + 0.2 * rng.normal(size=(2, 2))
    low, high = np.array([0.0, 0.0]), np.array([2.0, np.inf])
    situation = Situation(measured(oracle, np.array([0.9, 0.3]), count, arms), oracle, Box(low, high))
    y = (oracle.Z[(situation.z_hat != oracle.Z).any(axis=1)] - situation.z_hat)[0]
    posterior = situation.posterior
    truth = log_integral(posterior, y, low, high) - np.logaddexp(
        log_integral(posterior, y, low, high), log_integral(posterior, -y, low, high)
    )
    found = HalfSpaceSampler().probability(posterior, oracle, situation.z_hat, 7, draws=20_000, space=situation.space)
    assert found.log_probability == pytest.approx(truth, abs=4.5 * found.relative_error + 1e-4)
    assert found.complete
    assert truth < np.log(found.upper_bound(1e-3)) if truth > -700 else found.upper_bound(1e-3) == 0.0


def test_failure_rate_of_the_upper_bound():
    """At nu = 0.1 in 300 repetitions; false alarm 1e-4."""
    situation, (_, hits, inside, _) = case(0), reference(0)
    tilts = HalfSpaceSampler()
    rng = np.random.default_rng(8)
    bounds = [
        tilts.probability(
            situation.posterior, situation.oracle, situation.z_hat, rng, draws=200, space=situation.space
        ).upper_bound(0.1)
        for _ in range(300)
    ]
    assert np.sum(np.array(bounds) < hits / inside) <= binom.isf(1e-4, 300, 0.1)
    assert np.median(bounds) < 2 * hits / inside


def test_bounds_of_skipped_facets_hold(monkeypatch):
    """Bounds kept from one posterior to the next save most of the tilts, and hold."""
    oracle, arms, lengths, rng = grid_by_routes(4, 80, seed=2)
    posterior = measured(oracle, lengths, 60.0, arms)
    z_hat, worked = Situation(posterior, oracle).z_hat, []
    old = MinimaxWeights._compute_tilt
    monkeypatch.setattr(MinimaxWeights, "_compute_tilt", lambda self, f: worked.append(f) or old(self, f))
    kept = HalfSpaceSampler()
    kept.sample(posterior, oracle, z_hat, 1, 0)
    for t in range(10):
        arm = int(rng.integers(len(arms)))
        posterior.update(arm, float(arms[arm] @ lengths + rng.normal()))
        kept.sample(posterior, oracle, z_hat, 1, t)
    weights, saved = kept._tilted, len(worked)
    bounds, passed = weights._bound.copy(), [f for f in range(weights.facets.size) if f not in weights._tilts]
    assert len(passed) > 20
    assert saved < 0.5 * 11 * weights.facets.size
    for f in passed:  # ln P(y_f @ theta > 0, theta in Theta) = ln M_f + ln of the share of proposals that are kept
        tilted = old(weights, f)
        thetas, tries = tilted.draw(rng, 2000, 2000, skip=1)
        assert np.log(max(len(thetas), 1) / tries) + tilted.log_m < bounds[f] + 0.3


def test_unknown_noise_level_is_drawn_for_every_theta():
    """Given its size, each draw is one from the posterior in the box; false alarm 1e-3 / 82."""
    situation = case(0)
    posterior = copy.deepcopy(situation.posterior)
    posterior.dof = np.array([9.0])
    thetas, exact = draw_thetas_and_noise(posterior, situation.space, DRAWS, np.random.default_rng(11))
    assert exact.all()
    assert situation.space.contains(thetas).all()
    rng, plain = np.random.default_rng(12), []
    for eta in rng.chisquare(9.0, DRAWS) / 9.0:
        many = posterior.theta_hat[0] + rng.standard_normal((3000, posterior.dim)) @ posterior.spread[0].T / np.sqrt(
            eta
        )
        plain.append(many[situation.space.contains(many)][:1])
    plain = np.concatenate(plain)
    z = np.zeros_like(thetas)
    test = compare_distributions(
        Alternatives(thetas, z, SamplingStats(1, 1)), Alternatives(plain, z[: len(plain)], SamplingStats(1, 1))
    )
    assert test.p_value > ENOUGH, str(test)


def test_a_covariance_without_full_rank():
    """Two identical components: a row determined by the others is checked, not drawn."""
    oracle = ExplicitOracle(np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.4]]))
    posterior = GaussianPosterior.start(Arms.of(oracle, np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])))
    posterior.become(Normal(np.array([0.4, 0.1, 0.1]), np.array([[1.0, 0.3], [0.2, 1.0], [0.2, 1.0]])))
    box = Box(0.0, 2.0)
    thetas, exact = draw_thetas(posterior, box, 500, np.random.default_rng(13))
    assert exact.all()
    np.testing.assert_allclose(thetas[:, 1], thetas[:, 2], atol=1e-9)
    found = HalfSpaceSampler().sample(posterior, oracle, np.array([1.0, 0.0, 0.0]), 500, 14, space=box)
    assert box.contains(found.thetas).all()
    assert strictly_better(found.answers, np.array([1.0, 0.0, 0.0]), found.thetas).all()


def grid_by_routes(side, n, seed):
    oracle = ShortestPathOracle(nx.grid_2d_graph(side, side).to_directed(), (0, 0), (side - 1, side - 1))
    rng = np.random.default_rng(seed)
    return oracle, routes(oracle, n, seed), rng.uniform(0.2, 1.0, oracle.dim), rng


@pytest.mark.parametrize(("side", "n"), [(3, 12), (4, 80)])
def test_whole_routes_on_a_map_with_cycles(side, n):
    """Only sums over routes are measured: the run stops by the posterior rule, with the right answer."""
    oracle, arms, lengths, rng = grid_by_routes(side, n, seed=2)
    problem = unit_problem(oracle, arms=arms, noise_std=0.1)
    result = identify(problem, lambda x: float(arms[x] @ lengths + 0.1 * rng.normal()), budget=3000)
    assert result.stop_reason == "posterior"
    assert result.answer == oracle.decode(oracle.argmax(lengths))


def test_a_probability_of_1e_100_stops():
    """Rejection would not end."""
    oracle, arms, lengths, _ = grid_by_routes(3, 12, seed=2)
    situation = Situation(measured(oracle, lengths, 1e6, arms, noise_std=0.1), oracle)
    found = HalfSpaceSampler().probability(situation.posterior, oracle, situation.z_hat, 15)
    assert found.log_probability < np.log(1e-100)
    assert found.relative_error < 0.2
    assert np.isfinite(found.log_probability)
    result = identify(unit_problem(oracle, arms=arms, noise_std=1e-4), lambda x: float(arms[x] @ lengths), delta=1e-9)
    assert result.stop_reason == "posterior"


def test_too_many_components_are_refused_with_advice(monkeypatch):
    oracle, arms, lengths, _ = grid_by_routes(4, 80, seed=2)
    monkeypatch.setattr(minimax, "MAX_DIM", 3)
    monkeypatch.setattr(halfspace, "MAX_DIM", 3)
    situation = Situation(measured(oracle, lengths, 3.0, arms), oracle)
    with pytest.raises(SamplerCapError, match="measure single components"):
        situation.draw(HalfSpaceSampler(cap=1000), 1, seed=0)


def test_the_cap_error_gives_advice():
    oracle, arms, lengths, _ = grid_by_routes(4, 80, seed=2)
    situation = Situation(measured(oracle, lengths, 3.0, arms), oracle)
    with pytest.raises(SamplerCapError, match="a box in which theta has more room") as caught:
        situation.draw(HalfSpaceSampler(cap=20), 21, seed=0)
    assert caught.value.draws == 20


def test_the_bound_of_a_box_is_above_its_mass():
    """ln M on a map with 48 streets, far below what plain draws reach."""
    oracle, arms, lengths, rng = grid_by_routes(4, 80, seed=2)
    posterior = measured(oracle, lengths, 10.0, arms)
    tilted = tilted_box(posterior, Box(0.0, np.inf))
    kept, tries = tilted.draw(rng, 2000, 2000)
    assert tilted.found
    assert -60 < tilted.log_m < -10
    assert 0.01 < len(kept) / tries <= 1.0

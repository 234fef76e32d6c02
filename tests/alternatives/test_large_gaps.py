"""Gaps of a million standard deviations and more, in and out of boxes."""

import networkx as nx
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_ndtr
from scipy.stats import truncnorm
from situations import Situation, measured
from unit_problem import unit_problem

from combopeps import Box, MatchingOracle, ShortestPathOracle, TopKOracle, identify
from combopeps.alternatives import AutoSampler, GibbsSampler, HalfSpaceSampler, HitAndRunSampler, SamplingTask
from combopeps.alternatives.answer_probabilities import rank_answers
from combopeps.alternatives.replications import ReplicatedSampler
from combopeps.oracles.runtime_checks import ConsistencyCheck
from combopeps.posterior import Arms, GaussianPosterior, RealSpace
from combopeps.posterior.parameter_space import space_for
from combopeps.random import Streams

STREETS = ShortestPathOracle(nx.grid_2d_graph(3, 3), (0, 0), (2, 2))
ORACLES = {
    "streets": STREETS,
    "routes": ShortestPathOracle(nx.DiGraph([(0, 1), (1, 3), (0, 2), (2, 3), (1, 2)]), 0, 3),
    "matching": MatchingOracle(3, 3),
    "top-k": TopKOracle(6, 2),
}
GAPS = [0.0, 1e-3, 1.0, 30.0, 1e3, 1e6, 1e9, 1e11]
SAMPLERS = {
    "half-space": HalfSpaceSampler,
    "discovered": lambda: HalfSpaceSampler(closed_form=False),
    "auto": AutoSampler,
}


def far(oracle, gap, *, spread=1.0, prior_precision=1.0, noise_std=1.0):
    """Every second component is `spread` times as large."""
    theta = np.random.default_rng(5).uniform(0.5, 1.5, oracle.dim)
    theta *= np.where(np.arange(oracle.dim) % 2, spread, 1.0)
    deviation = (prior_precision + 100 / noise_std**2) ** -0.5
    posterior = measured(oracle, gap * deviation * theta, 100, prior_precision=prior_precision, noise_std=noise_std)
    return Situation(posterior, oracle)


@pytest.mark.parametrize("make", SAMPLERS.values(), ids=SAMPLERS)
@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("name", ORACLES)
def test_few_proposals_and_another_answer_at_any_distance(name, gap, make):
    situation = far(ORACLES[name], gap)
    found = situation.draw(make(), 20, 1)
    assert np.isfinite(found.thetas).all()
    assert space_for(situation.oracle, None).contains(found.thetas).all()
    assert not (found.answers == situation.z_hat).all(axis=1).any()
    assert found.account.draws < 1000 + 64 * 20  # auto begins with 64 plain draws for each
    assert found.account.log_probability <= 0.0


@pytest.mark.parametrize("gap", [0.0, 1.0, 1e3])
@pytest.mark.parametrize("name", ORACLES)
def test_components_of_very_different_scale(name, gap):
    situation = far(ORACLES[name], gap, spread=1e8)
    found = situation.draw(HalfSpaceSampler(), 20, 1)
    assert not (found.answers == situation.z_hat).all(axis=1).any()
    assert found.account.draws < 1000


@pytest.mark.parametrize("noise_std", [1e-6, 1.0])
@pytest.mark.parametrize("prior_std", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("gap", [0.0, 1.0, 1e6])
@pytest.mark.parametrize("name", ORACLES)
def test_units_do_not_matter(name, gap, prior_std, noise_std):
    situation = far(ORACLES[name], gap, prior_precision=prior_std**-2, noise_std=noise_std)
    for make in (HalfSpaceSampler, AutoSampler):
        found = situation.draw(make(), 5, 1)
        assert not (found.answers == situation.z_hat).all(axis=1).any()
    space = space_for(situation.oracle, None)
    rng = np.random.default_rng(2)
    found = rank_answers(
        AutoSampler(), SamplingTask(situation.posterior, situation.oracle, situation.z_hat, space), rng
    )
    assert 0.0 <= found.error_probability <= 1.0
    assert found.runner_up is not None
    assert not np.array_equal(found.runner_up, situation.z_hat)


def test_policies_never_get_the_current_answer_as_alternative():
    """Rounding puts these draws on the boundary, where z_hat ties with another answer."""
    oracle = ORACLES["top-k"]
    posterior = GaussianPosterior.start(Arms.of(oracle), replications=2)
    for arm, value in enumerate(np.random.default_rng(5).uniform(0.5, 1.5, oracle.dim)):
        posterior.update(arm, 1e11 * value, count=100)
    z_hat = oracle.argmax(posterior.theta_hat)
    rows = ReplicatedSampler(oracle, RealSpace(), Streams.of(0, 2), None, ConsistencyCheck(oracle))
    _, best = rows.sample(posterior, z_hat, 10, answers=True)
    assert not (best == z_hat[:, None]).all(axis=2).any()


def test_a_route_is_identified_with_noise_of_one_in_a_million():
    lengths = dict(zip(STREETS.components, np.random.default_rng(6).uniform(1.0, 2.0, STREETS.dim), strict=True))
    noise = np.random.default_rng(7)
    result = identify(
        unit_problem(STREETS, noise_std=1e-6, prior_std=10.0),
        lambda street: lengths[street] + 1e-6 * noise.normal(),
        delta=0.01,
        budget=200,
        rng=8,
    )
    assert result.answer == STREETS.decode(STREETS.argmax([lengths[street] for street in STREETS.components]))


BOXES = {
    "far away": (-50.0, 50.0),
    "one end near": (0.0, np.inf),
    "both ends near": (0.5, 1.6),
    "the mean outside": (1.2, 2.0),
    "a thin slice": (0.99, 1.01),
}


@pytest.mark.parametrize("deviation", [1.0, 0.3, 0.1, 0.02])
@pytest.mark.parametrize(("low", "high"), BOXES.values(), ids=BOXES)
def test_two_items_in_a_box_against_quadrature(low, high, deviation):
    """P(theta_1 > theta_0 | box) by numerical integration, within 4 standard errors; the other width differs."""
    oracle, mean, std = TopKOracle(2, 1), np.array([1.05, 0.7]), deviation * np.array([1.0, 0.5])
    posterior = GaussianPosterior.start(Arms.of(oracle), prior_precision=1e-9)
    for arm in range(2):
        posterior.update(arm, float(mean[arm]), count=1)
    posterior.variance[0], posterior.theta_hat[0] = std**2, mean
    laws = [truncnorm((low - m) / s, (high - m) / s, loc=m, scale=s) for m, s in zip(mean, std, strict=True)]
    meeting = np.clip((mean / std**2).sum() / (1 / std**2).sum(), low, high)
    ends = max(low, meeting - 12 * std[0]), min(high, meeting + 12 * std[0])
    truth = quad(lambda x: laws[0].pdf(x) * laws[1].sf(x), *ends, limit=500, epsabs=0.0)[0]
    z_hat = oracle.encode([0])
    found = HalfSpaceSampler().probability(posterior, oracle, z_hat, 3, draws=20_000, space=Box(low, high))
    assert abs(np.exp(found.log_probability) / truth - 1) < 4 * found.relative_error + 1e-6


@pytest.mark.parametrize("gap", [1.0, 10.0, 1e3, 1e6])
def test_a_box_far_away_changes_nothing(gap):
    oracle = TopKOracle(2, 1)
    posterior = measured(oracle, np.array([gap, 0.0]), 10**4)
    found = HalfSpaceSampler().probability(posterior, oracle, oracle.encode([0]), 4, space=Box(-1e12, 1e12))
    b = float(posterior.theta_hat[0] @ [1.0, -1.0]) / np.sqrt(posterior.variance[0].sum())
    assert found.log_probability == pytest.approx(float(log_ndtr(-b)), rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("make", [HitAndRunSampler, GibbsSampler])
@pytest.mark.parametrize("gap", [1.0, 100.0, 1e5])
def test_chains_reach_alternatives_far_inside_an_orthant(gap, make):
    situation = far(STREETS, gap)
    found = situation.draw(make(steps=2), 3, 1)
    assert (found.thetas >= 0).all()
    assert np.isfinite(found.thetas).all()


@pytest.mark.parametrize("make", [HitAndRunSampler, GibbsSampler])
def test_chains_on_a_scale_of_1e_12(make):
    situation = far(STREETS, 0.3, prior_precision=1e24)
    assert np.isfinite(situation.draw(make(steps=3), 10, 1).thetas).all()

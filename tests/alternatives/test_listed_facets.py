"""Routes and matchings with few facets: all of them are known, and estimates are marked as complete."""

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import csr_array
from situations import Situation, measured, road_network

from benchmarks._problems import grid, matching
from combopeps import Box, MatchingOracle, ShortestPathOracle, TopKOracle
from combopeps.alternatives import AutoSampler, HalfSpaceSampler, RejectionSampler
from combopeps.alternatives.facets import Facets
from combopeps.alternatives.truncated_normal import TiltedWeights
from combopeps.errors import NoAlternativeError

FEW = {
    "grid": lambda: grid(6).oracle,
    "roads": road_network,
    "streets": lambda: ShortestPathOracle(nx.grid_2d_graph(3, 3), (0, 0), (2, 2)),
    "assignment": lambda: MatchingOracle(5, 5),
    "too many tasks": lambda: MatchingOracle(3, 5),
}


def situation_of(oracle, count=30, seed=1, space=None):
    theta = np.random.default_rng(seed).uniform(0.3, 1.2, oracle.dim)
    return Situation(measured(oracle, theta, count), oracle, space)


@pytest.mark.parametrize("make", FEW.values(), ids=FEW)
def test_all_facets_are_known_without_a_search(make):
    situation = situation_of(make())
    account = situation.draw(HalfSpaceSampler(), 7, 1).account
    assert account.oracle_calls == 7
    found = HalfSpaceSampler().probability(situation.posterior, situation.oracle, situation.z_hat, 2)
    assert found.complete
    assert found.missing == 0.0


@pytest.mark.parametrize("boxed", [False, True])
@pytest.mark.parametrize("make", FEW.values(), ids=FEW)
def test_every_alternative_lies_in_a_listed_half_space(make, boxed):
    """Alternatives found by rejection lie in a listed half-space; a third of the facets is not enough."""
    oracle = make()
    situation = situation_of(oracle, 3, space=Box(0.2, 1.5) if boxed else None)
    thetas = situation.draw(RejectionSampler(), 3000, 3).thetas
    rows = oracle.facets_up_to(situation.z_hat, 1000)
    assert (rows @ thetas.T > 0).any(axis=0).all()
    assert not (rows[::3] @ thetas.T > 0).any(axis=0).all()


@pytest.mark.parametrize("make", [lambda: grid(10), lambda: matching(8)], ids=["grid", "matching"])
def test_long_lists_are_not_used_and_estimates_are_incomplete(make):
    problem = make()
    situation = situation_of(problem.oracle)
    assert problem.oracle.facets_up_to(situation.z_hat, 1000) is None
    found = HalfSpaceSampler(max_rays=64).probability(situation.posterior, problem.oracle, situation.z_hat, 1, draws=10)
    assert not found.complete


def test_the_limit_of_the_sampler_holds_for_lists_too():
    situation = situation_of(MatchingOracle(5, 5))
    sampler = HalfSpaceSampler(max_facets=83)
    assert situation.draw(sampler, 1, 1).account.facets <= 83
    assert not sampler.probability(situation.posterior, situation.oracle, situation.z_hat, 1, draws=10).complete


@pytest.mark.parametrize("make", [HalfSpaceSampler, AutoSampler, lambda: AutoSampler(tries=1)])
@pytest.mark.parametrize("domain", ["real", "nonnegative"])
def test_one_route_only(make, domain):
    oracle = ShortestPathOracle((nx.DiGraph if domain == "real" else nx.Graph)([(0, 1), (1, 2)]), 0, 2)
    assert oracle.domain == domain
    assert oracle.facets_up_to(oracle.argmax(np.ones(2)), 10).shape == (0, 2)
    with pytest.raises(NoAlternativeError):
        situation_of(oracle).draw(make(), 1, 1)


def weights_of(tilted, situation, eta=1.0):
    """Return ln M of every facet after a draw."""
    tilted.facets.sync(situation.posterior, eta)
    tilted.draw(situation.posterior, eta, np.random.default_rng(0), 1, cap=10)
    return tilted._tilt[4].copy()


def test_weights_in_a_box_after_renumbering():
    """Some facets are removed and others added between two draws, and the number of facets does not decrease."""
    oracle = TopKOracle(6, 2)
    situation, box = situation_of(oracle), Box(0.0, 1.5)
    answers = situation.z_hat + oracle.facets(situation.z_hat).toarray()
    cache = Facets(situation.z_hat)
    cache.add(answers[:3])
    used = TiltedWeights(cache, box)
    weights_of(used, situation)
    cache.add(answers[3:])
    cache.keep(np.array([7, 5, 6, 1]))
    np.testing.assert_array_equal(weights_of(used, situation), weights_of(TiltedWeights(cache, box), situation))


@pytest.mark.parametrize("eta", [1.0, 0.5])
def test_skipped_facets_are_included_when_they_matter(eta):
    """Facets of negligible weight are skipped while one facet is near; then it moves away, and the box changes."""
    oracle, box = road_network(), Box(0.0, np.inf)
    situation = situation_of(oracle, 2000)
    cache = Facets(situation.z_hat)
    cache.set_all(oracle.facets_up_to(situation.z_hat, 1000))
    used = TiltedWeights(cache, box)
    before = weights_of(used, situation, eta)
    assert (before == -np.inf).sum() > 10
    theta = situation.posterior.theta_hat[0]
    for arm in np.flatnonzero(situation.z_hat == 0):
        situation.posterior.update(int(arm), float(0.05 + 0.3 * theta[arm]), count=20_000)
    after = weights_of(used, situation, eta)
    assert (after > -np.inf).sum() > (before > -np.inf).sum()
    fresh = weights_of(TiltedWeights(cache, box), situation, eta)
    np.testing.assert_array_equal(after > -np.inf, fresh > -np.inf)
    known = after > -np.inf
    np.testing.assert_allclose(after[known], fresh[known], atol=0.05)  # any tilt near the best one will do


class Rewards(TopKOracle):
    """A custom oracle with non-negative rewards, without a list of facets."""

    domain = "nonnegative"
    facet_count = None

    def facets(self, z):
        return None


def test_non_negative_rewards():
    """Forbidding a component may not make its reward negative; forcing one in is possible."""
    oracle = Rewards(8, 3)
    situation = situation_of(oracle, 10)
    sampler = HalfSpaceSampler()
    thetas = situation.draw(sampler, 300, 1).thetas
    assert (thetas >= 0).all()
    assert sampler.cone.size == TopKOracle(8, 3).facet_count


@pytest.mark.parametrize("seed", range(4))
def test_the_search_finds_facets_outside_a_tight_box(seed):
    """A grid with too many facets for a list: components are forced in although the box forbids it."""
    problem = grid(10)
    theta = np.random.default_rng(seed).uniform(0.5, 1.5, problem.oracle.dim)
    posterior = measured(problem.oracle, theta, 4)
    box = Box(posterior.theta_hat[0] - 0.5, posterior.theta_hat[0] + 1.0)
    situation = Situation(posterior, problem.oracle, box)
    sampler = HalfSpaceSampler()
    situation.draw(sampler, 1, seed)
    assert sampler.cone.size > 50
    thetas = situation.draw(RejectionSampler(), 2000, seed).thetas
    size, indptr, indices, data = sampler.cone.rows
    rows = csr_array((data[: indptr[size]], indices[: indptr[size]], indptr[: size + 1]), (size, problem.oracle.dim))
    assert (rows @ thetas.T > 0).any(axis=0).mean() > 0.99

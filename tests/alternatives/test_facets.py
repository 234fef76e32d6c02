"""Known facets: kept in sync by incremental updates, kept while the answer stays, dropped when it changes."""

import numpy as np
import pytest
from scipy.special import log_ndtr
from situations import PROBLEMS, Situation, at, measured

from benchmarks._problems import at_probability, grid, matching
from combopeps import Box, ExplicitOracle, MatchingOracle, TopKOracle
from combopeps.alternatives import AutoSampler, HalfSpaceSampler
from combopeps.alternatives.base import SamplingTask
from combopeps.alternatives.facets import Facets
from combopeps.posterior import RealSpace


class Counting:
    """Counts the thetas passed to an oracle."""

    def __init__(self, oracle):
        self.rows, answers = 0, oracle._answers

        def counted(thetas):
            self.rows += len(thetas)
            return answers(thetas)

        oracle._answers = counted


def rows_of(cache):
    size, indptr, indices, data = cache.rows
    rows = np.zeros((size, len(cache.z_hat)))
    for f in range(size):
        rows[f, indices[indptr[f] : indptr[f + 1]]] = data[indptr[f] : indptr[f + 1]]
    return rows


def assert_in_sync(cache, posterior, eta=1.0):
    """Assert that gaps, widths and weights are those of the current posterior."""
    rows = rows_of(cache)
    covariance = np.stack([posterior.covariance_dot(e[None])[0] for e in np.eye(posterior.dim)])
    gap, width = -rows @ posterior.theta_hat[0], np.einsum("fi,ij,fj->f", rows, covariance, rows)
    np.testing.assert_allclose(cache.gap[: cache.size], gap, rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(cache.width[: cache.size], width, rtol=1e-8)
    np.testing.assert_allclose(cache.log_w[: cache.size], log_ndtr(-gap * np.sqrt(eta / width)), rtol=1e-7)


@pytest.mark.parametrize("eta", [1.0, 0.3])
@pytest.mark.parametrize("closed_form", [True, False])
@pytest.mark.parametrize("make", [lambda: TopKOracle(9, 3), lambda: MatchingOracle(4, 4)])
def test_in_sync_after_hundreds_of_measurements(make, closed_form, eta):
    oracle, rng = make(), np.random.default_rng(81)
    z_hat = oracle.argmax(rng.normal(size=oracle.dim))
    posterior = measured(oracle, z_hat * 1.0, 3)
    sampler = HalfSpaceSampler(closed_form=closed_form)
    for round_ in range(400):
        arm = int(rng.integers(oracle.dim))
        posterior.update(arm, float(z_hat[arm] + rng.normal()))
        if round_ % 3 == 0:  # several measurements between two calls
            sampler.prepare(SamplingTask(posterior, oracle, z_hat, RealSpace(), eta), rng)
    sampler.prepare(SamplingTask(posterior, oracle, z_hat, RealSpace(), eta), rng)
    cache = sampler.cone
    assert cache.size >= 12
    assert_in_sync(cache, posterior, eta)


def test_in_sync_beyond_the_next_computation_from_scratch():
    oracle, rng = TopKOracle(5, 2), np.random.default_rng(82)
    posterior = measured(oracle, np.array([1.0, 0.9, 0.2, 0.1, 0.0]), 2)
    cache = Facets(oracle.argmax(posterior.theta_hat[0]))
    cache.set_all(oracle.facets(cache.z_hat))
    for _ in range(6000):
        posterior.update(int(rng.integers(5)), float(rng.normal()))
        cache.sync(posterior, 1.0)
    assert_in_sync(cache, posterior)


def test_in_sync_with_a_full_covariance():
    points = np.random.default_rng(83).normal(size=(10, 4))
    oracle, rng = ExplicitOracle(points), np.random.default_rng(84)
    posterior = measured(oracle, points[0], 2, points)
    cache = Facets(points[0])
    cache.set_all(oracle.facets(points[0]))
    for _ in range(100):
        posterior.update(int(rng.integers(10)), float(rng.normal()))
        cache.sync(posterior, 2.0)
    assert_in_sync(cache, posterior, 2.0)


def test_another_posterior_about_the_same_answer():
    """A sampler alternates between the posteriors of two replications."""
    oracle = TopKOracle(6, 2)
    z_hat = np.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    one, two = measured(oracle, z_hat, 3), measured(oracle, 2.0 * z_hat + 0.1, 50)
    sampler, rng = HalfSpaceSampler(), np.random.default_rng(85)
    for posterior in (one, two, one):
        assert_in_sync(sampler.prepare(SamplingTask(posterior, oracle, z_hat, RealSpace(), 1.0), rng), posterior)


@pytest.mark.parametrize("boxed", [False, True])
def test_used_sampler_draws_from_the_new_posterior(boxed):
    """New and used samplers have the same weights after the posterior has changed."""
    oracle, rng = TopKOracle(6, 2), np.random.default_rng(86)
    theta = np.array([1.0, 0.9, 0.6, 0.5, 0.3, 0.1])
    space = Box(-1.0, 2.0) if boxed else None
    posterior, used = measured(oracle, theta, 10), HalfSpaceSampler()
    z_hat = oracle.argmax(theta)
    for _ in range(200):
        arm = int(rng.integers(6))
        posterior.update(arm, float(theta[arm]))
        used.sample(posterior, oracle, z_hat, 1, rng, space=space)
    old = used.probability(posterior, oracle, z_hat, 1, draws=40_000, space=space)
    new = HalfSpaceSampler().probability(posterior, oracle, z_hat, 2, draws=40_000, space=space)
    error = np.hypot(old.relative_error, new.relative_error)
    assert old.log_probability == pytest.approx(new.log_probability, abs=4 * error)


def test_facets_are_kept_while_the_answer_stays_and_dropped_when_it_changes():
    oracle = MatchingOracle(5, 5)
    theta = np.random.default_rng(87).uniform(size=25)
    posterior, sampler = measured(oracle, theta, 50), HalfSpaceSampler(closed_form=False)
    z_hat = oracle.argmax(theta)
    first = sampler.sample(posterior, oracle, z_hat, 1, 1).account
    cache = sampler.cone
    later = [sampler.sample(posterior, oracle, z_hat, 1, seed).account.oracle_calls for seed in range(2, 40)]
    assert sampler.cone is cache
    assert first.oracle_calls > 100
    assert np.mean(later) < first.oracle_calls / 10

    other = oracle.argmax(-theta)
    moved = measured(oracle, -theta, 50)
    again = sampler.sample(moved, oracle, other, 1, 3)
    assert sampler.cone is not cache
    assert again.account.oracle_calls > 100
    np.testing.assert_array_equal(sampler.cone.z_hat, other)
    assert not oracle.membership(other, again.thetas).any()


def test_another_space_or_oracle_gets_a_new_cone():
    oracle, twin = TopKOracle(5, 2), TopKOracle(5, 2)
    posterior, sampler = measured(oracle, np.array([1.0, 0.9, 0.2, 0.1, 0.0]), 5), HalfSpaceSampler()
    z_hat = oracle.argmax(posterior.theta_hat[0])
    sampler.sample(posterior, oracle, z_hat, 1, 1)
    assert sampler.cone.belongs_to(oracle, z_hat, RealSpace())
    assert not sampler.cone.belongs_to(twin, z_hat, RealSpace())
    found = sampler.sample(posterior, oracle, z_hat, 50, 1, space=Box(0.0, 1.0))
    assert (found.thetas >= 0).all()
    assert (found.thetas <= 1).all()
    back = sampler.sample(posterior, oracle, z_hat, 200, 1)
    assert (back.thetas < 0).any()


@pytest.mark.parametrize("make", [lambda: TopKOracle(9, 3), lambda: ExplicitOracle(np.eye(9))])
def test_closed_form_facets_need_no_search(make):
    """The oracle is called for the returned alternatives only."""
    oracle = make()
    situation = Situation(measured(oracle, np.linspace(1.0, 0.0, 9), 5), oracle)
    sampler = HalfSpaceSampler()
    counter = Counting(oracle)
    account = sampler.sample(
        situation.posterior, oracle, np.array(oracle.argmax(np.linspace(1.0, 0.0, 9))), 7, 1
    ).account
    assert counter.rows == 1 + 7
    assert account.oracle_calls == 7
    assert account.facets == oracle.facet_count
    assert sampler.cone.complete
    searched = HalfSpaceSampler(closed_form=False)
    assert situation.draw(searched, 1, 1).account.oracle_calls > 50
    assert not searched.cone.complete


def test_a_list_longer_than_max_facets_is_not_used():
    oracle = TopKOracle(30, 5)
    situation = Situation(measured(oracle, np.linspace(1.0, 0.0, 30), 5), oracle)
    sampler = HalfSpaceSampler(max_facets=100)
    assert situation.draw(sampler, 1, 1).account.facets <= 100
    assert not sampler.cone.complete


@pytest.mark.parametrize("boxed", [False, True])
def test_the_less_probable_half_is_removed(boxed):
    oracle = MatchingOracle(5, 5)
    theta = np.random.default_rng(88).uniform(size=25)
    posterior = measured(oracle, theta, 40)
    z_hat, space = oracle.argmax(theta), Box(-2.0, 3.0) if boxed else RealSpace()
    everything = HalfSpaceSampler()
    everything.prepare(SamplingTask(posterior, oracle, z_hat, space, 1.0), np.random.default_rng(1))
    everything = everything.cone
    assert everything.size > 24
    sampler = HalfSpaceSampler(max_facets=24)
    for seed in range(60):
        found = sampler.sample(posterior, oracle, z_hat, 3, seed, space=space)
        assert found.account.facets <= 24
        assert not oracle.membership(z_hat, found.thetas).any()
    cache = sampler.cone
    assert_in_sync(cache, posterior)
    best = np.sort(everything.log_w[: everything.size])[::-1][:6]
    assert np.sort(cache.log_w[: cache.size])[::-1][:6] == pytest.approx(best)


def test_keep_renumbers_facets():
    oracle = TopKOracle(6, 2)
    z_hat = np.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    cache = Facets(z_hat)
    others = np.array([z_hat + row for row in oracle.facets(z_hat).toarray()])
    assert cache.add(others).tolist() == list(range(8))
    before = rows_of(cache)
    cache.keep(np.array([6, 1, 3]))
    np.testing.assert_array_equal(rows_of(cache), before[[6, 1, 3]])
    assert cache.add(others[[1, 3, 6]]).tolist() == [1, 2, 0]
    assert cache.size == 3
    posterior = measured(oracle, z_hat, 3)
    cache.sync(posterior, 1.0)
    assert_in_sync(cache, posterior)
    assert cache.add(others).tolist() == [3, 1, 4, 2, 5, 6, 0, 7]
    cache.sync(posterior, 1.0)
    assert_in_sync(cache, posterior)


def test_no_facet_twice_and_never_z_hat_itself():
    cache = Facets(np.array([1.0, 0.0, 0.0]))
    numbers = cache.add(np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    assert numbers.tolist() == [0, -1, 0, 1]
    assert cache.size == 2


def test_thousands_of_facets():
    """More facets than any initial allocation."""
    oracle = TopKOracle(120, 60)
    z_hat = oracle.argmax(np.arange(120.0))
    rows = oracle.facets(z_hat).toarray()
    cache = Facets(z_hat)
    for part in np.array_split(rows, 7):
        cache.add(z_hat + part)
    np.testing.assert_array_equal(rows_of(cache), rows)
    posterior = measured(oracle, z_hat, 3)
    cache.sync(posterior, 1.0)
    assert cache.log_mass == pytest.approx(np.logaddexp.reduce(cache.log_w[: cache.size]), rel=1e-9)


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_known_facet_leads_to_an_alternative(name):
    """A row is an answer minus z_hat, with a gap that is not negative."""
    situation = at(name, 1e-2)
    sampler = HalfSpaceSampler(closed_form=False)
    situation.draw(sampler, 200, seed=1)
    cache = sampler.cone
    answers = cache.z_hat + rows_of(cache)
    for z in answers[:40]:
        situation.oracle.decode(z)
    assert (cache.gap[: cache.size] >= -1e-9).all()


@pytest.mark.parametrize("make", [lambda: grid(10), lambda: matching(10)], ids=["grid", "matching"])
@pytest.mark.parametrize(("sampler", "p"), [(HalfSpaceSampler, 1e-1), (HalfSpaceSampler, 1e-6), (AutoSampler, 1e-6)])
def test_at_most_ten_oracle_calls_per_alternative(make, p, sampler):
    """Over 1,000 rounds that each change the posterior, with the first search; the account agrees with a count."""
    problem = make()
    posterior, rng = at_probability(problem, p), np.random.default_rng(89)
    z_hat = problem.oracle.argmax(posterior.theta_hat[0])
    counter, told, mine = Counting(problem.oracle), 0, sampler()
    for _ in range(1000):
        arm = int(rng.integers(posterior.dim))
        posterior.update(arm, float(posterior.theta_hat[0, arm]) + rng.normal())
        told += mine.sample(posterior, problem.oracle, z_hat, 1, rng).account.oracle_calls
    assert told <= 10_000, f"{told / 1000:.1f} calls per alternative"
    assert counter.rows <= told


def test_auto_keeps_the_alternatives_of_rejection():
    """After a few successes of rejection, half-spaces start with the facets towards its alternatives."""
    situation = at("matching", 1e-1)
    sampler = AutoSampler(half_space=HalfSpaceSampler(max_rays=2))
    for seed in range(5):
        assert situation.draw(sampler, 4, seed).account.facets == 0
    alternatives = np.array(sampler.cone._remembered)
    assert len(alternatives) == 20
    cold = at("matching", 1e-3)
    sampler.tries = 1
    account = cold.draw(sampler, 4, 9).account
    assert account.facets > 0
    rows = rows_of(sampler.half_space.cone)
    assert (alternatives @ rows.T > 0).any(axis=1).all()


def test_auto_returns_to_rejection_when_the_answer_changes():
    oracle = MatchingOracle(4, 4)
    theta = np.random.default_rng(90).uniform(size=16)
    sampler = AutoSampler(tries=8)
    sure = sampler.sample(measured(oracle, 3.0 * theta, 300), oracle, oracle.argmax(theta), 1, 1)
    assert sure.account.facets > 0
    unsure = sampler.sample(measured(oracle, -0.1 * theta, 1), oracle, oracle.argmax(-theta), 1, 2)
    assert unsure.account.facets == 0
    assert unsure.account.oracle_calls < 50

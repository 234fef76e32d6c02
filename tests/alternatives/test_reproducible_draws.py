"""The same seed gives the same thetas: with new samplers, after pickling, and with a generator as seed."""

import pickle

import numpy as np
import pytest
from situations import at

from combopeps.alternatives import AutoSampler, GibbsSampler, HalfSpaceSampler, HitAndRunSampler, RejectionSampler

SAMPLERS = {
    "rejection": RejectionSampler,
    "clipped": lambda: RejectionSampler(clip=True),
    "half-space": HalfSpaceSampler,
    "discovered": lambda: HalfSpaceSampler(closed_form=False),
    "auto": AutoSampler,
    "auto, one try": lambda: AutoSampler(tries=1),
    "hit-and-run": lambda: HitAndRunSampler(steps=3),
    "gibbs": lambda: GibbsSampler(steps=3),
}
CASES = [("matching", False), ("matching", True), ("sphere", False)]


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize(("problem", "boxed"), CASES)
def test_same_seed_same_thetas(problem, boxed, name):
    situation = at(problem, 1e-1, boxed=boxed)
    first, again = (situation.draw(SAMPLERS[name](), 12, seed=71) for _ in range(2))
    np.testing.assert_array_equal(first.thetas, again.thetas)
    np.testing.assert_array_equal(first.answers, again.answers)
    assert first.account == again.account or np.isnan(first.account.log_probability)
    other = situation.draw(SAMPLERS[name](), 12, seed=72)
    assert not np.array_equal(first.thetas, other.thetas)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_generator_as_seed(name):
    situation = at("matching", 1e-1)
    seeded = situation.draw(SAMPLERS[name](), 5, seed=73)
    given = situation.draw(SAMPLERS[name](), 5, seed=np.random.default_rng(73))
    np.testing.assert_array_equal(seeded.thetas, given.thetas)


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize(("problem", "boxed"), CASES)
def test_a_pickled_sampler_continues(problem, boxed, name):
    """Sampler and problem are pickled together, as for another process."""
    situation, sampler = at(problem, 1e-1, boxed=boxed), SAMPLERS[name]()
    situation.draw(sampler, 5, seed=74)
    twin, twin_situation = pickle.loads(pickle.dumps((sampler, situation)))
    here, there = situation.draw(sampler, 8, seed=75), twin_situation.draw(twin, 8, seed=75)
    np.testing.assert_array_equal(here.thetas, there.thetas)


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_global_generator_is_unchanged(name):
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    at("matching", 1e-1).draw(SAMPLERS[name](), 5, seed=76)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.parametrize("name", SAMPLERS)
def test_posterior_and_answer_are_unchanged(name):
    situation = at("matching", 1e-1)
    z_hat = situation.z_hat.copy()
    before = situation.posterior.theta_hat.copy(), situation.posterior.variance.copy()
    SAMPLERS[name]().sample(situation.posterior, situation.oracle, z_hat, 5, 77)
    np.testing.assert_array_equal(situation.posterior.theta_hat, before[0])
    np.testing.assert_array_equal(situation.posterior.variance, before[1])
    np.testing.assert_array_equal(z_hat, situation.z_hat)


@pytest.mark.parametrize("name", ["half-space", "discovered", "auto", "rejection"])
def test_returned_arrays_do_not_change_later(name):
    situation, sampler = at("matching", 1e-1), SAMPLERS[name]()
    first = situation.draw(sampler, 5, seed=78)
    kept = first.thetas.copy()
    situation.draw(sampler, 50, seed=79)
    np.testing.assert_array_equal(first.thetas, kept)

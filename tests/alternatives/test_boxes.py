"""Theta smaller than R^d: theta_hat outside it, answers impossible inside it, and road networks with theta >= 0.

False alarm 1e-4 for every comparison of distributions; seeds are fixed.
"""

import numpy as np
import pytest
from situations import Situation, measured, road_network
from wrong_samplers import IgnoresTheBox

from combopeps import Box, ComboPepsError, ExplicitOracle, TopKOracle
from combopeps.alternatives import AutoSampler, GibbsSampler, HalfSpaceSampler, HitAndRunSampler, RejectionSampler
from combopeps.alternatives.check import compare_distributions
from combopeps.errors import NoAlternativeError, SamplerCapError

EXACT = {
    "half-space": HalfSpaceSampler,
    "discovered": lambda: HalfSpaceSampler(closed_form=False),
    "auto": AutoSampler,
    "auto, one try": lambda: AutoSampler(tries=1),
}
TOP2 = TopKOracle(6, 2)
THETA = np.array([1.0, 0.9, 0.6, 0.5, 0.3, 0.1])
UNEVEN = Box(
    np.array([0.4, 0.3, 0.5, 0.0, 0.0, -1.0]), np.array([1.2, 0.8, 1.1, 0.9, 0.6, 0.5])
)  # lines meet the cone outside it


def assert_exact(situation, make, n=2000):
    truth = situation.draw(RejectionSampler(cap=20_000_000), n, seed=31)
    found = situation.draw(make(), n, seed=32)
    assert situation.space is None or situation.space.contains(found.thetas).all()
    test = compare_distributions(found, truth)
    assert test.p_value > 1e-4, str(test)
    if np.isfinite(found.account.log_probability):
        assert found.account.log_probability == pytest.approx(truth.account.log_probability, abs=0.3)


@pytest.mark.parametrize("make", EXACT.values(), ids=EXACT)
@pytest.mark.parametrize("count", [1, 10, 100, 1000, 10_000])
def test_theta_hat_far_outside_the_box(count, make):
    """From half a standard deviation to hundreds: theta is in a corner, where the top two compete."""
    theta = np.array([5.0, -4.0, 3.0, 2.0, -1.0, 0.0])
    assert_exact(Situation(measured(TOP2, theta, count), TOP2, Box(0.0, 1.0)), make)


@pytest.mark.parametrize("make", EXACT.values(), ids=EXACT)
def test_theta_hat_outside_with_a_full_covariance(make):
    points = np.random.default_rng(1).normal(size=(8, 4))
    oracle = ExplicitOracle(points)
    posterior = measured(oracle, 1.2 * points[0], 3, points)
    box = Box(posterior.theta_hat[0] + np.array([0.1, -1.0, -1.0, -1.0]), np.inf)
    situation = Situation(posterior, oracle, box)
    assert not box.contains(posterior.theta_hat[0])
    assert_exact(situation, make)


@pytest.mark.parametrize("make", EXACT.values(), ids=EXACT)
@pytest.mark.parametrize("count", [10, 1000, 1_000_000])
def test_answers_that_the_box_makes_impossible(count, make):
    """Item 0 is better than the last three everywhere in the box: half-spaces outside it must not count."""
    deviation = count**-0.5
    theta = np.array([1.0, 0.9, 0.85, 0.5, 0.3, 0.1]) * deviation * 3
    low, high = theta - deviation * np.array([1.0, 2.5, 1.0, 1.0, 0.2, 2.5]), theta + deviation * 0.6
    situation = Situation(measured(TOP2, theta * (1 + 1 / count), count), TOP2, Box(low, high))
    facets = TOP2.facets(situation.z_hat).toarray()
    best = np.where(facets > 0, facets * high, facets * low).sum(axis=1)
    assert (best < 0).any()
    assert (best > 0).any()
    assert_exact(situation, make)


NOWHERE = Box(np.array([2.0, 2.0, 0.0, 0.0, 0.0, 0.0]), np.array([3.0, 3.0, 1.0, 1.0, 1.0, 1.0]))


@pytest.mark.parametrize(
    "make",
    [*EXACT.values(), lambda: RejectionSampler(cap=10_000), HitAndRunSampler, GibbsSampler],
    ids=[*EXACT, "rejection", "hit-and-run", "gibbs"],
)
def test_a_box_without_alternatives_raises(make):
    situation = Situation(measured(TOP2, np.array([2.5, 2.4, 0.5, 0.5, 0.1, 0.9]), 3), TOP2, NOWHERE)
    with pytest.raises((NoAlternativeError, SamplerCapError)) as caught:
        situation.draw(make(), 1, seed=33)
    assert isinstance(caught.value, ComboPepsError)


@pytest.mark.parametrize("make", [HitAndRunSampler, GibbsSampler])
def test_chains_stay_inside_though_theta_hat_is_outside(make):
    situation = Situation(measured(TOP2, 3.0 * THETA, 5), TOP2, Box(0.0, 1.0))
    found = situation.draw(make(), 20, seed=34)
    assert situation.space.contains(found.thetas).all()
    assert not TOP2.membership(situation.z_hat, found.thetas).any()


@pytest.mark.parametrize("make", [HitAndRunSampler, GibbsSampler])
@pytest.mark.parametrize("box", [Box(0.2, 0.9), Box(0.0, np.inf), UNEVEN], ids=str)
def test_chains_never_stop_on_the_boundary_of_the_box(box, make):
    """The boundary has probability 0: a move that ends there has left the box and was projected."""
    situation = Situation(measured(TOP2, THETA, 2), TOP2, box)
    thetas = situation.draw(make(), 150, seed=45).thetas
    assert not ((thetas == box.low) | (thetas == box.high)).any()


@pytest.mark.parametrize("make", [HitAndRunSampler, GibbsSampler])
def test_chains_in_a_tight_box(make):
    """One chain with enough moves between draws for nearly independent draws."""
    situation = Situation(measured(TOP2, THETA, 2), TOP2, UNEVEN)
    test = compare_distributions(
        situation.draw(make(steps=24), 300, seed=46), situation.draw(RejectionSampler(), 300, seed=47)
    )
    assert test.p_value > 1e-4, str(test)


@pytest.mark.parametrize("make", [HitAndRunSampler, GibbsSampler])
def test_chains_on_roads_in_both_directions(make):
    situation = Situation(measured(ROADS, LENGTHS, 20), ROADS)
    found = situation.draw(make(steps=5), 20, seed=48)
    assert (found.thetas >= 0).all()
    assert not ROADS.membership(situation.z_hat, found.thetas).any()


def test_probability_given_the_box_with_a_full_covariance():
    """P(Alt | Theta), not P(Alt and Theta): against plain draws, within 4 standard errors."""
    points = np.random.default_rng(2).normal(size=(8, 4))
    oracle = ExplicitOracle(points)
    posterior = measured(oracle, 0.3 * points[0], 1, points)
    situation = Situation(posterior, oracle, Box(posterior.theta_hat[0] - 0.3, posterior.theta_hat[0] + 0.6))
    rng = np.random.default_rng(35)
    thetas = posterior.theta_hat[0] + posterior.noise(rng.standard_normal((1, 200_000, 4)))[0]
    inside = situation.space.contains(thetas)
    assert 0.02 < inside.mean() < 0.9
    alternative = ~oracle.membership(situation.z_hat, thetas[inside])
    found = HalfSpaceSampler().probability(posterior, oracle, situation.z_hat, 36, draws=40_000, space=situation.space)
    truth = alternative.mean()
    error = np.hypot(found.relative_error, np.sqrt((1 - truth) / truth / len(alternative)))
    assert abs(np.exp(found.log_probability) / truth - 1) < 4 * error


ROADS = road_network()
LENGTHS = np.random.default_rng(4).uniform(0.2, 1.0, ROADS.dim)


@pytest.mark.parametrize("make", [HalfSpaceSampler, AutoSampler, lambda: AutoSampler(tries=1)])
@pytest.mark.parametrize(("lengths", "count"), [(LENGTHS, 5), (LENGTHS, 60), (LENGTHS - 0.3, 20)])
def test_roads_in_both_directions(lengths, count, make):
    """theta >= 0 by default: the tilted sampler against rejection, with theta_hat inside and outside the orthant."""
    situation = Situation(measured(ROADS, lengths, count), ROADS)
    found = situation.draw(make(), 2000, seed=37)
    assert (found.thetas >= 0).all()
    test = compare_distributions(found, situation.draw(RejectionSampler(cap=20_000_000), 2000, seed=38))
    assert test.p_value > 1e-4, str(test)


def test_clipping_is_an_approximation():
    """Clipped draws accumulate at 0: another distribution, though P(Alt) is nearly the same."""
    situation = Situation(measured(ROADS, LENGTHS - 0.15, 30), ROADS)
    exact = situation.draw(RejectionSampler(), 4000, seed=39)
    clipped = situation.draw(RejectionSampler(clip=True), 4000, seed=40)
    assert (exact.thetas > 0).all()
    assert (clipped.thetas >= 0).all()
    assert (clipped.thetas == 0).any(axis=1).mean() > 0.5
    assert compare_distributions(clipped, exact).p_value < 1e-6
    ratio = np.exp(clipped.account.log_probability - exact.account.log_probability)
    assert 0.5 < ratio < 2.0, f"P(Alt) by clipping is {ratio:.2f} of the exact one"


def test_clipping_is_exact_far_from_the_boundary():
    situation = Situation(measured(ROADS, LENGTHS + 4.0, 30), ROADS)
    test = compare_distributions(
        situation.draw(RejectionSampler(clip=True), 2000, seed=41), situation.draw(RejectionSampler(), 2000, seed=42)
    )
    assert test.p_value > 1e-4, str(test)


def test_the_comparison_detects_a_sampler_that_ignores_the_orthant():
    situation = Situation(measured(TOP2, THETA - 0.3, 5), TOP2, Box(0.0, np.inf))
    test = compare_distributions(
        situation.draw(IgnoresTheBox(), 2000, seed=43), situation.draw(RejectionSampler(), 2000, seed=44)
    )
    assert test.p_value < 1e-4

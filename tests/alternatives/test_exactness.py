"""Half-space and auto against long rejection runs: equal distributions.

Coordinates and the distance from the mean by Kolmogorov-Smirnov, best answers by chi-square. False alarm for the
whole file 1e-3, divided by the number of comparisons; seeds are fixed. The same test must reject samplers with a
third of the facets missing and samplers that return points of the boundary.
"""

import itertools

import numpy as np
import pytest
from scipy.special import log_ndtr
from scipy.stats import kstest
from situations import PROBLEMS, Situation, at, measured, reference
from wrong_samplers import AThirdMissing, IgnoresTheBox, NearestBoundary, TooWide

from combopeps import ExplicitOracle
from combopeps.alternatives import AutoSampler, HalfSpaceSampler
from combopeps.alternatives.check import compare_distributions

PROBABILITIES = (0.3, 1e-1, 1e-2, 1e-3)
SITUATIONS = list(itertools.product(PROBLEMS, PROBABILITIES, (False, True)))
SAMPLERS = {
    "half-space": HalfSpaceSampler,
    "auto": AutoSampler,
    "auto, one try": lambda: AutoSampler(tries=1),
}
LISTED = {"top-k", "sphere"}  # the oracle has all facets; they can be discovered all the same
ENOUGH = 1e-3 / (len(SITUATIONS) * (len(SAMPLERS) + 1))
DRAWS = {0.3: 3000, 1e-1: 3000, 1e-2: 2000, 1e-3: 700}  # equal sizes make Kolmogorov-Smirnov exact and quick


def samplers(name):
    if name not in LISTED:
        return SAMPLERS
    return SAMPLERS | {"discovered": lambda: HalfSpaceSampler(closed_form=False, missing=0.002)}


@pytest.mark.parametrize(("name", "p", "boxed"), SITUATIONS)
def test_same_distribution_as_rejection(name, p, boxed):
    situation, truth = at(name, p, boxed=boxed), reference(name, p, DRAWS[p], boxed=boxed)
    assert 0.5 * p < np.exp(truth.account.log_probability) < 2 * p  # check of the setup
    for sampler, make in samplers(name).items():
        test = compare_distributions(situation.draw(make(), DRAWS[p], seed=21), truth)
        assert test.p_value > ENOUGH, f"{sampler}: {test}"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "p", "boxed"), SITUATIONS)
def test_same_distribution_as_very_long_rejection(name, p, boxed):
    situation, truth = at(name, p, boxed=boxed), reference(name, p, 10 * DRAWS[p], boxed=boxed)
    for sampler, make in samplers(name).items():
        test = compare_distributions(situation.draw(make(), 10 * DRAWS[p], seed=22), truth)
        assert test.p_value > ENOUGH, f"{sampler}: {test}"


@pytest.mark.parametrize("wrong", [AThirdMissing, NearestBoundary])
@pytest.mark.parametrize(("name", "p", "boxed"), [case for case in SITUATIONS if case[1] > 1e-3])
def test_faulty_samplers_are_detected(name, p, boxed, wrong):
    found = at(name, p, boxed=boxed).draw(wrong(), DRAWS[p], seed=23)
    test = compare_distributions(found, reference(name, p, DRAWS[p], boxed=boxed))
    assert test.p_value < ENOUGH, str(test)


@pytest.mark.parametrize("wrong", [AThirdMissing, NearestBoundary])
@pytest.mark.parametrize("name", ["top-k", "sphere"])
def test_faulty_samplers_are_detected_in_the_tail(name, wrong):
    test = compare_distributions(at(name, 1e-3).draw(wrong(), DRAWS[1e-3], seed=23), reference(name, 1e-3, DRAWS[1e-3]))
    assert test.p_value < ENOUGH, str(test)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_sampler_that_ignores_the_box_is_detected(name):
    test = compare_distributions(
        at(name, 1e-1, boxed=True).draw(IgnoresTheBox(), 3000, 23), reference(name, 1e-1, 3000, boxed=True)
    )
    assert test.p_value < ENOUGH, str(test)


@pytest.mark.parametrize("name", PROBLEMS)
def test_too_much_variance_is_detected(name):
    test = compare_distributions(at(name, 1e-1).draw(TooWide(), 3000, 23), reference(name, 1e-1, 3000))
    assert test.p_value < ENOUGH, str(test)


@pytest.mark.parametrize("arms", [None, np.array([[1.0, 0.2, 0.0], [0.0, 1.0, 0.5], [0.3, 0.0, 1.0]])])
@pytest.mark.parametrize("scale", [1.0, 12.0, 60.0])
def test_distribution_in_one_half_space(scale, arms):
    """Two answers: y @ theta is a truncated normal, and what is left of theta an independent plain one.

    Down to ln P = -1500; false alarm 1e-4 for each.
    """
    Z = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]])
    oracle = ExplicitOracle(Z)
    situation = Situation(measured(oracle, scale * np.array([1.0, 0.2, 0.1]), 3, arms), oracle)
    posterior, y = situation.posterior, Z[1] - Z[0]
    covariance = np.stack([posterior.covariance_dot(e[None])[0] for e in np.eye(3)])
    sigma = np.sqrt(y @ covariance @ y)
    b = -float(y @ posterior.theta_hat[0]) / sigma
    shift = situation.draw(HalfSpaceSampler(), 5000, seed=24).thetas - posterior.theta_hat[0]

    t = shift @ y / sigma
    assert (t > b).all()
    beyond = np.exp([log_ndtr(-x) - log_ndtr(-b) for x in t])
    assert kstest(beyond, "uniform").pvalue > 1e-4 / 4

    rest = shift - np.outer(t / sigma, covariance @ y)
    for direction in np.random.default_rng(25).normal(size=(3, 3)):
        spread = np.sqrt(direction @ covariance @ direction - (direction @ covariance @ y) ** 2 / sigma**2)
        assert kstest(rest @ direction / spread, "norm").pvalue > 1e-4 / 4

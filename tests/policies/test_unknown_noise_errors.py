"""Problem(noise_std=None): errors are as rare as claimed, at a price.

Error rates are for theta drawn from the prior, and noise of sizes that the policy does not know. A rule that keeps its
promise is accused with probability 1e-4 at most; noise that is stated at a third is caught by the same test.
"""

import warnings

import networkx as nx
import numpy as np
import pytest
from scipy import stats
from unit_problem import unit_problem
from unknown_cases import GENERAL, measure

from combopeps import (
    ExplicitOracle,
    ShortestPathOracle,
    TopKOracle,
    identify,
    load_instance,
)
from combopeps.oracles.base import as_good

DELTA, FALSE_ALARM = 0.1, 1e-4


def graph_of_three_routes(noise_std):
    graph = nx.DiGraph([(0, 1), (1, 3), (0, 2), (2, 3), (1, 2)])
    return unit_problem(ShortestPathOracle(graph, 0, 3), noise_std=noise_std)


FAMILIES = {
    "top-k": lambda noise_std: unit_problem(TopKOracle(4, k=1), noise_std=noise_std),
    "path": graph_of_three_routes,
    "general arms": lambda noise_std: unit_problem(ExplicitOracle(np.eye(3)), GENERAL, noise_std=noise_std),
}


def wrong_answers(make, sigma, runs, *, stated=None, budget=1000, seed=0):
    """Runs that claim a wrong answer, theta from the prior: no more of them than it takes to know if they are too many.

    `too_many` is what a rule that keeps its promise has with probability 1e-4 at most.
    """
    problem, too_many, errors = make(stated), stats.binom.isf(FALSE_ALARM, runs, DELTA) + 1, 0
    for i in range(runs):
        nature = np.random.default_rng([seed, i])
        theta = nature.normal(size=problem.oracle.dim)
        ask = measure(problem, theta, sigma if stated is None else sigma / stated, nature)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of noise that is stated too small
            result = identify(problem, ask, delta=DELTA, budget=budget, rng=i)
        errors += result.evidence.stop and not as_good(result.z, problem.oracle.argmax(theta), theta)
        if errors >= too_many or errors + runs - i - 1 < too_many:
            break
    return errors, errors >= too_many


@pytest.mark.parametrize("sigma", [0.3, 3.0])
def test_a_few_runs(sigma):
    assert not wrong_answers(FAMILIES["top-k"], sigma, 12, budget=200)[1]


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("family", FAMILIES)
def test_errors_are_as_rare_as_claimed(family, sigma):
    assert not wrong_answers(FAMILIES[family], sigma, 1000)[1]


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [1.0, 3.0])
def test_noise_stated_at_a_third_is_caught(sigma):
    assert wrong_answers(FAMILIES["top-k"], sigma, 1000, stated=sigma / 3)[1]


def ratio(name, runs):
    """Measurements without and with the noise stated, on the same seeds."""
    instance = load_instance(name)
    known, means = instance.problem, []
    unknown = unit_problem(known.oracle, known.arms, None, known.space, prior_std=known.prior_std)
    for problem, sigma in ((unknown, known.noise_std), (known, None)):
        ask = [measure(problem, instance.theta, sigma, np.random.default_rng([i, 1])) for i in range(runs)]
        means.append(np.mean([identify(problem, ask[i], rng=i).samples for i in range(runs)]))
    return means[0] / means[1]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "runs"), [("two-nets", 100), ("cyclic-matching", 100), ("topk-paper", 80)])
def test_what_it_costs_not_to_know(name, runs):
    assert ratio(name, runs) < 1.3

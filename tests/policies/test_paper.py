"""The paper's tables: measurements until the identification rate exceeds 1 - delta.

Soare: d = 2, omega = 0.1, theta = e_1. Top-k: d = 12, k = 3, theta_i = 1 - 0.05 i. Unit noise, V_0 = I, eta_p = 1.
"""

import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import ExplicitOracle, TopKOracle, simulate

SOARE = np.array([[1.0, 0.0], [0.0, 1.0], [np.cos(0.1), np.sin(0.1)]])


def soare(policy, replications, budget=5000):
    problem = unit_problem(ExplicitOracle(SOARE), arms=SOARE)
    return simulate(problem, [1.0, 0.0], policy, budget=budget, replications=replications, rng=1)


def topk(policy, replications=400, budget=30_000):
    problem = unit_problem(TopKOracle(12, k=3))
    return simulate(problem, 1 - 0.05 * np.arange(12), policy, budget=budget, replications=replications, rng=1)


def samples(trace, *levels):
    return np.array([trace.samples_to(level).samples for level in levels])


@pytest.mark.parametrize("policy", ["peps", "top-two"])
def test_soare_in_short(policy):
    """The rate after 1027 measurements is .9 in the paper; 100 runs have a standard error of .03, four are allowed."""
    trace = soare(policy, replications=100, budget=1300)
    rate, _ = trace.identification_rate()
    assert rate[trace.t >= 1027][0] > 0.78
    assert rate[trace.t >= 20][0] < 0.8  # not by knowing the answer beforehand


@pytest.mark.slow
def test_soare_peps():
    assert (samples(soare("peps", 500), 0.9, 0.95, 0.99) <= 1.25 * np.array([1027, 1606, 3326])).all()


@pytest.mark.slow
def test_soare_top_two():
    assert (samples(soare("top-two", 500), 0.9, 0.95) <= 1.15 * np.array([828, 1500])).all()


@pytest.mark.slow
def test_topk_peps():
    assert (samples(topk("peps"), 0.8, 0.9, 0.95) <= 1.25 * np.array([7326, 14188, 22518])).all()


@pytest.mark.slow
def test_topk_top_two():
    assert (samples(topk("top-two", budget=12_000), 0.9, 0.95) <= 0.5 * np.array([14188, 22518])).all()

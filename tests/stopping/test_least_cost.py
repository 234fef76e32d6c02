"""tau* where arms differ in noise and cost, against its definition: the least cost at which the worst rival is refuted."""

import numpy as np
import pytest
from listed import grid, inner_minimum, matching
from unit_problem import unit_problem

from combopeps import ExplicitOracle, lower_bound

GAP = 1e-4
CASES = [(grid, 3, 1), (grid, 4, 2), (matching, 3, 3, 3), (matching, 4, 4, 4)]


def per_cost(X, Z, theta, noise, cost, pulls):
    """Evidence against the worst rival per unit of cost, of so many measurements of each arm."""
    return inner_minimum(X / noise[:, None], Z, theta, pulls) / (pulls @ cost)


def levels(rng, arms, decades=2.0):
    return 10.0 ** rng.uniform(-decades / 2, decades / 2, arms)


@pytest.mark.parametrize("seed", range(6))
def test_against_an_exhaustive_grid(seed):
    rng = np.random.default_rng(seed)
    X, Z, theta = rng.normal(size=(3, 2)), rng.normal(size=(6, 2)), rng.normal(size=2)
    noise, cost = levels(rng, 3, 1.0), levels(rng, 3, 1.0)
    result = lower_bound(unit_problem(ExplicitOracle(Z), X, noise, cost=cost), theta)
    assert result.certified
    assert per_cost(X, Z, theta, noise, cost, result.allocation) == pytest.approx(result.tau_star, rel=2 * GAP)
    spending = [np.array([i, j, 120 - i - j]) / 120 for i in range(121) for j in range(121 - i)]
    values = [per_cost(X, Z, theta, noise, cost, s / cost) for s in spending if np.count_nonzero(s) > 1]
    assert 0.97 * result.tau_star < max(values) <= result.upper * (1 + 1e-9)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0].__name__}-{case[1]}")
def test_unit_arms_against_a_local_search(case):
    """Through the argmax alone; no small change of the allocation is better."""
    make, *arguments = case
    oracle, Z, theta = make(*arguments)
    rng = np.random.default_rng(7)
    noise, cost = levels(rng, oracle.dim), levels(rng, oracle.dim)
    result = lower_bound(unit_problem(oracle, noise_std=noise, cost=cost), theta)
    assert result.certified
    assert result.relative_gap <= GAP
    X = np.eye(oracle.dim)
    attained = per_cost(X, Z, theta, noise, cost, result.allocation)
    assert result.tau_star * (1 - 1e-9) <= attained <= result.upper * (1 + 1e-9)
    for _ in range(300):
        other = result.allocation * np.exp(rng.choice([0.003, 0.03, 0.3]) * rng.normal(size=oracle.dim))
        assert per_cost(X, Z, theta, noise, cost, other) <= result.upper * (1 + 1e-9)


def test_two_arms_by_hand():
    """Spending in proportion to noise times sqrt(cost): 1 / tau* = 2 (sum_x noise_x sqrt(cost_x))^2 / gap^2."""
    noise, cost, gap = np.array([0.5, 3.0]), np.array([4.0, 0.25]), 0.6
    problem = unit_problem(ExplicitOracle(np.eye(2)), noise_std=noise, cost=cost)
    tau_star, allocation = lower_bound(problem, [gap, 0.0])
    assert 1.0 / tau_star == pytest.approx(2.0 * (noise @ np.sqrt(cost)) ** 2 / gap**2, rel=GAP)
    pulls = noise / np.sqrt(cost)
    np.testing.assert_allclose(allocation, pulls / pulls.sum(), atol=2e-3)


def test_labels_and_currencies_do_not_matter():
    oracle, _, theta = grid(3, 5)
    rng = np.random.default_rng(0)
    noise, cost = levels(rng, oracle.dim), levels(rng, oracle.dim)
    labels = oracle.components
    by_label = unit_problem(
        oracle, noise_std=dict(zip(labels, noise, strict=True)), cost=dict(zip(labels, cost, strict=True))
    )
    one = lower_bound(by_label, theta)
    cents = lower_bound(unit_problem(oracle, noise_std=noise, cost=100.0 * cost), theta)
    assert cents.tau_star == pytest.approx(one.tau_star / 100.0, rel=GAP)
    np.testing.assert_allclose(cents.allocation, one.allocation, atol=1e-3)

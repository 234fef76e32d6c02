"""tau* where arms differ in noise and cost: the same as for scaled rows, and against a general solver."""

import numpy as np
import pytest
from listed import by_slsqp, inner_minimum
from scipy.optimize import minimize
from unit_problem import unit_problem

from combopeps import ExplicitOracle, MatchingOracle, TopKOracle, lower_bound

GAP = 1e-4


def case(seed, K=7, d=3, n=6):
    rng = np.random.default_rng(seed)
    X, Z, theta = rng.normal(size=(K, d)), rng.normal(size=(n, d)), rng.normal(size=d)
    return X, Z, theta, rng.uniform(0.3, 3.0, K), rng.uniform(0.1, 5.0, K)


def least_cost(X, Z, theta, noise, cost):
    """min over measurements n >= 0 of cost @ n such that every rival is told apart with an evidence of 1."""
    best = (Z @ theta).argmax()
    y = np.delete(Z[best] - Z, best, axis=0)
    target = (y @ theta) ** 2 / 2.0
    rows = X / noise[:, None]

    def evidence(log_n):
        n = np.exp(log_n)
        return target / np.einsum("nd,nd->n", y, np.linalg.solve((rows.T * n) @ rows, y.T).T)

    start = np.zeros(len(X))
    start -= np.log(evidence(start).min())
    found = [
        minimize(
            lambda v: np.log(cost @ np.exp(v)),
            start + shift,
            constraints=[{"type": "ineq", "fun": lambda v: np.log(evidence(v))}],
            bounds=[(s - 25.0, s + 15.0) for s in start],
            method="SLSQP",
            options={"maxiter": 3000, "ftol": 1e-13},
        )
        for shift in (0.1, -0.5 * np.log(cost / cost.mean()) + 0.5)
    ]
    feasible = [np.exp(x.fun) / min(1.0, evidence(x.x).min()) for x in found]  # scaled up to what is wanted
    return min(feasible)


@pytest.mark.parametrize("seed", range(3))
def test_noise_by_arm_is_a_matter_of_rows(seed):
    X, Z, theta, noise, _ = case(seed)
    stated = lower_bound(unit_problem(ExplicitOracle(Z), X, noise), theta)
    scaled = lower_bound(unit_problem(ExplicitOracle(Z), X / noise[:, None]), theta)
    assert stated.tau_star == pytest.approx(scaled.tau_star, rel=2 * GAP)  # both within the gap of the same number
    assert by_slsqp(X / noise[:, None], Z, theta) == pytest.approx(stated.tau_star, rel=3 * GAP)
    attained = inner_minimum(X / noise[:, None], Z, theta, stated.allocation)
    assert stated.tau_star * (1 - 1e-9) <= attained <= stated.upper * (1 + 1e-9)


@pytest.mark.parametrize("oracle", [TopKOracle(6, k=2), MatchingOracle(3, 3)], ids=["top-k", "matching"])
def test_noise_of_unit_arms_is_a_matter_of_rows(oracle):
    rng = np.random.default_rng(4)
    noise, theta = rng.uniform(0.3, 3.0, oracle.dim), rng.normal(size=oracle.dim)
    stated = lower_bound(unit_problem(oracle, noise_std=noise), theta)
    scaled = lower_bound(unit_problem(oracle, np.diag(1.0 / noise)), theta)
    assert stated.tau_star == pytest.approx(scaled.tau_star, rel=2 * GAP)
    np.testing.assert_allclose(stated.allocation, scaled.allocation, atol=5e-3)


@pytest.mark.parametrize("seed", range(3))
def test_the_least_expected_cost_by_a_general_solver(seed):
    X, Z, theta, noise, cost = case(seed, K=5)
    result = lower_bound(unit_problem(ExplicitOracle(Z), X, noise, cost=cost), theta)
    assert result.certified
    assert 1.0 / least_cost(X, Z, theta, noise, cost) == pytest.approx(result.tau_star, rel=2e-3)


@pytest.mark.parametrize("seed", range(3))
def test_the_allocation_is_of_measurements_and_attains_it(seed):
    """Evidence per measurement over cost per measurement is evidence per cost."""
    X, Z, theta, noise, cost = case(seed)
    result = lower_bound(unit_problem(ExplicitOracle(Z), X, noise, cost=cost), theta)
    assert result.allocation.sum() == pytest.approx(1.0)
    evidence = inner_minimum(X / noise[:, None], Z, theta, result.allocation)
    attained = evidence / (cost @ result.allocation)
    assert result.tau_star * (1 - 1e-9) <= attained <= result.upper * (1 + 1e-9)


def test_two_unit_arms_by_hand():
    """n_x ~ noise_x / sqrt(cost_x), and tau* = gap^2 / (2 (sum noise_x sqrt(cost_x))^2)."""
    tau_star, allocation = lower_bound(
        unit_problem(TopKOracle(2, k=1), noise_std=[1.0, 3.0], cost=[4.0, 0.25]), [1.0, 0.4]
    )
    assert tau_star == pytest.approx(0.36 / (2 * (1.0 * 2.0 + 3.0 * 0.5) ** 2), rel=GAP)
    np.testing.assert_allclose(allocation, np.array([0.5, 6.0]) / 6.5, atol=2e-3)


@pytest.mark.parametrize("price", [0.01, 3.0, 1e6])
@pytest.mark.parametrize(
    "oracle",
    [TopKOracle(5, k=2), ExplicitOracle(np.random.default_rng(0).normal(size=(6, 5)))],
    ids=["top-k", "listed"],
)
def test_a_common_price_divides_it(oracle, price):
    theta = np.array([1.0, 0.8, 0.5, 0.1, 0.0])
    free, paid = (lower_bound(unit_problem(oracle, noise_std=0.7, cost=c), theta) for c in (1.0, price))
    assert paid.tau_star == pytest.approx(free.tau_star / price, rel=2 * GAP)
    assert paid.upper == pytest.approx(free.upper / price, rel=2 * GAP)
    np.testing.assert_allclose(paid.allocation, free.allocation, atol=5e-3)


def test_a_dear_arm_is_not_bought_where_a_cheap_one_measures_the_same():
    rows = np.vstack([np.eye(3), np.eye(3)])
    problem = unit_problem(TopKOracle(3, k=1), rows, cost=[5, 5, 5, 1, 1, 1])
    tau_star, allocation = lower_bound(problem, [1.0, 0.5, 0.0])
    assert allocation[:3].sum() < 1e-3
    assert tau_star == pytest.approx(
        lower_bound(unit_problem(TopKOracle(3, k=1)), [1.0, 0.5, 0.0]).tau_star, rel=2 * GAP
    )

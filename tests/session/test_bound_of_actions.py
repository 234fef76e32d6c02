"""tau* of actions against single arms, a general solver, and what any allocation attains."""

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import minimize
from unit_problem import unit_problem

from combopeps import ShortestPathOracle, TopKOracle, lower_bound
from combopeps.oracles import SpanningTreeOracle
from combopeps.oracles.constrained_argmax import enumerate_answers


def rivals_of(problem, theta):
    y = np.array(enumerate_answers(problem.oracle, 10_000)) - problem.oracle.argmax(theta)
    return y[y.any(axis=1)]


def attained(problem, theta, y, listed, lam):
    """min over rivals of gap^2 / (2 v) when actions have these shares of the cost."""
    information = (lam / problem.actions.cost_of(listed)) @ listed / problem.noise**2
    return float(((y @ theta) ** 2 / (2.0 * (y**2 @ (1.0 / np.maximum(information, 1e-12))))).min())


def test_single_components_as_actions_are_single_arms():
    theta = 1 - 0.1 * np.arange(6)
    alone = lower_bound(unit_problem(TopKOracle(6, k=2)), theta)
    listed = lower_bound(unit_problem(TopKOracle(6, k=2), actions=np.eye(6)), theta)
    assert listed.certified
    assert listed.tau_star == pytest.approx(alone.tau_star, rel=2e-4)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["tree", "top-k", "costs"])
def test_no_allocation_of_a_general_solver_is_better(kind, seed):
    rng = np.random.default_rng(seed)
    if kind == "tree":
        problem = unit_problem(SpanningTreeOracle(nx.complete_graph(4)), actions="answers", noise_std=0.5)
    elif kind == "top-k":
        problem = unit_problem(TopKOracle(5, k=2), actions="answers", noise_std=[1.0, 2.0, 1.0, 0.5, 1.0])
    else:
        problem = unit_problem(TopKOracle(5, k=2), actions="answers", cost=0.5, part_cost=[0.0, 1.0, 2.0, 0.1, 0.3])
    theta = rng.normal(size=problem.oracle.dim)
    listed = np.array(enumerate_answers(problem.oracle, 1000)) != 0.0
    found, y = lower_bound(problem, theta), rivals_of(problem, theta)
    assert found.certified

    def loss(x):
        lam = np.exp(x - x.max())
        return -attained(problem, theta, y, listed, lam / lam.sum())

    best = -min(
        minimize(loss, rng.normal(size=len(listed)), method="Nelder-Mead", options={"maxfev": 1500}).fun
        for _ in range(2)
    )
    assert best <= found.upper * (1 + 1e-6)
    assert best >= 0.8 * found.lower  # the solver is not good, but it is not lost
    columns = np.array([problem.actions.find(label) for label in found.actions])
    spending = found.allocation * problem.actions.cost_of(columns)
    assert attained(problem, theta, y, columns, spending / spending.sum()) >= found.tau_star * (1 - 1e-6)


def test_where_routes_are_hard_to_find_nothing_is_certified():
    graph = nx.grid_2d_graph(3, 3)
    problem = unit_problem(ShortestPathOracle(graph, (0, 0), (2, 2)), actions="answers")
    found = lower_bound(problem, np.random.default_rng(0).uniform(0.5, 1.5, problem.oracle.dim), max_rounds=5)
    assert not found.certified
    assert found.upper == np.inf

"""What measurements cost: totals, budgets that are never exceeded, and traces, all by hand."""

import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import Session, TopKOracle, identify, simulate

COST = {"a": 0.1, "b": 2.5, "c": 0.7, "d": 1.3}
FACTORS = 0.3, 4.0, 1e-6, 1000.0
TRUTH = {"a": 0.0, "b": 1.0, "c": 0.9, "d": 0.5}


def problem(cost=COST, **options):
    return unit_problem(TopKOracle(list(TRUTH), k=1), cost=cost, **options)


def measuring(log, seed=0):
    rng = np.random.default_rng(seed)

    def measure(label):
        log.append(label)
        return TRUTH[label] + rng.normal()

    return measure


def many(measure):
    return lambda labels: [measure(label) for label in labels]


@pytest.mark.parametrize("policy", ["top-two", "peps", "uniform", "lingame", "lingape", "clucb"])
def test_the_result_adds_up_what_was_measured(policy):
    log = []
    result = identify(problem(), measuring(log), policy=policy, stopping="budget", budget=40)
    assert result.cost == pytest.approx(sum(COST[label] for label in log), rel=1e-12)
    assert result.samples == len(log) == 40


def test_what_was_measured_before_is_part_of_the_result_but_not_of_the_budget():
    log, session = [], Session(problem(), policy="top-two", stopping="budget")
    session.observe("b", 1.0, count=4)
    session.observe("a", 0.0, sem=0.5)
    result = session.run(measuring(log), budget_cost=6.0)
    now = sum(COST[label] for label in log)
    assert 6.0 - max(COST.values()) < now <= 6.0 * (1 + 1e-9)
    assert result.cost == pytest.approx(4 * 2.5 + 0.1 + now)


@pytest.mark.parametrize("batch", [1, 3, 7])
@pytest.mark.parametrize("limit", [0.05, 1.0, 9.99, 20.0])
@pytest.mark.parametrize("policy", ["top-two", "peps", "uniform"])
def test_a_budget_of_cost_is_never_exceeded(policy, limit, batch):
    log = []
    measure = measuring(log) if batch == 1 else many(measuring(log))
    result = identify(problem(), measure, policy=policy, stopping="budget", budget_cost=limit, batch_size=batch, rng=1)
    spent = sum(COST[label] for label in log)
    assert spent <= limit * (1 + 1e-9)
    assert spent > limit - max(COST.values())  # only what would come next is too dear
    assert result.cost == pytest.approx(spent)
    assert result.samples == len(log)
    assert result.stop_reason == "budget"
    assert not result.session.open_queries  # what could not be paid was abandoned


@pytest.mark.parametrize(
    ("each", "limit", "wanted"), [(0.1, 1.0, 10), (0.1, 100.0, 1000), (0.3, 0.9, 3), (7.0, 20.9, 2)]
)
def test_rounding_costs_no_measurement(each, limit, wanted):
    result = identify(problem(each), measuring([]), policy="uniform", stopping="budget", budget_cost=limit)
    assert result.samples == wanted


def test_what_comes_first_ends_the_run():
    costly = identify(problem(), measuring([]), stopping="budget", budget=1000, budget_cost=5.0)
    assert costly.cost <= 5.0 * (1 + 1e-9)
    short = identify(problem(1.0), measuring([]), stopping="budget", budget=3, budget_cost=1000.0)
    assert short.cost == short.samples == 3
    satisfied = identify(problem(), measuring(log := []), delta=0.2, budget_cost=1e6)
    assert satisfied.stop_reason == "posterior"
    assert satisfied.cost == pytest.approx(sum(COST[label] for label in log))


@pytest.mark.parametrize("stopping", ["certified", "verified"])
def test_requests_of_a_rule_are_paid_from_the_budget_too(stopping):
    log = []
    result = identify(problem(), many(measuring(log)), stopping=stopping, budget_cost=15.0, batch_size=5)
    assert result.cost <= 15.0 * (1 + 1e-9)
    assert result.cost == pytest.approx(sum(COST[label] for label in log))
    assert not result.session.open_queries


# ---------------------------------------------------------------- choices


@pytest.mark.parametrize("policy", ["top-two", "peps", "lingame", "lingape"])
@pytest.mark.parametrize("cost", [COST, dict.fromkeys(COST, 1.0)], ids=["different", "equal"])
def test_the_currency_does_not_matter(policy, cost):
    one, *others = (
        simulate(problem({x: c * f for x, c in cost.items()}), list(TRUTH.values()), policy, budget=60, replications=8)
        for f in (1.0, *FACTORS)
    )
    for other, factor in zip(others, FACTORS, strict=True):
        np.testing.assert_array_equal(other.pulls, one.pulls)
        np.testing.assert_array_equal(other.correct, one.correct)
        np.testing.assert_allclose(other.cost, factor * one.cost)


@pytest.mark.parametrize("policy", ["top-two", "peps", "lingame", "lingape"])
def test_of_two_ways_to_measure_the_same_the_cheap_one_is_bought(policy):
    """Arms 0..2 and their copies 3..5 at a tenth of the cost."""
    rows = np.vstack([np.eye(3), np.eye(3)])
    made = unit_problem(TopKOracle(3, k=1), rows, cost=[10, 10, 10, 1, 1, 1])
    trace = simulate(made, [1.0, 0.5, 0.0], policy, budget=200, replications=10)
    share = trace.pulls[:, 3:].sum() / trace.pulls.sum()
    plain = simulate(unit_problem(TopKOracle(3, k=1), rows), [1.0, 0.5, 0.0], policy, budget=200, replications=10)
    assert share > 0.8 > plain.pulls[:, 3:].sum() / plain.pulls.sum()

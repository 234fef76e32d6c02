"""What measurements cost: totals, budgets that are never exceeded, and traces, all by hand."""

import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import Session, TopKOracle, identify, simulate
from combopeps.errors import FileFormatError, ParameterError
from combopeps.session import Trace

COST = {"a": 0.1, "b": 2.5, "c": 0.7, "d": 1.3}
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


def test_without_costs_it_is_the_number_of_measurements():
    result = identify(problem(1.0), measuring([]), stopping="budget", budget=33)
    assert result.cost == result.samples == 33


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


def test_the_first_budget_that_is_used_up_ends_the_run():
    costly = identify(problem(), measuring([]), stopping="budget", budget=1000, budget_cost=5.0)
    assert costly.cost <= 5.0 * (1 + 1e-9)
    short = identify(problem(), measuring([]), stopping="budget", budget=3, budget_cost=1000.0)
    assert short.samples == 3


def test_a_rule_that_is_satisfied_ends_it_before():
    log = []
    result = identify(problem(), measuring(log), delta=0.2, budget_cost=1e6)
    assert result.stop_reason == "posterior"
    assert result.cost == pytest.approx(sum(COST[label] for label in log))


@pytest.mark.parametrize("stopping", ["certified", "verified"])
def test_requests_of_a_rule_are_paid_from_the_budget_too(stopping):
    log = []
    result = identify(problem(), many(measuring(log)), stopping=stopping, budget_cost=15.0, batch_size=5)
    assert result.cost <= 15.0 * (1 + 1e-9)
    assert result.cost == pytest.approx(sum(COST[label] for label in log))
    assert not result.session.open_queries


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf"), "much", None])
def test_a_budget_of_cost_is_a_positive_number(bad):
    log = []
    with pytest.raises(ParameterError, match=r"budget_cost|needs a budget"):
        identify(problem(), measuring(log), stopping="budget", budget_cost=bad)
    assert not log


# ---------------------------------------------------------------- choices


@pytest.mark.parametrize("policy", ["top-two", "peps", "lingame", "lingape"])
@pytest.mark.parametrize("factor", [4.0, 1e-6, 1000.0])
def test_the_currency_does_not_matter(policy, factor):
    theta = list(TRUTH.values())
    one, other = (
        simulate(problem({x: c * f for x, c in COST.items()}), theta, policy, budget=60, replications=8)
        for f in (1.0, factor)
    )
    np.testing.assert_array_equal(other.pulls, one.pulls)
    np.testing.assert_allclose(other.cost, factor * one.cost)


@pytest.mark.parametrize("policy", ["top-two", "peps", "lingame", "lingape"])
def test_equal_costs_are_no_costs(policy):
    theta = list(TRUTH.values())
    one, other = (simulate(problem(c), theta, policy, budget=60, replications=8) for c in (1.0, 0.3))
    np.testing.assert_array_equal(other.pulls, one.pulls)
    np.testing.assert_array_equal(other.correct, one.correct)


@pytest.mark.parametrize("policy", ["top-two", "peps", "lingame", "lingape"])
def test_of_two_ways_to_measure_the_same_the_cheap_one_is_bought(policy):
    """Arms 0..2 and their copies 3..5 at a tenth of the cost."""
    rows = np.vstack([np.eye(3), np.eye(3)])
    made = unit_problem(TopKOracle(3, k=1), rows, cost=[10, 10, 10, 1, 1, 1])
    trace = simulate(made, [1.0, 0.5, 0.0], policy, budget=200, replications=10)
    share = trace.pulls[:, 3:].sum() / trace.pulls.sum()
    plain = simulate(unit_problem(TopKOracle(3, k=1), rows), [1.0, 0.5, 0.0], policy, budget=200, replications=10)
    assert share > 0.8 > plain.pulls[:, 3:].sum() / plain.pulls.sum()


# ---------------------------------------------------------------- traces


def test_a_trace_knows_what_every_run_had_spent():
    trace = simulate(problem(), list(TRUTH.values()), budget=30, replications=5, checkpoints=[7, 30])
    assert trace.cost.shape == (5, 2)
    np.testing.assert_allclose(trace.cost[:, 1], trace.pulls @ list(COST.values()))
    assert (trace.cost[:, 0] < trace.cost[:, 1]).all()
    shorter = simulate(problem(), list(TRUTH.values()), budget=7, replications=5, checkpoints=[7])
    np.testing.assert_allclose(trace.cost[:, 0], shorter.pulls @ list(COST.values()))


def test_two_processes_know_the_same():
    one, two = (simulate(problem(), list(TRUTH.values()), budget=20, replications=4, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one.cost, two.cost)


def traced(correct, cost, t=None):
    correct, cost = np.asarray(correct, dtype=bool), np.asarray(cost, dtype=float)
    looks = correct.shape[1]
    t = np.arange(1, looks + 1) if t is None else np.asarray(t)
    return Trace(t, correct, np.ones((len(correct), 2), dtype=int), np.zeros(looks), np.zeros(looks), 0, cost)


def test_the_cost_of_a_rate_by_hand():
    """Runs are right from a cost of 6, 3, 8 and 2 on; run 2 is the first to end, at 8."""
    trace = traced(
        [[0, 0, 1], [0, 1, 1], [0, 0, 1], [1, 1, 1]],
        [[2, 4, 6 + 3], [1, 3, 9], [4, 6, 8], [2, 5, 11]],
    )  # fmt: skip
    assert trace.cost_to(0.2).samples == 2.0
    assert trace.cost_to(0.25).samples == 3.0  # exceeding, not reaching
    assert trace.cost_to(0.5).samples == 8.0
    assert trace.cost_to(0.75).samples == np.inf  # run 0 needs 9, which run 2 has not spent


def test_a_run_that_has_bought_nothing_yet_is_not_right():
    trace = traced([[1, 1], [1, 1]], [[1.0, 9.0], [5.0, 9.0]])
    assert trace.cost_to(0.4).samples == 1.0
    assert trace.cost_to(0.9).samples == 5.0


@pytest.mark.parametrize("price", [1.0, 0.25, 3.0])
def test_where_all_cost_the_same_it_is_the_number_of_measurements_times_that(price):
    rng = np.random.default_rng(0)
    t = np.unique(np.geomspace(1, 500, 60).astype(int))
    correct = np.maximum.accumulate(rng.random((80, len(t))) < 0.05, axis=1)
    trace = traced(correct, np.broadcast_to(price * t, correct.shape), t)
    for level in (0.1, 0.5, 0.8):
        cost, count = trace.cost_to(level), trace.samples_to(level)
        assert (cost.samples, cost.low, cost.high) == tuple(price * x for x in (count.samples, count.low, count.high))


def test_many_different_costs_are_thinned_out_but_not_far():
    rng = np.random.default_rng(1)
    steps = rng.uniform(0.5, 1.5, size=(200, 50))
    cost = np.cumsum(steps, axis=1)
    right_from = np.linspace(5.0, 25.0, 200)
    trace = traced(cost >= right_from[:, None], cost)
    found = trace.cost_to(0.5)
    assert found.samples == pytest.approx(16.0, abs=1.0)  # half are right from 15 on, and look once per unit of cost
    assert found.low <= found.samples <= found.high


def test_traces_without_costs_are_refused(tmp_path):
    simulate(unit_problem(TopKOracle(3, k=1)), [1.0, 0.5, 0.0], budget=10, replications=3).save(tmp_path / "new.npz")
    with np.load(tmp_path / "new.npz") as data:
        np.savez(tmp_path / "old.npz", **{key: data[key] for key in data.files if key != "cost"})
    with pytest.raises(FileFormatError, match="cost"):
        Trace.load(tmp_path / "old.npz")


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, float("nan")])
def test_levels_lie_between_0_and_1(level):
    with pytest.raises(ParameterError, match="level"):
        traced([[1, 1]], [[1.0, 2.0]]).cost_to(level)

"""Every arm so many times first, without choosing."""

import copy
import time

import numpy as np
import pytest
from sessions import session_of
from unit_problem import unit_problem

from combopeps import Session, TopKOracle, TopTwo, identify, load_instance, simulate
from combopeps.errors import ParameterError
from combopeps.policies.initial_design import InitialDesign
from combopeps.random import Streams

ITEMS = 6
PROBLEM = unit_problem(TopKOracle(ITEMS, k=2))
EVERYTHING = list(range(ITEMS))


def arms_of(queries):
    return [query.arm for query in queries]


def answer(session, queries):
    session.tell_many((query, float(np.sin(7 * query.arm))) for query in queries)


@pytest.mark.parametrize("name", ["top-two", "greedy", "peps", "uniform", "lingame", "lingape", "clucb"])
def test_every_arm_is_measured_so_many_times(name):
    session = Session(PROBLEM, policy=name, initial_design=2)
    arms = []
    for n in (1, 4, 3, 1, 1, 1, 1):
        queries = session.ask(n)
        arms += arms_of(queries)
        answer(session, queries)
    assert sorted(arms[:ITEMS]) == sorted(arms[ITEMS:]) == EVERYTHING
    assert arms[:ITEMS] == arms[ITEMS:]  # in the order drawn
    session.ask(3)
    assert session.policy.t == (15 if name in ("peps", "lingame", "lingape") else 12)


def test_queries_that_are_open_count_and_abandoned_ones_do_not():
    session = session_of(TopTwo, PROBLEM, initial_design=True)
    first, second, *_ = queries = session.ask(4)
    session.abandon(second)
    session.tell(first, 0.1)
    again = session.ask(3)
    assert again[0].arm == second.arm
    assert sorted(arms_of(queries) + arms_of(again[1:])) == EVERYTHING


def test_what_was_measured_before_need_not_be_swept():
    session = session_of(TopTwo, PROBLEM)
    session.observe(3, 0.2)
    session.observe(1, 0.2, count=5)
    session.policy.initial_design(2)
    assert session.policy.unswept == 9
    asked = arms_of(session.ask(9))
    assert np.array_equal(np.bincount(asked, minlength=ITEMS), [2, 0, 2, 1, 2, 2])


def test_rows_are_swept_in_orders_of_their_own():
    policy = TopTwo(PROBLEM, 0, initial_design=1, replications=40)
    rows = []
    for _ in range(ITEMS):
        arm = policy.next_arms()
        rows.append(arm)
        policy.learn(arm, np.zeros(40))
    assert (np.sort(rows, axis=0) == np.arange(ITEMS)[:, None]).all()
    assert len({tuple(row) for row in np.array(rows).T}) > 30
    assert (policy.pulls == 1).all()


def test_rows_that_are_done_earlier_choose():
    policy = TopTwo(PROBLEM, 0, initial_design=1, replications=2)
    for k in range(3):  # the second row has measured three times the same
        policy.learn(np.array([k, 0]), np.zeros(2))
    for _ in range(5):
        policy.learn(policy.next_arms(), np.zeros(2))
    assert (policy.pulls > 0).all()


def test_simulations_initial_design_too():
    trace = simulate(PROBLEM, np.arange(6.0), "top-two", budget=2 * ITEMS, replications=5, initial_design=2)
    assert (trace.pulls == 2).all()


@pytest.mark.parametrize("batch_size", [1, 4])
def test_identify_looks_after_the_initial_design(batch_size):
    instance = load_instance("topk:d=30,k=3")
    truth, nature = dict(zip(instance.arms.labels, instance.theta, strict=True)), np.random.default_rng(0)

    def measure(labels):
        if batch_size == 1:
            return truth[labels] + 0.001 * nature.normal()
        return [truth[label] + 0.001 * nature.normal() for label in labels]

    problem = unit_problem(instance.oracle, noise_std=0.001)
    result = identify(problem, measure, batch_size=batch_size, initial_design=3)
    assert result.looks[0].t >= 90
    assert set(result.pulls.values()) == {3} or batch_size > 1
    assert min(result.pulls.values()) == 3
    more = identify(problem, measure, batch_size=batch_size, initial_design=4, policy=result.session.policy)
    assert min(more.pulls.values()) == 4
    assert more.samples <= 120 + batch_size


@pytest.mark.parametrize("initial_design", [-1, 1.5, "all", np.ones(3)])
def test_what_is_no_number_of_times_is_refused(initial_design):
    for act in (
        lambda: TopTwo(PROBLEM, 0, initial_design=initial_design),
        lambda: identify(PROBLEM, lambda item: 0.0, initial_design=initial_design),
    ):
        with pytest.raises(ParameterError, match="initial_design must be True"):
            act()
    plain, *same = [session_of(TopTwo, PROBLEM, initial_design=none).ask(9) for none in (None, None, False, 0)]
    assert all(queries == plain for queries in same)


def test_forty_thousand_arms_are_swept_in_no_time_and_without_the_oracle(monkeypatch):
    oracle = TopKOracle(40_000, k=5)
    session = session_of(TopTwo, oracle, initial_design=True)
    monkeypatch.setattr(oracle, "argmax", lambda thetas: pytest.fail("the oracle was called"))
    start = time.process_time()
    few = arms_of(session.ask(1000))
    answer(session, session.open_queries)
    for _ in range(1000):
        query = session.ask()
        few.append(query.arm)
        session.tell(query, 0.0)
    rest = arms_of(session.ask(38_000))
    assert sorted(few + rest) == list(range(40_000))
    assert time.process_time() - start < 10.0


def test_arms_come_in_the_order_drawn():
    """Against the definition: the first in the order with the fewest measurements and open queries."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        initial_design = InitialDesign(5, Streams.of(int(rng.integers(1000)), 1))
        initial_design.require(3)
        order, counts = [], np.zeros((1, 5), dtype=np.int64)
        for _ in range(5):
            order.append(int(copy.deepcopy(initial_design).pick(counts)[0]))
            counts[0, order[-1]] += 1
        counts[0] = rng.integers(0, 4, size=5) + rng.integers(0, 2, size=5)
        while counts.min() < 3:
            wanted = next(arm for arm in order if counts[0, arm] == counts.min())
            assert initial_design.pick(counts)[0] == wanted
            counts[0, wanted] += 1
        assert initial_design.pick(counts)[0] == -1

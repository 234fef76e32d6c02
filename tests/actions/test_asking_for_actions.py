"""Asking and telling, where a measurement shows all components of an action."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import (
    PEPS,
    LinGapE,
    ShortestPathOracle,
    TopKOracle,
    TopTwo,
    Uniform,
    identify,
    simulate,
)
from combopeps.errors import ComboPepsError, LabelError, ParameterError, QueryError, RewardError


def problem(**options):
    return unit_problem(TopKOracle(["a", "b", "c", "d"], k=2), actions="answers", **options)


def state(policy):
    return policy.belief.theta_hat.copy(), policy.pulls.copy(), policy.actions.copy(), len(policy.open_queries)


def test_a_query_says_what_to_read():
    query = TopTwo(problem(), rng=0).ask()
    assert len(query.components) == 2
    assert query.label == set(query.components)
    np.testing.assert_array_equal(np.flatnonzero(query.x), query.parts)


def test_told_in_any_form_it_is_the_same():
    beliefs = []
    for form in ("sequence", "dict", "pairs", "rest observed"):
        policy = TopTwo(problem(), rng=0)
        query = policy.ask()
        first, second = query.components
        if form == "sequence":
            policy.tell(query, [1.5, -0.5])
        elif form == "dict":
            policy.tell(query, {second: -0.5, first: 1.5})
        elif form == "pairs":
            policy.tell(query, [(1.5, 1.0), (-0.5, 1.0)])
        else:
            policy.tell(query, {first: 1.5})
            policy.observe(second, -0.5)
        assert policy.samples == 2
        assert policy.actions[0] == 1
        assert not policy.open_queries
        beliefs.append(policy.belief.theta_hat)
    assert all(np.array_equal(belief, beliefs[0]) for belief in beliefs)


def test_what_was_not_read_is_not_learnt_but_paid_for():
    policy = TopTwo(problem(cost=2.0, part_cost=0.25), rng=0)
    policy.tell(policy.ask(), [None, None])
    assert policy.samples == 0
    assert policy.spent[0] == 2.5


def test_the_same_again_is_harmless_and_another_is_refused():
    policy = TopTwo(problem(), rng=0)
    query = policy.ask()
    policy.tell(query, [1.0, None])
    before = state(policy)
    policy.tell(query, {query.components[0]: 1.0})
    with pytest.raises(QueryError, match="answered"):
        policy.tell(query, [1.0, 2.0])
    assert all(np.array_equal(now, then) for now, then in zip(state(policy), before, strict=True))


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ([1.0], RewardError, "2 parts, got 1"),
        ([1.0, 2.0, 3.0], RewardError, "2 parts, got 3"),
        (3.0, RewardError, "2 parts"),
        ("ab", RewardError, "2 parts"),
        ([1.0, float("nan")], RewardError, "finite"),
        ([1.0, (2.0, -1.0)], RewardError, "sem"),
        ({"nobody": 1.0}, LabelError, "nobody"),
        ("other", LabelError, "not on the action"),
    ],
)
def test_bad_results_change_nothing(values, error, words):
    policy = TopTwo(problem(), rng=0)
    query = policy.ask()
    if isinstance(values, str) and values == "other":
        values = {next(label for label in "abcd" if label not in query.label): 1.0}
    before = state(policy)
    with pytest.raises(error, match=words):
        policy.tell(query, values)
    assert all(np.array_equal(now, then) for now, then in zip(state(policy), before, strict=True))
    policy.tell(query, [1.0, 2.0])
    assert policy.samples == 2


def test_policies_for_single_arms_say_so():
    with pytest.raises(ParameterError, match="top-two"):
        LinGapE(problem(), rng=0)


@pytest.mark.parametrize("kind", [TopTwo, PEPS, Uniform])
def test_every_component_is_seen_before_anything_is_seen_twice_over(kind):
    policy = kind(unit_problem(TopKOracle(9, k=3), actions="answers"), rng=3)
    for _ in range(3):
        policy.tell(policy.ask(), [0.0] * 3)
    assert (policy.pulls == 1).all()


def test_a_batch_does_not_ask_for_the_same_thing_without_need():
    policy = TopTwo(unit_problem(TopKOracle(9, k=3), actions="answers"), rng=3)
    queries = policy.ask(3)
    assert sorted(part for query in queries for part in query.parts) == list(range(9))


@pytest.mark.parametrize("kind", ["top-two", "peps", "uniform"])
def test_identify_and_simulate(kind):
    rng, truth = np.random.default_rng(0), {"a": 0.0, "b": 1.0, "c": 2.0, "d": 0.5}
    result = identify(problem(), lambda team: {x: truth[x] + rng.normal() for x in team}, policy=kind, budget=2000)
    assert result.answer == {"b", "c"}
    assert result.stop_reason == "posterior"
    assert result.samples == 2 * result.cost == 2 * result.session.policy.actions[0]
    trace = simulate(problem(), list(truth.values()), kind, budget=300, replications=30)
    assert trace.identification_rate()[0][-1] > 0.8
    np.testing.assert_array_equal(trace.pulls.sum(axis=1), 600)


def test_runs_side_by_side_are_the_runs_one_by_one():
    truth = [0.0, 1.0, 2.0, 0.5]
    together = simulate(problem(), truth, "top-two", budget=40, replications=6, rng=5)
    apart = simulate(problem(), truth, "top-two", budget=40, replications=6, rng=5, n_jobs=2)
    np.testing.assert_array_equal(together.pulls, apart.pulls)
    unknown = problem(noise_std=None)
    assert simulate(unknown, truth, "top-two", budget=20, replications=3, true_noise_std=1.0).pulls.sum() == 120


def test_learning_from_an_action_is_learning_its_parts():
    one, other = (TopTwo(problem(noise_std={"a": 1, "b": 2, "c": 3, "d": 4}), rng=0, replications=3) for _ in range(2))
    rng = np.random.default_rng(0)
    for _ in range(20):
        actions, ys = one.next_actions(), rng.normal(size=(3, 4))
        one.learn_action(actions, ys)
        parts = np.array([np.flatnonzero(row) for row in actions])
        for k in range(2):
            other.learn(parts[:, k], ys[np.arange(3), parts[:, k]])
    np.testing.assert_array_equal(one.belief.theta_hat, other.belief.theta_hat)
    np.testing.assert_array_equal(one.totals, other.totals)


def test_budgets_count_actions():
    noise = np.random.default_rng(0)
    result = identify(problem(cost=3.0), lambda team: noise.normal(size=2), stopping="budget", budget=7)
    assert result.session.policy.actions[0] == 7
    assert result.cost == 21.0
    result = identify(problem(cost=3.0), lambda team: noise.normal(size=2), stopping="budget", budget_cost=20.0)
    assert result.session.policy.actions[0] == 6


def test_guarantees_hold_however_data_came():
    truth, rng = {"a": 0.0, "b": 2.0, "c": 3.0, "d": 0.5}, np.random.default_rng(1)
    result = identify(problem(), lambda team: [truth[x] + rng.normal() for x in sorted(team)], stopping="certified")
    assert result.stop_reason == "certified"
    assert result.answer == {"b", "c"}
    with pytest.raises(ComboPepsError, match="action"):
        identify(problem(), lambda team: [0.0, 0.0], stopping="verified")


@pytest.mark.parametrize("kind", ["top-two", "peps", "uniform"])
def test_where_there_is_one_answer_only(kind):
    only = unit_problem(TopKOracle(3, k=3), actions="answers")
    result = identify(only, lambda team: [0.0] * 3, policy=kind, budget=20)
    assert result.answer == {0, 1, 2}
    assert result.stop_reason == "posterior"


def test_the_certified_rule_ends_on_a_two_way_network_although_some_roads_are_never_seen():
    """A route that goes home first is none: the roads that only such routes take have no length, and stand in no way."""
    streets = nx.grid_2d_graph(3, 3).to_directed()
    oracle = ShortestPathOracle(streets, (0, 0), (2, 2))
    rng = np.random.default_rng(0)
    theta = rng.uniform(1.0, 2.0, oracle.dim)
    length = dict(zip(oracle.components, theta, strict=True))
    routes = unit_problem(oracle, noise_std=0.2, prior_mean=1.5, actions="answers")
    drive = lambda route: [length[road] + 0.2 * rng.normal() for road in pairwise(route)]  # noqa: E731
    result = identify(routes, drive, stopping="certified", budget=2000, rng=1)
    assert result.stop_reason == "certified"
    assert min(result.pulls.values()) == 0
    np.testing.assert_array_equal(result.z, oracle.argmax(theta))

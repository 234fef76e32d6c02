"""Asking and telling, where a measurement shows all components of an action."""

import pickle
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from sessions import session_of
from unit_problem import unit_problem

from combopeps import PEPS, ShortestPathOracle, TopKOracle, TopTwo, identify, simulate
from combopeps.errors import ComboPepsError, LabelError, ParameterError, QueryError, RewardError
from combopeps.policies import LinGapE, Uniform


def problem(**options):
    return unit_problem(TopKOracle(["a", "b", "c", "d"], k=2), actions="answers", **options)


def state(session):
    return pickle.dumps(session.state_dict())


def test_a_query_names_what_is_to_be_read():
    query = session_of(TopTwo, problem()).ask()
    assert len(query.components) == 2
    assert query.label == set(query.components)
    np.testing.assert_array_equal(np.flatnonzero(query.x), query.arms)


def test_results_may_have_any_form():
    beliefs = []
    for form in ("sequence", "dict", "pairs", "rest observed"):
        session = session_of(TopTwo, problem())
        query = session.ask()
        first, second = query.components
        if form == "sequence":
            session.tell(query, [1.5, -0.5])
        elif form == "dict":
            session.tell(query, {second: -0.5, first: 1.5})
        elif form == "pairs":
            session.tell(query, [(1.5, 1.0), (-0.5, 1.0)])
        else:
            session.tell(query, {first: 1.5})
            session.observe(second, -0.5)
        assert (session.samples, session.actions, session.open_queries) == (2, 1, [])
        beliefs.append(session.belief.theta_hat)
    assert all(np.array_equal(belief, beliefs[0]) for belief in beliefs)


def test_what_was_not_read_is_not_learnt_but_costs():
    session = session_of(TopTwo, problem(cost=2.0, part_cost=0.25))
    session.tell(session.ask(), [None, None])
    assert (session.samples, session.cost) == (0, 2.5)


def test_an_identical_repetition_is_harmless_and_another_is_refused():
    session = session_of(TopTwo, problem())
    query = session.ask()
    session.tell(query, [1.0, None])
    before = state(session)
    session.tell(query, {query.components[0]: 1.0})
    with pytest.raises(QueryError, match="answered"):
        session.tell(query, [1.0, 2.0])
    assert state(session) == before


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ([1.0], RewardError, "2 parts, got 1"),
        ([1.0, 2.0, 3.0], RewardError, "2 parts, got 3"),
        (3.0, RewardError, "2 parts"),
        ("ab", RewardError, "2 parts"),
        ([1.0, float("nan")], RewardError, "finite"),
        ([1.0, (2.0, -1.0)], RewardError, "sem"),
        ({"unknown": 1.0}, LabelError, "unknown"),
        ("other", LabelError, "not on the action"),
    ],
)
def test_bad_results_change_nothing(values, error, words):
    session = session_of(TopTwo, problem())
    query = session.ask()
    if isinstance(values, str) and values == "other":
        values = {next(label for label in "abcd" if label not in query.label): 1.0}
    before = state(session)
    with pytest.raises(error, match=words):
        session.tell(query, values)
    assert state(session) == before
    session.tell(query, [1.0, 2.0])
    assert session.samples == 2


def test_policies_for_single_arms_say_so():
    with pytest.raises(ParameterError, match="top-two"):
        LinGapE(problem(), rng=0)


@pytest.mark.parametrize("kind", [TopTwo, PEPS, Uniform])
def test_every_component_is_seen_before_anything_is_seen_twice_over(kind):
    session = session_of(kind, unit_problem(TopKOracle(9, k=3), actions="answers"), 3)
    for _ in range(3):
        session.tell(session.ask(), [0.0] * 3)
    assert set(session.status().pulls.values()) == {1}


def test_a_batch_does_not_ask_for_the_same_thing_without_need():
    queries = session_of(TopTwo, unit_problem(TopKOracle(9, k=3), actions="answers"), 3).ask(3)
    assert sorted(arm for query in queries for arm in query.arms) == list(range(9))


@pytest.mark.parametrize("kind", ["top-two", "peps", "uniform"])
def test_identify_and_simulate(kind):
    rng, truth = np.random.default_rng(0), {"a": 0.0, "b": 1.0, "c": 2.0, "d": 0.5}
    result = identify(problem(), lambda team: {x: truth[x] + rng.normal() for x in team}, policy=kind, budget=2000)
    assert result.answer == {"b", "c"}
    assert result.stop_reason == "posterior"
    assert result.samples == 2 * result.cost == 2 * result.actions
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
    assert result.actions == 7
    assert result.cost == 21.0
    result = identify(problem(cost=3.0), lambda team: noise.normal(size=2), stopping="budget", budget_cost=20.0)
    assert result.actions == 6


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

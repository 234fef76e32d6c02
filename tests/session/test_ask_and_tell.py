"""Asking and telling in memory: results in any order, nothing recorded twice or in part, bad results refused."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from sessions import covariance_of, session_of, state_of
from unit_problem import unit_problem

from combopeps import (
    PEPS,
    Box,
    ComboPepsError,
    DoublingPEPS,
    ShortestPathOracle,
    TopKOracle,
    TopTwo,
    identify,
    simulate,
)
from combopeps.errors import LabelError, ParameterError, QueryError, RewardError
from combopeps.policies.baselines import LinGapE, Uniform

ITEMS = ["a", "b", "c", "d"]


def pairs(**options):
    return unit_problem(TopKOracle(ITEMS, k=2), **options)


def teams(**options):
    """Both items of a pair are measured at once."""
    return pairs(actions="answers", **options)


def session_for(kind=TopTwo, rng=0, **options):
    return session_of(kind, pairs(space=Box(-9.0, 9.0), **options), rng)


@pytest.mark.parametrize("kind", [TopTwo, PEPS, DoublingPEPS])
def test_ask_returns_open_queries_that_name_their_arms(kind):
    session = session_for(kind)
    query = session.ask()
    assert session.open_queries == [query]
    assert query.label == ITEMS[query.arm]
    np.testing.assert_array_equal(query.x, np.eye(4)[query.arm])
    session.tell(query, 1.0)
    assert session.open_queries == []
    assert session.samples == session.status().pulls[query.label] == 1
    queries = session.ask(7)
    assert session.open_queries == queries
    assert len({query.id, *(query.id for query in queries), session.ask(1)[0].id}) == 9
    assert len({query.arm for query in queries}) > 1


@pytest.mark.parametrize("n", [0, -1, 2.5, "2", float("nan"), True])
def test_a_number_of_queries_is_a_positive_integer(n):
    session = session_for()
    with pytest.raises(ParameterError, match=str(n)):
        session.ask(n)
    assert session.open_queries == []


@pytest.mark.parametrize("kind", [TopTwo, PEPS])
def test_results_count_the_same_in_any_order_and_late(kind):
    first, second, third = (session_for(kind) for _ in range(3))
    batches = [session.ask(9) for session in (first, second, third)]
    assert batches[0] == batches[1] == batches[2]
    results = [(query, 0.3 * query.id - 1.0) for query in batches[0]]
    for query, y in results:
        first.tell(query, y)
    for query, y in reversed(results):
        second.tell(query, y)
    late = results.pop(4)
    third.tell_many(results)
    third.ask(3)
    third.tell(*late)
    for session in (second, third):
        np.testing.assert_allclose(session.posterior.theta_hat, first.posterior.theta_hat, rtol=1e-12)
        assert session.status().pulls == first.status().pulls


@pytest.mark.parametrize(
    ("problem", "told", "others", "words"),
    [
        (pairs(), (1.5,), [(1.6,), (1.5, 0.5)], r"1\.5"),
        (pairs(), (1.0, 0.5), [(1.0,), (1.0, None), (1.0, 0.25), (2.0, 0.5)], r"1\.0 \+- 0\.5"),
        (teams(), ([1.0, None],), [([1.0, 2.0],), ([None, 1.0],)], r"\S*"),
    ],
    ids=["a number", "with a standard error", "of an action"],
)
def test_a_repeated_result_counts_once_and_another_is_refused(problem, told, others, words):
    session = session_of(TopTwo, problem)
    query, second = session.ask(2)
    session.tell_many([(query, *told), (query, *told)])
    before = state_of(session)
    session.tell(query, *told)
    session.tell_many([(query, *told), (query.id, *told)])
    if query.action is not None:
        session.tell(query, {query.components[0]: 1.0})
    for other in others:
        with pytest.raises(QueryError, match=rf"answered {words}.* before.*observe"):
            session.tell(query, *other)
        with pytest.raises(QueryError):
            session.tell_many([(second, *told), (second, *other)])
    with pytest.raises(QueryError, match="closed before"):
        session.abandon(query)
    assert state_of(session) == before


NAN, INF = float("nan"), float("inf")
BAD_VALUES = [NAN, INF, -INF, None, "much", [1.0, 2.0], 1j, 1e200, -1.1e100, 10**400]
BAD_SEMS = [0.0, -0.1, NAN, INF, 10**400, 1e-9, 1e9, "0.1", True]
BAD_COUNTS = [0, -2, 1.5, True, None, 10**13, 10**400]
GENERAL = np.eye(4) + np.eye(4, k=1)


@pytest.mark.parametrize("arms", [None, dict(zip(ITEMS, GENERAL, strict=True))], ids=["unit arms", "general arms"])
@pytest.mark.parametrize(("y", "sem"), [*((y, None) for y in BAD_VALUES), *((1.0, sem) for sem in BAD_SEMS)])
def test_a_refused_result_changes_nothing_and_the_error_names_its_query_or_label(arms, y, sem):
    session = session_of(TopTwo, pairs(arms=arms))
    session.observe("a", 1.0)
    query, other = session.ask(2)
    before = state_of(session)
    with pytest.raises(RewardError, match=rf"query 0 \({query.label}\)"):
        session.tell(query, y, sem)
    with pytest.raises(RewardError, match="query 0"):
        session.tell_many([(other, 1.0), (query, y, sem)])
    with pytest.raises((RewardError, ParameterError), match="'b'") as error:
        session.observe("b", y, sem)
    assert "query" not in str(error.value)
    assert state_of(session) == before
    session.tell(query, 2.0, 0.25)
    assert session.samples == 2


@pytest.mark.parametrize("count", BAD_COUNTS, ids=lambda count: f"{count!r:.20}")
def test_a_count_is_a_positive_integer_that_can_be_learnt(count):
    session = session_for()
    before = state_of(session)
    with pytest.raises((RewardError, ParameterError), match="count") as error:
        session.observe("a", 1.0, count=count)
    assert len(str(error.value)) < 200  # a number of many digits is not written out
    assert state_of(session) == before


@pytest.mark.filterwarnings("ignore::combopeps.errors.NoiseWarning", "ignore::combopeps.errors.PriorWarning")
@pytest.mark.parametrize("noise_std", [1e-50, 1.0, 1e50])
@pytest.mark.parametrize("arms", [None, np.eye(4) + 0.5], ids=["unit", "general"])
def test_the_largest_result_that_is_accepted_does_no_harm(arms, noise_std):
    session = session_of(TopTwo, pairs(arms=arms, noise_std=noise_std, prior_std=noise_std))
    for sign in (1, -1, -1, 1):
        session.tell(session.ask(), sign * 1e100 * noise_std, confirm=True)
    assert np.isfinite(session.posterior.theta_hat).all()
    assert 0 <= session.status().error_probability <= 1


@pytest.mark.parametrize("bad", [None, "0", (0, 1), True, 0.0, 1, np.int64(-1)], ids=repr)
def test_what_is_not_a_query_is_refused(bad):
    session = session_for()
    session.ask()
    before = state_of(session)
    known = r"asked" if isinstance(bad, (int, np.integer)) and not isinstance(bad, bool) else r"ask\(\)"
    for act in (session.abandon, lambda query: session.tell(query, 1.0), lambda q: session.tell_many([(q, 1.0)])):
        with pytest.raises(QueryError, match=known):
            act(bad)
    assert state_of(session) == before


SHAPES = {"of four": [(0, 1.0, 0.1, 3)], "of one": [(0,)], "empty": [()], "text": ["ab"], "a number": 5, "none": None}


@pytest.mark.parametrize("shape", SHAPES)
def test_results_of_another_shape_are_refused(shape):
    session = session_for()
    query = session.ask()
    with pytest.raises(ParameterError, match=r"\(query, y\) or \(query, y, sem\)"):
        session.tell_many(SHAPES[shape])
    assert (session.samples, session.open_queries) == (0, [query])


def test_numpy_numbers_are_numbers():
    session = session_for()
    for y in (np.float32(0.5), np.int64(3), np.array(1.5), 2):
        session.tell(np.int64(session.ask().id), y)
    assert session.samples == 4


@pytest.mark.parametrize("fault", ["nan", "sem", "answered", "abandoned", "twice"])
def test_tell_many_records_all_or_nothing(fault):
    session = session_for()
    queries = session.ask(4)
    if fault == "answered":
        session.tell(queries[2], 0.0)
    if fault == "abandoned":
        session.abandon(queries[2])
    results = [(query, 1.0) for query in queries]
    wrong = {"nan": (queries[2], NAN), "sem": (queries[2], 1.0, -1.0), "twice": (queries[0], 2.0)}
    results[2] = wrong.get(fault, results[2])
    before = state_of(session)
    with pytest.raises((QueryError, RewardError), match="sem of query 2" if fault == "sem" else "query"):
        session.tell_many(results)
    if fault == "abandoned":
        with pytest.raises(QueryError):
            session.abandon(queries[2])
    assert state_of(session) == before


def test_a_query_of_another_session_is_refused():
    session = session_for()
    mine = session.ask()
    theirs = next(query for seed in range(100) if (query := session_for(rng=seed).ask()).arm != mine.arm)
    before = state_of(session)
    for act in (lambda: session.tell(theirs, 1.0), lambda: session.abandon(theirs)):
        with pytest.raises(QueryError, match=r"not asked|another session"):
            act()
        assert state_of(session) == before
    session.tell(mine, 1.0)
    with pytest.raises(QueryError):
        session.tell(theirs, 1.0)


@pytest.mark.parametrize("label", ["z", 0, ("a",), ["a"]], ids=repr)
def test_observe_refuses_unknown_labels(label):
    session = session_for()
    before = state_of(session)
    with pytest.raises(LabelError) as error:
        session.observe(label, 1.0)
    if label == "z":
        assert "there are 'a', 'b'" in str(error.value)
        assert "did you mean" not in str(error.value)  # labels are not alike because of their quotes
    assert state_of(session) == before


# ---------------------------------------------------------------- status


@pytest.mark.parametrize("kind", [TopTwo, PEPS, DoublingPEPS])
def test_status_has_the_answer_the_runner_up_and_the_error_probability(kind):
    session = session_for(kind, prior_std=5.0)
    for label, y in zip("abcd" * 16, [5.0, 4.0, 3.0, -5.0] * 16, strict=True):
        session.observe(label, y)
    found = session.status()
    assert found.answer == {"a", "b"}
    np.testing.assert_array_equal(found.z, [1, 1, 0, 0])
    assert found.runner_up == {"a", "c"}
    assert 0 < found.error_probability < 0.1


def test_before_any_data_every_answer_is_equally_probable():
    found = session_of(TopTwo, pairs()).status()
    assert abs(found.error_probability - 5 / 6) < 5 * np.sqrt(5 / 36 / 64)  # five standard errors of 64 draws
    assert found.runner_up != found.answer


@pytest.mark.parametrize("actions", [None, "answers"])
@pytest.mark.parametrize("kind", [TopTwo, PEPS, Uniform])
def test_a_single_answer_needs_no_alternative(kind, actions):
    session = session_of(kind, unit_problem(TopKOracle(ITEMS, k=4), actions=actions))
    for _ in range(2 if actions else 8):
        query = session.ask()
        session.tell(query, [0.3] * 4 if actions else 0.3)
    found = session.status()
    assert list(found.pulls.values()) == [2, 2, 2, 2]
    assert (found.answer, found.runner_up, found.error_probability) == (set(ITEMS), None, 0.0)
    assert session.look().stop


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_with_an_epsilon_an_error_is_to_be_worse_by_more(epsilon):
    """Against 200,000 plain draws; five standard errors of the 256 draws behind the estimate."""
    oracle, rng = TopKOracle(ITEMS, k=2), np.random.default_rng(1)
    session, exact = (session_of(TopTwo, oracle, session={"epsilon": e}) for e in (epsilon, 0.0))
    for label, y in zip("abcd" * 2, [1.0, 0.9, 0.8, -1.0] * 2, strict=True):
        session.observe(label, y)
        exact.observe(label, y)
    found, posterior = session.status(), session.posterior
    thetas = posterior.theta_hat[0] + np.sqrt(posterior.variance[0]) * rng.standard_normal((200_000, 4))
    p = (((oracle.argmax(thetas) - found.z) * thetas).sum(axis=1) > epsilon).mean()
    assert 0.01 < p < 0.7
    assert abs(found.error_probability - p) < 5 * np.sqrt(p * (1 - p) / 256)
    assert found.error_probability < exact.status().error_probability


@pytest.mark.parametrize("scale", [0.5, 2.0, 5.0])
@pytest.mark.parametrize("X", [None, np.array([[1.0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1.0, 0, 0, 2]])])
def test_the_error_probability_is_the_posterior_probability_of_another_answer(X, scale):
    """Against 500,000 plain draws; 20 per cent is five standard errors of the 400 to 500 draws behind the estimate."""
    session, rng = session_of(TopTwo, pairs(arms=X)), np.random.default_rng(1)
    for arm, label in enumerate(session.problem.arms.labels):
        for _ in range(10):
            session.observe(label, (scale * session.problem.arms.row(arm) @ [0.5, 0.4, 0.2, -0.5]).item())
    found, posterior = session.status(), session.posterior
    draws = rng.multivariate_normal(posterior.theta_hat[0], covariance_of(posterior), size=500_000)
    wrong = (session.problem.oracle.argmax(draws) != found.z).any(axis=1).mean()
    assert wrong > 1e-4
    assert found.error_probability == pytest.approx(wrong, rel=0.2)


# ---------------------------------------------------------------- a measurement shows all components of an action


def test_a_query_for_an_action_names_what_is_to_be_read():
    query = session_of(TopTwo, teams()).ask()
    assert len(query.components) == 2
    assert query.label == set(query.components)
    np.testing.assert_array_equal(np.flatnonzero(query.x), query.arms)


def test_results_of_an_action_may_have_any_form():
    posteriors = []
    for form in ("sequence", "dict", "pairs", "rest observed"):
        session = session_of(TopTwo, teams())
        query = session.ask()
        first, second = query.components
        given = {"sequence": [1.5, -0.5], "dict": {second: -0.5, first: 1.5}, "pairs": [(1.5, 1.0), (-0.5, 1.0)]}
        session.tell(query, given.get(form, {first: 1.5}))
        if form == "rest observed":
            session.observe(second, -0.5)
        assert (session.samples, session.actions, session.open_queries) == (2, 1, [])
        posteriors.append(session.posterior.theta_hat)
    assert all(np.array_equal(posterior, posteriors[0]) for posterior in posteriors)


def test_what_was_not_read_is_not_learnt_but_costs():
    session = session_of(TopTwo, teams(cost=2.0, part_cost=0.25))
    session.tell(session.ask(), [None, None])
    assert (session.samples, session.cost) == (0, 2.5)


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ([1.0], RewardError, "2 parts, got 1"),
        ([1.0, 2.0, 3.0], RewardError, "2 parts, got 3"),
        (3.0, RewardError, "2 parts"),
        ("ab", RewardError, "2 parts"),
        ([1.0, NAN], RewardError, "finite"),
        ([1.0, (2.0, -1.0)], RewardError, "sem"),
        ({"unknown": 1.0}, LabelError, "unknown"),
        ("other", LabelError, "not on the action"),
    ],
)
def test_bad_results_of_an_action_change_nothing(values, error, words):
    session = session_of(TopTwo, teams())
    query = session.ask()
    if isinstance(values, str) and values == "other":
        values = {next(label for label in ITEMS if label not in query.label): 1.0}
    before = state_of(session)
    with pytest.raises(error, match=words):
        session.tell(query, values)
    assert state_of(session) == before
    session.tell(query, [1.0, 2.0])
    assert session.samples == 2


@pytest.mark.parametrize("kind", [TopTwo, PEPS, Uniform])
def test_actions_see_every_component_before_any_twice(kind):
    problem = unit_problem(TopKOracle(9, k=3), actions="answers")
    session = session_of(kind, problem, 3)
    for _ in range(3):
        session.tell(session.ask(), [0.0] * 3)
    assert set(session.status().pulls.values()) == {1}
    if kind is TopTwo:  # so do those of a batch
        queries = session_of(kind, problem, 3).ask(3)
        assert sorted(arm for query in queries for arm in query.arms) == list(range(9))


@pytest.mark.parametrize("kind", ["top-two", "peps", "uniform"])
def test_the_best_action_is_found_by_identify_and_simulate(kind):
    rng, truth = np.random.default_rng(0), {"a": 0.0, "b": 1.0, "c": 2.0, "d": 0.5}
    result = identify(teams(), lambda team: {x: truth[x] + rng.normal() for x in team}, policy=kind, budget=2000)
    assert result.answer == {"b", "c"}
    assert result.stop_reason == "posterior"
    assert result.samples == 2 * result.cost == 2 * result.actions
    trace = simulate(teams(), list(truth.values()), kind, budget=300, replications=30)
    assert trace.identification_rate()[0][-1] > 0.8
    np.testing.assert_array_equal(trace.pulls.sum(axis=1), 600)
    unknown = simulate(teams(noise_std=None), list(truth.values()), kind, budget=20, replications=3, true_noise_std=1.0)
    np.testing.assert_array_equal(unknown.pulls.sum(axis=1), 40)


def test_learning_from_an_action_is_learning_its_parts():
    problem = teams(noise_std={"a": 1, "b": 2, "c": 3, "d": 4})
    one, other = (TopTwo(problem, rng=0, replications=3) for _ in range(2))
    rng = np.random.default_rng(0)
    for _ in range(20):
        actions, ys = one.next_actions(), rng.normal(size=(3, 4))
        one.learn_action(actions, ys)
        parts = np.array([np.flatnonzero(row) for row in actions])
        for k in range(2):
            other.learn(parts[:, k], ys[np.arange(3), parts[:, k]])
    np.testing.assert_array_equal(one.posterior.theta_hat, other.posterior.theta_hat)
    np.testing.assert_array_equal(one.totals, other.totals)


def test_budgets_count_actions():
    noise = np.random.default_rng(0)
    for limit, actions in (({"budget": 7}, 7), ({"budget_cost": 20.0}, 6)):
        result = identify(teams(cost=3.0), lambda team: noise.normal(size=2), stopping="budget", **limit)
        assert (result.actions, result.cost) == (actions, 3.0 * actions)


def test_claims_about_actions():
    truth, rng = {"a": 0.0, "b": 2.0, "c": 3.0, "d": 0.5}, np.random.default_rng(1)
    result = identify(teams(), lambda team: [truth[x] + rng.normal() for x in sorted(team)], stopping="certified")
    assert (result.stop_reason, result.answer) == ("certified", {"b", "c"})
    with pytest.raises(ComboPepsError, match="action"):
        identify(teams(), lambda team: [0.0, 0.0], stopping="verified")
    with pytest.raises(ParameterError, match="top-two"):
        LinGapE(teams(), rng=0)


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

"""Results with a standard error of their own, and means of several: weighted as in a ridge regression."""

import pickle
import warnings

import numpy as np
import pytest
from sessions import session_of
from unit_problem import unit_problem

from combopeps import Box, Campaign, Problem, TopKOracle, TopTwo
from combopeps.campaign.store import store_at
from combopeps.errors import ParameterError, QueryError, RewardError, StateFileError
from combopeps.policies.registry import POLICIES, policy_class
from combopeps.session.queries import Reading

ROWS = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [2.0, 0.0, 0.0]])
NOISE = np.array([0.5, 1.0, 2.0, 4.0])
PROBLEMS = {
    "unit arms": lambda: Problem(
        TopKOracle(4, k=2), noise_std=NOISE, prior_mean=[0.3, 0, -1, 0], prior_std=[1, 2, 3, 4]
    ),
    "general arms": lambda: Problem(TopKOracle(3, k=1), ROWS, NOISE, prior_mean=[0.3, 0, -1], prior_std=[1, 2, 3]),
}
GIVEN = [
    (0, 1.0, None, 1),
    (1, -0.5, 0.25, 1),
    (2, 0.7, None, 6),
    (3, 1.5, 8.0, 1),
    (0, 0.2, 0.1, 3),
    (2, 0.1, None, 1),
]


def ridge(problem, given):
    """Mean and covariance, from variances alone: no belief, no weights, no units of the noise."""
    X = problem.arms.row(np.arange(len(problem.arms)))
    d = problem.oracle.dim
    prior = np.diag(np.broadcast_to(np.asarray(problem.prior_std, float), (d,)) ** -2.0)
    V, S = prior.copy(), prior @ np.broadcast_to(np.asarray(problem.prior_mean, float), (d,))
    for arm, y, sem, count in given:
        variance = NOISE[arm] ** 2 / count if sem is None else sem**2
        V += np.outer(X[arm], X[arm]) / variance
        S = S + X[arm] * y / variance
    return np.linalg.solve(V, S), np.linalg.inv(V)


def covariance(belief):
    return np.stack([belief.covariance_dot(e[None])[0] for e in np.eye(belief.dim)])


def assert_is(session, expected):
    np.testing.assert_allclose(session.belief.theta_hat[0], expected[0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(covariance(session.belief), expected[1], rtol=1e-10, atol=1e-12)


def state(session):
    return pickle.dumps(session.state_dict())


@pytest.mark.parametrize("kind", PROBLEMS)
def test_observations_are_those_of_a_ridge_regression(kind):
    session = session_of(TopTwo, PROBLEMS[kind]())
    problem, policy = session.problem, session.policy
    for arm, y, sem, count in GIVEN:
        session.observe(problem.arms.labels[arm], y, sem=sem, count=count)
    assert_is(session, ridge(problem, GIVEN))
    np.testing.assert_array_equal(policy.pulls[0], [4, 1, 7, 1])
    assert session.samples == 13
    np.testing.assert_allclose(policy.weights[0], [1 + 25.0, 16.0, 7.0, 0.25])
    np.testing.assert_allclose(
        policy.totals[0], [1 / 0.5 + 25 * 0.2 / 0.5, 16 * -0.5, (6 * 0.7 + 0.1) / 2, 0.25 * 1.5 / 4]
    )


@pytest.mark.parametrize("kind", PROBLEMS)
def test_told_one_by_one_or_many_at_once(kind):
    problem = PROBLEMS[kind]()
    one, many = (session_of(TopTwo, problem) for _ in range(2))
    ys, sems = [0.4, -0.2, 1.0, 0.3, 0.9], [None, 0.3, 2.0, None, 0.01]
    asked = one.ask(5)
    for query, y, sem in zip(asked, ys, sems, strict=True):
        one.tell(query, y, sem)
    same = many.ask(5)
    assert [query.arm for query in same] == [query.arm for query in asked]
    many.tell_many((q, y) if sem is None else (q, y, sem) for q, y, sem in zip(same, ys, sems, strict=True))
    assert one.measurements() == many.measurements()
    for session in (one, many):
        assert_is(session, ridge(problem, [(q.arm, y, sem, 1) for q, y, sem in zip(asked, ys, sems, strict=True)]))
        assert session.samples == 5


@pytest.mark.parametrize("name", [name for name, policy in POLICIES.items() if policy.by_name])
def test_a_mean_of_many_is_as_good_as_the_many(name):
    problem = unit_problem(
        TopKOracle(3, k=1), noise_std=[0.5, 1.0, 2.0], space=Box(-9.0, 9.0) if "doubling" in name else None
    )
    at_once, one_by_one = (session_of(policy_class(name), problem) for _ in range(2))
    at_once.observe(1, 0.75, count=4)
    if "doubling" not in name:  # an epoch is over after so many results
        for _ in range(4):
            one_by_one.observe(1, 0.75)
        np.testing.assert_allclose(at_once.belief.theta_hat, one_by_one.belief.theta_hat, rtol=1e-12)
        np.testing.assert_allclose(covariance(at_once.belief), covariance(one_by_one.belief), rtol=1e-12)
        np.testing.assert_array_equal(at_once.policy.pulls, one_by_one.policy.pulls)
        np.testing.assert_allclose(at_once.policy.totals, one_by_one.policy.totals)
    np.testing.assert_array_equal(at_once.policy.pulls, [[0, 4, 0]])
    np.testing.assert_array_equal(at_once.policy.weights, [[0.0, 4.0, 0.0]])


def test_a_standard_error_equal_to_the_noise_changes_nothing():
    problem = PROBLEMS["unit arms"]()
    one, other = (session_of(TopTwo, problem) for _ in range(2))
    one.observe(2, 0.7)
    other.observe(2, 0.7, sem=2.0)
    assert pickle.dumps(one.policy.state_dict()) == pickle.dumps(other.policy.state_dict())


BAD = {
    "sem 0": {"sem": 0.0},
    "sem negative": {"sem": -0.1},
    "sem NaN": {"sem": float("nan")},
    "sem inf": {"sem": float("inf")},
    "sem enormous": {"sem": 10**400},
    "sem far too small": {"sem": 1e-9},
    "sem far too large": {"sem": 1e9},
    "sem a word": {"sem": "0.1"},
    "sem a bool": {"sem": True},
    "count 0": {"count": 0},
    "count negative": {"count": -2},
    "count half": {"count": 1.5},
    "count a bool": {"count": True},
    "count None": {"count": None},
    "count enormous": {"count": 10**13},
}


@pytest.mark.parametrize("fault", BAD)
def test_a_refused_result_changes_nothing(fault):
    session = session_of(TopTwo, PROBLEMS["general arms"]())
    session.observe(0, 1.0)
    query = session.ask()
    before = state(session)
    with pytest.raises((RewardError, ParameterError), match=fault.split()[0]):
        session.observe(1, 0.5, **BAD[fault])
    if "sem" in BAD[fault]:
        for results in ([(query, 0.5, BAD[fault]["sem"])], [(query, 1.0), (query, 1.0, BAD[fault]["sem"])]):
            with pytest.raises(RewardError, match="sem"):
                session.tell_many(results)
    assert state(session) == before
    session.tell(query, 0.5, 0.25)  # still open
    assert session.samples == 2


def test_a_standard_error_is_refused_where_the_noise_is_unknown(tmp_path):
    problem = unit_problem(TopKOracle(3, k=1), noise_std=None)
    session = session_of(TopTwo, problem)
    query = session.ask()
    with pytest.raises(ParameterError, match="noise_std=None"):
        session.tell(query, 1.0, 0.5)
    assert session.open_queries == [query]
    session.observe(0, 1.0, count=3)
    assert session.policy.pulls[0].tolist() == [3, 0, 0]
    Campaign.create(tmp_path / "c.db", problem)
    store = store_at(tmp_path / "c.db")
    with store.locked():
        store.append([{"kind": "observe", "arm": 0, "label": 0, "y": 1.0, "sem": 0.5}], store.read().end)
    with pytest.raises(StateFileError, match="sem states the noise level"):
        Campaign.open(tmp_path / "c.db")


def test_the_same_result_twice_is_harmless_and_another_standard_error_is_refused():
    session = session_of(TopTwo, PROBLEMS["unit arms"]())
    query, second = session.ask(2)
    session.tell(query, 1.0, 0.5)
    before = state(session)
    session.tell(query, 1.0, 0.5)
    session.tell_many([(query, 1.0, 0.5)])
    for other in [(1.0,), (1.0, None), (1.0, 0.25), (2.0, 0.5)]:
        with pytest.raises(QueryError):
            session.tell(query, *other)
    with pytest.raises(QueryError):
        session.tell_many([(second, 1.0, 0.5), (second, 1.0)])
    assert state(session) == before


def test_readings_and_their_weights():
    assert repr(Reading(1.5)) == "1.5"
    assert repr(Reading(1.5, 0.25)) == "1.5 +- 0.25"
    assert repr(Reading(1.5, None, 4)) == "1.5 (mean of 4)"
    assert Reading(1.5, 0.25).weight(0.5) == 4.0
    assert Reading(1.5, None, 4).weight(0.5) == 4.0
    assert Reading(1.5, 0.25, 4).weight(0.5) == 4.0
    assert Reading(1.5).is_plain
    assert not Reading(1.5, 0.25).is_plain
    assert not Reading(1.5, None, 2).is_plain


def test_means_do_not_alarm_the_guard_of_the_noise():
    """Repetitions of means are closer to each other than the noise, those with large errors further apart."""
    session = session_of(TopTwo, unit_problem(TopKOracle(2, k=1), prior_std=100.0))
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(60):
            session.observe(0, 10.0 * rng.normal(), sem=10.0)
            session.observe(1, 0.1 * rng.normal(), count=100)
    assert session.status().warning == ""


@pytest.mark.parametrize("name", ["top-two", "peps"])
@pytest.mark.parametrize("kind", PROBLEMS)
def test_a_campaign_keeps_them(kind, name, tmp_path):
    problem, path = PROBLEMS[kind](), tmp_path / "c.db"
    campaign, given = Campaign.create(path, problem, policy=name, rng=3), []
    for t in range(6):
        query = campaign.ask()
        sem = [None, 0.3, 2.5][t % 3]
        campaign.tell(query, 0.1 * t, sem)
        given.append((query.arm, 0.1 * t, sem, 1))
    for arm, y, sem, count in GIVEN:
        campaign.observe(problem.arms.labels[arm], y, sem=sem, count=count)
    given += GIVEN
    asked = campaign.ask(2)
    campaign.tell_many([(asked[0], 0.5), (asked[1].id, 0.25, 0.125)])
    given += [(asked[0].arm, 0.5, None, 1), (asked[1].arm, 0.25, 0.125, 1)]
    again = Campaign.open(path)
    for one in (campaign, again):
        assert_is(one, ridge(problem, given))
        assert one.samples == sum(count for *_, count in given)
    np.testing.assert_array_equal(again.belief.theta_hat, campaign.belief.theta_hat)
    again.tell(asked[1].id, 0.25, 0.125)  # harmless
    with pytest.raises(QueryError):
        again.tell(asked[1].id, 0.25)
    assert [query.arm for query in again.ask(3)] == [query.arm for query in Campaign.open(path).open_queries]


@pytest.mark.parametrize("batch", [1, 4])
def test_measure_may_return_standard_errors(batch):
    session = session_of(TopTwo, TopKOracle(["a", "b", "c"], k=1), session={"stopping": "budget"})
    truth, told = {"a": 0.0, "b": 2.0, "c": 1.0}, []

    def one(label):
        sem = 0.2 if label == "c" else None
        told.append((label, sem))
        return truth[label] if sem is None else (truth[label], sem)

    measure = one if batch == 1 else lambda labels: [one(label) for label in labels]
    result, policy = session.run(measure, budget=24, batch_size=batch), session.policy
    assert result.samples == 24 == len(told)
    counts = [sum(label == x for label, _ in told) for x in "abc"]
    np.testing.assert_array_equal(policy.pulls[0], counts)
    np.testing.assert_allclose(policy.weights[0], [counts[0], counts[1], 25.0 * counts[2]])
    np.testing.assert_allclose(policy.totals[0], [0.0, 2.0 * counts[1], 25.0 * counts[2]])
    assert result.answer == {"b"}


@pytest.mark.parametrize("bad", [(1.0, 0.0), (1.0, "x"), (1.0, 2.0, 3.0), (float("nan"), 1.0)])
def test_a_pair_that_is_no_result_is_a_reward_error(bad):
    with pytest.raises(RewardError):
        session_of(TopTwo, TopKOracle(3, k=1)).run(lambda label: bad, budget=5)

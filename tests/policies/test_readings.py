"""Results with a standard error of their own, and means of several: worth what they are worth, by a ridge regression."""

import warnings

import numpy as np
import pytest
from backends import events
from unit_problem import unit_problem

from combopeps import (
    Box,
    Campaign,
    ParameterError,
    Problem,
    QueryError,
    RewardError,
    TopKOracle,
    identify,
)
from combopeps.campaign.records import check_record, reading
from combopeps.policies.ledger import Reading
from combopeps.policies.registry import POLICIES, policy_class

ROWS = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [2.0, 0.0, 0.0]])
NOISE = np.array([0.5, 1.0, 2.0, 4.0])
PROBLEMS = {
    "unit arms": lambda: Problem(
        TopKOracle(4, k=2), noise_std=NOISE, prior_mean=[0.3, 0, -1, 0], prior_std=[1, 2, 3, 4]
    ),
    "general arms": lambda: Problem(TopKOracle(3, k=1), ROWS, NOISE, prior_mean=[0.3, 0, -1], prior_std=[1, 2, 3]),
}
SAID = [(0, 1.0, None, 1), (1, -0.5, 0.25, 1), (2, 0.7, None, 6), (3, 1.5, 8.0, 1), (0, 0.2, 0.1, 3), (2, 0.1, None, 1)]


def ridge(problem, said):
    """Mean and covariance, from variances alone: no belief, no weights, no units of the noise."""
    X = problem.arms.row(np.arange(len(problem.arms)))
    d = problem.oracle.dim
    prior = np.diag(np.broadcast_to(np.asarray(problem.prior_std, float), (d,)) ** -2.0)
    V, S = prior.copy(), prior @ np.broadcast_to(np.asarray(problem.prior_mean, float), (d,))
    for arm, y, sem, count in said:
        variance = NOISE[arm] ** 2 / count if sem is None else sem**2
        V += np.outer(X[arm], X[arm]) / variance
        S = S + X[arm] * y / variance
    return np.linalg.solve(V, S), np.linalg.inv(V)


def covariance(belief):
    return np.stack([belief.covariance_dot(e[None])[0] for e in np.eye(belief.dim)])


def assert_is(policy, expected):
    np.testing.assert_allclose(policy.belief.theta_hat[0], expected[0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(covariance(policy.belief), expected[1], rtol=1e-10, atol=1e-12)


def state(policy):
    return [
        x.tobytes()
        for x in (policy.belief.theta_hat, covariance(policy.belief), policy.pulls, policy.weights, policy.totals)
    ]


@pytest.mark.parametrize("kind", PROBLEMS)
def test_observations_are_those_of_a_ridge_regression(kind):
    problem = PROBLEMS[kind]()
    policy = policy_class("top-two")(problem, 0)
    for arm, y, sem, count in SAID:
        policy.observe(problem.arms.labels[arm], y, sem=sem, count=count)
    assert_is(policy, ridge(problem, SAID))
    np.testing.assert_array_equal(policy.pulls[0], [4, 1, 7, 1])
    assert policy.samples == 13
    np.testing.assert_allclose(policy.weights[0], [1 + 25.0, 16.0, 7.0, 0.25])
    np.testing.assert_allclose(
        policy.totals[0], [1 / 0.5 + 25 * 0.2 / 0.5, 16 * -0.5, (6 * 0.7 + 0.1) / 2, 0.25 * 1.5 / 4]
    )


@pytest.mark.parametrize("kind", PROBLEMS)
def test_told_one_by_one_or_many_at_once(kind):
    problem = PROBLEMS[kind]()
    one, many = (policy_class("top-two")(problem, 0) for _ in range(2))
    ys, sems = [0.4, -0.2, 1.0, 0.3, 0.9], [None, 0.3, 2.0, None, 0.01]
    asked = one.ask(5)
    for query, y, sem in zip(asked, ys, sems, strict=True):
        one.tell(query, y, sem)
    same = many.ask(5)
    assert [query.arm for query in same] == [query.arm for query in asked]
    many.tell_many((q, y) if sem is None else (q, y, sem) for q, y, sem in zip(same, ys, sems, strict=True))
    assert state(one) == state(many)
    assert_is(one, ridge(problem, [(q.arm, y, sem, 1) for q, y, sem in zip(asked, ys, sems, strict=True)]))
    assert one.samples == 5


@pytest.mark.parametrize("name", [name for name, policy in POLICIES.items() if policy.by_name])
def test_a_mean_of_many_is_as_good_as_the_many(name):
    problem = unit_problem(
        TopKOracle(3, k=1), noise_std=[0.5, 1.0, 2.0], space=Box(-9.0, 9.0) if "doubling" in name else None
    )
    at_once, one_by_one = (policy_class(name)(problem, 0) for _ in range(2))
    at_once.observe(1, 0.75, count=4)
    if "doubling" not in name:  # an epoch is over after so many results
        for _ in range(4):
            one_by_one.observe(1, 0.75)
        np.testing.assert_allclose(at_once.belief.theta_hat, one_by_one.belief.theta_hat, rtol=1e-12)
        np.testing.assert_allclose(covariance(at_once.belief), covariance(one_by_one.belief), rtol=1e-12)
        np.testing.assert_array_equal(at_once.pulls, one_by_one.pulls)
        np.testing.assert_allclose(at_once.totals, one_by_one.totals)
    np.testing.assert_array_equal(at_once.pulls, [[0, 4, 0]])
    np.testing.assert_array_equal(at_once.weights, [[0.0, 4.0, 0.0]])


def test_a_standard_error_equal_to_the_noise_is_no_news():
    problem = PROBLEMS["unit arms"]()
    one, other = (policy_class("top-two")(problem, 0) for _ in range(2))
    one.observe(2, 0.7)
    other.observe(2, 0.7, sem=2.0)
    assert state(one) == state(other)


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
def test_a_refused_result_changes_nothing(fault, tmp_path):
    problem = PROBLEMS["general arms"]()
    policy = policy_class("top-two")(problem, 0)
    policy.observe(0, 1.0)
    campaign = Campaign.create(tmp_path / "c.db", problem)
    campaign.observe(0, 1.0)
    before, file = state(policy), events(tmp_path / "c.db")
    for target in (policy, campaign):
        with pytest.raises((RewardError, ParameterError), match=fault.split()[0]):
            target.observe(1, 0.5, **BAD[fault])
    assert state(policy) == before
    assert events(tmp_path / "c.db") == file
    if "sem" in BAD[fault]:
        query = policy.ask()
        before = state(policy)
        with pytest.raises(RewardError, match="sem"):
            policy.tell_many([(query, 0.5, BAD[fault]["sem"])])
        assert state(policy) == before
        policy.tell(query, 0.5, 0.25)  # still open
        assert policy.samples == 2


def test_a_batch_with_one_bad_standard_error_is_refused_whole():
    policy = policy_class("top-two")(PROBLEMS["unit arms"](), 0)
    queries = policy.ask(3)
    before = state(policy)
    with pytest.raises(RewardError):
        policy.tell_many([(queries[0], 1.0), (queries[1], 1.0, 0.5), (queries[2], 1.0, 0.0)])
    assert state(policy) == before
    assert len(policy.open_queries) == 3


def test_a_standard_error_says_how_large_unknown_noise_is():
    policy = policy_class("top-two")(unit_problem(TopKOracle(3, k=1), noise_std=None), 0)
    query = policy.ask()
    with pytest.raises(ParameterError, match="noise_std=None"):
        policy.tell(query, 1.0, 0.5)
    assert policy.open_queries == [query]
    policy.observe(0, 1.0, count=3)
    assert policy.pulls[0].tolist() == [3, 0, 0]


def test_the_same_result_twice_is_harmless_and_another_standard_error_is_refused():
    policy = policy_class("top-two")(PROBLEMS["unit arms"](), 0)
    query = policy.ask()
    policy.tell(query, 1.0, 0.5)
    before = state(policy)
    policy.tell(query, 1.0, 0.5)
    policy.tell_many([(query, 1.0, 0.5)])
    for other in [(1.0,), (1.0, None), (1.0, 0.25), (2.0, 0.5)]:
        with pytest.raises(QueryError):
            policy.tell(query, *other)
    second = policy.ask()
    with pytest.raises(QueryError):
        policy.tell_many([(second, 1.0, 0.5), (second, 1.0)])
    assert state(policy) == before


def test_readings_say_what_they_are():
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
    policy = policy_class("top-two")(unit_problem(TopKOracle(2, k=1), prior_std=100.0), 0)
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(60):
            policy.observe(0, 10.0 * rng.normal(), sem=10.0)
            policy.observe(1, 0.1 * rng.normal(), count=100)
    assert not policy.ask_tell.noise.alarmed


# ---------------------------------------------------------------- in files


@pytest.mark.parametrize("name", ["top-two", "peps"])
@pytest.mark.parametrize("kind", PROBLEMS)
def test_a_campaign_keeps_them(kind, name, tmp_path):
    problem, path = PROBLEMS[kind](), tmp_path / "c.db"
    campaign, said = Campaign.create(path, problem, policy=name, seed=3), []
    for t in range(6):
        query = campaign.ask()
        sem = [None, 0.3, 2.5][t % 3]
        campaign.tell(query, 0.1 * t, sem)
        said.append((query.arm, 0.1 * t, sem, 1))
    for arm, y, sem, count in SAID:
        campaign.observe(problem.arms.labels[arm], y, sem=sem, count=count)
    said += SAID
    asked = campaign.ask(2)
    campaign.tell_many([(asked[0], 0.5), (asked[1].id, 0.25, 0.125)])
    said += [(asked[0].arm, 0.5, None, 1), (asked[1].arm, 0.25, 0.125, 1)]
    again = Campaign.open(path)
    for one in (campaign, again):
        np.testing.assert_allclose(one.belief.theta_hat[0], ridge(problem, said)[0], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(covariance(one.belief), ridge(problem, said)[1], rtol=1e-10, atol=1e-12)
        assert one.samples == sum(count for *_, count in said)
    np.testing.assert_array_equal(again.belief.theta_hat, campaign.belief.theta_hat)
    again.tell(asked[1].id, 0.25, 0.125)  # harmless
    with pytest.raises(QueryError):
        again.tell(asked[1].id, 0.25)
    assert [query.arm for query in again.ask(3)] == [query.arm for query in Campaign.open(path).open_queries]


def test_events_say_what_was_said(tmp_path):
    path = tmp_path / "c.db"
    campaign = Campaign.create(path, PROBLEMS["unit arms"]())
    campaign.observe(0, 1.0)
    campaign.observe(0, 1.0, sem=0.25)
    campaign.observe(0, 1.0, count=3)
    campaign.observe(0, 1.0, sem=0.25, count=3)
    extra = [{k: v for k, v in event.items() if k in ("sem", "count")} for event in events(path)[1:]]
    assert extra == [{}, {"sem": 0.25}, {"count": 3}, {"sem": 0.25, "count": 3}]


@pytest.mark.parametrize(
    "wrong", [{"sem": 0.0}, {"sem": "1"}, {"sem": None}, {"sem": True}, {"count": 0}, {"count": True}, {"count": 1.0}, {"count": 2.5}, {"weight": 2.0}],
    ids=str,
)  # fmt: skip
def test_events_that_make_no_sense_are_refused(wrong):
    def taken(**more):
        record = {"kind": "observe", "arm": 0, "label": 0, "y": 1.0, **more}
        check_record(record)
        return reading(record, 0.5, known=True)

    assert taken(sem=0.25, count=2) == Reading(1.0, 0.25, 2)
    with pytest.raises((ValueError, RewardError, ParameterError)):
        taken(**wrong)


def test_an_event_with_a_standard_error_and_unknown_noise_is_refused():
    record = {"kind": "observe", "arm": 0, "label": 0, "y": 1.0, "sem": 0.5}
    assert reading(record, 1.0, known=True) == Reading(1.0, 0.5)
    with pytest.raises(ParameterError, match="sem says how large"):
        reading(record, 1.0, known=False)


# ---------------------------------------------------------------- in runs


@pytest.mark.parametrize("batch", [1, 4])
def test_measure_may_return_standard_errors(batch):
    problem = unit_problem(TopKOracle(["a", "b", "c"], k=1), noise_std=1.0)
    truth, told = {"a": 0.0, "b": 2.0, "c": 1.0}, []

    def one(label):
        sem = 0.2 if label == "c" else None
        told.append((label, sem))
        return truth[label] if sem is None else (truth[label], sem)

    policy = policy_class("top-two")(problem, 0)
    measure = one if batch == 1 else lambda labels: [one(label) for label in labels]
    result = identify(problem, measure, policy=policy, stopping="budget", budget=24, batch_size=batch)
    assert result.samples == 24 == len(told)
    counts = [sum(label == x for label, _ in told) for x in "abc"]
    np.testing.assert_array_equal(policy.pulls[0], counts)
    np.testing.assert_allclose(policy.weights[0], [counts[0], counts[1], 25.0 * counts[2]])
    np.testing.assert_allclose(policy.totals[0], [0.0, 2.0 * counts[1], 25.0 * counts[2]])
    assert result.answer == {"b"}


@pytest.mark.parametrize("bad", [(1.0, 0.0), (1.0, "x"), (1.0, 2.0, 3.0), (float("nan"), 1.0)])
def test_a_pair_that_is_no_result_is_a_reward_error(bad):
    problem = unit_problem(TopKOracle(3, k=1))
    with pytest.raises(RewardError):
        identify(problem, lambda label: bad, budget=5)

"""The contract of sessions: the same behaviour in memory, in SQLite, in PostgreSQL and over HTTP."""

import pickle
import time
import warnings
from contextlib import ExitStack
from functools import partial

import networkx as nx
import numpy as np
import pytest
from servers import served

from combopeps import Campaign, MatchingOracle, Problem, RemoteCampaign, Session, ShortestPathOracle, TopKOracle
from combopeps.errors import ImplausibleValueError, LabelError, ParameterError, QueryError, RewardError

KINDS = ("memory", "sqlite", "postgresql", "http")
STATED = {"noise_std": 0.8, "prior_mean": 0.0, "prior_std": 2.0}
GRID = nx.DiGraph(
    ((i, j), (i + a, j + 1 - a)) for i in range(3) for j in range(3) for a in (0, 1) if i + a < 3 and j + 1 - a < 3
)
PROBLEMS = {
    "items": Problem(TopKOracle(["a", "b", "c", "d", "e"], k=2), **STATED),
    "route": Problem(ShortestPathOracle(GRID, (0, 0), (2, 2)), **STATED | {"prior_mean": 4.0}),
    "matching": Problem(MatchingOracle(3, 3), **STATED),
    "actions": Problem(ShortestPathOracle(GRID, (0, 0), (2, 2)), actions="answers", **STATED | {"prior_mean": 4.0}),
    "known noise": Problem(TopKOracle(["a", "b", "c", "d", "e"], k=2), noise_std=0.8),
    "estimated": Problem(TopKOracle(["a", "b", "c", "d"], k=1)),
}


@pytest.fixture
def create(request, tmp_path):
    """`create(kind, problem, **options)`: a session of this kind."""
    with ExitStack() as stack:

        def make(kind, problem, **options):
            if kind == "memory":
                return Session(problem, **options)
            if kind == "postgresql":
                return Campaign.create(request.getfixturevalue("postgres").url(), problem, **options)
            made = Campaign.create(tmp_path / f"{len(list(tmp_path.iterdir()))}.db", problem, **options)
            if kind == "sqlite":
                return made
            address = stack.enter_context(served(str(made.path)))
            return stack.enter_context(RemoteCampaign(address))

        yield make


@pytest.fixture(params=KINDS)
def session(request, create):
    """`session(problem, **options)`, of every kind."""
    return partial(create, request.param)


def result_of(query):
    """A result that depends on the query alone."""
    noise = np.random.default_rng([7, query.id]).normal(size=len(query.arms))
    ys = [2.0 + 0.4 * arm + 0.8 * float(e) for arm, e in zip(query.arms, noise, strict=True)]
    return ys[0] if query.action is None else ys


def play(session, rounds, batch=1):
    """Labels of the queries of some rounds, which are answered in a changing order."""
    asked = []
    for _ in range(rounds):
        queries = session.ask(batch)
        asked += [(query.id, query.label, query.arms) for query in queries]
        for query in sorted(queries, key=lambda query: (query.id * 7) % 5):
            session.tell(query, result_of(query), confirm=True)
    return asked


POLICIES = ["greedy", "top-two", "peps"]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_same_seed_and_results_give_the_same_queries(create, name, policy):
    """Every policy and every problem in memory and in SQLite, and each of them in PostgreSQL and over HTTP."""
    everywhere = (list(PROBLEMS).index(name) + POLICIES.index(policy)) % 3 == 0
    batch = 3 if policy == "peps" else 1
    made = [create(kind, PROBLEMS[name], policy=policy, rng=5) for kind in (KINDS if everywhere else KINDS[:2])]
    expected, *others = [play(one, 12 // batch, batch) for one in made]
    assert all(other == expected for other in others)
    first, *statuses = [one.status() for one in made]
    for status in statuses:
        assert (status.answer, status.pulls, status.samples) == (first.answer, first.pulls, first.samples)
        assert status.error_probability == pytest.approx(first.error_probability, rel=1e-12)


@pytest.mark.parametrize("stopping", ["posterior", "heuristic", "verified", "certified", "guaranteed"])
def test_same_runs_under_every_stopping_rule(create, stopping):
    means = {"a": 0.0, "b": 2.0, "c": 1.0, "d": 0.3}
    problem = Problem(TopKOracle(list(means), k=1), **STATED)
    found = []
    for kind in KINDS if stopping != "certified" else KINDS[:2]:
        count = dict.fromkeys(means, 0)

        def measure(label, count=count):
            count[label] += 1
            return means[label] + 0.8 * np.random.default_rng([3, ord(label), count[label]]).normal()

        result = create(kind, problem, stopping=stopping, delta=0.1, rng=3).run(measure)
        found.append((result.answer, result.pulls, result.claim, result.stop_reason))
    if stopping in ("verified", "guaranteed", "certified"):  # these decide themselves when to look
        assert found == [found[0]] * len(found)
    assert all(one[0] == {"b"} and one[2:] == found[0][2:] for one in found)


def test_results_are_checked_before_anything_changes(session):
    made = session(PROBLEMS["items"])
    query = made.ask()
    for bad in (None, float("nan"), True, "x"):
        with pytest.raises(RewardError):
            made.tell(query, bad)
    with pytest.raises(QueryError):
        made.tell(99, 1.0)
    with pytest.raises(LabelError):
        made.observe("nobody", 1.0)
    with pytest.raises(ParameterError):
        made.ask(0)
    with pytest.raises(ParameterError):
        made.ask(client="ann", lease=-3.0)
    with pytest.raises(RewardError):
        made.tell_many([(query, 1.0), (made.ask(), float("inf"))])
    assert made.samples == 0
    assert len(made.open_queries) == 2 or made.open_queries[0] == query


def test_a_repeated_result_counts_once_and_closed_queries_take_no_other(session):
    made = session(PROBLEMS["items"])
    query = made.ask()
    made.tell(query, 1.5)
    made.tell(query, 1.5)
    made.tell(query.id, 1.5)
    assert made.samples == 1
    with pytest.raises(QueryError, match=r"answered 1\.5 before"):
        made.tell(query, 2.5)
    assert made.open_queries == []
    one, two = made.ask(2)
    made.abandon(one)
    assert made.open_queries == [two]
    with pytest.raises(QueryError, match="abandoned"):
        made.tell(one, 1.0)


def test_observations_count_by_key(session):
    made = session(PROBLEMS["items"])
    for _ in range(2):
        made.observe("a", 1.5, key="monday")
        made.observe_table([("a", 1.0), ("b", 2.0, 0.5), {"label": "c", "value": 1.0, "count": 4}], key="table")
    assert made.samples == 7
    with pytest.raises(QueryError, match="key"):
        made.observe("b", 1.5, key="monday")
    made.observe("a", 1.5)
    made.observe("a", 1.5)
    assert made.samples == 9
    assert [(one.label, one.y, one.sem, one.count) for one in made.measurements()][1:4] == [
        ("a", 1.0, None, 1), ("b", 2.0, 0.5, 1), ("c", 1.0, None, 4),
    ]  # fmt: skip


def test_leases_keep_queries_for_their_client_until_they_expire(session):
    made = session(PROBLEMS["items"])
    mine = made.ask(2, client="ann", lease=3600)
    assert made.ask(2, client="ann") == mine
    other = made.ask(client="bob", lease=1e-3)
    assert other not in mine
    assert {made.leases[query.id].client for query in mine} == {"ann"}
    made.tell(mine[0], 1.0)
    assert mine[0].id not in made.leases
    time.sleep(0.01)
    assert made.ask(client="eve") == other
    assert made.leases[other.id].client == "eve"


def test_corrections_give_the_posterior_of_the_right_results(session):
    made, right = session(PROBLEMS["items"]), Session(PROBLEMS["items"])
    for label, y in (("a", 1.0), ("b", 2.0), ("c", 5.0), ("d", 0.5), ("a", 1.2)):
        made.observe(label, y)
        if label != "d":
            right.observe(label, 3.0 if label == "c" else y)
    events = [one.event for one in made.measurements()]
    made.correct(events[2], 3.0)
    made.retract(events[3])
    assert made.samples == right.samples == 4
    np.testing.assert_allclose(made.posterior.theta_hat, right.posterior.theta_hat, rtol=1e-12)
    np.testing.assert_allclose(made.posterior.std, right.posterior.std, rtol=1e-12)
    assert made.status().corrections == 2
    assert [(one.y, one.retracted) for one in made.measurements()][2:4] == [(3.0, False), (0.5, True)]
    with pytest.raises(QueryError, match="retracted"):
        made.retract(events[3])
    with pytest.raises(QueryError, match="recorded no result"):
        made.correct(1, 2.0)


def test_a_correction_of_a_query_and_of_an_action(session):
    made = session(PROBLEMS["actions"])
    query = made.ask()
    made.tell(query, [1.0] * len(query.arms))
    event = made.measurements()[0].event
    made.correct(event, [2.0] * len(query.arms))
    assert {one.y for one in made.measurements()} == {2.0}
    assert made.actions == 1
    made.retract(event)
    assert (made.actions, made.samples) == (0, 0)


def test_the_claim_states_corrections(session):
    made = session(PROBLEMS["items"], delta=0.2)
    for label, y in (("a", 5.0), ("b", 5.2), ("c", 0.0), ("d", 0.1), ("e", 0.2)) * 8:
        made.observe(label, y)
    assert "corrected" not in made.status().claim
    made.correct(made.measurements()[0].event, 5.1)
    status = made.status()
    assert status.stop
    assert made.result().claim == status.claim
    assert "1 result was corrected or retracted" in status.claim
    assert "because of the values" in status.claim


def test_implausible_values_must_be_confirmed(session):
    made = session(PROBLEMS["known noise"])
    for label in "abcdeabcde":
        made.observe(label, 20.0 + ord(label) % 5)
    query = made.ask()
    with pytest.raises(ImplausibleValueError, match=rf"query {query.id} \({query.label}\).*confirm=True"):
        made.tell(query, 2350.0)
    with pytest.raises(ImplausibleValueError):
        made.observe("a", 2350.0)
    with pytest.raises(ImplausibleValueError):
        made.correct(made.measurements()[0].event, 2350.0)
    assert made.samples == 10
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the noise
        made.tell(query, 2350.0, confirm=True)
    assert made.samples == 11


def test_a_repeated_arm_far_off_its_mean_must_be_confirmed(session):
    made = session(PROBLEMS["known noise"])
    for label, y in (("a", 0.0), ("b", 1000.0)) * 5:
        made.observe(label, y)
    with pytest.raises(ImplausibleValueError, match="have mean 0"):
        made.observe("a", 900.0)


def test_status_changes_nothing_and_result_agrees_with_it(session):
    made = session(PROBLEMS["route"])
    for _ in range(12):
        query = made.ask()
        made.tell(query, result_of(query))
    one, two, result = made.status(), made.status(), made.result()
    assert one.error_probability == two.error_probability == result.error_probability
    assert one.answer == result.answer
    assert one.top_answers[0].probability == made.top_answers(1)[0].probability
    assert result.samples == made.samples == 12


def test_run_tells_what_was_measured_when_measure_raises(session):
    made, count = session(PROBLEMS["items"]), []

    def measure(label):
        count.append(label)
        if len(count) == 5:
            raise OSError("no paper")
        return float(len(label))

    with pytest.raises(OSError, match="no paper") as caught:
        made.run(measure)
    assert made.samples == 4
    assert made.open_queries == []
    assert caught.value.session is made
    assert caught.value.untold == []


def test_a_run_ends_at_its_budget_calls_back_in_order_and_continues(session):
    made, seen = session(PROBLEMS["items"], delta=1e-9), []
    rng = np.random.default_rng(0)
    first = made.run(
        lambda labels: [ord(x) % 5 + 0.8 * rng.normal() for x in labels],
        budget=15, batch_size=4, callback=lambda host, query, y: seen.append((host is made, query.id)),
    )  # fmt: skip
    assert (first.samples, first.stop_reason) == (15, "budget")
    assert seen == [(True, id) for id in range(15)]
    assert made.run(lambda label: ord(label) % 5 + 0.8 * rng.normal(), budget=5).samples == 20


def test_copies_by_pickle_continue(session):
    made = session(PROBLEMS["items"])
    query = made.ask()
    copy = pickle.loads(pickle.dumps(made))
    copy.tell(query, 1.0)
    assert copy.samples == 1

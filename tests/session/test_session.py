"""`Session`: asking and telling by hand gives what `identify` gives, for every policy and stopping rule."""

import pickle

import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import PosteriorRule, Session, TopKOracle, VerifiedRule, any_of, identify
from combopeps.errors import ParameterError

TRUTH = {"a": 0.0, "b": 2.0, "c": 1.0, "d": 0.3}
PROBLEM = unit_problem(TopKOracle(list(TRUTH), k=1), noise_std=0.8)


class Bench:
    """The n-th measurement of an item has the same result in every run."""

    def __init__(self, seed=0):
        self.made, self.seed = dict.fromkeys(TRUTH, 0), seed

    def __call__(self, item):
        self.made[item] += 1
        noise = np.random.default_rng([self.seed, list(TRUTH).index(item), self.made[item]])
        return TRUTH[item] + 0.8 * noise.normal()


def by_hand(session, measure, most=5000):
    """Ask, tell, and look when a look is due, until the rule stops."""
    while session.samples < most:
        query = session.ask()
        session.tell(query, measure(query.label))
        if session.due and session.look().stop:
            return session.result()
    raise AssertionError("it does not stop")


@pytest.mark.parametrize("stopping", ["posterior", "heuristic", "verified", "certified", "guaranteed"])
@pytest.mark.parametrize("policy", ["greedy", "top-two", "peps"])
def test_by_hand_as_by_identify(policy, stopping):
    options = {"policy": policy, "stopping": stopping, "delta": 0.02, "rng": 7}
    expected = identify(PROBLEM, Bench(), **options)
    found = by_hand(Session(PROBLEM, **options), Bench())
    assert (found.answer, found.samples, found.pulls) == (expected.answer, expected.samples, expected.pulls)
    assert (found.claim, found.stop_reason) == (expected.claim, expected.stop_reason)
    assert repr(found.looks) == repr(expected.looks)  # with NaNs


def test_results_in_any_order_and_batches_of_requests():
    session = Session(PROBLEM, stopping=VerifiedRule(0.05), rng=1)
    measure, rng = Bench(3), np.random.default_rng(0)
    while session.samples < 5000:
        queries = session.ask(7)
        assert len(queries) == 7
        for i in rng.permutation(7):
            session.tell(queries[i], measure(queries[i].label))
        if session.due and session.look().stop:
            break
    assert session.result().answer == {"b"}
    assert session.result().stop_reason == "verified"


def test_a_status_changes_nothing():
    quiet, asked = (Session(PROBLEM, stopping="guaranteed", rng=5) for _ in range(2))
    for session in (quiet, asked):
        measure = Bench()
        for _ in range(150):
            query = session.ask()
            session.tell(query, measure(query.label))
            if session is asked:
                session.status()
                session.top_answers(3)
    assert quiet.status().to_dict() == asked.status().to_dict()
    assert quiet.result().pulls == asked.result().pulls
    assert repr(quiet.looks) == repr(asked.looks)


def test_a_result_of_a_run_that_has_not_ended():
    session = Session(unit_problem(TopKOracle(list(TRUTH), k=1), noise_std=9.0))
    session.tell(session.ask(), 0.5)
    result = session.result()
    assert result.stop_reason == "open"
    assert result.claim.startswith("none: the run has not ended")
    assert result.samples == 1


def test_a_rule_is_continued_with_its_requests():
    whole = identify(PROBLEM, Bench(), stopping="verified", rng=4)
    session, measure = Session(PROBLEM, stopping="verified", rng=4), Bench()
    result = session.run(measure, budget=30)
    while result.stop_reason == "budget":
        result = session.run(measure, budget=7)
    assert result.answer == whole.answer
    assert result.stop_reason == "verified"


def test_a_session_is_pickled_with_its_rule():
    session = Session(PROBLEM, stopping=any_of(VerifiedRule(0.05), PosteriorRule(1e-9)), rng=6)
    session.run(Bench(), budget=40)
    again = pickle.loads(pickle.dumps(session))
    assert [query.arm for query in again.ask(3)] == [query.arm for query in session.ask(3)]
    assert again.status().answer == session.status().answer


def test_one_rule_serves_one_session_at_a_time():
    rule = VerifiedRule(0.05)
    first = Session(PROBLEM, stopping=rule)
    first.ask()
    second = Session(PROBLEM, stopping=rule)
    with pytest.raises(ParameterError, match="serves a run that has not ended"):
        second.ask()

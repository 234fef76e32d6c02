"""The most probable answers: their probabilities, large and tiny ones, are right and reproducible."""

import pickle

import numpy as np
import pytest
from backends import events
from scipy.stats import norm
from unit_problem import unit_problem

from combopeps import Box, BudgetRule, Campaign, ExplicitOracle, Session, TopKOracle, TopTwo, identify
from combopeps.alternatives import HitAndRunSampler, RejectionSampler
from combopeps.errors import ParameterError
from combopeps.session import TopAnswer

TRUTH = {"a": 0.1, "b": 2.0, "c": 1.2, "d": 1.9}


def run(**options):
    noise = np.random.default_rng(0)
    return identify(unit_problem(TopKOracle(TRUTH, k=2)), lambda item: TRUTH[item] + noise.normal(), **options)


def taught(problem, means, times=1, **options):
    """A session in which each arm was measured so often, always with the same result."""
    session = Session(problem, policy=TopTwo(problem, 0, **options))
    for label, y in means.items():
        for _ in range(times):
            session.observe(label, y)
    return session


def frozen(answer):
    return frozenset(answer) if isinstance(answer, set) else answer


def probabilities(tops):
    return {frozen(top.answer): top.probability for top in tops}


def shares(session, draws=100_000):
    """By brute force on R^d, or where draws fall into Theta."""
    belief, oracle, space = session.belief, session.problem.oracle, session.problem.space
    noise = np.random.default_rng(7).standard_normal((draws, oracle.dim)) @ belief.normal.root.T
    thetas = belief.theta_hat[0] + noise
    thetas = thetas[space.contains(thetas)]
    answers, counts = np.unique(oracle.argmax(thetas), axis=0, return_counts=True)
    return {frozen(oracle.decode(z)): count / len(thetas) for z, count in zip(answers, counts, strict=True)}


GENERAL = {"ab": [1.0, 1.0, 0.0], "bc": [0.0, 1.0, -1.0], "c": [0.0, 0.0, 2.0]}
SESSIONS = {
    "items": lambda: taught(unit_problem(TopKOracle(TRUTH, k=2)), TRUTH, 3),
    "rows": lambda: taught(unit_problem(ExplicitOracle([[1, 0], [0, 1], [0.9, 0.4]])), {0: 0.5, 1: 0.4}),
    "box": lambda: taught(unit_problem(TopKOracle(3, k=1), space=Box(0, 1)), {0: 0.5, 1: 0.1, 2: -1.0}),
    "general arms": lambda: taught(unit_problem(TopKOracle(list("abc"), k=1), GENERAL), {"ab": 1.0, "c": 0.5}),
    "general arms in a box": lambda: taught(
        unit_problem(TopKOracle(list("abc"), k=1), GENERAL, space=Box(-1, 2)), {"ab": 1.0, "c": 0.5}
    ),
}


@pytest.mark.parametrize("name", SESSIONS)
def test_probabilities_are_shares_of_draws(name):
    """Five standard errors of 4,096 draws (of about half as many in the box that rejects them)."""
    session = SESSIONS[name]()
    found, expected = probabilities(session.top_answers(20)), shares(session)
    assert len(found) > 1
    for answer, p in expected.items():
        assert found.get(answer, 0.0) == pytest.approx(p, abs=5 * np.sqrt(p / 1500) + 1e-3)
    assert sum(found.values()) == pytest.approx(1.0)
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_vectors_belong_to_their_answers():
    session = SESSIONS["rows"]()
    for top in session.top_answers():
        assert isinstance(top, TopAnswer)
        np.testing.assert_array_equal(session.problem.oracle.encode(top.answer), top.z)


@pytest.mark.parametrize("sampler", [None, RejectionSampler(cap=100), HitAndRunSampler()])
def test_tiny_probabilities_are_right_whatever_the_policy_samples_with(sampler):
    """Of two items the wrong one has Phi(-gap / width), exactly; of three the smallest is the rival of a rival."""
    means = {"a": 3.0, "b": 2.0, "c": 0.0}
    session = taught(unit_problem(TopKOracle(means, k=1), prior_std=100.0), means, 100, sampler=sampler)
    theta, variance = session.belief.theta_hat[0], session.belief.variance[0]
    wrong = norm.sf((theta[0] - theta[1]) / np.sqrt(variance[0] + variance[1]))
    found = session.top_answers()
    assert [frozen(top.answer) for top in found[:2]] == [{"a"}, {"b"}]
    assert 1e-13 < found[1].probability < 1e-11
    assert found[1].probability == pytest.approx(wrong, rel=0.05)
    assert found[0].probability == pytest.approx(1.0 - wrong)


def test_one_answer_is_certain():
    (top,) = Session(unit_problem(TopKOracle(["a", "b"], k=2))).top_answers()
    assert (top.answer, top.probability) == ({"a", "b"}, 1.0)


def test_at_most_n_are_returned():
    session = SESSIONS["items"]()
    assert len(session.top_answers(2)) == 2
    assert values(session.top_answers(2)) == values(session.top_answers()[:2])
    for bad in (0, -1, 1.5, True):
        with pytest.raises(ParameterError, match="n "):
            session.top_answers(bad)


def test_those_of_a_result_agree_with_its_error_probability():
    result = run(delta=0.01)
    assert result.top_answers[0].answer == result.answer
    assert result.top_answers[1].answer == result.runner_up
    assert 1.0 - result.top_answers[0].probability == pytest.approx(result.error_probability, rel=0.3)


def values(tops):
    return [(top.z.tolist(), top.probability) for top in tops]


def test_those_of_a_result_never_change():
    first, second = run(delta=0.01), run(delta=0.01)
    noise = np.random.default_rng(1)
    further = identify(
        second.session.problem,
        lambda x: TRUTH[x] + noise.normal(),
        policy=second.session.policy,
        stopping=BudgetRule(simulations=0),
        budget=200,
    )
    assert values(first.top_answers) == values(second.top_answers)
    assert values(further.top_answers) != values(second.top_answers)
    assert values(pickle.loads(pickle.dumps(first)).top_answers) == values(first.top_answers)
    assert first.top_answers is first.top_answers


def test_asking_for_them_changes_nothing():
    def curious(session, query, y):
        if session.samples % 10 == 0:
            session.top_answers(3)
            session.status()

    plain, asked = run(delta=1e-4), run(delta=1e-4, callback=curious)
    assert asked.pulls == plain.pulls
    assert asked.error_probability == plain.error_probability


def test_those_of_a_campaign(tmp_path):
    campaign = Campaign.create(tmp_path / "x.db", unit_problem(TopKOracle(list(TRUTH), k=2)), rng=5)
    for _ in range(30):
        query = campaign.ask()
        campaign.tell(query, TRUTH[query.label])
    stored, tops = events(campaign.path), campaign.top_answers(3)
    assert (
        values(tops) == values(Campaign.open(campaign.path).top_answers(3)) == values(campaign.status().top_answers[:3])
    )
    assert len(tops) == 3
    assert events(campaign.path) == stored

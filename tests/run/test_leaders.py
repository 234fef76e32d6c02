"""The most probable answers: right probabilities, large and tiny ones, the same every time, and nobody disturbed."""

import pickle

import numpy as np
import pytest
from backends import events
from scipy.stats import norm
from unit_problem import unit_problem

from combopeps import (
    Box,
    BudgetRule,
    Campaign,
    ExplicitOracle,
    HitAndRunSampler,
    Leader,
    ParameterError,
    RejectionSampler,
    TopKOracle,
    TopTwo,
    identify,
)

TRUTH = {"a": 0.1, "b": 2.0, "c": 1.2, "d": 1.9}


def run(**options):
    noise = np.random.default_rng(0)
    return identify(unit_problem(TopKOracle(TRUTH, k=2)), lambda item: TRUTH[item] + noise.normal(), **options)


def taught(problem, means, times=1, **options):
    """A policy that has seen each arm so often, always with the same result."""
    policy = TopTwo(problem, 0, **options)
    for label, y in means.items():
        for _ in range(times):
            policy.observe(label, y)
    return policy


def frozen(answer):
    return frozenset(answer) if isinstance(answer, set) else answer


def probabilities(leaders):
    return {frozen(leader.answer): leader.probability for leader in leaders}


def shares(policy, draws=100_000):
    """By brute force on R^d, or where draws fall into Theta."""
    belief, oracle, space = policy.belief, policy.problem.oracle, policy.problem.space
    noise = np.random.default_rng(7).standard_normal((draws, oracle.dim)) @ belief.normal.root.T
    thetas = belief.theta_hat[0] + noise
    thetas = thetas[space.contains(thetas)]
    answers, counts = np.unique(oracle.argmax(thetas), axis=0, return_counts=True)
    return {frozen(oracle.decode(z)): count / len(thetas) for z, count in zip(answers, counts, strict=True)}


GENERAL = {"ab": [1.0, 1.0, 0.0], "bc": [0.0, 1.0, -1.0], "c": [0.0, 0.0, 2.0]}
POLICIES = {
    "items": lambda: taught(unit_problem(TopKOracle(TRUTH, k=2)), TRUTH, 3),
    "rows": lambda: taught(unit_problem(ExplicitOracle([[1, 0], [0, 1], [0.9, 0.4]])), {0: 0.5, 1: 0.4}),
    "box": lambda: taught(unit_problem(TopKOracle(3, k=1), space=Box(0, 1)), {0: 0.5, 1: 0.1, 2: -1.0}),
    "general arms": lambda: taught(unit_problem(TopKOracle(list("abc"), k=1), GENERAL), {"ab": 1.0, "c": 0.5}),
    "general arms in a box": lambda: taught(
        unit_problem(TopKOracle(list("abc"), k=1), GENERAL, space=Box(-1, 2)), {"ab": 1.0, "c": 0.5}
    ),
}


@pytest.mark.parametrize("name", POLICIES)
def test_probabilities_are_shares_of_draws(name):
    """Five standard errors of 4,096 draws (of about half as many in the box that rejects them)."""
    policy = POLICIES[name]()
    found, wanted = probabilities(policy.leaders(20)), shares(policy)
    assert len(found) > 1
    for answer, p in wanted.items():
        assert found.get(answer, 0.0) == pytest.approx(p, abs=5 * np.sqrt(p / 1500) + 1e-3)
    assert sum(found.values()) == pytest.approx(1.0)
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_vectors_belong_to_their_answers():
    policy = POLICIES["rows"]()
    for leader in policy.leaders():
        assert isinstance(leader, Leader)
        np.testing.assert_array_equal(policy.problem.oracle.encode(leader.answer), leader.z)


@pytest.mark.parametrize("sampler", [None, RejectionSampler(cap=100), HitAndRunSampler()])
def test_tiny_probabilities_are_right_whatever_the_policy_samples_with(sampler):
    """Of two items the wrong one has Phi(-gap / width), exactly; of three the smallest is the rival of a rival."""
    means = {"a": 3.0, "b": 2.0, "c": 0.0}
    policy = taught(unit_problem(TopKOracle(means, k=1), prior_std=100.0), means, 100, sampler=sampler)
    theta, variance = policy.belief.theta_hat[0], policy.belief.variance[0]
    wrong = norm.sf((theta[0] - theta[1]) / np.sqrt(variance[0] + variance[1]))
    found = policy.leaders()
    assert [frozen(leader.answer) for leader in found[:2]] == [{"a"}, {"b"}]
    assert 1e-13 < found[1].probability < 1e-11
    assert found[1].probability == pytest.approx(wrong, rel=0.05)
    assert found[0].probability == pytest.approx(1.0 - wrong)


def test_one_answer_is_certain():
    leaders = TopTwo(unit_problem(TopKOracle(["a", "b"], k=2)), 0).leaders()
    assert [(leader.answer, leader.probability) for leader in leaders] == [({"a", "b"}, 1.0)]


def test_as_many_as_are_wanted():
    policy = POLICIES["items"]()
    assert len(policy.leaders(2)) == 2
    assert [x.probability for x in policy.leaders(2)] == [x.probability for x in policy.leaders()[:2]]
    for bad in (0, -1, 1.5, True):
        with pytest.raises(ParameterError, match="n "):
            policy.leaders(bad)
    with pytest.raises(ParameterError, match="one replication"):
        TopTwo(unit_problem(TopKOracle(3, 1)), 0, replications=2).leaders()


def test_the_leaders_of_a_result_agree_with_its_error_probability():
    result = run(delta=0.01)
    assert result.leaders[0].answer == result.answer
    assert result.leaders[1].answer == result.alternative
    assert 1.0 - result.leaders[0].probability == pytest.approx(result.error_probability, rel=0.3)


def values(leaders):
    return [(leader.z.tolist(), leader.probability) for leader in leaders]


def test_a_result_shows_the_same_leaders_whenever_it_is_asked():
    first, second = run(delta=0.01), run(delta=0.01)
    second.session.policy.leaders()
    second.session.policy.recommend()
    noise = np.random.default_rng(1)
    further = identify(
        second.session.policy.problem,
        lambda x: TRUTH[x] + noise.normal(),
        policy=second.session.policy,
        stopping=BudgetRule(simulations=0),
        budget=200,
    )
    assert values(first.leaders) == values(second.leaders)
    assert values(further.leaders) != values(second.leaders)
    assert values(pickle.loads(pickle.dumps(first)).leaders) == values(first.leaders)
    assert first.leaders is first.leaders


def test_who_asks_for_leaders_changes_nothing():
    def curious(session, query, y):
        if session.samples % 10 == 0:
            session.top_answers(3)
            session.status()

    plain, asked = run(delta=1e-4), run(delta=1e-4, callback=curious)
    assert asked.pulls == plain.pulls
    assert asked.error_probability == plain.error_probability
    before = plain.session.policy.recommend().error_probability
    plain.session.policy.leaders()
    assert plain.session.policy.recommend().error_probability == before


def test_leaders_of_a_campaign(tmp_path):
    campaign = Campaign.create(tmp_path / "x.db", unit_problem(TopKOracle(list(TRUTH), k=2)), seed=5)
    for _ in range(30):
        query = campaign.ask()
        campaign.tell(query, TRUTH[query.label])
    before, stored = campaign.status(), events(campaign.path)
    leaders = campaign.leaders(3)
    assert values(leaders) == values(Campaign.open(campaign.path).leaders(3))
    assert len(leaders) == 3
    assert leaders[0].answer == before.answer
    after = campaign.status()
    assert (after.next, after.error_probability) == (before.next, before.error_probability)
    assert events(campaign.path) == stored

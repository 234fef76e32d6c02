"""`ClucbRule`: the paper's test, on the measurements of any policy."""

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import ExplicitOracle, ShortestPathOracle, TopKOracle, TopTwo, identify
from combopeps.errors import ParameterError
from combopeps.policies.baselines import CLUCB
from combopeps.stopping import ClucbRule, View

SETS = np.array([[i in chosen for i in range(5)] for chosen in combinations(range(5), 2)], dtype=float)
TRUTH = np.array([2.0, -0.8, 3.2, 1.2, 0.4])


def check(policy, rule):
    return rule.check(View(policy, 0))


def plain_lead(policy, delta):
    """w~(M~) - w~(M), by enumeration."""
    n, t = policy.pulls[0], policy.samples
    noise = policy.problem.noise_std
    w, rad = noise * policy.totals[0] / n, noise * np.sqrt(2 * np.log(4 * 5 * t**3 / delta) / n)
    M = SETS[(SETS @ w).argmax()]
    w_tilde = np.where(M == 1, w - rad, w + rad)
    return (SETS @ w_tilde).max() - M @ w_tilde, M


@pytest.mark.parametrize("make", [CLUCB, TopTwo])
@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_it_stops_when_no_set_within_the_bounds_is_better(make, epsilon):
    policy, noise = make(unit_problem(TopKOracle(5, k=2), noise_std=0.5), 0), np.random.default_rng(1)
    for arm in range(5):
        policy.learn(arm, TRUTH[arm] + 0.5 * noise.normal())
    stops = set()
    for _ in range(400):
        arm = int(policy.next_arms()[0])
        policy.learn(arm, TRUTH[arm] + 0.5 * noise.normal())
        lead, M = plain_lead(policy, 0.1)
        verdict = check(policy, ClucbRule(0.1, epsilon=epsilon))
        assert verdict.stop == (lead <= epsilon + 1e-12)
        assert verdict.statistic == pytest.approx(lead, abs=1e-9)
        assert (verdict.threshold, verdict.oracle_calls) == (epsilon, 2)
        np.testing.assert_array_equal(verdict.z, M)
        stops.add(verdict.stop)
    assert stops == {False, True}


def test_it_is_the_stop_of_the_policy():
    policy, noise = CLUCB(unit_problem(TopKOracle(5, k=2), noise_std=0.5), 0, delta=0.1), np.random.default_rng(2)
    while not policy.finished[0]:
        ready = policy.samples >= 5
        before = ready and check(policy, ClucbRule(0.1)).stop
        arm = int(policy.next_arms()[0])
        assert policy.finished[0] == before
        if before:
            np.testing.assert_array_equal(check(policy, ClucbRule(0.1)).z, policy.leader[0])
        else:
            policy.learn(arm, TRUTH[arm] + 0.5 * noise.normal())
    assert policy.stopped_at[0] == policy.samples


@pytest.mark.parametrize("policy", ["clucb", "top-two", "uniform"])
def test_any_policy_may_be_stopped_by_it(policy):
    noise, problem = np.random.default_rng(0), unit_problem(TopKOracle(5, k=2))
    result = identify(problem, lambda i: TRUTH[i] + noise.normal(), policy=policy, stopping="clucb", budget=5000)
    assert (result.answer, result.stop_reason) == ({0, 2}, "clucb")
    assert "at most 0.05, for every theta" in result.claim
    assert min(result.pulls.values()) > 0


def test_paths_are_minimised():
    graph = nx.DiGraph([("s", "a"), ("s", "b"), ("a", "t"), ("b", "t")])
    length, noise = {("s", "a"): 1.0, ("s", "b"): 2.0, ("a", "t"): 1.0, ("b", "t"): 3.0}, np.random.default_rng(0)
    oracle = ShortestPathOracle(graph, "s", "t")
    result = identify(
        unit_problem(oracle), lambda edge: length[edge] + 0.5 * noise.normal(), policy="clucb", stopping="clucb"
    )
    assert result.answer == ["s", "a", "t"]


def test_wrong_answers_are_rare():
    """delta = .1 and a near tie; the bound is loose: that 3 of 60 runs err would have P < 1e-3 at an error rate of .01."""
    wrong = 0
    for seed in range(60):
        noise, problem = np.random.default_rng(seed), unit_problem(TopKOracle(2, k=1))
        rule = ClucbRule(0.1)
        result = identify(
            problem, lambda i, noise=noise: 0.8 * i + noise.normal(), stopping=rule, budget=2000, rng=seed
        )
        wrong += result.stop_reason == "clucb" and result.answer != {1}
    assert wrong < 3


def test_what_it_is_not_for_is_refused():
    general = unit_problem(TopKOracle(3, k=1), arms=np.ones((3, 3)) + np.eye(3))
    points = ExplicitOracle(np.random.default_rng(0).normal(size=(4, 3)))
    for problem, words in ((general, 'one component each; use stopping="certified"'), (points, "sets of components")):
        with pytest.raises(ParameterError, match=words):
            identify(unit_problem(problem), lambda label: 0.0, stopping="clucb", budget=50)
    for delta in (0.0, 1.0, "much"):
        with pytest.raises(ParameterError, match="delta"):
            ClucbRule(delta)

"""TopTwo draws arm x with probability proportional to n_x (x @ V^-1 y)^2, y from the challenger to the answer.

Where costs differ, it leaves out arms whose measurement can be had for less. Chi-square tests raise a false alarm with
probability 1e-6 (over the choice of the seed).
"""

import numpy as np
import pytest
from scipy import stats
from unit_problem import unit_problem

from combopeps import AlternativeSampler, ExplicitOracle, TopKOracle, TopTwo, simulate
from combopeps.alternatives import Alternatives, SamplingStats
from combopeps.posterior import Arms

ALARM = 1e-6
RUNS = 6_000
GENERAL = np.array([[1.0, 0.5, 0.0], [0.0, 1.0, -0.5], [0.3, 0.0, 1.0], [1.0, 1.0, 1.0], [0.2, -1.0, 0.4]])
SCALED = np.array([[1.0, 0, 0], [0, 2.0, 0], [0, 0, -0.5], [0.7, 0, 0]])
Z = np.array([[1.0, 0.0, 0.1], [0.2, 1.0, 0.0], [0.0, 0.5, 1.0], [0.6, 0.6, 0.4]])
Z /= np.linalg.norm(Z, axis=1, keepdims=True)  # so that each answer is best under itself


class Fixed(AlternativeSampler):
    """Always the same theta, set from outside."""

    theta = None

    def __deepcopy__(self, memo):
        return self

    def _sample(self, question, n, rng):
        _posterior, oracle, _z_hat, _space, _eta = question
        thetas = np.tile(self.theta, (n, 1))
        return Alternatives(thetas, oracle.argmax(thetas), SamplingStats(n, n))


def frequencies(X, noise_std, pulls, challenger):
    """Choices of many rows in one state, beside the formula's probabilities."""
    problem = unit_problem(ExplicitOracle(Z), arms=X, noise_std=noise_std)
    sampler = Fixed()
    policy = TopTwo(problem, rng=0, replications=RUNS, sampler=sampler)
    rng, d = np.random.default_rng(1), X.shape[1]
    V, S = np.eye(d), np.zeros(d)
    for arm, n in enumerate(pulls):
        for _ in range(n):
            y = float(X[arm] @ [1.0, 0.0, 0.0] + noise_std * rng.normal())
            policy.learn(arm, y)
            V += np.outer(X[arm], X[arm]) / noise_std**2
            S += X[arm] * y / noise_std**2
    scores = Z @ np.linalg.solve(V, S)
    answer = int(scores.argmax())
    rival = int(np.argsort(-scores)[challenger])
    sampler.theta = Z[rival]
    q = np.linalg.solve(V, Z[answer] - Z[rival])
    weight = (1 + np.array(pulls)) * (X @ q) ** 2
    return np.bincount(policy.choose(), minlength=len(X)), RUNS * weight / weight.sum()


@pytest.mark.parametrize("challenger", [1, 2])
@pytest.mark.parametrize("noise_std", [1.0, 2.0])
@pytest.mark.parametrize(
    ("X", "pulls"), [(GENERAL, [3, 0, 7, 1, 20]), (SCALED, [4, 2, 9, 0])], ids=["general arms", "unit arms"]
)
def test_choice_follows_the_formula(X, pulls, noise_std, challenger):
    seen, expected = frequencies(X, noise_std, pulls, challenger)
    assert stats.chisquare(seen, expected).pvalue > ALARM
    assert stats.chisquare(seen, np.full(len(X), RUNS / len(X))).pvalue < ALARM  # uniform choice would be seen


def test_unit_arms_are_those_on_which_the_two_answers_differ():
    problem = unit_problem(TopKOracle(6, k=2))
    sampler = Fixed()
    policy = TopTwo(problem, rng=0, replications=500, sampler=sampler)
    for arm, y in enumerate([9.0, 0.0, 0.0, 0.0, 0.0, 9.0]):
        policy.learn(arm, y)
    sampler.theta = np.array([9.0, 0, 5.0, 0, 0, 0])
    assert set(policy.choose()) == {2, 5}


SOARE = np.array([[1.0, 0.0], [0.0, 1.0], [np.cos(0.1), np.sin(0.1)]])


def by_hand(rows):
    """Pairs that are parallel, one by one."""
    found = []
    for x in rows:
        longer = [y for y in rows if y @ y > (1 + 1e-6) * (x @ x)]
        found.append(any(abs(abs(x @ y) - np.linalg.norm(x) * np.linalg.norm(y)) < 1e-9 * (y @ y) for y in longer))
    return found


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("units", [False, True])
def test_outdone_arms_against_all_pairs(units, seed):
    rng = np.random.default_rng(seed)
    lines = np.eye(4) if units else rng.normal(size=(4, 4))
    rows = lines[rng.integers(4, size=12)] * rng.choice([-3.0, -1.0, 0.1, 1.0, 2.0], size=(12, 1))
    arms = Arms(rows)
    assert arms.are_units == units
    assert arms.is_dominated.tolist() == by_hand(rows)
    assert 0 < arms.is_dominated.sum() < 12


DOUBLE = np.concatenate([np.eye(3), np.eye(3)])
NOISE = [1.0] * 3 + [0.5] * 3
PROBLEMS = {
    "general arms": (unit_problem(ExplicitOracle(SOARE), np.concatenate([SOARE, -SOARE]), NOISE), [1.0, 0.0]),
    "unit arms": (unit_problem(TopKOracle(3, k=1), DOUBLE, NOISE), [1.0, 0.5, 0.0]),
}


def measured(problem, theta, cost):
    """The arms that some runs measured."""
    runs = simulate(problem.copy_with(cost=cost), theta, TopTwo, budget=60, replications=20)
    return np.flatnonzero(runs.pulls.sum(axis=0)).tolist()


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_worse_bargain_is_never_measured(name):
    assert set(measured(*PROBLEMS[name], [1.0] * 3 + [10.0] * 3)) <= {0, 1, 2}
    assert set(measured(*PROBLEMS[name], [1.0] * 3 + [2.0] * 3)) <= {3, 4, 5}  # four times the information for twice


def test_equal_bargains_and_arms_of_equal_cost_are_all_measured():
    equal = unit_problem(TopKOracle(3, k=1), DOUBLE)
    assert measured(equal, [1.0, 0.5, 0.0], [1.0, 2.0, 4.0] * 2) == list(range(6))
    assert measured(*PROBLEMS["general arms"], 3.0) == list(range(6))

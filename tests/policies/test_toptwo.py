"""TopTwo draws arm x with probability proportional to n_x (x @ V^-1 y)^2, y from the challenger to the answer.

Chi-square tests raise a false alarm with probability 1e-6 (over the choice of the seed).
"""

import numpy as np
import pytest
from scipy import stats
from unit_problem import unit_problem

from combopeps import AlternativeSampler, ExplicitOracle, TopKOracle, TopTwo
from combopeps.alternatives import Account, Alternatives

ALARM = 1e-6
ROWS = 6_000
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
        _belief, oracle, _z_hat, _space, _eta = question
        thetas = np.tile(self.theta, (n, 1))
        return Alternatives(thetas, oracle.argmax(thetas), Account(n, n))


def frequencies(X, noise_std, pulls, challenger):
    """Choices of many rows in one state, beside the formula's probabilities."""
    problem = unit_problem(ExplicitOracle(Z), arms=X, noise_std=noise_std)
    sampler = Fixed()
    policy = TopTwo(problem, rng=0, replications=ROWS, sampler=sampler)
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
    return np.bincount(policy.choose(), minlength=len(X)), ROWS * weight / weight.sum()


@pytest.mark.parametrize("challenger", [1, 2])
@pytest.mark.parametrize("noise_std", [1.0, 2.0])
@pytest.mark.parametrize(
    ("X", "pulls"), [(GENERAL, [3, 0, 7, 1, 20]), (SCALED, [4, 2, 9, 0])], ids=["general arms", "unit arms"]
)
def test_choice_follows_the_formula(X, pulls, noise_std, challenger):
    seen, expected = frequencies(X, noise_std, pulls, challenger)
    assert stats.chisquare(seen, expected).pvalue > ALARM
    assert stats.chisquare(seen, np.full(len(X), ROWS / len(X))).pvalue < ALARM  # uniform choice would be seen


def test_unit_arms_are_those_on_which_the_two_answers_differ():
    problem = unit_problem(TopKOracle(6, k=2))
    sampler = Fixed()
    policy = TopTwo(problem, rng=0, replications=500, sampler=sampler)
    for arm, y in enumerate([9.0, 0.0, 0.0, 0.0, 0.0, 9.0]):
        policy.learn(arm, y)
    sampler.theta = np.array([9.0, 0, 5.0, 0, 0, 0])
    assert set(policy.choose()) == {2, 5}

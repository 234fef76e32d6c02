"""On the paper's three instances PEPS is right as often as a plain transcription of its practical variant."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats
from unit_problem import unit_problem

from combopeps import ExplicitOracle, TopKOracle, simulate

ALARM = 1e-5  # probability of a false alarm per instance, over the choice of the seed
RUNS = 150


def soare():
    X = np.array([[1.0, 0.0], [0.0, 1.0], [np.cos(0.1), np.sin(0.1)]])
    return unit_problem(ExplicitOracle(X), arms=X), X, X, np.array([1.0, 0.0]), 250


def sphere():
    X = np.random.default_rng(3).normal(size=(20, 6))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    products = X @ X.T - 2.0 * np.eye(20)
    best, rival = np.unravel_index(products.argmax(), products.shape)
    return unit_problem(ExplicitOracle(X), arms=X), X, X, X[best] + 0.01 * (X[rival] - X[best]), 120


def top_k():
    Z = np.array([np.isin(np.arange(12), chosen).astype(float) for chosen in combinations(range(12), 3)])
    return unit_problem(TopKOracle(12, k=3)), np.eye(12), Z, 1.0 - 0.05 * np.arange(12), 900


def transcription(X, Z, theta, rounds, rng):
    """Lines 2 to 15 with AdaHedge, eta_p = 1 and no forced exploration; is the answer right at the end?"""
    K, d = X.shape
    Z = Z[rng.permutation(len(Z))]  # ties are broken at random
    V, S, total, delta, lam = np.eye(d), np.zeros(d), np.zeros(K), 0.01, np.full(K, 1.0 / K)
    for _ in range(rounds):
        covariance = np.linalg.inv(V)
        theta_hat, root = covariance @ S, np.linalg.cholesky(covariance)
        z_hat = (Z @ theta_hat).argmax()
        wrong = []
        while not len(wrong):
            draws = theta_hat + rng.normal(size=(32, d)) @ root.T
            wrong = draws[(draws @ Z.T).argmax(axis=1) != z_hat]
        x = X[rng.choice(K, p=lam)]
        V, S = V + np.outer(x, x), S + x * (x @ theta + rng.normal())
        gain, eta = (X @ (wrong[0] - theta_hat)) ** 2, np.log(K) / delta
        delta += gain.max() + np.log(lam @ np.exp(eta * (gain - gain.max()))) / eta - lam @ gain
        total += gain
        weights = np.exp(np.log(K) / delta * (total - total.max()))
        lam = weights / weights.sum()
    return (Z[(Z @ np.linalg.solve(V, S)).argmax()] == Z[(Z @ theta).argmax()]).all()


@pytest.mark.parametrize("instance", [soare, sphere, top_k])
def test_right_as_often_as_the_transcription(instance):
    problem, X, Z, theta, rounds = instance()
    rng = np.random.default_rng(7)
    theirs = sum(transcription(X, Z, theta, rounds, rng) for _ in range(RUNS))
    trace = simulate(problem, theta, "peps", budget=rounds, replications=1500, rng=8, checkpoints=[rounds])
    ours = int(trace.correct[:, -1].sum())
    assert 0.15 < theirs / RUNS < 0.97  # the comparison says something
    assert stats.chi2_contingency([[ours, 1500 - ours], [theirs, RUNS - theirs]]).pvalue > ALARM, (ours, theirs)

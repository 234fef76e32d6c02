"""The paper's rivals against plain transcriptions of their formulas: same rewards in, same arms out."""

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from plain_rivals import Data, PlainAdaHedge, clucb_sets, lingame_gains, lingape_scores
from unit_problem import unit_problem

from combopeps import ExplicitOracle, ShortestPathOracle, TopKOracle
from combopeps.policies import CLUCB, FixedAllocation, LinGame, LinGapE, ThompsonSampling, Uniform

THETA = np.array([0.5, -0.2, 0.8, 0.3, 0.1])
GENERAL = np.random.default_rng(3).normal(size=(7, 5))
LISTED = np.random.default_rng(4).normal(size=(6, 5))
SETS = np.array([[i in chosen for i in range(5)] for chosen in combinations(range(5), 2)], dtype=float)


def listed(arms, sigma=1.0):
    return unit_problem(ExplicitOracle(LISTED), arms=arms, noise_std=sigma), LISTED


def topk(arms, sigma=1.0):
    return unit_problem(TopKOracle(5, k=2), arms=arms, noise_std=sigma), SETS


UNITS = np.diag([1.0, -2.0, 0.5, 1.0, 1.5])
TWICE = np.vstack([UNITS, 3 * np.eye(5)[1:3]])  # two arms for one component
CASES = {
    "listed, general arms": (listed, GENERAL, 1.0),
    "listed, unit arms": (listed, UNITS, 0.5),
    "top-k, general arms": (topk, GENERAL, 2.0),
    "top-k, unit arms": (topk, UNITS, 1.0),
    "top-k, two arms for a component": (topk, TWICE, 0.7),
}
each_case = pytest.mark.parametrize(("make", "arms", "sigma"), CASES.values(), ids=CASES)


def rounds(policy, data, seed, T=120):
    """Play T rounds; yields t and the policy's choice before the reward is told to both."""
    noise = np.random.default_rng(seed)
    for t in range(1, T + 1):
        arm = int(policy.next_arms()[0])
        yield t, arm
        y = float(data.X[arm] @ THETA + data.sigma * noise.normal())
        policy.learn(arm, y)
        data.learn(arm, y)


@pytest.mark.parametrize("optimism", [False, True])
@each_case
def test_lingame_plays_the_game(make, arms, sigma, optimism):
    problem, Z = make(arms, sigma)
    policy, data, learner = LinGame(problem, 0, optimism=optimism), Data(arms, sigma), PlainAdaHedge(len(arms))
    N, share = np.zeros(len(arms)), np.ones(len(arms))
    for t, arm in rounds(policy, data, seed=1):
        if t > len(arms):
            share += learner.lam
            assert share[arm] - N[arm] >= (share - N).max() - 1e-6  # C-tracking, of the plain learner's shares
            learner.update(lingame_gains(arms, learner.lam, data, Z, t, optimism))
            np.testing.assert_allclose(policy.learner.lam[0], learner.lam, atol=1e-6)
        N[arm] += 1
    assert (N >= 1).all()


def facets_of(problem, Z):
    """The comparisons LinGapE goes through: all others of a list, single swaps of a set."""

    def rivals(theta):
        z_hat = Z[(Z @ theta).argmax()]
        all_others = [z - z_hat for z in Z if not np.array_equal(z, z_hat)]
        return all_others if Z is LISTED else [y for y in all_others if np.abs(y).sum() == 2]

    return rivals


@each_case
def test_lingape_narrows_the_most_ambiguous_pair(make, arms, sigma):
    problem, Z = make(arms, sigma)
    policy, data = LinGapE(problem, 0, delta=0.1), Data(arms, sigma)
    checked = 0
    for t, arm in rounds(policy, data, seed=2):
        if t > len(arms):
            after = lingape_scores(arms, data, facets_of(problem, Z), t, delta=0.1)
            assert after[arm] <= after.min() * (1 + 1e-8)
            checked += after.min() < np.sort(after)[1] * (1 - 1e-6)
    assert checked > 20  # most rounds have one best arm: the test above had something to find


def grid():
    graph = nx.DiGraph([("s", "a"), ("s", "b"), ("a", "b"), ("a", "t"), ("b", "t")])
    oracle = ShortestPathOracle(graph, "s", "t")
    paths = [["s", "a", "t"], ["s", "b", "t"], ["s", "a", "b", "t"]]
    return unit_problem(oracle), np.array([oracle.encode(path) for path in paths])


def sets():
    return topk(None)


@pytest.mark.parametrize("make", [sets, grid], ids=["top-k", "paths, minimised"])
def test_clucb_sets_radii_and_stop(make):
    problem, Z = make()
    policy = CLUCB(problem, 0, delta=0.1)
    noise, sums, counts = np.random.default_rng(5), np.zeros(5), np.zeros(5)
    truth, stop = 4 * THETA, None
    for t in range(1, 2000):
        arm = int(policy.next_arms()[0])
        if t > 5:
            M, M_tilde, w_tilde, rad = clucb_sets(sums, counts, Z, problem.oracle.unit, 1.0, 0.1)
            if w_tilde @ M_tilde <= w_tilde @ M:
                stop = M
                break
            differ = M_tilde != M
            assert differ[arm]
            assert rad[arm] >= rad[differ].max() * (1 - 1e-8)
            assert not policy.finished[0]
        y = truth[arm] + noise.normal()
        policy.learn(arm, y)
        sums[arm], counts[arm] = sums[arm] + y, counts[arm] + 1
    assert policy.finished[0]
    assert policy.stopped_at[0] == policy.samples == t - 1
    np.testing.assert_array_equal(policy.leader[0], stop)
    np.testing.assert_array_equal(stop, Z[(Z @ truth).argmax()])


def test_clucb_in_a_bounded_theta_projects():
    graph = nx.Graph([("s", "a"), ("s", "b"), ("a", "b"), ("a", "t"), ("b", "t")])
    oracle = ShortestPathOracle(graph, "s", "t")
    Z = np.array(
        [oracle.encode(path) for path in (["s", "a", "t"], ["s", "b", "t"], ["s", "a", "b", "t"], list("sbat"))]
    )
    policy, counts, sums = CLUCB(unit_problem(oracle), 0), np.zeros(5), np.zeros(5)
    for arm in range(5):
        y = 0.3 * arm - 0.4  # some lengths look negative
        policy.learn(arm, y)
        sums[arm], counts[arm] = y, 1
    M, M_tilde, w_tilde, rad = (x[0] for x in policy.sets())
    _, _, _, plain_rad = clucb_sets(sums, counts, Z, -1.0, 1.0, 0.05, low=0.0)
    np.testing.assert_allclose(M @ np.maximum(sums, 0.0), (Z @ np.maximum(sums, 0.0)).max())  # zeros may tie
    np.testing.assert_allclose(rad, plain_rad)
    np.testing.assert_allclose(w_tilde, np.maximum(sums - np.where(M != 0, -rad, rad), 0.0))
    np.testing.assert_allclose(M_tilde @ w_tilde, (Z @ w_tilde).max())


def test_thompson_measures_the_argmax_of_its_draw():
    """Shares of 40,000 first choices against draws from N(theta_hat, V^-1): chi-square, false alarm 1e-6."""
    from scipy import stats

    problem = unit_problem(ExplicitOracle(GENERAL), arms=GENERAL)
    policy, data = ThompsonSampling(problem, 0, replications=40_000), Data(GENERAL)
    for arm, y in ((0, 1.0), (3, -0.5), (5, 0.7)):
        policy.learn(np.full(40_000, arm), np.full(40_000, y))
        data.learn(arm, y)
    found = np.bincount(policy.next_arms(), minlength=7)
    draws = np.random.default_rng(1).multivariate_normal(data.theta_hat, np.linalg.inv(data.V), size=40_000)
    expected = np.bincount((draws @ GENERAL.T).argmax(axis=1), minlength=7)
    assert stats.chi2_contingency([found, expected]).pvalue > 1e-6
    flat = np.bincount((np.random.default_rng(2).normal(size=(40_000, 5)) @ GENERAL.T).argmax(axis=1), minlength=7)
    assert stats.chi2_contingency([flat, expected]).pvalue < 1e-6  # the prior alone would be noticed


def test_uniform_is_round_robin_in_an_order_of_its_own():
    policy, chosen = Uniform(unit_problem(TopKOracle(6, k=2)), 0, replications=200), []
    for _ in range(18):
        chosen.append(policy.next_arms())
        policy.learn(chosen[-1], np.zeros(200))
    arms = np.array(chosen)
    assert (np.sort(arms[:6], axis=0) == np.arange(6)[:, None]).all()
    np.testing.assert_array_equal(arms[:6], arms[6:12])
    assert len(np.unique(arms[:6], axis=1).T) > 100  # of 720 orders: no index is favoured


def test_fixed_allocation_stays_close_to_its_shares():
    lam = np.array([0.048, 0.952, 0.0, 0.0, 0.0])
    policy = FixedAllocation(unit_problem(TopKOracle(5, k=2)), 0, lam=lam, replications=3)
    pulls = np.zeros((3, 5))
    for t in range(1, 400):
        pulls[np.arange(3), policy.next_arms()] += 1
        assert np.abs(pulls - t * lam).max() < 1.0


def test_fixed_allocation_by_labels():
    oracle = TopKOracle(["a", "b", "c"], k=1)
    np.testing.assert_allclose(FixedAllocation(unit_problem(oracle), lam={"c": 0.25, "a": 0.75}).lam, [0.75, 0.0, 0.25])

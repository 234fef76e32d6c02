"""The rivals of the paper against plain, slow transcriptions of their formulas, with Z listed and explicit inverses."""

import tracemalloc
from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from scipy import stats
from unit_problem import unit_problem

from combopeps import Box, ExplicitOracle, MatchingOracle, ShortestPathOracle, TopKOracle
from combopeps.errors import LabelError, ParameterError, SpaceError
from combopeps.policies.baselines import CLUCB, FixedAllocation, LinGame, LinGapE, ThompsonSampling, Uniform


class Data:
    """V = V_0 + sum x x' / sigma^2 and theta_hat = V^-1 S, from scratch."""

    def __init__(self, X, sigma=1.0, prior_precision=1.0):
        self.X, self.sigma = X, sigma
        self.V, self.S = prior_precision * np.eye(X.shape[1]), np.zeros(X.shape[1])

    def learn(self, arm, y):
        self.V = self.V + np.outer(self.X[arm], self.X[arm]) / self.sigma**2
        self.S = self.S + self.X[arm] * y / self.sigma**2

    @property
    def theta_hat(self):
        return np.linalg.inv(self.V) @ self.S


class PlainAdaHedge:
    def __init__(self, arms):
        self.total, self.Delta, self.lam = np.zeros(arms), 0.01, np.full(arms, 1.0 / arms)

    def update(self, gain):
        eta = np.log(len(gain)) / self.Delta
        top = gain.max()
        mix = top + np.log(self.lam @ np.exp(eta * (gain - top))) / eta
        self.Delta += max(0.0, mix - self.lam @ gain)
        self.total += gain
        score = np.log(len(gain)) / self.Delta * self.total
        self.lam = np.exp(score - score.max()) / np.exp(score - score.max()).sum()


def nearest_alternative(theta_hat, A, Z):
    """The point of {theta: some z beats z_hat} nearest in the norm of A: a projection for every other z of Z."""
    z_hat = Z[(Z @ theta_hat).argmax()]
    best, where = np.inf, None
    for z in Z:
        if not np.array_equal(z, z_hat):
            y, inverse = z - z_hat, np.linalg.inv(A)
            theta = theta_hat - inverse @ y * (y @ theta_hat) / (y @ inverse @ y)
            distance = (theta - theta_hat) @ A @ (theta - theta_hat)
            if distance < best:
                best, where = distance, theta
    return where


def lingame_gains(X, lam, data, Z, t, optimism):
    A = sum(w * np.outer(x, x) for w, x in zip(lam, X, strict=True))
    theta = nearest_alternative(data.theta_hat, A, Z)
    deviation = np.array([abs(x @ (theta - data.theta_hat)) for x in X])
    if optimism:
        deviation += [np.sqrt(2 * np.log(t) * (x @ np.linalg.inv(data.V) @ x)) for x in X]
    return 0.5 * deviation**2 / data.sigma**2


def lingape_scores(X, data, rivals, t, delta):
    """The width of the most ambiguous comparison after each arm, by explicit inverses; the smallest is measured.

    `rivals(z_hat)` lists the comparisons y = z - z_hat.
    """
    inverse = np.linalg.inv(data.V)
    c = np.sqrt(2 * (np.log(1 / delta) + 2 * np.log(t + 1)))
    y = max(rivals(data.theta_hat), key=lambda y: y @ data.theta_hat + c * np.sqrt(y @ inverse @ y))
    return np.array([np.sqrt(y @ np.linalg.inv(data.V + np.outer(x, x) / data.sigma**2) @ y) for x in X])


def clucb_sets(sums, counts, Z, unit, sigma, delta, low=None):
    """M_t, M~_t and the radii, with Z listed; `low` bounds theta from below."""
    t, n = counts.sum(), len(counts)
    w = sums / counts
    rad = sigma * np.sqrt(2 * np.log(4 * n * t**3 / delta) / counts)
    inside = (lambda theta: theta) if low is None else (lambda theta: np.maximum(theta, low))
    M = Z[(Z @ inside(w)).argmax()]
    worse = np.where(M != 0, -rad, rad) * unit
    w_tilde = inside(w + worse)
    return M, Z[(Z @ w_tilde).argmax()], w_tilde, rad


TRUTH = np.array([0.5, -0.2, 0.8, 0.3, 0.1])
GENERAL = np.random.default_rng(3).normal(size=(7, 5))
LISTED = np.random.default_rng(4).normal(size=(6, 5))
SETS = np.array([[i in chosen for i in range(5)] for chosen in combinations(range(5), 2)], dtype=float)


def listed(arms, sigma=1.0):
    return unit_problem(ExplicitOracle(LISTED), arms=arms, noise_std=sigma), LISTED


def topk(arms, sigma=1.0):
    return unit_problem(TopKOracle(5, k=2), arms=arms, noise_std=sigma), SETS


UNITS = np.diag([1.0, -2.0, 0.5, 1.0, 1.5])
TWICE = np.vstack([UNITS, 3 * np.eye(5)[1:3]])  # two arms for one component
FORMULAS = {
    "listed, general arms": (listed, GENERAL, 1.0),
    "listed, unit arms": (listed, UNITS, 0.5),
    "top-k, general arms": (topk, GENERAL, 2.0),
    "top-k, unit arms": (topk, UNITS, 1.0),
    "top-k, two arms for a component": (topk, TWICE, 0.7),
}
each_formula = pytest.mark.parametrize(("make", "arms", "sigma"), FORMULAS.values(), ids=FORMULAS)


def rounds(policy, data, seed, T=120):
    """Play T rounds; yields t and the policy's choice before the reward is told to both."""
    noise = np.random.default_rng(seed)
    for t in range(1, T + 1):
        arm = int(policy.next_arms()[0])
        yield t, arm
        y = float(data.X[arm] @ TRUTH + data.sigma * noise.normal())
        policy.learn(arm, y)
        data.learn(arm, y)


@pytest.mark.parametrize("optimism", [False, True])
@each_formula
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


@each_formula
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


def grid(graph):
    oracle = ShortestPathOracle(graph([("s", "a"), ("s", "b"), ("a", "b"), ("a", "t"), ("b", "t")]), "s", "t")
    paths = ["sat", "sbt", "sabt"] + ["sbat"] * (graph is nx.Graph)
    return unit_problem(oracle), np.array([oracle.encode(list(path)) for path in paths])


@pytest.mark.parametrize(("problem", "Z"), [topk(None), grid(nx.DiGraph)], ids=["top-k", "paths, minimised"])
def test_clucb_sets_radii_and_stop(problem, Z):
    policy = CLUCB(problem, 0, delta=0.1)
    noise, sums, counts = np.random.default_rng(5), np.zeros(5), np.zeros(5)
    truth, stop = 4 * TRUTH, None
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
    problem, Z = grid(nx.Graph)
    policy, counts, sums = CLUCB(problem, 0), np.zeros(5), np.zeros(5)
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


POINTS = np.random.default_rng(1).normal(size=(6, 5))


def best_of(k, d, arms=None, **options):
    return unit_problem(TopKOracle(d, k=k), arms, **options)


EYE, BOXED = np.eye(3), best_of(1, 3, space=Box(-1.0, 1.0))
ROUTES = unit_problem(ShortestPathOracle(nx.DiGraph([("s", "a"), ("a", "t"), ("s", "t")]), "s", "t"))
ONE_TOO_MANY = unit_problem(ExplicitOracle(POINTS), arms=np.vstack([POINTS, POINTS.sum(axis=0)]))
REFUSED = {
    "a set that is not listed": [
        (p, x) for p in (LinGame, LinGapE) for x in (unit_problem(MatchingOracle(3, 3)), ROUTES)
    ],
    "too many answers": [(ThompsonSampling, best_of(2, 5)), (ThompsonSampling, unit_problem(MatchingOracle(20, 20)))],
    "arms that are not the answers": [
        (ThompsonSampling, problem)
        for problem in (best_of(1, 3, 2 * EYE), best_of(1, 3, np.vstack([EYE, EYE[:1]])), ONE_TOO_MANY)
    ],
    "a bounded Theta": [(policy, BOXED) for policy in (LinGame, LinGapE, ThompsonSampling)],
    "one component each": [(CLUCB, best_of(1, 3, 1.0 + EYE)), (CLUCB, best_of(1, 3, np.vstack([EYE, EYE])))],
    "sets of components": [(CLUCB, unit_problem(ExplicitOracle(POINTS)))],
}


@pytest.mark.parametrize("why", REFUSED)
def test_problems_that_a_rival_is_not_for_are_refused(why):
    for policy, problem in REFUSED[why]:
        words = why if policy is CLUCB else "TopTwo or PEPS"
        with pytest.raises(SpaceError if problem is BOXED else ParameterError, match=words):
            policy(problem)


@pytest.mark.parametrize(
    ("lam", "error"),
    [
        (None, ParameterError),
        ([0.5, 0.5], ParameterError),
        ([0.5, 0.6, -0.1], ParameterError),
        ([0.5, 0.4, 0.0], ParameterError),
        ([0.5, np.nan, 0.5], ParameterError),
        (["much", "more", "most"], ParameterError),
        ({"a": "all"}, ParameterError),
        ({"a": 0.5, "x": 0.5}, LabelError),
        ({"a": 0.5}, ParameterError),
    ],
)
def test_shares_that_are_none(lam, error):
    with pytest.raises(error):
        FixedAllocation(unit_problem(TopKOracle(["a", "b", "c"], k=1)), lam=lam)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, float("nan")])
@pytest.mark.parametrize("policy", [LinGapE, CLUCB])
def test_delta_is_a_probability(policy, delta):
    with pytest.raises(ParameterError, match="delta"):
        policy(unit_problem(TopKOracle(5, k=2)), delta=delta)


def test_clucb_is_for_sets_and_unit_arms():
    with pytest.raises(ParameterError, match="one component each"):
        CLUCB(unit_problem(TopKOracle(3, k=1), arms=np.ones((3, 3)) + np.eye(3)))
    with pytest.raises(ParameterError, match="one component each"):
        CLUCB(unit_problem(TopKOracle(2, k=1), arms=np.vstack([np.eye(2), np.eye(2)])))
    with pytest.raises(ParameterError, match="sets of components"):
        CLUCB(unit_problem(ExplicitOracle(POINTS)))


def test_clucb_stops_with_the_right_answer_at_the_stated_risk():
    """delta = .1; the bound is loose, so that of 60 runs none should err: more than two would be P < 1e-3 at .01."""
    policy = CLUCB(unit_problem(TopKOracle(5, k=2), noise_std=0.3), 0, delta=0.1, replications=60)
    means, noise = np.array([1.0, 0.6, 0.0, -0.3, -0.2]), np.random.default_rng(1)
    while not policy.finished.all():
        arm = policy.next_arms()
        policy.learn(arm, means[arm] + 0.3 * noise.normal(size=60))
        assert policy.samples < 5000
    assert (policy.leader == [1, 1, 0, 0, 0]).all(axis=1).sum() >= 58
    assert len(np.unique(policy.stopped_at)) > 1


def test_memory_grows_with_the_list_not_with_its_square():
    """K = 3,000 listed answers: memory grows with K d, far below the 72 MB of K x K numbers."""
    points = np.random.default_rng(0).normal(size=(3000, 6))
    problem = unit_problem(ExplicitOracle(points), arms=points)
    for make in (LinGame, LinGapE):
        make(problem, 0, every_arm_once=False).next_arms()  # compile
        tracemalloc.start()
        policy = make(problem, 0, every_arm_once=False)
        for _ in range(3):
            policy.learn(policy.next_arms(), 0.1)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 15e6

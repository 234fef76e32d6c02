"""The rivals in use: typed errors, `identify` and `simulate`."""

import networkx as nx
import numpy as np
import pytest
from sessions import session_of
from unit_problem import unit_problem

from combopeps import Box, ExplicitOracle, MatchingOracle, ShortestPathOracle, TopKOracle, identify, simulate
from combopeps.errors import LabelError, ParameterError, SpaceError
from combopeps.policies import CLUCB, FixedAllocation, LinGame, LinGapE, ThompsonSampling, Uniform

THETA = np.array([1.0, 0.6, 0.3, 0.0, -0.2])
POINTS = np.random.default_rng(1).normal(size=(6, 5))


def unit():
    return unit_problem(TopKOracle(5, k=2))


def general():
    return unit_problem(ExplicitOracle(POINTS), arms=np.random.default_rng(0).normal(size=(7, 5)), noise_std=0.5)


def answers():
    return unit_problem(ExplicitOracle(POINTS), arms=POINTS)


CASES = {
    "uniform": (unit, Uniform, {}),
    "fixed": (unit, FixedAllocation, {"lam": [0.1, 0.4, 0.3, 0.1, 0.1]}),
    "thompson": (answers, ThompsonSampling, {}),
    "lingame": (unit, LinGame, {}),
    "lingame, general arms": (general, LinGame, {"optimism": True}),
    "lingape": (unit, LinGapE, {}),
    "lingape, general arms": (general, LinGapE, {"every_arm_once": False}),
    "clucb": (unit, CLUCB, {}),
}
each_case = pytest.mark.parametrize(("make", "policy", "options"), CASES.values(), ids=CASES)


def test_a_seed_decides_between_arms_that_help_equally():
    """LinGapE is deterministic but for ties: on two items that look the same, either may come first."""
    first = set()
    for seed in range(40):
        policy = LinGapE(unit_problem(TopKOracle(2, k=1)), seed)
        policy.learn_many([0, 1], [0.5, 0.5])
        first.add(int(policy.next_arms()[0]))
    assert first == {0, 1}


@each_case
def test_simulate_counts_every_pull(make, policy, options):
    trace = simulate(make(), THETA, policy, budget=40, replications=5, **options)
    assert (trace.pulls.sum(axis=1) == 40).all()


@pytest.mark.parametrize("name", ["uniform", "lingame", "lingape", "clucb", "thompson"])
def test_identify_end_to_end(name):
    truth, noise = {"a": 0.1, "b": 2.0, "c": 1.2}, np.random.default_rng(0)
    oracle = TopKOracle(["a", "b", "c"], k=1)
    result = identify(
        unit_problem(oracle), lambda item: truth[item] + noise.normal(), policy=name, delta=0.02, budget=5000
    )
    assert (result.answer, result.stop_reason) == ({"b"}, "posterior")


@pytest.mark.parametrize("name", ["lingame", "lingape", "clucb", "uniform"])
def test_a_single_answer_can_be_simulated(name):
    assert simulate(unit_problem(TopKOracle(3, k=3)), THETA[:3], name, budget=8, replications=4).correct.all()


def test_a_batch_of_first_measurements_names_every_arm():
    for kind in (LinGame, LinGapE, CLUCB):
        assert sorted(query.arm for query in session_of(kind, unit()).ask(5)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("policy", [LinGame, LinGapE])
@pytest.mark.parametrize(
    "oracle",
    [MatchingOracle(3, 3), ShortestPathOracle(nx.DiGraph([("s", "a"), ("a", "t"), ("s", "t")]), "s", "t")],
    ids=["matching", "path"],
)
def test_a_set_that_is_not_listed_stays_unlisted(policy, oracle):
    with pytest.raises(ParameterError, match="TopTwo or PEPS"):
        policy(unit_problem(oracle))


@pytest.mark.parametrize("policy", [LinGame, LinGapE, ThompsonSampling])
def test_a_bounded_theta_is_refused(policy):
    with pytest.raises(SpaceError, match="TopTwo or PEPS"):
        policy(unit_problem(TopKOracle(3, k=1), space=Box(-1.0, 1.0)))


@pytest.mark.parametrize(
    "problem",
    [
        unit_problem(TopKOracle(5, k=2)),
        unit_problem(TopKOracle(3, k=1), arms=2 * np.eye(3)),
        unit_problem(TopKOracle(3, k=1), arms=np.vstack([np.eye(3), np.eye(3)[:1]])),
        unit_problem(MatchingOracle(20, 20)),
        unit_problem(ExplicitOracle(POINTS), arms=np.vstack([POINTS, POINTS.sum(axis=0)])),
    ],
    ids=["too many answers", "not answers", "twice", "matching", "one arm too many"],
)
def test_thompson_is_for_arms_that_are_answers(problem):
    with pytest.raises(ParameterError, match="TopTwo or PEPS"):
        ThompsonSampling(problem)


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
        policy(unit(), delta=delta)


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
    import tracemalloc

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

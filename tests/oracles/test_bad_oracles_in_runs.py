"""A run with a faulty oracle ends in a typed error or with the best answer; correct oracles pass."""

import inspect

import broken_oracles as broken
import broken_promises as promises
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit_problem import unit_problem

from combopeps import (
    ArgmaxOracle,
    ComboPepsError,
    ExplicitOracle,
    MatchingOracle,
    ShortestPathOracle,
    TopKOracle,
    TopTwo,
    identify,
    simulate,
)
from combopeps.errors import OracleError
from combopeps.oracles import CheckedOracle
from combopeps.oracles.runtime_checks import ConsistencyCheck, probe_oracle

ZOO = [
    kind
    for module in (broken, promises)
    for _, kind in inspect.getmembers(module, inspect.isclass)
    if kind.__module__ == module.__name__
]
HARMLESS = {
    broken.Honest,
    broken.AbsoluteTolerance,  # where gaps are larger than its tolerance
    promises.CountsTooMany,
    broken.DiceOnTies,
    promises.FewFacetsIgnoresTheLimit,
    broken.ForgetsItsOrder,
    broken.HandsOutItsCache,
    broken.HoldsALambda,
    broken.LocksAnswer,
    broken.NanAnswer,  # at theta = 0, where no run is
    promises.TiesAreNoMembers,
}
COSTS = dict(zip("abcde", (1.0, 3.0, 0.0, 4.0, 2.5), strict=True))  # the two cheapest: a and c
GAINS = dict(zip("abcd", (1.0, -1.0, 2.0, 0.5), strict=True))
TABLE = {(i, j): float((5 * i + 3 * j) % 7) for i in range(4) for j in range(4)}


def truth_of(kind):
    """Return theta and its best answer, by a correct oracle."""
    if issubclass(kind, MatchingOracle):
        return TABLE, MatchingOracle(4, 4).decode(MatchingOracle(4, 4).argmax(list(TABLE.values())))
    if kind is promises.NotBinaryAfterAll:
        return GAINS, "c"
    return (GAINS, {"a", "c", "d"}) if kind is promises.AnswersContainEachOther else (COSTS, {"a", "c"})


@pytest.mark.parametrize("stopping", ["posterior", "certified"])
@pytest.mark.parametrize("kind", ZOO, ids=[kind.__name__ for kind in ZOO])
def test_a_run_with_a_broken_oracle_ends_in_a_typed_error_or_is_right(kind, stopping):
    truth, best = truth_of(kind)
    noise = np.random.default_rng(0)
    try:
        problem = unit_problem(kind())
        result = identify(
            problem, lambda label: truth[label] + 0.3 * noise.normal(), delta=0.01, budget=600, stopping=stopping
        )
    except ComboPepsError:
        refused = True
    else:
        refused = False
        assert result.answer == best
    assert refused == (kind not in HARMLESS)


class Minimises(ArgmaxOracle):
    """Returns the worse of two answers."""

    def __init__(self):
        super().__init__(["x", "y"])

    def _argmax_batch(self, thetas):
        return np.eye(2)[thetas.argmin(axis=1)]


@pytest.mark.parametrize(
    "start",
    [
        lambda oracle: identify(oracle, lambda label: 0.0),
        lambda oracle: TopTwo(oracle),
        lambda oracle: simulate(oracle, [1.0, 0.0], budget=5, replications=2),
        lambda oracle: unit_problem(oracle),
    ],
    ids=["identify", "policy", "simulate", "problem"],
)
def test_minimising_oracles_are_rejected_before_any_measurement(start):
    with pytest.raises(OracleError, match="is it minimising") as caught:
        start(Minimises())
    theta = caught.value.theta
    assert Minimises().argmax(theta) @ theta < theta.max()


class FailsFarOut(ArgmaxOracle):
    """Correct for the thetas of the initial checks, and wrong for those of this problem."""

    def __init__(self, fault):
        super().__init__(range(4))
        self.fault = fault

    def _argmax_batch(self, thetas):
        best = np.eye(4)[thetas.argmax(axis=1)]
        far = np.abs(thetas).max(axis=1) > 20.0
        best[far] = np.eye(4)[thetas[far].argmin(axis=1)] if self.fault == "minimises" else np.nan
        return best


@pytest.mark.parametrize(("fault", "words"), [("minimises", "not an argmax"), ("NaN", "NaN")])
@pytest.mark.parametrize("policy", ["top-two", "peps", "uniform"])
def test_faults_at_the_thetas_of_a_run_are_detected(fault, words, policy):
    problem = unit_problem(FailsFarOut(fault), prior_std=100.0)
    noise = np.random.default_rng(0)
    with pytest.raises(OracleError, match=words) as caught:
        identify(problem, lambda label: 60.0 * label + noise.normal(), policy=policy, budget=300)
    assert caught.value.session.samples < 30  # what was measured is kept


def test_checks_of_a_run_are_repeated():
    oracle, thetas = TopKOracle(3, k=1), np.eye(3)
    watch, wrong = ConsistencyCheck(oracle), []
    for call in range(1, 300):
        try:
            watch.see(thetas, oracle.argmax(-thetas if call > 20 else thetas))
        except OracleError:
            wrong.append(call)
    assert wrong == [32, 64, 128, 256]  # powers of two


class Counting(TopKOracle):
    rows = 0

    def _argmax_batch(self, thetas):
        self.rows += len(thetas)
        return super()._argmax_batch(thetas)


@pytest.mark.parametrize(("d", "probes"), [(5, 256), (500_000, 8)])
def test_initial_checks_take_three_more_rows(d, probes):
    oracle = Counting(d, k=2)
    probe_oracle(oracle, np.random.default_rng(0))
    assert oracle.rows == probes + 3


# ---------------------------------------------------------------- correct oracles


def sets(rng):
    n = int(rng.integers(2, 7))
    grid = nx.grid_2d_graph(3, 3)
    far = ((0, 0), (2, 2))
    yield TopKOracle(n, k=int(rng.integers(1, n)))
    yield MatchingOracle(n, n, engine="scipy")
    yield MatchingOracle(n, n, engine="ortools", edges=[(i, j) for i in range(n) for j in {i, (i + 1) % n, 0}])
    yield MatchingOracle(n, n + 1, maximize=False)
    yield ShortestPathOracle(grid, *far)
    yield ShortestPathOracle(nx.DiGraph([(a, b) for a, b in grid.edges]), *far)
    yield ShortestPathOracle(nx.DiGraph([(a, b) for a, b in grid.edges]), *far, objective="max")
    yield ExplicitOracle(10.0 ** rng.integers(-6, 7) * np.unique(rng.integers(-1, 2, size=(n + 2, 4)), axis=0))
    yield ExplicitOracle(rng.normal(size=(n, 3)))
    yield ExplicitOracle(np.ones((1, 3)))
    yield broken.Honest()
    yield broken.DiceOnTies()


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([1e-6, 1.0, 1e6]))
def test_correct_oracles_are_never_rejected(seed, scale):
    rng = np.random.default_rng(seed)
    for oracle in sets(rng):
        probe_oracle(oracle, rng)
        checked, watch = CheckedOracle(oracle, mode="always"), ConsistencyCheck(oracle)
        for near in (0.0, 1e-9, 1e-3, 1.0):  # ties, near ties, and none
            thetas = scale * (rng.integers(0, 3, size=(12, oracle.dim)) + near * rng.random(size=(12, oracle.dim)))
            watch.see(thetas, checked.argmax(thetas))


@pytest.mark.parametrize("n", [40, 80])
def test_errors_within_the_resolution_are_accepted(n):
    """Costs of very different sizes: rounding relative to the largest is within the stated resolution."""
    rng = np.random.default_rng(n)
    oracle = MatchingOracle(n, n, engine="ortools")
    thetas = rng.normal(size=(24, oracle.dim)) * np.where(rng.random(oracle.dim) < 0.1, 1e8, 1e-6)
    ConsistencyCheck(oracle).see(thetas, oracle.argmax(thetas))


class Coarse(TopKOracle):
    """A solver with an absolute tolerance: adequate for data, too coarse for tie breakers."""

    def _argmax_batch(self, thetas):
        return super()._argmax_batch(np.round(thetas, 7))


@pytest.mark.parametrize("policy", ["top-two", "uniform"])
def test_solvers_may_ignore_tie_breakers(policy):
    noise = np.random.default_rng(0)
    result = identify(Coarse(30, k=3), lambda item: float(item < 3) + 0.3 * noise.normal(), policy=policy, budget=200)
    assert result.answer == {0, 1, 2}


# ---------------------------------------------------------------- the wrapper


class Forgets(broken.Honest):
    """A search that is truncated earlier in every call."""

    calls = 0

    def _argmax_batch(self, thetas):
        self.calls += 1
        return super()._argmax_batch(thetas if self.calls < 4 else np.zeros(thetas.shape))


@pytest.mark.parametrize(
    ("kind", "words"), [(broken.ReusesItsBuffer, "same memory twice"), (broken.HandsOutItsCache, "same memory twice")]
)
@pytest.mark.parametrize("batch", [1, 30])
def test_checked_oracle_detects_shared_memory(kind, words, batch):
    with pytest.raises(OracleError, match=words):
        CheckedOracle(kind(), mode="always").argmax(np.random.default_rng(0).normal(size=(batch, 5)))


def test_checked_oracle_detects_answers_that_change():
    checked, theta = CheckedOracle(Forgets(), mode="always"), np.array([[5.0, 4.0, 3.0, 2.0, 1.0]])
    checked.argmax(theta)
    with pytest.raises(OracleError, match="different value for one theta"):
        checked.argmax(theta)


def test_ties_may_be_broken_in_any_way():
    checked = CheckedOracle(broken.DiceOnTies(), mode="always")
    for _ in range(20):
        checked.argmax(np.zeros((3, 5)))

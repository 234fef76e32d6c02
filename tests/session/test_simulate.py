"""`simulate`: independent of grouping and processes, reproducible, and the same code as asking and telling."""

import networkx as nx
import numpy as np
import pytest
from scipy import stats
from unit_problem import unit_problem

import combopeps.session.simulate
from combopeps import PEPS, Box, ExplicitOracle, ShortestPathOracle, TopKOracle, TopTwo, simulate
from combopeps.errors import DomainError, ParameterError
from combopeps.random import Streams, named

THETA = np.array([1.0, 0.6, 0.3, 0.0, -0.2])
ALARM = 1e-6  # probability of a false alarm of a chi-square test, over the choice of the seed


def unit():
    return unit_problem(TopKOracle(5, k=2))


def general():
    rows = np.random.default_rng(0).normal(size=(7, 5))
    return unit_problem(ExplicitOracle(np.random.default_rng(1).normal(size=(6, 5))), arms=rows)


def boxed():
    return unit_problem(TopKOracle(5, k=2), space=Box(-3.0, 3.0))


CASES = {
    "unit top-two": (unit, "top-two"),
    "unit peps": (unit, "peps"),
    "general top-two": (general, "top-two"),
    "general peps": (general, "peps"),
    "boxed top-two": (boxed, "top-two"),
    "doubling": (boxed, "doubling-peps"),
}


def same(first, second):
    np.testing.assert_array_equal(first.t, second.t)
    np.testing.assert_array_equal(first.correct, second.correct)
    np.testing.assert_array_equal(first.pulls, second.pulls)


@pytest.mark.parametrize(("problem", "policy"), CASES.values(), ids=CASES)
def test_results_do_not_depend_on_the_grouping(problem, policy, monkeypatch):
    options = {"budget": 60, "replications": 11, "rng": 5}
    whole = simulate(problem(), THETA, policy, **options)
    for size in (1, 4):
        monkeypatch.setattr(combopeps.session.simulate, "_GROUP", size)
        same(whole, simulate(problem(), THETA, policy, **options))


def test_results_do_not_depend_on_the_processes():
    options = {"budget": 40, "replications": 7, "rng": 5}
    same(simulate(unit(), THETA, "peps", **options), simulate(unit(), THETA, "peps", n_jobs=2, **options))


def test_more_replications_only_add_rows():
    few, many = (simulate(unit(), THETA, budget=40, replications=n, rng=5) for n in (4, 9))
    np.testing.assert_array_equal(few.pulls, many.pulls[:4])


@pytest.mark.parametrize("policy", ["top-two", "peps"])
def test_the_same_seed_gives_the_same_trace(policy):
    first, again, other = (simulate(unit(), THETA, policy, budget=50, replications=8, rng=seed) for seed in (1, 1, 2))
    same(first, again)
    assert (first.pulls != other.pulls).any()
    assert (first.seed, other.seed) == (1, 2)


def test_a_generator_is_a_seed_too():
    first, again = (simulate(unit(), THETA, budget=30, replications=3, rng=np.random.default_rng(1)) for _ in range(2))
    same(first, again)
    assert first.seed == -1


def test_rows_are_independent_runs():
    pulls = simulate(unit(), THETA, budget=50, replications=30, rng=1).pulls
    assert len(np.unique(pulls, axis=0)) > 20


@pytest.mark.parametrize("kind", [TopTwo, PEPS])
@pytest.mark.parametrize("problem", [unit, general])
def test_a_simulation_is_choosing_and_learning(kind, problem):
    problem, budget = problem(), 80
    trace = simulate(problem, THETA, kind, budget=budget, replications=1, rng=7, checkpoints=range(1, budget + 1))
    policy = kind(problem, rng=7)
    seed = np.random.SeedSequence(7).spawn(1)[0]
    nature = Streams([named(seed, "nature")])
    best = problem.oracle.argmax(THETA)
    for t in range(budget):
        arm = policy.next_arms()
        policy.learn(arm, problem.arms.row(arm)[0] @ THETA + nature.normal(1)[0])
        assert trace.correct[0, t] == np.array_equal(policy.z_hat()[0], best)
    np.testing.assert_array_equal(policy.pulls, trace.pulls)


def test_the_noise_has_the_size_that_the_problem_says():
    """With next to no noise, one measurement of each arm settles everything."""
    quiet = simulate(unit_problem(TopKOracle(5, k=2), noise_std=1e-3), THETA, "peps", budget=60, replications=20)
    loud = simulate(unit_problem(TopKOracle(5, k=2), noise_std=30.0), THETA, "peps", budget=60, replications=20)
    assert quiet.correct[:, -1].all()
    assert loud.correct[:, -1].mean() < 0.6


def test_every_run_spends_the_budget():
    trace = simulate(unit(), THETA, "top-two", budget=30, replications=6)
    assert trace.pulls.sum(axis=1).tolist() == [30] * 6
    assert (trace.t[0], trace.t[-1]) == (1, 30)
    assert (trace.draws >= 1).all()
    assert (trace.seconds > 0).all()


def test_the_budget_is_spent_though_the_last_checkpoint_is_earlier():
    trace = simulate(unit(), THETA, budget=30, replications=2, checkpoints=[5, 10])
    assert trace.pulls.sum(axis=1).tolist() == [30, 30]


def test_checkpoints_are_sorted_and_single():
    trace = simulate(unit(), THETA, budget=20, replications=3, checkpoints=[20, 5, 5, 1])
    assert trace.t.tolist() == [1, 5, 20]
    assert trace.correct.shape == (3, 3)


@pytest.mark.parametrize("checkpoints", [[0, 5], [5, 21], [-1], [], [2.5]], ids=str)
def test_checkpoints_out_of_range_are_typed_errors(checkpoints):
    with pytest.raises(ParameterError, match="checkpoints"):
        simulate(unit(), THETA, budget=20, replications=2, checkpoints=checkpoints)


@pytest.mark.parametrize(
    "wrong",
    [
        {"theta": THETA[:4]},
        {"theta": np.full(5, np.nan)},
        {"budget": 0},
        {"replications": 0},
        {"policy": "thompson"},
        {"budget": float("nan")},
        {"budget": 5.0},
        {"replications": 2.5},
        {"replications": "2"},
        {"rng": -1},
        {"rng": 0.5},
        {"n_jobs": 0},
        {"n_jobs": 1.5},
    ],
    ids=str,
)
def test_arguments_out_of_range_are_typed_errors(wrong):
    arguments = {"theta": THETA, "policy": "peps", "budget": 5, "replications": 2} | wrong
    with pytest.raises(ParameterError):
        simulate(unit(), arguments.pop("theta"), arguments.pop("policy"), **arguments)


def test_a_truth_outside_the_oracles_domain_is_a_typed_error():
    oracle = ShortestPathOracle(nx.Graph([(0, 1), (1, 2), (0, 2)]), 0, 2)
    with pytest.raises(DomainError):
        simulate(unit_problem(oracle), [-1.0, 1.0, 1.0], budget=5, replications=2)


def test_options_reach_the_policy():
    plain, forced = (
        simulate(unit(), THETA, "peps", budget=40, replications=5, rng=1, **options) for options in ({}, {"alpha": 0.0})
    )
    assert (plain.pulls != forced.pulls).any()


def test_ties_in_the_truth_count_as_right():
    trace = simulate(unit_problem(TopKOracle(4, k=2)), np.zeros(4), budget=10, replications=5)
    assert trace.correct.all()


@pytest.mark.parametrize(
    ("policy", "options"),
    [("top-two", {}), ("peps", {}), ("peps", {"tracking": True})],
    ids=["top-two", "peps", "peps with tracking"],
)
def test_no_index_is_favoured(policy, options):
    """Early on ties are everywhere: the best item first or last must make no difference."""
    theta = np.array([1.0, 0.0, 0.0, 0.0])
    counts = []
    for truth in (theta, theta[::-1]):
        trace = simulate(
            unit_problem(TopKOracle(4, k=1)),
            truth,
            policy,
            budget=4,
            replications=2000,
            rng=1,
            checkpoints=[1, 2, 4],
            **options,
        )
        counts.append(trace.correct.sum(axis=0))
    for first, last in np.transpose(counts):
        assert stats.chi2_contingency([[first, 2000 - first], [last, 2000 - last]]).pvalue > ALARM
    assert 0.2 < counts[0][0] / 2000 < 0.6  # a quarter by chance: a tie-break towards 0 would give nearly all


def test_no_route_is_favoured_where_lengths_cannot_be_negative():
    """Four routes alike, no data: theta_hat = 0 is on the boundary of Theta."""
    graph = nx.Graph([*(("s", i) for i in range(4)), *((i, "t") for i in range(4))])
    answers = TopTwo(unit_problem(ShortestPathOracle(graph, "s", "t")), rng=0, replications=2000).z_hat()
    _, counts = np.unique(answers, axis=0, return_counts=True)
    assert len(counts) == 4
    assert stats.chisquare(counts).pvalue > ALARM


def test_the_progress_bar_counts_rounds(capsys):
    simulate(unit(), THETA, budget=5, replications=2, progress=True)
    assert "rounds" in capsys.readouterr().err

"""`simulate` and `Trace`: runs independent of grouping, reproducible, as by choosing and learning; rates and crossings."""

import joblib
import networkx as nx
import numpy as np
import pytest
from scipy import stats
from slow_oracle import Slow
from unit_problem import unit_problem

from combopeps import PEPS, Box, ExplicitOracle, Problem, ShortestPathOracle, TopKOracle, TopTwo, simulate
from combopeps.errors import DomainError, FileFormatError, ParameterError
from combopeps.random import Streams, named_seed
from combopeps.session import Trace

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
    "slow oracle": (lambda: unit_problem(Slow(TopKOracle(5, k=2))), "top-two"),
    "estimated prior and noise": (lambda: Problem(TopKOracle(5, k=2)), "top-two"),
}


def same(first, second):
    np.testing.assert_array_equal(first.t, second.t)
    np.testing.assert_array_equal(first.correct, second.correct)
    np.testing.assert_array_equal(first.pulls, second.pulls)


@pytest.mark.parametrize(("problem", "policy"), CASES.values(), ids=CASES)
def test_results_do_not_depend_on_the_grouping(problem, policy):
    """Runs side by side are the runs of a thread."""
    options = {"budget": 60, "replications": 11, "rng": 5}
    options |= {"true_noise_std": 1.0} if problem().noise_std is None else {}
    whole = simulate(problem(), THETA, policy, **options)
    with joblib.parallel_config(backend="threading"):
        for threads in (3, 11):
            same(whole, simulate(problem(), THETA, policy, n_jobs=threads, **options))


def test_more_replications_only_add_rows():
    few, many = (simulate(unit(), THETA, budget=40, replications=n, rng=5) for n in (4, 9))
    np.testing.assert_array_equal(few.pulls, many.pulls[:4])


@pytest.mark.parametrize("policy", ["top-two", "peps"])
def test_the_same_seed_gives_the_same_trace(policy):
    def run(rng):
        return simulate(unit(), THETA, policy, budget=50, replications=8, rng=rng)

    first, other = run(1), run(2)
    same(first, run(1))
    assert (first.pulls != other.pulls).any()
    assert (first.seed, other.seed) == (1, 2)
    first, again = (run(np.random.default_rng(1)) for _ in range(2))
    same(first, again)
    assert first.seed == -1


def test_rows_are_independent_runs():
    pulls = simulate(unit(), THETA, budget=50, replications=30, rng=1).pulls
    assert len(np.unique(pulls, axis=0)) > 20


@pytest.mark.parametrize("kind", [TopTwo, PEPS])
@pytest.mark.parametrize("problem", [unit, general])
def test_a_simulation_is_choosing_and_learning(kind, problem):
    problem, budget = problem().copy_with(noise_std=0.3), 80
    trace = simulate(problem, THETA, kind, budget=budget, replications=1, rng=7, checkpoints=range(1, budget + 1))
    policy = kind(problem, rng=7)
    seed = np.random.SeedSequence(7).spawn(1)[0]
    nature = Streams([named_seed(seed, "nature")])
    best = problem.oracle.argmax(THETA)
    for t in range(budget):
        arm = policy.next_arms()
        policy.learn(arm, problem.arms.row(arm)[0] @ THETA + 0.3 * nature.normal(1)[0])
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


def test_checkpoints_are_sorted_and_single_and_the_budget_is_spent_all_the_same():
    trace = simulate(unit(), THETA, budget=30, replications=3, checkpoints=[20, 5, 5, 1])
    assert trace.t.tolist() == [1, 5, 20]
    assert trace.correct.shape == (3, 3)
    assert trace.pulls.sum(axis=1).tolist() == [30] * 3


REFUSED = {
    "theta": [THETA[:4], np.full(5, np.nan)],
    "budget": [0, 5.0, float("nan")],
    "replications": [0, 2.5, "2"],
    "policy": ["thomson"],
    "rng": [-1, 0.5],
    "n_jobs": [0, 1.5, True, "2"],
    "checkpoints": [[0, 5], [5, 21], [-1], [], [2.5]],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in REFUSED.items() for value in values], ids=str
)
def test_arguments_out_of_range_are_typed_errors(name, value):
    arguments = {"theta": THETA, "policy": "peps", "budget": 20, "replications": 2} | {name: value}
    with pytest.raises(ParameterError, match=None if name in ("policy", "theta") else name):
        simulate(unit(), **arguments)


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


def trace(correct, t=None, price=1.0, cost=None):
    correct = np.asarray(correct, dtype=bool)
    runs, looks = correct.shape
    t = np.arange(1, looks + 1) * 10 if t is None else np.asarray(t)
    cost = np.broadcast_to(price * t, correct.shape) if cost is None else np.asarray(cost)
    return Trace(t, correct, np.full((runs, 2), 5), np.ones(looks), np.ones(looks), 3, cost.astype(float))


def staircase(runs, looks=50, seed=0):
    """Run r is right from a random look on."""
    start = np.random.default_rng(seed).integers(0, looks, size=runs)
    return trace(np.arange(looks) >= start[:, None])


def test_the_rate_and_its_two_standard_errors():
    rate, error = trace([[0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 1, 1]]).identification_rate()
    np.testing.assert_allclose(rate, [0.0, 0.25, 0.75, 1.0])
    np.testing.assert_allclose(error, [0.0, 2 * np.sqrt(0.1875 / 4), 2 * np.sqrt(0.1875 / 4), 0.0])


def test_the_first_time_above_the_level_counts_though_the_rate_falls_again():
    seen = trace([[0, 1, 1, 1], [0, 1, 0, 1], [0, 1, 0, 1], [0, 0, 0, 1]], t=[1, 4, 9, 16])
    assert seen.samples_to(0.7).samples == 4.0
    assert seen.samples_to(0.75).samples == 16.0  # exceeding, not reaching
    assert seen.samples_to(0.2).samples == 4.0


def test_a_level_never_reached_is_infinite():
    crossing = trace([[0, 1], [0, 0]]).samples_to(0.6)
    assert crossing.samples == np.inf
    assert crossing.high == np.inf


def test_the_interval_contains_the_point_and_narrows_with_runs():
    few, many = (staircase(runs).samples_to(0.5) for runs in (40, 4000))
    for crossing in (few, many):
        assert crossing.low <= crossing.samples <= crossing.high
    assert 0 < many.high - many.low < (few.high - few.low) / 3


def test_the_interval_covers_the_truth_as_often_as_it_says():
    """The rate exceeds 1/2 from look 26 of 50 on; 200 intervals at 80 %, and five standard deviations to both sides."""
    covered = 0
    for seed in range(200):
        crossing = staircase(100, seed=seed).samples_to(0.5, confidence=0.8, resamples=200)
        covered += crossing.low <= 260 <= crossing.high
    assert 160 - 5 * np.sqrt(200 * 0.16) <= covered <= 199


def test_a_wider_confidence_has_a_wider_interval():
    narrow, wide = (staircase(100).samples_to(0.5, confidence=level) for level in (0.5, 0.99))
    assert wide.low < narrow.low <= narrow.high < wide.high


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, float("nan")])
def test_levels_lie_between_0_and_1(level):
    with pytest.raises(ParameterError, match="level"):
        staircase(5).samples_to(level)
    with pytest.raises(ParameterError, match="level"):
        staircase(5).cost_to(level)


@pytest.mark.parametrize("name", ["run.npz", "run", "run.v2"])
def test_what_was_saved_is_loaded_from_the_same_path(tmp_path, name):
    before = staircase(7)
    before.save(tmp_path / name)
    after = Trace.load(tmp_path / name)
    for field in ("t", "correct", "pulls", "draws", "seconds", "cost"):
        np.testing.assert_array_equal(getattr(after, field), getattr(before, field))
        assert getattr(after, field).dtype == getattr(before, field).dtype
    assert after.seed == 3
    assert after.samples_to(0.5) == before.samples_to(0.5)


def test_joined_traces_weigh_costs_by_runs():
    one, two = trace([[0, 1]]), trace([[1, 1], [1, 1], [1, 1]])
    joined = Trace.join([one, Trace(two.t, two.correct, two.pulls, 5 * two.draws, two.seconds, two.seed, 7 * two.cost)])
    np.testing.assert_array_equal(joined.correct, [[0, 1], [1, 1], [1, 1], [1, 1]])
    np.testing.assert_allclose(joined.draws, [4.0, 4.0])
    assert len(joined.pulls) == 4
    np.testing.assert_array_equal(joined.cost, [[10, 20], [70, 140], [70, 140], [70, 140]])


# ---------------------------------------------------------------- what measurements cost

COST = np.array([0.1, 2.5, 0.7, 1.3, 1.0])


def priced():
    return unit_problem(TopKOracle(5, k=2), cost=COST)


def test_a_trace_knows_what_every_run_had_spent():
    trace = simulate(priced(), THETA, budget=30, replications=5, checkpoints=[7, 30])
    assert trace.cost.shape == (5, 2)
    np.testing.assert_allclose(trace.cost[:, 1], trace.pulls @ COST)
    assert (trace.cost[:, 0] < trace.cost[:, 1]).all()
    shorter = simulate(priced(), THETA, budget=7, replications=5, checkpoints=[7])
    np.testing.assert_allclose(trace.cost[:, 0], shorter.pulls @ COST)


def test_the_cost_of_a_rate_by_hand():
    """Runs are right from a cost of 6, 3, 8 and 2 on; run 2 is the first to end, at 8."""
    seen = trace([[0, 0, 1], [0, 1, 1], [0, 0, 1], [1, 1, 1]], cost=[[2, 4, 6 + 3], [1, 3, 9], [4, 6, 8], [2, 5, 11]])
    assert seen.cost_to(0.2).samples == 2.0
    assert seen.cost_to(0.25).samples == 3.0  # exceeding, not reaching
    assert seen.cost_to(0.5).samples == 8.0
    assert seen.cost_to(0.75).samples == np.inf  # run 0 needs 9, which run 2 has not spent


def test_a_run_that_has_bought_nothing_yet_is_not_right():
    seen = trace([[1, 1], [1, 1]], cost=[[1.0, 9.0], [5.0, 9.0]])
    assert seen.cost_to(0.4).samples == 1.0
    assert seen.cost_to(0.9).samples == 5.0


@pytest.mark.parametrize("price", [1.0, 0.25, 3.0])
def test_where_all_cost_the_same_it_is_the_number_of_measurements_times_that(price):
    rng = np.random.default_rng(0)
    t = np.unique(np.geomspace(1, 500, 60).astype(int))
    seen = trace(np.maximum.accumulate(rng.random((80, len(t))) < 0.05, axis=1), t, price)
    for level in (0.1, 0.5, 0.8):
        cost, count = seen.cost_to(level), seen.samples_to(level)
        assert (cost.samples, cost.low, cost.high) == tuple(price * x for x in (count.samples, count.low, count.high))


def test_many_different_costs_are_thinned_out_but_not_far():
    rng = np.random.default_rng(1)
    steps = rng.uniform(0.5, 1.5, size=(200, 50))
    cost = np.cumsum(steps, axis=1)
    right_from = np.linspace(5.0, 25.0, 200)
    found = trace(cost >= right_from[:, None], cost=cost).cost_to(0.5)
    assert found.samples == pytest.approx(16.0, abs=1.0)  # half are right from 15 on, and look once per unit of cost
    assert found.low <= found.samples <= found.high


def test_traces_without_costs_are_refused(tmp_path):
    simulate(unit_problem(TopKOracle(3, k=1)), [1.0, 0.5, 0.0], budget=10, replications=3).save(tmp_path / "new.npz")
    with np.load(tmp_path / "new.npz") as data:
        np.savez(tmp_path / "old.npz", **{key: data[key] for key in data.files if key != "cost"})
    with pytest.raises(FileFormatError, match="cost"):
        Trace.load(tmp_path / "old.npz")

"""Runs of a plan are calls of `identify`, on any number of processes; formats and budgets."""

import json

import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import Box, ShortestPathOracle, TopKOracle, identify, load_instance, plan
from combopeps.random import named_seed, seed_sequence
from combopeps.session import Plan
from combopeps.session.forecast import Forecast
from combopeps.session.plan_simulation import simulated_measurement
from combopeps.viz.canvas import save

THETA = {"a": 0.0, "b": 1.5, "c": 0.7}
PROBLEM = unit_problem(TopKOracle(list(THETA), k=1))


class Slow(TopKOracle):
    quick = False


QUICK = {"runs": 6, "delta": 0.1, "seconds": None}


def same(first: Plan, second: Plan) -> bool:
    parts = ("samples", "cost", "right", "ended", "error_probability", "loss", "right_at")
    return all(
        np.array_equal(getattr(a, part), getattr(b, part))
        for a, b in zip(first.forecasts, second.forecasts, strict=True)
        for part in parts
    )


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("slow items", "posterior"),
        ("items", "posterior"),
        ("items", "verified"),
        ("items", "certified"),
        ("items", "heuristic"),
        ("matching", "posterior"),
    ],
)
def test_a_run_equals_a_call_of_identify(name, rule):
    instance = load_instance("cyclic-matching")
    problem, theta = (instance.problem, instance.theta) if name == "matching" else (PROBLEM, list(THETA.values()))
    if name == "slow items":
        problem, theta = unit_problem(Slow(6, k=2)), [0.0, 1.5, 0.2, 1.2, 0.1, -0.5]
    ahead = plan(problem, theta=theta, stopping=rule, rng=5, runs=2, delta=0.1, seconds=None)
    for r in range(2):
        seed = named_seed(seed_sequence(5), "planned", r)
        measure = simulated_measurement(problem, np.asarray(theta, float), "normal", problem.noise, seed)
        own = identify(problem, measure, delta=0.1, stopping=rule, rng=np.random.default_rng(seed))
        assert (own.samples, own.cost) == (ahead[rule].samples[r], ahead[rule].cost[r])
        assert own.error_probability == ahead[rule].error_probability[r]
        best = problem.oracle.argmax(theta)
        assert ahead[rule].right[r] == (own.z @ theta >= best @ theta - 1e-12)


@pytest.mark.parametrize("options", [{"theta": THETA}, {}, {"theta": THETA, "theta_std": 0.2}, {"budget": 30}])
def test_runs_do_not_depend_on_the_number_of_processes(options):
    options = QUICK | {"most": 300, "runs": 4} | options
    alone = plan(PROBLEM, stopping=["posterior", "verified"], n_jobs=1, **options)
    assert same(alone, plan(PROBLEM, stopping=["posterior", "verified"], n_jobs=2, **options))
    assert not same(alone, plan(PROBLEM, stopping=["posterior", "verified"], n_jobs=1, rng=1, **options))


def test_runs_of_a_rule_do_not_depend_on_other_rules():
    first = plan(PROBLEM, theta=THETA, stopping=["posterior", "verified"], n_jobs=1, **QUICK)
    turned = plan(PROBLEM, theta=THETA, stopping=["verified", "posterior"], **QUICK)
    assert np.array_equal(turned["posterior"].samples, first["posterior"].samples)
    assert np.array_equal(turned["verified"].samples, first["verified"].samples)


def test_fewer_runs_are_the_first_ones():
    many, few = (plan(PROBLEM, theta=THETA, runs=n, n_jobs=1) for n in (8, 3))
    assert many["posterior"].samples[:3].tolist() == few["posterior"].samples.tolist()


def test_costs_are_paid():
    dear = unit_problem(TopKOracle(list(THETA), k=1), cost={"a": 1.0, "b": 4.0, "c": 2.0})
    ahead = plan(dear, theta=THETA, **QUICK)
    forecast = ahead["posterior"]
    assert (forecast.cost > forecast.samples).all()
    assert forecast.mean_cost.value == pytest.approx(forecast.cost.mean())
    assert "at a cost of" in ahead.words[0]
    assert "at a cost of" not in plan(PROBLEM, theta=THETA, **QUICK).words[0]


def test_actions_are_counted_as_actions():
    town = load_instance("town")
    ahead = plan(town.problem.copy_with(actions="answers", cost=1.0), theta=town.theta, **QUICK | {"runs": 3})
    assert ahead.unit == "actions"
    assert "actions" in ahead.words[0]
    assert ahead["posterior"].share_ended.value == 1.0
    assert (ahead["posterior"].cost == ahead["posterior"].samples).all()


def test_noise_of_unknown_size():
    open_noise = unit_problem(TopKOracle(list(THETA), k=1), noise_std=None)
    ahead = plan(open_noise, theta=THETA, true_noise_std=0.5, **QUICK)
    assert ahead["posterior"].runs == 6
    assert "noise is unknown" in ahead.least.why_not


def test_other_kinds_of_noise():
    clicks = {"a": 0.1, "b": 0.9, "c": 0.3}
    problem = unit_problem(TopKOracle(list(clicks), k=1), noise_std=0.5)
    assert plan(problem, theta=clicks, noise="bernoulli", **QUICK)["posterior"].runs == 6


def test_graphs_with_cycles_have_thetas_above_zero():
    import networkx as nx

    graph = nx.Graph([("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("b", "d")])
    ahead = plan(unit_problem(ShortestPathOracle(graph, "a", "d"), noise_std=0.2), **QUICK | {"most": 300})
    assert ahead["posterior"].runs == 6


def test_runs_are_cut_off_when_the_time_is_over():
    problem = unit_problem(TopKOracle(12, k=3))
    ahead = plan(problem, theta=1.0 - 0.05 * np.arange(12), stopping="certified", seconds=0.7, n_jobs=1)
    forecast = ahead["certified"]
    assert ahead.seconds < 5.0
    assert forecast.runs < 100
    assert forecast.timed_out.sum() >= 1
    assert forecast.mean_samples.at_least
    assert forecast.quantile(0.9) == np.inf
    assert any("cut off" in line and "time was over" in line for line in ahead.words)
    assert any(f"{forecast.runs} of 100 runs fitted" in line for line in ahead.words)
    assert forecast.times[-1] <= forecast.samples[forecast.timed_out].min()


def test_runs_are_cut_off_after_most_measurements():
    ahead = plan(PROBLEM, theta=THETA, most=12, **QUICK | {"delta": 1e-6})
    assert set(ahead["posterior"].samples.tolist()) == {12}
    assert not ahead["posterior"].ended.any()
    assert ahead["posterior"].mean_samples.at_least
    assert "at least 12 measurements" in ahead.words[0]


def test_formats_of_a_plan(tmp_path):
    ahead = plan(PROBLEM, theta=THETA, stopping=("posterior", "certified"), **QUICK)
    text = str(ahead)
    assert "posterior" in text
    assert "certified" in text
    assert "you will be right in about" in text
    assert len(repr(ahead)) < 2000
    assert "<table>" in ahead._repr_html_()
    frame = ahead.to_frame()
    assert frame["rule"].tolist() == ["posterior", "certified"]
    assert frame["mean_samples"][0] == ahead["posterior"].samples.mean()
    document = json.loads(json.dumps(ahead.to_dict(), allow_nan=False))
    assert document["forecasts"][0]["mean_samples"] == frame["mean_samples"][0]
    assert ahead.to_csv().splitlines()[0].startswith("rule,runs,mean_samples,")
    both = ahead.plot()
    assert [len(axes.lines) for axes in both] == [2, 2]
    json.dumps(plan(PROBLEM, theta=THETA, runs=1, n_jobs=1).to_dict(), allow_nan=False)  # an interval without end
    save(both[0], tmp_path / "plan.png")
    assert (tmp_path / "plan.png").stat().st_size > 10_000


def test_the_lower_bound_is_below_the_mean_of_guaranteed_rules():
    ahead = plan(PROBLEM, theta=THETA, stopping=["verified", "certified"], **QUICK | {"runs": 8})
    assert 0.0 < ahead.least.cost < min(f.mean_samples.value for f in ahead.forecasts)
    assert ahead.least.draws == 1
    assert plan(PROBLEM, most=50, **QUICK).least.draws == 5
    assert "epsilon" in plan(PROBLEM, theta=THETA, epsilon=0.1, **QUICK).least.why_not


def test_answers_within_epsilon_count_as_right():
    close = {"a": 1.0, "b": 1.0, "c": -1.0}
    ahead = plan(PROBLEM, theta=close, epsilon=0.5, **QUICK)
    assert ahead["posterior"].share_right.value == 1.0


def test_drawn_thetas_are_in_the_parameter_space():
    boxed = unit_problem(TopKOracle(3, k=1), space=Box(0.0, [1.0, 2.0, np.inf]))
    seeds = [named_seed(seed_sequence(0), "planned", r) for r in range(50)]
    from combopeps.session.plan_simulation import ThetaDistribution

    for guess in (ThetaDistribution(), ThetaDistribution(np.array([0.0, 2.0, 0.1]), 1.0)):
        thetas = np.array([guess.draw(boxed, seed) for seed in seeds])
        assert (thetas >= 0.0).all()
        assert (thetas <= [1.0, 2.0, np.inf]).all()
        assert len(np.unique(thetas[:, 0])) == 50


def test_what_a_budget_achieves():
    few, many = (plan(PROBLEM, theta=THETA, stopping="budget", budget=b, runs=30, n_jobs=1).reach for b in (4, 60))
    assert few.right.value < many.right.value
    assert few.delta > many.delta
    assert few.epsilon >= many.epsilon
    assert few.scale > many.scale
    assert many.gap == pytest.approx(0.8 * many.scale)
    drawn = plan(PROBLEM, budget=4, stopping="budget", runs=30, n_jobs=1)
    assert np.isnan(drawn.reach.scale)
    assert "no guess" in drawn.reach.why_not
    assert drawn.reach.epsilon > 0.0
    assert any("worse than the best by at most" in line for line in drawn.words)


def test_a_budget_is_that_of_identify():
    """For runs that have not ended within the budget, the answer of the moment counts."""
    long, short = (plan(PROBLEM, theta=THETA, runs=10, n_jobs=1, budget=b) for b in (None, 20))
    assert short["posterior"].samples.tolist() == np.minimum(long["posterior"].samples, 20).tolist()
    assert short["posterior"].share_right.value == long["posterior"].right_within(20).value


def test_all_runs_go_to_the_cluster(monkeypatch):
    from combopeps.session import plan as plan_module

    asked = []

    def parallel_map(function, tasks, **options):
        asked.append((len(tasks), options["scheduler"]))
        return [function(*task) for task in tasks]

    monkeypatch.setattr(plan_module, "parallel_map", parallel_map)
    there = plan(PROBLEM, theta=THETA, scheduler="tcp://somewhere:8786", **QUICK)
    assert asked == [(6, "tcp://somewhere:8786")]
    assert same(there, plan(PROBLEM, theta=THETA, **QUICK))


def test_ctrl_c_ends_the_plan_and_not_a_run():
    """Ctrl-C ends a call of `identify` in order: without care, a plan would count the run and continue with the next."""
    begun = []

    class Stopping(TopKOracle):
        def _argmax_batch(self, thetas):
            begun.append(len(thetas))
            if len(begun) == 400:
                raise KeyboardInterrupt
            return super()._argmax_batch(thetas)

    with pytest.raises(KeyboardInterrupt):
        plan(unit_problem(Stopping(30, k=5)), n_jobs=1, runs=50, most=2000, seconds=None)
    assert len(begun) < 800


def test_runs_that_timed_out_are_not_used_for_the_budget():
    ahead = plan(unit_problem(TopKOracle(3, k=1)), seconds=1e-6, runs=3, budget=50, stopping=["posterior", "verified"])
    assert ahead["budget"].timed_out.all()
    assert ahead.reach.right.runs == 0
    assert "not known: no run used the budget up in the time" in " ".join(ahead.words)
    assert "With 50 measurements you will be right" not in " ".join(ahead.words)


def test_gaps_of_an_uncertain_guess_are_not_scaled():
    guess = [0.0, 0.5, 1.0, 1.5, 2.2, 3.0]
    exact = plan(unit_problem(TopKOracle(6, k=2)), theta=guess, budget=40, runs=40, n_jobs=1).reach
    drawn = plan(unit_problem(TopKOracle(6, k=2)), theta=guess, theta_std=1.0, budget=40, runs=40, n_jobs=1).reach
    assert exact.scale > 0.0
    assert np.isnan(drawn.scale)
    assert "drawn around the guess" in drawn.why_not


def test_a_share_of_right_answers_must_not_fall_again():
    right_at = np.ones((10, 4), dtype=bool)
    right_at[:3, [0, 2]] = False
    every, none = np.ones(10, dtype=bool), np.zeros(10, dtype=bool)
    times = np.array([1, 2, 4, 8])
    forecast = Forecast(
        "posterior", np.full(10, 8), np.full(10, 8.0), every, every, none, np.zeros(10), np.zeros(10), times, right_at
    )
    assert forecast.budget_for(0.9) == 8
    assert forecast.budget_for(0.7) == 1

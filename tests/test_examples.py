"""Every script in docs/examples runs: shortened here, at full size in the slow suite."""

import importlib.util
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from unit_problem import unit_problem

from combopeps import Result, TopKOracle

EXAMPLES = Path(__file__).resolve().parents[1] / "docs" / "examples"
SMALL = ["route", "ranking", "assignment", "own_oracle", "parallel", "whole_routes", "trial_trees"]
HUGE = ["huge_topk", "huge_grid", "huge_matching"]


def load(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(result, printed, budget):
    """What holds for every run, right or wrong."""
    assert isinstance(result, Result)
    oracle = result.session.policy.problem.oracle
    assert oracle.decode(result.z) == result.answer
    assert np.array_equal(oracle.encode(result.answer), result.z)
    assert result.runner_up != result.answer
    assert 0 <= result.error_probability <= 1
    assert result.samples == sum(result.pulls.values())
    made = result.samples if result.session.policy.problem.actions is None else result.session.policy.actions[0]
    assert budget is None or made <= budget
    assert result.stop_reason == "posterior" or made == budget
    assert str(result.samples) in printed
    assert "wrong with probability" in printed


def test_no_script_is_forgotten():
    assert sorted(path.stem for path in EXAMPLES.glob("*.py")) == sorted([*SMALL, *HUGE])


@pytest.mark.parametrize("name", SMALL + HUGE)
def test_shortened(name, capsys):
    check(load(name).main(budget=20, seed=1), capsys.readouterr().out, budget=20)


@pytest.mark.parametrize("name", ["ranking", "huge_matching"])
def test_the_same_seed_gives_the_same_run(name, capsys):
    first, second = (load(name).main(budget=30, seed=5) for _ in range(2))
    assert first.pulls == second.pulls
    assert np.array_equal(first.z, second.z)


def best_route(script):
    town = nx.Graph()
    town.add_weighted_edges_from((*street, minutes) for street, minutes in script.MINUTES.items())
    return nx.shortest_path(town, "station", "hospital", weight="weight")


def best_ranking(script):
    return set(sorted(script.RATES, key=script.RATES.get)[-5:])


def best_assignment(script):
    people, jobs = linear_sum_assignment(list(script.MINUTES.values()))
    return {list(script.MINUTES)[i]: script.JOBS[j] for i, j in zip(people, jobs, strict=True)}


def best_tree(script):
    villages = nx.Graph()
    villages.add_weighted_edges_from((*road, cost) for road, cost in script.COSTS.items())
    chosen = {frozenset(road) for road in nx.minimum_spanning_tree(villages).edges}
    return {road for road in script.COSTS if frozenset(road) in chosen}


def best_servers(script):
    return set(sorted(script.SPEEDS, key=script.SPEEDS.get)[-3:])


def best_trip(script):
    return nx.shortest_path(script.city(), (0, 0), (script.CORNERS - 1, script.CORNERS - 1), weight="minutes")


def best_network(script):
    sites = nx.Graph()
    sites.add_weighted_edges_from((*cable, price) for cable, price in script.prices().items())
    return sorted(nx.minimum_spanning_tree(sites).edges, key=list(sites.edges).index)


TRUTH = {
    "route": best_route,
    "ranking": best_ranking,
    "assignment": best_assignment,
    "own_oracle": best_tree,
    "parallel": best_servers,
    "whole_routes": best_trip,
    "trial_trees": best_network,
}


@pytest.mark.parametrize("name", SMALL)
def test_full_size_gives_the_right_answer(name, capsys):
    script = load(name)
    result = script.main()
    check(result, capsys.readouterr().out, budget=None)
    assert result.answer == TRUTH[name](script)
    assert result.error_probability <= result.delta


def test_results_may_come_in_any_order():
    script = load("parallel")
    problem = unit_problem(TopKOracle(script.SPEEDS, k=3), noise_std=script.NOISE, prior_std=script.TYPICAL)
    result = script.as_they_come(problem, budget=None, seed=0)
    assert result.answer == best_servers(script)
    assert result.session.open_queries == []
    shortened = script.as_they_come(problem, budget=19, seed=0)
    assert shortened.samples <= 19


@pytest.mark.slow
@pytest.mark.parametrize("name", HUGE)
def test_huge_sets_to_the_right_answer(name, capsys):
    result = load(name).main()
    printed = capsys.readouterr().out
    check(result, printed, budget=None)
    assert result.error_probability <= result.delta
    mistakes = next(line for line in printed.splitlines() if "not belong" in line or "wrong job" in line)
    assert mistakes.endswith("[]")

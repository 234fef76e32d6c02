"""Where costs differ, TopTwo leaves out arms whose measurement can be had for less; elsewhere nothing changes."""

import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import ExplicitOracle, TopKOracle, TopTwo, simulate
from combopeps.posterior.arms import Arms

SOARE = np.array([[1.0, 0.0], [0.0, 1.0], [np.cos(0.1), np.sin(0.1)]])


def by_hand(rows):
    """Pairs that are parallel, one by one."""
    found = []
    for x in rows:
        longer = [y for y in rows if y @ y > (1 + 1e-6) * (x @ x)]
        found.append(any(abs(abs(x @ y) - np.linalg.norm(x) * np.linalg.norm(y)) < 1e-9 * (y @ y) for y in longer))
    return found


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("units", [False, True])
def test_outdone_arms_against_all_pairs(units, seed):
    rng = np.random.default_rng(seed)
    lines = np.eye(4) if units else rng.normal(size=(4, 4))
    rows = lines[rng.integers(4, size=12)] * rng.choice([-3.0, -1.0, 0.1, 1.0, 2.0], size=(12, 1))
    arms = Arms(rows)
    assert arms.are_units == units
    assert arms.outdone.tolist() == by_hand(rows)
    assert 0 < arms.outdone.sum() < 12


def problems():
    rows = np.concatenate([SOARE, -SOARE])
    yield (
        unit_problem(ExplicitOracle(SOARE), rows, [1.0] * 3 + [0.5] * 3, cost=[1.0] * 3 + [10.0] * 3),
        np.array([1.0, 0.0]),
    )
    eye = np.concatenate([np.eye(3), np.eye(3)])
    yield (
        unit_problem(TopKOracle(3, k=1), eye, [1.0] * 3 + [0.5] * 3, cost=[1.0] * 3 + [10.0] * 3),
        np.array([1.0, 0.5, 0.0]),
    )


@pytest.mark.parametrize("case", range(2), ids=["general arms", "unit arms"])
def test_the_worse_bargain_is_never_measured(case):
    problem, theta = list(problems())[case]
    pulls = simulate(problem, theta, TopTwo, budget=60, replications=20).pulls.sum(axis=0)
    assert not pulls[3:].any()
    better = problem.restated(cost=[1.0] * 3 + [2.0] * 3)  # four times the information for twice the cost
    pulls = simulate(better, theta, TopTwo, budget=60, replications=20).pulls.sum(axis=0)
    assert not pulls[:3].any()


def test_equal_bargains_are_both_measured():
    eye = np.concatenate([np.eye(3), np.eye(3)])
    problem = unit_problem(TopKOracle(3, k=1), eye, cost=[1.0, 2.0, 4.0] * 2)
    pulls = simulate(problem, [1.0, 0.5, 0.0], TopTwo, budget=60, replications=20).pulls.sum(axis=0)
    assert pulls.min() > 0


def test_equal_costs_leave_every_arm_in():
    problem = next(problems())[0].restated(cost=3.0)
    assert simulate(problem, [1.0, 0.0], TopTwo, budget=60, replications=20).pulls.sum(axis=0).min() > 0

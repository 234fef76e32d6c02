"""`python -m benchmarks.actions`: the instances are those that the page speaks of, and runs count what they should."""

import numpy as np
import pytest

from benchmarks.actions import routes, trees
from combopeps import Session


@pytest.mark.parametrize(("name", "least"), [("tree-e20", 1818), ("tree-e25", 1779)])
def test_the_best_allocation_meets_the_threshold(name, least):
    t = trees.limit(name)
    assert t == pytest.approx(least, rel=0.01)  # tau* = 2.444e-3 and 2.496e-3, solved by hand


def test_a_run_by_trees_reads_all_their_edges():
    run = trees.one("tree-e20", "top-two", "posterior", 0)
    assert run.readings == 7 * run.trees


def test_streets_are_two_way_and_about_five_hundred():
    problem, theta = routes.streets()
    assert problem.oracle.domain == "nonnegative"
    assert 450 <= problem.oracle.dim <= 500
    assert (theta > 0).all()


def test_readings_are_what_a_counted_policy_spends():
    problem, _ = routes.known("two-nets")
    policy = routes.counted(routes.TopTwo)(problem.copy_with(actions="answers"), rng=0)
    session = Session(policy.problem, policy=policy)
    query = session.ask()
    session.tell(query, [0.0] * len(query.arms))
    np.testing.assert_array_equal(policy.spent, [len(query.arms)])

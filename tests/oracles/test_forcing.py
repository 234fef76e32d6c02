"""With and without a component: against enumeration, for units of any size and sign."""

import networkx as nx
import numpy as np
import pytest

from combopeps import (
    ExplicitOracle,
    MatchingOracle,
    PartitionOracle,
    ShortestPathOracle,
    SpanningTreeOracle,
    TopKOracle,
)
from combopeps.oracles.base import ArgmaxOracle
from combopeps.oracles.constrained_argmax import (
    can_constrain,
    constrained_argmax,
    enumerate_answers,
    flip_one_component,
    second_best,
)

GRID = nx.DiGraph(nx.grid_2d_graph(3, 3).edges)
ORACLES = {
    "top-k": TopKOracle(6, k=3),
    "route": ShortestPathOracle(GRID, (0, 0), (2, 2)),
    "longest": ShortestPathOracle(GRID, (0, 0), (2, 2), objective="max"),
    "matching": MatchingOracle(3, 3, maximize=False),
    "rectangular": MatchingOracle(3, 4),
    "ortools": MatchingOracle(3, 3, engine="ortools"),
    "tree": SpanningTreeOracle(nx.complete_graph(4)),
    "greatest tree": SpanningTreeOracle(nx.cycle_graph(5), "max"),
    "groups": PartitionOracle([[0, 1, 2], [3, 4]], [2, 1], objective="min"),
    "groups, at most": PartitionOracle([[0, 1, 2], [3, 4]], [2, 1], exactly=False),
}
SUBSETS = (np.arange(32)[:, None] >> np.arange(5) & 1).astype(float)


class Subsets(ArgmaxOracle):
    """All subsets of five items: answers contain each other."""

    binary = True

    def __init__(self, unit):
        super().__init__(range(5))
        self.unit = unit

    def _argmax_batch(self, thetas):
        return self.unit * SUBSETS[(self.unit * thetas @ SUBSETS.T).argmax(axis=1)]


def cases():
    for name, oracle in ORACLES.items():
        yield pytest.param(oracle, np.array(enumerate_answers(oracle, limit=500)), id=name)
    for unit in (1.0, -1.0, 0.25, -3.0):
        yield pytest.param(Subsets(unit), unit * SUBSETS, id=f"subsets-{unit:g}")


@pytest.mark.parametrize(("oracle", "Z"), list(cases()))
@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
def test_the_best_answer_that_obeys(oracle, Z, scale):
    rng = np.random.default_rng(0)
    thetas = scale * rng.normal(size=(60, oracle.dim))
    wanted = rng.choice([-1, 0, 1], p=[0.15, 0.7, 0.15], size=thetas.shape)
    found = constrained_argmax(oracle, thetas, wanted)
    for theta, want, z, is_feasible, slack in zip(thetas, wanted, *found, strict=True):
        allowed = Z[((want == 0) | ((Z != 0.0) == (want > 0))).all(axis=1)]
        assert is_feasible == (len(allowed) > 0)
        if is_feasible:
            assert (allowed == z).all(axis=1).any()
            assert z @ theta >= (allowed @ theta).max() - abs(oracle.unit) * slack - 1e-12 * np.abs(theta).sum()
    assert found.is_feasible.any()


def test_where_no_theta_is_given_any_answer_that_obeys_will_do():
    wanted = flip_one_component(np.arange(6), np.array([1.0, 1, 1, 0, 0, 0]))
    found = constrained_argmax(TopKOracle(6, k=3), np.zeros(6), wanted)
    assert found.is_feasible.all()
    assert (found.slack == 0.0).all()


def test_what_clipping_hides_is_in_the_slack():
    """Theta >= 0 only: a component can be kept out of a shortest route, and only invited in."""
    oracle = ShortestPathOracle(nx.cycle_graph(4), 0, 2)
    theta = np.array([1.0, 5.0, 1.0, 5.0])
    z = oracle.argmax(theta)
    out = constrained_argmax(oracle, theta, flip_one_component(np.flatnonzero(z), z))
    assert out.is_feasible.all()
    assert (out.slack < 1e-9).all()
    into = constrained_argmax(oracle, theta, flip_one_component(np.flatnonzero(z == 0.0), z))
    assert (into.slack >= theta.sum()).all()


@pytest.mark.parametrize(("oracle", "Z"), list(cases()))
def test_the_second_best(oracle, Z):
    rng = np.random.default_rng(1)
    for theta in rng.normal(size=(30, oracle.dim)):
        order = np.argsort(-(Z @ theta))
        assert can_constrain(oracle)
        assert second_best(oracle, theta, Z[order[0]]) @ theta == pytest.approx((Z @ theta)[order[1]], rel=1e-9)


def test_no_second_best():
    assert second_best(ExplicitOracle([[1.0, 2.0]]), np.ones(2), np.array([1.0, 2.0])) is None
    assert second_best(MatchingOracle(1, 1), np.ones(1), np.ones(1)) is None

"""Theta: all of R^d, or a box, possibly open to one side."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from combopeps import Box, ComboPepsError, ShortestPathOracle, TopKOracle
from combopeps.errors import SpaceError
from combopeps.posterior import RealSpace
from combopeps.posterior.parameter_space import space_for

INF = np.inf
CYCLIC = ShortestPathOracle(nx.DiGraph([(0, 1), (0, 2), (1, 2), (2, 1), (2, 3), (1, 3)]), 0, 3)
VECTOR = Box([0.0, -1.0, -INF], [1.0, INF, 2.0])


def test_real_space_holds_everything():
    space, thetas = RealSpace(), np.array([[1e300, -1e300], [0.0, 1.0]])
    assert space.contains(thetas).tolist() == [True, True]
    assert space.contains(thetas[0]).shape == ()
    np.testing.assert_array_equal(space.project(thetas), thetas)
    low, high = space.bounds(2)
    assert low.tolist() == [-INF, -INF]
    assert high.tolist() == [INF, INF]


def test_numbers_serve_every_coordinate():
    low, high = Box(0, 1.5).bounds(3)
    assert low.tolist() == [0.0] * 3
    assert high.tolist() == [1.5] * 3


def test_the_boundary_belongs_to_the_box():
    inside = Box(0.0, 1.0).contains(np.array([[0.0, 1.0], [0.0, np.nextafter(1.0, 2.0)], [-1e-300, 0.5]]))
    assert inside.tolist() == [True, False, False]


def test_vectors_and_half_open_sides():
    thetas = np.array([[0.5, 1e9, -1e9], [0.5, -2.0, 0.0], [0.5, 0.0, 2.1], [-0.1, 0.0, 0.0]])
    assert VECTOR.contains(thetas).tolist() == [True, False, False, False]
    np.testing.assert_array_equal(VECTOR.project(thetas[1]), [0.5, -1.0, 0.0])
    np.testing.assert_array_equal(VECTOR.project(thetas[2]), [0.5, 0.0, 2.0])


def test_one_vector_with_one_number():
    low, high = Box([0.0, 1.0], 2.0).bounds(2)
    assert low.tolist() == [0.0, 1.0]
    assert high.tolist() == [2.0, 2.0]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000))
def test_the_projection_is_the_nearest_point(seed):
    rng = np.random.default_rng(seed)
    low = rng.normal(size=4)
    box = Box(low, np.where(rng.random(4) < 0.3, INF, low + rng.exponential(size=4)))
    theta = 3.0 * rng.normal(size=4)
    nearest = box.project(theta)
    assert box.contains(nearest)
    np.testing.assert_array_equal(box.project(nearest), nearest)
    others = box.project(3.0 * rng.normal(size=(200, 4)))
    assert np.linalg.norm(theta - nearest) <= np.linalg.norm(theta - others, axis=1).min() + 1e-12


def test_projection_leaves_the_argument_alone():
    theta = np.array([-1.0, 2.0])
    Box(0.0, 1.0).project(theta)
    np.testing.assert_array_equal(theta, [-1.0, 2.0])


def test_bounds_are_not_shared():
    """Who changes what `bounds` returned does not change the box."""
    low, _ = VECTOR.bounds(3)
    low[:] = 99.0
    assert VECTOR.bounds(3)[0].tolist() == [0.0, -1.0, -INF]


def test_equality_and_hash():
    assert RealSpace() == RealSpace()
    assert hash(RealSpace()) == hash(RealSpace())
    assert Box(0, 1) == Box(0.0, 1.0)
    assert hash(Box(0, 1)) == hash(Box(0.0, 1.0))
    assert Box(0, 1) != Box(0, 2)
    assert Box([0.0, 0.0], 1) != Box([0.0, 0.5], 1)
    assert Box() != RealSpace()
    assert RealSpace() != Box()
    assert Box(0, 1) != "Box(0, 1)"


def test_equal_boxes_have_equal_hashes():
    """-0.0 equals 0.0."""
    assert Box(-0.0, 1) == Box(0.0, 1)
    assert hash(Box(-0.0, 1)) == hash(Box(0.0, 1))


FAULTS = {
    "reversed": (1.0, 0.0),
    "empty": (1.0, 1.0),
    "reversed in one coordinate": ([0.0, 1.0], [1.0, 0.5]),
    "NaN low": (np.nan, 1.0),
    "NaN high": (0.0, np.nan),
    "NaN in a vector": ([0.0, np.nan], 1.0),
    "lengths differ": ([0.0, 0.0], [1.0, 1.0, 1.0]),
    "matrix": (np.zeros((2, 2)), 1.0),
    "words": ("low", "high"),
    "None": (None, None),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_impossible_boxes_are_refused(fault):
    with pytest.raises(SpaceError) as caught:
        Box(*FAULTS[fault])
    assert isinstance(caught.value, ComboPepsError)


@pytest.mark.parametrize("end", [INF, -INF])
def test_a_box_at_infinity_is_refused(end):
    with pytest.raises(SpaceError):
        Box(end, end)


def test_a_box_of_another_dimension_is_refused():
    with pytest.raises(SpaceError, match="3 coordinates, the problem has 4"):
        VECTOR.bounds(4)
    with pytest.raises(SpaceError):
        VECTOR.contains(np.zeros(4))
    with pytest.raises(SpaceError):
        space_for(TopKOracle(4, 1), VECTOR)


def test_the_default_is_what_the_oracle_can_maximise_over():
    assert space_for(TopKOracle(4, 1), None) == RealSpace()
    assert space_for(CYCLIC, None) == Box(0.0, INF)


def test_a_nonnegative_oracle_takes_nonnegative_boxes_only():
    assert CYCLIC.domain == "nonnegative"
    space = Box(0.5, 2.0)
    assert space_for(CYCLIC, space) is space
    for wrong in (RealSpace(), Box(-1.0, 1.0), Box(-np.eye(CYCLIC.dim)[0], 1.0)):
        with pytest.raises(SpaceError, match=r"Box\(0, high\)"):
            space_for(CYCLIC, wrong)


def test_repr_shows_the_ends():
    assert repr(RealSpace()) == "RealSpace()"
    assert repr(Box(0, 1)) == "Box(0.0, 1.0)"

"""Arms that do not identify the answers are refused, with a direction that proves it."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from combopeps import ExplicitOracle, MatchingOracle, ShortestPathOracle, TopKOracle
from combopeps.errors import IdentifiabilityError
from combopeps.posterior import Arms, check_identifiability

RING = nx.DiGraph([(i, (i + step) % 6) for i in range(6) for step in (1, 5)])


def refused(arms, oracle, Z):
    """The direction of the error, checked: unit length, invisible to the arms, not to the answers."""
    with pytest.raises(IdentifiabilityError, match="no combination of the arms") as caught:
        check_identifiability(arms, oracle)
    direction = caught.value.direction
    rows = arms.row(np.arange(len(arms)))
    assert np.linalg.norm(direction) == pytest.approx(1.0)
    np.testing.assert_allclose(rows @ direction, 0.0, atol=1e-7 * np.abs(rows).max())
    assert np.ptp(Z @ direction) > 1e-6 * np.abs(Z).max()
    return direction


ORACLES = {
    "top-k": TopKOracle(5, 2),
    "matching": MatchingOracle(3, 3),
    "path": ShortestPathOracle(nx.DiGraph([(0, 1), (1, 3), (0, 2), (2, 3)]), 0, 3),
    "cyclic path": ShortestPathOracle(RING, 0, 3),
    "explicit": ExplicitOracle(np.random.default_rng(0).normal(size=(12, 4))),
}


@pytest.mark.parametrize("name", ORACLES)
def test_one_arm_per_component_suffices(name):
    check_identifiability(Arms.of(ORACLES[name]), ORACLES[name])


@pytest.mark.parametrize("name", ORACLES)
def test_a_missing_component_is_named(name):
    oracle = ORACLES[name]
    arms = Arms.of(oracle, oracle.components[1:])
    with pytest.raises(
        IdentifiabilityError, match=repr(oracle.components[0]).replace("(", r"\(").replace(")", r"\)")
    ) as caught:
        check_identifiability(arms, oracle)
    np.testing.assert_allclose(np.abs(caught.value.direction), np.eye(oracle.dim)[0], atol=1e-12)


def test_arms_that_only_measure_differences_suffice():
    """Top-k answers all have the same sum: pairwise duels tell them apart although they do not span R^d."""
    duels = np.array([np.eye(5)[i] - np.eye(5)[i + 1] for i in range(4)])
    assert np.linalg.matrix_rank(duels) == 4
    check_identifiability(Arms(duels), TopKOracle(5, 2))


def test_differences_do_not_suffice_when_sums_differ():
    Z = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
    duels = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])
    direction = refused(Arms(duels), ExplicitOracle(Z), Z)
    np.testing.assert_allclose(np.abs(direction), 1 / np.sqrt(3), rtol=1e-9)


def test_a_gap_between_duels_is_found():
    duels = np.array([np.eye(5)[i] - np.eye(5)[i + 1] for i in (0, 1, 3)])
    oracle = TopKOracle(5, 2)
    refused(Arms(duels), oracle, oracle.argmax(np.random.default_rng(0).normal(size=(200, 5))))


def test_a_weak_arm_still_measures():
    check_identifiability(Arms(np.array([[1.0, 0.0], [1.0, 1e-9]])), ExplicitOracle(np.eye(2)))


def test_an_arm_below_rounding_does_not_measure():
    rows = np.array([[0.3, 0.1], [3 * 0.3, 3 * 0.1], [0.3 / 7, 0.1 / 7]])
    refused(Arms(rows), ExplicitOracle(np.eye(2)), np.eye(2))


@pytest.mark.parametrize("size", [1e-13, 1e-6, 1e6])
def test_the_scale_of_the_answers_does_not_matter(size):
    Z = size * np.eye(3)
    refused(Arms(np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])), ExplicitOracle(Z), Z)
    check_identifiability(Arms(np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 1.0, 1.0]])), ExplicitOracle(Z))


@pytest.mark.parametrize("size", [1e-8, 1e8])
def test_the_scale_of_the_arms_does_not_matter(size):
    Z = np.eye(3)
    refused(Arms(size * np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])), ExplicitOracle(Z), Z)
    check_identifiability(Arms(size * np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 1.0, 1.0]])), ExplicitOracle(Z))


def test_one_answer_needs_no_arm_at_all():
    check_identifiability(Arms(np.array([[1.0, 0.0]])), ExplicitOracle([[3.0, 4.0]]))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(2, 6))
def test_refused_if_and_only_if_the_rank_is_too_small(seed, K, rows):
    """Small integers: numpy's rank of arms with and without the differences is beyond doubt."""
    rng = np.random.default_rng(seed)
    d = 5
    Z = np.unique(rng.integers(-1, 2, size=(rows, d)).astype(float), axis=0)
    matrix = rng.integers(-2, 3, size=(K, d)).astype(float)
    matrix[~matrix.any(axis=1), 0] = 1.0
    oracle = ExplicitOracle(Z)
    corners = np.unique(oracle.argmax(np.random.default_rng(1).normal(size=(2000, d))), axis=0)
    stacked = np.concatenate([matrix, corners - corners[0]])
    if np.linalg.matrix_rank(stacked) == np.linalg.matrix_rank(matrix):
        check_identifiability(Arms(matrix), oracle)
    else:
        refused(Arms(matrix), oracle, Z)

"""`Arms.of` with labels, arrays, sparse matrices and dicts; invalid arms."""

import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_array, eye_array

from combopeps import ExplicitOracle, TopKOracle
from combopeps.errors import LabelError, ParameterError
from combopeps.posterior import Arms

ORACLE = TopKOracle(["a", "b", "c"], k=1)


def test_one_arm_per_component_by_default():
    arms = Arms.of(ORACLE)
    assert (len(arms), arms.dim, arms.labels, arms.are_units) == (3, 3, ("a", "b", "c"), True)
    np.testing.assert_array_equal(arms.row(np.arange(3)), np.eye(3))


def test_component_labels():
    arms = Arms.of(ORACLE, ["c", "a"])
    assert (arms.labels, arms.are_units) == (("c", "a"), True)
    np.testing.assert_array_equal(arms.row(np.arange(2)), [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])


@pytest.mark.parametrize("wrap", [np.asarray, csr_array, lambda rows: dict(zip("xy", rows, strict=True))])
def test_rows_as_array_sparse_matrix_or_dict(wrap):
    rows = np.array([[1.0, 1.0, 0.0], [0.0, -2.0, 3.0]])
    arms = Arms.of(ORACLE, wrap(rows))
    assert not arms.are_units
    np.testing.assert_array_equal(arms.row(np.arange(2)), rows)
    np.testing.assert_array_equal(arms.row(1), rows[1])


def test_labels_of_a_dict_are_kept():
    assert Arms.of(ORACLE, {"left": [1, 0, 0], "right": [0, 1, 1]}).labels == ("left", "right")
    assert Arms.of(ORACLE, np.eye(3)[:2]).labels == (0, 1)


@pytest.mark.parametrize("wrap", [np.asarray, csr_array])
def test_multiples_of_unit_vectors_are_recognised(wrap):
    rows = np.array([[0.0, -2.0, 0.0], [0.0, 0.5, 0.0], [3.0, 0.0, 0.0]])
    arms = Arms.of(ORACLE, wrap(rows))
    assert arms.are_units
    assert arms.matrix is None
    np.testing.assert_array_equal(arms.row(np.array([0, 1, 2])), rows)
    np.testing.assert_array_equal(arms.row(0), rows[0])


def test_integers_are_accepted():
    np.testing.assert_array_equal(Arms.of(ORACLE, np.array([[1, 2, 0]])).row(0), [1.0, 2.0, 0.0])


def test_arms_pass_through():
    arms = Arms.of(ORACLE, ["b"])
    assert Arms.of(ORACLE, arms) is arms


def test_a_large_sparse_identity_needs_no_full_matrix():
    d = 3_000
    sparse = eye_array(d, format="csr")
    tracemalloc.start()
    try:
        arms = Arms.of(TopKOracle(d, 5), sparse)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert arms.are_units
    assert np.flatnonzero(arms.row(d - 1)).tolist() == [d - 1]
    assert peak < d * d, f"{peak / 1e6:.0f} MB, a full matrix has {8 * d * d / 1e6:.0f}"


BAD = {
    "unknown label": (["a", "z"], LabelError, "oracle.components"),
    "unhashable label": ([["a"]], LabelError, "oracle.components"),
    "empty": ([], ParameterError, "at least one"),
    "empty dict": ({}, ParameterError, "K x 3"),
    "no rows": (np.zeros((0, 3)), ParameterError, "K x 3"),
    "wrong width": (np.ones((2, 4)), ParameterError, "K x 3"),
    "wrong width, sparse": (csr_array(np.ones((2, 4))), ParameterError, "K x 3"),
    "ragged dict": ({"x": [1, 2, 3], "y": [1]}, ParameterError, "rectangular array"),
    "NaN": (np.array([[1.0, np.nan, 0.0]]), ParameterError, "NaN"),
    "infinity": ({"x": [1.0, np.inf, 0.0]}, ParameterError, "infinity"),
    "zero arm": (np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]), ParameterError, "arm 1 is the zero vector"),
    "words": (np.array([["x", "y", "z"]]), ParameterError, "numbers"),
}


@pytest.mark.parametrize("fault", BAD)
def test_bad_arms_are_refused(fault):
    arms, error, words = BAD[fault]
    with pytest.raises(error, match=words):
        Arms.of(ORACLE, arms)


def test_the_matrix_is_copied():
    rows = np.array([[1.0, 1.0], [1.0, -1.0]])
    arms = Arms.of(ExplicitOracle(np.eye(2)), rows)
    rows[0] = 99.0
    np.testing.assert_array_equal(arms.row(0), [1.0, 1.0])


def test_repr_states_the_kind():
    assert repr(Arms.of(ORACLE)) == "Arms(3 unit arms in d=3)"
    assert repr(Arms.of(ORACLE, np.ones((2, 3)))) == "Arms(2 general arms in d=3)"

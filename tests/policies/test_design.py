"""g_optimal against the equivalence theorem: the optimal value is the rank of the arms."""

import numpy as np
import pytest

from combopeps import ExplicitOracle, g_optimal
from combopeps.errors import ParameterError
from combopeps.posterior import Arms

SOARE = np.array([[1.0, 0.0], [0.0, 1.0], [np.cos(0.1), np.sin(0.1)]])


def sphere(arms, d, seed):
    points = np.random.default_rng(seed).normal(size=(arms, d))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def value(X, lam):
    """max_x x' A(lam)^+ x."""
    inverse = np.linalg.pinv(X.T @ (lam[:, None] * X), rcond=1e-10)
    return max(x @ inverse @ x for x in X)


ARMS = {
    "soare": SOARE,
    "sphere": sphere(20, 6, 0),
    "many": sphere(500, 4, 1),
    "scales": np.diag([1.0, 10.0, 0.1]) @ sphere(3, 3, 2),
    "basis": sphere(5, 5, 3),
    "rank deficient": sphere(10, 3, 5) @ np.random.default_rng(6).normal(size=(3, 8)),
    "repeated": np.concatenate([sphere(6, 3, 4)] * 2),
}


@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize("gap", [1e-1, 1e-3])
def test_the_value_is_within_the_gap_of_the_rank(name, gap):
    X = ARMS[name]
    lam, rank = g_optimal(X, gap=gap), np.linalg.matrix_rank(X)
    assert (lam >= 0).all()
    assert lam.sum() == pytest.approx(1.0, abs=1e-9)
    assert rank * (1 - (1e-9 if rank == X.shape[1] else 1e-6)) <= value(X, lam) <= rank * (1 + gap) * (1 + 1e-6)


def test_uniform_is_not_good_enough_on_these_arms():
    assert value(SOARE, np.full(3, 1 / 3)) > 2 * 1.1


def test_identity_arms_are_uniform_at_once():
    np.testing.assert_array_equal(g_optimal(np.eye(7), max_steps=0), np.full(7, 1 / 7))
    np.testing.assert_array_equal(g_optimal(Arms.of(ExplicitOracle(np.eye(5)))), np.full(5, 0.2))


def test_components_have_their_longest_arm_or_nothing():
    X = np.array([[1.0, 0.0], [-3.0, 0.0], [0.0, 0.5], [0.0, 0.2]])
    np.testing.assert_array_equal(g_optimal(X), [0.0, 0.5, 0.5, 0.0])
    np.testing.assert_array_equal(g_optimal(np.eye(4)[[0, 2]]), [0.5, 0.5])


def test_useless_arms_are_dropped():
    X = np.concatenate([[[1.0, 1.0], [1.0, -1.0]], 0.3 * sphere(30, 2, 7)])
    lam = g_optimal(X, gap=1e-6)
    np.testing.assert_allclose(lam[:2], 0.5, atol=1e-5)
    assert lam[2:].max() < 1e-12


def test_too_few_steps_are_a_typed_error():
    with pytest.raises(ParameterError, match="2 steps"):
        g_optimal(SOARE, gap=1e-9, max_steps=2)

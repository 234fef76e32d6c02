"""What has no tau*, or none that is positive, is refused with its cause."""

import networkx as nx
import numpy as np
import pytest
from listed import grid, matching
from unit_problem import unit_problem

from combopeps import ArgmaxOracle, Box, ExplicitOracle, ShortestPathOracle, TopKOracle, lower_bound
from combopeps.errors import (
    DomainError,
    IdentifiabilityError,
    NoAlternativeError,
    OracleError,
    ParameterError,
    ThetaError,
    TieError,
)


def test_two_best_answers():
    with pytest.raises(TieError, match="equally good"):
        lower_bound(unit_problem(TopKOracle(3, k=1)), [1.0, 1.0, 0.0])
    with pytest.raises(TieError, match="equally good"):
        lower_bound(unit_problem(ExplicitOracle([[1.0, 0.0], [0.0, 1.0]])), [0.3, 0.3])


@pytest.mark.parametrize("make", [lambda: grid(4, 0), lambda: matching(4, 4, 0)], ids=["grid", "matching"])
def test_two_best_answers_of_a_set_that_is_not_listed(make):
    oracle, Z, theta = make()
    scores = np.sort(Z @ theta)
    best, second = Z[(Z @ theta).argsort()[[-1, -2]]]
    only = np.flatnonzero((best != 0.0) & (second == 0.0))[0]
    theta[only] -= oracle.unit * (scores[-1] - scores[-2])
    with pytest.raises(TieError, match="equally good"):
        lower_bound(unit_problem(oracle), theta)
    theta[only] += oracle.unit * 1e-6  # a close race is none
    result = lower_bound(unit_problem(oracle), theta)
    assert result.certified
    assert 0.0 < result.tau_star < 1e-12


def test_a_single_answer():
    with pytest.raises(NoAlternativeError, match="single answer"):
        lower_bound(unit_problem(ShortestPathOracle(nx.path_graph(4, create_using=nx.DiGraph), 0, 3)), [1.0, 2.0, 3.0])
    with pytest.raises(NoAlternativeError, match="single answer"):
        lower_bound(unit_problem(TopKOracle(3, k=3)), [1.0, 2.0, 3.0])


class RareAnswer(ArgmaxOracle):
    """Component 2 is chosen only far away, where random points hardly ever are."""

    binary = True

    def _argmax_batch(self, thetas):
        best = np.zeros(thetas.shape)
        best[np.arange(len(thetas)), thetas[:, :2].argmax(axis=1)] = 1.0
        rare = thetas[:, 2] > 8.0 + np.abs(thetas[:, :2]).sum(axis=1)
        best[rare] = [1.0, 0.0, 1.0]
        return best


def test_arms_that_miss_what_an_answer_needs():
    problem = unit_problem(RareAnswer(range(3)), arms=[0, 1])
    with pytest.raises(IdentifiabilityError, match="no amount of measuring") as caught:
        lower_bound(problem, [9.0, 1.0, -5.0])
    np.testing.assert_allclose(np.abs(caught.value.direction), [0.0, 0.0, 1.0])


def test_general_arms_that_miss_what_a_listed_answer_needs():
    """The one answer outside the plane of the arms wins too rarely for `Problem` to see it."""
    turn, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))  # so that no component gives it away
    angles = np.linspace(0.0, 2.0 * np.pi, 12, endpoint=False)
    circle = np.column_stack([np.cos(angles), np.sin(angles), np.zeros(12)])
    Z = np.vstack([circle, [0.0, 0.0, 1e-4]]) @ turn
    problem = unit_problem(ExplicitOracle(Z), arms=np.array([[1.0, 1.0, 0.0], [1.0, -1.0, 0.0]]) @ turn)
    with pytest.raises(IdentifiabilityError, match="no amount of measuring") as caught:
        lower_bound(problem, np.array([1.0, 0.1, 0.0]) @ turn)
    np.testing.assert_allclose(np.abs(caught.value.direction @ turn.T), [0.0, 0.0, 1.0], atol=1e-9)


class LateSurprise(ArgmaxOracle):
    """Entries 0 and 1, until theta is large."""

    binary = True

    def _argmax_batch(self, thetas):
        best = (thetas > 0.0).astype(float)
        best[np.abs(thetas).max(axis=1) > 9.0] *= 2.0
        return best


def test_answers_that_are_not_what_they_seemed():
    with pytest.raises(OracleError, match="list such a Z"):
        lower_bound(unit_problem(LateSurprise(range(3))), [5.0, -4.0, 3.0])


@pytest.mark.parametrize("theta", [[1.0, 2.0], [[1.0, 2.0, 3.0]], [1.0, np.nan, 0.0], ["a", "b", "c"]])
def test_theta(theta):
    with pytest.raises(ThetaError, match="theta"):
        lower_bound(unit_problem(TopKOracle(3, k=1)), theta)


def test_theta_outside_the_domain():
    oracle = ShortestPathOracle(nx.cycle_graph(4), 0, 2)
    with pytest.raises(DomainError, match="theta >= 0"):
        lower_bound(unit_problem(oracle), [1.0, -1.0, 1.0, 1.0])
    assert lower_bound(unit_problem(oracle, space=Box(0, 5)), [1.0, 3.0, 1.0, 2.0]).tau_star > 0


@pytest.mark.parametrize(
    "options", [{"relative_gap": 0.0}, {"relative_gap": 1.0}, {"relative_gap": "x"}, {"max_rounds": 0}]
)
def test_options(options):
    with pytest.raises(ParameterError, match=next(iter(options))):
        lower_bound(unit_problem(TopKOracle(3, k=1)), [3.0, 2.0, 1.0], **options)


def test_not_a_problem():
    with pytest.raises(ParameterError, match="ArgmaxOracle"):
        lower_bound(unit_problem(np.eye(3)), [3.0, 2.0, 1.0])

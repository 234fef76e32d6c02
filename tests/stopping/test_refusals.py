"""No guarantee rests on unmeasured components, on a promise that cannot be checked, or on another run."""

import networkx as nx
import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import (
    ArgmaxOracle,
    CertifiedRule,
    MatchingOracle,
    ShortestPathOracle,
    TopKOracle,
    VerifiedRule,
    any_of,
    identify,
)
from combopeps.errors import IdentifiabilityError, ParameterError
from combopeps.oracles.constrained_argmax import can_constrain
from combopeps.posterior import Arms
from combopeps.stopping.certificates.glr import listed_rows, require_identifiability

GUARANTEED = ["certified", "verified"]


def noisy(theta, seed=0):
    noise = np.random.default_rng(seed)
    return lambda i: theta[i] + noise.normal()


def test_a_listed_difference_without_an_arm():
    oracle = TopKOracle(300, k=1)
    z_hat = oracle.argmax(np.r_[0.0, 4.0, np.zeros(298)])
    with pytest.raises(IdentifiabilityError, match="where no arm measures"):
        require_identifiability(oracle, Arms.of(oracle, list(range(1, 300))), z_hat, 0.0)


@pytest.mark.parametrize("rule", GUARANTEED)
def test_a_component_that_probing_misses(rule, monkeypatch):
    """Were `Problem` to overlook it, the best item would never be measured, and a guarantee would be given."""
    monkeypatch.setattr("combopeps.problem.check_identifiability", lambda arms, oracle: None)
    problem = unit_problem(TopKOracle(4, k=1), arms=[1, 2, 3])
    with pytest.raises(IdentifiabilityError, match="nothing can be guaranteed"):
        identify(problem, noisy([5.0, 4.0, 0.0, 0.0]), stopping=rule, budget=4000)


def test_an_unmeasured_component_of_an_implicit_set():
    graph = nx.DiGraph([(0, 1), (0, 2), (1, 3), (2, 3)])
    oracle = ShortestPathOracle(graph, 0, 3)
    arms = [label for label in oracle.components if label != (0, 1)]
    with pytest.raises(IdentifiabilityError, match=r"component \(0, 1\)"):
        require_identifiability(oracle, Arms.of(oracle, arms), oracle.argmax(np.ones(4)), 0.0)


def test_a_component_in_every_answer_needs_no_arm():
    graph = nx.DiGraph([("s", 0), (0, 1), (0, 2), (1, 3), (2, 3)])
    oracle = ShortestPathOracle(graph, "s", 3)
    arms = [label for label in oracle.components if label != ("s", 0)]
    problem = unit_problem(oracle, arms=arms)
    theta = {(0, 1): 0.0, (1, 3): 0.0, (0, 2): 2.0, (2, 3): 2.0}
    result = identify(problem, noisy(theta), stopping="certified", budget=2000)
    assert (result.stop_reason, result.answer) == ("certified", ["s", 0, 1, 3])


def test_general_arms_that_miss_a_direction():
    oracle = MatchingOracle(3, 3)
    arms = np.random.default_rng(0).normal(size=(3, 9))  # four directions are needed
    with pytest.raises(IdentifiabilityError, match="differ where no arm measures"):
        require_identifiability(oracle, Arms.of(oracle, arms), oracle.argmax(np.ones(9)), 0.0)
    full = Arms.of(oracle, np.random.default_rng(0).normal(size=(9, 9)))
    require_identifiability(oracle, full, oracle.argmax(np.ones(9)), 0.0)


class BestTwoOfPositive(ArgmaxOracle):
    """Items of theta >= 0, chosen for their value: forcing one out by a negative weight is impossible."""

    binary = antichain = True
    domain = "nonnegative"

    def _argmax_batch(self, thetas):
        best = np.zeros(thetas.shape)
        np.put_along_axis(best, np.argsort(-thetas, axis=1, kind="stable")[:, :2], 1.0, axis=1)
        return best


def test_what_cannot_be_forced_is_not_bounded():
    oracle = BestTwoOfPositive(range(4))
    assert not can_constrain(oracle)
    assert listed_rows(oracle, oracle.argmax(np.ones(4))) is None
    with pytest.raises(ParameterError, match="no certificate"):
        identify(unit_problem(oracle), noisy([3.0, 2.0, 0.1, 0.1]), stopping="certified", budget=500)


@pytest.mark.parametrize("make", [CertifiedRule, VerifiedRule])
def test_a_rule_serves_one_problem(make):
    rule = make(0.1)
    identify(unit_problem(TopKOracle(3, k=1)), noisy([2.0, 0.0, 0.0]), stopping=rule)
    with pytest.raises(ParameterError, match="create a new one"):
        identify(unit_problem(TopKOracle(3, k=2)), noisy([2.0, 0.0, 0.0]), stopping=rule)


def test_the_claim_of_several_rules_names_the_sum():
    rule = any_of(VerifiedRule(0.025), CertifiedRule(0.03))
    result = identify(unit_problem(TopKOracle(3, k=1)), noisy([2.0, 0.0, 0.0]), stopping=rule)
    assert "add up to 0.055" in result.claim
    assert result.delta == pytest.approx(0.055)

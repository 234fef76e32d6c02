"""`list_answers` against enumeration; sets that are too large are abandoned early."""

import networkx as nx
import numpy as np
import pytest
from test_forcing import ORACLES, SUBSETS, Subsets

from combopeps import ExplicitOracle, KnapsackOracle, MatchingOracle, ShortestPathOracle
from combopeps.oracles.base import ArgmaxOracle
from combopeps.oracles.constrained_argmax import MAX_ANSWERS, can_list, enumerate_answers, list_answers


class Counted(ArgmaxOracle):
    """All subsets of some items, with a count of the oracle calls."""

    binary = True

    def __init__(self, items, quick):
        super().__init__(range(items))
        self.quick, self.rows = quick, 0

    def _argmax_batch(self, thetas):
        self.rows += len(thetas)
        return (thetas > 0.0).astype(float)


def as_set(rows):
    return {tuple(row) for row in np.asarray(rows).tolist()}


@pytest.mark.parametrize("name", ORACLES)
def test_as_enumerated(name):
    oracle = ORACLES[name]
    listed = list_answers(oracle).toarray()
    assert len(listed) == len(as_set(listed))
    assert as_set(listed) == as_set(enumerate_answers(oracle, limit=500))


@pytest.mark.parametrize("unit", [1.0, -1.0, 0.25, -3.0])
def test_answers_that_contain_each_other(unit):
    assert as_set(list_answers(Subsets(unit)).toarray()) == as_set(unit * SUBSETS)


def test_a_knapsack_has_as_many_loads_as_are_counted():
    oracle = KnapsackOracle(np.random.default_rng(0).integers(1, 9, 12), 20)
    listed = list_answers(oracle)
    assert listed.shape[0] == round(np.exp(oracle.log_cardinality))
    assert as_set(listed.toarray()) == as_set(enumerate_answers(oracle, limit=10_000, calls=10**6))


@pytest.mark.parametrize("items", [1, 3, 8])
def test_number_of_oracle_calls(items):
    oracle = Counted(items, quick=False)
    assert list_answers(oracle).shape[0] == 2**items
    assert oracle.rows == 2 * 2**items  # and one for the first


@pytest.mark.parametrize(("quick", "most"), [(True, 10_000), (False, 600)])
def test_large_sets_are_abandoned_early(quick, most):
    """2^40 answers, of unknown cardinality."""
    oracle = Counted(40, quick)
    assert list_answers(oracle) is None
    assert oracle.rows <= most < MAX_ANSWERS


def test_exact_cardinality_is_used(monkeypatch):
    oracle = MatchingOracle(12, 12)
    monkeypatch.setattr(oracle, "argmax", None)  # not to be called
    assert list_answers(oracle) is None


def test_sets_that_cannot_be_split():
    cycle = ShortestPathOracle(nx.cycle_graph(4), 0, 2)
    assert not can_list(cycle)
    assert list_answers(cycle) is None
    assert list_answers(ExplicitOracle([[0.5, 0.0], [0.0, 1.0]])) is None


def test_oracles_that_miss_answers_are_not_listed():
    class Forgetful(Counted):
        def _argmax_batch(self, thetas):
            answers = super()._argmax_batch(thetas)
            return np.zeros_like(answers) if self.rows > 20 else answers

    assert list_answers(Forgetful(6, quick=True)) is None

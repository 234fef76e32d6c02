"""Wrong answers happen at most as often as delta says; broken rules are caught by the same test.

The best two answers are almost tied, so that an early stop is wrong half of the time. A rule that keeps its promise is
accused with probability 1e-4 at most.
"""

import numpy as np
import pytest
from runs import FAMILIES, crowd, near_tie, run_many, top_k

from combopeps import CertifiedRule, VerifiedRule
from combopeps.stopping import evidence, verified

DELTA = 0.1
RULES = {"certified": lambda: CertifiedRule(DELTA), "verified": lambda: VerifiedRule(DELTA)}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("rule", RULES)
def test_errors_in_a_few_runs(rule, family):
    outcome = run_many(RULES[rule], FAMILIES[family](budget=150), 40, seed=0)
    assert not outcome.refutes(DELTA)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("rule", RULES)
def test_errors_in_a_thousand_runs(rule, family):
    outcome = run_many(RULES[rule], FAMILIES[family](budget=1000), 1000, seed=1)
    assert not outcome.refutes(DELTA)
    if rule == "verified":
        assert outcome.errors > 0  # near ties are where its level is used up


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_with_a_gap_runs_end_and_are_right(rule):
    outcome = run_many(RULES[rule], top_k(), 200, seed=2)
    assert outcome.stopped == 200
    assert not outcome.refutes(DELTA)


@pytest.mark.parametrize("rule", RULES)
def test_an_epsilon_larger_than_the_gap_ends_ties(rule):
    kinds = {"certified": CertifiedRule, "verified": VerifiedRule}
    outcome = run_many(lambda: kinds[rule](DELTA, epsilon=1.0), near_tie(budget=3000), 20, seed=3, epsilon=1.0)
    assert outcome.stopped == 20
    assert outcome.errors == 0


def test_halved_quantiles_are_caught(monkeypatch):
    true = verified.boundaries
    monkeypatch.setattr(verified, "boundaries", lambda fractions, spend: 0.5 * true(fractions, spend))
    assert run_many(RULES["verified"], near_tie(), 100, seed=4).refutes(DELTA)


def test_a_certificate_that_looks_at_the_first_rival_only_is_caught(monkeypatch):
    """An upper bound of the evidence, as a local search would give."""
    true = evidence.listed_rows

    def first(oracle, z_hat, epsilon=0.0):
        return true(oracle, z_hat, epsilon).take(np.array([0]))

    monkeypatch.setattr(evidence, "listed_rows", first)
    assert run_many(RULES["certified"], crowd(budget=1500), 60, seed=5).refutes(DELTA)


def test_a_threshold_without_the_mixture_is_caught(monkeypatch):
    """No price for looking at any time: ln(1/delta) and the union bound are dropped, and the penalty's constant."""
    true = evidence.SupportTest.penalty

    def cheap(self, n, rho, z_hat):
        penalty = true(self, n, rho, z_hat)
        penalty.constant = np.zeros_like(penalty.constant)
        return penalty

    monkeypatch.setattr(evidence.SupportTest, "penalty", cheap)
    start = evidence.SupportTest.__init__

    def halved(self, *arguments):
        start(self, *arguments)
        self.threshold *= 0.5

    monkeypatch.setattr(evidence.SupportTest, "__init__", halved)
    assert run_many(RULES["certified"], near_tie(), 100, seed=6).refutes(DELTA)

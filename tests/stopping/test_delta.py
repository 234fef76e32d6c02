"""Wrong answers happen at most as often as delta says; broken rules are caught by the same test.

The best two answers are almost tied, so that an early stop is wrong half of the time. A rule that keeps its promise is
accused with probability 1e-4 at most.
"""

from pkgutil import resolve_name

import numpy as np
import pytest
from runs import FAMILIES, Outcome, cyclic, is_decided, near_tie, run_many, top_k, unlisted

from combopeps import CertifiedRule, VerifiedRule
from combopeps.stopping.certificates import betting_rounds as rounds
from combopeps.stopping.certificates import e_process as bets
from combopeps.stopping.certificates import fixed_plan, time_uniform
from combopeps.stopping.certificates._kernels import CONSTANT

DELTA = 0.1
RULES = {"certified": lambda: CertifiedRule(DELTA), "verified": lambda: VerifiedRule(DELTA)}


@pytest.mark.parametrize(("rule", "family"), [("certified", "dense"), ("certified", "cyclic"), ("verified", "top-k")])
def test_errors_in_a_few_runs(rule, family):
    outcome = run_many(RULES[rule], FAMILIES[family](budget=60), 15, seed=0)
    assert not outcome.refutes(DELTA)
    outcome = run_many(RULES[rule], FAMILIES[family](gap=3.0, budget=150), 10, seed=0)
    assert outcome.stopped == 10  # a rule that never stops is never wrong
    assert not outcome.refutes(DELTA)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("rule", RULES)
def test_errors_in_a_thousand_runs(rule, family):
    outcome = run_many(RULES[rule], FAMILIES[family](), 1000, seed=1, against=DELTA)
    assert not outcome.refutes(DELTA)


def test_runs_that_cannot_change_the_verdict_are_left_out():
    """Against the verdict itself, for every number of errors that runs to come may bring."""
    for delta, runs in ((0.1, 1000), (0.3, 500), (0.05, 40)):
        verdicts = [Outcome(runs, runs, errors, np.zeros(runs)).refutes(delta) for errors in range(runs + 1)]
        for made in (1, runs // 3, runs - 1, runs):
            for errors in (0, made // 10, made // 3, made):
                possible = set(verdicts[errors : errors + runs - made + 1])
                assert is_decided(errors, runs - made, runs, delta) == (len(possible) == 1)


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_with_a_gap_runs_end_and_are_right(rule):
    outcome = run_many(RULES[rule], top_k(), 100, seed=2)
    assert outcome.stopped == 100
    assert not outcome.refutes(DELTA)


@pytest.mark.parametrize("rule", RULES)
def test_an_epsilon_larger_than_the_gap_ends_ties(rule):
    """A plain test of two means at epsilon = 1 needs some tens of measurements."""
    kinds = {"certified": CertifiedRule, "verified": VerifiedRule}
    outcome = run_many(lambda: kinds[rule](DELTA, epsilon=1.0), near_tie(bad=1, budget=300), 6, seed=3, epsilon=1.0)
    assert outcome.errors == 0
    assert outcome.stopped == 6


def test_quantiles_of_nothing_are_caught(monkeypatch):
    """Any lead in the fresh data is enough."""
    monkeypatch.setattr(fixed_plan, "boundaries", lambda fractions, spend: np.full(len(spend), 0.05))
    assert run_many(lambda: VerifiedRule(DELTA, explore=0.5), unlisted(near_tie(budget=80)), 30, seed=4).refutes(DELTA)


@pytest.mark.slow
def test_halved_quantiles_are_caught(monkeypatch):
    true = fixed_plan.boundaries
    monkeypatch.setattr(fixed_plan, "boundaries", lambda fractions, spend: 0.5 * true(fractions, spend))
    eager = lambda: VerifiedRule(DELTA, explore=0.5)  # noqa: E731, errs in 20 % of its runs, so that 400 show it
    assert run_many(eager, unlisted(near_tie(budget=150)), 400, seed=4, against=DELTA).refutes(DELTA)


@pytest.mark.slow
def test_plans_keep_to_delta():
    assert not run_many(RULES["verified"], unlisted(near_tie()), 1000, seed=1, against=DELTA).refutes(DELTA)


@pytest.mark.slow
def test_bets_that_start_with_winnings_are_caught(monkeypatch):
    true = bets.Bet.log_evidence
    monkeypatch.setattr(bets.Bet, "log_evidence", lambda self: true(self) + self.threshold - 0.05)
    assert run_many(lambda: VerifiedRule(DELTA, explore=0.5), near_tie(budget=400), 80, seed=4, against=DELTA).refutes(
        DELTA
    )


@pytest.mark.slow
def test_edges_that_are_ruled_out_on_any_evidence_are_caught(monkeypatch):
    """On a graph with cycles, where the certified rule bets: the edges of the best route are ruled out with the rest."""
    true = rounds.rule_out

    def eager(oracle, z_hat, lengths, offset, candidates, target):
        return true(oracle, z_hat, lengths, 0.0 * offset, candidates, 0.05)

    monkeypatch.setattr(rounds, "rule_out", eager)
    assert run_many(RULES["certified"], cyclic(), 300, seed=7, against=DELTA).refutes(DELTA)


@pytest.mark.parametrize(
    ("rule", "rivals"),
    [
        ("verified", "combopeps.stopping.verified.rival_rows"),
        pytest.param("certified", "combopeps.stopping.certificates.time_uniform.listed_rows", marks=pytest.mark.slow),
    ],
)
def test_a_rival_that_is_dropped_is_caught(rule, rivals, monkeypatch):
    """The first item is bad and the last two are close: without the close one, whichever is ahead is confirmed."""
    true = resolve_name(rivals)
    monkeypatch.setattr(rivals, lambda *arguments: true(*arguments)[[0]])
    assert run_many(RULES[rule], near_tie(bad=1, budget=300), 200, seed=5, against=DELTA).refutes(DELTA)


@pytest.mark.slow
def test_a_halved_threshold_without_a_price_for_looking_is_caught(monkeypatch):
    """The penalty's constant, which pays for looking at any time, is dropped, and the threshold halved."""
    penalty, start = time_uniform.SupportTest.penalty, time_uniform.SupportTest.__init__

    def cheap(self, *arguments):
        found = penalty(self, *arguments)
        found.terms[:, CONSTANT] = 0.0
        return found

    def halved(self, *arguments):
        start(self, *arguments)
        self.threshold *= 0.5

    monkeypatch.setattr(time_uniform.SupportTest, "penalty", cheap)
    monkeypatch.setattr(time_uniform.SupportTest, "__init__", halved)
    assert run_many(RULES["certified"], near_tie(budget=300), 200, seed=6, against=DELTA).refutes(DELTA)

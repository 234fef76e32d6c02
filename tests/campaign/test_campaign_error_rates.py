"""How often `verified` and `certified` claim a wrong answer in campaigns, whatever becomes of queries and results.

Two items with means 0 and `GAP`, the second one is best, and no run can see that. Results come late and in any order,
queries are abandoned, results are observed without queries, and misprints are corrected: all of that by chance, never
because of what a result is. A rule that keeps its promise is accused with probability 1e-4 at most in each test.
"""

import warnings

import numpy as np
import pytest
from memory_store import MemoryStore
from scipy.stats import binom
from unit_problem import unit_problem

from combopeps import Campaign, CertifiedRule, TopKOracle

GAP, RUNS, BUDGET = 0.02, 300, 250
MEANS = (0.0, GAP)


class Team:
    """Measures for a campaign; `lead` is the item that it would like to be the answer."""

    def __init__(self, stopping, delta, seed):
        problem = unit_problem(TopKOracle(2, k=1))
        self.campaign = Campaign.create(
            MemoryStore(), problem, policy="top-two", stopping=stopping, delta=delta, rng=seed
        )
        self.results, self.chance = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1])
        self.waiting, self.misprints = [], []

    def draw(self, item):
        return MEANS[item] + float(self.results.normal())

    def claims(self):
        """The answer that the rule claims within the budget; None if it claims none."""
        campaign = self.campaign
        while campaign.samples < BUDGET:
            self.waiting += campaign.ask(4)
            if campaign.verdict.stop:
                return campaign.problem.oracle.decode(campaign.verdict.z)
            self.measure()
        return None

    def measure(self):
        """Some of the queries that wait, in any order."""
        self.chance.shuffle(self.waiting)
        late = int(self.chance.integers(0, 1 + min(3, len(self.waiting))))
        now, self.waiting = self.waiting[late:], self.waiting[:late]
        for query in now:
            self.close(query)
        if self.chance.random() < 0.1:
            item = int(self.chance.integers(2))
            self.campaign.observe(item, self.draw(item), confirm=True)
        if self.misprints and self.chance.random() < 0.3:
            self.campaign.correct(*self.misprints.pop(), confirm=True)

    def close(self, query):
        fate, y = self.chance.random(), self.draw(query.arm)
        if fate < 0.1:
            self.campaign.abandon(query)
        elif fate < 0.11:
            self.campaign.tell(query, -3.0 * y, confirm=True)
            self.misprints.append((self.campaign.measurements()[-1].event, y))
        else:
            self.campaign.tell(query, y, confirm=True)


class Abandoning(Team):
    """Negative control: queries are abandoned because of results that speak against the worse item."""

    def close(self, query):
        y = self.draw(query.arm)
        if (y > 0.5) == (query.arm == 1) and abs(y) > 0.5:
            self.campaign.abandon(query)
        else:
            self.campaign.tell(query, y, confirm=True)


class Retracting(Team):
    """Negative control: results that speak against the worse item are retracted, and the rule is not told."""

    def close(self, query):
        y = self.draw(query.arm)
        self.campaign.tell(query, y, confirm=True)
        if (y > 0.5) == (query.arm == 1) and abs(y) > 0.5:
            self.campaign.retract(self.campaign.measurements()[-1].event)


def is_refuted(team, stopping, delta):
    """Whether more runs claim the wrong item than delta explains; no more runs are made than that takes."""
    enough, wrong = binom.isf(1e-4, RUNS, delta) + 1, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of noise and prior, by misprints and in negative controls
        for seed in range(RUNS):
            wrong += team(stopping, delta, seed).claims() == {0}
            if wrong >= enough or wrong + RUNS - seed - 1 < enough:
                break
    return wrong >= enough


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.1, 0.3])
@pytest.mark.parametrize("stopping", ["verified", "certified"])
def test_late_abandoned_observed_and_corrected_results_do_not_raise_the_error_rate(stopping, delta):
    assert not is_refuted(Team, stopping, delta)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.1, 0.3])
@pytest.mark.parametrize("stopping", ["verified", "certified"])
def test_queries_that_are_abandoned_because_of_their_results_are_caught(stopping, delta):
    assert is_refuted(Abandoning, stopping, delta)


@pytest.mark.slow
def test_results_that_are_retracted_because_of_their_values_are_caught(monkeypatch):
    monkeypatch.setattr(CertifiedRule, "results_changed", lambda *_: None)
    assert is_refuted(Retracting, "certified", 0.3)

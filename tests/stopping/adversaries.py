"""Runs against adversaries that keep to the rules: they choose what is measured and when, never which results count.

Two items with means 0 and `GAP`: the adversary wants the first one, which is worse. It knows the truth and all results so
far. Its moves are legal: every result is given, and a standard error is fixed before its own result is drawn.
"""

import warnings

import numpy as np

from combopeps import Problem, Session, TopKOracle, VerifiedRule
from combopeps.posterior.gaussian import Normal
from combopeps.stopping.requested_measurements import FreshResults

GAP = 0.02


class Nature:
    """Normal results, and the lead of the wrong item in the part of the epoch that was seen so far."""

    def __init__(self, seed, base=0.0):
        self.rng, self.means = np.random.default_rng(seed), (base, base + GAP)
        self.sums, self.counts, self.content = np.zeros(2), np.zeros(2), np.zeros(2, dtype=bool)

    def draw(self, item, sem=1.0):
        return self.means[item] + sem * self.rng.normal()

    def see(self, item, y):
        self.sums[item] += y - self.means[0]
        self.counts[item] += 1.0

    def forget(self):
        self.sums[:], self.counts[:], self.content[:] = 0.0, 0.0, False

    def sem(self, item):
        """A standard error for the next result of an item, by the results of this epoch so far."""
        if self.counts[item] == 0.0:
            return 1.0
        self.content[item] |= (self.sums[item] > 0.0) == (item == 0)
        return 10.0 if self.content[item] else 0.5

    @property
    def lead(self):
        """In standard deviations; 0 until both items were seen."""
        if not self.counts.all():
            return 0.0
        means = self.sums / self.counts
        return float((means[0] - means[1]) / np.sqrt((1.0 / self.counts).sum()))


class Results(FreshResults):
    """Fresh results whose epochs nature follows."""

    nature: Nature

    def restart(self):
        super().restart()
        self.nature.forget()

    def add(self, arm, value, variance=1.0):
        super().add(arm, value, variance)
        self.nature.see(arm, value)


class Watched(VerifiedRule):
    """The rule as it is; the adversary sees when its epochs begin."""

    results = Results

    def check_problem(self, problem, estimate=None):
        super().check_problem(problem, estimate)
        if not isinstance(self.requests.fresh, Results):
            self.requests.fresh = self.results(problem.signal)

    def continued(self):
        """A run ended, and another one continues it."""


class Discarding(Watched):
    """Negative control: an epoch is discarded if anything else was measured meanwhile, or if the run was interrupted."""

    _seen = 0

    def check(self, view):
        fresh = self.requests.fresh
        if not self.requests.outstanding and self.proof is not None and view.t != self._seen + fresh.samples:
            fresh.restart()
        verdict = super().check(view)
        self._seen = view.t
        return verdict

    def continued(self):
        self.requests.wanted.clear()
        self.requests.fresh.restart()


class Weighted(Results):
    """Negative control: results of an epoch are weighted by what they turned out to be worth."""

    def __init__(self, arms):
        super().__init__(arms)
        self.worth, self.weighted = np.zeros((2, len(arms)))

    def restart(self):
        super().restart()
        self.worth[:], self.weighted[:] = 0.0, 0.0

    def add(self, arm, value, variance=1.0):
        super().add(arm, value, variance)
        self.worth[arm] += 1.0 / variance
        self.weighted[arm] += value / variance

    def estimate(self):
        return Normal(self.weighted / np.maximum(self.worth, 1e-300), 1.0 / np.maximum(self.worth, 1e-300))

    def variances(self, rows):
        return self.estimate().quadratic(rows)


class Reweighting(Watched):
    """The rule with these weights."""

    results = Weighted


class Subtracting(Watched):
    """Negative control: fresh results are a difference of running totals."""

    _start = np.zeros(2)

    def check(self, view):
        fresh = self.requests.fresh
        if self.proof is not None and not self.requests.outstanding:
            fresh.totals[:] = view.data.totals - self._start
        verdict = super().check(view)
        if fresh.samples == 0:
            self._start = view.data.totals.copy()
        return verdict


def observing(session, rule, nature, budget):
    """Whenever the epoch speaks against the wrong item, measure something else as well."""

    def callback(session, query, y):
        if nature.lead < 0.0:
            session.observe(query.label, nature.draw(query.label), confirm=True)

    return session.run(nature.draw, budget=budget, callback=callback)


class Pause(Exception):  # noqa: N818, not an error
    """The adversary interrupts the run."""


def pausing(session, rule, nature, budget):
    """Whenever the epoch speaks against the wrong item, interrupt the run, and continue it."""

    def callback(session, query, y):
        if nature.lead < 0.0:
            raise Pause

    while session.samples < budget:
        try:
            return session.run(nature.draw, budget=budget - session.samples, callback=callback)
        except Pause:
            rule.continued()
    return None


def blurring(session, rule, nature, budget):
    """Once the results of an item speak for the wrong one, measure the rest of it badly; else, well."""

    def measure(item):
        sem = nature.sem(item)
        return nature.draw(item, sem), sem

    return session.run(measure, budget=budget)


def remembering(session, rule, nature, budget):
    """Begin with a history of enormous weight, in which the wrong item is ahead."""
    session.observe(0, nature.means[0] + 1.0, count=10**12)
    session.observe(1, nature.means[0], count=10**12)
    return session.run(nature.draw, budget=budget)


def is_wrong(attack, rule, seed, budget, base=0.0):
    """Does a run end with a proof of the wrong item?"""
    problem = Problem(TopKOracle(2, k=1), noise_std=1.0, prior_mean=base, prior_std=1.0)
    rng, nature = np.random.default_rng([*seed, 0]), Nature([*seed, 1], base)
    session = Session(problem, policy="top-two", stopping=rule, rng=rng)
    rule.requests.fresh.nature = nature
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # false alarms of the guards, in some of many runs
        result = attack(session, rule, nature, budget)
    return result is not None and result.stop_reason == "verified" and result.answer == {0}

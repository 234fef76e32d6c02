"""`BudgetRule`, and several rules at once."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from combopeps.errors import ParameterError
from combopeps.stopping.base import Situation, StoppingRule, Verdict
from combopeps.validation import MOST_RUNS, check_count, check_integer, check_kind, check_positive


class BudgetRule(StoppingRule):
    """Stop after so many measurements, however certain the answer is.

    The claim then says two things: the posterior probability that the answer is wrong, which is about this run and its
    data; and how often runs of the same policy, with the same budget and a theta drawn from the prior, end with a wrong
    answer, which is about the budget. The second is simulated when the run has ended, side by side and one measurement
    at a time, with the policy's default options. It takes `seconds` at most: where these do not suffice there are
    fewer runs, or none, and the claim says so. It also says why nothing was simulated: a policy that had measured
    before, a budget of cost, noise of unknown size.

    Parameters
    ----------
    budget
        Measurements; None to leave it to `identify(budget=)`.
    simulations
        Runs under the prior; 0 for none.
    seconds
        What they may take.

    Examples
    --------
    >>> from combopeps import TopKOracle, identify
    >>> result = identify(TopKOracle(3, k=1), float, stopping=BudgetRule(20, simulations=0))
    >>> result.samples
    20
    >>> print(result.claim)  # doctest: +ELLIPSIS
    the answer is not the best with posterior probability ... (an estimate; Bayesian, prior N(0, 1) in every component)
    """

    name = "budget"
    delta = 1.0

    def __init__(self, budget: int | None = None, *, simulations: int = 100, seconds: float = 2.0) -> None:
        if budget is not None:
            check_count("budget", budget)
        check_integer("simulations", simulations, 0, MOST_RUNS)
        check_positive("seconds", seconds)
        self.budget, self.simulations, self.seconds = budget, int(simulations), float(seconds)

    def check(self, situation: Situation) -> Verdict:
        """Never: the run ends by itself after `budget` measurements."""
        return Verdict(False, float(situation.t), float(self.budget or "nan"))


class any_of(StoppingRule):  # noqa: N801, reads as a verb
    """Stop as soon as one of the rules does; the claim is that rule's.

    The probability that a rule ends the run with a wrong answer is at most its delta; that the run ends with a wrong
    answer at all, at most the sum of the deltas (of frequentist rules), and the claim says so. Put a `VerifiedRule`
    first: its allocation must not be disturbed.

    Examples
    --------
    >>> from combopeps import CertifiedRule, TopKOracle, VerifiedRule, identify
    >>> truth, noise = [0.0, 2.0, 1.0], __import__("numpy").random.default_rng(0)
    >>> rule = any_of(VerifiedRule(0.025), CertifiedRule(0.025))
    >>> identify(TopKOracle(3, k=1), lambda i: truth[i] + noise.normal(), stopping=rule).answer
    {1}
    """

    def __init__(self, *rules: StoppingRule) -> None:
        if not rules:
            raise ParameterError("any_of needs at least one rule")
        for rule in rules:
            check_kind("each rule", rule, StoppingRule)
        self.rules: Sequence[StoppingRule] = rules
        self.delta = min(1.0, sum(rule.delta for rule in rules if not isinstance(rule, BudgetRule)))
        self.needs_noise = any(rule.needs_noise for rule in rules)
        self.ratio = min(rule.ratio for rule in rules)
        self.budget = min((rule.budget for rule in rules if rule.budget is not None), default=None)
        self.name = " or ".join(rule.name for rule in rules)
        self.epsilon = min((rule.epsilon for rule in rules if not isinstance(rule, BudgetRule)), default=0.0)

    def check(self, situation: Situation) -> Verdict:
        """All of them; what to measure next is said by the first that has an opinion."""
        calls, arms, risk = 0, None, float("nan")
        for rule in self.rules:
            verdict = rule.check(situation)
            calls += verdict.oracle_calls
            risk = verdict.risk if isnan(risk) else risk
            if verdict.stop:
                self.name, self.epsilon = rule.name, rule.epsilon
                claim = verdict.claim
                if sum(not isinstance(other, BudgetRule) for other in self.rules) > 1:
                    claim += f"; this rule was one of several, whose deltas add up to {self.delta:g}"
                return Verdict(True, verdict.statistic, verdict.threshold, calls, claim, z=verdict.z, risk=risk)
            arms = verdict.sample_next if arms is None else arms
        return Verdict(False, oracle_calls=calls, sample_next=arms, risk=risk)

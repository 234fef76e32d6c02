"""`BudgetRule`, and several rules at once."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isnan

from combopeps.errors import ParameterError
from combopeps.posterior.least_squares import Measurements
from combopeps.posterior.noise_level import NoiseEstimate
from combopeps.problem import Problem
from combopeps.stopping.base import Proof, StoppingRule, Verdict, View
from combopeps.stopping.requests import Requests
from combopeps.utils.state_dict import StateDict
from combopeps.utils.validation import MOST_RUNS, check_count, check_integer, check_kind, check_positive


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
    >>> import numpy as np
    >>> from combopeps import Problem, TopKOracle, identify
    >>> noise = np.random.default_rng(0)
    >>> items = Problem(TopKOracle(3, k=1), noise_std=1.0, prior_mean=0.0, prior_std=1.0)
    >>> result = identify(items, lambda i: i + noise.normal(), stopping=BudgetRule(20, simulations=0))
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

    def check(self, view: View) -> Verdict:
        """Never: the run ends by itself after `budget` measurements."""
        return Verdict(False, float(view.t), float(self.budget or "nan"))


class any_of(StoppingRule):  # noqa: N801, reads as a verb
    """Stop as soon as one of the rules does; the claim is that rule's.

    The probability that a rule ends the run with a wrong answer is at most its delta; that the run ends with a wrong
    answer at all, at most the sum of the deltas (of frequentist rules), and the claim says so. Requests for
    measurements are served in the order of the rules: put a `VerifiedRule` first, which makes no progress without them.

    Examples
    --------
    >>> from combopeps import CertifiedRule, Problem, TopKOracle, VerifiedRule, identify
    >>> truth, noise = [0.0, 2.0, 1.0], __import__("numpy").random.default_rng(0)
    >>> rule = any_of(VerifiedRule(0.025), CertifiedRule(0.025))
    >>> items = Problem(TopKOracle(3, k=1), noise_std=1.0)
    >>> identify(items, lambda i: truth[i] + noise.normal(), stopping=rule).answer
    {1}
    """

    def __init__(self, *rules: StoppingRule) -> None:
        if not rules:
            raise ParameterError("any_of needs at least one rule")
        for rule in rules:
            check_kind("each rule", rule, StoppingRule)
        self.rules: Sequence[StoppingRule] = rules
        self.delta = min(1.0, sum(rule.delta for rule in rules if not isinstance(rule, BudgetRule)))
        self.needs_noise, self.proves = any(rule.needs_noise for rule in rules), any(rule.proves for rule in rules)
        self.requests_measurements = any(rule.requests_measurements for rule in rules)
        self.ratio = min(rule.ratio for rule in rules)
        self.budget = min((rule.budget for rule in rules if rule.budget is not None), default=None)
        self.name = " or ".join(rule.name for rule in rules)
        self.epsilon = min((rule.epsilon for rule in rules if not isinstance(rule, BudgetRule)), default=0.0)

    def check_problem(self, problem: Problem, estimate: NoiseEstimate | None = None) -> None:
        """Every rule has to accept the problem."""
        super().check_problem(problem, estimate)
        for rule in self.rules:
            rule.check_problem(problem, estimate)

    @property
    def proof(self) -> Proof | None:
        """The one with the fewest measurements to come."""
        proofs = [proof for rule in self.rules if (proof := rule.proof) is not None]
        return min(proofs, key=lambda proof: inf if proof.remaining is None else proof.remaining, default=None)

    @property
    def logs(self) -> Sequence[Requests]:
        """Those of all rules."""
        return [log for rule in self.rules for log in rule.logs]

    def request(self, verdict: Verdict) -> None:
        """Nothing: each rule has entered its own requests during `check`."""

    def results_changed(self, told: Measurements, in_proof: bool) -> None:
        for rule in self.rules:
            rule.results_changed(told, in_proof)

    def state_dict(self) -> StateDict:
        return {"rules": [rule.state_dict() for rule in self.rules]}

    def load_state_dict(self, data: StateDict, problem: Problem) -> None:
        for rule, state in zip(self.rules, data["rules"], strict=True):
            rule.load_state_dict(state, problem)

    def check(self, view: View) -> Verdict:
        """All of them; the requests of the first that has any are served first."""
        calls, arms, risk = 0, None, float("nan")
        for rule in self.rules:
            verdict = rule.check(view)
            calls += verdict.oracle_calls
            risk = verdict.risk if isnan(risk) else risk
            if verdict.stop:
                self.name, self.epsilon, self.proves = rule.name, rule.epsilon, rule.proves
                claim = verdict.claim
                if sum(not isinstance(other, BudgetRule) for other in self.rules) > 1:
                    claim += f"; this rule was one of several, whose deltas add up to {self.delta:g}"
                return Verdict(True, verdict.statistic, verdict.threshold, calls, claim, z=verdict.z, risk=risk)
            rule.request(verdict)
            arms = verdict.sample_next if arms is None else arms
        return Verdict(False, oracle_calls=calls, sample_next=arms, risk=risk)

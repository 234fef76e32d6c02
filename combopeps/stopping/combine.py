"""`BudgetRule`, and `any_of`, the combination of several rules."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isnan

from combopeps.errors import ParameterError
from combopeps.posterior.least_squares import Measurements
from combopeps.posterior.noise_level import NoiseEstimate
from combopeps.problem import Problem
from combopeps.stopping.base import Proof, StoppingRule, Verdict, View
from combopeps.stopping.requested_measurements import Requests
from combopeps.utils.state_dict import StateDict
from combopeps.utils.validation import MAX_RUNS, check_count, check_integer, check_kind, check_positive


class BudgetRule(StoppingRule):
    """Stop after a fixed number of measurements.

    The claim has two parts: the posterior probability that the answer is wrong, given the data of this run; and the
    frequency of wrong answers in runs of the same policy with the same budget and a theta drawn from the prior. These
    runs are simulated after the end of the run, in parallel and one measurement at a time, with the policy's default
    options, for at most `seconds`. If this is too short for all of them there are fewer runs, or none, and the claim
    states so. It also states why nothing was simulated: a policy with earlier measurements, a budget of cost, or
    unknown noise.

    Parameters
    ----------
    budget
        Number of measurements; None to leave it to `identify(budget=)`.
    simulations
        Number of simulated runs under the prior; 0 for none.
    seconds
        Time limit of the simulation.

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
        check_integer("simulations", simulations, 0, MAX_RUNS)
        check_positive("seconds", seconds)
        self.budget, self.simulations, self.seconds = budget, int(simulations), float(seconds)

    def check(self, view: View) -> Verdict:
        """Return a verdict that does not stop: the run ends after `budget` measurements."""
        return Verdict(False, float(view.t), float(self.budget or "nan"))


class any_of(StoppingRule):  # noqa: N801, reads as a verb
    """Stop as soon as one of several rules does, with the claim of that rule.

    The probability that a given rule ends the run with a wrong answer is at most its delta. The probability that the
    run ends with a wrong answer is at most the sum of the deltas of frequentist rules, which the claim states. Requests
    for measurements are served in the order of the rules: put a `VerifiedRule` first, which makes no progress without
    them.

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
        self.delta = min(1.0, sum(rule.delta for rule in rules if rule.delta < 1.0)) or 1.0
        self.requires_noise_std, self.proves = (
            any(rule.requires_noise_std for rule in rules),
            any(rule.proves for rule in rules),
        )
        self.requests_measurements = any(rule.requests_measurements for rule in rules)
        self.ratio = min(rule.ratio for rule in rules)
        self.budget = min((rule.budget for rule in rules if rule.budget is not None), default=None)
        self.name = " or ".join(rule.name for rule in rules)
        self.epsilon = min((rule.epsilon for rule in rules if not isinstance(rule, BudgetRule)), default=0.0)

    def check_problem(self, problem: Problem, estimate: NoiseEstimate | None = None) -> None:
        """Check the problem by every rule."""
        super().check_problem(problem, estimate)
        for rule in self.rules:
            rule.check_problem(problem, estimate)

    @property
    def proof(self) -> Proof | None:
        """The proof with the fewest remaining measurements."""
        proofs = [proof for rule in self.rules if (proof := rule.proof) is not None]
        return min(proofs, key=lambda proof: inf if proof.remaining is None else proof.remaining, default=None)

    @property
    def logs(self) -> Sequence[Requests]:
        """The logs of all rules."""
        return [log for rule in self.rules for log in rule.logs]

    def request(self, verdict: Verdict) -> None:
        """Do nothing: each rule has logged its own requests in `check`."""

    def results_changed(self, query_results: Measurements, in_proof: bool) -> None:
        for rule in self.rules:
            rule.results_changed(query_results, in_proof)

    def state_dict(self) -> StateDict:
        return {"rules": [rule.state_dict() for rule in self.rules]}

    def load_state_dict(self, data: StateDict, problem: Problem) -> None:
        for rule, state in zip(self.rules, data["rules"], strict=True):
            rule.load_state_dict(state, problem)

    def check(self, view: View) -> Verdict:
        """Check all rules in order; return the first verdict that stops, or the first requests."""
        calls, arms, error_probability = 0, None, float("nan")
        for rule in self.rules:
            verdict = rule.check(view)
            calls += verdict.oracle_calls
            error_probability = verdict.error_probability if isnan(error_probability) else error_probability
            if verdict.stop:
                self.name, self.epsilon, self.proves = rule.name, rule.epsilon, rule.proves
                claim = verdict.claim
                if sum(other.delta < 1.0 for other in self.rules) > 1:
                    claim += f"; this rule was one of several, whose deltas add up to {self.delta:g}"
                return Verdict(
                    True,
                    verdict.statistic,
                    verdict.threshold,
                    calls,
                    claim,
                    z=verdict.z,
                    error_probability=error_probability,
                )
            rule.request(verdict)
            arms = verdict.requested_arms if arms is None else arms
        return Verdict(False, oracle_calls=calls, requested_arms=arms, error_probability=error_probability)

"""`GuaranteedRule`: choose the frequentist rule that is expected to take the fewest measurements."""

from __future__ import annotations

from dataclasses import replace
from math import log

from combopeps.posterior.least_squares import Measurements
from combopeps.posterior.noise_level import NoiseEstimate
from combopeps.problem import Problem
from combopeps.stopping.base import FixedConfidenceRule, Proof, Verdict, View
from combopeps.stopping.certificates.alpha_spending import MIN_DELTA
from combopeps.stopping.certificates.betting_rounds import BettingTest
from combopeps.stopping.certified import CertifiedRule
from combopeps.stopping.requested_measurements import Requests
from combopeps.stopping.verified import VerifiedRule
from combopeps.utils.state_dict import StateDict

_LARGE_LOG_CARDINALITY = log(100_000)  # the networks of docs/results/stopping/roads.md have far more answers


class GuaranteedRule(FixedConfidenceRule):
    """P(wrong answer) <= delta for every theta, by `VerifiedRule` or `CertifiedRule`; the claim names the rule.

    `VerifiedRule` is the default: it took fewer measurements in nearly all comparisons in docs/results/stopping, as its
    threshold depends neither on the number of answers nor on the number of components in which they differ.
    `CertifiedRule` is used on large graphs with cycles, in problems with actions (for which `VerifiedRule` cannot
    plan), and for delta below 1e-100.

    Parameters
    ----------
    delta, epsilon, ratio
        As for `VerifiedRule` and `CertifiedRule`.

    Examples
    --------
    >>> import numpy as np
    >>> from combopeps import Problem, TopKOracle, identify
    >>> truth, noise = {"a": 0.1, "b": 2.0, "c": 1.0}, np.random.default_rng(0)
    >>> items = Problem(TopKOracle(["a", "b", "c"], k=1), noise_std=1.0)
    >>> result = identify(items, lambda x: truth[x] + noise.normal(), stopping="guaranteed")
    >>> result.answer, result.stop_reason
    ({'b'}, 'verified')
    """

    name = "guaranteed"
    requires_noise_std = proves = True
    requests_measurements = True

    def __init__(self, delta: float = 0.05, *, epsilon: float = 0.0, ratio: float = 1.1) -> None:
        super().__init__(delta, epsilon=epsilon, ratio=ratio)
        self.rule: VerifiedRule | CertifiedRule
        self._is_chosen = False
        if delta >= MIN_DELTA:
            self.rule, self._why = VerifiedRule(delta, epsilon=epsilon, ratio=ratio), "fewest measurements as a rule"
        else:
            self._use_certified("delta is too small for the other one")

    def _use_certified(self, why: str) -> None:
        self.rule, self._why = CertifiedRule(self.delta, epsilon=self.epsilon, ratio=self.ratio), why

    def check_problem(self, problem: Problem, estimate: NoiseEstimate | None = None) -> None:
        """Choose the rule before the first look, and check the problem by it."""
        super().check_problem(problem, estimate)
        if not self._is_chosen:
            self._choose(problem)
            self._is_chosen = True
        self.rule.check_problem(problem, estimate)

    def _choose(self, problem: Problem) -> None:
        if problem.measures_actions and not self.rule.supports_actions:
            self._use_certified("measurements are actions")
        elif BettingTest.fits(problem.oracle, problem.signal) and _is_large(problem):
            self._use_certified("fewest measurements as a rule on large graphs with cycles")

    @property
    def proof(self) -> Proof | None:
        """Progress of the chosen rule."""
        return self.rule.proof

    @property
    def requests(self) -> Requests:
        """Log of the chosen rule."""
        return self.rule.requests

    def check(self, view: View) -> Verdict:
        """Take a look by the chosen rule."""
        verdict = self.rule.check(view)
        if verdict.stop:
            self.name = self.rule.name
        return replace(verdict, claim=f"{verdict.claim}; the rule was {self.rule.name}: {self._why}")

    def results_changed(self, query_results: Measurements, in_proof: bool) -> None:
        self.rule.results_changed(query_results, in_proof)

    def state_dict(self) -> StateDict:
        """Return the state of the chosen rule."""
        return self.rule.state_dict()

    def load_state_dict(self, data: StateDict, problem: Problem) -> None:
        self.rule.load_state_dict(data, problem)


def _is_large(problem: Problem) -> bool:
    size = problem.oracle.log_cardinality
    return size is None or size > _LARGE_LOG_CARDINALITY

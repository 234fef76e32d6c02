"""`GuaranteedRule`: whichever guarantee for every theta is expected to take the fewest measurements."""

from __future__ import annotations

from dataclasses import replace
from math import log

from combopeps.posterior.least_squares import Measurements
from combopeps.posterior.noise_level import NoiseEstimate
from combopeps.problem import Problem
from combopeps.stopping.base import DeltaRule, Proof, Verdict, View
from combopeps.stopping.certificates.alpha_spending import SMALLEST
from combopeps.stopping.certificates.rounds import BettingTest
from combopeps.stopping.certified import CertifiedRule
from combopeps.stopping.requests import Requests
from combopeps.stopping.verified import VerifiedRule
from combopeps.utils.state_dict import StateDict

_LARGE = log(100_000)  # answers: the networks of docs/stopping.md have far more


class GuaranteedRule(DeltaRule):
    """P(wrong answer) <= delta for every theta, by the rule that suits the problem; the claim says by which.

    `VerifiedRule`, which took fewer measurements in nearly all of the comparisons of docs/stopping.md: its threshold
    knows neither how many answers there are nor in how many components they differ. `CertifiedRule` on large graphs
    with cycles, where measurements are actions, which the other one cannot plan, and where delta is below 1e-100.

    Parameters
    ----------
    delta, epsilon, ratio
        As for these two.

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
    needs_noise = proves = True
    requests_measurements = True

    def __init__(self, delta: float = 0.05, *, epsilon: float = 0.0, ratio: float = 1.1) -> None:
        super().__init__(delta, epsilon=epsilon, ratio=ratio)
        self.rule: VerifiedRule | CertifiedRule
        self._picked = False
        if delta >= SMALLEST:
            self.rule, self._why = VerifiedRule(delta, epsilon=epsilon, ratio=ratio), "fewest measurements as a rule"
        else:
            self._take_certified("the other one does not know so small a delta")

    def _take_certified(self, why: str) -> None:
        self.rule, self._why = CertifiedRule(self.delta, epsilon=self.epsilon, ratio=self.ratio), why

    def check_problem(self, problem: Problem, estimate: NoiseEstimate | None = None) -> None:
        """As the others do; and pick one of them, before the first look."""
        super().check_problem(problem, estimate)
        if not self._picked:
            self._pick(problem)
            self._picked = True
        self.rule.check_problem(problem, estimate)

    def _pick(self, problem: Problem) -> None:
        if problem.measures_actions and not self.rule.takes_actions:
            self._take_certified("measurements are actions")
        elif BettingTest.fits(problem.oracle, problem.signal) and _is_large(problem):
            self._take_certified("fewest measurements as a rule on large graphs with cycles")

    @property
    def proof(self) -> Proof | None:
        """That of the rule that was picked."""
        return self.rule.proof

    @property
    def requests(self) -> Requests:
        """The log of the rule that was picked."""
        return self.rule.requests

    def check(self, view: View) -> Verdict:
        """The look of the rule that was picked."""
        verdict = self.rule.check(view)
        if verdict.stop:
            self.name = self.rule.name
        return replace(verdict, claim=f"{verdict.claim}; the rule was {self.rule.name}: {self._why}")

    def results_changed(self, told: Measurements, in_proof: bool) -> None:
        self.rule.results_changed(told, in_proof)

    def state_dict(self) -> StateDict:
        """Return the state of the rule that was picked."""
        return self.rule.state_dict()

    def load_state_dict(self, data: StateDict, problem: Problem) -> None:
        self.rule.load_state_dict(data, problem)


def _is_large(problem: Problem) -> bool:
    size = problem.oracle.log_cardinality
    return size is None or size > _LARGE

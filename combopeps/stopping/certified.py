"""`CertifiedRule`: P(wrong answer) <= delta for every theta*, for any policy and at any time; and `HeuristicRule`."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, log

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.posterior.arms import Arms
from combopeps.posterior.least_squares import Measurements
from combopeps.posterior.noise_level import NoiseEstimate
from combopeps.problem import Problem
from combopeps.stopping.base import FixedConfidenceRule, Proof, Verdict, View
from combopeps.stopping.certificates.betting_rounds import BettingTest
from combopeps.stopping.certificates.glr import glr_bound, is_randomised, require_identifiability
from combopeps.stopping.certificates.time_uniform import EllipsoidTest, Outcome, SupportTest
from combopeps.stopping.requested_measurements import Requests
from combopeps.utils.state_dict import StateDict, boolean

# Spacing of looks: at least the work of a look divided by _WORK_PER_MEASUREMENT, at most t / _MAX_SPACING_DIVISOR.
# Looks without oracle calls may be more frequent than the ratio by the factor _CHEAP_LOOK_FACTOR.
_WORK_PER_MEASUREMENT, _MAX_SPACING_DIVISOR, _CHEAP_LOOK_FACTOR = 100, 3, 5
_SUPPORT_SHARE = 0.9  # of delta for `SupportTest`, where it applies; `EllipsoidTest` has the rest
_BETTING_SHARE = 0.7  # of delta for `BettingTest`, where it applies, taken from the share of `SupportTest`
_MIN_EXTRAPOLATED = 0.05  # share of the threshold below which no remaining number is extrapolated


class CertifiedRule(FixedConfidenceRule):
    """Stop when a certified lower bound of the evidence exceeds a proved threshold.

    Tests begin when the error probability under a flat prior is at most delta. From then on the rule requests
    measurements against the answers that are not refuted yet. Every arm (or a basis of their span) has to be measured
    at least once; in problems with actions and theta >= 0, components that no action measures may remain unmeasured.

    The claim holds for any sampling, that is, for any choice of arms. It does not hold for data from which results were
    omitted because of their values. A result with a standard error of its own has the weight 1/sem^2. The tests are
    martingales in the weighted results: the claim holds for weights that depend on other results, if sem was determined
    before its own result was known.

    Parameters
    ----------
    delta
        Bound on the probability of a wrong answer, for normal (or sub-Gaussian) noise of the stated size.
    epsilon
        Accept an answer whose value is at most this much worse than the best. Where both can be tested, epsilon and
        epsilon = 0 have a share of delta each.
    ratio
        Factor between the times of looks.

    Examples
    --------
    >>> from combopeps import Problem, TopKOracle, identify
    >>> truth, noise = {"a": 0.1, "b": 2.0, "c": 1.0}, np.random.default_rng(0)
    >>> items = Problem(TopKOracle(["a", "b", "c"], k=1), noise_std=1.0)
    >>> result = identify(items, lambda x: truth[x] + noise.normal(), stopping="certified")
    >>> result.answer, result.stop_reason
    ({'b'}, 'certified')
    >>> print(result.claim)
    the answer is not the best with probability at most 0.05, for every theta (frequentist, any sampling, any time)
    """

    name = "certified"
    requires_noise_std = proves = True
    requests_measurements = True

    def __init__(self, delta: float = 0.05, *, epsilon: float = 0.0, ratio: float = 1.1) -> None:
        super().__init__(delta, epsilon=epsilon, ratio=ratio)
        self._is_directing = self._by_actions = self._is_part = False
        self._outcomes: list[Outcome] = []
        self._samples = 0  # at the time of `_outcomes`
        self._answer: Array | None = None  # tested by `_outcomes`
        self._closest: tuple[SupportTest, Outcome] | None = None  # the support test closest to its threshold
        self._best_test: SupportTest | None = None  # of z_hat being the best
        self._epsilon_test: SupportTest | None = None  # of z_hat being worse by at most epsilon
        self._ellipsoid: EllipsoidTest | None = None
        self._bets: BettingTest | None = None

    @property
    def claim(self) -> str:
        """Text of the claim."""
        return self._frequentist_claim("any sampling, any time")

    def check_problem(self, problem: Problem, estimate: NoiseEstimate | None = None) -> None:
        super().check_problem(problem, estimate)
        self._by_actions = problem.measures_actions

    def follow(self, requests: Requests) -> None:
        """Use the log of the rule that this one is a part of."""
        self._requests, self._is_part = requests, True

    def results_changed(self, query_results: Measurements, in_proof: bool) -> None:
        """Restart the tests on the changed data; `BettingTest` continues with its next share of delta."""
        super().results_changed(query_results, in_proof)
        if self._ellipsoid is None or self._oracle is None:
            return
        bets, best, nearly = self._bets, self._best_test is not None, self._epsilon_test is not None
        self._start_on(self._oracle, self.requests.fresh.arms, best, nearly)
        self._bets, self._outcomes, self._answer, self._closest = bets, [], None, None
        if bets is not None:
            bets.give_up()
            if not self._is_part:
                self.requests.cancel()

    def check(self, view: View) -> Verdict:
        """Run all tests that apply, cheaper ones first."""
        if self.first_look(view):
            require_identifiability(view.oracle, view.data.arms, view.z_hat, self.epsilon)
        flat = view.without_prior()
        error_probability = float("nan")
        if not self._is_directing:
            error_probability = (flat or view).error_probability(self.epsilon)
            self._is_directing = error_probability <= self.delta
        if not self._is_directing:
            return Verdict(False, error_probability=error_probability)
        if flat is None and not (self._by_actions and view.oracle.domain == "nonnegative"):
            return Verdict(False, requested_arms=view.data.missing, error_probability=error_probability)
        # With theta >= 0, a component that no action measures is treated as one of length 0.
        tested = flat or view
        verdict = self.certify(tested)
        arms = None if verdict.stop else self._direct(tested)
        return replace(verdict, requested_arms=arms, error_probability=error_probability)

    def certify(self, flat: View) -> Verdict:
        """Run the tests on a view without prior, regardless of the error probability."""
        self._outcomes, self._samples = self._run(flat), flat.t
        best = self._best
        if best is None:
            return Verdict(False)
        calls = sum(outcome.bound.oracle_calls for outcome in self._outcomes)
        return Verdict(best.passed, best.bound.value, best.threshold, calls, self.claim, z=self._answer)

    @property
    def _best(self) -> Outcome | None:
        """The outcome closest to its threshold, or furthest above it."""
        return max(self._outcomes, key=lambda outcome: outcome.bound.value - outcome.threshold, default=None)

    @property
    def proof(self) -> Proof | None:
        """Progress of the best test of the last look, extrapolated in proportion to the measurements."""
        best = self._best
        if best is None:
            return None
        value, threshold = max(best.bound.value, 0.0), best.threshold
        missing = ceil(self._samples * (threshold / value - 1.0)) if value > _MIN_EXTRAPOLATED * threshold else None
        return Proof(self.name, value, threshold, missing)

    def _run(self, view: View) -> list[Outcome]:
        if self._ellipsoid is None:
            self._start(view)
        assert self._ellipsoid is not None
        data, z_hat = view.data, view.z_hat
        self._answer = z_hat if self._bets is None or self._bets.z_hat is None else self._bets.z_hat
        bets = None if self._bets is None else self._bets.run(data, z_hat, self.requests.fresh)
        if bets is not None:
            return [bets]
        self._answer = z_hat
        outcomes, rivals, self._closest = list[Outcome](), np.zeros((0, len(z_hat))), None
        for test in (self._best_test, self._epsilon_test):
            found = None if test is None else test.run(data, z_hat)
            if test is None or found is None:
                continue
            if self._closest is None or _reached(found) > _reached(self._closest[1]):
                self._closest = test, found
            outcomes, rivals = [*outcomes, found], test.rivals
            if found.passed:
                return outcomes
        randomised = is_randomised(view.oracle, z_hat, data.arms.are_units, self.epsilon)
        last = self._ellipsoid.run(data, z_hat, rivals, view.rng, randomised)
        return outcomes if last is None else [*outcomes, last]

    def _start(self, view: View) -> None:
        oracle, arms, z_hat = view.oracle, view.data.arms, view.z_hat
        best = SupportTest.fits(oracle, arms, z_hat, 0.0)
        # `BettingTest` takes epsilon into account. On graphs with cycles, a union over whole answers is too large.
        bets = best and self._can_bet(oracle, arms)
        nearly = self.epsilon > 0.0 and not bets and SupportTest.fits(oracle, arms, z_hat, self.epsilon)
        self._start_on(oracle, arms, best, nearly)

    def _can_bet(self, oracle: ArgmaxOracle, arms: Arms) -> bool:
        return not self._by_actions and BettingTest.fits(oracle, arms)

    def _start_on(self, oracle: ArgmaxOracle, arms: Arms, best: bool, nearly: bool) -> None:
        """Create the tests; the flags tell which support tests apply."""
        remaining = 1.0
        if best or nearly:
            share, remaining = _SUPPORT_SHARE, 1.0 - _SUPPORT_SHARE
            if best and self._can_bet(oracle, arms):
                share -= _BETTING_SHARE
                self._bets = BettingTest(oracle, _BETTING_SHARE * self.delta, self.epsilon)
            share *= self.delta / (best + nearly)
            self._best_test = SupportTest(oracle, arms, share, 0.0) if best else None
            self._epsilon_test = SupportTest(oracle, arms, share, self.epsilon) if nearly else None
        self._ellipsoid = EllipsoidTest(oracle, remaining * self.delta, self.epsilon)

    def state_dict(self) -> StateDict:
        """Return the state of the tests, without their last outcomes, which every look recomputes."""
        requests = {} if self._is_part else {"requests": self.requests.state_dict()}
        return requests | {
            "looked": self._oracle is not None,
            "directing": bool(self._is_directing),
            "started": self._ellipsoid is not None,
            "supports": None if self._best_test is None else self._best_test.state_dict(),
            "nearly": None if self._epsilon_test is None else self._epsilon_test.state_dict(),
            "bets": None if self._bets is None else self._bets.state_dict(),
        }

    def load_state_dict(self, data: StateDict, problem: Problem) -> None:
        if not self._is_part:
            self.requests.load_state_dict(data["requests"])
        arms, self._is_directing = problem.signal, boolean(data["directing"])
        self._oracle = problem.oracle if boolean(data["looked"]) else None
        if boolean(data["started"]):
            self._start_on(problem.oracle, arms, data["supports"] is not None, data["nearly"] is not None)
        if self._best_test is not None:
            self._best_test.load_state_dict(data["supports"])
        if self._epsilon_test is not None:
            self._epsilon_test.load_state_dict(data["nearly"])
        if self._bets is not None:
            self._bets.load_state_dict(data["bets"], arms)

    def _direct(self, view: View) -> NDArray[np.int64] | None:
        """Return arms to measure until the next look, against the answers that are not refuted yet."""
        if self._best_test is not None and self._bets is not None:
            if self.requests.outstanding:  # the round is not complete
                return None
            candidates, fresh = self._best_test.candidates, self.requests.fresh
            return self._bets.direct(view.data, view.z_hat, candidates, view.rng, fresh)
        if self._closest is None or len(self._closest[0].rivals) == 0:
            return None
        test, outcome = self._closest
        t, worthwhile = view.t, test.work // _WORK_PER_MEASUREMENT
        shortest = steps(t, 1.0 + (self.ratio - 1.0) / _CHEAP_LOOK_FACTOR)
        longest = max(steps(t, self.ratio), t // _MAX_SPACING_DIVISOR)
        if outcome.bound.oracle_calls:
            shortest = steps(t, self.ratio)
        count = min(max(shortest, worthwhile), longest)
        return test.direct(view.data, view.z_hat, outcome.rho, count)


class HeuristicRule(FixedConfidenceRule):
    """Stop when GLR > ln((1 + ln t)/delta): a common heuristic, without a proof.

    The GLR statistic is computed under the posterior, prior included, and bounded from below as in `CertifiedRule`. t
    is the number of measurements, or of actions in a problem with actions.

    Parameters
    ----------
    delta, epsilon, ratio
        As for `CertifiedRule`, except that nothing is guaranteed.

    Examples
    --------
    >>> from combopeps import Problem, TopKOracle, identify
    >>> truth, noise = {"a": 0.1, "b": 2.0, "c": 1.0}, np.random.default_rng(0)
    >>> items = Problem(TopKOracle(["a", "b", "c"], k=1), noise_std=1.0)
    >>> result = identify(items, lambda x: truth[x] + noise.normal(), stopping="heuristic")
    >>> print(result.claim)
    none is proved: GLR > ln((1 + ln t)/delta) is a heuristic
    """

    name = "heuristic"
    claim = "none is proved: GLR > ln((1 + ln t)/delta) is a heuristic"

    def __init__(self, delta: float = 0.05, *, epsilon: float = 0.0, ratio: float = 1.1) -> None:
        super().__init__(delta, epsilon=epsilon, ratio=ratio)
        self._cheap_ratio = 1.0 + (ratio - 1.0) / _CHEAP_LOOK_FACTOR

    def check(self, view: View) -> Verdict:
        """Bound the GLR statistic; looks are more frequent where this takes no oracle calls."""
        t = view.t if view.actions is None else view.actions
        threshold, error_probability = log((1 + log(max(t, 1))) / self.delta), float("nan")
        if self.ratio != self._cheap_ratio:
            error_probability = view.error_probability(self.epsilon)
            if error_probability > self.delta:  # the test cannot pass
                return Verdict(False, threshold=threshold, error_probability=error_probability)
        estimate = view.posterior.normal
        claim = self.claim if view.posterior.dof[0] == np.inf else f"{self.claim}; the noise is an estimate"
        bound = glr_bound(view.oracle, view.z_hat, estimate, target=threshold, rng=view.rng, epsilon=self.epsilon)
        if bound.oracle_calls == 0:
            self.ratio = self._cheap_ratio
        return Verdict(
            bound.value >= threshold,
            bound.value,
            threshold,
            bound.oracle_calls,
            claim,
            error_probability=error_probability,
        )


def _reached(outcome: Outcome) -> float:
    """Return the statistic relative to the threshold."""
    return outcome.bound.value / outcome.threshold if outcome.threshold > 0.0 else np.inf


def steps(t: int, ratio: float) -> int:
    """Return the number of measurements until the next look."""
    return max(1, int(t * ratio) - t)

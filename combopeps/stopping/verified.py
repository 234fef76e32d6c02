"""`VerifiedRule`: explore, then verify the answer on fresh measurements.

z_hat is fixed before the fresh data are known. If it is wrong, some rival is better, and the fresh data refute that
rival with probability at most alpha. "Every rival is refuted" is an intersection-union test, so its threshold does not
depend on the size of Z or the dimension.

- Where rivals can be listed, each is tested by an e-process of its own (`certificates.e_process`). E-processes for the
  runner-up are updated with the same data, so that no fresh measurement is lost when the lead changes.
- Otherwise all rivals are tested at once, on measurements planned in advance (`certificates.fixed_plan`).

Every tested answer takes a share of delta. After a failed attempt its data are part of the posterior, and exploration
continues. Data from before the run influence only which answer is tested, never the claim.

Fresh data are the results of the measurements that the rule requests (`requests`), and no others. Results of other
queries, observations and repetitions enter the posterior only.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array, Sparse
from combopeps.oracles.constrained_argmax import list_answers
from combopeps.posterior.gaussian import Normal
from combopeps.posterior.least_squares import Measurements
from combopeps.posterior.noise_level import NoiseEstimate
from combopeps.problem import Problem
from combopeps.stopping.base import FixedConfidenceRule, Proof, Verdict, View
from combopeps.stopping.certificates.alpha_spending import MIN_DELTA
from combopeps.stopping.certificates.e_process import Bet, BettingAttempt, complete_estimate, measurements_needed
from combopeps.stopping.certificates.fixed_plan import FixedPlan
from combopeps.stopping.certificates.glr import other_answers, require_identifiability, rival_rows
from combopeps.stopping.certified import CertifiedRule
from combopeps.utils.state_dict import StateDict, boolean, finite_float, integer, load_sparse, sparse_state
from combopeps.utils.validation import check_fraction

# Share of the remaining delta that is reserved for later attempts after a fixed plan, after bets on one answer, and
# after bets on facets where epsilon > 0.
_PLAN_RESERVE, _BET_RESERVE, _FACET_RESERVE = 0.12, 0.2, 0.3
_CERTIFICATE_SHARE = 0.02  # of delta for `CertifiedRule`, which ends runs that verification would not
_MAX_ATTEMPTS = 3  # after which `CertifiedRule` directs the measurements
_MAX_COST_RATIO = 4.0  # measurements of bets on facets, relative to a lower bound of what epsilon would allow
_STEP_LENGTH = 1.01  # relative to the distance of the nearest facet, so that rounding does not leave theta on it
_MAX_BATCH = 100_000  # measurements requested at once


class VerifiedRule(FixedConfidenceRule):
    """Stop when fresh measurements confirm an answer that was fixed beforehand.

    A frequentist guarantee for any Z, any arms, and any policy that explores. The rule needs fewest measurements where
    answers differ in many components or Z is huge: the threshold of `CertifiedRule` grows with both, that of this rule
    with neither. A fiftieth of delta is used for `CertifiedRule` on the results of all queries of the run. It may end
    the run once an attempt is overdue, and chooses the measurements after three failed attempts. Results with a
    standard error of their own are weighted by it; it must have been determined before the result was known.

    Parameters
    ----------
    delta
        Bound on the probability of a wrong answer, for normal noise of the stated size; at least 1e-100.
    explore
        Verification starts when the error probability under a flat prior is below this.
    epsilon
        Accept an answer whose value is at most this much worse than the best.
    ratio
        Factor between the times of looks while exploring.

    Examples
    --------
    >>> from combopeps import Problem, TopKOracle, identify
    >>> truth, noise = {"a": 0.1, "b": 2.0, "c": 1.0}, np.random.default_rng(0)
    >>> items = Problem(TopKOracle(["a", "b", "c"], k=1), noise_std=1.0)
    >>> result = identify(items, lambda x: truth[x] + noise.normal(), stopping="verified")
    >>> result.answer, result.stop_reason
    ({'b'}, 'verified')
    >>> print(result.claim)
    the answer is not the best with probability at most 0.05, for every theta (frequentist, confirmed on fresh data)
    """

    name = "verified"
    requires_noise_std = proves = True
    supports_actions = False
    requests_measurements = True

    def __init__(self, delta: float = 0.05, *, explore: float = 0.2, epsilon: float = 0.0, ratio: float = 1.1) -> None:
        super().__init__(delta, epsilon=epsilon, ratio=ratio)
        check_fraction("explore", explore)
        if delta < MIN_DELTA:
            raise ParameterError(
                f"delta must be at least {MIN_DELTA:g}, below which the boundaries of fresh data are not computed; "
                f'got {delta!r}: use stopping="certified"'
            )
        self.explore, self.attempts = explore, 0
        self._attempt: BettingAttempt | FixedPlan | None = None
        self._placed: list[Bet] = []  # bets on the answers of all attempts
        self._left = (1.0 - _CERTIFICATE_SHARE) * delta  # remaining delta
        self._explore_threshold = explore  # halved after every failed attempt
        self._next_certificate = 0
        self._certificate = CertifiedRule(_CERTIFICATE_SHARE * delta, epsilon=epsilon, ratio=ratio)
        self._answers: Sparse | None = None  # all answers, where an enumeration was needed
        self._proved: Verdict | None = None
        self._by_certificate = False  # whether `_proved` is the verdict of `_certificate`

    @property
    def claim(self) -> str:
        """Text of the claim."""
        return self._frequentist_claim("confirmed on fresh data")

    @property
    def proof(self) -> Proof | None:
        """Progress of the current attempt; after the last attempt, of `CertifiedRule`."""
        attempt = self._attempt
        if attempt is None:
            return self._certificate.proof if self.attempts == _MAX_ATTEMPTS else None
        remaining = max(attempt.remaining - self.requests.fresh.samples, 1)
        return Proof(self.name, attempt.statistic, attempt.threshold, remaining)

    def check_problem(self, problem: Problem, estimate: NoiseEstimate | None = None) -> None:
        super().check_problem(problem, estimate)
        self._certificate.follow(self.requests)

    def results_changed(self, query_results: Measurements, in_proof: bool) -> None:
        """Give up a proof that used a changed result, together with its share of delta."""
        super().results_changed(query_results, in_proof)
        self._certificate.results_changed(query_results, in_proof)
        if in_proof or self._by_certificate:
            self._proved, self._by_certificate = None, False
        if in_proof:
            self._attempt, self._placed = None, []
            self.requests.cancel()

    def check(self, view: View) -> Verdict:
        """Explore until an attempt can begin, and continue it; a verdict that stops is final."""
        first = self.first_look(view)
        if self._proved is not None:
            return self._proved
        if self.requests.outstanding:
            return Verdict(False)
        verdict = self._check(view, first)
        self._proved = verdict if verdict.stop else None
        return verdict

    def state_dict(self) -> StateDict:
        """Return the attempts, the bets and the remaining delta as plain data."""
        return {
            "looked": self._oracle is not None, "attempts": self.attempts, "left": float(self._left),
            "placed": [bet.state_dict() for bet in self._placed],
            "attempt": None if self._attempt is None else self._attempt.state_dict(),
            "wanted": float(self._explore_threshold),
            "requests": self.requests.state_dict(), "next_certificate": self._next_certificate,
            "insurance": self._certificate.state_dict(),
            "answers": None if self._answers is None else sparse_state(self._answers),
            "proved": None if self._proved is None else self._proved.state_dict(),
            "by_certificate": bool(self._by_certificate),
        }  # fmt: skip

    def load_state_dict(self, data: StateDict, problem: Problem) -> None:
        arms, oracle, attempt = problem.signal, problem.oracle, data["attempt"]
        self._oracle = oracle if boolean(data["looked"]) else None
        self.requests.load_state_dict(data["requests"])
        self.attempts, self._next_certificate = (
            integer(data["attempts"], _MAX_ATTEMPTS),
            integer(data["next_certificate"]),
        )
        self._left, self._explore_threshold = finite_float(data["left"]), finite_float(data["wanted"])
        self._placed = [Bet.restored(bet, oracle.dim) for bet in data["placed"]]
        if attempt is not None and attempt["kind"] == "bets":
            self._attempt = BettingAttempt.restored(attempt, arms, self._placed)
        elif attempt is not None:
            self._attempt = FixedPlan.restored(attempt, arms, oracle, self.epsilon)
        self._certificate.load_state_dict(data["insurance"], problem)
        self._answers = None if data["answers"] is None else load_sparse(data["answers"], oracle.dim)
        self._proved = None if data["proved"] is None else Verdict.restored(data["proved"], oracle.dim)
        self._by_certificate = boolean(data["by_certificate"])

    def _check(self, view: View, first: bool) -> Verdict:
        if first:
            require_identifiability(view.oracle, view.data.arms, view.z_hat, self.epsilon)
        flat = view.without_prior()
        if flat is None:
            error_probability = view.error_probability(self.epsilon)
            arms = view.data.missing if error_probability <= self._explore_threshold else None
            return Verdict(False, requested_arms=arms, error_probability=error_probability)
        if self._attempt is not None:
            verdict = self._continue(flat, self._attempt)
            if verdict is not None:
                return verdict
            self._attempt = None
            self._explore_threshold /= 2.0
        if self.attempts == _MAX_ATTEMPTS:
            own = self._under_own_data(flat)
            if own is None:
                return Verdict(False, requested_arms=self.requests.query_results.missing)
            return self._certified(self._certificate.check(own))
        error_probability = flat.error_probability(self.epsilon)
        if error_probability > self._explore_threshold:
            return Verdict(False, error_probability=error_probability)
        self._attempt = self._begin(flat)
        return Verdict(
            False,
            requested_arms=_next_batch(self._attempt.missing(self.requests.fresh), flat.rng),
            error_probability=error_probability,
        )

    def _begin(self, view: View) -> BettingAttempt | FixedPlan:
        """Fix z_hat and the runner-up, and begin to test them.

        Answers that no earlier attempt was about take a new share of delta.
        """
        self.attempts += 1
        oracle, z_hat, data, epsilon = view.oracle, view.z_hat, view.data, self.epsilon
        rows = self._rivals(oracle, z_hat)
        if rows is None and epsilon > 0.0:
            # Facets are listed but other answers are not: test the facets with a smaller epsilon, unless too expensive.
            rows, epsilon = rival_rows(oracle, z_hat), self._facet_epsilon(oracle, z_hat)
            level = (1.0 - _FACET_RESERVE) * self._left
            if rows is not None and self._is_expensive(measurements_needed(data, rows, level, epsilon), rows, view):
                rows = None
        if rows is None:
            level = self._take_level(_PLAN_RESERVE)
            return FixedPlan(data, oracle, z_hat, level, self.epsilon, view.rng, self.requests.fresh)
        now = complete_estimate(data)
        leader = self._bet_on(z_hat, rows, now, epsilon)
        second = _runner_up(view, rows, now)
        if epsilon == self.epsilon:
            rows = self._rivals(oracle, second)
        else:
            rows, epsilon = rival_rows(oracle, second), self._facet_epsilon(oracle, second)
        if rows is not None:
            self._bet_on(second, rows, now, epsilon)
        self._placed.sort(key=lambda bet: bet is not leader)
        return BettingAttempt(data, self._placed, self.requests.fresh)

    def _bet_on(self, z: Array, rows: Sparse, now: Normal, epsilon: float) -> Bet:
        """Return the bets on an answer, from an earlier attempt if there are any."""
        for bet in self._placed:
            if (bet.z_hat == z).all() and bet.epsilon == epsilon:
                return bet
        level = self._take_level(_BET_RESERVE if epsilon == self.epsilon else _FACET_RESERVE)
        self._placed.append(Bet(now, z, rows, level, epsilon))
        return self._placed[-1]

    def _facet_epsilon(self, oracle: ArgmaxOracle, z: Array) -> float:
        """Return the epsilon for facets: if none is better by more, no answer is better by more than `self.epsilon`."""
        return self.epsilon / max(1, int(np.count_nonzero(z))) if oracle.exchanges else 0.0

    def _is_expensive(self, needed: int, facets: Sparse, view: View) -> bool:
        """Return whether bets on facets take too many measurements, compared to a lower bound for any proof.

        The bound is for bets on facets with the full epsilon, which prove nothing but are part of any proof.
        """
        level = (1.0 - _PLAN_RESERVE) * self._left
        return needed > _MAX_COST_RATIO * measurements_needed(view.data, facets, level, self.epsilon)

    def _take_level(self, reserve: float) -> float:
        """Take the remaining delta except for a share `reserve` of it."""
        level = (1.0 - reserve) * self._left
        self._left -= level
        return level

    def _rivals(self, oracle: ArgmaxOracle, z_hat: Array) -> Sparse | None:
        """Return the rivals to refute as rows z - z_hat; None if they cannot be listed."""
        rows = rival_rows(oracle, z_hat, self.epsilon)
        if rows is None and (self._answers is not None or self.attempts == 1):
            self._answers = list_answers(oracle) if self._answers is None else self._answers
            rows = None if self._answers is None else other_answers(self._answers, z_hat)
        return rows

    def _continue(self, view: View, attempt: BettingAttempt | FixedPlan) -> Verdict | None:
        """Request missing measurements, or evaluate complete ones; return None when the attempt has failed."""
        fresh = self.requests.fresh
        missing = attempt.missing(fresh)
        if missing.any():
            return Verdict(False, requested_arms=_next_batch(missing, view.rng))
        is_alive = attempt.look(view.data, view.z_hat, view.rng, fresh)
        found = Verdict(False, attempt.statistic, attempt.threshold, attempt.oracle_calls)
        if attempt.confirmed:
            return replace(found, stop=True, claim=self.claim, z=attempt.z_hat)
        if attempt.overdue and view.t >= self._next_certificate:
            self._next_certificate = ceil(self.ratio * view.t)
            own = self._under_own_data(view)
            certified = None if own is None else self._certificate.certify(own)
            if certified is not None and certified.stop:
                return self._certified(certified)
            if isinstance(attempt, BettingAttempt) and attempt.lead.epsilon < self.epsilon:
                is_alive = is_alive and not self._is_expensive(attempt.remaining, attempt.lead.rows, view)
        return replace(found, requested_arms=_next_batch(attempt.missing(fresh), view.rng)) if is_alive else None

    def _under_own_data(self, flat: View) -> View | None:
        """Return the view under the results of this run's queries alone; None while they leave a direction open.

        Observations and data from before the run are excluded: whether they were reported may depend on their values.
        """
        return flat.under_data(self.requests.query_results)

    def _certified(self, verdict: Verdict) -> Verdict:
        """Return the verdict of `CertifiedRule` with the claim of this rule."""
        self._by_certificate = verdict.stop
        return replace(verdict, claim=self._frequentist_claim("certified on all queries of the run"))


def _runner_up(view: View, rows: Sparse, now: Normal) -> Array:
    """Return the best answer just beyond the facet that theta crosses with the largest probability."""
    gaps, widths = now.gaps(rows), now.quadratic(rows)
    nearest = int((gaps / np.sqrt(widths)).argmin())
    step = _STEP_LENGTH * gaps[nearest] / widths[nearest]
    theta = now.theta + step * now.along(rows[[nearest]].toarray()[0])
    return view.oracle.argmax(view.space.project(theta))


def _next_batch(missing: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return arms for at most `_MAX_BATCH` of the missing measurements, in random order."""
    if missing.sum() > _MAX_BATCH:
        missing = rng.multivariate_hypergeometric(missing, _MAX_BATCH, method="marginals")
    return rng.permutation(np.repeat(np.arange(len(missing)), missing))

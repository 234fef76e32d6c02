"""`VerifiedRule`: explore, then prove the answer on fresh measurements.

z_hat is fixed before the fresh data are seen. If it is wrong, some rival beats it in truth, and that one is refuted by
the fresh data with probability at most alpha: "every rival is refuted" is an intersection-union test, so neither the
size of Z nor the dimension costs anything. Where rivals can be listed, each is refuted by a bet of its own (`bets`);
bets on the runner-up go along, so that no fresh measurement is lost when the lead changes; elsewhere all of them at
once, by measurements planned in advance (`fixed_plan`). Each answer takes a share of delta; a failed attempt hands its
data to the belief, and exploration goes on. What was known before the run only helps to guess the answer: however it
came about, the claim does not rest on it.

Fresh are the results of the measurements that the rule requests (`requests`), and no others: what else is measured,
observed or repeated meanwhile joins the estimate, whatever it was chosen for.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array, Sparse
from combopeps.oracles.constrained_argmax import list_answers
from combopeps.posterior.least_squares import Measurements
from combopeps.posterior.noise_level import NoiseEstimate
from combopeps.posterior.normal import Normal
from combopeps.problem import Problem
from combopeps.stopping.base import DeltaRule, Proof, Verdict, View
from combopeps.stopping.certificates.alpha_spending import SMALLEST
from combopeps.stopping.certificates.e_process import Bet, Bets, complete_estimate, measurements_needed
from combopeps.stopping.certificates.fixed_plan import FixedPlan
from combopeps.stopping.certificates.glr import others, require_reach, rival_rows
from combopeps.stopping.certified import CertifiedRule
from combopeps.utils.state_dict import StateDict, flag, plain_rows, real, rows, whole
from combopeps.utils.validation import check_fraction

_SHARE, _PLACED = 0.12, 0.2  # of what is left of delta after a plan, or after bets on one answer, for the next ones
_INSURANCE = 0.02  # share of delta for the certificate of all data, which ends runs that verification would not
_ATTEMPTS = 3  # then the certificate directs the measurements
_BEST = 0.3  # of what is left of delta after bets on facets, where epsilon allows for less than the best
_DEARER = 4.0  # such bets may take so many times the measurements that an ideal use of epsilon would
_BEYOND = 1.01  # of the way to the nearest facet, so that rounding does not leave theta on it
_PORTION = 100_000  # measurements asked for at once


class VerifiedRule(DeltaRule):
    """Stop when fresh measurements confirm an answer that was fixed beforehand.

    Frequentist, for any Z and any arms, and any policy that explores. It shines where answers differ in many components
    or where Z is huge: `CertifiedRule` pays for both, this rule for neither. A fiftieth of delta goes to that rule all
    the same, on the results of all queries of the run: once an attempt is overdue it may end the run, and after three
    attempts that failed it chooses what to measure. Results with a standard error of their own are taken with it, if
    that was determined before the result was known.

    Parameters
    ----------
    delta
        Bound on the probability of a wrong answer, for normal noise of the stated size; at least 1e-100.
    explore
        Verification starts when the probability of being wrong, judged by the measurements alone, is below this.
    epsilon
        Accept an answer that is at most so much worse than the best.
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
    needs_noise = proves = True
    takes_actions = False
    requests_measurements = True

    def __init__(self, delta: float = 0.05, *, explore: float = 0.2, epsilon: float = 0.0, ratio: float = 1.1) -> None:
        super().__init__(delta, epsilon=epsilon, ratio=ratio)
        check_fraction("explore", explore)
        if delta < SMALLEST:
            raise ParameterError(
                f"delta must be at least {SMALLEST:g}, below which the boundaries of fresh data are not computed; "
                f'got {delta!r}: use stopping="certified"'
            )
        self.explore, self.attempts = explore, 0
        self._attempt: Bets | FixedPlan | None = None
        self._placed: list[Bet] = []  # on all answers that any attempt was about
        self._left = (1.0 - _INSURANCE) * delta
        self._doubt_wanted = explore
        self._next_certificate = 0
        self._insurance = CertifiedRule(_INSURANCE * delta, epsilon=epsilon, ratio=ratio)
        self._answers: Sparse | None = None  # all of them, where they had to be found one by one
        self._proved: Verdict | None = None
        self._by_certificate = False  # how it was proved

    @property
    def claim(self) -> str:
        """In words."""
        return self._frequentist("confirmed on fresh data")

    @property
    def proof(self) -> Proof | None:
        """That of the attempt under way; after the last one, that of the certificate."""
        attempt = self._attempt
        if attempt is None:
            return self._insurance.proof if self.attempts == _ATTEMPTS else None
        left = max(attempt.remaining - self.requests.fresh.samples, 1)
        return Proof(self.name, attempt.statistic, attempt.threshold, left)

    def check_problem(self, problem: Problem, estimate: NoiseEstimate | None = None) -> None:
        super().check_problem(problem, estimate)
        self._insurance.follow(self.requests)

    def results_changed(self, told: Measurements, in_proof: bool) -> None:
        """A proof that a changed result is part of is given up, with the share of delta that it had."""
        super().results_changed(told, in_proof)
        self._insurance.results_changed(told, in_proof)
        if in_proof or self._by_certificate:
            self._proved, self._by_certificate = None, False
        if in_proof:
            self._attempt, self._placed = None, []
            self.requests.cancel()

    def check(self, view: View) -> Verdict:
        """Begin an attempt when exploration is good enough, and go on with it; what is proved stays so."""
        first = self.first_look(view)
        if self._proved is not None:
            return self._proved
        if self.requests.outstanding:
            return Verdict(False)
        verdict = self._check(view, first)
        self._proved = verdict if verdict.stop else None
        return verdict

    def state_dict(self) -> StateDict:
        """What it has seen and spent."""
        return {
            "looked": self._oracle is not None, "attempts": self.attempts, "left": float(self._left),
            "placed": [bet.state_dict() for bet in self._placed],
            "attempt": None if self._attempt is None else self._attempt.state_dict(),
            "wanted": float(self._doubt_wanted),
            "requests": self.requests.state_dict(), "next_certificate": self._next_certificate,
            "insurance": self._insurance.state_dict(),
            "answers": None if self._answers is None else plain_rows(self._answers),
            "proved": None if self._proved is None else self._proved.state_dict(),
            "by_certificate": bool(self._by_certificate),
        }  # fmt: skip

    def load_state_dict(self, data: StateDict, problem: Problem) -> None:
        arms, oracle, attempt = problem.signal, problem.oracle, data["attempt"]
        self._oracle = oracle if flag(data["looked"]) else None
        self.requests.load_state_dict(data["requests"])
        self.attempts, self._next_certificate = whole(data["attempts"], _ATTEMPTS), whole(data["next_certificate"])
        self._left, self._doubt_wanted = real(data["left"]), real(data["wanted"])
        self._placed = [Bet.restored(bet, oracle.dim) for bet in data["placed"]]
        if attempt is not None and attempt["kind"] == "bets":
            self._attempt = Bets.restored(attempt, arms, self._placed)
        elif attempt is not None:
            self._attempt = FixedPlan.restored(attempt, arms, oracle, self.epsilon)
        self._insurance.load_state_dict(data["insurance"], problem)
        self._answers = None if data["answers"] is None else rows(data["answers"], oracle.dim)
        self._proved = None if data["proved"] is None else Verdict.restored(data["proved"], oracle.dim)
        self._by_certificate = flag(data["by_certificate"])

    def _check(self, view: View, first: bool) -> Verdict:
        if first:
            require_reach(view.oracle, view.data.arms, view.z_hat, self.epsilon)
        flat = view.without_prior()
        if flat is None:
            risk = view.risk(self.epsilon)
            arms = view.data.missing if risk <= self._doubt_wanted else None
            return Verdict(False, sample_next=arms, risk=risk)
        if self._attempt is not None:
            verdict = self._go_on(flat, self._attempt)
            if verdict is not None:
                return verdict
            self._attempt = None
            self._doubt_wanted /= 2.0
        if self.attempts == _ATTEMPTS:
            own = self._own(flat)
            if own is None:
                return Verdict(False, sample_next=self.requests.told.missing)
            return self._certified(self._insurance.check(own))
        risk = flat.risk(self.epsilon)
        if risk > self._doubt_wanted:
            return Verdict(False, risk=risk)
        self._attempt = self._begin(flat)
        return Verdict(False, sample_next=_portion(self._attempt.missing(self.requests.fresh), flat.rng), risk=risk)

    def _begin(self, view: View) -> Bets | FixedPlan:
        """Fix the answer and what comes next to it, and take shares of delta for those on which no bets are placed."""
        self.attempts += 1
        oracle, z_hat, data, epsilon = view.oracle, view.z_hat, view.data, self.epsilon
        rows = self._rivals(oracle, z_hat)
        if rows is None and epsilon > 0.0:
            rows, epsilon = rival_rows(oracle, z_hat), self._per_facet(oracle, z_hat)
            level = (1.0 - _BEST) * self._left
            if rows is not None and self._is_dear(measurements_needed(data, rows, level, epsilon), rows, view):
                rows = None
        if rows is None:
            level = self._level(_SHARE)
            return FixedPlan(data, oracle, z_hat, level, self.epsilon, view.rng, self.requests.fresh)
        now = complete_estimate(data)
        ahead = self._placed_on(z_hat, rows, now, epsilon)
        second = _runner_up(view, rows, now)
        if epsilon == self.epsilon:
            rows = self._rivals(oracle, second)
        else:
            rows, epsilon = rival_rows(oracle, second), self._per_facet(oracle, second)
        if rows is not None:
            self._placed_on(second, rows, now, epsilon)
        self._placed.sort(key=lambda bet: bet is not ahead)
        return Bets(data, self._placed, self.requests.fresh)

    def _placed_on(self, z: Array, rows: Sparse, now: Normal, epsilon: float) -> Bet:
        """The bets on an answer: those from an earlier attempt go on."""
        for bet in self._placed:
            if (bet.z_hat == z).all() and bet.epsilon == epsilon:
                return bet
        level = self._level(_PLACED if epsilon == self.epsilon else _BEST)
        self._placed.append(Bet(now, z, rows, level, epsilon))
        return self._placed[-1]

    def _per_facet(self, oracle: ArgmaxOracle, z: Array) -> float:
        """By how much a facet may be better: if none is by more, no answer is better than z by more than epsilon."""
        return self.epsilon / max(1, int(np.count_nonzero(z))) if oracle.exchanges else 0.0

    def _is_dear(self, needed: int, facets: Sparse, view: View) -> bool:
        """Whether so many measurements for bets on facets are too many where epsilon asks for less.

        Facets with epsilon are no proof, but no proof takes fewer measurements than they do.
        """
        return needed > _DEARER * measurements_needed(view.data, facets, (1.0 - _SHARE) * self._left, self.epsilon)

    def _level(self, share: float) -> float:
        """All that is left of delta but this share, which is for what comes later."""
        level = (1.0 - share) * self._left
        self._left -= level
        return level

    def _rivals(self, oracle: ArgmaxOracle, z_hat: Array) -> Sparse | None:
        """All rivals that matter, as y = z - z_hat; None where they cannot be listed."""
        rows = rival_rows(oracle, z_hat, self.epsilon)
        if rows is None and (self._answers is not None or self.attempts == 1):
            self._answers = list_answers(oracle) if self._answers is None else self._answers
            rows = None if self._answers is None else others(self._answers, z_hat)
        return rows

    def _go_on(self, view: View, attempt: Bets | FixedPlan) -> Verdict | None:
        """Measurements that are missing, or what those that are there say; None when the attempt has failed."""
        fresh = self.requests.fresh
        missing = attempt.missing(fresh)
        if missing.any():
            return Verdict(False, sample_next=_portion(missing, view.rng))
        goes_on = attempt.look(view.data, view.z_hat, view.rng, fresh)
        found = Verdict(False, attempt.statistic, attempt.threshold, attempt.oracle_calls)
        if attempt.confirmed:
            return replace(found, stop=True, claim=self.claim, z=attempt.z_hat)
        if attempt.overdue and view.t >= self._next_certificate:
            self._next_certificate = ceil(self.ratio * view.t)
            own = self._own(view)
            insured = None if own is None else self._insurance.certify(own)
            if insured is not None and insured.stop:
                return self._certified(insured)
            if isinstance(attempt, Bets) and attempt.lead.epsilon < self.epsilon:
                goes_on = goes_on and not self._is_dear(attempt.remaining, attempt.lead.rows, view)
        return replace(found, sample_next=_portion(attempt.missing(fresh), view.rng)) if goes_on else None

    def _own(self, flat: View) -> View | None:
        """The same moment under the results of this run's queries; None while a direction is missing.

        Observations and what was known before do not count: which of them there are may depend on what they say.
        """
        return flat.under_data(self.requests.told)

    def _certified(self, verdict: Verdict) -> Verdict:
        self._by_certificate = verdict.stop
        return replace(verdict, claim=self._frequentist("certified on all queries of the run"))


def _runner_up(view: View, rows: Sparse, now: Normal) -> Array:
    """The answer right behind the facet that theta lies behind most easily."""
    gaps, widths = now.gaps(rows), now.quadratic(rows)
    nearest = int((gaps / np.sqrt(widths)).argmin())
    step = _BEYOND * gaps[nearest] / widths[nearest]
    theta = now.theta + step * now.along(rows[[nearest]].toarray()[0])
    return view.oracle.argmax(view.space.project(theta))


def _portion(missing: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Some of the measurements that are missing, in random order."""
    if missing.sum() > _PORTION:
        missing = rng.multivariate_hypergeometric(missing, _PORTION, method="marginals")
    return rng.permutation(np.repeat(np.arange(len(missing)), missing))

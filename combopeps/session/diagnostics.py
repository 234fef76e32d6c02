"""`Diagnostics`: sequential tests of the results of a session against the stated noise, prior and linear model.

`NoiseGuard` tests the noise; prior and linear model are tested by the classes of `combopeps.session.misspecification`.

Noise larger than stated:

    M = sum_{s,h} w_s / 4 exp( (1 - 1/s^2) S_h / 2 ) / s^(N_h) / charge_h(s),   alarm when M >= 1000

S_h is the sum of squared residuals around the mean of each arm's first h measurements (in units of the stated noise),
N_h their degrees of freedom, s the ratio of true to stated noise. For known means, exp((1 - 1/s^2) x^2 / 2) / s is a
likelihood ratio, of mean 1 if the noise is as stated, and products of such ratios are martingales under any adaptive
choice of arms. But means are estimated, and an adaptive policy repeats arms with lucky measurements: such residuals are
biased upwards. Therefore every arm with n < h measurements is charged for the worst adaptive choice,

    charge = prod_arms sqrt( s^2 - (s^2 - 1) n / h ),

for which the likelihood ratio with noise s and variance s^2 - (s^2 - 1) n / h (at least 1) of the mean direction is at
least M's factor, for every mean. By Ville's inequality an alarm then has probability at most 1/1000 in a run of any
length, under any policy, if the noise is independent and normal with at most the stated standard deviation.

Noise smaller than stated:

    M' = sum_s w'_s exp( (1 - 1/s^2) S / 2 ) / s^N / prod_arms sqrt( 1 + (n - 1) (1 - s^2) ),   s < 1,   alarm at 1000

with S and N of all measurements, and n those of an arm. Proof: let an arm have mean mu, and x its n measurements less
mu, in units of the stated noise. The likelihood ratio of N(0, s^2 I + (1 - s^2) 1 1') to N(0, I) for x is

    exp( (1 - 1/s^2) S / 2 + (1 - 1/v) n d^2 / 2 ) / ( s^(n-1) sqrt(v) ),   v = s^2 + n (1 - s^2) = 1 + (n-1) (1 - s^2)

with d the mean of x: the vector of ones is an eigenvector of that covariance with eigenvalue v, and all directions
orthogonal to it have s^2. As v >= 1, the factor of M' is at most that ratio, for every mu. These covariances are nested
in n, so that the ratio is a martingale that starts at 1 under any adaptive choice of arms; so is the product over arms,
and the mixture over s. By Ville's inequality M' reaches 1000 with probability at most 1/1000 in a run of any length,
under any policy, if the noise is independent and normal with at least the stated standard deviation: a larger one only
increases S and decreases M'. At s = 0.7 the evidence grows if the noise is below 0.83 of what is stated; smaller
differences are not reported.
"""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Sequence
from math import inf, log, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import LinearityWarning, NoiseWarning, PriorWarning
from combopeps.oracles.base import Array
from combopeps.policies.base import Policy
from combopeps.session.misspecification import FIT_ADVICE, PRIOR_ADVICE, FitGuard, PriorGuard, Repetitions
from combopeps.session.queries import Reading, ResultTable
from combopeps.utils.jit import njit

NOISE_ADVICE = (
    "either noise_std is too small, or measurements of one arm drift or have outliers. No claim holds then; set "
    "Problem(..., noise_std=) to what repetitions show, and start again"
)
SMALLER_ADVICE = (
    "claims hold, and {fewer} would do. Set Problem(..., noise_std=) to what repetitions show, unless other arms, or "
    "later measurements, have more noise"
)
_LOG_THRESHOLD = log(1000.0)
_SCALES = np.array([1.25, 1.5, 2.0, 3.0, 6.0, 16.0])
_HORIZONS = np.array([2.0, 3.0, 5.0, inf])
_MAX_PRICED = 5  # measurements of one arm; the prices of later ones are equal
_LOG_WEIGHTS = np.log(np.array([2.0, 4.0, 4.0, 2.0, 1.0, 1.0]) / 14.0 / len(_HORIZONS))
_SQUARE_FACTORS = (1.0 - _SCALES**-2) / 2.0
_MAX_VALUE = 1e100  # of a measurement, in units of the noise: squares stay finite
_MAX_SQUARE = 1e12  # of one residual: a single outlier is not sufficient evidence against all s
_SMALLER_SCALES = np.array([0.7, 0.5, 0.35, 0.2, 0.1])
_MIN_RATIO = 0.1  # of estimated to stated noise: smaller ratios are reported as "less than"
_MIN_DOF = 64  # degrees of freedom at which an estimated noise is used to test the prior
_SIGMA_MARGIN = 3.0  # standard errors added to this estimate
_EVIDENCE_DIVISOR = 32  # M is computed when the number of measurements has grown by 1/32
_TEST_DIVISOR = 10  # the next test is due when the number of results has grown by a tenth


def _log_charge(n: float, h: float) -> Array:
    """Return the log charge of an arm with n of h measurements, for every s; 0 unless 0 < n < h."""
    return 0.5 * np.log1p((_SCALES**2 - 1.0) * (1.0 - n / h)) if 0 < n < h else np.zeros(len(_SCALES))


def _prices() -> Array:
    """Return the increments of log(s^(N_h) charge_h(s)) by the n-th measurement of an arm, (horizons, n, scales)."""
    prices = np.zeros((len(_HORIZONS), _MAX_PRICED + 1, len(_SCALES)))
    for k, h in enumerate(_HORIZONS):
        for n in range(1, _MAX_PRICED + 2):
            if n <= h:
                prices[k, n - 1] = _log_charge(n, h) - _log_charge(n - 1, h) + (np.log(_SCALES) if n > 1 else 0.0)
    return prices


_PRICES = _prices()


def log_evidence(reached: Array, squares: Array) -> float:
    """Return ln M, given the numbers of n-th measurements for n = 1..5 and of later ones, (6,), and S_h, (4,)."""
    terms = _LOG_WEIGHTS + _SQUARE_FACTORS * squares[:, None] - np.einsum("n,hns->hs", reached, _PRICES)
    return float(np.logaddexp.reduce(terms.ravel()))


def log_evidence_of_smaller(counts: NDArray[np.int64], squares: float) -> float:
    """Return ln M', given the number of measurements of each arm, (K,), and S."""
    repeated = counts[counts > 1] - 1.0
    gains = (1.0 - _SMALLER_SCALES**-2.0) / 2.0 * squares - repeated.sum() * np.log(_SMALLER_SCALES)
    charges = 0.5 * np.log1p(np.outer(1.0 - _SMALLER_SCALES**2, repeated)).sum(axis=1)
    return float(np.logaddexp.reduce(gains - charges)) - log(len(_SMALLER_SCALES))


@njit(steps=lambda arms, *_: 6 * len(arms))
def add_measurements(
    arms: Any, ys: Array, noise: Array, count: Any, means: Array, reached: Array, squares: Array
) -> None:
    """Update the statistics with successive measurements."""
    for i in range(len(arms)):
        arm = arms[i]
        n, mean, value = count[arm], means[arm], min(_MAX_VALUE, max(-_MAX_VALUE, ys[i] / noise[arm]))
        count[arm] = n + 1
        means[arm] = mean + (value - mean) / (n + 1)
        reached[min(n, _MAX_PRICED)] += 1.0
        square = min(_MAX_SQUARE, (value - mean) * (value - mean) * n / (n + 1))
        for k in range(len(squares)):
            if 0 < n < _HORIZONS[k]:
                squares[k] += square


class NoiseGuard:
    """Sequential test of the stated noise, from repeated measurements of the same arms.

    Only single measurements with the noise of their arm are added: neither means of several measurements, nor those
    with a standard error of their own. M is computed after each of the first of them, then whenever their number has
    grown by 1/32: whether there is an alarm does not depend on how many are added at once.

    Parameters
    ----------
    noise
        Stated noise of every arm, (K,).
    stated
        False if `noise` holds ratios only, and is not tested.

    Attributes
    ----------
    counts
        Number of measurements of each arm, (K,).
    alarmed
        Whether the noise is larger than stated, or the measurements of some arm drift.
    text, smaller
        Messages that the noise is larger, or smaller, than stated; empty if not established. `smaller` is computed on
        access.

    Examples
    --------
    >>> guard = NoiseGuard(np.array([0.1]))
    >>> guard.add([0] * 6, [5.0, 5.3, 4.7, 5.2, 4.8, 5.4])
    >>> guard.text
    'the noise looks 2.8 times as large as stated (0.28, noise_std = 0.1)'
    >>> cautious = NoiseGuard(np.array([5.0]))
    >>> cautious.add([0] * 6, [5.0, 5.3, 4.7, 5.2, 4.8, 5.4])
    >>> cautious.smaller
    'the noise looks less than 0.1 times as large as stated (below 0.5, noise_std = 5)'
    """

    def __init__(self, noise: Array, *, stated: bool = True) -> None:
        self.noise, self.alarmed, self._stated = noise, False, stated
        self.counts, self._means = np.zeros(len(noise), dtype=np.int64), np.zeros(len(noise))
        self._reached = np.zeros(_MAX_PRICED + 1)  # numbers of arms with >= 1, 2, ... measurements; then the excess
        self._squares = np.zeros(len(_HORIZONS))
        self._next = 1  # number of measurements after which M is computed next

    def add(self, arms: Sequence[int] | NDArray[np.int64], ys: Sequence[float] | Array) -> None:
        """Add measurements, in order."""
        arm, y, begin, made = np.asarray(arms, dtype=np.intp), np.asarray(ys, float), 0, int(self._reached.sum())
        while self._stated and begin < len(arm):
            end = min(len(arm), begin + self._next - made)
            sums = self.counts, self._means, self._reached, self._squares
            add_measurements(arm[begin:end], y[begin:end], self.noise, *sums)
            begin, made = end, made + end - begin
            if made == self._next:
                self._next += max(1, made // _EVIDENCE_DIVISOR)
                self.alarmed = self.alarmed or log_evidence(self._reached, self._squares) >= _LOG_THRESHOLD

    @property
    def text(self) -> str:
        """Message that the noise is larger than stated; empty before an alarm."""
        return f"the noise looks {self._describe(self.ratio)}" if self.alarmed else ""

    @property
    def smaller(self) -> str:
        """Message that the noise is smaller than stated; empty before this is established."""
        squares = self._squares.item(-1)
        if not self._stated or self.alarmed or log_evidence_of_smaller(self.counts, squares) < _LOG_THRESHOLD:
            return ""
        return f"the noise looks {self._describe(self.ratio)}"

    @property
    def fewer(self) -> str:
        """How many measurements would be sufficient with the noise as estimated, in words."""
        if self.ratio > _MIN_RATIO:
            return f"about {self.ratio**-2.0:.2g} times fewer measurements"
        return "less than a hundredth of the measurements"

    @property
    def repetitions(self) -> Repetitions:
        return Repetitions(self._squares.item(-1), float(self._reached[1:].sum()))

    @property
    def ratio(self) -> float:
        """Ratio of estimated to stated noise; 1 before an arm was measured twice."""
        squares, degrees = self.repetitions
        return sqrt(squares / degrees) if degrees else 1.0

    def _describe(self, ratio: float) -> str:
        less_than, below = ("less than ", "below ") if ratio < _MIN_RATIO else ("", "")
        ratio, common = max(ratio, _MIN_RATIO), self.noise.item(0)
        text = f"{less_than}{ratio:.2g} times as large as stated"
        if (self.noise != common).any():
            return text
        return f"{text} ({below}{ratio * common:.2g}, noise_std = {common:g})"


class Conflict(NamedTuple):
    """Conflicts of the results with assumptions of the problem, as messages; empty where there is none.

    Attributes
    ----------
    noise, fit, prior
        The noise is larger than stated; the linear model is wrong; the prior is wrong.
    smaller
        The noise is smaller than stated: claims hold, but more measurements are made than necessary.
    fewer
        How many measurements would be sufficient with the noise as estimated.
    """

    noise: str = ""
    fit: str = ""
    prior: str = ""
    smaller: str = ""
    fewer: str = ""

    def __str__(self) -> str:
        messages = [f"{text}: no claim holds then" for text in (self.noise, self.fit) if text]
        if self.prior:
            messages.append(f"{self.prior}: error probabilities and claims that rest on the prior do not hold then")
        if self.smaller:
            messages.append(f"{self.smaller}: claims hold, and {self.fewer} would do")
        return "; ".join(messages)

    def qualify(self, claim: str, uses_prior: bool) -> str:
        """Return a claim with the conflicts that concern it."""
        against = [text for text in (self.noise, self.fit, self.prior if uses_prior else "") if text]
        if against:
            claim += f"; but {' and '.join(against)}, and then it does not hold"
        if self.prior and not uses_prior:
            claim += f"; {self.prior}, on which this claim does not rest"
        if self.smaller:
            claim += f"; {self.smaller}: {self.fewer} would do"
        return claim


class Diagnostics:
    """Tests of the assumptions of a session, with at most one warning of each kind.

    They are made when the number of results has grown by a tenth, before every claim, and when a value is recorded that
    seemed implausible. A conflict with the linear model remains until results are corrected, one with the prior unless
    it may have been caused by noise larger than stated.

    Parameters
    ----------
    policy
        The policy, which has the sums of all results.
    results
        The recorded results.

    Attributes
    ----------
    next_test
        Number of recorded results at which a test is due.
    warned_elsewhere
        Whether other processes have recorded results, and warned of their conflicts.
    """

    def __init__(self, policy: Policy, results: ResultTable) -> None:
        problem = policy.problem
        self._policy, self._results = policy, results
        self._is_noise_stated = problem.noise_std is not None
        mean, std, stated = policy.posterior.theta_hat[0], policy.posterior.prior_std, not problem.prior_is_estimated
        self._prior = PriorGuard(problem.signal, problem.oracle.components, mean, std, problem.space, stated=stated)
        self._fit = FitGuard(problem.signal, problem.noise, stated=self._is_noise_stated)
        self._warned: set[str] = set()
        self.warned_elsewhere = False
        self.reset()

    def reset(self) -> None:
        """Begin again with the first result, as some were corrected."""
        self._noise = NoiseGuard(self._policy.problem.noise, stated=self._is_noise_stated)
        self._rows = 0  # results that `_noise` includes
        self._conflict, self.next_test = Conflict(), 0

    def test(self, arms: Sequence[int] = (), readings: Sequence[Reading] = ()) -> Conflict:
        """Test all results, and new ones before they are recorded; warn of the first conflict of each kind.

        Where warnings are errors, the new results have not been recorded when one is raised. A repeated call with the
        same results then succeeds.
        """
        if self.warned_elsewhere:
            known = self.find()
            self._warned |= {kind for kind in _WARNINGS if getattr(known, kind)}
            self.warned_elsewhere = False
        found, before = self.find(arms, readings), self._conflict
        for kind, (category, advice) in _WARNINGS.items():
            text = getattr(found, kind)
            if text and kind not in self._warned:
                self._warned.add(kind)
                message = f"{text}: {advice.format(fewer=found.fewer)}"
                warnings.warn(message, category, stacklevel=_user_stacklevel())
        prior = found.prior or ("" if found.noise else before.prior)
        self._conflict = found._replace(fit=found.fit or before.fit, prior=prior)
        recorded = len(self._results) + len(arms)
        self.next_test = recorded + max(1, recorded // _TEST_DIVISOR)
        return self._conflict

    def find(self, arms: Sequence[int] = (), readings: Sequence[Reading] = ()) -> Conflict:
        """Return the conflicts of all recorded results and new ones, whatever earlier tests have found."""
        self._include_recorded()
        noise, (weights, totals) = self._noise, self._sums(arms, readings)
        if arms:
            noise = copy.deepcopy(noise)
            plain = [(arm, reading.y) for arm, reading in zip(arms, readings, strict=True) if reading.is_plain]
            noise.add([arm for arm, _ in plain], [y for _, y in plain])
        prior, scale = "", self._noise_scale(noise)
        if self._prior.active and scale is not None:
            # Squared residuals can be used only if they are of the same results as the sums.
            same = self._is_noise_stated and not noise.alarmed and np.array_equal(weights, noise.counts)
            repetitions = noise.repetitions if same else None
            prior = self._prior.test(weights / scale**2, totals / scale**2, repetitions)
        # Noise larger than stated makes residuals of the linear model larger, too.
        fit = "" if noise.alarmed else self._fit.test(weights, totals)
        return Conflict(noise.text, fit, prior, noise.smaller, noise.fewer)

    def _include_recorded(self) -> None:
        """Add the results since the last test to the test of the noise."""
        results, new = self._results, slice(self._rows, len(self._results))
        plain = (results.sem[new] == 0.0) & (results.count[new] == 1) & results.active[new]
        self._noise.add(results.arm[new][plain], results.y[new][plain])
        self._rows = len(results)

    def _noise_scale(self, noise: NoiseGuard) -> float | None:
        """Return the noise with which the prior is tested, in units of `Problem.noise`; None if it is unknown.

        Where the noise is larger than stated, its estimate is used, so that this is not attributed to the prior.
        """
        if self._is_noise_stated:
            return max(1.0, noise.ratio) if noise.alarmed else 1.0
        sigma, dof = self._policy.posterior.sigma.item(0), self._policy.posterior.dof.item(0)
        return float(sigma * (1.0 + _SIGMA_MARGIN / (2.0 * dof) ** 0.5)) if dof >= _MIN_DOF else None

    def _sums(self, arms: Sequence[int], readings: Sequence[Reading]) -> tuple[Array, Array]:
        """Return weights and weighted sums of all results and new ones."""
        weights, totals, noise = (
            self._policy.weights[0].copy(),
            self._policy.totals[0].copy(),
            self._policy.problem.noise,
        )
        for arm, reading in zip(arms, readings, strict=True):
            weight = reading.weight(noise.item(arm))
            weights[arm] += weight
            totals[arm] += weight * reading.y / noise.item(arm)
        return weights, totals


def _user_stacklevel() -> int:
    """Return the `stacklevel`, relative to the caller, of the first frame outside this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "combopeps":
        frame, level = frame.f_back, level + 1
    return level


_WARNINGS: dict[str, tuple[type[Warning], str]] = {
    "noise": (NoiseWarning, NOISE_ADVICE),
    "fit": (LinearityWarning, FIT_ADVICE),
    "prior": (PriorWarning, PRIOR_ADVICE),
    "smaller": (NoiseWarning, SMALLER_ADVICE),
}

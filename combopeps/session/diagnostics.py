"""`Diagnostics`: sequential tests of the results of a session against the stated noise, prior and linear model.

`NoiseGuard` tests the noise at every result; prior and linear model are tested by the classes of
`combopeps.session.misspecification`.

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
from math import hypot, inf, log, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import LinearityWarning, NoiseWarning, PriorWarning
from combopeps.oracles.base import Array
from combopeps.policies.base import Policy
from combopeps.session.misspecification import FIT_ADVICE, PRIOR_ADVICE, FitGuard, PriorGuard, Repetitions
from combopeps.session.queries import Reading
from combopeps.utils.jit import njit
from combopeps.utils.state_dict import StateDict, boolean, load_into

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
_LOOK_DIVISOR = 10  # the next look is due after t / 10 more measurements
_SURPRISE_LEVEL = 5.0  # standard deviations of the prior; a result beyond makes a look due at once


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


@njit(cache=True, nogil=True)
def log_evidence(reached: Array, squares: Array) -> Any:
    """Return ln M, given the numbers of n-th measurements for n = 1..5 and of later ones, (6,), and S_h, (4,)."""
    terms = np.empty((len(squares), len(_SCALES)))
    for k in range(len(squares)):
        for s in range(len(_SCALES)):
            terms[k, s] = _LOG_WEIGHTS[s] + _SQUARE_FACTORS[s] * squares[k]
            for n in range(len(reached)):
                terms[k, s] -= reached[n] * _PRICES[k, n, s]
    top = terms.max()
    return top + log(np.exp(terms - top).sum())


def log_evidence_of_smaller(counts: NDArray[np.int64], squares: float) -> float:
    """Return ln M', given the number of measurements of each arm, (K,), and S."""
    repeated = counts[counts > 1] - 1.0
    gains = (1.0 - _SMALLER_SCALES**-2.0) / 2.0 * squares - repeated.sum() * np.log(_SMALLER_SCALES)
    charges = 0.5 * np.log1p(np.outer(1.0 - _SMALLER_SCALES**2, repeated)).sum(axis=1)
    return float(np.logaddexp.reduce(gains - charges)) - log(len(_SMALLER_SCALES))


@njit(cache=True, nogil=True)
def _is_suspicious(reached: Array, squares: Array) -> Any:
    """Return whether the upper bound M <= exp((S - N - N ln(S/N)) / 2), over s and without charges, is at least 1000.

    It is cheaper than M, which is computed only if the bound is exceeded.
    """
    within, degrees = 0, 0.0
    for k in range(len(squares)):
        while within < min(_HORIZONS[k], _MAX_PRICED + 1) - 1:
            within += 1
            degrees += reached[within]
        S, N = squares[k], degrees
        if S > N > 0.0 and S - N - N * log(S / N) >= 2.0 * _LOG_THRESHOLD:
            return True
    return False


@njit(cache=True, nogil=True)
def _add_measurements(
    arms: Any, ys: Array, noise: Array, alarmed: bool, count: Any, means: Array, reached: Array, squares: Array
) -> Any:
    """Update the statistics with successive measurements; return whether there is an alarm."""
    for i in range(len(arms)):
        arm = arms[i]
        n, mean, value = count[arm], means[arm], min(_MAX_VALUE, max(-_MAX_VALUE, ys[i] / noise[arm]))
        count[arm] = n + 1
        means[arm] = mean + (value - mean) / (n + 1)
        reached[min(n, _MAX_PRICED)] += 1.0
        if n == 0:
            continue
        square = min(_MAX_SQUARE, (value - mean) * (value - mean) * n / (n + 1))
        for k in range(len(squares)):
            if n < _HORIZONS[k]:
                squares[k] += square
        if not alarmed and _is_suspicious(reached, squares):
            alarmed = log_evidence(reached, squares) >= _LOG_THRESHOLD
    return alarmed


class NoiseGuard:
    """Sequential test of the stated noise, from repeated measurements of the same arms.

    Only single measurements with the noise of their arm are added: neither means of several measurements, nor those
    with a standard error of their own.

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
    >>> [guard.add(0, y) for y in (5.0, 5.3, 4.7, 5.2, 4.8, 5.4)]
    [False, False, False, False, False, True]
    >>> guard.text
    'the noise looks 2.8 times as large as stated (0.28, noise_std = 0.1)'
    >>> cautious = NoiseGuard(np.array([5.0]))
    >>> cautious.add_many([0] * 6, [5.0, 5.3, 4.7, 5.2, 4.8, 5.4])
    False
    >>> cautious.smaller
    'the noise looks less than 0.1 times as large as stated (below 0.5, noise_std = 5)'
    """

    def __init__(self, noise: Array, *, stated: bool = True) -> None:
        self.noise, self.alarmed, self._stated = noise, False, stated
        self.counts, self._means = np.zeros(len(noise), dtype=np.int64), np.zeros(len(noise))
        self._reached = np.zeros(_MAX_PRICED + 1)  # numbers of arms with >= 1, 2, ... measurements; then the excess
        self._squares = np.zeros(len(_HORIZONS))
        self._arm, self._y = np.empty(1, dtype=np.intp), np.empty(1)  # buffers of `add`

    def copy(self) -> NoiseGuard:
        other = copy.copy(self)
        for name in ("counts", "_means", "_reached", "_squares"):
            setattr(other, name, getattr(self, name).copy())
        return other

    def state_of(self, arm: int) -> tuple[int, float, Array, Array, bool]:
        """Return the state that one measurement of an arm may change."""
        return self.counts.item(arm), self._means.item(arm), self._reached.copy(), self._squares.copy(), self.alarmed

    def restore(self, arm: int, before: tuple[int, float, Array, Array, bool]) -> None:
        """Undo measurements of this arm since `before`; none of another arm may have been added."""
        self.counts[arm], self._means[arm], self._reached, self._squares, self.alarmed = before

    def state_dict(self) -> StateDict:
        sums = {"reached": self._reached, "squares": self._squares}
        return {"count": self.counts, "mean": self._means, "alarmed": self.alarmed, **sums}

    def load_state_dict(self, data: StateDict, pulls: NDArray[np.int64]) -> None:
        """Restore the state; ValueError if an arm has more measurements than `pulls`."""
        load_into(self.counts, data["count"])
        load_into(self._means, data["mean"])
        load_into(self._reached, data["reached"])
        load_into(self._squares, data["squares"])
        self.alarmed = boolean(data["alarmed"])
        if (self.counts > pulls).any() or (self.counts < 0).any() or self._reached.sum() != self.counts.sum():
            raise ValueError("the statistics of the noise contradict the measurements")

    def add(self, arm: int, y: float) -> bool:
        """Add one measurement; return True if it raises the alarm."""
        self._arm[0], self._y[0] = arm, y
        return self._add(self._arm, self._y)

    def add_many(self, arms: Sequence[int], ys: Sequence[float]) -> bool:
        """Add measurements in order; return True if one of them raises the alarm."""
        return self._add(np.array(arms, dtype=np.intp), np.array(ys, dtype=np.float64))

    def _add(self, arms: NDArray[np.intp], ys: Array) -> bool:
        was, sums = self.alarmed, (self.counts, self._means, self._reached, self._squares)
        if self._stated:
            self.alarmed = _add_measurements(arms, ys, self.noise, was, *sums)
        return self.alarmed and not was

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


def _plain_readings(arms: Sequence[int], readings: Sequence[Reading]) -> tuple[list[int], list[float]]:
    """Return arms and values of single measurements with the noise of their arm."""
    plain = [(arm, reading.y) for arm, reading in zip(arms, readings, strict=True) if reading.is_plain]
    return [arm for arm, _ in plain], [y for _, y in plain]


class Diagnostics:
    """Tests of the assumptions of a session, with at most one warning of each kind.

    Noise larger than stated is tested at every result. The other tests are made when the number of results has grown by
    a tenth, before every claim, and when a result is surprising under the prior.
    """

    def __init__(self, policy: Policy) -> None:
        problem = policy.problem
        self.policy = policy
        self._noise: list[float] = problem.noise.tolist()
        self._is_noise_stated = problem.noise_std is not None
        self.noise = NoiseGuard(problem.noise, stated=self._is_noise_stated)
        mean, std, stated = policy.posterior.theta_hat[0], policy.posterior.prior_std, not problem.prior_is_estimated
        self.prior = PriorGuard(problem.signal, problem.oracle.components, mean, std, problem.space, stated=stated)
        self.fit = FitGuard(problem.signal, problem.noise, stated=self._is_noise_stated)
        self._prior_text = self._smaller_text = ""  # at the last look
        self._last_warned: Conflict | None = None  # at the last look of `warn_about`
        self._warned: set[str] = set()
        self._surprised: set[int] = set()  # arms that had a surprising result
        self._new_results, self._look_interval = 0, 1  # since the last look, and until the next one

    @property
    def conflict(self) -> Conflict:
        """Conflicts at the last look."""
        smaller = "" if self.noise.alarmed else self._smaller_text
        return Conflict(self.noise.text, self.fit.text, self._prior_text, smaller, self._fewer(self.noise))

    def check(self) -> None:
        """Test all results before a claim is made, and warn of the first conflict of each kind."""
        if self._test_fit(self.fit):
            self._warn("fit", self.fit.text)
        self._look()

    def refresh(self) -> None:
        """Repeat the tests of `check` on the current results alone, without warnings."""
        self.fit.forget()
        self._test_fit(self.fit)
        found = self._test_prior_and_noise(self.noise)
        self._prior_text, self._smaller_text = found.prior, found.smaller

    def warn_about(self, arms: Sequence[int], readings: Sequence[Reading]) -> None:
        """Warn of conflicts that these results will cause, before they are recorded.

        Where warnings are errors, nothing has been recorded when one is raised.
        """
        noise_after = self.noise.copy()
        is_larger = noise_after.add_many(*_plain_readings(arms, readings))
        if len(arms) and self._is_due(arms, readings):
            self._new_results, self._look_interval = 0, self._next_interval()
            before = self._test_prior_and_noise(self.noise) if self._last_warned is None else self._last_warned
            self._last_warned = after = self._test_prior_and_noise(noise_after, arms, readings)
            if after.prior and not before.prior:
                self._warn("prior", after.prior)
            if after.smaller and not before.smaller:
                self._warn("smaller", after.smaller, after.fewer)
        if is_larger:
            self._warn("noise", noise_after.text)
        fit_before, fit_after = copy.copy(self.fit), copy.copy(self.fit)
        if self._test_fit(fit_after, arms, readings) and not self._test_fit(fit_before):
            self._warn("fit", fit_after.text)

    def add(self, arms: Sequence[int], readings: Sequence[Reading]) -> None:
        """Add results without a warning."""
        self.noise.add_many(*_plain_readings(arms, readings))

    def reset(self) -> None:
        """Discard all results."""
        self.noise = NoiseGuard(self.policy.problem.noise, stated=self._is_noise_stated)
        self.fit.forget()
        self._prior_text = self._smaller_text = ""
        self._last_warned = None

    def state_dict(self) -> StateDict:
        """Return the state that cannot be computed from the current results; issued warnings are not included."""
        return self.noise.state_dict()

    def load_state_dict(self, data: StateDict) -> None:
        self.noise.load_state_dict(data, self.policy.pulls[0])

    def add_one(self, arm: int, reading: Reading) -> None:
        """Add one result before the policy is updated with it, and warn of conflicts.

        Where warnings are errors, the result has not been added when one is raised.
        """
        before = self.noise.state_of(arm)
        try:
            if reading.is_plain and self.noise.add(arm, reading.y):
                self._warn("noise", self.noise.text)
            if self.fit.active and self.fit.due(self.policy.samples) and self._test_fit(self.fit):
                self._warn("fit", self.fit.text)
            self._new_results += 1
            if self._new_results >= self._look_interval or self._is_surprising(arm, reading):
                self._look((arm,), (reading,))
        except Warning:
            self.noise.restore(arm, before)
            raise

    def _look(self, arms: Sequence[int] = (), readings: Sequence[Reading] = ()) -> None:
        """Test prior and noise on all results of the policy, and on new ones that `noise` already includes."""
        self._new_results, self._look_interval = 0, self._next_interval()
        found = self._test_prior_and_noise(self.noise, arms, readings)
        # A conflict with the prior is withdrawn only if it may have been caused by noise larger than stated.
        if found.prior or self.noise.alarmed:
            self._prior_text = found.prior
        if found.prior:
            self._warn("prior", found.prior)
        self._smaller_text = found.smaller
        if found.smaller:
            self._warn("smaller", found.smaller, found.fewer)

    def _test_prior_and_noise(
        self, noise: NoiseGuard, arms: Sequence[int] = (), readings: Sequence[Reading] = ()
    ) -> Conflict:
        """Test the prior, and whether the noise is smaller than stated, on all results and new ones."""
        scale, prior_text = self._noise_scale(noise), ""
        if self.prior.active and scale is not None:
            weights, totals = self._sums(arms, readings)
            # Squared residuals can be used only if they are of the same results as the sums.
            same = self._is_noise_stated and not noise.alarmed and np.array_equal(weights, noise.counts)
            repetitions = noise.repetitions if same else None
            prior_text = self.prior.test(weights / scale**2, totals / scale**2, repetitions)
        return Conflict(prior=prior_text, smaller=noise.smaller, fewer=self._fewer(noise))

    def _noise_scale(self, noise: NoiseGuard) -> float | None:
        """Return the noise with which the prior is tested, in units of `Problem.noise`; None if it is unknown.

        Where the noise is larger than stated, its estimate is used, so that this is not attributed to the prior.
        """
        if self._is_noise_stated:
            return max(1.0, noise.ratio) if noise.alarmed else 1.0
        sigma, dof = self.policy.posterior.sigma.item(0), self.policy.posterior.dof.item(0)
        return float(sigma * (1.0 + _SIGMA_MARGIN / (2.0 * dof) ** 0.5)) if dof >= _MIN_DOF else None

    def _is_due(self, arms: Sequence[int], readings: Sequence[Reading]) -> bool:
        self._new_results += len(arms)
        if self._new_results >= self._look_interval:
            return True
        return any(self._is_surprising(arm, reading) for arm, reading in zip(arms, readings, strict=True))

    def _next_interval(self) -> int:
        """Return the number of results until the next look."""
        return max(1, self.policy.samples // _LOOK_DIVISOR)

    def _is_surprising(self, arm: int, reading: Reading) -> bool:
        """Return whether a result is far from its prior mean; at most once for each arm."""
        prior, noise = self.prior, self._noise[arm]
        std, distance = prior.arm_std.item(arm), abs(reading.y / noise - prior.arm_mean.item(arm))
        if distance <= _SURPRISE_LEVEL * std or not prior.active or arm in self._surprised:
            return False
        sigma = self.policy.posterior.sigma.item(0)
        if distance <= _SURPRISE_LEVEL * hypot(std, 1.0 / sqrt(reading.weight(noise) / (sigma * sigma))):
            return False
        self._surprised.add(arm)
        return True

    def _test_fit(self, guard: FitGuard, arms: Sequence[int] = (), readings: Sequence[Reading] = ()) -> bool:
        """Test the linear model on all results and new ones, unless the noise is larger than stated."""
        if not guard.active or self.noise.alarmed:
            return False
        return guard.look(*self._sums(arms, readings))

    def _sums(self, arms: Sequence[int], readings: Sequence[Reading]) -> tuple[Array, Array]:
        """Return weights and weighted sums of all results and new ones."""
        weights, totals = self.policy.weights[0].copy(), self.policy.totals[0].copy()
        if len(arms):
            index = np.asarray(arms, dtype=np.intp)
            new = np.array([reading.weight(self._noise[arm]) for arm, reading in zip(arms, readings, strict=True)])
            np.add.at(weights, index, new)
            np.add.at(totals, index, new * np.array([r.y for r in readings]) / self.policy.problem.noise[index])
        return weights, totals

    def _fewer(self, noise: NoiseGuard) -> str:
        """Describe how many measurements would be sufficient with the noise as estimated."""
        ratio = noise.ratio
        return (
            f"about {ratio**-2.0:.2g} times fewer measurements"
            if ratio > 0.1
            else "less than a hundredth of the measurements"
        )

    def _warn(self, kind: str, text: str, fewer: str = "") -> None:
        """Warn once of each kind.

        Where warnings are errors, a repeated `tell` of the same result then succeeds.
        """
        if kind not in self._warned:
            self._warned.add(kind)
            category, advice = _WARNINGS[kind]
            warnings.warn(f"{text}: {advice.format(fewer=fewer)}", category, stacklevel=_user_stacklevel())


def _user_stacklevel() -> int:
    """Return the `stacklevel`, relative to the caller, of the first frame outside this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "combopeps":
        frame, level = frame.f_back, level + 1
    return level


_WARNINGS: dict[str, tuple[type[Warning], str]] = {
    "noise": (NoiseWarning, NOISE_ADVICE),
    "smaller": (NoiseWarning, SMALLER_ADVICE),
    "fit": (LinearityWarning, FIT_ADVICE),
    "prior": (PriorWarning, PRIOR_ADVICE),
}

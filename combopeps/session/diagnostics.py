"""`Diagnostics`: checks of the results of a session against the stated noise, the prior and the linear model.

The noise is checked by `NoiseGuard`, at every result.

For noise that is larger than stated,

    M = sum_{s,h} w_s / 4 exp( (1 - 1/s^2) S_h / 2 ) / s^(N_h) / charge_h(s),   alarm when M >= 1000

S_h is the sum of squared residuals around the mean of each arm's first h measurements (in units of the stated noise),
N_h their degrees of freedom, s how many times as large the noise may be. For known means, exp((1 - 1/s^2) x^2 / 2) / s
is a likelihood ratio, of mean 1 when the noise is as stated, and products of them are martingales whatever decides what
is measured next. Means are estimated, though, and a policy that repeats what looked good repeats lucky measurements:
such residuals are too large. So every arm with n < h measurements is charged as if it had been chosen in the worst way,

    charge = prod_arms sqrt( s^2 - (s^2 - 1) n / h ),

which is the price at which the likelihood ratio for noise s and a mean direction of variance s^2 - (s^2 - 1) n / h
(at least 1) is above M's factor for every mean. By Ville's inequality an alarm has then probability at most 1/1000 in a
run of any length, under any policy, if the noise is independent and normal with at most the stated standard deviation.

For noise that is smaller than stated,

    M' = sum_s w'_s exp( (1 - 1/s^2) S / 2 ) / s^N / prod_arms sqrt( 1 + (n - 1) (1 - s^2) ),   s < 1,   alarm at 1000

with S and N of all measurements, and n those of an arm. Proof: let an arm have mean mu, and x its n measurements less
mu, in units of the stated noise. The likelihood ratio of N(0, s^2 I + (1 - s^2) 1 1') to N(0, I) for x is

    exp( (1 - 1/s^2) S / 2 + (1 - 1/v) n d^2 / 2 ) / ( s^(n-1) sqrt(v) ),   v = s^2 + n (1 - s^2) = 1 + (n-1) (1 - s^2)

with d the mean of x: the vector of ones is an eigenvector of that covariance with eigenvalue v, and all directions
orthogonal to it have s^2. As v >= 1, the factor of M' is at most that ratio, whatever mu is. These covariances are
nested in n, so that the ratio is a martingale that starts at 1 under any choice of what is measured next, the product
over arms is one, and so is the mixture over s. By Ville's inequality M' reaches 1000 with probability at most 1/1000 in
a run of any length, under any policy, if the noise is independent and normal with at least the stated standard
deviation: a larger one only makes S larger and M' smaller. At s = 0.7 evidence grows if the noise is below 0.83 of what
was stated; a smaller difference is not reported.
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
from combopeps.session.guards import FIT_CURE, PRIOR_CURE, FitGuard, PriorGuard, Repetitions
from combopeps.session.queries import Reading
from combopeps.utils.jit import njit
from combopeps.utils.state_dict import StateDict, boolean, load_into

NOISE_CURE = (
    "either noise_std is too small, or measurements of one arm drift or have outliers. No claim holds then; set "
    "Problem(..., noise_std=) to what repetitions show, and start again"
)
SMALLER_CURE = (
    "claims hold, and {fewer} would do. Set Problem(..., noise_std=) to what repetitions show, unless other arms, or "
    "later measurements, have more noise"
)
_ALARM = log(1000.0)
_SCALES = np.array([1.25, 1.5, 2.0, 3.0, 6.0, 16.0])
_HORIZONS = np.array([2.0, 3.0, 5.0, inf])
_BEYOND = 5  # measurements of one arm after which all cost the same
_LOG_WEIGHTS = np.log(np.array([2.0, 4.0, 4.0, 2.0, 1.0, 1.0]) / 14.0 / len(_HORIZONS))
_GAIN = (1.0 - _SCALES**-2) / 2.0
_LARGEST = 1e100  # of a measurement, in units of the noise: squares stay finite
_SURPRISE = 1e12  # of one squared residual
_SMALLER = np.array([0.7, 0.5, 0.35, 0.2, 0.1])
_LEAST = 0.1  # of the stated noise: smaller estimates are not told apart
_WELL_KNOWN = 64  # degrees of freedom from which on an estimated noise is used to check the prior
_MARGIN = 3.0  # standard errors that are added to it
_PAUSE = 10  # a tenth more measurements between two looks
_SURPRISING = 5.0  # standard deviations of the prior from which on a result is a reason to look at once


def _log_charge(n: float, h: float) -> Array:
    """What an arm with n of h measurements is charged, for every scale; nothing before the first and after the last."""
    return 0.5 * np.log1p((_SCALES**2 - 1.0) * (1.0 - n / h)) if 0 < n < h else np.zeros(len(_SCALES))


def _prices() -> Array:
    """What an arm's n-th measurement adds to the log of (power of s times charge), (horizons, n, scales)."""
    prices = np.zeros((len(_HORIZONS), _BEYOND + 1, len(_SCALES)))
    for k, h in enumerate(_HORIZONS):
        for n in range(1, _BEYOND + 2):
            if n <= h:
                prices[k, n - 1] = _log_charge(n, h) - _log_charge(n - 1, h) + (np.log(_SCALES) if n > 1 else 0.0)
    return prices


_PRICES = _prices()


@njit(cache=True, nogil=True)
def log_evidence(reached: Array, squares: Array) -> Any:
    """ln M, from arms that reached 1 to 5 measurements and measurements beyond, (6,), and S_h, (4,)."""
    terms = np.empty((len(squares), len(_SCALES)))
    for k in range(len(squares)):
        for s in range(len(_SCALES)):
            terms[k, s] = _LOG_WEIGHTS[s] + _GAIN[s] * squares[k]
            for n in range(len(reached)):
                terms[k, s] -= reached[n] * _PRICES[k, n, s]
    top = terms.max()
    return top + log(np.exp(terms - top).sum())


def log_evidence_of_smaller(counts: NDArray[np.int64], squares: float) -> float:
    """ln M', from the measurements of each arm, (K,), and S."""
    repeated = counts[counts > 1] - 1.0
    gains = (1.0 - _SMALLER**-2.0) / 2.0 * squares - repeated.sum() * np.log(_SMALLER)
    charges = 0.5 * np.log1p(np.outer(1.0 - _SMALLER**2, repeated)).sum(axis=1)
    return float(np.logaddexp.reduce(gains - charges)) - log(len(_SMALLER))


@njit(cache=True, nogil=True)
def _is_suspicious(reached: Array, squares: Array) -> Any:
    """Without charges and at the best s, M is at most exp((S - N - N ln(S/N)) / 2): mostly, that settles it."""
    within, degrees = 0, 0.0
    for k in range(len(squares)):
        while within < min(_HORIZONS[k], _BEYOND + 1) - 1:
            within += 1
            degrees += reached[within]
        S, N = squares[k], degrees
        if S > N > 0.0 and S - N - N * log(S / N) >= 2.0 * _ALARM:
            return True
    return False


@njit(cache=True, nogil=True)
def _take_in(
    arms: Any, ys: Array, noise: Array, alarmed: bool, count: Any, means: Array, reached: Array, squares: Array
) -> Any:
    """Take measurements in, one after the other; return whether there is an alarm."""
    for i in range(len(arms)):
        arm = arms[i]
        n, mean, value = count[arm], means[arm], min(_LARGEST, max(-_LARGEST, ys[i] / noise[arm]))
        count[arm] = n + 1
        means[arm] = mean + (value - mean) / (n + 1)
        reached[min(n, _BEYOND)] += 1.0
        if n == 0:
            continue
        square = min(_SURPRISE, (value - mean) * (value - mean) * n / (n + 1))
        for k in range(len(squares)):
            if n < _HORIZONS[k]:
                squares[k] += square
        if not alarmed and _is_suspicious(reached, squares):
            alarmed = log_evidence(reached, squares) >= _ALARM
    return alarmed


class NoiseGuard:
    """Watches the measurements of one run; some numbers per arm, and a few operations per measurement.

    `noise` is what was stated for every arm; where it holds nothing but ratios, there is nothing to watch. Means of
    several measurements, and those with a standard error of their own, are not shown to it.

    Attributes
    ----------
    count
        Measurements of each arm that were shown to it, (K,).
    alarmed
        The noise is larger than stated, or the measurements of some arm drift.
    text, smaller
        What the repetitions say, if the noise is larger than stated, and if it is smaller; else empty. The second is
        computed when it is asked for.

    Examples
    --------
    >>> guard = NoiseGuard(np.array([0.1]))
    >>> [guard.see(0, y) for y in (5.0, 5.3, 4.7, 5.2, 4.8, 5.4)]
    [False, False, False, False, False, True]
    >>> guard.text
    'the noise looks 2.8 times as large as stated (0.28, noise_std = 0.1)'
    >>> cautious = NoiseGuard(np.array([5.0]))
    >>> cautious.see_many([0] * 6, [5.0, 5.3, 4.7, 5.2, 4.8, 5.4])
    False
    >>> cautious.smaller
    'the noise looks less than 0.1 times as large as stated (below 0.5, noise_std = 5)'
    """

    def __init__(self, noise: Array, *, stated: bool = True) -> None:
        self.noise, self.alarmed, self._stated = noise, False, stated
        self.count, self._means = np.zeros(len(noise), dtype=np.int64), np.zeros(len(noise))
        self._reached = np.zeros(_BEYOND + 1)  # arms that have 1, 2, ... measurements, and measurements beyond
        self._squares = np.zeros(len(_HORIZONS))
        self._arm, self._y = np.empty(1, dtype=np.intp), np.empty(1)  # for a single measurement

    def copy(self) -> NoiseGuard:
        twin = copy.copy(self)
        for name in ("count", "_means", "_reached", "_squares"):
            setattr(twin, name, getattr(self, name).copy())
        return twin

    def state_of(self, arm: int) -> tuple[int, float, Array, Array, bool]:
        """Return all that one measurement of an arm may change."""
        return self.count.item(arm), self._means.item(arm), self._reached.copy(), self._squares.copy(), self.alarmed

    def restore(self, arm: int, before: tuple[int, float, Array, Array, bool]) -> None:
        """Forget the measurements of this arm since `before`, if none of another arm was taken in."""
        self.count[arm], self._means[arm], self._reached, self._squares, self.alarmed = before

    def state_dict(self) -> StateDict:
        sums = {"reached": self._reached, "squares": self._squares}
        return {"count": self.count, "mean": self._means, "alarmed": self.alarmed, **sums}

    def load_state_dict(self, data: StateDict, pulls: NDArray[np.int64]) -> None:
        """Restore the state; ValueError if an arm was seen more often than it was measured."""
        load_into(self.count, data["count"])
        load_into(self._means, data["mean"])
        load_into(self._reached, data["reached"])
        load_into(self._squares, data["squares"])
        self.alarmed = boolean(data["alarmed"])
        if (self.count > pulls).any() or (self.count < 0).any() or self._reached.sum() != self.count.sum():
            raise ValueError("what was seen of the noise contradicts the measurements")

    def see(self, arm: int, y: float) -> bool:
        """Take one measurement in; True when it raises the alarm."""
        self._arm[0], self._y[0] = arm, y
        return self._see(self._arm, self._y)

    def see_many(self, arms: Sequence[int], ys: Sequence[float]) -> bool:
        """`see` for one measurement after the other."""
        return self._see(np.array(arms, dtype=np.intp), np.array(ys, dtype=np.float64))

    def _see(self, arms: NDArray[np.intp], ys: Array) -> bool:
        was, sums = self.alarmed, (self.count, self._means, self._reached, self._squares)
        if self._stated:
            self.alarmed = _take_in(arms, ys, self.noise, was, *sums)
        return self.alarmed and not was

    @property
    def text(self) -> str:
        """That the noise is larger than stated, and how large it looks; empty while there is no alarm."""
        return f"the noise looks {self._in_words(self.ratio)}" if self.alarmed else ""

    @property
    def smaller(self) -> str:
        """That the noise is smaller than stated, and how large it looks; empty while that is not established."""
        squares = self._squares.item(-1)
        if not self._stated or self.alarmed or log_evidence_of_smaller(self.count, squares) < _ALARM:
            return ""
        return f"the noise looks {self._in_words(self.ratio)}"

    @property
    def repetitions(self) -> Repetitions:
        return Repetitions(self._squares.item(-1), float(self._reached[1:].sum()))

    @property
    def ratio(self) -> float:
        """Estimated noise, in units of the stated one; 1 while nothing was measured twice."""
        squares, degrees = self.repetitions
        return sqrt(squares / degrees) if degrees else 1.0

    def _in_words(self, ratio: float) -> str:
        few = "less than " if ratio < _LEAST else ""
        below = "below " if few else ""
        ratio, common = max(ratio, _LEAST), self.noise.item(0)
        said = f"{few}{ratio:.2g} times as large as stated"
        if (self.noise != common).any():
            return said
        return f"{said} ({below}{ratio * common:.2g}, noise_std = {common:g})"


class Conflict(NamedTuple):
    """What results say against one statement about the problem; empty texts for nothing.

    Attributes
    ----------
    noise, fit, prior
        The noise is larger than stated; the rows of the arms are wrong; the prior is.
    smaller
        The noise is smaller than stated: claims hold, with more measurements than they need.
    fewer
        How many times fewer would do.
    """

    noise: str = ""
    fit: str = ""
    prior: str = ""
    smaller: str = ""
    fewer: str = ""

    def __str__(self) -> str:
        said = [f"{text}: no claim holds then" for text in (self.noise, self.fit) if text]
        if self.prior:
            said.append(f"{self.prior}: error probabilities and claims that rest on the prior do not hold then")
        if self.smaller:
            said.append(f"{self.smaller}: claims hold, and {self.fewer} would do")
        return "; ".join(said)

    def qualify(self, claim: str, rests_on_prior: bool) -> str:
        """A claim, with what is said against it, and what else there is to know."""
        against = [text for text in (self.noise, self.fit, self.prior if rests_on_prior else "") if text]
        if against:
            claim += f"; but {' and '.join(against)}, and then it does not hold"
        if self.prior and not rests_on_prior:
            claim += f"; {self.prior}, on which this claim does not rest"
        if self.smaller:
            claim += f"; {self.smaller}: {self.fewer} would do"
        return claim


def _plain_readings(arms: Sequence[int], readings: Sequence[Reading]) -> tuple[list[int], list[float]]:
    """Arms and values of results with the noise of their arm: those that say something about it."""
    plain = [(arm, reading.y) for arm, reading in zip(arms, readings, strict=True) if reading.is_plain]
    return [arm for arm, _ in plain], [y for _, y in plain]


class Diagnostics:
    """Checks of the results of a session; one warning of each kind.

    Noise that is larger than stated is checked for at every result. The other checks are made after every tenth more
    results, before every claim, and when a result is surprising under the prior.
    """

    def __init__(self, policy: Policy) -> None:
        problem = policy.problem
        self.policy = policy
        self._noise: list[float] = problem.noise.tolist()
        self._known = problem.noise_std is not None
        self.noise = NoiseGuard(problem.noise, stated=self._known)
        mean, std, stated = policy.posterior.theta_hat[0], policy.posterior.prior_std, not problem.prior_is_estimated
        self.prior = PriorGuard(problem.signal, problem.oracle.components, mean, std, problem.space, stated=stated)
        self.fit = FitGuard(problem.signal, problem.noise, stated=self._known)
        self._prior_text = self._smaller_text = ""  # at the last look
        self._seen: Conflict | None = None  # what `warn_of` last found
        self._warned: set[str] = set()
        self._surprised: set[int] = set()  # arms that had a surprising result
        self._unseen, self._pause = 0, 1  # results since the last look, and how many make the next one due

    @property
    def conflict(self) -> Conflict:
        """What the results say against noise, rows and prior as stated, at the last look."""
        smaller = "" if self.noise.alarmed else self._smaller_text
        return Conflict(self.noise.text, self.fit.text, self._prior_text, smaller, self._fewer(self.noise))

    def check(self) -> None:
        """Check all results before a claim is made, and warn of the first conflict of each kind."""
        if self._look_at_fit(self.fit):
            self._warn("fit", self.fit.text)
        self._look()

    def refresh(self) -> None:
        """Make the checks of `check` on the current data alone, without a warning."""
        self.fit.forget()
        self._look_at_fit(self.fit)
        found = self._found(self.noise)
        self._prior_text, self._smaller_text = found.prior, found.smaller

    def warn_of(self, arms: Sequence[int], readings: Sequence[Reading]) -> None:
        """Warn of conflicts that these results will cause, before they are recorded.

        Where warnings are errors, nothing has been recorded when one is raised.
        """
        ahead = self.noise.copy()
        louder = ahead.see_many(*_plain_readings(arms, readings))
        if len(arms) and self._is_due(arms, readings):
            self._unseen, self._pause = 0, self._next_pause()
            before = self._found(self.noise) if self._seen is None else self._seen
            self._seen = now = self._found(ahead, arms, readings)
            if now.prior and not before.prior:
                self._warn("prior", now.prior)
            if now.smaller and not before.smaller:
                self._warn("smaller", now.smaller, now.fewer)
        if louder:
            self._warn("noise", ahead.text)
        before_fit, after_fit = copy.copy(self.fit), copy.copy(self.fit)
        if self._look_at_fit(after_fit, arms, readings) and not self._look_at_fit(before_fit):
            self._warn("fit", after_fit.text)

    def add(self, arms: Sequence[int], readings: Sequence[Reading]) -> None:
        """Take in results that were recorded, without a warning."""
        self.noise.see_many(*_plain_readings(arms, readings))

    def reset(self) -> None:
        """Forget all results."""
        self.noise = NoiseGuard(self.policy.problem.noise, stated=self._known)
        self.fit.forget()
        self._prior_text = self._smaller_text = ""
        self._seen = None

    def state_dict(self) -> StateDict:
        """Return what cannot be computed from the current data; warnings that were given are not part of it."""
        return self.noise.state_dict()

    def load_state_dict(self, data: StateDict) -> None:
        self.noise.load_state_dict(data, self.policy.pulls[0])

    def see(self, arm: int, reading: Reading) -> None:
        """Take in one result that is about to be learnt from, and warn of conflicts.

        Where warnings are errors, it has not been taken in when one is raised.
        """
        before = self.noise.state_of(arm)
        try:
            if reading.is_plain and self.noise.see(arm, reading.y):
                self._warn("noise", self.noise.text)
            if self.fit.active and self.fit.due(self.policy.samples) and self._look_at_fit(self.fit):
                self._warn("fit", self.fit.text)
            self._unseen += 1
            if self._unseen >= self._pause or self._is_surprising(arm, reading):
                self._look((arm,), (reading,))
        except Warning:
            self.noise.restore(arm, before)
            raise

    def _look(self, arms: Sequence[int] = (), readings: Sequence[Reading] = ()) -> None:
        """Compare all results, and some that the guard of the noise has seen already, with prior and noise."""
        self._unseen, self._pause = 0, self._next_pause()
        found = self._found(self.noise, arms, readings)
        if found.prior or self.noise.alarmed:  # noise that is larger than stated may have been the cause
            self._prior_text = found.prior
        if found.prior:
            self._warn("prior", found.prior)
        self._smaller_text = found.smaller
        if found.smaller:
            self._warn("smaller", found.smaller, found.fewer)

    def _found(self, noise: NoiseGuard, arms: Sequence[int] = (), readings: Sequence[Reading] = ()) -> Conflict:
        """What all results, and some more, say against the prior, and against noise that is too large."""
        scale, said = self._scale(noise), ""
        if self.prior.active and scale is not None:
            weights, totals = self._sums(arms, readings)
            # The sum of squared residuals is that of the same results if all were shown to the guard of the noise.
            same = self._known and not noise.alarmed and np.array_equal(weights, noise.count)
            repetitions = noise.repetitions if same else None
            said = self.prior.judge(weights / scale**2, totals / scale**2, repetitions)
        return Conflict(prior=said, smaller=noise.smaller, fewer=self._fewer(noise))

    def _scale(self, noise: NoiseGuard) -> float | None:
        """Size of the noise by which the prior is judged, in units of `Problem.noise`; None while it is not known.

        A prior is not blamed for noise that is larger than stated.
        """
        if self._known:
            return max(1.0, noise.ratio) if noise.alarmed else 1.0
        sigma, dof = self.policy.posterior.sigma.item(0), self.policy.posterior.dof.item(0)
        return float(sigma * (1.0 + _MARGIN / (2.0 * dof) ** 0.5)) if dof >= _WELL_KNOWN else None

    def _is_due(self, arms: Sequence[int], readings: Sequence[Reading]) -> bool:
        self._unseen += len(arms)
        if self._unseen >= self._pause:
            return True
        return any(self._is_surprising(arm, reading) for arm, reading in zip(arms, readings, strict=True))

    def _next_pause(self) -> int:
        """How many results make the next look due: a tenth of all."""
        return max(1, self.policy.samples // _PAUSE)

    def _is_surprising(self, arm: int, reading: Reading) -> bool:
        """Whether a result is far from what the prior expects; no more than once for each arm."""
        prior, noise = self.prior, self._noise[arm]
        spread, away = prior.spread.item(arm), abs(reading.y / noise - prior.centre.item(arm))
        if away <= _SURPRISING * spread or not prior.active or arm in self._surprised:
            return False
        sigma = self.policy.posterior.sigma.item(0)
        if away <= _SURPRISING * hypot(spread, 1.0 / sqrt(reading.weight(noise) / (sigma * sigma))):
            return False
        self._surprised.add(arm)
        return True

    def _look_at_fit(self, guard: FitGuard, arms: Sequence[int] = (), readings: Sequence[Reading] = ()) -> bool:
        """At all results, and some more; while the noise itself is in doubt, the model is not judged."""
        if not guard.active or self.noise.alarmed:
            return False
        return guard.look(*self._sums(arms, readings))

    def _sums(self, arms: Sequence[int], readings: Sequence[Reading]) -> tuple[Array, Array]:
        """Weights and totals of all results, and of some more."""
        weights, totals = self.policy.weights[0].copy(), self.policy.totals[0].copy()
        if len(arms):
            at = np.asarray(arms, dtype=np.intp)
            worth = np.array([reading.weight(self._noise[arm]) for arm, reading in zip(arms, readings, strict=True)])
            np.add.at(weights, at, worth)
            np.add.at(totals, at, worth * np.array([r.y for r in readings]) / self.policy.problem.noise[at])
        return weights, totals

    def _fewer(self, noise: NoiseGuard) -> str:
        """How many measurements would do if the noise were stated as it looks."""
        ratio = noise.ratio
        return (
            f"about {ratio**-2.0:.2g} times fewer measurements"
            if ratio > 0.1
            else "less than a hundredth of the measurements"
        )

    def _warn(self, kind: str, text: str, fewer: str = "") -> None:
        """Once for each kind; also where the warning is an error: told again, the result is taken."""
        if kind not in self._warned:
            self._warned.add(kind)
            category, cure = _KINDS[kind]
            warnings.warn(f"{text}: {cure.format(fewer=fewer)}", category, stacklevel=_user_level())


def _user_level() -> int:
    """Return the `stacklevel`, seen from the caller, of the first frame outside this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "combopeps":
        frame, level = frame.f_back, level + 1
    return level


_KINDS: dict[str, tuple[type[Warning], str]] = {
    "noise": (NoiseWarning, NOISE_CURE),
    "smaller": (NoiseWarning, SMALLER_CURE),
    "fit": (LinearityWarning, FIT_CURE),
    "prior": (PriorWarning, PRIOR_CURE),
}

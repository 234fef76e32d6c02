"""What measurements say against the noise and the prior that were stated.

`NoiseGuard`: do repeated measurements of one arm scatter more than the stated noise allows?

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

`PriorGuard`: is a measurement further off than the prior and the noise allow?

    y ~ N(x @ mean, |x * std|^2 + noise^2),   P(|N(0, 1)| > sqrt(2 ln(1000 pi^2 t^2 / 6))) < 6 / (1000 pi^2 t^2)

A fixed threshold is passed by chance in a long run. This one grows with the number t of the measurement, so that all
chances together are below 1/1000, however long the run is.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from math import hypot, inf, log, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from combopeps.belief import Arms
from combopeps.oracles.base import Array
from combopeps.restore import Plain, array, fill, flag

NOISE_CURE = (
    "either noise_std is too small, or measurements of one arm drift or have outliers. No claim holds then; set "
    "Problem(..., noise_std=) to what repetitions show, and start again"
)
_ALARM = log(1000.0)
_SCALES = np.array([1.25, 1.5, 2.0, 3.0, 6.0, 16.0])
_HORIZONS = (2, 3, 5, inf)
_BEYOND = 5  # measurements of one arm after which all cost the same
_LOG_WEIGHTS = np.log(np.array([2.0, 4.0, 4.0, 2.0, 1.0, 1.0]) / 14.0 / len(_HORIZONS))
_GAIN = (1.0 - _SCALES**-2) / 2.0
_LARGEST = 1e100  # of a measurement, in units of the noise: squares stay finite
_SURPRISE = 1e12  # of one squared residual
_FEW = 64  # measurements up to which one after the other is faster than all at once
_BLOCK = 8192  # measurements whose evidence is worked out at once


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


def log_evidence(reached: Array, squares: Array) -> Array:
    """ln M, (...,), from (..., 6) arms that reached 1 to 5 measurements and measurements beyond, and S_h, (..., 4)."""
    terms = _LOG_WEIGHTS + _GAIN * squares[..., :, None] - np.einsum("...n,kns->...ks", reached, _PRICES)
    flat = terms.reshape(*terms.shape[:-2], terms.shape[-2] * terms.shape[-1])
    top = flat.max(axis=-1)
    return np.asarray(top + np.log(np.exp(flat - top[..., None]).sum(axis=-1)))


def _suspicious(reached: Array, squares: Array) -> NDArray[np.bool_]:
    """Without charges and at the best s, M is at most exp((S - N - N ln(S/N)) / 2): mostly, that settles it."""
    degrees = np.maximum(np.cumsum(reached[:, 1:], axis=1)[:, [0, 1, 3, 4]], 1e-9)  # within 2, 3, 5 and all
    excess = squares - degrees - degrees * np.log(np.maximum(squares / degrees, 1.0))
    return np.asarray((excess >= 2.0 * _ALARM).any(axis=1))


class NoiseGuard:
    """Watches the measurements of one run; some numbers per arm, and a few operations per measurement.

    `noise` is what was stated for every arm; where it holds nothing but ratios, there is nothing to watch. Means of
    several measurements, and those with a standard error of their own, are not shown to it.

    Attributes
    ----------
    alarmed
        The noise is larger than stated, or the measurements of some arm drift.

    Examples
    --------
    >>> guard = NoiseGuard(np.array([0.1]))
    >>> [guard.see(0, y) for y in (5.0, 5.3, 4.7, 5.2, 4.8, 5.4)]
    [False, False, False, False, False, True]
    >>> guard.text
    'the noise looks 2.8 times as large as stated (0.28, noise_std = 0.1)'
    """

    def __init__(self, noise: Array, *, stated: bool = True) -> None:
        self.noise, self.alarmed, self._stated = noise, False, stated
        self._count, self._mean = np.zeros(len(noise), dtype=np.int64), np.zeros(len(noise))
        self._reached = [0.0] * (_BEYOND + 1)  # arms that have 1, 2, ... measurements, and measurements beyond
        self._squares = [0.0] * len(_HORIZONS)

    def copy(self) -> NoiseGuard:
        """One that goes its own way."""
        twin = copy.copy(self)
        twin._count, twin._mean = self._count.copy(), self._mean.copy()
        twin._reached, twin._squares = list(self._reached), list(self._squares)
        return twin

    def plain(self) -> Plain:
        """What was seen, as plain data."""
        sums = {"reached": np.array(self._reached), "squares": np.array(self._squares)}
        return {"count": self._count, "mean": self._mean, "alarmed": self.alarmed, **sums}

    def restore(self, data: Plain, pulls: NDArray[np.int64]) -> None:
        """Take that back, if no arm was seen more often than it was measured."""
        fill(self._count, data["count"])
        fill(self._mean, data["mean"])
        self._reached = array(data["reached"], np.float64, len(self._reached)).tolist()
        self._squares = array(data["squares"], np.float64, len(self._squares)).tolist()
        self.alarmed = flag(data["alarmed"])
        if (self._count > pulls).any() or (self._count < 0).any() or sum(self._reached) != self._count.sum():
            raise ValueError("what was seen of the noise contradicts the measurements")

    def see(self, arm: int, y: float) -> bool:
        """Take one measurement in; True when it raises the alarm."""
        if not self._stated:
            return False
        n, mean = self._count.item(arm), self._mean.item(arm)
        value = min(_LARGEST, max(-_LARGEST, y / self.noise.item(arm)))
        self._count[arm] = n + 1
        self._mean[arm] = mean + (value - mean) / (n + 1)
        self._reached[n if n < _BEYOND else _BEYOND] += 1.0
        if n == 0:
            return False
        square = min(_SURPRISE, (value - mean) * (value - mean) * n / (n + 1))
        self._squares[3] += square
        if n < _BEYOND:
            for k in range(0 if n < 2 else 1 if n < 3 else 2, 3):
                self._squares[k] += square
        if self.alarmed or not self._suspicious():
            return False
        self.alarmed = bool(log_evidence(np.array(self._reached), np.array(self._squares)) >= _ALARM)
        return self.alarmed

    def _suspicious(self) -> bool:
        """As the function of that name, for one measurement."""
        _, two, three, four, five, more = self._reached
        upto_five = two + three + four + five
        for S, N in zip(self._squares, (two, two + three, upto_five, upto_five + more), strict=True):
            if S > N > 0.0 and S - N - N * log(S / N) >= 2.0 * _ALARM:
                return True
        return False

    def see_many(self, arms: Sequence[int], ys: Sequence[float]) -> bool:
        """`see` for one measurement after the other, in a few passes over all of them."""
        if not self._stated:
            return False
        if len(arms) <= _FEW:
            alarms = [self.see(int(arm), float(y)) for arm, y in zip(arms, ys, strict=True)]
            return any(alarms)
        n, squares = self._residuals(np.asarray(arms, dtype=np.intp), np.asarray(ys, dtype=np.float64))
        was = self.alarmed
        for start in range(0, len(n), _BLOCK):
            at = np.minimum(n[start : start + _BLOCK], _BEYOND)[:, None]
            reached = self._reached + np.cumsum(at == np.arange(_BEYOND + 1), axis=0)
            sums = self._squares + np.cumsum(squares[start : start + _BLOCK, None] * (at < np.array(_HORIZONS)), axis=0)
            if not self.alarmed:
                looks = _suspicious(reached, sums) & (at[:, 0] > 0)
                self.alarmed = bool((log_evidence(reached[looks], sums[looks]) >= _ALARM).any())
            self._reached, self._squares = reached[-1].tolist(), sums[-1].tolist()
        return self.alarmed and not was

    def _residuals(self, arms: NDArray[np.intp], ys: Array) -> tuple[NDArray[np.int64], Array]:
        """How often the arm was measured before, and the squared residual to its mean; counts and means move on."""
        order = np.argsort(arms, kind="stable")
        with np.errstate(over="ignore"):
            arm, value = arms[order], np.clip(ys[order] / self.noise[arms[order]], -_LARGEST, _LARGEST)
        first = np.concatenate([[0], np.flatnonzero(arm[1:] != arm[:-1]) + 1])
        end = np.concatenate([first[1:], [len(arm)]])
        group = np.repeat(np.arange(len(first)), end - first)
        n = self._count[arm] + np.arange(len(arm)) - first[group]
        base = np.where(self._count[arm[first]] > 0, self._mean[arm[first]], value[first])
        away = value - base[group]
        total = np.cumsum(away)
        before = total - away
        mean = (before - before[first][group]) / np.maximum(n, 1)
        squares = np.where(n > 0, np.minimum(_SURPRISE, (away - mean) ** 2 * n / (n + 1.0)), 0.0)
        last = end - 1
        self._count[arm[last]] = n[last] + 1
        self._mean[arm[last]] = base + (total[last] - before[first]) / (n[last] + 1)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return n[back], squares[back]

    @property
    def text(self) -> str:
        """What the repetitions say; empty while there is no alarm."""
        if not self.alarmed:
            return ""
        ratio = sqrt(self._squares[-1] / sum(self._reached[1:]))
        common = self.noise.item(0)
        if (self.noise != common).any():
            return f"the noise looks {ratio:.2g} times as large as stated"
        return f"the noise looks {ratio:.2g} times as large as stated ({ratio * common:.2g}, noise_std = {common:g})"


_AT_LEAST = 5.0  # standard deviations


def threshold(t: int) -> float:
    """Standard deviations by which the t-th measurement may be off."""
    return max(_AT_LEAST, sqrt(2.0 * log(1000.0 * pi**2 * t * t / 6.0)))


class PriorGuard:
    """Judges measurements before they are learnt from, until one is impossible: prior or noise are in wrong units."""

    def __init__(self, arms: Arms, mean: Array, std: Array, noise: Array) -> None:
        self.noise = noise
        self._centre = arms.dot(mean)
        squares = arms.coefficient**2 * std[arms.component] ** 2 if arms.matrix is None else arms.matrix**2 @ std**2
        self._spread: Array = np.sqrt(squares)
        self._judged, self._surprised = 0, False

    def judge(self, arm: int, y: float, pulls: NDArray[np.int64], weight: float = 1.0) -> str:
        """What to say about a measurement, and the cure; empty for all but the first that contradicts the prior.

        `pulls` are those of all days: of results that are judged before they are learnt from, none is missed, and none
        counts more than twice.
        """
        self._judged += 1
        noise, centre = self.noise.item(arm), self._centre.item(arm)
        if weight != 1.0:
            noise /= sqrt(weight)
        if self._surprised or abs(y - centre) <= _AT_LEAST * noise:
            return ""
        spread = self._spread.item(arm)
        if abs(y - centre) <= threshold(self._judged + int(pulls.sum())) * hypot(spread, noise):
            return ""
        self._surprised = True
        return (
            f"measured {y:g}, which a prior of {centre:g} +- {spread:g} and a noise of {noise:g} make all but "
            "impossible: set Problem(..., prior_mean=, prior_std=, noise_std=) to the scale of your data, or the error "
            "probability will be far too small"
        )

    def judge_many(
        self, arms: Sequence[int], ys: Sequence[float], pulls: NDArray[np.int64], weights: Array | None = None
    ) -> str:
        """`judge` for one measurement after the other, in a few passes over all of them."""
        worth = np.ones(len(ys)) if weights is None else weights
        first = next(iter(self._beyond(arms, ys, pulls, worth)), None) if not self._surprised else None
        if first is None:
            self._judged += len(ys)
            return ""
        self._judged += int(first)
        text = self.judge(arms[first], ys[first], pulls, float(worth[first]))
        self._judged += len(ys) - int(first) - 1
        return text

    def _beyond(
        self, arms: Sequence[int], ys: Sequence[float], pulls: NDArray[np.int64], worth: Array
    ) -> NDArray[np.intp]:
        """Which of them are further off than allowed."""
        arm = np.asarray(arms, dtype=np.intp)
        away = np.abs(np.asarray(ys, dtype=np.float64) - self._centre[arm])
        noise = self.noise[arm] / np.sqrt(worth)
        t = self._judged + 1.0 + np.arange(len(arm)) + int(pulls.sum())
        most = np.maximum(_AT_LEAST, np.sqrt(2.0 * np.log(1000.0 * pi**2 * t * t / 6.0)))
        return np.flatnonzero(away > np.maximum(_AT_LEAST * noise, most * np.hypot(self._spread[arm], noise)))

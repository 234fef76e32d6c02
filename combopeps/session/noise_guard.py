"""`NoiseGuard`: do repeated measurements of one arm scatter as the stated noise says?

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
from collections.abc import Sequence
from math import inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles.base import Array
from combopeps.session.prior_guard import Repetitions
from combopeps.utils.state_dict import StateDict, array, fill, flag

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
_HORIZONS = (2, 3, 5, inf)
_BEYOND = 5  # measurements of one arm after which all cost the same
_LOG_WEIGHTS = np.log(np.array([2.0, 4.0, 4.0, 2.0, 1.0, 1.0]) / 14.0 / len(_HORIZONS))
_GAIN = (1.0 - _SCALES**-2) / 2.0
_LARGEST = 1e100  # of a measurement, in units of the noise: squares stay finite
_SURPRISE = 1e12  # of one squared residual
_SMALLER = np.array([0.7, 0.5, 0.35, 0.2, 0.1])
_LEAST = 0.1  # of the stated noise: smaller estimates are not told apart
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


def log_evidence_of_smaller(counts: NDArray[np.int64], squares: float) -> float:
    """ln M', from the measurements of each arm, (K,), and S."""
    repeated = counts[counts > 1] - 1.0
    gains = (1.0 - _SMALLER**-2.0) / 2.0 * squares - repeated.sum() * np.log(_SMALLER)
    charges = 0.5 * np.log1p(np.outer(1.0 - _SMALLER**2, repeated)).sum(axis=1)
    return float(np.logaddexp.reduce(gains - charges)) - log(len(_SMALLER))


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
        self._count, self._mean = np.zeros(len(noise), dtype=np.int64), np.zeros(len(noise))
        self._reached = [0.0] * (_BEYOND + 1)  # arms that have 1, 2, ... measurements, and measurements beyond
        self._squares = [0.0] * len(_HORIZONS)

    def copy(self) -> NoiseGuard:
        """One that goes its own way."""
        twin = copy.copy(self)
        twin._count, twin._mean = self._count.copy(), self._mean.copy()
        twin._reached, twin._squares = list(self._reached), list(self._squares)
        return twin

    def state_of(self, arm: int) -> tuple[int, float, list[float], list[float], bool]:
        """Return all that one measurement of an arm may change."""
        return self._count.item(arm), self._mean.item(arm), self._reached.copy(), self._squares.copy(), self.alarmed

    def restore(self, arm: int, before: tuple[int, float, list[float], list[float], bool]) -> None:
        """Forget the measurements of this arm since `before`, if none of another arm was taken in."""
        self._count[arm], self._mean[arm], self._reached, self._squares, self.alarmed = before

    def state_dict(self) -> StateDict:
        """What was seen, as plain data."""
        sums = {"reached": np.array(self._reached), "squares": np.array(self._squares)}
        return {"count": self._count, "mean": self._mean, "alarmed": self.alarmed, **sums}

    def load_state_dict(self, data: StateDict, pulls: NDArray[np.int64]) -> None:
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
        """That the noise is larger than stated, and how large it looks; empty while there is no alarm."""
        return f"the noise looks {self._in_words(self.ratio)}" if self.alarmed else ""

    @property
    def smaller(self) -> str:
        """That the noise is smaller than stated, and how large it looks; empty while that is not established."""
        squares = self._squares[-1]
        if not self._stated or self.alarmed or log_evidence_of_smaller(self._count, squares) < _ALARM:
            return ""
        return f"the noise looks {self._in_words(self.ratio)}"

    @property
    def ratio(self) -> float:
        """Estimated noise, in units of the stated one; 1 while nothing was measured twice."""
        degrees = sum(self._reached[1:])
        return sqrt(self._squares[-1] / degrees) if degrees else 1.0

    @property
    def repetitions(self) -> Repetitions:
        """Squared residuals, and how many are free."""
        return Repetitions(self._squares[-1], sum(self._reached[1:]))

    @property
    def counts(self) -> NDArray[np.int64]:
        """Measurements of each arm that were shown to it, (K,)."""
        return self._count

    def _in_words(self, ratio: float) -> str:
        few = "less than " if ratio < _LEAST else ""
        below = "below " if few else ""
        ratio, common = max(ratio, _LEAST), self.noise.item(0)
        said = f"{few}{ratio:.2g} times as large as stated"
        if (self.noise != common).any():
            return said
        return f"{said} ({below}{ratio * common:.2g}, noise_std = {common:g})"

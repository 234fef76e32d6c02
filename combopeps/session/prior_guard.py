"""`PriorGuard`: do the results fit the stated prior?

    E = (E_all + E_one + E_noise) / 3,    alarm when E >= 1000

    E_all    the prior standard deviation of every component is s times as large as stated
    E_one    that of one component is, with weight 1 / d for each of them
    E_noise  the noise is s times as large as stated, divided by the best of the alternatives below

Each is a marginal likelihood of all results under that alternative, relative to the stated model theta ~ N(mean,
diag(std^2)), y = x @ theta + noise, and averaged over some s > 1. A ratio of marginal likelihoods is a martingale under
the stated model, whatever decides what is measured next and when it is looked at. So is their mean, and by Ville's
inequality E reaches 1000 with probability at most 1/1000 in a run of any length, if theta is drawn from the stated
prior and the noise is normal and as stated. A Theta that is a box truncates the prior of each component, and the
likelihoods are those of truncated normals. For arms that measure sums, where these have no closed form, E is multiplied
by the prior probability of the box, which bounds the ratio from below.

A prior that is too wide, or has a wrong common mean, is not what E_noise is for. So it is divided by the largest
likelihood ratio of the models in which the noise is as stated and theta ~ N(m, (s std)^2), for two values of m and
factors s from 1/50 to 10^4. The stated model is one of them, so that the quotient is at most the martingale.

All is computed from the sums of the results of each arm: there is no state to be stored, and nothing is done between
looks.
"""

from __future__ import annotations

from math import hypot, log, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from combopeps.oracles.base import Array
from combopeps.posterior.arms import Arms
from combopeps.posterior.parameter_space import ParameterSpace

PRIOR_CURE = (
    "error probabilities and claims that rest on the prior do not hold then. Set Problem(..., prior_mean=, prior_std=, "
    "noise_std=) to the scale of the data, and start again"
)
_ALARM = log(1000.0)
_SCALES = np.array([1.25, 1.5, 2.0, 3.0, 6.0, 16.0, 64.0, 256.0, 1024.0])
_LOG_WEIGHTS = np.log(np.array([2.0, 4.0, 4.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0]) / 17.0)
_OTHER_WIDTHS = np.array([0.02, 0.1, 0.25, 0.5, 1.0, 1.25, 1.5, 2.0, 3.0, 6.0, 16.0, 64.0, 256.0, 1e3, 1e4])
_SURPRISING = 5.0  # standard deviations from which on a result is a reason to look at once
_LARGEST = 600  # dimensions of a belief about sums whose eigenvalues are computed at every look
_ROUNDING = 1e-12  # of eigenvalues, relative to the largest
_LEAST = 1e-300  # of a probability


class Repetitions(NamedTuple):
    """Sum of squared residuals around the means of the arms, in units of the noise, and degrees of freedom."""

    squares: float
    degrees: float


class _Components(NamedTuple):
    """Measured components: information A, moment b = sum of (result - prior mean), prior, and ends of Theta."""

    information: Array
    moment: Array
    mean: Array
    std: Array
    low: Array
    high: Array

    def log_marginals(self, width: float = 1.0, noise: float = 1.0, shift: float = 0.0) -> Array:
        """Log likelihood of each component's mean, up to what is the same for all arguments.

        For a prior of mean + shift and width * std, and `noise` times the stated noise.
        """
        moment, mean = self.moment - shift * self.information, self.mean + shift
        variance = (width * self.std) ** 2
        spread = noise**2 + self.information * variance
        found = -0.5 * (moment**2 / self.information / spread + np.log(spread))
        if np.isfinite(self.low).any() or np.isfinite(self.high).any():
            left = variance * noise**2 / spread
            after = _log_mass(mean + left * moment / noise**2, np.sqrt(left), self.low, self.high)
            found += after - _log_mass(mean, np.sqrt(variance), self.low, self.high)
        return np.asarray(found)

    @property
    def off(self) -> Array:
        """Deviations of the estimates from the prior mean: standard normal under the stated model."""
        return np.asarray(self.moment / np.sqrt(self.information * (1.0 + self.information * self.std**2)))


class PriorGuard:
    """Holds the sums of all results of one run against the stated prior and noise.

    Parameters
    ----------
    signal
        The arms, in units of their noise.
    labels
        Of the components.
    mean, std
        The stated prior, one number per component.
    space
        Theta.
    stated
        Whether there is anything to check: a prior that is estimated from the results does not contradict them.

    Examples
    --------
    >>> from combopeps.posterior.parameter_space import RealSpace
    >>> guard = PriorGuard(Arms(np.eye(2)), ["a", "b"], np.zeros(2), np.ones(2), RealSpace())
    >>> counts = np.array([4.0, 4.0])
    >>> guard.judge(counts, counts * [0.5, -1.5])
    ''
    >>> guard.judge(counts, counts * [0.5, 82.0])  # doctest: +ELLIPSIS
    "the results contradict the stated prior: 'b' is 73 standard deviations off its prior mean 0 (prior_std = 1), ..."
    """

    def __init__(
        self, signal: Arms, labels: Any, mean: Array, std: Array, space: ParameterSpace, *, stated: bool = True
    ) -> None:
        self._signal, self._labels, self._mean, self._std = signal, labels, mean.copy(), std
        self._low, self._high = space.bounds(signal.dim)
        self.active = stated and (signal.are_units or signal.dim <= _LARGEST)
        self._alone = signal.are_units and int(np.bincount(signal.component).max()) <= 1  # one arm per component
        self._centre: Array = signal.dot(self._mean)
        rows, single = signal.matrix, np.abs(signal.coefficient) * std[signal.component]
        self._spread: Array = single if rows is None else np.sqrt(rows**2 @ std**2)
        self._surprised: set[int] = set()

    def surprising(self, arm: int, value: float, weight: float) -> bool:
        """Is a result, in units of the noise, a reason to look at once? No more than once for each arm."""
        away = abs(value - self._centre.item(arm))
        if away <= _SURPRISING * self._spread.item(arm) or not self.active or arm in self._surprised:
            return False
        if away <= _SURPRISING * hypot(self._spread.item(arm), 1.0 / sqrt(weight)):
            return False
        self._surprised.add(arm)
        return True

    def judge(self, weights: Array, totals: Array, repetitions: Repetitions | None = None) -> str:
        """What results of these weights and sums, (K,), say against the prior; empty while E is below 1000.

        `repetitions` are those of the same results, where all of them have the stated noise: without them, E_noise is
        left out.
        """
        if not self.active or not weights.any():
            return ""
        with np.errstate(over="ignore", invalid="ignore"):
            return (
                self._of_units(weights, totals, repetitions)
                if self._signal.are_units
                else self._of_sums(weights, totals)
            )

    def _of_units(self, weights: Array, totals: Array, repetitions: Repetitions | None) -> str:
        """Components are independent: likelihoods are products over them."""
        signal, dim = self._signal, self._signal.dim
        away = signal.coefficient * (totals - weights * self._centre)
        information = np.asarray(np.bincount(signal.component, weights * signal.coefficient**2, dim), dtype=np.float64)
        moment = np.asarray(np.bincount(signal.component, away, dim), dtype=np.float64)
        at = np.flatnonzero(information)
        prior = (self._mean[at], self._std[at], self._low[at], self._high[at])
        seen = _Components(information[at], moment[at], *prior)
        stated = seen.log_marginals()
        ratios = np.array([seen.log_marginals(width=s) for s in _SCALES]) - stated
        e_all = float(np.logaddexp.reduce(_LOG_WEIGHTS + ratios.sum(axis=1)))
        e_one = self._mean_over_components(ratios, dim - len(at))
        e_noise, noise = -np.inf, 1.0
        if repetitions is not None and self._alone:
            e_noise, noise = _evidence_for_noise(seen, stated, repetitions)
        if not np.logaddexp.reduce([e_all, e_one, e_noise]) - log(3.0) >= _ALARM:
            return ""
        if e_noise > max(e_all, e_one):
            return (
                "the results contradict the stated prior and noise taken together: noise about "
                f"{noise:.3g} times as large as noise_std fits them better than another prior"
            )
        return self._text(at, seen.off)

    def _of_sums(self, weights: Array, totals: Array) -> str:
        """By the eigenvalues of the information, in units of the prior."""
        rows, std = self._signal.matrix, self._std
        assert rows is not None
        information = (rows.T * weights) @ rows * np.outer(std, std)
        moment = std * (rows.T @ (totals - weights * self._centre))
        values, vectors = np.linalg.eigh(information)
        learnt = values > _ROUNDING * values[-1]  # the others are rounding errors of the largest
        values, rotated = np.where(learnt, values, 0.0), np.where(learnt, vectors.T @ moment, 0.0)
        squares, wide = _SCALES[:, None] ** 2, 1.0 + _SCALES[:, None] ** 2 * values
        narrow = (1.0 + values) / wide
        ratios = (squares - 1.0) * (rotated / (1.0 + values)) ** 2 * narrow + np.log(narrow)
        box = float(_log_mass(self._mean, std, self._low, self._high).sum())
        e_all = float(np.logaddexp.reduce(_LOG_WEIGHTS + 0.5 * ratios.sum(axis=1))) + box
        left = (vectors**2 / (1.0 + values)).sum(axis=1)  # posterior variances, and means, in units of the prior
        away = vectors @ (rotated / (1.0 + values))
        gain = (1.0 - _SCALES[:, None] ** -2.0) / (1.0 - (1.0 - _SCALES[:, None] ** -2.0) * left)
        single = 0.5 * (gain * away**2 + np.log(gain / (squares - 1.0)))
        e_one = self._mean_over_components(single, 0) + box
        if not np.logaddexp(e_all, e_one) - log(3.0) >= _ALARM:
            return ""
        return self._text(np.arange(len(std)), away / np.sqrt(np.maximum(1.0 - left, 1e-15)))

    def _mean_over_components(self, ratios: Array, others: int) -> float:
        """Log of the mean over components and s; for `others`, which were not measured, the ratio is 1."""
        total = np.logaddexp.reduce((_LOG_WEIGHTS[:, None] + ratios).ravel())
        return float(np.logaddexp(total, log(others) if others else -np.inf)) - log(self._signal.dim)

    def _text(self, components: NDArray[np.intp], off: Array) -> str:
        worst = int(np.abs(off).argmax())
        c = int(components[worst])
        many = f", and the root mean square over {len(off)} components is {np.sqrt(np.mean(off**2)):.2g} instead of 1"
        return (
            f"the results contradict the stated prior: {self._labels[c]!r:.60} is {abs(off[worst]):.2g} standard "
            f"deviations off its prior mean {self._mean[c]:g} (prior_std = {self._std[c]:g})"
            + (many if len(off) > 1 else "")
        )


def _evidence_for_noise(seen: _Components, stated: Array, repetitions: Repetitions) -> tuple[float, float]:
    """Log of E_noise, or minus infinity where it is too small to matter, and the most likely factor of the noise."""
    scatter = (1.0 - _SCALES**-2.0) / 2.0 * repetitions.squares - repetitions.degrees * np.log(_SCALES)
    louder = scatter + np.array([seen.log_marginals(noise=s).sum() for s in _SCALES])
    evidence = float(np.logaddexp.reduce(_LOG_WEIGHTS + louder))
    if evidence - float(stated.sum()) < _ALARM:  # nor is the quotient above that
        return -np.inf, 1.0
    shift = float(seen.moment.sum() / seen.information.sum())
    others = [seen.log_marginals(width=w, shift=m).sum() for m in (0.0, shift) for w in _OTHER_WIDTHS]
    return evidence - float(max(others)), float(_SCALES[int(np.argmax(louder))])


def _log_mass(mean: Array, std: Array, low: Array, high: Array) -> Array:
    """Log probability of [low, high] under N(mean, std^2), entry by entry."""
    flip = np.where(low > mean, -1.0, 1.0)  # the tail that has digits left
    upper, lower = ndtr(flip * (high - mean) / std), ndtr(flip * (low - mean) / std)
    return np.asarray(np.log(np.maximum(np.abs(upper - lower), _LEAST)))

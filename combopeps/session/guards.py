"""Sequential tests of the stated prior (`PriorGuard`), and of the linear model (`FitGuard`), from sums of results.

All is computed from the sums of the results of each arm: there is no state to be stored, and nothing is done between
looks. Every alarm has probability at most 1/1000 in a run of any length.
"""

from __future__ import annotations

from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from combopeps.oracles.base import Array
from combopeps.posterior.arms import Arms
from combopeps.posterior.parameter_space import ParameterSpace

_ALARM = log(1000.0)
PRIOR_CURE = (
    "error probabilities and claims that rest on the prior do not hold then. Set Problem(..., prior_mean=, prior_std=, "
    "noise_std=) to the scale of the data, and start again"
)
_SCALES = np.array([1.25, 1.5, 2.0, 3.0, 6.0, 16.0, 64.0, 256.0, 1024.0])
_LOG_WEIGHTS = np.log(np.array([2.0, 4.0, 4.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0]) / 17.0)
_OTHER_WIDTHS = np.array([0.02, 0.1, 0.25, 0.5, 1.0, 1.25, 1.5, 2.0, 3.0, 6.0, 16.0, 64.0, 256.0, 1e3, 1e4])
_MOST_DIMENSIONS = 600  # dimensions of a posterior about sums whose eigenvalues are computed at every look
_EIGEN_ROUNDING = 1e-12  # of eigenvalues, relative to the largest
_LEAST = 1e-300  # of a probability
FIT_CURE = (
    "either results are no linear function of the rows (a row is wrong, or an interaction has no component of its "
    "own), or noise_std is too small. No claim holds then; mend Problem(..., arms=), and start again"
)
_MISFITS = np.array([0.01, 0.03, 0.1, 0.3, 1.0, 3.0])  # tau
_PAUSE = 10  # a tenth more measurements between two looks
_SUM_ROUNDING = 1e-10  # of sums of measurements, relative
_MOST_NUMBERS = 4_000_000  # numbers in the rows of unit arms that share components: beyond, nobody looks
_ALIKE = 0.95  # of the worst residual: these arms fit as badly


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
    """Compares the sums of all results of one run with the stated prior and noise.

        E = (E_all + E_one + E_noise) / 3,    alarm when E >= 1000

        E_all    the prior standard deviation of every component is s times as large as stated
        E_one    that of one component is, with weight 1 / d for each of them
        E_noise  the noise is s times as large as stated, divided by the best of the alternatives below

    Each is a marginal likelihood of all results under that alternative, relative to the stated model theta ~ N(mean,
    diag(std^2)), y = x @ theta + noise, and averaged over some s > 1. A ratio of marginal likelihoods is a martingale
    under the stated model, whatever decides what is measured next and when it is looked at. So is their mean, and by
    Ville's inequality E reaches 1000 with probability at most 1/1000 in a run of any length, if theta is drawn from the
    stated prior and the noise is normal and as stated. A Theta that is a box truncates the prior of each component, and
    the likelihoods are those of truncated normals. For arms that measure sums, where these have no closed form, E is
    multiplied by the prior probability of the box, which bounds the ratio from below.

    A prior that is too wide, or has a wrong common mean, is not what E_noise is for. So it is divided by the largest
    likelihood ratio of the models in which the noise is as stated and theta ~ N(m, (s std)^2), for two values of m and
    factors s from 1/50 to 10^4. The stated model is one of them, so that the quotient is at most the martingale.

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
        self._are_units = signal.are_units
        self._low, self._high = space.bounds(signal.dim)
        self.active = stated and (signal.are_units or signal.dim <= _MOST_DIMENSIONS)
        self._alone = signal.are_units and int(np.bincount(signal.component).max()) <= 1  # one arm per component
        self.centre: Array = signal.dot(self._mean)
        rows, single = signal.matrix, np.abs(signal.coefficient) * std[signal.component]
        self.spread: Array = single if rows is None else np.sqrt(rows**2 @ std**2)

    def judge(self, weights: Array, totals: Array, repetitions: Repetitions | None = None) -> str:
        """What results of these weights and sums, (K,), say against the prior; empty while E is below 1000.

        `repetitions` are those of the same results, where all of them have the stated noise: without them, E_noise is
        left out.
        """
        if not self.active or not weights.any():
            return ""
        with np.errstate(over="ignore", invalid="ignore"):
            return self._of_units(weights, totals, repetitions) if self._are_units else self._of_sums(weights, totals)

    def _of_units(self, weights: Array, totals: Array, repetitions: Repetitions | None) -> str:
        """Components are independent: likelihoods are products over them."""
        signal, dim = self._signal, self._signal.dim
        away = signal.coefficient * (totals - weights * self.centre)
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
        moment = std * (rows.T @ (totals - weights * self.centre))
        values, vectors = np.linalg.eigh(information)
        learnt = values > _EIGEN_ROUNDING * values[-1]  # the others are rounding errors of the largest
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


class Fit(NamedTuple):
    """What a look found: ln E, and by how many standard errors each measured arm is off its fitted mean."""

    log_evidence: float
    arms: NDArray[np.intp]
    means: Array
    fitted: Array
    off: Array


class FitGuard:
    """Compares the means of the arms of one run with a linear model.

        E = mean_tau  min_theta  exp( 1/2 sum_x v_x (m_x - x @ theta)^2 ) / prod_x sqrt(1 + n_x tau^2)
        v_x = n_x^2 tau^2 / (1 + n_x tau^2),    alarm when E >= 1000

    m_x is the mean of the n_x measurements of arm x, in units of the noise, and tau how far off its mean may be. Where
    more arms have been measured than theta has dimensions, rewards that are no linear function of the rows leave a
    residual.

    For any misfit delta, exp(sum_x delta_x S_x - n_x delta_x^2 / 2) with S_x = n_x (m_x - x @ theta*) is a nonnegative
    supermartingale that starts at 1, whatever decides what is measured next. So is its average over delta ~ N(0,
    tau^2), which is the term above at the true theta*; the minimum is below that, at no price for theta being unknown.
    By Ville's inequality an alarm has probability at most 1/1000 in a run of any length, with looks at any time, if
    rewards are linear and the noise is independent and sub-Gaussian with the stated standard deviation.

    Attributes
    ----------
    active
        There are more arms than dimensions: some means can contradict the others.
    alarmed
        They do.

    Examples
    --------
    >>> guard = FitGuard(Arms(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), ["a", "b", "both"]))
    >>> counts = np.array([50, 50, 50])
    >>> guard.look(counts, counts * [1.0, 2.0, 3.1]), guard.look(counts, counts * [1.0, 2.0, 4.5])
    (False, True)
    >>> guard.text  # doctest: +ELLIPSIS
    "the arms contradict each other: ... averages ..., where a linear model of all says ... (6.1 standard errors; ..."
    """

    def __init__(self, arms: Arms, noise_std: ArrayLike = 1.0, *, stated: bool = True) -> None:
        self._labels, self._noise = arms.labels, np.broadcast_to(np.asarray(noise_std, float), len(arms))
        self._judged, self._basis = _redundant(arms)
        self.active, self.alarmed, self.text = stated and len(self._judged) > 0, False, ""
        self._next = 0

    def due(self, t: int) -> bool:
        """After t measurements, is it time for a look?"""
        return self.active and t >= self._next

    def forget(self) -> None:
        """As if nobody had looked."""
        self.alarmed, self.text, self._next = False, "", 0

    def look(self, counts: NDArray[Any], sums: Array) -> bool:
        """Judge what the results of every arm are worth, and their sums, (K,), in units of the noise: a new alarm?"""
        if not self.active:
            return False
        t = int(counts.sum())
        self._next = t + max(1, t // _PAUSE)
        found = self.judge(counts, sums)
        was = self.alarmed
        if found is not None and (was or found.log_evidence >= _ALARM):
            self.alarmed, self.text = True, self._text(found)
        return self.alarmed and not was

    def judge(self, counts: NDArray[Any], sums: Array) -> Fit | None:
        """What these numbers say; None while they cannot contradict each other, or obviously do not."""
        measured = np.flatnonzero(counts[self._judged])
        arms, basis = self._judged[measured], self._basis[measured]
        if len(arms) <= basis.shape[1]:
            return None
        n = counts[arms].astype(np.float64)
        means = sums[arms] / n
        grown = n * _MISFITS[:, None] ** 2  # (misfits, arms)
        price = 0.5 * np.log1p(grown).sum(axis=1)
        kept = grown / (1.0 + grown)
        terms = 0.5 * kept @ (n * _left_by_a_fit(basis, n, means) ** 2) - price  # no less than those of the best fit
        if not self.alarmed and terms.max() < _ALARM:
            return None
        for i, weights in enumerate(n * kept):
            terms[i] = 0.5 * _square(_residual(basis, weights, means)[0], weights, means) - price[i]
        whole, frame = _residual(basis, n, means)
        free = np.sqrt(np.maximum(1.0 - (frame**2).sum(axis=1), 0.0))  # what least squares leaves of an arm's error
        off = np.where(free > 1e-6, whole / np.maximum(free, 1e-6), 0.0)
        evidence = float(np.logaddexp.reduce(terms)) - log(len(terms))
        return Fit(evidence, arms, means, means - whole / np.sqrt(n), off)

    def _text(self, found: Fit) -> str:
        sizes = np.abs(found.off)
        worst = int(sizes.argmax())
        others = int((sizes >= _ALIKE * sizes[worst]).sum()) - 1
        scale = self._noise[found.arms[worst]]
        label = self._labels[found.arms[worst]]
        alike = f"; {others} other{'s are' if others > 1 else ' is'} off as far" if others else ""
        return (
            f"the arms contradict each other: {label!r:.80} averages {scale * found.means[worst]:.3g}, where a linear "
            f"model of all says {scale * found.fitted[worst]:.3g} ({sizes[worst]:.2g} standard errors{alike})"
        )


def _redundant(arms: Arms) -> tuple[NDArray[np.intp], Array]:
    """Arms that others can contradict, and a basis of the means that a linear model can give them, (K', r)."""
    none = np.zeros(0, dtype=np.intp), np.zeros((0, 0))
    if not arms.are_units:
        rows = arms.span.rows
        count, rank = rows.shape
        return (np.arange(count), rows) if count > rank else none
    shared = np.flatnonzero(np.bincount(arms.component, minlength=arms.dim)[arms.component] > 1)
    components, column = np.unique(arms.component[shared], return_inverse=True)
    if not len(shared) or len(shared) * len(components) > _MOST_NUMBERS:
        return none
    basis = np.zeros((len(shared), len(components)))
    basis[np.arange(len(shared)), column] = arms.coefficient[shared]
    return shared, basis / np.linalg.norm(basis, axis=0)


def _left_by_a_fit(basis: Array, weights: Array, means: Array) -> Array:
    """What a fit leaves of the means that costs little, and is nearly that of least squares."""
    moment = basis.T * weights
    information = moment @ basis
    information += 1e-10 * np.trace(information) * np.eye(len(information)) / len(information)
    left = means
    for _ in range(2):  # once more, for what the addition to the diagonal has left
        left = left - basis @ np.linalg.solve(information, moment @ left)
    return np.asarray(left)


def _residual(basis: Array, weights: Array, means: Array) -> tuple[Array, Array]:
    """Of weighted least squares, each times the root of its weight, and an orthonormal frame of what was taken out."""
    root = np.sqrt(weights)
    frame = np.linalg.qr(root[:, None] * basis)[0]
    left = root * means
    for _ in range(2):  # once more, for what rounding has left
        left = left - frame @ (frame.T @ left)
    return left, frame


def _square(residual: Array, weights: Array, means: Array) -> float:
    """The sum of squares, less what rounding may have added to it."""
    size = float(np.linalg.norm(residual)) - _SUM_ROUNDING * float(np.linalg.norm(np.sqrt(weights) * means))
    return max(0.0, size) ** 2

"""Sequential tests of the stated prior (`PriorGuard`) and of the linear model (`FitGuard`), from sums of results.

Both are computed from the sufficient statistics of each arm, without a state of their own. The probability of a false
alarm is at most 1/1000 for each test, in a run of any length.
"""

from __future__ import annotations

from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.oracles.base import Array
from combopeps.posterior.arms import Arms
from combopeps.posterior.parameter_space import ParameterSpace

_LOG_THRESHOLD = log(1000.0)
PRIOR_ADVICE = (
    "error probabilities and claims that rest on the prior do not hold then. Set Problem(..., prior_mean=, prior_std=, "
    "noise_std=) to the scale of the data, and start again"
)
_SCALES = np.array([1.25, 1.5, 2.0, 3.0, 6.0, 16.0, 64.0, 256.0, 1024.0])
_LOG_WEIGHTS = np.log(np.array([2.0, 4.0, 4.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0]) / 17.0)
_ALTERNATIVE_WIDTHS = np.array([0.02, 0.1, 0.25, 0.5, 1.0, 1.25, 1.5, 2.0, 3.0, 6.0, 16.0, 64.0, 256.0, 1e3, 1e4])
_MAX_EIGEN_DIM = 600  # for general arms, eigenvalues are computed at every look
_EIGEN_ROUNDING = 1e-12  # of eigenvalues, relative to the largest
_MIN_PROBABILITY = 1e-300
FIT_ADVICE = (
    "either results are no linear function of the rows (a row is wrong, or an interaction has no component of its "
    "own), or noise_std is too small. No claim holds then; correct Problem(..., arms=), and start again"
)
_MISFITS = np.array([0.01, 0.03, 0.1, 0.3, 1.0, 3.0])  # tau
_SUM_ROUNDING = 1e-10  # of sums of measurements, relative
_MAX_BASIS_ENTRIES = 4_000_000  # of unit arms that share components: larger problems are not tested
_SIMILAR_RESIDUAL = 0.95  # of the largest residual: arms with similar ones are counted in the message


class Repetitions(NamedTuple):
    """Sum of squared residuals around the means of the arms, in units of the noise, and degrees of freedom."""

    squares: float
    degrees: float


class _Components(NamedTuple):
    """Measured components: information A, moment b = sum of (result - prior mean), prior, and bounds of Theta."""

    information: Array
    moment: Array
    mean: Array
    std: Array
    low: Array
    high: Array

    def log_marginals(self, width: float = 1.0, noise: float = 1.0, shift: float = 0.0) -> Array:
        """Return the log marginal likelihood of each component, up to terms that are equal for all arguments.

        The prior is N(mean + shift, (width * std)^2), and the noise is `noise` times as large as stated.
        """
        moment, mean = self.moment - shift * self.information, self.mean + shift
        variance = (width * self.std) ** 2
        total = noise**2 + self.information * variance
        log_likelihood = -0.5 * (moment**2 / self.information / total + np.log(total))
        if np.isfinite(self.low).any() or np.isfinite(self.high).any():
            # A truncated prior: multiply by the ratio of posterior to prior probability of the box.
            posterior_variance = variance * noise**2 / total
            posterior_mean = mean + posterior_variance * moment / noise**2
            log_mass = _log_mass(posterior_mean, np.sqrt(posterior_variance), self.low, self.high)
            log_likelihood += log_mass - _log_mass(mean, np.sqrt(variance), self.low, self.high)
        return np.asarray(log_likelihood)

    @property
    def z_scores(self) -> Array:
        """Deviations of the estimates from the prior mean, standard normal under the stated model."""
        return np.asarray(self.moment / np.sqrt(self.information * (1.0 + self.information * self.std**2)))


class PriorGuard:
    """Sequential test of the stated prior and noise, from the sums of all results of one run.

        E = (E_all + E_one + E_noise) / 3,    alarm when E >= 1000

        E_all    the prior standard deviation of every component is s times as large as stated
        E_one    that of one component is, with weight 1 / d for each of them
        E_noise  the noise is s times as large as stated, divided by the best of the alternatives below

    Each term is the marginal likelihood of all results under its alternative, relative to the stated model theta ~
    N(mean, diag(std^2)), y = x @ theta + noise, averaged over several s > 1. A ratio of marginal likelihoods is a
    martingale under the stated model, for any adaptive choice of arms and any schedule of looks. So is the mean of the
    ratios, and by Ville's inequality E reaches 1000 with probability at most 1/1000 in a run of any length, if theta is
    drawn from the stated prior and the noise is normal and as stated. A box Theta truncates the prior of each
    component, and the likelihoods are those of truncated normals. For general arms, where these have no closed form, E
    is multiplied by the prior probability of the box, which bounds the ratio from below.

    E_noise should not respond to a prior that is too wide or has a wrong common mean. It is therefore divided by the
    largest likelihood ratio of the models in which the noise is as stated and theta ~ N(m, (s std)^2), for two values
    of m and factors s from 1/50 to 10^4. The stated model is one of them, so that the quotient is at most the
    martingale.

    Parameters
    ----------
    signal
        The arms, in units of their noise.
    labels
        Labels of the components.
    mean, std
        The stated prior, one number per component.
    space
        Parameter space Theta.
    stated
        False for a prior that is estimated from the results, which is not tested.

    Examples
    --------
    >>> from combopeps.posterior.parameter_space import RealSpace
    >>> guard = PriorGuard(Arms(np.eye(2)), ["a", "b"], np.zeros(2), np.ones(2), RealSpace())
    >>> counts = np.array([4.0, 4.0])
    >>> guard.test(counts, counts * [0.5, -1.5])
    ''
    >>> guard.test(counts, counts * [0.5, 82.0])  # doctest: +ELLIPSIS
    "the results contradict the stated prior: 'b' is 73 standard deviations off its prior mean 0 (prior_std = 1), ..."
    """

    def __init__(
        self, signal: Arms, labels: Any, mean: Array, std: Array, space: ParameterSpace, *, stated: bool = True
    ) -> None:
        self._signal, self._labels, self._mean, self._std = signal, labels, mean.copy(), std
        self._are_units = signal.are_units
        self._low, self._high = space.bounds(signal.dim)
        self.active = stated and (signal.are_units or signal.dim <= _MAX_EIGEN_DIM)
        self._one_arm_each = signal.are_units and int(np.bincount(signal.component).max()) <= 1
        self._arm_mean: Array = signal.dot(self._mean)

    def test(self, weights: Array, totals: Array, repetitions: Repetitions | None = None) -> str:
        """Return a message if results of these weights and sums, (K,), contradict the prior; empty if E < 1000.

        `repetitions` are those of the same results, where all of them have the stated noise; without them, E_noise is
        omitted.
        """
        if not self.active or not weights.any():
            return ""
        with np.errstate(over="ignore", invalid="ignore"):
            if self._are_units:
                return self._test_units(weights, totals, repetitions)
            return self._test_general(weights, totals)

    def _test_units(self, weights: Array, totals: Array, repetitions: Repetitions | None) -> str:
        """Test with unit arms, where components are independent and likelihoods are products over them."""
        signal, dim = self._signal, self._signal.dim
        deviations = signal.coefficient * (totals - weights * self._arm_mean)
        information = np.asarray(np.bincount(signal.component, weights * signal.coefficient**2, dim), dtype=np.float64)
        moment = np.asarray(np.bincount(signal.component, deviations, dim), dtype=np.float64)
        measured = np.flatnonzero(information)
        prior = (self._mean[measured], self._std[measured], self._low[measured], self._high[measured])
        components = _Components(information[measured], moment[measured], *prior)
        stated = components.log_marginals()
        ratios = np.array([components.log_marginals(width=s) for s in _SCALES]) - stated
        e_all = float(np.logaddexp.reduce(_LOG_WEIGHTS + ratios.sum(axis=1)))
        e_one = self._mean_over_components(ratios, dim - len(measured))
        e_noise, noise = -np.inf, 1.0
        if repetitions is not None and self._one_arm_each:
            e_noise, noise = _evidence_for_noise(components, stated, repetitions)
        if not np.logaddexp.reduce([e_all, e_one, e_noise]) - log(3.0) >= _LOG_THRESHOLD:
            return ""
        if e_noise > max(e_all, e_one):
            return (
                "the results contradict the stated prior and noise taken together: noise about "
                f"{noise:.3g} times as large as noise_std fits them better than another prior"
            )
        return self._text(measured, components.z_scores)

    def _test_general(self, weights: Array, totals: Array) -> str:
        """Test with general arms, by the eigenvalues of the information in units of the prior."""
        rows, std = self._signal.matrix, self._std
        assert rows is not None
        information = (rows.T * weights) @ rows * np.outer(std, std)
        moment = std * (rows.T @ (totals - weights * self._arm_mean))
        values, vectors = np.linalg.eigh(information)
        nonzero = values > _EIGEN_ROUNDING * values[-1]  # smaller eigenvalues are rounding errors
        values, rotated = np.where(nonzero, values, 0.0), np.where(nonzero, vectors.T @ moment, 0.0)
        squares, wide = _SCALES[:, None] ** 2, 1.0 + _SCALES[:, None] ** 2 * values
        narrow = (1.0 + values) / wide
        ratios = (squares - 1.0) * (rotated / (1.0 + values)) ** 2 * narrow + np.log(narrow)
        box = float(_log_mass(self._mean, std, self._low, self._high).sum())
        e_all = float(np.logaddexp.reduce(_LOG_WEIGHTS + 0.5 * ratios.sum(axis=1))) + box
        # Posterior variances and means, in units of the prior.
        variance = (vectors**2 / (1.0 + values)).sum(axis=1)
        mean = vectors @ (rotated / (1.0 + values))
        gain = (1.0 - _SCALES[:, None] ** -2.0) / (1.0 - (1.0 - _SCALES[:, None] ** -2.0) * variance)
        single = 0.5 * (gain * mean**2 + np.log(gain / (squares - 1.0)))
        e_one = self._mean_over_components(single, 0) + box
        if not np.logaddexp(e_all, e_one) - log(3.0) >= _LOG_THRESHOLD:
            return ""
        return self._text(np.arange(len(std)), mean / np.sqrt(np.maximum(1.0 - variance, 1e-15)))

    def _mean_over_components(self, ratios: Array, unmeasured: int) -> float:
        """Return the log of the mean over components and s; the ratio of unmeasured components is 1."""
        total = np.logaddexp.reduce((_LOG_WEIGHTS[:, None] + ratios).ravel())
        return float(np.logaddexp(total, log(unmeasured) if unmeasured else -np.inf)) - log(self._signal.dim)

    def _text(self, components: NDArray[np.intp], z_scores: Array) -> str:
        worst = int(np.abs(z_scores).argmax())
        c = int(components[worst])
        rms = np.sqrt(np.mean(z_scores**2))
        overall = f", and the root mean square over {len(z_scores)} components is {rms:.2g} instead of 1"
        return (
            f"the results contradict the stated prior: {self._labels[c]!r:.60} is {abs(z_scores[worst]):.2g} standard "
            f"deviations off its prior mean {self._mean[c]:g} (prior_std = {self._std[c]:g})"
            + (overall if len(z_scores) > 1 else "")
        )


def _evidence_for_noise(components: _Components, stated: Array, repetitions: Repetitions) -> tuple[float, float]:
    """Return ln E_noise (minus infinity if it is below the threshold), and the most likely factor of the noise."""
    scatter = (1.0 - _SCALES**-2.0) / 2.0 * repetitions.squares - repetitions.degrees * np.log(_SCALES)
    larger = scatter + np.array([components.log_marginals(noise=s).sum() for s in _SCALES])
    evidence = float(np.logaddexp.reduce(_LOG_WEIGHTS + larger))
    # The quotient below is no larger than this ratio.
    if evidence - float(stated.sum()) < _LOG_THRESHOLD:
        return -np.inf, 1.0
    shift = float(components.moment.sum() / components.information.sum())
    others = [components.log_marginals(width=w, shift=m).sum() for m in (0.0, shift) for w in _ALTERNATIVE_WIDTHS]
    return evidence - float(max(others)), float(_SCALES[int(np.argmax(larger))])


def _log_mass(mean: Array, std: Array, low: Array, high: Array) -> Array:
    """Return the log probability of [low, high] under N(mean, std^2), elementwise."""
    from scipy.special import ndtr

    flip = np.where(low > mean, -1.0, 1.0)  # compute in the lower tail, where ndtr keeps its relative precision
    upper, lower = ndtr(flip * (high - mean) / std), ndtr(flip * (low - mean) / std)
    return np.asarray(np.log(np.maximum(np.abs(upper - lower), _MIN_PROBABILITY)))


class Fit(NamedTuple):
    """ln E, and the deviation of each measured arm from its fitted mean, in standard errors."""

    log_evidence: float
    arms: NDArray[np.intp]
    means: Array
    fitted: Array
    z_scores: Array


class FitGuard:
    """Sequential test of the linear model, from the mean results of the arms of one run.

        E = mean_tau  min_theta  exp( 1/2 sum_x v_x (m_x - x @ theta)^2 ) / prod_x sqrt(1 + n_x tau^2)
        v_x = n_x^2 tau^2 / (1 + n_x tau^2),    alarm when E >= 1000

    m_x is the mean of the n_x measurements of arm x, in units of the noise, and tau the scale of its misfit. Where more
    arms have been measured than theta has dimensions, rewards that are not a linear function of the rows leave a
    residual.

    For any misfit delta, exp(sum_x delta_x S_x - n_x delta_x^2 / 2) with S_x = n_x (m_x - x @ theta*) is a nonnegative
    supermartingale that starts at 1, for any adaptive choice of arms. So is its average over delta ~ N(0, tau^2), which
    is the term above at the true theta*; the minimum over theta is at most this term, so that no correction is needed
    for the unknown theta. By Ville's inequality an alarm has probability at most 1/1000 in a run of any length, with
    looks at any time, if rewards are linear and the noise is independent and sub-Gaussian with the stated standard
    deviation.

    Attributes
    ----------
    active
        Whether there are more arms than dimensions, so that the means can contradict each other.

    Examples
    --------
    >>> guard = FitGuard(Arms(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), ["a", "b", "both"]))
    >>> counts = np.array([50, 50, 50])
    >>> guard.test(counts, counts * [1.0, 2.0, 3.1])
    ''
    >>> guard.test(counts, counts * [1.0, 2.0, 4.5])  # doctest: +ELLIPSIS
    "the arms contradict each other: ... averages ..., where a linear model of all predicts ... (6.1 standard errors..."
    """

    def __init__(self, arms: Arms, noise_std: ArrayLike = 1.0, *, stated: bool = True) -> None:
        self._labels, self._noise = arms.labels, np.broadcast_to(np.asarray(noise_std, float), len(arms))
        self._tested, self._basis = _redundant(arms)
        self.active = stated and len(self._tested) > 0

    def test(self, counts: NDArray[Any], sums: Array) -> str:
        """Return a message if results of these weights and sums, (K,), contradict the model; empty if E < 1000."""
        found = self.fit(counts, sums) if self.active else None
        return "" if found is None or found.log_evidence < _LOG_THRESHOLD else self._text(found)

    def fit(self, counts: NDArray[Any], sums: Array, *, in_full: bool = False) -> Fit | None:
        """Compute the evidence; None if the means cannot contradict each other.

        None also if an upper bound is below 1000, unless the computation is to be made `in_full`.
        """
        measured = np.flatnonzero(counts[self._tested])
        arms, basis = self._tested[measured], self._basis[measured]
        if len(arms) <= basis.shape[1]:
            return None
        n = counts[arms].astype(np.float64)
        means = sums[arms] / n
        variance_ratio = n * _MISFITS[:, None] ** 2  # (misfits, arms)
        penalty = 0.5 * np.log1p(variance_ratio).sum(axis=1)
        shrinkage = variance_ratio / (1.0 + variance_ratio)
        # Residuals of any fit bound the minimum over theta from above: a cheap approximate fit is tried first.
        terms = 0.5 * shrinkage @ (n * _approximate_residual(basis, n, means) ** 2) - penalty
        if not in_full and terms.max() < _LOG_THRESHOLD:
            return None
        for i, weights in enumerate(n * shrinkage):
            terms[i] = 0.5 * _sum_of_squares(_residual(basis, weights, means)[0], weights, means) - penalty[i]
        residual, frame = _residual(basis, n, means)
        std = np.sqrt(np.maximum(1.0 - (frame**2).sum(axis=1), 0.0))  # of residuals: sqrt(1 - leverage)
        z_scores = np.where(std > 1e-6, residual / np.maximum(std, 1e-6), 0.0)
        evidence = float(np.logaddexp.reduce(terms)) - log(len(terms))
        return Fit(evidence, arms, means, means - residual / np.sqrt(n), z_scores)

    def _text(self, found: Fit) -> str:
        sizes = np.abs(found.z_scores)
        worst = int(sizes.argmax())
        others = int((sizes >= _SIMILAR_RESIDUAL * sizes[worst]).sum()) - 1
        scale = self._noise[found.arms[worst]]
        label = self._labels[found.arms[worst]]
        alike = f"; {others} other{'s are' if others > 1 else ' is'} off as far" if others else ""
        return (
            f"the arms contradict each other: {label!r:.80} averages {scale * found.means[worst]:.3g}, where a linear "
            f"model of all predicts {scale * found.fitted[worst]:.3g} ({sizes[worst]:.2g} standard errors{alike})"
        )


def _redundant(arms: Arms) -> tuple[NDArray[np.intp], Array]:
    """Return the arms whose means are linearly dependent, and a basis of their means in the model, (K', r)."""
    none = np.zeros(0, dtype=np.intp), np.zeros((0, 0))
    if not arms.are_units:
        rows = arms.span.rows
        count, rank = rows.shape
        return (np.arange(count), rows) if count > rank else none
    shared = np.flatnonzero(np.bincount(arms.component, minlength=arms.dim)[arms.component] > 1)
    components, column = np.unique(arms.component[shared], return_inverse=True)
    if not len(shared) or len(shared) * len(components) > _MAX_BASIS_ENTRIES:
        return none
    basis = np.zeros((len(shared), len(components)))
    basis[np.arange(len(shared)), column] = arms.coefficient[shared]
    return shared, basis / np.linalg.norm(basis, axis=0)


def _approximate_residual(basis: Array, weights: Array, means: Array) -> Array:
    """Return the residual of a ridge regression with a negligible penalty, by the normal equations."""
    moment = basis.T * weights
    information = moment @ basis
    information += 1e-10 * np.trace(information) * np.eye(len(information)) / len(information)
    residual = means
    for _ in range(2):  # one step of iterative refinement
        residual = residual - basis @ np.linalg.solve(information, moment @ residual)
    return np.asarray(residual)


def _residual(basis: Array, weights: Array, means: Array) -> tuple[Array, Array]:
    """Return the residual of weighted least squares, times sqrt(weights), and an orthonormal basis of the fit."""
    root = np.sqrt(weights)
    frame = np.linalg.qr(root[:, None] * basis)[0]
    residual = root * means
    for _ in range(2):  # reorthogonalise once
        residual = residual - frame @ (frame.T @ residual)
    return residual, frame


def _sum_of_squares(residual: Array, weights: Array, means: Array) -> float:
    """Return the sum of squares, reduced by a bound on its rounding error, so that rounding causes no alarm."""
    size = float(np.linalg.norm(residual)) - _SUM_ROUNDING * float(np.linalg.norm(np.sqrt(weights) * means))
    return max(0.0, size) ** 2

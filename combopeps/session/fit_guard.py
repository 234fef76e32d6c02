"""`FitGuard`: do the means of the arms fit a linear model at all?

    E = mean_tau  min_theta  exp( 1/2 sum_x v_x (m_x - x @ theta)^2 ) / prod_x sqrt(1 + n_x tau^2)
    v_x = n_x^2 tau^2 / (1 + n_x tau^2),    alarm when E >= 1000

m_x is the mean of the n_x measurements of arm x, in units of the noise, and tau how far off its mean may be. Where more
arms have been measured than theta has dimensions, rewards that are no linear function of the rows leave a residual.

For any misfit delta, exp(sum_x delta_x S_x - n_x delta_x^2 / 2) with S_x = n_x (m_x - x @ theta*) is a nonnegative
supermartingale that starts at 1, whatever decides what is measured next. So is its average over delta ~ N(0, tau^2),
which is the term above at the true theta*; the minimum is below that, at no price for theta being unknown. By Ville's
inequality an alarm has probability at most 1/1000 in a run of any length, with looks at any time, if rewards are linear
and the noise is independent and sub-Gaussian with the stated standard deviation.
"""

from __future__ import annotations

from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.oracles.base import Array
from combopeps.posterior.arms import Arms

FIT_CURE = (
    "either results are no linear function of the rows (a row is wrong, or an interaction has no component of its "
    "own), or noise_std is too small. No claim holds then; mend Problem(..., arms=), and start again"
)
_ALARM = log(1000.0)
_MISFITS = np.array([0.01, 0.03, 0.1, 0.3, 1.0, 3.0])  # tau
_PAUSE = 10  # a tenth more measurements between two looks
_ROUNDING = 1e-10  # of sums of measurements, relative
_LARGEST = 4_000_000  # numbers in the rows of unit arms that share components: beyond, nobody looks
_ALIKE = 0.95  # of the worst residual: these arms fit as badly


class Fit(NamedTuple):
    """What a look found: ln E, and by how many standard errors each measured arm is off its fitted mean."""

    log_evidence: float
    arms: NDArray[np.intp]
    means: Array
    fitted: Array
    off: Array


class FitGuard:
    """Holds the sums of all results of one run against the linear model; nothing is done between looks.

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
    if not len(shared) or len(shared) * len(components) > _LARGEST:
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
    size = float(np.linalg.norm(residual)) - _ROUNDING * float(np.linalg.norm(np.sqrt(weights) * means))
    return max(0.0, size) ** 2

"""Noise level: the posterior of an unknown standard deviation of the noise.

    sigma^2 | data ~ InverseGamma(nu / 2, SS / 2),   sigma_hat^2 = SS / nu

SS is the sum of squared residuals around least squares, in units of the given noise ratios, and nu the number of
results minus the rank of the design: where each arm measures a component of its own, residuals around the mean of each
arm, and repetitions. This is the posterior under the scale-invariant prior 1 / sigma^2 and a flat prior on theta. Like
every likelihood it holds whatever the choice of arms and the time of stopping depend on. With
sigma / sigma_hat = sqrt(nu / chi^2_nu), theta has the tails of Student's t.

With few degrees of freedom the estimate is too uncertain. Until there are `MIN_DOF`, all deviation of the results from
the prior mean counts as noise, plus the variance that the prior expects of one more result: more than sigma in most
cases; and no rule stops. Where the prior is estimated as well, it is the deviation of the results from their mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles.base import Array
from combopeps.posterior.gaussian import GaussianPosterior
from combopeps.utils.formatting import ShortRepr
from combopeps.utils.state_dict import StateDict, integer, load_into

MIN_DOF = 4  # degrees of freedom below which nothing is claimed
_FEW_DOF = 1.0  # degrees of freedom reported until then
_MIN_RATIO = 1e-5  # of sigma to the standard deviation that the prior expects of a result; smaller noise is negligible
_ROUNDING = 1e-12  # relative to the mean of the results: smaller deviations are rounding
_GROWTH = 10  # an update is due each time that the number of results has grown by a tenth


@dataclass(frozen=True, repr=False)
class NoiseEstimate(ShortRepr):
    """Estimate of the standard deviation of the noise (of an arm whose noise ratio is 1).

    Attributes
    ----------
    value
        The estimate.
    low, high
        An interval of posterior probability 95 %.
    dof
        Degrees of freedom: results minus the rank of the design.
    """

    value: float
    low: float
    high: float
    dof: int

    def __str__(self) -> str:
        return f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g}, {self.dof} degrees of freedom)"


def chi_square_quantile(p: float | Array, dof: float) -> Array:
    """Return quantiles of the chi-square distribution; importing `scipy.stats` takes longer than a small run.

    Examples
    --------
    >>> float(chi_square_quantile(0.95, 1).round(2))
    3.84
    """
    from scipy.special import gammaincinv

    return np.asarray(2.0 * gammaincinv(0.5 * dof, p), dtype=np.float64)


class NoiseLevel:
    """Sums of squared results by arm, of R replications, and the noise level estimated from them.

    Deviations are from the first result of the arm, so that no digits are lost; sums are the same whether results come
    one by one or many at once.

    Parameters
    ----------
    posterior
        A posterior without measurements: its arms and prior.
    prior_known
        Whether the prior was given.
    """

    def __init__(self, posterior: GaussianPosterior, *, prior_known: bool = True) -> None:
        shape = posterior.replications, len(posterior.arms)
        self._results = np.zeros(shape, dtype=np.int64)
        self._first, self._sums, self._squares = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self._arms, alone = posterior.arms, posterior.row(0)
        self._prior_known = prior_known
        self._centre = posterior.arms.dot(alone.theta_hat[0] if prior_known else np.ones(posterior.dim))
        self._expected = float(np.median(alone.arm_widths()))  # prior variance of x @ theta, of a typical arm
        self._separate = posterior.arms.are_units and len(np.unique(posterior.arms.component)) == len(posterior.arms)

    def see(self, at: Any, value: Any, weight: float) -> None:
        """Add one result in each replication, at (replication, arm)."""
        first = np.where(self._results[at] == 0, value, self._first[at])
        deviation = value - first
        self._first[at] = first
        self._results[at] += 1
        self._sums[at] += deviation * weight
        self._squares[at] += deviation * deviation * weight

    def see_many(self, arm: NDArray[np.intp], values: Array, weights: Array) -> None:
        """Add results of one replication, in their order."""
        found, begin = np.unique(arm, return_index=True)
        new = self._results[0, found] == 0
        self._first[0, found[new]] = values[begin[new]]
        deviation = values - self._first[0, arm]
        np.add.at(self._results[0], arm, 1)
        np.add.at(self._sums[0], arm, deviation * weights)
        np.add.at(self._squares[0], arm, deviation * deviation * weights)

    def state_dict(self) -> StateDict:
        """Return the sums as plain data."""
        return {"results": self._results, "first": self._first, "sums": self._sums, "squares": self._squares}

    def load_state_dict(self, data: StateDict) -> None:
        """Set the sums from a `state_dict`."""
        load_into(self._results, data["results"])
        load_into(self._first, data["first"])
        load_into(self._sums, data["sums"])
        load_into(self._squares, data["squares"])

    def estimate(self, weights: Array, totals: Array) -> tuple[Array, Array]:
        """Return sigma_hat and its degrees of freedom, (R,) each, from weights and weighted sums, (R, K)."""
        deviation, centre = self._deviations(weights, totals)
        nu, squares = self._residuals(weights, deviation)
        scatter, results = (weights * deviation * deviation).sum(axis=1) + squares, self._results.sum(axis=1)
        if self._prior_known:
            expected, assumed = np.asarray(self._expected), (self._expected + scatter) / (1.0 + results)
        else:
            size = np.where(centre != 0.0, centre * centre, 1.0)
            expected = np.maximum(scatter / np.maximum(results - 1, 1), (_ROUNDING / _MIN_RATIO) ** 2 * size)
            assumed = np.where(results > 2, expected, np.maximum(expected, size))
        known = nu >= MIN_DOF
        variance = np.where(known, squares / np.maximum(nu, 1), assumed)
        return np.sqrt(np.maximum(variance, _MIN_RATIO**2 * expected)), np.where(known, nu, _FEW_DOF)

    def describe(self, weights: Array, totals: Array) -> NoiseEstimate | None:
        """Return the estimate of the first replication with its interval; None below `MIN_DOF` dof."""
        found = self._residuals(weights, self._deviations(weights, totals)[0])
        nu, squares = (float(number[0]) for number in found)
        if nu < MIN_DOF:
            return None
        high, low = np.sqrt(squares / chi_square_quantile(np.array([0.025, 0.975]), nu))
        return NoiseEstimate(float(np.sqrt(squares / nu)), float(low), float(high), int(nu))

    def _deviations(self, weights: Array, totals: Array) -> tuple[Array, Array]:
        """Return the deviation of each arm's mean from the prior mean, (R, K), and the estimated prior mean, (R,)."""
        centre, measured = np.ones(len(weights)), weights > 0.0
        if not self._prior_known:
            information = (weights * self._centre**2).sum(axis=1)
            centre = (totals * self._centre).sum(axis=1) / np.where(information > 0.0, information, 1.0)
        deviation = totals / np.where(measured, weights, 1.0) - centre[:, None] * self._centre
        return np.where(measured, deviation, 0.0), centre

    def _residuals(self, weights: Array, deviation: Array) -> tuple[NDArray[np.int64], Array]:
        """Return nu and SS, (R,) each: within arms, and of the means of arms around least squares."""
        within = self._squares - self._sums**2 / np.where(weights > 0.0, weights, 1.0)
        nu, squares = np.maximum(self._results - 1, 0).sum(axis=1), np.maximum(within, 0.0).sum(axis=1)
        if self._separate:
            return nu, squares
        for r in range(len(nu)):
            at = np.flatnonzero(weights[r])
            root = np.sqrt(weights[r, at])
            rows, y = self._arms.row(at) * root[:, None], deviation[r, at] * root
            theta, _, rank, _ = np.linalg.lstsq(rows, y, rcond=None)
            nu[r] += len(at) - rank
            squares[r] += float(((y - rows @ theta) ** 2).sum()) if len(at) > rank else 0.0
        return nu, squares


class RefreshTimes:
    """Times at which the posterior is updated with new estimates of noise and prior.

    After every result at first, then each time that there are a tenth more. The times depend on the number of results
    alone, so that reading the state of a run does not change it.

    Examples
    --------
    >>> times = RefreshTimes()
    >>> [times.count(1) for _ in range(24)].index(False)
    20
    """

    def __init__(self) -> None:
        self._seen, self._next = 0, 1

    def count(self, results: int) -> bool:
        """Add so many results; return whether an update is due."""
        self._seen += results
        due = self._seen >= self._next
        while self._next <= self._seen:
            self._next = _after(self._next)
        return due

    def last_due(self, results: int) -> int:
        """Return after how many of the next `results` results the last update is due; 0 for none."""
        last, at = self._seen, self._next
        while at <= self._seen + results:
            last, at = at, _after(at)
        return last - self._seen

    def state_dict(self) -> StateDict:
        """Return the state as plain data."""
        return {"seen": self._seen, "next": self._next}

    def load_state_dict(self, data: StateDict) -> None:
        """Set the state from a `state_dict`."""
        self._seen, self._next = integer(data["seen"]), integer(data["next"])


def _after(results: int) -> int:
    """Return the number of results of the next update."""
    return results + max(1, results // _GROWTH)

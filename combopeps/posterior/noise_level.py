"""`NoiseLevel`: how large the noise is, where nobody has said so.

    sigma^2 | data ~ InverseGamma(nu / 2, SS / 2),   sigma_hat^2 = SS / nu

SS is the sum of squared residuals of results around least squares, in units of the stated ratios, and nu the number of
results beyond those that it takes to estimate theta: where each arm measures a component of its own, residuals around
the mean of each arm, and repetitions. This is the posterior for the prior 1 / sigma^2, which knows no units, and a
theta of which nothing is known. Like every likelihood it holds whatever decides what is measured, and when it ends.
With sigma / sigma_hat = sqrt(nu / chi^2_nu), theta has Student's tails.

Before there are some of them this says next to nothing. Until then all by which results differ from the prior mean
is taken for noise, with what the prior expects of one more result added: more than sigma, as a rule; and no rule stops.
Where the prior is estimated as well, it is all by which results differ from their mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles.base import Array
from combopeps.posterior.gaussian import GaussianBelief
from combopeps.utils.state_dict import StateDict, fill, whole

ENOUGH = 4  # degrees of freedom before which nothing is claimed
_VAGUE = 1.0  # what is assumed until then
_FLOOR = 1e-5  # of what the prior expects of a result: noise below that is as good as none, and squares stay apart
_ROUNDING = 1e-12  # of the mean of the results: a scatter below that is rounding
_STRETCH = 10  # the belief takes a new estimate over each time that the results have grown by a tenth


@dataclass(frozen=True)
class NoiseEstimate:
    """What the scatter of results says about the standard deviation of the noise (of an arm whose ratio is 1).

    Attributes
    ----------
    value
        The estimate.
    low, high
        An interval of posterior probability 95 %.
    dof
        Degrees of freedom: results beyond those that it takes to estimate theta.
    """

    value: float
    low: float
    high: float
    dof: int

    def __str__(self) -> str:
        return f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g}, {self.dof} degrees of freedom)"


class NoiseLevel:
    """Sums of squares, arm by arm, of R replications with the arms and the prior of a belief that has learnt nothing.

    Deviations are from the first result of the arm, so that no digits are lost; sums are the same whether results come
    one by one or many at once.

    `prior_known` says whether the prior was stated.
    """

    def __init__(self, belief: GaussianBelief, *, prior_known: bool = True) -> None:
        shape = belief.replications, len(belief.arms)
        self._results = np.zeros(shape, dtype=np.int64)
        self._first, self._sums, self._squares = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self._arms, alone = belief.arms, belief.row(0)
        self._prior_known = prior_known
        self._centre = belief.arms.dot(alone.theta_hat[0] if prior_known else np.ones(belief.dim))
        self._expected = float(np.median(alone.arm_widths()))  # square of what the prior expects of a result
        self._separate = belief.arms.are_units and len(np.unique(belief.arms.component)) == len(belief.arms)

    def see(self, at: Any, value: Any, weight: float) -> None:
        """One result in each replication, at (replication, arm)."""
        first = np.where(self._results[at] == 0, value, self._first[at])
        away = value - first
        self._first[at] = first
        self._results[at] += 1
        self._sums[at] += away * weight
        self._squares[at] += away * away * weight

    def see_many(self, arm: NDArray[np.intp], values: Array, weights: Array) -> None:
        """Results of one replication, in their order."""
        found, begin = np.unique(arm, return_index=True)
        new = self._results[0, found] == 0
        self._first[0, found[new]] = values[begin[new]]
        away = values - self._first[0, arm]
        np.add.at(self._results[0], arm, 1)
        np.add.at(self._sums[0], arm, away * weights)
        np.add.at(self._squares[0], arm, away * away * weights)

    def state_dict(self) -> StateDict:
        """The sums, as plain data."""
        return {"results": self._results, "first": self._first, "sums": self._sums, "squares": self._squares}

    def load_state_dict(self, data: StateDict) -> None:
        """Take that back."""
        fill(self._results, data["results"])
        fill(self._first, data["first"])
        fill(self._sums, data["sums"])
        fill(self._squares, data["squares"])

    def estimate(self, weights: Array, totals: Array) -> tuple[Array, Array]:
        """sigma_hat and its degrees of freedom, (R,) each, given what results are worth and their sums, (R, K)."""
        off, centre = self._off(weights, totals)
        nu, squares = self._residuals(weights, off)
        scatter, results = (weights * off * off).sum(axis=1) + squares, self._results.sum(axis=1)
        if self._prior_known:
            expected, vague = np.asarray(self._expected), (self._expected + scatter) / (1.0 + results)
        else:
            size = np.where(centre != 0.0, centre * centre, 1.0)
            expected = np.maximum(scatter / np.maximum(results - 1, 1), (_ROUNDING / _FLOOR) ** 2 * size)
            vague = np.where(results > 2, expected, np.maximum(expected, size))
        known = nu >= ENOUGH
        variance = np.where(known, squares / np.maximum(nu, 1), vague)
        return np.sqrt(np.maximum(variance, _FLOOR**2 * expected)), np.where(known, nu, _VAGUE)

    def describe(self, weights: Array, totals: Array) -> NoiseEstimate | None:
        """For people, of the first replication; None before there is enough."""
        from scipy.stats import chi2

        found = self._residuals(weights, self._off(weights, totals)[0])
        nu, squares = (float(number[0]) for number in found)
        if nu < ENOUGH:
            return None
        high, low = np.sqrt(squares / chi2.ppf([0.025, 0.975], nu))
        return NoiseEstimate(float(np.sqrt(squares / nu)), float(low), float(high), int(nu))

    def _off(self, weights: Array, totals: Array) -> tuple[Array, Array]:
        """By how much the mean of each arm is off the prior mean, (R, K), and an estimate of that, (R,)."""
        centre, seen = np.ones(len(weights)), weights > 0.0
        if not self._prior_known:
            information = (weights * self._centre**2).sum(axis=1)
            centre = (totals * self._centre).sum(axis=1) / np.where(information > 0.0, information, 1.0)
        off = totals / np.where(seen, weights, 1.0) - centre[:, None] * self._centre
        return np.where(seen, off, 0.0), centre

    def _residuals(self, weights: Array, off: Array) -> tuple[NDArray[np.int64], Array]:
        """nu and SS, (R,) each: within arms, and of the means of arms around least squares."""
        within = self._squares - self._sums**2 / np.where(weights > 0.0, weights, 1.0)
        nu, squares = np.maximum(self._results - 1, 0).sum(axis=1), np.maximum(within, 0.0).sum(axis=1)
        if self._separate:
            return nu, squares
        for r in range(len(nu)):
            at = np.flatnonzero(weights[r])
            root = np.sqrt(weights[r, at])
            rows, y = self._arms.row(at) * root[:, None], off[r, at] * root
            theta, _, rank, _ = np.linalg.lstsq(rows, y, rcond=None)
            nu[r] += len(at) - rank
            squares[r] += float(((y - rows @ theta) ** 2).sum()) if len(at) > rank else 0.0
        return nu, squares


class RefreshTimes:
    """When the belief takes new estimates of noise and prior over.

    After every result at first, then each time that there are a tenth more. That depends on the number of results
    alone, so that looking at a run does not change it.

    Examples
    --------
    >>> times = RefreshTimes()
    >>> [times.count(1) for _ in range(24)].index(False)
    20
    """

    def __init__(self) -> None:
        self._seen, self._next = 0, 1

    def count(self, results: int) -> bool:
        """So many more results have come: is it time?"""
        self._seen += results
        due = self._seen >= self._next
        while self._next <= self._seen:
            self._next = _after(self._next)
        return due

    def last_due(self, results: int) -> int:
        """Of so many results to come: after how many of them the last estimate is due; 0 for none."""
        last, at = self._seen, self._next
        while at <= self._seen + results:
            last, at = at, _after(at)
        return last - self._seen

    def state_dict(self) -> StateDict:
        """As plain data."""
        return {"seen": self._seen, "next": self._next}

    def load_state_dict(self, data: StateDict) -> None:
        """Take that back."""
        self._seen, self._next = whole(data["seen"]), whole(data["next"])


def _after(results: int) -> int:
    return results + max(1, results // _STRETCH)

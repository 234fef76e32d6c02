"""`Forecast`: what one stopping rule will take, and how often its answers are right.

Means and quantiles of runs of which some were cut off before their end.

    S(x) = prod_{x_i <= x} (1 - ended_i / at_risk_i)        (Kaplan and Meier)

A run that was cut off at x says that its end lies beyond: it counts as long as it was seen. With all runs seen to their
ends S is the share of runs beyond x, and the mean under it is the plain mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles.base import Array
from combopeps.session.planned_run import Ended
from combopeps.utils.formatting import Readable, Share
from combopeps.utils.validation import check_count, check_real

_RESAMPLES = 400


@dataclass(frozen=True)
class Mean:
    """A mean over runs, and an interval that the mean of as many runs again will lie in with probability 95 %.

    Both sides have an error: this mean and that one. So the interval is wider, by a factor of sqrt(2), than that for
    the true mean, which lies in it with a probability of more than 99 %. Where a few long runs make up the mean, as
    when thetas are drawn, both hold less often: in a check with 24 plans, four times in five.

    Attributes
    ----------
    value, low, high
        The mean, and the interval.
    at_least
        The longest runs were cut off: the true mean is larger than `value`, and nobody knows by how much.
    """

    value: float
    low: float
    high: float
    at_least: bool = False

    def __str__(self) -> str:
        if self.at_least:
            return f">= {number(self.value)}"
        return f"{number(self.value)} [{number(self.low)}, {number(self.high)}]"


def number(value: float) -> str:
    """As people write it: no more digits than it takes.

    Examples
    --------
    >>> number(12345.6), number(121.7), number(12.34)
    ('12,346', '122', '12.3')
    """
    if not np.isfinite(value):
        return "?"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def mean_of(values: Array, ended: NDArray[np.bool_]) -> Mean:
    """The mean of values, (n,), at each of which a run ended or was cut off."""
    from scipy.stats import t as student

    n, middle = len(values), _mean(values, ended)
    if n < 2:
        return Mean(middle, 0.0, inf, not ended[values.argmax()])
    if ended.all():
        error = float(values.std(ddof=1)) / sqrt(n)
    else:
        rng = np.random.default_rng(0)  # fixed: the same runs have the same interval
        again = rng.integers(0, n, size=(_RESAMPLES, n))
        error = float(np.std([_mean(values[rows], ended[rows]) for rows in again], ddof=1))
    half = float(student.ppf(0.975, n - 1)) * sqrt(2.0) * error
    if _open(values, ended):
        return Mean(middle, middle, inf, at_least=True)
    return Mean(middle, max(0.0, middle - half), middle + half)


def quantile_of(values: Array, ended: NDArray[np.bool_], share: float) -> float:
    """The value that this share of runs have ended by; infinite where so many were not seen to end."""
    at, beyond = survival(values, ended)
    reached = np.flatnonzero(beyond <= 1.0 - share + 1e-12)
    return float(at[reached[0]]) if len(reached) else inf


def survival(values: Array, ended: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Where runs ended, in order, and the share of runs that go on beyond."""
    at, which = np.unique(values, return_inverse=True)
    ends = np.bincount(which, weights=ended, minlength=len(at))
    all_here = np.bincount(which, minlength=len(at))
    at_risk = len(values) - np.concatenate([[0], np.cumsum(all_here)[:-1]])
    return at, np.cumprod(1.0 - ends / at_risk)


def _mean(values: Array, ended: NDArray[np.bool_]) -> float:
    """The area below S, up to the largest value."""
    if ended.all():
        return float(values.mean())
    at, beyond = survival(values, ended)
    return float(at[0] + (np.diff(at) * beyond[:-1]).sum())


def _open(values: Array, ended: NDArray[np.bool_]) -> bool:
    return bool(survival(values, ended)[1][-1] > 0.0)


Flags = NDArray[np.bool_]


@dataclass(frozen=True, repr=False)
class Forecast(Readable):
    """Simulated runs of one rule, one entry per run.

    Attributes
    ----------
    rule
        Its name.
    samples, cost
        Measurements (actions, where these are measured) of each run, and what they cost.
    right
        Whether the answer at the end of each run was a best one (with an epsilon: worse by at most that).
    ended
        Whether the rule ended the run. Otherwise it was cut off, by the budget, by `most` or by the time, and says only
        that the rule takes longer.
    timed_out
        Whether it was cut off because the time was over.
    risk, loss
        The posterior probability of being wrong at the end of each run (NaN for one that was out of time), and how much
        worse than the best its answer was.
    times, right_at
        Numbers of measurements, (T,), and whether the answer of each run was right by then, (n, T): the answer of the
        moment, or of the end for runs that had ended. As far as every run is known.
    """

    rule: str
    samples: NDArray[np.int64]
    cost: Array
    right: Flags
    ended: Flags
    timed_out: Flags
    risk: Array
    loss: Array
    times: NDArray[np.int64] = field(repr=False)
    right_at: Flags = field(repr=False)

    @classmethod
    def of(cls, rule: str, runs: Sequence[Ended], times: NDArray[np.int64]) -> Forecast:
        """From all runs of a rule."""
        longest = int(np.searchsorted(times, max(run.samples for run in runs)))
        seen = min((run.samples for run in runs if run.timed_out), default=int(times[-1]))
        kept = times[: longest + 1][times[: longest + 1] <= seen]
        rows = [np.append(run.right_at, np.full(len(times), run.right))[: len(kept)] for run in runs]
        return cls(
            rule,
            np.array([run.samples for run in runs], dtype=np.int64),
            np.array([run.cost for run in runs]),
            np.array([run.right for run in runs]),
            np.array([run.by_rule for run in runs]),
            np.array([run.timed_out for run in runs]),
            np.array([run.risk for run in runs]),
            np.array([run.loss for run in runs]),
            kept,
            np.array(rows, dtype=bool).reshape(len(runs), len(kept)),
        )

    @property
    def runs(self) -> int:
        """How many."""
        return len(self.samples)

    @cached_property
    def mean_samples(self) -> Mean:
        """Measurements on average, with an interval; runs that were cut off count as long as they were seen."""
        return mean_of(self.samples.astype(np.float64), self.ended)

    @cached_property
    def mean_cost(self) -> Mean:
        """What they cost on average."""
        return mean_of(self.cost, self.ended)

    @property
    def share_right(self) -> Share:
        """Of runs whose answer was right at their end, be it by the rule or not."""
        return Share.of(int(self.right.sum()), self.runs)

    @property
    def share_ended(self) -> Share:
        """Of runs that the rule has ended."""
        return Share.of(int(self.ended.sum()), self.runs)

    def quantile(self, share: float) -> float:
        """The measurements by which this share of runs have ended; infinite where so many were not seen to end."""
        check_real("share", share, np.nextafter(0.0, 1.0), 1.0, "a number in (0, 1]")
        return quantile_of(self.samples.astype(np.float64), self.ended, share)

    @property
    def ends(self) -> tuple[Array, Array]:
        """Numbers of measurements, in order, and the share of runs that have ended by then."""
        at, beyond = survival(self.samples.astype(np.float64), self.ended)
        return at, 1.0 - beyond

    def right_within(self, budget: int) -> Share:
        """Of runs that are right with so many measurements at most, whether the rule has ended them by then or not."""
        check_count("budget", budget)
        at = int(np.searchsorted(self.times, budget, side="right")) - 1
        if at < 0 or (at == len(self.times) - 1 and budget > self.times[at] and not self._known_beyond):
            return Share.of(0, 0)
        return Share.of(int(self.right_at[:, at].sum()), self.runs)

    def budget_for(self, share: float) -> float:
        """The fewest measurements from which on this share of runs are right; infinite where none seen will do."""
        check_real("share", share, np.nextafter(0.0, 1.0), 1.0, "a number in (0, 1]")
        below = np.flatnonzero(self.right_at.mean(axis=0) < share)
        first = below[-1] + 1 if len(below) else 0
        return float(self.times[first]) if first < len(self.times) else float("inf")

    @property
    def _known_beyond(self) -> bool:
        return bool(self.ended.all())

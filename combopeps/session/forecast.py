"""Statistics of the simulated runs of one stopping rule, some of which were cut off before their end (censored).

    S(x) = prod_{x_i <= x} (1 - ended_i / at_risk_i)        (the Kaplan-Meier estimator)

A run that was cut off at x is known to end beyond x: it is in the risk set up to there. If all runs ended, S is the
share of runs beyond x, and the mean under S is the sample mean.

What a given budget achieves: error rate, delta, epsilon, and the smallest gaps that it can resolve.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, isfinite, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import ComboPepsError
from combopeps.oracles.base import Array
from combopeps.oracles.constrained_argmax import second_best
from combopeps.random import named_seed
from combopeps.session.plan_simulation import RunOutcome, RunSettings
from combopeps.session.simulate import simulate
from combopeps.session.simulated_environment import NormalNoise, StudentNoise
from combopeps.utils.formatting import Proportion, Readable, ShortRepr
from combopeps.utils.validation import check_count, check_real

_BOOTSTRAP_SAMPLES = 400

Flags = NDArray[np.bool_]


@dataclass(frozen=True, repr=False)
class CensoredMean(ShortRepr):
    """Mean over runs, with a 95 % prediction interval for the mean of as many new runs.

    Both means have a sampling error, so that the interval is wider by a factor of sqrt(2) than a confidence interval
    for the true mean, which lies in it with a probability of more than 99 %. If a few long runs dominate the mean, as
    when thetas are drawn from the prior, the coverage is lower: in a check with 24 plans, four in five.

    Attributes
    ----------
    value, low, high
        The mean, and the ends of the interval.
    at_least
        Whether the longest runs were cut off, so that `value` is only a lower bound of the mean.
    """

    value: float
    low: float
    high: float
    at_least: bool = False

    def __str__(self) -> str:
        if self.at_least:
            return f">= {number_text(self.value)}"
        return f"{number_text(self.value)} [{number_text(self.low)}, {number_text(self.high)}]"


def number_text(value: float) -> str:
    """Return a number with three significant digits, or as an integer from 100 on.

    Examples
    --------
    >>> number_text(12345.6), number_text(121.7), number_text(12.34)
    ('12,346', '122', '12.3')
    """
    if not np.isfinite(value):
        return "?"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def survival(values: Array, ended: Flags) -> tuple[Array, Array]:
    """Return the distinct values in ascending order, and the Kaplan-Meier estimate of the share beyond each of them.

    Parameters
    ----------
    values
        Where each run ended or was cut off, (n,).
    ended
        Whether it ended there, (n,).
    """
    at, which = np.unique(values, return_inverse=True)
    ends = np.bincount(which, weights=ended, minlength=len(at))
    leaving = np.bincount(which, minlength=len(at))
    at_risk = len(values) - np.concatenate([[0], np.cumsum(leaving)[:-1]])
    return at, np.cumprod(1.0 - ends / at_risk)


def censored_mean(values: Array, ended: Flags) -> CensoredMean:
    """Return the mean of censored values with its interval; arguments as for `survival`."""
    from scipy.special import stdtrit

    n, mean = len(values), _restricted_mean(values, ended)
    if n < 2:
        return CensoredMean(mean, 0.0, inf, not ended[values.argmax()])
    if ended.all():
        error = float(values.std(ddof=1)) / sqrt(n)
    else:
        rng = np.random.default_rng(0)  # a fixed seed: the same runs always have the same interval
        resamples = rng.integers(0, n, size=(_BOOTSTRAP_SAMPLES, n))
        error = float(np.std([_restricted_mean(values[rows], ended[rows]) for rows in resamples], ddof=1))
    half_width = float(stdtrit(n - 1, 0.975)) * sqrt(2.0) * error
    if survival(values, ended)[1][-1] > 0.0:  # the tail beyond the largest value is unknown
        return CensoredMean(mean, mean, inf, at_least=True)
    return CensoredMean(mean, max(0.0, mean - half_width), mean + half_width)


def _restricted_mean(values: Array, ended: Flags) -> float:
    """Return the area below S up to the largest value."""
    if ended.all():
        return float(values.mean())
    at, beyond = survival(values, ended)
    return float(at[0] + (np.diff(at) * beyond[:-1]).sum())


def censored_quantile(values: Array, ended: Flags, share: float) -> float:
    """Return the value by which this share of runs ended; infinite if too many were cut off before."""
    at, beyond = survival(values, ended)
    reached = np.flatnonzero(beyond <= 1.0 - share + 1e-12)
    return float(at[reached[0]]) if len(reached) else inf


@dataclass(frozen=True, repr=False)
class Forecast(Readable):
    """Simulated runs of one stopping rule, with one entry per run.

    Attributes
    ----------
    rule
        Name of the rule.
    samples, cost
        Number of measurements (actions, where these are measured) of each run, and their cost.
    right
        Whether the final answer of each run was a best one (with epsilon > 0: worse by at most epsilon).
    ended
        Whether the rule ended the run. Otherwise it was cut off, by the budget, by `most` or by the time, and is only
        known to take longer.
    timed_out
        Whether the run was cut off because the time was over.
    risk, loss
        Posterior probability of being wrong at the end of each run (NaN for a run that timed out), and the difference
        between the values of the best answer and of its answer.
    times, right_at
        Numbers of measurements, (T,), and whether the answer of each run was right then, (n, T): the answer of the
        moment, or the final one for runs that had ended. Only times up to which all runs are known are included.
    """

    rule: str
    samples: NDArray[np.int64]
    cost: Array
    right: Flags
    ended: Flags
    timed_out: Flags
    error_probability: Array
    loss: Array
    times: NDArray[np.int64] = field(repr=False)
    right_at: Flags = field(repr=False)

    @classmethod
    def of(cls, rule: str, runs: Sequence[RunOutcome], times: NDArray[np.int64]) -> Forecast:
        """Return the forecast of the outcomes of all runs of a rule."""
        longest = int(np.searchsorted(times, max(run.samples for run in runs)))
        known = min((run.samples for run in runs if run.timed_out), default=int(times[-1]))
        kept = times[: longest + 1][times[: longest + 1] <= known]
        # After the end of a run, its final answer counts.
        rows = [np.append(run.right_at, np.full(len(times), run.right))[: len(kept)] for run in runs]
        return cls(
            rule,
            np.array([run.samples for run in runs], dtype=np.int64),
            np.array([run.cost for run in runs]),
            np.array([run.right for run in runs]),
            np.array([run.by_rule for run in runs]),
            np.array([run.timed_out for run in runs]),
            np.array([run.error_probability for run in runs]),
            np.array([run.loss for run in runs]),
            kept,
            np.array(rows, dtype=bool).reshape(len(runs), len(kept)),
        )

    @property
    def runs(self) -> int:
        """Number of runs."""
        return len(self.samples)

    @cached_property
    def mean_samples(self) -> CensoredMean:
        """Mean number of measurements, with an interval; runs that were cut off are censored."""
        return censored_mean(self.samples.astype(np.float64), self.ended)

    @cached_property
    def mean_cost(self) -> CensoredMean:
        """Mean cost, with an interval; runs that were cut off are censored."""
        return censored_mean(self.cost, self.ended)

    @cached_property
    def mean_loss(self) -> CensoredMean:
        """Mean difference between the values of the best answer and of the final one, with an interval."""
        return censored_mean(self.loss, np.ones(self.runs, dtype=bool))

    @property
    def share_right(self) -> Proportion:
        """Share of runs whose final answer was right, whether the rule ended them or not."""
        return Proportion.of(int(self.right.sum()), self.runs)

    @property
    def share_ended(self) -> Proportion:
        """Share of runs that the rule ended."""
        return Proportion.of(int(self.ended.sum()), self.runs)

    def quantile(self, share: float) -> float:
        """Return the number of measurements by which this share of runs ended; infinite if too many were cut off.

        Parameters
        ----------
        share
            In (0, 1].
        """
        check_real("share", share, np.nextafter(0.0, 1.0), 1.0, "a number in (0, 1]")
        return censored_quantile(self.samples.astype(np.float64), self.ended, share)

    @property
    def ends(self) -> tuple[Array, Array]:
        """Numbers of measurements in ascending order, and the share of runs that ended by then."""
        at, beyond = survival(self.samples.astype(np.float64), self.ended)
        return at, 1.0 - beyond

    def right_within(self, budget: int) -> Proportion:
        """Return the share of runs that are right with at most so many measurements, whether they have ended or not.

        Parameters
        ----------
        budget
            Number of measurements.
        """
        check_count("budget", budget)
        at = int(np.searchsorted(self.times, budget, side="right")) - 1
        is_last = at == len(self.times) - 1
        if at < 0 or (is_last and budget > self.times[at] and not self.ended.all()):
            return Proportion.of(0, 0)  # some runs are not known so far
        return Proportion.of(int(self.right_at[:, at].sum()), self.runs)

    def budget_for(self, share: float) -> float:
        """Return the fewest measurements from which on this share of runs is right; infinite if none of `times` does.

        Parameters
        ----------
        share
            In (0, 1].
        """
        check_real("share", share, np.nextafter(0.0, 1.0), 1.0, "a number in (0, 1]")
        below = np.flatnonzero(self.right_at.mean(axis=0) < share)
        first = below[-1] + 1 if len(below) else 0
        return float(self.times[first]) if first < len(self.times) else float("inf")


_DELTA_QUANTILE = 0.9  # share of runs that are to end below the reported delta
# Search for the scale of the gaps.
_MAX_STEPS, _MAX_SECONDS = 12, 5.0
_BRACKET_RATIO = 1.1  # the search ends when the scale is known to 10 %
_MAX_SAMPLES, _MIN_RUNS = 200_000, 20  # measurements of all runs in a step (some seconds), runs in a step


@dataclass(frozen=True, repr=False)
class Power(ShortRepr):
    """What a budget achieves if all of it is used.

    Attributes
    ----------
    budget
        Number of measurements.
    right
        Share of right answers at the end, among the runs that did not time out.
    delta
        In nine of ten runs, the posterior probability of being wrong is at most this when the budget is used up: with
        such a delta, the posterior rule ends about as many runs within the budget.
    epsilon
        In a share 1 - `level` of runs, the answer is worse than the best by at most this; 0 if it is right.
    level
        The delta of the plan.
    scale
        For an exact guess at theta: if all its gaps are multiplied by this (with the same noise), a share 1 - `level`
        of runs is right. Above 1, the budget is too small for the guess itself. NaN where it is unknown.
    gap
        That multiple of the gap between the best and the second best answer of the guess.
    why_not
        Why the scale is unknown.
    """

    budget: int
    right: Proportion
    delta: float
    epsilon: float
    level: float
    scale: float = float("nan")
    gap: float = float("nan")
    why_not: str = ""


def power_of(forecast: Forecast, settings: RunSettings, level: float, seed: np.random.SeedSequence) -> Power:
    """Return what the budget achieves, from runs that use it up, and from simulations with scaled gaps.

    Parameters
    ----------
    forecast
        Runs of the rule "budget".
    settings
        Settings of the runs.
    level
        Allowed probability of a wrong answer.
    seed
        Seed of the simulations with scaled gaps.
    """
    used_up = ~forecast.timed_out
    right = Proportion.of(int(forecast.right[used_up].sum()), int(used_up.sum()))
    if not right.runs:
        return Power(settings.max_samples, right, 1.0, inf, level, why_not="no run used the budget up in the time")
    known: dict[str, Any] = {
        "budget": settings.max_samples,
        "right": right,
        "delta": float(np.quantile(forecast.error_probability[used_up], _DELTA_QUANTILE, method="higher")),
        "epsilon": float(np.quantile(forecast.loss[used_up], 1.0 - level, method="higher")),
        "level": level,
    }
    theta, oracle = settings.thetas.theta, settings.problem.oracle
    if theta is None:
        return Power(**known, why_not="there is no guess at theta whose gaps could be scaled")
    try:
        scale, why_not = _gap_scale(settings, right, level, named_seed(seed, "scale"))
    except ComboPepsError as cause:
        return Power(**known, why_not=str(cause))
    gap, best = float("nan"), oracle.argmax(theta)
    if isfinite(scale):
        second = second_best(oracle, theta, best)
        gap = float("nan") if second is None else scale * float((best - second) @ theta)
    return Power(**known, scale=scale, gap=gap, why_not=why_not)


def _gap_scale(
    settings: RunSettings, right: Proportion, level: float, seed: np.random.SeedSequence
) -> tuple[float, str]:
    """Return the scale of gaps at which a share 1 - level of runs is right, or NaN and why it is unknown.

    Found by bisection on a logarithmic scale. Gaps times c at the same noise are simulated as the same gaps at 1/c of
    the noise.
    """
    runs = min(right.runs, max(_MIN_RUNS, _MAX_SAMPLES // settings.max_samples))
    if not settings.thetas.is_exact:
        return float("nan"), "theta is drawn around the guess, with other gaps in every run"
    if not settings.problem.oracle.quick or runs * settings.max_samples > 2 * _MAX_SAMPLES:
        return float("nan"), "runs of this length, or with a slow argmax, are not simulated for it"
    if settings.epsilon > 0.0:
        return float("nan"), "it is not defined with an epsilon"
    if not isinstance(settings.noise, (NormalNoise, StudentNoise)) or settings.noise.std is not None:
        return float("nan"), "noise of this kind has a size of its own, which does not scale"
    problem, theta, begin = settings.problem, settings.thetas.theta, time.perf_counter()
    assert theta is not None

    def share_right(c: float) -> float:
        scaled, is_unknown = problem, problem.noise_std is None
        if not is_unknown:
            scaled = problem.copy_with(noise_std=settings.noise_std / c)
        options: dict[str, Any] = {}
        if is_unknown:
            options["true_noise_std"] = float(settings.noise_std[0] / problem.noise[0]) / c
        trace = simulate(
            scaled, theta, settings.policy, budget=settings.max_samples, replications=runs,
            checkpoints=[settings.max_samples], rng=np.random.default_rng(seed), noise=settings.noise,
            initial_design=settings.initial_design, **options,
        )  # fmt: skip
        return float(trace.correct[:, -1].mean())

    # The scale lies between `low`, where too few runs are right, and `high`, where enough are.
    high, low = (1.0, 0.0) if right.value >= 1.0 - level else (np.inf, 1.0)
    for _ in range(_MAX_STEPS):
        if low > 0.0 and high / low <= _BRACKET_RATIO:
            break
        if time.perf_counter() - begin > _MAX_SECONDS:
            bracket = f"between {low:.3g} and {high:.3g}" if isfinite(high) else f"above {low:.3g}"
            return float("nan"), f"the search took too long: so far it is {bracket}"
        c = 2.0 * low if not isfinite(high) else (high / 2.0 if low == 0.0 else sqrt(high * low))
        high, low = (c, low) if share_right(c) >= 1.0 - level else (high, c)
    if low == 0.0:
        return float("nan"), f"even gaps of {high:.1g} times the guess are large enough"
    if not isfinite(high):
        return float("nan"), f"even gaps of {low:g} times the guess are too small"
    return sqrt(high * low), ""

"""What a given budget achieves: error rate, delta, epsilon, and the smallest gaps that it can resolve."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import inf, isfinite, sqrt
from typing import Any

import numpy as np

from combopeps.errors import ComboPepsError
from combopeps.oracles.constrained_argmax import second_best
from combopeps.random import named_seed
from combopeps.session.environment import NormalNoise, StudentNoise
from combopeps.session.forecast import Forecast
from combopeps.session.planned_run import RunSettings
from combopeps.session.simulate import simulate
from combopeps.utils.formatting import Proportion

_DELTA_QUANTILE = 0.9  # share of runs that are to end below the reported delta
# Search for the scale of the gaps.
_MAX_STEPS, _MAX_SECONDS = 12, 5.0
_BRACKET_RATIO = 1.1  # the search ends when the scale is known to 10 %
_MAX_SAMPLES, _MIN_RUNS = 200_000, 20  # measurements of all runs in a step (some seconds), runs in a step


@dataclass(frozen=True)
class Power:
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

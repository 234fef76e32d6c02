"""`Reach`: backwards, from a budget to what can be found out with it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import inf, isfinite, sqrt
from typing import Any

import numpy as np

from combopeps.errors import ComboPepsError
from combopeps.oracles.constrained_argmax import second_best
from combopeps.random import named
from combopeps.session.environment import NormalNoise, StudentNoise
from combopeps.session.forecast import Forecast
from combopeps.session.planned_run import Setting
from combopeps.session.simulate import simulate
from combopeps.utils.formatting import Share

_SURE = 0.9  # of runs that are to reach the delta
_STEPS, _NARROW = 12, 1.1  # of the search for a scale, which is wanted to 10 %
_SECONDS = 5.0
_ROUNDS, _FEWEST = 200_000, 20  # of all runs in a step of that search, some seconds; runs


@dataclass(frozen=True)
class Reach:
    """What a budget reaches, if all of it is used.

    Attributes
    ----------
    budget
        Measurements.
    right
        The share of runs that are right at the end, of those that were not out of time before.
    delta
        In nine of ten runs, the posterior probability of being wrong is at most this when the budget is used up: with
        such a delta, the posterior rule ends about as many runs within the budget.
    epsilon
        In a share 1 - `level` of runs, the answer is worse than the best by at most this; 0: they are right.
    level
        The delta that was asked for.
    scale
        For an exact guess at theta: with this multiple of all its gaps (at the same noise), runs are right in a share
        1 - `level` of cases. Above 1, the budget is too small for the guess itself. NaN where it was not found.
    gap
        That multiple of the gap between the best and the second best answer of the guess.
    why_not
        Why there is no scale.
    """

    budget: int
    right: Share
    delta: float
    epsilon: float
    level: float
    scale: float = float("nan")
    gap: float = float("nan")
    why_not: str = ""


def reach_of(forecast: Forecast, setting: Setting, level: float, seed: np.random.SeedSequence) -> Reach:
    """From runs that have used the budget up, and simulations with other gaps."""
    used = ~forecast.timed_out  # of the others nobody knows what the rest of the budget would have told
    right = Share.of(int(forecast.right[used].sum()), int(used.sum()))
    if not right.runs:
        return Reach(setting.most, right, 1.0, inf, level, why_not="no run used the budget up in the time")
    found: dict[str, Any] = {
        "budget": setting.most,
        "right": right,
        "delta": float(np.quantile(forecast.risk[used], _SURE, method="higher")),
        "epsilon": float(np.quantile(forecast.loss[used], 1.0 - level, method="higher")),
        "level": level,
    }
    theta, oracle = setting.guess.theta, setting.problem.oracle
    if theta is None:
        return Reach(**found, why_not="there is no guess at theta whose gaps could be scaled")
    try:
        scale, why = _scale(setting, right, level, named(seed, "scale"))
    except ComboPepsError as cause:
        return Reach(**found, why_not=str(cause))
    gap, best = float("nan"), oracle.argmax(theta)
    if isfinite(scale):
        second = second_best(oracle, theta, best)
        gap = float("nan") if second is None else scale * float((best - second) @ theta)
    return Reach(**found, scale=scale, gap=gap, why_not=why)


def _scale(setting: Setting, share: Share, level: float, seed: np.random.SeedSequence) -> tuple[float, str]:
    """By bisection: gaps times c at the same noise are the same gaps at 1/c of the noise."""
    runs = min(share.runs, max(_FEWEST, _ROUNDS // setting.most))
    if not setting.guess.exact:
        return float("nan"), "theta is drawn around the guess, with other gaps in every run"
    if not setting.problem.oracle.quick or runs * setting.most > 2 * _ROUNDS:
        return float("nan"), "runs of this length, or with an argmax that takes time, are not made for it"
    if setting.epsilon > 0.0:
        return float("nan"), "with an epsilon, gaps are no measure"
    if not isinstance(setting.noise, (NormalNoise, StudentNoise)) or setting.noise.std is not None:
        return float("nan"), "noise of this kind has a size of its own, which does not scale"
    problem, theta, begin = setting.problem, setting.guess.theta, time.perf_counter()
    assert theta is not None

    def right(c: float) -> float:
        easier, unknown = problem, problem.noise_std is None
        if not unknown:
            easier = problem.restated(noise_std=setting.std / c)
        true: dict[str, Any] = {"true_noise_std": float(setting.std[0] / problem.noise[0]) / c} if unknown else {}
        trace = simulate(
            easier, theta, setting.policy, budget=setting.most, replications=runs, checkpoints=[setting.most],
            rng=np.random.default_rng(seed), noise=setting.noise, sweep=setting.sweep, **true,
        )  # fmt: skip
        return float(trace.correct[:, -1].mean())

    good, bad = (1.0, 0.0) if share.value >= 1.0 - level else (np.inf, 1.0)
    for _ in range(_STEPS):
        if bad > 0.0 and good / bad <= _NARROW:
            break
        if time.perf_counter() - begin > _SECONDS:
            known = f"between {bad:.3g} and {good:.3g}" if isfinite(good) else f"above {bad:.3g}"
            return float("nan"), f"the search took too long: so far it is {known}"
        c = 2.0 * bad if not isfinite(good) else (good / 2.0 if bad == 0.0 else sqrt(good * bad))
        good, bad = (c, bad) if right(c) >= 1.0 - level else (good, c)
    if bad == 0.0:
        return float("nan"), f"even gaps of {good:.1g} times the guess are large enough"
    if not isfinite(good):
        return float("nan"), f"even gaps of {bad:g} times the guess are too small"
    return sqrt(good * bad), ""

"""One run of a plan: `identify` itself, against a theta that only the plan knows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import SolverError
from combopeps.oracles.base import Array, as_good
from combopeps.planning.guess import Guess
from combopeps.policies.base import Policy
from combopeps.problem import Problem
from combopeps.session.environment import Nature, Noise, OneRun
from combopeps.session.queries import Query
from combopeps.session.session import Session, identify
from combopeps.stopping.combine import BudgetRule
from combopeps.streams import named

Counts = NDArray[np.int64]


class Ended(NamedTuple):
    """How a run ended.

    Attributes
    ----------
    samples, cost
        Its measurements (of actions, where these are measured), and what they cost.
    by_rule
        The rule has ended it. Otherwise it was cut off after so many measurements.
    timed_out
        It was cut off because the time was over.
    right
        Its answer is a best one, or worse by at most epsilon.
    risk
        The posterior probability of being wrong at the end; NaN for a run that was out of time.
    loss
        How much worse than the best its answer is.
    right_at
        The same at every number of measurements out of a common list, as far as the run got.
    """

    samples: int
    cost: float
    by_rule: bool
    timed_out: bool
    right: bool
    risk: float
    loss: float
    right_at: NDArray[np.bool_]


class _TimeIsOverError(Exception):
    """Not an error, but the way out of `identify`."""


@dataclass(frozen=True)
class Setting:
    """What all runs of a plan have in common; `times` are those at which answers are looked at."""

    problem: Problem
    guess: Guess
    policy: str
    delta: float
    epsilon: float
    sweep: int
    noise: Noise
    std: Array
    most: int
    times: Counts

    def truth(self, seed: np.random.SeedSequence) -> Array:
        """Theta of the run that has this seed."""
        return self.guess.draw(self.problem, named(seed, "truth"))


def planned_run(
    setting: Setting, rule: str, seed: np.random.SeedSequence, begin_until: float, end_at: float
) -> Ended | None:
    """One run by one rule; None if the time to begin is over. Times are those of `time.time`."""
    if time.time() > begin_until:
        return None
    problem, theta = setting.problem, setting.truth(seed)
    best = problem.oracle.argmax(theta)
    answers = _Answers(setting, theta, best, end_at)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            result = identify(
                problem,
                measurement(problem, theta, setting.noise, setting.std, seed),
                delta=setting.delta,
                epsilon=setting.epsilon,
                budget=setting.most,
                policy=setting.policy,
                stopping=BudgetRule(simulations=0) if rule == "budget" else rule,
                rng=np.random.default_rng(seed),
                sweep=setting.sweep,
                callback=answers.see,
            )
    except _TimeIsOverError as out:
        policy: Policy = out.session.policy  # type: ignore[attr-defined]
        z, cost, risk, by_rule, timed_out = policy.z_hat()[0], float(policy.spent[0]), float("nan"), False, True
    else:
        if result.stop_reason == "interrupted":  # which `identify` takes for an end, and a plan does not
            raise KeyboardInterrupt
        z, cost, risk, timed_out = result.z, result.cost, result.error_probability, False
        by_rule = bool(result.evidence.stop) or rule == "budget"
    loss = max(0.0, float((best - z) @ theta))
    return Ended(answers.made, cost, by_rule, timed_out, answers.right(z), risk, loss, np.array(answers.seen, bool))


class _Answers:
    """Is the answer of the moment right? And is there time left?"""

    def __init__(self, setting: Setting, theta: Array, best: Array, end_at: float) -> None:
        self.made, self.seen = 0, list[bool]()
        self._times, self._end_at = setting.times.tolist(), end_at
        self._theta, self._best, self._epsilon = theta, best, setting.epsilon

    def see(self, session: Session, query: Query, y: float) -> None:
        self.made += 1
        if len(self.seen) < len(self._times) and self.made == self._times[len(self.seen)]:
            self.seen.append(self._right_now(session.policy))
        if time.time() > self._end_at:
            raise _TimeIsOverError

    def _right_now(self, policy: Policy) -> bool:
        """By the policy's own answer; where the run remembers what an oracle was asked, beside that memory."""
        problem = policy.problem
        if problem.oracle.quick:
            return self.right(policy.z_hat()[0])
        try:
            return self.right(problem.oracle.argmax(problem.space.project(policy.belief.theta_hat[0])))
        except SolverError:  # the run itself need not have asked
            return self.seen[-1] if self.seen else False

    def right(self, z: Array) -> bool:
        loss = float((self._best - z) @ self._theta)
        return as_good(z, self._best, self._theta) or (self._epsilon > 0.0 and loss <= self._epsilon)


def measurement(
    problem: Problem, theta: Array, noise: str | Noise, std: Array, seed: np.random.SeedSequence
) -> Callable[[Any], Any]:
    """What `identify` calls: the mean of an arm and noise, or a result for every part of an action."""
    draws = OneRun(np.random.default_rng(named(seed, "nature")))
    return Nature(problem, problem.arms.dot(theta), draws, noise, std).measure_label

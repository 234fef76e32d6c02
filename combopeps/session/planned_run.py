"""One run of a plan: `identify` itself, against a theta that only the plan knows.

What theta is expected to be: a guess with its uncertainty, or the problem's prior.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import DomainError, ParameterError, PriorWarning, SolverError, ThetaError, TieError
from combopeps.oracles.base import Array, as_good
from combopeps.oracles.input_checks import as_thetas
from combopeps.policies.base import Policy
from combopeps.posterior.per_label import Stated, each, stated
from combopeps.posterior.scales import check_mean
from combopeps.problem import Problem
from combopeps.random import named
from combopeps.session.environment import Nature, Noise, OneRun
from combopeps.session.prior_predictive import draw_thetas
from combopeps.session.queries import Query
from combopeps.session.session import Session, identify
from combopeps.stopping.combine import BudgetRule
from combopeps.utils.formatting import brief
from combopeps.utils.label_index import LabelBook
from combopeps.utils.validation import as_reals

_FAR = 5.0  # standard deviations of the prior: a guess beyond does not believe it
_NUDGES, _NUDGE = 64, 1e-9  # by which answers that are tied show themselves; relative to the largest entry


@dataclass(frozen=True)
class Guess:
    """Where the thetas of runs come from.

    Attributes
    ----------
    theta
        The guess, (d,); None: the problem's prior.
    std
        Its uncertainty, a number or (d,); 0: the guess is the truth of every run.
    """

    theta: Array | None = None
    std: Stated = 0.0

    @property
    def exact(self) -> bool:
        """Do all runs have the same theta?"""
        return self.theta is not None and not np.any(self.std)

    def draw(self, problem: Problem, seed: np.random.SeedSequence) -> Array:
        """The theta of a run."""
        if self.theta is None:
            return draw_thetas(problem, 1, np.random.default_rng(seed)).reshape(-1)
        if self.exact:
            return self.theta
        return draw_thetas(problem, 1, np.random.default_rng(seed), self.theta, self.std).reshape(-1)

    def __str__(self) -> str:
        if self.theta is None:
            return "theta drawn from the prior in every run"
        if self.exact:
            return "theta as guessed"
        size = f"{self.std:g}" if isinstance(self.std, float) else f"{self.std.min():g} to {self.std.max():g}"
        return f"theta drawn around the guess in every run, with a standard deviation of {size}"


def read_guess(problem: Problem, theta: Any, theta_std: Any, epsilon: float) -> Guess:
    """What users write, checked against the problem."""
    oracle, book = problem.oracle, LabelBook(problem.oracle.components, problem.oracle)
    if theta is None:
        if theta_std is not None:
            raise ParameterError(
                "theta_std is the uncertainty of a guess: say theta=, too, or leave it out to draw from the prior"
            )
        if problem.prior_is_estimated:
            raise ParameterError(
                "a plan draws theta from the prior, which this problem leaves to be estimated from data: state "
                "prior_mean and prior_std, or give a guess theta= with its theta_std="
            )
        return Guess()
    if isinstance(theta, Mapping) or (hasattr(theta, "to_dict") and getattr(theta, "ndim", 1) == 1):
        theta = each(stated("theta", theta, oracle.components, check_mean, book), oracle.dim)
    theta = as_reals("theta", theta, ThetaError)
    if np.shape(theta) != (oracle.dim,):
        raise ThetaError(
            f"theta must hold one number for each of the {oracle.dim} components, in their order or by label, "
            f"got {brief(theta, 60)} of shape {np.shape(theta)}"
        )
    guess = np.array(as_thetas(theta, oracle.dim, oracle.domain))
    if not problem.space.contains(guess):
        low, high = problem.space.bounds(oracle.dim)
        at = int(np.flatnonzero((guess < low) | (guess > high))[0]) if ((guess < low) | (guess > high)).any() else 0
        raise DomainError(
            f"theta is {guess[at]:g} at {oracle.components[at]!r:.60}, outside {problem.space!r}: "
            "no such theta is possible in this problem"
        )
    std: Stated = 0.0
    if theta_std is not None:
        std = stated("theta_std", theta_std, oracle.components, _check_std, book)
    found = Guess(guess, std)
    if found.exact and epsilon == 0.0:
        _refuse_ties(problem, guess)
    _compare(problem, guess)
    return found


def _check_std(name: str, value: Any) -> None:
    check_mean(name, value)
    if not value >= 0.0:
        raise ParameterError(f"{name} must not be negative, got {value!r:.40}")


def _refuse_ties(problem: Problem, theta: Array) -> None:
    """Two best answers: nobody can find out which is better."""
    oracle, rng = problem.oracle, np.random.default_rng(0)
    best, size = oracle.argmax(theta), _NUDGE * (float(np.abs(theta).max()) or 1.0)
    count = _NUDGES if oracle.quick else 8
    nudged = problem.space.project(theta + size * rng.standard_normal((count, oracle.dim)))
    for z in np.unique(oracle.argmax(nudged), axis=0):
        if not np.array_equal(z, best) and as_good(z, best, theta):
            raise TieError(
                f"under this theta {brief(oracle.decode(best), 80)} and {brief(oracle.decode(z), 80)} are equally "
                "good: no number of measurements tells which is better; change theta, say theta_std=, or allow an "
                "epsilon"
            )


def _compare(problem: Problem, theta: Array) -> None:
    """Warn of a guess that the problem's own prior rules out: runs will believe the prior."""
    if problem.prior_mean is None or problem.prior_std is None:
        return
    away = np.abs(theta - problem.prior_mean) / problem.prior_std
    at = int(away.argmax())
    if away[at] > _FAR:
        mean, std = each(problem.prior_mean, len(theta))[at], each(problem.prior_std, len(theta))[at]
        warnings.warn(
            f"theta is {theta[at]:g} at {problem.oracle.components[at]!r:.60}, where the problem expects {mean:g} +- "
            f"{std:g}: runs believe that, and may be wrong; state another prior_mean or prior_std",
            PriorWarning,
            stacklevel=4,
        )


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

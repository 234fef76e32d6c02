"""Simulated runs of a plan: the distribution of theta, one run of `identify` against a drawn theta, and its outcome."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import DomainError, ParameterError, PriorWarning, SolverError, ThetaError, TieError
from combopeps.oracles.base import Array, has_equal_value
from combopeps.oracles.input_checks import as_thetas
from combopeps.policies.base import Policy
from combopeps.posterior.stated_values import NumberOrArray, as_array, check_mean, numbers_by_label
from combopeps.problem import Problem
from combopeps.random import named_seed
from combopeps.session.prior_predictive import draw_thetas
from combopeps.session.queries import Query
from combopeps.session.session import Session, identify
from combopeps.session.simulated_environment import Environment, Noise, SingleRunDraws
from combopeps.stopping.combine import BudgetRule
from combopeps.utils.formatting import short_repr
from combopeps.utils.label_index import LabelIndex
from combopeps.utils.validation import as_float_array

_MAX_PRIOR_DEVIATIONS = 5.0  # standard deviations of the prior beyond which a guess is taken to contradict it
# Ties are searched by perturbations of theta: their number (with a slow oracle), and their relative size.
_PERTURBATIONS, _PERTURBATIONS_SLOW, _PERTURBATION_SIZE = 64, 8, 1e-9

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class ThetaDistribution:
    """Distribution of theta over the runs of a plan: N(theta, std²), truncated to the parameter space.

    Attributes
    ----------
    theta
        Guess at theta, (d,); None for the prior of the problem.
    std
        Standard deviation of the guess, a number or (d,); with 0, all runs have the guess as their theta.
    """

    theta: Array | None = None
    std: NumberOrArray = 0.0

    @property
    def is_exact(self) -> bool:
        """Whether all runs have the same theta."""
        return self.theta is not None and not np.any(self.std)

    def draw(self, problem: Problem, seed: np.random.SeedSequence) -> Array:
        """Draw the theta of a run, (d,)."""
        if self.theta is None:
            return draw_thetas(problem, 1, np.random.default_rng(seed)).reshape(-1)
        if self.is_exact:
            return self.theta
        return draw_thetas(problem, 1, np.random.default_rng(seed), self.theta, self.std).reshape(-1)

    def __str__(self) -> str:
        if self.theta is None:
            return "theta drawn from the prior in every run"
        if self.is_exact:
            return "theta as guessed"
        size = f"{self.std:g}" if isinstance(self.std, float) else f"{self.std.min():g} to {self.std.max():g}"
        return f"theta drawn around the guess in every run, with a standard deviation of {size}"


def theta_distribution(problem: Problem, theta: Any, theta_std: Any, epsilon: float) -> ThetaDistribution:
    """Return the distribution of theta that the arguments of `plan` describe, checked against the problem."""
    oracle, book = problem.oracle, LabelIndex(problem.oracle.components, problem.oracle)
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
        return ThetaDistribution()
    if isinstance(theta, Mapping) or (hasattr(theta, "to_dict") and getattr(theta, "ndim", 1) == 1):
        theta = as_array(numbers_by_label("theta", theta, oracle.components, check_mean, book), oracle.dim)
    theta = as_float_array("theta", theta, ThetaError)
    if np.shape(theta) != (oracle.dim,):
        raise ThetaError(
            f"theta must hold one number for each of the {oracle.dim} components, in their order or by label, "
            f"got {short_repr(theta, 60)} of shape {np.shape(theta)}"
        )
    guess = np.array(as_thetas(theta, oracle.dim, oracle.domain))
    if not problem.space.contains(guess):
        low, high = problem.space.bounds(oracle.dim)
        is_outside = (guess < low) | (guess > high)
        at = int(np.flatnonzero(is_outside)[0]) if is_outside.any() else 0
        raise DomainError(
            f"theta is {guess[at]:g} at {oracle.components[at]!r:.60}, outside {problem.space!r}: "
            "no such theta is possible in this problem"
        )
    std: NumberOrArray = 0.0
    if theta_std is not None:
        std = numbers_by_label("theta_std", theta_std, oracle.components, _check_std, book)
    distribution = ThetaDistribution(guess, std)
    if distribution.is_exact and epsilon == 0.0:
        _check_unique_answer(problem, guess)
    _warn_if_prior_contradicts(problem, guess)
    return distribution


def _check_std(name: str, value: Any) -> None:
    check_mean(name, value)
    if not value >= 0.0:
        raise ParameterError(f"{name} must not be negative, got {value!r:.40}")


def _check_unique_answer(problem: Problem, theta: Array) -> None:
    """Raise if another answer has the same value as the best one: then no run would end."""
    oracle, rng = problem.oracle, np.random.default_rng(0)
    best, size = oracle.argmax(theta), _PERTURBATION_SIZE * (float(np.abs(theta).max()) or 1.0)
    count = _PERTURBATIONS if oracle.quick else _PERTURBATIONS_SLOW
    perturbed = problem.space.project(theta + size * rng.standard_normal((count, oracle.dim)))
    for z in np.unique(oracle.argmax(perturbed), axis=0):
        if not np.array_equal(z, best) and has_equal_value(z, best, theta):
            raise TieError(
                f"under this theta {short_repr(oracle.decode(best), 80)} and {short_repr(oracle.decode(z), 80)} "
                f"are equally "
                "good: no number of measurements tells which is better; change theta, say theta_std=, or allow an "
                "epsilon"
            )


def _warn_if_prior_contradicts(problem: Problem, theta: Array) -> None:
    """Warn if the guess is improbable under the prior of the problem, which the policies and rules of runs rely on."""
    if problem.prior_mean is None or problem.prior_std is None:
        return
    deviations = np.abs(theta - problem.prior_mean) / problem.prior_std
    at = int(deviations.argmax())
    if deviations[at] > _MAX_PRIOR_DEVIATIONS:
        mean, std = as_array(problem.prior_mean, len(theta))[at], as_array(problem.prior_std, len(theta))[at]
        warnings.warn(
            f"theta is {theta[at]:g} at {problem.oracle.components[at]!r:.60}, where the problem expects {mean:g} +- "
            f"{std:g}: runs rely on that prior, and may be wrong; state another prior_mean or prior_std",
            PriorWarning,
            stacklevel=4,
        )


@dataclass(frozen=True)
class RunSettings:
    """What all runs of a plan have in common.

    Attributes
    ----------
    problem, policy, delta, epsilon, initial_design
        As for `identify`.
    thetas
        Distribution of theta.
    noise, noise_std
        Kind of the simulated noise, and its standard deviation for every arm, (K,).
    max_samples
        Number of measurements after which a run is cut off.
    times
        Numbers of measurements at which the answer of the moment is compared with the best one.
    """

    problem: Problem
    thetas: ThetaDistribution
    policy: str
    delta: float
    epsilon: float
    initial_design: int
    noise: Noise
    noise_std: Array
    max_samples: int
    times: Counts

    def theta_of(self, seed: np.random.SeedSequence) -> Array:
        """Draw the theta of the run with this seed, (d,)."""
        return self.thetas.draw(self.problem, named_seed(seed, "truth"))


class RunOutcome(NamedTuple):
    """Outcome of a run.

    Attributes
    ----------
    samples, cost
        Number of measurements (of actions, where these are measured), and their cost.
    by_rule
        Whether the stopping rule ended the run; otherwise it was cut off.
    timed_out
        Whether the run was cut off because the time was over.
    right
        Whether the answer is a best one, or worse by at most epsilon.
    risk
        Posterior probability of being wrong at the end; NaN for a run that timed out.
    loss
        Difference between the values of the best answer and of the answer.
    right_at
        Whether the answer of the moment was right at each of `RunSettings.times`, as far as the run went.
    """

    samples: int
    cost: float
    by_rule: bool
    timed_out: bool
    right: bool
    error_probability: float
    loss: float
    right_at: NDArray[np.bool_]


class _TimeIsOverError(Exception):
    """Raised by the callback of a run to leave `identify`."""


def planned_run(
    settings: RunSettings, rule: str, seed: np.random.SeedSequence, begin_until: float, end_at: float
) -> RunOutcome | None:
    """Simulate one run with one stopping rule.

    Parameters
    ----------
    settings
        What all runs have in common.
    rule
        Name of the stopping rule; "budget" uses up `max_samples`.
    seed
        Seed of theta, noise and policy.
    begin_until, end_at
        Times as of `time.time`: after the first one no run begins (None is returned), after the second one it is cut
        off.
    """
    if time.time() > begin_until:
        return None
    problem, theta = settings.problem, settings.theta_of(seed)
    best = problem.oracle.argmax(theta)
    recorder = _AnswerRecorder(settings, theta, best, end_at)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            result = identify(
                problem,
                simulated_measurement(problem, theta, settings.noise, settings.noise_std, seed),
                delta=settings.delta,
                epsilon=settings.epsilon,
                budget=settings.max_samples,
                policy=settings.policy,
                stopping=BudgetRule(simulations=0) if rule == "budget" else rule,
                rng=np.random.default_rng(seed),
                initial_design=settings.initial_design,
                callback=recorder.record,
            )
    except _TimeIsOverError as out:
        policy: Policy = out.session.policy  # type: ignore[attr-defined]
        z, cost, error_probability, by_rule, timed_out = (
            policy.z_hat()[0],
            float(policy.spent[0]),
            float("nan"),
            False,
            True,
        )
    else:
        if result.stop_reason == "interrupted":  # Ctrl-C ends a call of `identify` in order; it has to end the plan
            raise KeyboardInterrupt
        z, cost, error_probability, timed_out = result.z, result.cost, result.error_probability, False
        by_rule = bool(result.evidence.stop) or rule == "budget"
    loss = max(0.0, float((best - z) @ theta))
    right_at = np.array(recorder.right_at, bool)
    return RunOutcome(
        recorder.samples, cost, by_rule, timed_out, recorder.is_right(z), error_probability, loss, right_at
    )


class _AnswerRecorder:
    """Callback of a run: compares the answer of the moment with the best one, and ends the run when time is over."""

    def __init__(self, settings: RunSettings, theta: Array, best: Array, end_at: float) -> None:
        self.samples, self.right_at = 0, list[bool]()
        self._times, self._end_at = settings.times.tolist(), end_at
        self._theta, self._best, self._epsilon = theta, best, settings.epsilon

    def record(self, session: Session, query: Query, y: float) -> None:
        """Count a measurement; at the listed numbers of measurements, record whether the answer is right."""
        self.samples += 1
        if len(self.right_at) < len(self._times) and self.samples == self._times[len(self.right_at)]:
            self.right_at.append(self._is_right_now(session.policy))
        if time.time() > self._end_at:
            raise _TimeIsOverError

    def _is_right_now(self, policy: Policy) -> bool:
        """Return whether the answer of the moment is right.

        With a slow oracle the run caches answers; the oracle is called directly, so that the cache stays as it would
        be without the recorder.
        """
        problem = policy.problem
        if problem.oracle.quick:
            return self.is_right(policy.z_hat()[0])
        try:
            return self.is_right(problem.oracle.argmax(problem.space.project(policy.posterior.theta_hat[0])))
        except SolverError:  # the run itself may never call the oracle at this theta: do not let it fail
            return self.right_at[-1] if self.right_at else False

    def is_right(self, z: Array) -> bool:
        """Return whether an answer is a best one, or worse by at most epsilon."""
        loss = float((self._best - z) @ self._theta)
        return has_equal_value(z, self._best, self._theta) or (self._epsilon > 0.0 and loss <= self._epsilon)


def simulated_measurement(
    problem: Problem, theta: Array, noise: str | Noise, std: Array, seed: np.random.SeedSequence
) -> Callable[[Any], Any]:
    """Return a function that `identify` can call to measure a label: x @ theta plus noise."""
    draws = SingleRunDraws(np.random.default_rng(named_seed(seed, "nature")))
    return Environment(problem, problem.arms.dot(theta), draws, noise, std).measure_label

"""What theta is expected to be: a guess with its uncertainty, or the problem's prior."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from combopeps.belief.scales import check_mean
from combopeps.belief.stated import Stated, each, stated
from combopeps.errors import DomainError, ParameterError, PriorWarning, ThetaError, TieError
from combopeps.forms import brief
from combopeps.oracles._validate import as_thetas
from combopeps.oracles.base import Array, as_good
from combopeps.problem import Problem
from combopeps.session.prior_predictive import draw_thetas
from combopeps.tables.book import LabelBook
from combopeps.validation import as_reals

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

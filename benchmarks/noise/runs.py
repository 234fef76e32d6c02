"""Whole runs of `identify` whose measurements are not what the problem says."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from benchmarks._work import Workers
from combopeps import Problem, identify
from combopeps.oracles.base import has_equal_value
from combopeps.session import Noise
from combopeps.session.simulated_environment import Environment, SingleRunDraws

Means = Callable[[Problem, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Ended:
    """How one run ended: measurements, whether it claimed a wrong answer, and the warnings on the way."""

    samples: int
    stopped: bool
    wrong: bool
    warned: frozenset[str]


@dataclass(frozen=True)
class Averaged(Noise):
    """The mean of several measurements of one kind, told as one."""

    kind: Noise
    times: int

    def draw(self, mean: np.ndarray, std: np.ndarray, draws: SingleRunDraws) -> np.ndarray:
        return sum(self.kind.draw(mean, std, draws) for _ in range(self.times)) / self.times


def linear(problem: Problem, theta: np.ndarray) -> np.ndarray:
    """x @ theta, as the library believes."""
    return problem.arms.dot(theta[None])[0]


def one(
    problem: Problem, theta: np.ndarray, noise: str | Noise, rule: str, budget: int, seed: int, means: Means = linear
) -> Ended:
    """One run at delta = 0.05; policy and noise both hang on the seed."""
    nature = Environment(problem, means(problem, theta), SingleRunDraws(np.random.default_rng([seed, 1])), noise)
    arm_of = {label: np.array([arm]) for arm, label in enumerate(problem.arms.labels)}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = identify(
            problem, lambda label: float(nature.measure(arm_of[label])[0]), stopping=rule, budget=budget, rng=seed
        )
    wrong = bool(result.evidence.stop) and not has_equal_value(result.z, problem.oracle.argmax(theta), theta)
    return Ended(result.samples, bool(result.evidence.stop), wrong, frozenset(w.category.__name__ for w in seen))


def many(work: Iterable[tuple], workers: Workers, title: str) -> list[Ended]:
    """`one` for each of these arguments, in any process."""
    return workers.spread(one, work, title)


def share(flags: Iterable[bool]) -> float:
    """Of the runs, in percent."""
    return 100.0 * float(np.mean(list(flags)))

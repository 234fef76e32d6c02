"""Whole runs of `identify` against a known theta."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks._counting import Calls
from benchmarks._work import Workers
from combopeps import Problem, StoppingRule, identify
from combopeps.oracles.base import has_equal_value

POLICY = "top-two"  # explores, and for the posterior and the heuristic rule chooses everything


@dataclass(frozen=True)
class Run:
    """How one run ended."""

    samples: int
    right: bool
    oracle_calls: int
    seconds: float


Make = Callable[[], tuple[Problem, np.ndarray]]


def normal(mean: float, noise: float, nature: np.random.Generator) -> float:
    """One measurement."""
    return float(mean + noise * nature.normal())


def one(
    make: Make,
    rule: str | Callable[[], StoppingRule],
    delta: float,
    seed: int,
    budget: int | None = None,
    draw: Callable[[float, float, np.random.Generator], float] = normal,
) -> Run:
    """One run; policy, noise and rule all hang on the seed. With an epsilon, what is so near to the best is right."""
    problem, theta = make()
    best = problem.oracle.argmax(theta)
    arms = problem.arms
    means = dict(zip(arms.labels, arms.row(np.arange(len(arms))) @ theta, strict=True))
    nature = np.random.default_rng([seed, 1])
    calls = Calls(problem.oracle)
    stopping = rule if isinstance(rule, str) else rule()
    start = time.perf_counter()
    result = identify(
        problem,
        lambda label: draw(means[label], float(problem.noise_std), nature),
        delta=delta,
        stopping=stopping,
        budget=budget,
        policy=POLICY,
        rng=seed,
    )
    seconds = time.perf_counter() - start
    stopped = result.stop_reason not in ("budget", "indistinguishable")
    epsilon = 0.0 if isinstance(stopping, str) else stopping.epsilon
    right = has_equal_value(result.z, best, theta) or float((best - result.z) @ theta) <= epsilon
    right = right or not stopped  # a run without a claim makes no false one
    return Run(result.samples, right, calls.rows, seconds)


def many(
    make: Make,
    rule: str | Callable[[], StoppingRule],
    delta: float,
    runs: int,
    name: str,
    workers: Workers,
    budget: int | None = None,
    draw: Callable[[float, float, np.random.Generator], float] = normal,
) -> list[Run]:
    """Seeds 0, 1, ..., in any process."""
    return workers.spread(one, ((make, rule, delta, seed, budget, draw) for seed in range(runs)), name)

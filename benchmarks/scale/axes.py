"""What grows, from where to where, and how a point of it is made: one process each."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import lgamma, log

import numpy as np

from benchmarks._alone import megabytes
from benchmarks.huge.families import NOISE, planted
from benchmarks.huge.families import problem as member
from benchmarks.policies import round_times
from combopeps import ExplicitOracle, Problem, TopKOracle, TopTwo, simulate

Made = tuple[Problem, np.ndarray]
DIM = 20  # of problems whose arms or answers grow
LARGE = 300_000  # from here on, fewer rounds


@dataclass(frozen=True)
class Axis:
    """One thing that grows; `sizes` are for the fit, `beyond` is measured once, to hold the fit against it."""

    name: str
    what: str
    sizes: tuple[int, ...]
    make: Callable[[int], Made]
    beyond: tuple[int, ...] = ()


def _rows(k: int, d: int) -> np.ndarray:
    rows = np.random.default_rng([k, d]).normal(size=(k, d))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def _with_arms(k: int, d: int) -> Made:
    oracle = TopKOracle(d, d // 4)
    return Problem(oracle, arms=_rows(k, d), noise_std=NOISE, prior_mean=0.0, prior_std=1.0), planted(oracle)


def _listed(n: int) -> Made:
    answers = _rows(n, DIM)
    return Problem(ExplicitOracle(answers), noise_std=NOISE, prior_mean=0.0, prior_std=1.0), answers[0]


def _chosen(k: int) -> Made:
    return member("top-k", (1000, k))


# The largest decade holds five sizes or so, for the fits. As many nodes and workers have about as many components.
SIZES = (1000, 3160, 10_000, 17_800, 31_600, 56_200, 100_000)
NODES, WORKERS = (23, 40, 71, 95, 126, 168, 224), (32, 56, 100, 133, 178, 237, 316)
HALVES, RUNS = (64, 96, 128, 181, 256, 512, 1024), (125, 250, 500, 1000, 2000, 4000)
AXES = {
    axis.name: axis
    for axis in (
        Axis("top-k", "components, 100 of d", SIZES, lambda d: member("top-k", (d, 100)), (1_000_000,)),
        Axis("grid", "components, routes across a grid", NODES, lambda n: member("grid", (n,)), (708,)),
        Axis("matching", "components, n workers, n tasks", WORKERS, lambda n: member("matching", (n,))),
        Axis("arms", f"general arms, d = {DIM}", SIZES, lambda k: _with_arms(k, DIM)),
        Axis("dense", "components, 2 d general arms", HALVES, lambda d: _with_arms(2 * d, d)),
        Axis("listed", f"answers in a list, d = {DIM}", SIZES, _listed),
        Axis("argmax", "answers behind an argmax, k of 1000", (1, 2, 5, 10, 50, 200), _chosen),
        Axis("runs", "runs of `simulate`, 3 of 12", RUNS, lambda n: member("top-k", (12, 3))),
    )
}


def digits(k: int, d: int) -> float:
    """log10 C(d, k)."""
    return (lgamma(d + 1) - lgamma(k + 1) - lgamma(d - k + 1)) / log(10)


def measure(axis: str, size: int, rounds: int) -> dict[str, float]:
    """Seconds to make it, of one round, and memory; the clock is the processor's."""
    made = AXES[axis]
    if axis == "runs":
        return _runs(size, rounds)
    problem, theta = made.make(made.sizes[0])
    round_times(TopTwo(problem, rng=0), theta, 20, 0)  # compile, or load
    start = time.process_time()
    problem, theta = made.make(size)
    policy = TopTwo(problem, rng=1)
    ready = time.process_time() - start
    rounds = rounds if problem.oracle.dim < LARGE else max(10, rounds // 10)
    seconds = round_times(policy, theta, rounds + 5, 2, time.process_time)[5:]
    x = problem.oracle.dim if axis in ("top-k", "grid", "matching", "dense") else size
    return {
        "x": x, "d": problem.oracle.dim, "arms": len(problem.arms), "make": ready, "round": float(np.mean(seconds)),
        "middle": float(np.median(seconds)), "rounds": rounds, "megabytes": megabytes(),
    }  # fmt: skip


def _runs(size: int, rounds: int) -> dict[str, float]:
    problem, theta = AXES["runs"].make(size)
    simulate(problem, theta, "top-two", budget=10, replications=4)
    start = time.process_time()
    simulate(problem, theta, "top-two", budget=rounds, replications=size, n_jobs=1)
    seconds = (time.process_time() - start) / rounds
    d = problem.oracle.dim
    counts = {"x": size, "d": d, "arms": d, "rounds": rounds}
    return {**counts, "make": 0.0, "round": seconds, "middle": seconds, "megabytes": megabytes()}


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))

"""Results that are no linear function of the rows: how often runs are wrong, and how often a `LinearityWarning` says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks._store import write_csv
from benchmarks._table import markdown
from benchmarks._work import Workers
from benchmarks.noise.runs import Means, linear, many, share
from combopeps import ExplicitOracle, Problem

HEADER = ("results", "rule", "runs", "samples", "wrong", "warned", "wrong_and_warned")
ARMS, DIM, ANSWERS, NOISE = 20, 6, 8, 0.3
GAP = 0.5  # at least, to the second best
BUDGET = 2_000


def curved(problem: Problem, theta: np.ndarray) -> np.ndarray:
    value = linear(problem, theta)
    return value + 0.5 * value**2


def one_row(problem: Problem, theta: np.ndarray) -> np.ndarray:
    return linear(problem, theta) + np.eye(len(problem.arms))[0]


RESULTS: dict[str, Means] = {
    "v = x @ theta": linear,
    "v + v^2 / 2": curved,
    "v, and v + 1 for one arm of 20": one_row,
}


def case(seed: int) -> tuple[Problem, np.ndarray]:
    """Random rows on the sphere, random answers, random theta; without close races, which are another matter."""
    rng = np.random.default_rng([seed, 0])
    rows = rng.normal(size=(ARMS, DIM))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    answers = rng.normal(size=(ANSWERS, DIM))
    while True:
        theta = rng.normal(size=DIM)
        second, best = np.sort(answers @ theta)[-2:]
        if best - second >= GAP:
            return Problem(ExplicitOracle(answers), arms=rows, noise_std=NOISE, prior_mean=0.0, prior_std=1.0), theta


def table(runs: int, workers: Workers, out: Path | None) -> str:
    rows = []
    for name, means in RESULTS.items():
        for rule in ("posterior", "certified"):
            work = ((*case(seed), "normal", rule, BUDGET, seed, means) for seed in range(runs))
            done = many(work, workers, f"{name}, {rule}")
            mean = float(np.mean([run.samples for run in done]))
            wrong, warned = share(run.wrong for run in done), share("LinearityWarning" in run.warned for run in done)
            both = share(run.wrong and "LinearityWarning" in run.warned for run in done)
            rows.append((name, rule, len(done), mean, wrong, warned, both))
    if out is not None:
        write_csv(out / "rows.csv", HEADER, rows)
    shown = [(f"`{r[0]}`", *r[1:3], f"{r[3]:,.0f}", *(f"{x:.1f} %" for x in r[4:])) for r in rows]
    return markdown(("results", "rule", "runs", "mean samples", "wrong", "warned", "wrong and warned"), shown)

"""Clicks, counts, relative noise and outliers: what `noise_std` to state, and what a wrong one does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

import numpy as np

from benchmarks._store import write_csv
from benchmarks._table import markdown
from benchmarks._work import Workers
from benchmarks.noise.runs import Averaged, Ended, many, share
from combopeps import Problem, TopKOracle, load_instance
from combopeps.session import Noise
from combopeps.session.simulated_environment import BernoulliNoise, StudentNoise

HEADER = ("data", "noise_std", "which is", "rule", "runs", "samples", "not_stopped", "wrong", "warned")
BUDGET = 50_000
RATES = np.array([0.08, 0.06, 0.02, 0.02, 0.015, 0.015, 0.01, 0.01])  # clicks per visitor, the best two wanted
CALLS = np.array([9.0, 8.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0])  # per hour


@dataclass(frozen=True)
class Case:
    """One row: measurements of some kind, and the noise that was stated."""

    data: str
    noise: str | Noise
    make: Callable[[float], tuple[Problem, np.ndarray]]
    stated: float
    why: str
    rule: str = "posterior"
    cost: int = 1  # a case that takes long gets so many times fewer runs


def ads(stated: float) -> tuple[Problem, np.ndarray]:
    return Problem(TopKOracle(len(RATES), k=2), noise_std=stated, prior_std=0.1, prior_mean=0.0), RATES


def calls(stated: float) -> tuple[Problem, np.ndarray]:
    return Problem(TopKOracle(len(CALLS), k=2), noise_std=stated, prior_std=10.0, prior_mean=0.0), CALLS


def town(stated: float) -> tuple[Problem, np.ndarray]:
    town = load_instance("town")
    return Problem(town.oracle, noise_std=stated, prior_std=town.problem.prior_std, prior_mean=0.0), np.asarray(
        town.theta
    )


def cases() -> Iterator[Case]:
    def spread(rate: float, visitors: int = 1) -> float:
        return round(sqrt(rate * (1 - rate) / visitors), 4)

    for stated, why, cost in (
        (0.5, "the bound for any 0 or 1", 8),
        (spread(0.1), "sqrt(p (1 - p)), p = 10 %, the largest plausible rate", 2),
        (spread(0.03), "the same at p = 3 %, the average rate", 1),
        (spread(0.01), "the same at p = 1 %, the smallest rate", 1),
    ):
        yield Case("clicks, one visitor", "bernoulli", ads, stated, why, cost=cost)
    hundred = Averaged(BernoulliNoise(), 100)
    for rule in ("posterior", "certified"):
        yield Case("clicks, share of 100 visitors", hundred, ads, spread(0.1, 100), "a tenth of that at p = 10 %", rule)
    yield Case("clicks, share of 100 visitors", hundred, ads, spread(0.01, 100), "a tenth of that at p = 1 %")
    for rate, why in ((12.0, "largest plausible"), (5.0, "average"), (1.0, "smallest")):
        yield Case("counts, 1 to 9", "poisson", calls, round(sqrt(rate), 3), f"root of the {why} rate, {rate:g}")
    for size, why in ((8.5, "longest"), (3.5, "average"), (1.5, "shortest")):
        yield Case("30 % of the mean", "relative:0.3", town, round(0.3 * size, 3), f"30 % of the {why} street")
    yield Case("normal", "normal", town, 1.0, "its standard deviation")
    yield Case("outliers (Student, 5)", "student", town, 1.0, "its standard deviation")
    yield Case(
        "outliers, means of 5", Averaged(StudentNoise(1.0), 5), town, round(sqrt(1 / 5), 4), "its standard deviation"
    )


def table(runs: int, workers: Workers, out: Path | None) -> str:
    rows = []
    for case in cases():
        problem, theta = case.make(case.stated)
        count = max(1, runs // case.cost)
        work = ((problem, theta, case.noise, case.rule, BUDGET, seed) for seed in range(count))
        rows.append(row(case, many(work, workers, f"{case.data}, {case.stated:g}")))
    if out is not None:
        write_csv(out / "kinds.csv", HEADER, rows)
    return markdown(
        ("measurements", "stated `noise_std`", "which is", "rule", "runs", "mean samples", "wrong", "warned"),
        [(*r[:1], f"{r[1]:g}", *r[2:5], samples(*r[4:7]), f"{r[7]:.1f} %", f"{r[8]:.1f} %") for r in rows],
    )


def row(case: Case, done: list[Ended]) -> tuple:
    mean = float(np.mean([run.samples for run in done]))
    unfinished = sum(not run.stopped for run in done)
    wrong, warned = share(run.wrong for run in done), share("NoiseWarning" in run.warned for run in done)
    return case.data, case.stated, case.why, case.rule, len(done), mean, unfinished, wrong, warned


def samples(runs: int, mean: float, unfinished: int) -> str:
    return f"{mean:,.0f}" if not unfinished else f"{mean:,.0f} ({unfinished} of {runs} not stopped)"

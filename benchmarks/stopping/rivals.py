"""The tables of others: their instances, their threshold of error, their figures, and ours.

Theirs are as published, or as their own code gave them on this kind of machine; each comes with a guarantee, or the row
says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import cos, pi, sin

import numpy as np
from scipy.stats import binomtest

from benchmarks._bundled import cyclic_matching, two_nets
from benchmarks._table import markdown
from benchmarks._work import Workers
from benchmarks.stopping.runs import Make, Run, many, normal
from combopeps import CertifiedRule, ExplicitOracle, PosteriorRule, Problem, StoppingRule, VerifiedRule

DELTA = 0.05
RULES: dict[str, Callable[..., StoppingRule]] = {
    "posterior": PosteriorRule, "certified": CertifiedRule, "verified": VerifiedRule,
}  # fmt: skip


def top_two_of_four(angle: float) -> tuple[Problem, np.ndarray]:
    """The best two of four arms with rows e1, e1 + e2, cos w e1 + sin w e3, e3; theta = e1, noise 0.5."""
    rows = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [cos(angle), 0.0, sin(angle)], [0.0, 0.0, 1.0]])
    pairs = np.array([rows[i] + rows[j] for i, j in combinations(range(4), 2)])
    return Problem(ExplicitOracle(pairs), arms=rows, noise_std=0.5, prior_mean=0.0, prior_std=1.0), np.array(
        [1.0, 0.0, 0.0]
    )


def six_people(seed: int) -> tuple[Problem, np.ndarray]:
    """Perfect matchings of K6, means drawn from 0.1, 0.5, 0.9 until one matching is best; measured as 0 or 1."""
    edges = list(combinations(range(6), 2))
    matchings = [three for three in combinations(range(15), 3) if len({n for e in three for n in edges[e]}) == 6]
    rows = np.array([[float(e in three) for e in range(15)] for three in matchings])
    rng = np.random.default_rng(seed)
    while True:
        theta = rng.choice([0.1, 0.5, 0.9], 15)
        values = np.sort(rows @ theta)
        if values[-1] > values[-2] + 1e-9:
            return Problem(ExplicitOracle(rows), noise_std=0.5, prior_mean=0.0, prior_std=1.0), theta


def published(make: Callable[..., object], *options: float) -> tuple[Problem, np.ndarray]:
    """An instance of the Peace paper, at the size of its experiments."""
    made = make(*options)
    return made.problem, np.asarray(made.theta)  # type: ignore[attr-defined]


def click(mean: float, noise: float, nature: np.random.Generator) -> float:
    """0 or 1."""
    return float(nature.random() < mean)


@dataclass(frozen=True)
class Table:
    """A published instance (a new one for every seed, where it is drawn), and what theirs took."""

    makes: tuple[Make, ...]
    theirs: str
    share: float  # of the runs
    epsilon: float = 0.0
    draw: Callable[..., float] = normal


_K6 = tuple(partial(six_people, seed) for seed in range(6))
TABLES = {
    "best 2 of 4, angle pi/3": Table(
        (partial(top_two_of_four, pi / 3),), "LinGapE 198, LinGIFA 213, LUCB 737, UGapE 762", 1.0
    ),
    "best 2 of 4, angle pi/6": Table(
        (partial(top_two_of_four, pi / 6),), "LinGapE 2,942, LinGIFA 3,020, LUCB 10,444, UGapE 14,003", 1.0
    ),
    "matching K6, epsilon 0.5": Table(_K6, "CSALE 32,385", 0.3, 0.5, click),
    "matching K6, epsilon 0.25": Table(_K6, "CSALE 95,968", 0.3, 0.25, click),
    "matching K6, epsilon 0.125": Table(_K6, "CSALE 75,920", 0.3, 0.125, click),
    "two nets of 26 layers (d = 208)": Table(
        (partial(published, two_nets, 26, 0.2),), "Peace 2,100 after 55 minutes, not done", 0.1
    ),
    "matching K14,14 (d = 196)": Table(
        (partial(published, cyclic_matching, 14, 0.15),), "Peace 41,500 after 55 minutes, not done", 0.1
    ),
}


def table(runs: int, workers: Workers) -> str:
    """One row per instance and rule."""
    rows = []
    for name, theirs in TABLES.items():
        for rule, make_rule in RULES.items():
            each = max(1, round(runs * theirs.share / len(theirs.makes)))
            stop = partial(make_rule, DELTA, epsilon=theirs.epsilon)
            done: list[Run] = []
            for make in theirs.makes:
                done += many(make, stop, DELTA, each, f"{name}, {rule}", workers, draw=theirs.draw)
            rows.append([name, rule, *_figures(done), theirs.theirs])
    header = ["instance", "rule", "runs", "samples ± 2 s.e.", "error rate [95 %]", "oracle calls", "seconds", "theirs"]
    return markdown(header, rows)


def _figures(done: list[Run]) -> list[object]:
    samples, errors = np.array([run.samples for run in done]), sum(not run.right for run in done)
    interval = binomtest(errors, len(done)).proportion_ci(0.95, "exact")
    return [
        len(done), f"{samples.mean():,.0f} ± {2 * samples.std() / len(samples) ** 0.5:,.0f}",
        f"{errors / len(done):.3f} [{interval.low:.3f}, {interval.high:.3f}]",
        f"{np.mean([run.oracle_calls for run in done]):,.0f}", f"{np.mean([run.seconds for run in done]):.2f}",
    ]  # fmt: skip

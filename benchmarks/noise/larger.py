"""Noise larger than stated, on a small road network: how often runs are wrong, and how often they are warned."""

from __future__ import annotations

import warnings
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks._table import markdown
from benchmarks._work import Workers
from combopeps import identify, load_instance
from combopeps.errors import NoiseWarning, PriorWarning

FACTORS = (1, 2, 4, 8)
MANY = 30


def run(factor: int, seed: int) -> tuple[bool, bool, bool, int, int]:
    """Wrong? A warning of the noise before the stop? Of noise or prior? Samples, and repetitions among them."""
    town = load_instance("town")
    theta, rng = np.asarray(town.theta), np.random.default_rng([factor, seed])
    mean = dict(zip(town.oracle.components, theta, strict=True))
    noise = factor * town.problem.noise_std
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = identify(town.problem, lambda road: mean[road] + noise * rng.normal(), rng=seed, budget=20_000)
    wrong = float(result.z @ theta) < float(town.oracle.argmax(theta) @ theta) - 1e-9
    repetitions = sum(max(0, n - 1) for n in result.pulls.values())
    kinds = {warning.category for warning in seen}
    return wrong, NoiseWarning in kinds, bool(kinds & {NoiseWarning, PriorWarning}), result.samples, repetitions


def table(runs: int, workers: Workers, out: Path | None) -> str:
    rows = []
    for factor in FACTORS:
        done = workers.spread(run, ((factor, seed) for seed in range(runs)), f"noise {factor} times")
        wrong, warned, warned_at_all, samples, repetitions = zip(*done, strict=True)
        enough = [w for w, n in zip(warned, repetitions, strict=True) if n >= MANY]
        rows.append(
            (
                f"{factor} times",
                f"{np.mean(samples):,.0f}",
                f"{100 * np.mean(wrong):.0f} %",
                f"{median(repetitions):.0f}",
                f"{100 * np.mean(warned):.1f} %",
                f"{100 * np.mean(warned_at_all):.1f} %",
                f"{sum(enough)} of {len(enough)}",
            )
        )
    header = ("true noise", "mean samples", "wrong", "repetitions (median)", "`NoiseWarning` before the stop")
    more = ("`NoiseWarning` or `PriorWarning`", f"`NoiseWarning`, of runs with {MANY} repetitions")
    return markdown((*header, *more), rows)

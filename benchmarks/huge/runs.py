"""Samples until the posterior rule stops, or the budget does, and whether the answer is the planted one.

Gap 1 in every component, noise 0.3, delta = 0.05; policy and noise hang on the seed alone.
"""

from __future__ import annotations

import hashlib
import time
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks._store import Arrays, Store, Unit, write_csv
from benchmarks.huge.clock import ROOT
from benchmarks.huge.families import FAMILIES, Size, problem
from benchmarks.huge.listing import can_be_listed, listed_problem
from benchmarks.huge.scale import POLICIES, RIVAL, Scale
from combopeps.oracles.base import as_good

TITLE, ALONE = "runs", False
DELTA = 0.05
FIXED = (
    "family", "size", "log10_Z", "policy", "seed", "budget", "samples", "ended_by", "right", "oracle_calls", "answer",
)  # fmt: skip
TIMED = ("seconds",)


def units(scale: Scale) -> list[Unit]:
    """One unit per run."""
    made = []
    for family, sizes in scale.sizes.items():
        for size in sizes:
            d = FAMILIES[family].oracle(*size).dim
            seeds, budget = range(scale.replications(d)), scale.budget(family, d)
            for policy in POLICIES:
                if policy != RIVAL or can_be_listed(family, size):
                    made += [_unit(family, size, policy, seed, budget) for seed in seeds]
    return made


def _unit(family: str, size: Size, policy: str, seed: int, budget: int) -> Unit:
    params = {"family": family, "size": size, "policy": policy, "seed": seed, "budget": budget}
    name = f"run {family} {'-'.join(map(str, size))} {policy} {seed}"
    return Unit(name, params, partial(one, **params), SOURCES)


def one(jobs: int, family: str, size: Size, policy: str, seed: int, budget: int) -> Arrays:
    """One run of `identify`."""
    from benchmarks._counting import Calls
    from combopeps import identify

    made, theta = (listed_problem if policy == RIVAL else problem)(family, size)
    best = made.oracle.argmax(theta)
    means, nature = dict(zip(made.arms.labels, theta, strict=True)), np.random.default_rng([seed, 1])
    calls, start = Calls(made.oracle), time.perf_counter()
    result = identify(
        made,
        lambda label: means[label] + made.noise_std * nature.normal(),
        delta=DELTA,
        policy=POLICIES[policy],
        budget=budget,
        rng=seed,
    )
    seconds = time.perf_counter() - start
    return {
        "samples": np.asarray(result.samples),
        "ended_by": np.asarray(result.stop_reason),
        "right": np.asarray(as_good(result.z, best, theta)),
        "oracle_calls": np.asarray(calls.rows),
        "answer": np.asarray(hashlib.sha256(np.flatnonzero(result.z).tobytes()).hexdigest()[:12]),
        "seconds": np.asarray(seconds),
    }


def write(scale: Scale, store: Store, out: Path) -> None:
    """runs.csv: one row per run, the clock last."""
    rows = []
    for unit in units(scale):
        given, data = unit.params, store.load(unit)
        family = FAMILIES[given["family"]]
        first = (given["family"], family.name(given["size"]), family.digits(given["size"]))
        found = (data[key].item() for key in ("samples", "ended_by", "right", "oracle_calls", "answer", "seconds"))
        rows.append((*first, given["policy"], given["seed"], given["budget"], *found))
    write_csv(out / "runs.csv", (*FIXED, *TIMED), rows)


SOURCES = tuple(
    ROOT / "benchmarks" / name for name in ("_counting.py", "huge/runs.py", "huge/families.py", "huge/listing.py")
)

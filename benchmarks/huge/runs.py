"""Samples until the posterior rule stops, or the budget does, and whether the answer is the planted one.

Gap 1 in every component, noise 0.3, delta = 0.05; policy and noise hang on the seed alone. Long runs are not done here:
see ends.py.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks._store import Arrays, Store, Unit, write_csv
from benchmarks.huge.clock import ROOT
from benchmarks.huge.families import FAMILIES, Size, problem
from benchmarks.huge.listing import can_be_listed, listed_problem
from benchmarks.huge.scale import POLICIES, RIVAL, Scale
from combopeps.oracles.base import has_equal_value

TITLE, ALONE = "runs", False
DELTA = 0.05
FIXED = (
    "family", "size", "d", "log10_Z", "policy", "seed", "budget", "samples", "ended_by", "right", "oracle_calls",
    "answer",
)  # fmt: skip
TIMED = ("seconds",)


@dataclass(frozen=True)
class Case:
    """What is run, and how long that may take."""

    family: str
    size: Size
    d: int
    policy: str
    seconds: float

    def unit(self, seed: int, budget: int) -> Unit:
        """One run of it."""
        params = {
            "family": self.family, "size": self.size, "d": self.d, "policy": self.policy, "seed": seed,
            "budget": budget,
        }  # fmt: skip
        name = f"run {self.family} {'-'.join(map(str, self.size))} {self.policy} {seed}"
        return Unit(name, params, partial(one, **params), SOURCES)


def cases(scale: Scale) -> Iterator[Case]:
    """Every size and policy, however long it takes; LinGame while Z can be listed."""
    for family, sizes in scale.sizes.items():
        for size in sizes:
            d = FAMILIES[family].dim(size)
            for policy in POLICIES:
                if policy != RIVAL or can_be_listed(family, size):
                    yield Case(family, size, d, policy, scale.expected(family, d, policy))


def units(scale: Scale) -> list[Unit]:
    """One unit per run; the short ones."""
    return [
        case.unit(seed, scale.budget(case.d))
        for case in cases(scale)
        if case.seconds <= scale.seconds
        for seed in range(scale.replications(case.d, case.policy))
    ]


def one(jobs: int, family: str, size: Size, d: int, policy: str, seed: int, budget: int) -> Arrays:
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
        "right": np.asarray(has_equal_value(result.z, best, theta)),
        "oracle_calls": np.asarray(calls.rows),
        "answer": np.asarray(hashlib.sha256(np.flatnonzero(result.z).tobytes()).hexdigest()[:12]),
        "seconds": np.asarray(seconds),
    }


def write(scale: Scale, store: Store, out: Path) -> None:
    """runs.csv: one row per run, the clock last."""
    write_rows(units(scale), store, out / "runs.csv")


def write_rows(done: list[Unit], store: Store, path: Path) -> None:
    """These runs."""
    rows = []
    for unit in done:
        given, data = unit.params, store.load(unit)
        family = FAMILIES[given["family"]]
        first = (given["family"], family.name(given["size"]), given["d"], family.digits(given["size"]))
        found = (data[key].item() for key in ("samples", "ended_by", "right", "oracle_calls", "answer", "seconds"))
        rows.append((*first, given["policy"], given["seed"], given["budget"], *found))
    write_csv(path, (*FIXED, *TIMED), rows)


SOURCES = tuple(
    ROOT / "benchmarks" / name for name in ("_counting.py", "huge/runs.py", "huge/families.py", "huge/listing.py")
)

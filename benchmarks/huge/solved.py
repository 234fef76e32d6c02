"""To an answer with a Bayesian claim: four huge sets, from the first sample to the end, delta = 0.05.

The first three have gap 1 in every component and noise 1, as in the stopping benchmark; the cyclic network, 1,000 stops
on 250 rings, has gap 1 and noise 0.5.
"""

from __future__ import annotations

import time
from functools import partial
from math import comb, factorial, log10
from pathlib import Path

import numpy as np

from benchmarks._store import Arrays, Store, Unit, write_csv
from benchmarks.huge.clock import ROOT
from benchmarks.huge.families import FAMILIES, planted, rings_oracle
from benchmarks.huge.scale import Scale
from benchmarks.stopping.cost import instances
from combopeps import Problem, identify
from combopeps.oracles.base import as_good

TITLE, ALONE = "solved", False
DELTA = 0.05
RINGS = (250, 4)
DIGITS = {
    "top-k 1000 choose 50": log10(comb(1000, 50)),
    "grid 50 x 50": log10(comb(98, 49)),
    "matching 30 x 30": log10(factorial(30)),
    "cyclic network, 1000 stops": FAMILIES["rings"].digits(RINGS),
}
FIXED = ("instance", "d", "log10_Z", "samples", "ended_by", "right", "error_probability", "claim")
TIMED = ("seconds",)


def units(scale: Scale) -> list[Unit]:
    """One run of TopTwo each."""
    return [
        Unit(f"solved {name}", params := {"name": name, "budget": scale.solved}, partial(solve, **params), SOURCES)
        for name in DIGITS
    ]


def solve(jobs: int, name: str, budget: int | None) -> Arrays:
    """`identify` with its defaults."""
    if name in (listed := instances()):
        oracle, theta = listed[name]
        noise = 1.0
    else:
        oracle, noise = rings_oracle(*RINGS), 0.5
        theta = planted(oracle)
    value, nature = dict(zip(oracle.components, theta, strict=True)), np.random.default_rng(1)
    start = time.perf_counter()
    result = identify(
        Problem(oracle, noise_std=noise), lambda x: value[x] + noise * nature.normal(), delta=DELTA, budget=budget
    )
    seconds = time.perf_counter() - start
    right = as_good(result.z, oracle.argmax(theta), theta)
    found = (oracle.dim, result.samples, result.stop_reason, right, result.error_probability, result.claim, seconds)
    names = ("d", "samples", "ended_by", "right", "error_probability", "claim", "seconds")
    return {key: np.asarray(x) for key, x in zip(names, found, strict=True)}


def write(scale: Scale, store: Store, out: Path) -> None:
    """solved.csv."""
    rows = []
    for unit in units(scale):
        data, name = store.load(unit), unit.params["name"]
        rows.append([{"instance": name, "log10_Z": DIGITS[name]}.get(key, data.get(key)) for key in (*FIXED, *TIMED)])
    rows = [[x.item() if isinstance(x, np.ndarray) else x for x in row] for row in rows]
    write_csv(out / "solved.csv", (*FIXED, *TIMED), rows)


SOURCES = tuple(ROOT / "benchmarks" / name for name in ("stopping/cost.py", "huge/solved.py", "huge/families.py"))

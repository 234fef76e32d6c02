"""To an answer with a claim: four huge sets and three rules, from the first sample to the end, delta = 0.05.

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
from combopeps import Problem, StoppingRule, identify
from combopeps.oracles.base import has_equal_value
from combopeps.stopping import Verdict, View
from combopeps.stopping.registry import stopping_rule

TITLE, ALONE = "solved", False
DELTA = 0.05
RINGS = (250, 4)
RULES = ("posterior", "verified", "certified")
DIGITS = {
    "top-k 1000 choose 50": log10(comb(1000, 50)),
    "grid 50 x 50": log10(comb(98, 49)),
    "matching 30 x 30": log10(factorial(30)),
    "cyclic network, 1000 stops": FAMILIES["rings"].digits(RINGS),
}
FIXED = ("instance", "d", "log10_Z", "rule", "samples", "looks", "ended_by", "right", "error_probability", "claim")
TIMED = ("seconds", "seconds_of_looks")


def units(scale: Scale) -> list[Unit]:
    """One run of each rule."""
    return [
        Unit(
            f"solved {name} {rule}",
            params := {"name": name, "rule": rule, "budget": scale.solved},
            partial(solve, **params),
            SOURCES,
        )
        for name in DIGITS
        for rule in RULES
    ]


class _Watch:
    """How often a rule looks from now on, and for how long."""

    def __init__(self, rule: StoppingRule) -> None:
        self.looks, self.seconds, self._check = 0, 0.0, rule.check
        rule.check = self._timed  # type: ignore[method-assign]

    def _timed(self, view: View) -> Verdict:
        start = time.perf_counter()
        verdict = self._check(view)
        self.looks, self.seconds = self.looks + 1, self.seconds + time.perf_counter() - start
        return verdict


def solve(jobs: int, name: str, rule: str, budget: int | None) -> Arrays:
    """`identify` with its defaults, but for the rule."""
    if name in (listed := instances()):
        oracle, theta = listed[name]
        noise = 1.0
    else:
        oracle, noise = rings_oracle(*RINGS), 0.5
        theta = planted(oracle)
    problem, value = (
        Problem(oracle, noise_std=noise, prior_mean=0.0, prior_std=1.0),
        dict(zip(oracle.components, theta, strict=True)),
    )
    identify(problem, lambda x: 0.0, stopping="budget", budget=20)  # compile
    stopping, nature = stopping_rule(rule, DELTA, 0.0), np.random.default_rng(1)
    watch, start = _Watch(stopping), time.perf_counter()
    result = identify(problem, lambda x: value[x] + noise * nature.normal(), stopping=stopping, budget=budget)
    seconds = time.perf_counter() - start
    found = {
        "d": oracle.dim,
        "samples": result.samples,
        "looks": watch.looks,
        "ended_by": result.stop_reason,
        "right": has_equal_value(result.z, oracle.argmax(theta), theta),
        "error_probability": result.error_probability,
        "claim": result.claim,
        "seconds": seconds,
        "seconds_of_looks": watch.seconds,
    }
    return {key: np.asarray(x) for key, x in found.items()}


def write(scale: Scale, store: Store, out: Path) -> None:
    """solved.csv."""
    rows = []
    for unit in units(scale):
        name, rule = unit.params["name"], unit.params["rule"]
        data = {key: x.item() for key, x in store.load(unit).items()}
        data |= {"instance": name, "rule": rule, "log10_Z": DIGITS[name]}
        rows.append([data[key] for key in (*FIXED, *TIMED)])
    write_csv(out / "solved.csv", (*FIXED, *TIMED), rows)


SOURCES = tuple(ROOT / "benchmarks" / name for name in ("stopping/cost.py", "huge/solved.py", "huge/families.py"))

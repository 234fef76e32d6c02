"""`--to-the-end`: runs that are too long for `runs`, one of each, until the rule stops; what the others would take.

A run that is expected to take longer than `Scale.longest` is not done. Its samples are extrapolated along the family,
from those of its three largest sizes that came to an end, as a power of d; its time is that of as many rounds.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks._store import Store, Unit
from benchmarks.huge import runs
from benchmarks.huge.families import FAMILIES
from benchmarks.huge.scale import Scale

TITLE, ALONE = "ends", False
SIZES = 3
Row = dict[str, str]


def units(scale: Scale) -> list[Unit]:
    """The longest first, so that the last ones to finish are short."""
    long = [case for case in runs.cases(scale) if scale.seconds < case.seconds <= scale.longest[case.policy]]
    return [case.unit(0, scale.budget(case.d)) for case in sorted(long, key=lambda case: -case.seconds)]


def write(scale: Scale, store: Store, out: Path) -> None:
    """ends.csv, as runs.csv: what is there by now."""
    done = [unit for unit in units(scale) if unit in store]
    if done:
        runs.write_rows(done, store, out / "ends.csv")


@dataclass(frozen=True)
class Estimate:
    """Of a run that was not done."""

    family: str
    size: str
    digits: float
    policy: str
    samples: float
    seconds: float


def estimates(scale: Scale, done: list[Row], clock: list[Row]) -> list[Estimate]:
    """For every size and policy without a run; NaN where nothing can be extrapolated from."""
    seen = {(row["family"], row["size"], row["policy"]) for row in done}
    per_round = {(row["family"], row["size"], row["policy"]): 1e-6 * float(row["us_per_round"]) for row in clock}
    found = []
    for case in runs.cases(scale):
        family = FAMILIES[case.family]
        key = (case.family, family.name(case.size), case.policy)
        if key not in seen:
            samples = extrapolated(done, case.family, case.policy, case.d)
            seconds = samples * per_round.get(key, float("nan"))
            found.append(Estimate(*key[:2], family.digits(case.size), case.policy, samples, seconds))
    return found


def extrapolated(done: list[Row], family: str, policy: str, d: int) -> float:
    """Samples at d, from the median samples of the largest sizes of which all runs were ended by the rule."""
    by_d: dict[int, list[Row]] = defaultdict(list)
    for row in done:
        if row["family"] == family and row["policy"] == policy:
            by_d[int(row["d"])].append(row)
    whole = [(n, mine) for n, mine in sorted(by_d.items()) if all(row["ended_by"] != "budget" for row in mine)][-SIZES:]
    if not whole:
        return float("nan")
    x = np.log([n for n, _ in whole])
    y = np.log([np.median([int(row["samples"]) for row in mine]) for _, mine in whole])
    if len(whole) == 1:
        return float(np.exp(y[0] + np.log(d) - x[0]))
    slope, level = np.polyfit(x, y, 1)
    return float(np.exp(level + slope * np.log(d)))

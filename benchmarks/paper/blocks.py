"""How far apart two honest runs of the tables may lie: the baselines on Soare, in several blocks of as many runs.

The references that we hold our baselines against come from one such block each.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks._store import Store, Unit, read_csv, write_csv
from benchmarks._table import markdown
from benchmarks.paper._cases import budget, recipes, simulation
from benchmarks.paper._claims import count
from benchmarks.paper._published import DELTAS, REFERENCE
from benchmarks.paper._scale import Scale
from benchmarks.paper.samples import mean_crossing

TITLE = "blocks"
INSTANCE = "soare"
POLICIES = ("LinGame", "LinGapE")


def _unit(policy: str, scale: Scale) -> Unit:
    rounds = budget(INSTANCE, policy, scale) * 2 // 3
    return simulation(recipes(INSTANCE, 1)[0], policy, scale.runs * scale.blocks, rounds)


def units(scale: Scale) -> list[Unit]:
    """One simulation per policy, cut into blocks afterwards."""
    return [_unit(policy, scale) for policy in POLICIES]


def write(scale: Scale, store: Store, out: Path) -> None:
    """blocks.csv and blocks.md."""
    rows = []
    for policy in POLICIES:
        trace = store.trace(_unit(policy, scale))
        parts = [("all", trace)]
        for k in range(scale.blocks):
            runs = slice(k * scale.runs, (k + 1) * scale.runs)
            parts.append((str(k), replace(trace, correct=trace.correct[runs], pulls=trace.pulls[runs])))
        for name, part in parts:
            rows += [
                (policy, name, len(part.correct), delta, *mean_crossing([part], 1.0 - delta))
                for delta in DELTAS[INSTANCE]
            ]
    write_csv(out / "blocks.csv", ("policy", "block", "runs", "delta", "samples", "low", "high"), rows)
    (out / "blocks.md").write_text(f"{__doc__.rstrip()}\n\n{table(out / 'blocks.csv')}\n")


def table(path: Path) -> str:
    """All runs together, the lowest and the highest block, and the reference."""
    rows, body = read_csv(path), []
    for policy in POLICIES:
        for delta, reference in zip(DELTAS[INSTANCE], REFERENCE[INSTANCE, policy], strict=True):
            mine = [row for row in rows if row["policy"] == policy and float(row["delta"]) == delta]
            whole, parts = mine[0], np.array([float(row["samples"]) for row in mine[1:]])
            together, low, high = (count(float(whole[key])) for key in ("samples", "low", "high"))
            spread = f"{count(parts.min())} - {count(parts.max())}"
            body.append([policy, f"{delta:g}", f"{together} ({low} - {high})", spread, count(reference)])
    first = rows[0]["runs"]
    return markdown(["policy", "delta", f"all {first} runs", f"blocks of {rows[-1]['runs']} runs", "reference"], body)

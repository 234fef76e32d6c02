"""How far apart two honest runs of the tables may lie: the baselines in several blocks of as many runs.

The references that we hold our baselines against come from one such block each. Besides the blocks themselves: the
middle 95 % of blocks drawn anew, with replacement, from all runs.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks._store import Store, Unit, read_csv, write_csv
from benchmarks._table import markdown
from benchmarks.paper._cases import TITLES, many_runs
from benchmarks.paper._claims import count
from benchmarks.paper._published import DELTAS, REFERENCE
from benchmarks.paper._scale import Scale
from benchmarks.paper.samples import crossings, mean_crossing

TITLE = "blocks"
HEADER = ("instance", "policy", "block", "runs", "delta", "samples", "low", "high")


def units(scale: Scale) -> list[Unit]:
    """One simulation per baseline with a reference, cut into blocks afterwards."""
    return [many_runs(instance, policy, scale) for instance, policy in REFERENCE]


def write(scale: Scale, store: Store, out: Path) -> None:
    """blocks.csv and blocks.md."""
    rows = []
    for instance, policy in REFERENCE:
        trace = store.trace(many_runs(instance, policy, scale))
        parts = [("all", trace)]
        for k in range(scale.blocks[instance]):
            runs = slice(k * scale.runs, (k + 1) * scale.runs)
            parts.append((str(k), replace(trace, correct=trace.correct[runs], pulls=trace.pulls[runs])))
        for delta in DELTAS[instance]:
            for name, part in parts:
                found = mean_crossing([part], 1.0 - delta)
                rows.append((instance, policy, name, len(part.correct), delta, *found))
            drawn = crossings(trace, 1.0 - delta, np.random.default_rng(0), scale.runs)[1:]
            middle = np.quantile(drawn, (0.5, 0.025, 0.975), method="inverted_cdf")
            rows.append((instance, policy, "drawn", scale.runs, delta, *map(float, middle)))
    write_csv(out / "blocks.csv", HEADER, rows)
    (out / "blocks.md").write_text(f"{__doc__.rstrip()}\n\n{table(out / 'blocks.csv')}\n")


def table(path: Path) -> str:
    """All runs together, the lowest and the highest block, blocks drawn anew, and the reference."""
    rows, body = read_csv(path), []
    for (instance, policy), references in REFERENCE.items():
        for delta, reference in zip(DELTAS[instance], references, strict=True):
            mine = [row for row in rows if (row["instance"], row["policy"]) == (instance, policy)]
            whole, *parts, drawn = [row for row in mine if float(row["delta"]) == delta]
            ends = [float(row["samples"]) for row in parts]
            body.append(
                [TITLES[instance], policy, f"{delta:g}", whole["runs"], _with_ends(whole),
                 f"{len(parts)}: {count(min(ends))} - {count(max(ends))}",
                 f"{count(float(drawn['low']))} - {count(float(drawn['high']))}", count(reference)]
            )  # fmt: skip
    size = rows[-1]["runs"]
    header = ["instance", "policy", "delta", "runs", "all together", f"blocks of {size}", f"95 % of blocks of {size}"]
    return markdown([*header, "reference"], body)


def _with_ends(row: dict[str, str]) -> str:
    value, low, high = (count(float(row[key])) for key in ("samples", "low", "high"))
    return f"{value} ({low} - {high})"

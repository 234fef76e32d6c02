"""docs/huge.md: the tables between a few words. Every measured number in it comes from a CSV file."""

from __future__ import annotations

import json
import os
from pathlib import Path

from benchmarks._store import read_csv
from benchmarks.huge import tables

PAGE = """# Huge sets

What does a round cost, and how many samples does it take, when Z has 10^2, 10^100 or more answers? Written by

    {command}

with combopeps {combopeps}, numpy {numpy} and Python {python}, from the CSV files beside
[made.json]({folder}/made.json).

## In short

{short}

![Cost per round against the number of answers]({folder}/huge.png)

## What was measured

{sizes}

Z is counted by formula, never listed, except for LinGame. All instances have one planted best answer: the components on
it differ by 1 from those off it, and the noise of one measurement is 0.3. *Rings* is the network with cycles: one-way
rings one after the other, theta >= 0, Dijkstra. *Band* is the sparse matching.

LinGame goes through the alternatives of its answer one by one, in every round. It is run on Z listed in a matrix, up to
{most:,} answers, and its line ends there: ten times as many would need ten times the time and the memory.

## Time per round

Each row is a process of its own with one thread, timed by the processor's clock. "early" are the first {half} rounds of
a run, "late" as many after every arm has been measured 20 times; the first 30 rounds after that jump, in which facets
are searched for, are summed up under "search". Wanted: 4 times one argmax and one draw of d normals plus 150 us for
TopTwo, 8 times for PEPS.

{clock}

## Does it grow faster than d?

Slope of log(time per round) against log d over the largest decade of d. Where the argmax itself grows faster than d
(a dense matching: up to d^1.5), so must every round.

{slopes}

## Samples

Runs of `identify` to a posterior error probability of 0.05, or to the budget. A budget that is smaller than what an
instance of this size needs ends the run without a claim, and the answer is then as good as it can be: often wrong.
In short runs the time per sample is mostly that of the last looks, which take hundreds of draws each.

{runs}

## To an answer with a claim

{solved}

The claim is Bayesian: it holds under the prior and the noise model, not for every theta. TopTwo, one run each, seed 0.
"""


def text(out: Path, report: Path) -> str:
    """The page, from the files in `out`; links are relative to `report`."""
    from benchmarks.huge.listing import MOST

    made = json.loads((out / "made.json").read_text())
    clock, runs, solved, slopes = (_rows(out, name) for name in ("clock", "runs", "solved", "slopes"))
    return PAGE.format(
        **made,
        folder=os.path.relpath(out, report.parent).replace(os.sep, "/"),
        most=MOST,
        half=int(clock[0]["rounds"]) // 2 if clock else 0,
        short=in_short(clock, slopes, solved),
        sizes=tables.sizes(clock),
        clock=tables.clock(clock),
        slopes=tables.slope_table(slopes),
        runs=tables.runs(runs),
        solved=tables.solved(solved),
    )


def in_short(clock: list[tables.Row], slopes: list[tables.Row], solved: list[tables.Row]) -> str:
    """What held in this run, counted."""
    ours = [row for row in clock if row["limit_us"] != "nan"]
    within = sum(float(row["us_per_round"]) <= float(row["limit_us"]) for row in ours)
    flat = sum(float(row["slope"]) <= tables.STEEPEST for row in slopes)
    right = sum(row["right"] == "True" for row in solved)
    claimed = sum(row["right"] == "True" and row["ended_by"] == "posterior" for row in solved)
    memory = max((float(row["peak_MB"]) for row in ours), default=0.0)
    return "\n".join(
        [
            f"- {within} of {len(ours)} rows of TopTwo and PEPS stay within their multiple of one argmax and one draw.",
            f"- {flat} of {len(slopes)} slopes against d are at most {tables.STEEPEST}.",
            f"- {right} of {len(solved)} huge instances were answered rightly, {claimed} of them with a claim.",
            f"- The largest process of TopTwo and PEPS took {memory:.0f} MB.",
        ]
    )


def _rows(out: Path, name: str) -> list[tables.Row]:
    path = out / f"{name}.csv"
    return read_csv(path) if path.exists() else []

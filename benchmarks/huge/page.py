"""docs/huge.md: the tables between a few words. Every measured number in it comes from a CSV file."""

from __future__ import annotations

import json
import os
from pathlib import Path

from benchmarks._store import read_csv
from benchmarks.huge import tables
from benchmarks.huge.ends import estimates
from benchmarks.huge.listing import MOST
from benchmarks.huge.scale import Scale
from benchmarks.huge.solved import RULES
from combopeps.policies.registry import DEFAULT_POLICY

EARLIER = {
    "before": "*Before* is what this page said earlier: an older version, on the machine as it was then. ",
    "start": "*Start* is the version from which work on the time per round began, on the machine of this page. ",
}
PAGE = """# Huge sets

What does a round cost, and how many samples does it take, when Z has 10^2, 10^100 or more answers? Written by

    {command}
    python -m benchmarks.huge --to-the-end      # the long runs under "Samples"

with combopeps {combopeps}, numpy {numpy} and Python {python}, from the CSV files beside
[made.json]({folder}/made.json).

## In short

{short}

![Cost per round against the number of answers]({folder}/huge.png)

## What was measured

{sizes}

Z is counted by formula, never listed, except for LinGame. All instances have one planted best answer: the components on
it differ by 1 from those off it, and the noise of one measurement is 0.3. *Rings* is the network with cycles: one-way
rings one after the other, theta >= 0, Dijkstra. *Band* is the sparse matching. *Partition* chooses from every group,
*tree* has edges between any two nodes, the items of a *knapsack* weigh 1, 2, 3, 1, 2, 3, ...

LinGame goes through the alternatives of its answer one by one, in every round. It is run on Z listed in a matrix, up to
{most:,} answers, and its line ends there: ten times as many would need ten times the time and the memory.

## Time per round

Each row is a process of its own with one thread, timed by the processor's clock. "early" are the first {half} rounds of
a run, "late" as many after every arm has been measured 20 times; the first 30 rounds after that jump, in which facets
are searched for, are summed up under "search". Wanted: 4 times one argmax and one draw of d normals plus 150 us for
TopTwo, 8 times for PEPS. LinGame and the default policy ({default}, on the largest sets) are there for comparison.
{earlier}

{clock}

## Does it grow faster than d?

Slope of log(time per round) against log d over the largest decade of d. Where the argmax itself grows faster than d
(a dense matching: up to d^1.5), so must every round.

{slopes}

## Samples

Runs of `identify` to a posterior error probability of 0.05, or to the budget of {patience} samples per component.
In short runs the time per sample is mostly that of the last looks, which take hundreds of draws each. Runs that are
expected to take more than {seconds:g} s are done by `--to-the-end`, one of each{ends}. Those expected to take more than
{longest} are not run: "about" is then the samples of the largest sizes of the family that came to an end, extrapolated
as a power of d, times the time per round above. Times of runs are those on the wall, on a machine that did other things
as well; the long ones had to wait for others for much of theirs (grid 200 x 200, matching 100 x 100 of PEPS).

{runs}

## To an answer with a claim

{solved}

The claim of the posterior rule is Bayesian: it holds under the prior and the noise model. Those of the verified and the
certified rule hold for every theta, and should be there within 10 minutes. The default policy ({default}), one run
each, seed 0.
"""


def text(scale: Scale, out: Path, report: Path) -> str:
    """The page, from the files in `out`; links are relative to `report`."""
    made = json.loads((out / "made.json").read_text())
    clock, solved, slopes, ends = (_rows(out, name) for name in ("clock", "solved", "slopes", "ends"))
    earlier = {name: rows for name in EARLIER if (rows := _rows(out, name))}
    done = _rows(out, "runs") + ends
    return PAGE.format(
        **made,
        folder=os.path.relpath(out, report.parent).replace(os.sep, "/"),
        most=MOST,
        default=DEFAULT_POLICY,
        half=int(clock[0]["rounds"]) // 2 if clock else 0,
        short=in_short(clock, earlier, slopes, done, solved),
        sizes=tables.sizes(clock),
        clock=tables.clock(clock, earlier),
        earlier="".join(EARLIER[name] for name in earlier).strip(),
        slopes=tables.slope_table(slopes),
        patience=scale.patience,
        seconds=scale.seconds,
        longest=" or ".join(f"{tables.duration(x)} ({policy})" for policy, x in scale.longest.items()),
        ends=_together(ends),
        runs=tables.runs(done, estimates(scale, done, clock)),
        solved=tables.solved(solved),
    )


def _together(ends: list[tables.Row]) -> str:
    """What the long runs took."""
    if not ends:
        return ""
    return f" ({len(ends)} of them, which took {tables.duration(sum(float(row['seconds']) for row in ends))} together)"


def in_short(
    clock: list[tables.Row],
    earlier: dict[str, list[tables.Row]],
    slopes: list[tables.Row],
    runs: list[tables.Row],
    solved: list[tables.Row],
) -> str:
    """What held in this run, counted."""
    ours = [row for row in clock if row["limit_us"] != "nan"]
    flat = sum(float(row["slope"]) <= tables.STEEPEST for row in slopes)
    ended = sum(row["ended_by"] != "budget" for row in runs)
    right = sum(row["right"] == "True" for row in runs)
    memory = max((float(row["peak_MB"]) for row in ours), default=0.0)
    lines = [
        f"{_count(ours)} rows of TopTwo and PEPS stay within their multiple of one argmax and one draw"
        + "".join(_beside(name, rows, ours) for name, rows in earlier.items())
        + ".",
        f"{flat} of {len(slopes)} slopes against d are at most {tables.STEEPEST}.",
        f"{ended} of {len(runs)} runs were ended by their rule, {right} with the planted answer.",
        *(_claimed(rule, [row for row in solved if row["rule"] == rule]) for rule in RULES),
        f"The largest process of TopTwo and PEPS took {memory:.0f} MB.",
    ]
    return "\n".join(f"- {line}" for line in lines)


def _beside(name: str, rows: list[tables.Row], ours: list[tables.Row]) -> str:
    known = {tables.key(row) for row in rows}
    return f" ({name}: {_count(rows)}, now {_count([row for row in ours if tables.key(row) in known])} of these)"


def _count(rows: list[tables.Row]) -> str:
    return f"{sum(map(tables.within, rows))} of {len(rows)}"


def _claimed(rule: str, rows: list[tables.Row]) -> str:
    claimed = [row for row in rows if row["ended_by"] == rule and row["right"] == "True"]
    longest = max((float(row["seconds"]) for row in rows), default=0.0)
    return (
        f"{len(claimed)} of {len(rows)} huge instances came to the right answer with the claim of the {rule} rule; "
        f"the longest took {longest:.0f} s."
    )


def _rows(out: Path, name: str) -> list[tables.Row]:
    path = out / f"{name}.csv"
    return read_csv(path) if path.exists() else []

"""Tables of docs/results/huge, written from the CSV files; docs/huge.md includes some of them."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks._store import read_csv
from benchmarks.huge import tables
from benchmarks.huge.ends import estimates
from benchmarks.huge.listing import MOST
from benchmarks.huge.scale import Scale
from benchmarks.huge.solved import RULES
from combopeps.policies.registry import DEFAULT_POLICY

MADE = "Made by `{command}`, combopeps {combopeps}, numpy {numpy}, Python {python}."
LARGEST = """# Largest set of each family

{largest}

{made}
"""
CLOCK = """# Time per round

{clock}

Processor time of one thread, each row in its own process. "early" are the first {half} rounds of a run, "late" the same
number of rounds after every arm has been measured 20 times. "search" is the time of the first 30 rounds after this
jump, in which facets are searched. "ratio" is the time of a round divided by that of one argmax and one draw of d
normals. LinGame enumerates its alternatives; it is run on sets of up to {most:,} answers, listed in a matrix. The
default policy ({default}) is measured on the largest sets.

## Instances

{sizes}

Z is counted by formula. One answer is planted as the best: its components differ by 1 from the others; the noise of one
measurement is 0.3. *Rings*: a route network with cycles, of one-way rings in a row (theta >= 0, Dijkstra). *Band*: a
sparse matching. *Tree*: a complete graph. *Knapsack*: items weigh 1, 2, 3, 1, 2, 3, ...

## Growth with d

Slope of log(time per round) against log d, over the largest decade of d.

{slopes}

{made}
"""
RUNS = """# Runs to a posterior error probability of 0.05

{runs}

Runs of `identify` until the posterior rule stops, or until the budget of {patience} samples per component. In short
runs most of the time per sample is that of the last looks. Runs that are expected to take more than {seconds:g} s are
made once, by `python -m benchmarks.huge --to-the-end`. Runs that are expected to take more than {longest} are not made:
"about" extrapolates the samples of smaller sizes of the family as a power of d, multiplied by the time per round. "one
run" is elapsed time on a machine with other load.

{made}
"""
SOLVED = """# Runs to a claim

{solved}

Policy: {default}; one run each, seed 0, delta = 0.05. The claim of the posterior rule holds under the prior and the
noise model, those of the verified and the certified rule for every theta.

{made}
"""


def write(scale: Scale, out: Path) -> None:
    """The Markdown files beside the CSV files in `out`."""
    clock, solved, slopes, ends = (_rows(out, name) for name in ("clock", "solved", "slopes", "ends"))
    done = _rows(out, "runs") + ends
    values = {
        "made": MADE.format(**json.loads((out / "made.json").read_text())),
        "most": MOST,
        "default": DEFAULT_POLICY,
        "half": int(clock[0]["rounds"]) // 2 if clock else 0,
        "sizes": tables.sizes(clock),
        "clock": tables.clock(clock),
        "largest": tables.largest(clock, slopes),
        "slopes": tables.slopes_by_family(slopes),
        "patience": scale.patience,
        "seconds": scale.seconds,
        "longest": " or ".join(f"{tables.duration(x)} ({policy})" for policy, x in scale.longest.items()),
        "runs": tables.runs(done, estimates(scale, done, clock)),
        "solved": tables.solved(solved),
    }
    for name, page in {"largest": LARGEST, "clock": CLOCK, "runs": RUNS, "solved": SOLVED}.items():
        (out / f"{name}.md").write_text(page.format(**values))


def summary(out: Path) -> str:
    """Counts of rows within the limits of this benchmark, for the terminal."""
    clock, solved, slopes = (_rows(out, name) for name in ("clock", "solved", "slopes"))
    runs = _rows(out, "runs") + _rows(out, "ends")
    ours = [row for row in clock if row["limit_us"] != "nan"]
    flat = sum(float(row["slope"]) <= tables.STEEPEST for row in slopes)
    ended = sum(row["ended_by"] != "budget" for row in runs)
    right = sum(row["right"] == "True" for row in runs)
    memory = max((float(row["peak_MB"]) for row in ours), default=0.0)
    lines = [
        f"{sum(map(tables.within, ours))} of {len(ours)} rows of TopTwo and PEPS are within their time limit",
        f"{flat} of {len(slopes)} slopes against d are at most {tables.STEEPEST}",
        f"{ended} of {len(runs)} runs were ended by their rule, {right} with the planted answer",
        *(_claimed(rule, [row for row in solved if row["rule"] == rule]) for rule in RULES),
        f"the largest process of TopTwo and PEPS took {memory:.0f} MB",
    ]
    return "\n".join(lines)


def _claimed(rule: str, rows: list[tables.Row]) -> str:
    claimed = [row for row in rows if row["ended_by"] == rule and row["right"] == "True"]
    longest = max((float(row["seconds"]) for row in rows), default=0.0)
    return f"{len(claimed)} of {len(rows)} runs of the {rule} rule end right with its claim, in at most {longest:.0f} s"


def _rows(out: Path, name: str) -> list[tables.Row]:
    path = out / f"{name}.csv"
    return read_csv(path) if path.exists() else []

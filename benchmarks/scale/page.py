"""docs/scale.md: the tables between a few words. Every measured number in it comes from a CSV file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

from benchmarks._store import read_csv
from benchmarks._table import markdown
from benchmarks.scale.axes import AXES, digits
from benchmarks.scale.fits import Line, beyond, power

Row = dict[str, str]
FURTHER = {
    "top-k": (1e6, 1e7), "grid": (1e6, 1e7), "matching": (1e6,), "arms": (1e6,), "dense": (1e4,), "listed": (1e6,),
    "runs": (1e5,),
}  # fmt: skip
PAGE = """# Larger

How do work and memory grow, and where does it end? Written by

    {command}

with combopeps {combopeps}, numpy {numpy} and Python {python}, from [growth.csv]({folder}/growth.csv). Each point is a
process of its own with one thread, timed by the processor's clock; a round is `ask` and `tell` of TopTwo, at the start
of a run. What late rounds and searches for facets cost: [](huge.md).

## In short

{short}

## How it grows

The slope is that of log(time of a round) against log(size), over the largest decade measured, with its standard error:
1 is in proportion. Memory is a line over the same decade: what any process takes, and so much for each. For `runs`, a
round is one of all runs together.

{slopes}

## Measured

{points}

The size of "argmax" is the number of answers: k of 1,000 components.
{answers}

## Beyond

What the lines say of sizes that they were not drawn through, with 95 % intervals for one more measurement *if they go
on as they are*; where the slope is below 1, from the largest size on in proportion, as what is fixed counts less and
less. The interval knows of scatter, not of what changes: caches that no longer hold the vectors, memory that runs out.

{further}

{check}

What ends first:

- *Memory of what has d x d entries.* A posterior is diagonal, d numbers, as long as each arm shows one component.
  General arms make it dense: {dense_words}
- *Building the problem.* Graphs come as networkx graphs, which take about a kilobyte for each edge and far longer to
  build than a round takes.
- *Measurements.* An initial design over d components takes d measurements before anything is known of each. With a
  million components this, and not the time of a round, is what there is to save.

## What to do there

- Keep arms single components, or combine them beforehand: posteriors stay diagonal.
- Coarser components: streets instead of pieces of streets, groups of items instead of items; refine those that matter
  (those on the leading answers) in a second problem.
- Measure whole answers where one measurement can show many components ([](actions.md)): an initial design then takes a
  few measurements instead of d.
- State what is known: a prior mean per component takes the place of an initial design. Where there is none,
  `initial_design` says how often everything is measured first.
- Ask for batches (`identify(..., batch_size=100)`): one round chooses all of them.
- A general list of answers beyond some 10^5 rows wants an oracle of its own ([](oracles.md)): an argmax need not look
  at all of them.
- Many runs go over processes or machines, as below. A single run does not: each round needs the one before.

## On a cluster

Replications of `simulate`, of `combopeps compare` and of the benchmarks are independent, and give the same bits
wherever they run. Start a scheduler, and workers on as many machines as you like, all with the same combopeps
(`pip install 'combopeps[dask]'`):

    dask scheduler                                     # prints its address, such as tcp://10.0.0.1:8786
    dask worker tcp://10.0.0.1:8786 --nworkers 8 --nthreads 1

and say where it is:

    trace = simulate(problem, theta, budget=1000, replications=5000, scheduler="tcp://10.0.0.1:8786")

or `--scheduler tcp://10.0.0.1:8786` on the command line. A `distributed.Client` does as well, such as one with
certificates, or one of `dask_jobqueue` for a batch system. One thread per worker is best. A worker that is lost costs
time, not runs; an address where no scheduler answers, a scheduler without workers and workers with other code are
errors within seconds. Connections are not encrypted unless Dask is configured so: a process that reaches the
scheduler can run code on the workers.

On one machine, joblib does it: `n_jobs=-1`, or whatever a surrounding `joblib.parallel_config(backend=..., n_jobs=...)`
says.
"""


def text(out: Path, report: Path) -> str:
    """The page, from the files in `out`; links are relative to `report`."""
    made = json.loads((out / "made.json").read_text())
    rows = read_csv(out / "growth.csv")
    return PAGE.format(
        **made,
        folder=os.path.relpath(out, report.parent).replace(os.sep, "/"),
        short=in_short(rows),
        slopes=slopes(rows),
        points=points(rows),
        answers=_answers(rows),
        further=further(rows),
        check=check(rows),
        dense_words=_dense(rows),
    )


def _of(rows: list[Row], axis: str, *, fit: bool = True) -> list[Row]:
    return [row for row in rows if row["axis"] == axis and (row["fit"] == "True") == fit]


def _decade(rows: list[Row], axis: str) -> list[Row]:
    """The points that lines are drawn through."""
    mine = _of(rows, axis)
    return [row for row in mine if 10 * float(row["x"]) >= 0.9 * float(mine[-1]["x"])]


def _column(rows: list[Row], key: str) -> np.ndarray:
    return np.array([float(row[key]) for row in rows])


def in_short(rows: list[Row]) -> str:
    """What held in this run."""
    lines = []
    for axis in ("top-k", "grid", "matching"):
        if len(mine := _decade(rows, axis)) > 2:
            last = mine[-1]
            lines.append(
                f"- {axis}: {_time(float(last['round_us']))} a round and {float(last['peak_MB']):,.0f} MB at "
                f"d = {int(last['x']):,}; from there with d to the power {_slope(mine)}."
            )
    if mine := _of(rows, "runs"):
        each = _column(mine, "round_us") / _column(mine, "x")
        lines.append(f"- Runs side by side: {each[-1]:.2g} us for a round of each, {each[0]:.2g} with {mine[0]['x']}.")
    return "\n".join(lines)


def _slope(rows: list[Row]) -> str:
    line = power(_column(rows, "x"), _column(rows, "round_us"))
    return f"{line.b:.2f} ± {line.error:.2f}"


def slopes(rows: list[Row]) -> str:
    """One row per axis."""
    body = []
    for name, axis in AXES.items():
        mine = _decade(rows, name)
        if len(mine) < 3 or name == "argmax":
            continue
        line = Line.through(_column(mine, "x"), _column(mine, "peak_MB"))
        span = f"{int(mine[0]['x']):,} to {int(mine[-1]['x']):,}"
        body.append(
            [name, axis.what, span, _slope(mine), f"{line.a:.0f}", f"{1e6 * line.b:,.0f} ± {1e6 * line.error:,.0f}"]
        )
    return markdown(["axis", "what grows", "measured", "slope of time", "MB at least", "bytes for each"], body)


def points(rows: list[Row]) -> str:
    """Every point."""
    body = []
    for row in rows:
        size = f"10^{digits(int(row['x']), int(row['d'])):.0f}" if row["axis"] == "argmax" else f"{int(row['x']):,}"
        body.append(
            [row["axis"], size, f"{int(row['d']):,}", f"{int(row['arms']):,}", _time(float(row["round_us"])),
             f"{float(row['make_s']):.2g}", f"{float(row['peak_MB']):,.0f}"]
        )  # fmt: skip
    return markdown(["axis", "size", "d", "arms", "one round", "to build it, s", "peak MB"], body)


def further(rows: list[Row]) -> str:
    """Predictions."""
    body = []
    for axis, sizes in FURTHER.items():
        mine = _decade(rows, axis)
        if len(mine) < 3:
            continue
        x = _column(mine, "x")
        us, size = _column(mine, "round_us"), Line.through(x, _column(mine, "peak_MB"))
        for far in sizes:
            middle, low, high = beyond(x, us, far)
            mb, least, most = size.at(far)
            body.append(
                [axis, f"{int(far):,}", f"{_time(middle)} ({_time(low)} to {_time(high)})",
                 f"{mb / 1000:,.1f} GB ({max(0.0, least) / 1000:,.1f} to {most / 1000:,.1f})"]
            )  # fmt: skip
    return markdown(["axis", "size", "one round", "memory"], body)


def check(rows: list[Row]) -> str:
    """The points beyond the fit, beside what it says of them."""
    lines = []
    for axis in AXES:
        for row in _of(rows, axis, fit=False):
            mine = _decade(rows, axis)
            if len(mine) < 3:
                continue
            x = _column(mine, "x")
            far, us, mb = float(row["x"]), float(row["round_us"]), float(row["peak_MB"])
            middle, low, high = beyond(x, _column(mine, "round_us"), far)
            expected, least, most = Line.through(x, _column(mine, "peak_MB")).at(far)
            held = "within" if low <= us <= high else "outside"
            also = "within" if least <= mb <= most else "outside"
            lines.append(
                f"- {axis}, {int(far):,}: a round took {_time(us)}, {us / middle:.2f} times what the line says ({held} "
                f"its interval), and the process {mb / 1000:.1f} GB, {mb / expected:.2f} times ({also}). To build "
                f"it took {float(row['make_s']):.0f} s."
            )
    if not lines:
        return ""
    end = "Where a round took longer than that, so will those of larger sizes: vectors are no longer in a cache."
    return "\n".join(["Measured once, to see whether the lines go on:", "", *lines, "", end])


def _dense(rows: list[Row]) -> str:
    mine = _of(rows, "dense")
    if not mine:
        return "d^2 numbers."
    last = mine[-1]
    return (
        f"d^2 numbers, and as much work in a round ({_time(float(last['round_us']))} at d = {int(last['x']):,}). At "
        f"d = 10^5 the matrix alone takes 80 GB."
    )


def _answers(rows: list[Row]) -> str:
    mine, listed = _of(rows, "argmax"), _of(rows, "listed")
    if not mine or not listed:
        return ""
    times = _column(mine, "round_us")
    low, high = (digits(int(row["x"]), int(row["d"])) for row in (mine[0], mine[-1]))
    return (
        f"From 10^{low:.0f} to 10^{high:.0f} answers, a round takes {_time(times.min())} to {_time(times.max())}: how "
        "many there are hardly\nmatters. Answers in a list are gone through one by one: "
        f"{_time(float(listed[-1]['round_us']))} for {int(listed[-1]['x']):,}."
    )


def _time(us: float) -> str:
    if us < 1e3:
        return f"{us:.3g} us"
    return f"{us / 1e3:.3g} ms" if us < 1e6 else f"{us / 1e6:.3g} s"

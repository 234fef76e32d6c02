"""docs/scale.md: text and tables. Every measured number in it comes from a CSV file."""

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
PAGE = """# Growth of time and memory with size

Written by

    {command}

with combopeps {combopeps}, numpy {numpy} and Python {python}, from [growth.csv]({folder}/growth.csv). Each point is a
process with one thread; times are processor times. A round is `ask` and `tell` of TopTwo at the start of a run. For
late rounds and searches for facets see [](huge.md).

## Summary

{short}

## Growth

Slope of log(time of a round) against log(size), over the largest decade measured, with its standard error: a slope of 1
is linear growth. Memory is fitted by a line over the same decade: a constant part, and bytes per unit of size. For
`runs`, a round is one round of all runs together.

{slopes}

## Measurements

{points}

The size of "argmax" is the number of answers, for k of 1,000 components.
{answers}

## Extrapolation

Predictions for larger sizes from these fits, with 95 % intervals for one more measurement. Where the slope is below 1,
linear growth from the largest size on is assumed. The intervals cover the scatter of measurements only, not changes
such as vectors that exceed the cache.

{further}

{check}

## Limiting factors

- *d x d matrices.* A posterior is diagonal (d numbers) if each arm measures one component. General arms need a dense
  matrix: {dense_words}
- *Construction of the problem.* networkx graphs take about a kilobyte per edge, and far more time to build than a
  round.
- *Measurements.* An initial design over d components takes d measurements.

## Recommendations

- Use single components as arms, or combine components in advance: the posterior stays diagonal.
- Use coarser components (whole streets, groups of items), and refine the ones on the best answers in a second problem.
- Measure whole answers if one measurement shows many components ([](actions.md)): an initial design then takes a few
  measurements instead of d.
- State a prior mean per component instead of an initial design. Without one, `initial_design` sets the number of
  initial measurements per arm.
- Use batches (`identify(..., batch_size=100)`): one round chooses the whole batch.
- For a list of more than about 10^5 answers write an oracle ([](oracles.md)) that does not evaluate all of them.
- Distribute replications over processes or machines, as described below. A single run is sequential.

## Clusters

Replications of `simulate`, of `combopeps compare` and of the benchmarks are independent, and give bitwise equal results
on any worker. Start a Dask scheduler and workers, all with the same version of combopeps (`pip install
'combopeps[dask]'`):

    dask scheduler                                     # prints its address, such as tcp://10.0.0.1:8786
    dask worker tcp://10.0.0.1:8786 --nworkers 8 --nthreads 1

and pass the address:

    trace = simulate(problem, theta, budget=1000, replications=5000, scheduler="tcp://10.0.0.1:8786")

or `--scheduler tcp://10.0.0.1:8786` on the command line. A `distributed.Client` is accepted too, for example one with
certificates, or one of `dask_jobqueue` for a batch system. Use one thread per worker. The work of a lost worker is
repeated. An address without a scheduler, a scheduler without workers, and workers with other code raise errors within
seconds. Connections are not encrypted unless Dask is configured to do so: a process that can connect to the scheduler
can run code on the workers.

On one machine use joblib: `n_jobs=-1`, or the settings of a surrounding `joblib.parallel_config(backend=...,
n_jobs=...)`.
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
    """Time and memory at the largest sizes."""
    lines = []
    for axis in ("top-k", "grid", "matching"):
        if len(mine := _decade(rows, axis)) > 2:
            last = mine[-1]
            lines.append(
                f"- {axis}: {_time(float(last['round_us']))} per round and {float(last['peak_MB']):,.0f} MB at "
                f"d = {int(last['x']):,}; time grows as d to the power {_slope(mine)}."
            )
    if mine := _of(rows, "runs"):
        each = _column(mine, "round_us") / _column(mine, "x")
        lines.append(f"- Runs side by side: {each[-1]:.2g} us per round and run ({each[0]:.2g} with {mine[0]['x']}).")
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
                f"- {axis}, {int(far):,}: a round took {_time(us)}, {us / middle:.2f} times the prediction ({held} its "
                f"interval), and the process {mb / 1000:.1f} GB, {mb / expected:.2f} times ({also}). Construction took "
                f"{float(row['make_s']):.0f} s."
            )
    if not lines:
        return ""
    return "\n".join(["Single measurements beyond the fitted sizes:", "", *lines])


def _dense(rows: list[Row]) -> str:
    mine = _of(rows, "dense")
    if not mine:
        return "d^2 numbers."
    last = mine[-1]
    return (
        f"d^2 numbers and operations per round ({_time(float(last['round_us']))} at d = {int(last['x']):,}). At "
        f"d = 10^5 the matrix takes 80 GB."
    )


def _answers(rows: list[Row]) -> str:
    mine, listed = _of(rows, "argmax"), _of(rows, "listed")
    if not mine or not listed:
        return ""
    times = _column(mine, "round_us")
    low, high = (digits(int(row["x"]), int(row["d"])) for row in (mine[0], mine[-1]))
    return (
        f"From 10^{low:.0f} to 10^{high:.0f} answers, a round takes {_time(times.min())} to "
        f"{_time(times.max())}.\nListed answers are evaluated one by one: "
        f"{_time(float(listed[-1]['round_us']))} for {int(listed[-1]['x']):,}."
    )


def _time(us: float) -> str:
    if us < 1e3:
        return f"{us:.3g} us"
    return f"{us / 1e3:.3g} ms" if us < 1e6 else f"{us / 1e6:.3g} s"

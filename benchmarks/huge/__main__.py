"""Huge sets: `python -m benchmarks.huge` writes docs/results/huge.

Finished pieces of work are kept in docs/results/huge/raw: after an interruption the same command goes on where it was.
`--to-the-end` does the long runs instead, which may take an hour or two.
`--quick` takes about a minute and writes to build/huge-quick. With `--scheduler` the work is done by the workers of a
Dask cluster, which must run the same code; timings are then those of the workers, busy as they are.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from pathlib import Path

import numpy as np

import combopeps
from benchmarks._store import Store, package_mark
from benchmarks._work import work
from benchmarks.huge import clock, ends, page, picture, runs, solved, tables
from benchmarks.huge.scale import Scale, quick, tiny
from combopeps.errors import ComboPepsError

SECTIONS = {section.TITLE: section for section in (clock, runs, solved, ends)}
USUAL = [name for name in SECTIONS if name != ends.TITLE]


def run(scale: Scale, out: Path, only: list[str], jobs: int, scheduler: str | None, command: str) -> None:
    """The sections asked for, and the tables once all of them are there."""
    store = Store(out)
    for name in only:
        section = SECTIONS[name]
        full = section.ALONE and scale == Scale()  # clocks run one at a time, but in a rehearsal
        work(section.units(scale), store, 1 if full else jobs, scheduler, title=name)
        section.write(scale, store, out)
    ends.write(scale, store, out)  # of an interrupted `--to-the-end`, too
    if "clock" in only:
        tables.write_slopes(out)
        picture.draw(out)
    path = out / "made.json"
    made = json.loads(path.read_text()) if path.exists() else {}
    done = {name: {"command": command, "source": package_mark()} for name in only}
    made |= {
        "command": "python -m benchmarks.huge" if scale == Scale() else command,
        "combopeps": combopeps.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "sections": made.get("sections", {}) | done,
    }
    path.write_text(json.dumps(made, indent=2) + "\n")
    if all((out / f"{name}.csv").exists() for name in USUAL):
        page.write(scale, out)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.huge", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="small sizes and budgets, to look at the figures")
    parser.add_argument("--tiny", action="store_true", help="seconds, to test the machinery")
    parser.add_argument("--jobs", type=int, default=2, help="processes; the clocks of the full form run alone")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="a Dask scheduler, such as tcp://host:8786")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--only", nargs="+", choices=USUAL, default=USUAL, help="sections to run")
    which.add_argument(
        "--to-the-end", dest="only", action="store_const", const=[ends.TITLE], help="the long runs: an hour or two"
    )
    parser.add_argument("--out", type=Path, help="where results go (docs/results/huge)")
    given = parser.parse_args(argv)
    if given.jobs < 1:
        parser.error("--jobs must be at least 1")
    small = given.quick or given.tiny
    scale = tiny() if given.tiny else quick() if given.quick else Scale()
    out = given.out or Path("build/huge-quick" if small else "docs/results/huge")
    command = " ".join(["python -m benchmarks.huge", *(sys.argv[1:] if argv is None else argv)])
    start = time.perf_counter()
    try:
        run(scale, out, given.only, given.jobs, given.scheduler, command)
    except ComboPepsError as error:
        parser.exit(1, f"error: {error}\n")
    if "clock" in given.only:
        print(tables.slope_table(tables.read_csv(out / "slopes.csv")))
    print(page.summary(out))
    print(f"{(time.perf_counter() - start) / 60:.1f} minutes; tables and figure in {out}")


if __name__ == "__main__":
    main()

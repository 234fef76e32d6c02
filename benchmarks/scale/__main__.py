"""How work and memory grow: `python -m benchmarks.scale` writes docs/results/scale and docs/scale.md.

`--quick` takes about a minute and writes to build/scale-quick. It measures times and memory of this machine, one
process after the other: there is no `--jobs` and no `--scheduler`. Finished points are kept in raw, beside the tables.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

import combopeps
from benchmarks._alone import ROOT, alone
from benchmarks._store import Arrays, Store, Unit, package_mark, write_csv
from benchmarks._work import work
from benchmarks.scale import page
from benchmarks.scale.axes import AXES

ROUNDS = 200
SOURCES = (ROOT / "benchmarks/scale/axes.py", ROOT / "benchmarks/_alone.py", ROOT / "benchmarks/huge/families.py")
HEADER = ("axis", "size", "fit", "x", "d", "arms", "rounds", "round_us", "median_us", "make_s", "peak_MB")


def units(quick: bool) -> list[Unit]:
    """One for each point."""
    return [
        _unit(axis.name, size, size not in axis.beyond, 40 if quick else ROUNDS)
        for axis in AXES.values()
        for size in (axis.sizes[:3] if quick else (*axis.sizes, *axis.beyond))
    ]


def _unit(axis: str, size: int, fit: bool, rounds: int) -> Unit:
    given = {"axis": axis, "size": size, "rounds": rounds}
    return Unit(f"scale {axis} {size}", {**given, "fit": fit}, partial(_measured, given), SOURCES)


def _measured(given: dict[str, object], jobs: int) -> Arrays:
    return {key: np.asarray(value) for key, value in alone("benchmarks.scale.axes", given).items()}


def write(points: list[Unit], store: Store, out: Path) -> None:
    """growth.csv."""
    rows = []
    for unit in points:
        found = {key: float(value) for key, value in store.load(unit).items()}
        x, d, arms, rounds = (int(found[key]) for key in ("x", "d", "arms", "rounds"))
        given = tuple(unit.params[key] for key in ("axis", "size", "fit"))
        us = (found["round"] * 1e6, found["middle"] * 1e6)
        rows.append((*given, x, d, arms, rounds, *us, found["make"], found["megabytes"]))
    write_csv(out / "growth.csv", HEADER, rows)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="three sizes each, and few rounds")
    parser.add_argument("--out", type=Path, help="where results go (docs/results/scale)")
    parser.add_argument("--report", type=Path, help="where the page goes (docs/scale.md)")
    given = parser.parse_args(argv)
    out = given.out or Path("build/scale-quick" if given.quick else "docs/results/scale")
    report = given.report or (out / "scale.md" if given.quick else Path("docs/scale.md"))
    start, points, store = time.perf_counter(), units(given.quick), Store(out)
    work(points, store, title="scale")
    write(points, store, out)
    made = {
        "command": " ".join(["python -m benchmarks.scale", *(sys.argv[1:] if argv is None else argv)]),
        "combopeps": combopeps.__version__,
        "source": package_mark(),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
    (out / "made.json").write_text(json.dumps(made, indent=2) + "\n")
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(page.text(out, report))
    print(f"{(time.perf_counter() - start) / 60:.1f} minutes; growth.csv in {out}, the page is {report}")


if __name__ == "__main__":
    main()

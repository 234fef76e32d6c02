"""The paper and its rivals: `python -m benchmarks.paper --runs 500` writes docs/results/paper and docs/reproduction.md.

Finished pieces of work are kept in docs/results/paper/raw: after an interruption the same command goes on where it was.
`--quick` takes a minute or two and writes to build/paper-quick.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from tqdm import tqdm

import combopeps
from benchmarks._store import Store, package_mark
from benchmarks._work import Workers, add_options, chosen
from benchmarks._work import work as on_workers
from benchmarks.paper import blocks, clock, curves, effects, rejection, reproduction, samples, theorem, wider
from benchmarks.paper._cases import SEED
from benchmarks.paper._scale import Scale, quick, tiny

ITEMS = (samples, blocks, wider, curves, rejection, clock, theorem, effects)
ALONE = (rejection, clock)  # they measure seconds of this machine: no cluster does it
PACKAGES = ("numpy", "scipy", "numba", "joblib", "matplotlib")


def run(
    scale: Scale, out: Path, report: Path, workers: Workers, command: str, only: Sequence[str] = ()
) -> dict[str, float]:
    """Everything, or some items anew beside the files of the others; seconds spent per item in this call."""
    out.mkdir(parents=True, exist_ok=True)
    store, seconds = Store(out), defaultdict[str, float](float)
    items = [item for item in ITEMS if not only or item.TITLE in only]
    work = [(item, unit) for item in items for unit in item.units(scale)]
    if workers.scheduler is not None:
        anywhere = {store.path(unit): unit for item, unit in work if item not in ALONE}  # items share some
        on_workers(list(anywhere.values()), store, scheduler=workers.scheduler)
    with tqdm(work, unit=" units") as bar:
        for item, unit in bar:
            if unit in store:  # from an earlier call, or because two items share it
                continue
            bar.set_postfix_str(unit.name)
            start = time.perf_counter()
            store.run(unit, workers.jobs)
            seconds[item.TITLE] += time.perf_counter() - start
    for item in items:
        start = time.perf_counter()
        item.write(scale, store, out)
        seconds[item.TITLE] += time.perf_counter() - start
    made, marks = out / "made.json", {item.TITLE: package_mark() for item in items}
    about = _made(scale, command, marks)
    if only:  # the rest is what it was
        before = json.loads(made.read_text())
        about = {**before, "source": before["source"] | marks, "done anew": command}
    made.write_text(json.dumps(about, indent=2) + "\n")
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(reproduction.text(out, report))
    return seconds


def _made(scale: Scale, command: str, marks: dict[str, str]) -> dict[str, object]:
    """Seeds, versions and command line: what it takes to do it again."""
    return {
        "command": command,
        "seed": SEED,
        "runs": scale.runs,
        "spheres": scale.spheres,
        "sphere runs": scale.sphere_runs,
        "effect runs": scale.effect_runs,
        "blocks": scale.blocks,
        "cap": scale.sampler_cap,
        "combopeps": combopeps.__version__,
        "source": marks,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        **{name: version(name) for name in PACKAGES},
    }


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--runs", type=int, help="simulated runs per policy and instance (500; 40 with --quick)")
    parser.add_argument("--quick", action="store_true", help="small budgets, to look at the figures")
    parser.add_argument("--tiny", action="store_true", help="seconds, to test the machinery")
    add_options(parser)
    parser.add_argument("--out", type=Path, help="where results go (docs/results/paper)")
    parser.add_argument("--report", type=Path, help="where the reading goes (docs/reproduction.md)")
    titles = [item.TITLE for item in ITEMS]
    parser.add_argument("--only", nargs="+", choices=titles, default=(), help="these items, beside the files of others")
    given = parser.parse_args(argv)
    if given.runs is not None and given.runs < 4:
        parser.error("--runs must be at least 4")
    small = given.quick or given.tiny
    scale = tiny() if given.tiny else quick(given.runs or 40) if given.quick else Scale(given.runs or 500)
    out = given.out or Path("build/paper-quick" if small else "docs/results/paper")
    report = given.report or (out / "reproduction.md" if small else Path("docs/reproduction.md"))
    command = " ".join(["python -m benchmarks.paper", *(sys.argv[1:] if argv is None else argv)])
    seconds = run(scale, out, report, chosen(given), command, given.only)
    print("minutes spent per item:", ", ".join(f"{name} {spent / 60:.1f}" for name, spent in seconds.items()))
    print(f"{sum(seconds.values()) / 60:.1f} minutes in all; tables and figures in {out}, the reading in {report}")


if __name__ == "__main__":
    main()

"""Stopping rules measured: `python -m benchmarks.stopping [--runs 20] [--quick]`.

1. Samples, error rate, oracle calls and seconds of every rule on four instances at delta = 0.05, beside the peers.
2. Error rates at delta = 0.1 on small instances with small gaps.
3. The certified lower bound against enumeration.
4. The share of a run's time that goes into looks, on huge sets.
5. The same for two published spanning trees, at delta = 0.1.
6. The rows that an oracle of one's own is asked for, per sample.
7. Instances of others, beside their figures.
8. The certified rule beside the verified one on 30 road networks with cycles.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks._table import without_targets
from benchmarks._work import Workers, add_options, chosen
from benchmarks.stopping import correctness, cost, rivals, roads, rows, samples, tightness, trees

SECTIONS = ("samples", "trees", "correctness", "tightness", "cost", "rows", "rivals", "roads")
OUT = Path("docs/results/stopping")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="runs on the largest instance; the small ones get more")
    add_options(parser)
    parser.add_argument("--quick", action="store_true", help="a minute or two; figures are rough, nothing is written")
    parser.add_argument("--only", nargs="*", default=list(SECTIONS))
    parser.add_argument(
        "--rules", nargs="*", help="in the section samples, measure these anew, keep runs of the others"
    )
    options = parser.parse_args()
    workers = chosen(options)
    runs = 4 if options.quick else options.runs
    if not options.quick:
        OUT.mkdir(parents=True, exist_ok=True)
    sections = {
        "cost": lambda: ("What looks cost on huge sets", cost.table(2000 if options.quick else 300_000)),
        "rows": lambda: ("Oracle rows per sample, oracles of one's own", _rows(runs, workers)),
        "samples": lambda: (
            "Samples until the rule stops, delta = 0.05",
            _samples(runs, workers, options.rules, options.quick),
        ),
        "trees": lambda: ("Spanning trees, delta = 0.1", trees.table(trees.measure(runs, workers))),
        "rivals": lambda: ("Instances of others, delta = 0.05", rivals.table(2 * runs, workers)),
        "roads": lambda: (
            "Road networks with cycles, delta = 0.05",
            roads.table(roads.measure(min(runs, 4) if options.quick else 30, workers)),
        ),
        "tightness": lambda: ("Certified bound / GLR statistic", tightness.table(20 if options.quick else 500)),
        "correctness": lambda: (
            "Error rates at delta = 0.1, small gaps",
            correctness.table(20 if options.quick else 50 * runs, workers),
        ),
    }
    for name, section in sections.items():
        if name not in options.only:
            continue
        title, text = section()
        print(f"\n## {title}\n\n{text}", flush=True)
        if not options.quick:
            command = f"python -m benchmarks.stopping --runs {options.runs} --only {name}"
            made = f"Seeds 0, 1, ...; Python {sys.version.split()[0]}; `{command}`"
            (OUT / f"{name}.md").write_text(f"# {title}\n\n{without_targets(text)}\n\n{made}\n")


def _rows(runs: int, workers: Workers) -> str:
    results = rows.measure(runs, workers)
    return f"{rows.table(results)}\n\n{rows.verdict(results)}"


def _samples(runs: int, workers: Workers, rules: list[str] | None, quick: bool) -> str:
    results = samples.measure(runs, workers, rules)
    if not quick:
        samples.picture(results, OUT / "stopping.png")
        samples.write(results, samples.CSV)
    return f"{samples.table(results)}\n\n{samples.verdicts(results)}"


if __name__ == "__main__":
    main()

"""Whole answers measured at once: `python -m benchmarks.actions [--runs 200] [--quick] [--only trees routes rounds]`.

1. Two published spanning-tree instances, measured by whole trees, beside the published figures.
2. Whole routes against single roads, on three networks.
3. What a round costs, beside one argmax and d normals.

Tables go to docs/results/actions, from where docs/actions.md includes them. Seeds are fixed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks._table import without_targets
from benchmarks._work import add_options, chosen
from benchmarks.actions import rounds, routes, trees

OUT = Path("docs/results/actions")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="per row; the slowest rows get fewer")
    add_options(parser)
    parser.add_argument("--quick", action="store_true", help="some seconds; figures are rough, nothing is written")
    parser.add_argument("--only", nargs="*", default=["trees", "routes", "rounds"])
    said = parser.parse_args(arguments)
    workers = chosen(said)
    runs = 4 if said.quick else said.runs
    tables = {
        "trees": ("Spanning trees, measured whole, delta = 0.1", lambda: trees.table(runs, workers)),
        "routes": ("Whole routes and single roads", lambda: routes.table(runs, workers)),
        "rounds": ("Time of a round", lambda: rounds.table(100 if said.quick else 2000)),
    }
    for name, (title, table) in tables.items():
        if name in said.only:
            text = f"# {title}\n\n{table()}\n"
            print(f"\n{text}", flush=True)
            if not said.quick:
                OUT.mkdir(parents=True, exist_ok=True)
                (OUT / f"{name}.md").write_text(without_targets(text))


if __name__ == "__main__":
    main()

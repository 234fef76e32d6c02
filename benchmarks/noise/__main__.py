"""Noise and rows that are not as stated: `python -m benchmarks.noise [--runs 200] [--quick]`.

1. Noise larger than stated, on a road network.
2. Clicks, counts, relative noise and outliers, with several stated values of `noise_std`.
3. Results that are no linear function of the rows.

Tables go to docs/results/noise, from where the documentation includes them. Seeds are fixed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks._work import add_options, chosen
from benchmarks.noise import kinds, larger, rows

OUT = Path("docs/results/noise")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="per row; slow rows get fewer")
    add_options(parser)
    parser.add_argument("--quick", action="store_true", help="some seconds; figures are rough, nothing is written")
    parser.add_argument("--only", nargs="*", default=["noise", "kinds", "rows"])
    options = parser.parse_args()
    runs, out = (2, None) if options.quick else (options.runs, OUT)
    OUT.mkdir(parents=True, exist_ok=True)
    tables = {
        "noise": (f"The town, stated noise 1, delta = 0.05, {runs} runs each", larger.table),
        "kinds": ("Other kinds of noise, delta = 0.05", kinds.table),
        "rows": ("Results that are no linear function of the rows, delta = 0.05", rows.table),
    }
    for name, (title, table) in tables.items():
        if name in options.only:
            text = f"# {title}\n\n{table(runs, chosen(options), out)}\n"
            print(f"\n{text}", flush=True)
            if out is not None:
                (out / f"{name}.md").write_text(text)


if __name__ == "__main__":
    main()

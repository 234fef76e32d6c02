"""The two published spanning-tree instances, edge by edge, beside what a peer reads from whole trees."""

from __future__ import annotations

import functools

import numpy as np
from scipy.stats import binomtest

from benchmarks._table import markdown
from benchmarks._work import Workers
from benchmarks.stopping.runs import Run, many
from benchmarks.stopping.samples import RULES, make

DELTA = 0.1
# P-FWS measures whole trees, of 7 and 9 edges: 1,176 and 1,501 of them, as published; it stops by GLR > ln((1 + ln t) /
# delta), of which its search finds an upper end only, and was wrong in 1 % of its runs on the first.
PEERS = {"tree-e20": "P-FWS 8,237 (heuristic threshold)", "tree-e25": "P-FWS 13,509 (heuristic threshold)"}


def measure(runs: int, workers: Workers) -> dict[tuple[str, str], list[Run]]:
    """Twice as many runs as on the largest instance of `samples`."""
    return {
        (name, rule): many(functools.partial(make, name), rule, DELTA, 2 * runs, f"{name}, {rule}", workers)
        for name in PEERS
        for rule in RULES
    }


def table(results: dict[tuple[str, str], list[Run]]) -> str:
    """One row per instance and rule."""
    rows = []
    for (name, rule), runs in results.items():
        samples, seconds = np.array([run.samples for run in runs]), [run.seconds for run in runs]
        errors = sum(not run.right for run in runs)
        interval = binomtest(errors, len(runs)).proportion_ci(0.95, "exact")
        rows.append(
            [name, rule, len(runs), f"{samples.mean():,.0f} ± {2 * samples.std() / len(samples) ** 0.5:,.0f}",
             f"{errors / len(runs):.3f} [{interval.low:.3f}, {interval.high:.3f}]",
             f"{sum(run.oracle_calls for run in runs) / samples.sum():.1f}", f"{max(seconds):.1f}", PEERS[name]]
        )  # fmt: skip
    header = ["instance", "rule", "runs", "edges read ± 2 s.e.", "error rate [95 %]", "oracle calls per edge",
              "longest run, s", "peer, edges read"]  # fmt: skip
    return markdown(header, rows)

"""Samples until each rule stops, beside the peers that carry a guarantee."""

from __future__ import annotations

import csv
import functools
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

from benchmarks._table import markdown
from benchmarks._work import Workers
from benchmarks.stopping.runs import Run, many
from combopeps import Problem, load_instance
from combopeps.viz.curves import plot_stopping_times

RULES = ["posterior", "heuristic", "certified", "verified"]
INSTANCES = {"topk-paper": 10, "soare": 10, "two-nets": 10, "cyclic-matching": 10}  # and how many times the usual runs
DELTA = 0.05
CSV = Path("docs/results/stopping/samples.csv")

# Pulls and oracle calls of methods with a guarantee, delta = 0.05 (Peace, RAGE, CLUCB as published or re-run).
PEERS = {
    "topk-paper": "Peace 53,412 (521k calls), RAGE 78,786, CLUCB 102,428",
    "soare": "RAGE 21,376",
    "two-nets": "Peace 792 (265k calls)",
    "cyclic-matching": "Peace 514 (215k calls)",
}
WANTED = {
    ("topk-paper", "guaranteed"): 32_000, ("soare", "guaranteed"): 5_000,
    ("two-nets", "guaranteed"): 310, ("cyclic-matching", "guaranteed"): 480,
    ("topk-paper", "posterior"): 12_000, ("two-nets", "posterior"): 200, ("cyclic-matching", "posterior"): 300,
}  # fmt: skip
MOST_CALLS = {
    ("two-nets", "guaranteed"): 3_811, ("cyclic-matching", "guaranteed"): 4_940,
    ("two-nets", "posterior"): 26_500, ("cyclic-matching", "posterior"): 21_500,
}  # fmt: skip


def make(name: str) -> tuple[Problem, np.ndarray]:
    instance = load_instance(name)
    assert instance.theta is not None
    return instance.problem, instance.theta


def measure(runs: int, workers: Workers, rules: list[str] | None = None) -> dict[tuple[str, str], list[Run]]:
    """Runs of all rules; if some are named, those of the others are what they were."""
    before = {} if rules is None else read(CSV)
    return {
        (name, rule): many(functools.partial(make, name), rule, DELTA, runs * times, f"{name}, {rule}", workers)
        if rules is None or rule in rules
        else before[name, rule]
        for name, times in INSTANCES.items()
        for rule in RULES
    }


def write(results: dict[tuple[str, str], list[Run]], path: Path) -> None:
    """Every run."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["instance", "rule", "seed", "samples", "right", "oracle_calls", "seconds"])
        for (name, rule), done in results.items():
            for seed, run in enumerate(done):
                writer.writerow([name, rule, seed, run.samples, run.right, run.oracle_calls, f"{run.seconds:.4f}"])


def read(path: Path) -> dict[tuple[str, str], list[Run]]:
    """What `write` wrote."""
    found: dict[tuple[str, str], list[Run]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            run = Run(int(row["samples"]), row["right"] == "True", int(row["oracle_calls"]), float(row["seconds"]))
            found.setdefault((row["instance"], row["rule"]), []).append(run)
    return found


def table(results: dict[tuple[str, str], list[Run]]) -> str:
    rows = []
    for (name, rule), runs in results.items():
        samples, calls = (np.array([getattr(run, what) for run in runs]) for what in ("samples", "oracle_calls"))
        errors = sum(not run.right for run in runs)
        interval = binomtest(errors, len(runs)).proportion_ci(0.95, "exact")
        rows.append(
            [name, rule, len(runs), f"{samples.mean():,.0f} ± {2 * samples.std() / len(samples) ** 0.5:,.0f}",
             f"{np.median(samples):,.0f}", f"{errors / len(runs):.3f} [{interval.low:.3f}, {interval.high:.3f}]",
             f"{calls.mean():,.0f}", f"{calls.sum() / samples.sum():.1f}",
             f"{np.mean([run.seconds for run in runs]):.2f}"]
        )  # fmt: skip
    header = ["instance", "rule", "runs", "samples ± 2 s.e.", "median", "error rate [95 %]", "oracle calls",
              "calls per sample", "seconds"]  # fmt: skip
    return markdown(header, rows)


def verdicts(results: dict[tuple[str, str], list[Run]]) -> str:
    """The peers, and whether the wanted figures were reached."""
    rows = []
    for (name, kind), wanted in WANTED.items():
        rules = ["certified", "verified"] if kind == "guaranteed" else [kind]
        mean, rule = min((np.mean([run.samples for run in results[name, rule]]), rule) for rule in rules)
        calls = np.mean([run.oracle_calls for run in results[name, rule]])
        good = mean < wanted and calls <= MOST_CALLS.get((name, kind), np.inf)
        peer = PEERS[name] if kind == "guaranteed" else ""
        rows.append(
            [name, f"{kind} ({rule})", f"{mean:,.0f}", f"< {wanted:,}", f"{calls:,.0f}", peer, "yes" if good else "NO"]
        )
    header = ["instance", "claim", "mean samples", "wanted", "oracle calls", "peers with a guarantee", "reached"]
    return markdown(header, rows)


def picture(results: dict[tuple[str, str], list[Run]], path: Path) -> None:
    """Stopping times of every rule, one panel per instance."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    peers = {"topk-paper": ("Peace", 53_412), "soare": ("RAGE", 21_376), "two-nets": ("Peace", 792),
             "cyclic-matching": ("Peace", 514)}  # fmt: skip
    figure = Figure(figsize=(10, 6.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 2).ravel()
    for ax, name in zip(axes, INSTANCES, strict=True):
        plot_stopping_times({rule: [run.samples for run in results[name, rule]] for rule in RULES}, ax=ax)
        ax.get_legend().remove()
        peer, pulls = peers[name]
        ax.axvline(pulls, color="black", linestyle=":", linewidth=1.5)
        ax.set_xlim(right=max(ax.get_xlim()[1], 1.2 * pulls))
        ax.set_title(f"{name}, {len(results[name, RULES[0]])} runs (dotted: mean of {peer})", fontsize=10)
    figure.legend(axes[0].lines[: len(RULES)], RULES, loc="outside lower center", ncols=len(RULES), frameon=False)
    figure.suptitle("When each rule stops, delta = 0.05, beside a peer with a guarantee")
    figure.savefig(path, dpi=110)

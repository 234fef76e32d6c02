"""Item 1, Tables 1 and 2: samples until the identification rate exceeds 1 - delta.

The rate at t is the share of runs whose answer argmax_z z @ theta_hat_t is the best one; every measurement counts.
Intervals are 95 % bootstrap intervals over runs. For spheres: the mean over the drawn spheres of each sphere's figure.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks._store import Store, Unit, read_csv, write_csv
from benchmarks._table import markdown
from benchmarks.paper._cases import INSTANCES, TITLES, budget, main_simulations, policies
from benchmarks.paper._published import DELTAS, PAPER
from benchmarks.paper._scale import Scale
from combopeps.session import Trace

TITLE = "samples"
RESAMPLES = 1000
HEADER = ("instance", "policy", "delta", "samples", "low", "high", "budget", "runs", "problems", "paper")


def units(scale: Scale) -> list[Unit]:
    """All simulations."""
    return [unit for i in INSTANCES for p in policies(i) for unit in main_simulations(i, p, scale)]


def crossings(trace: Trace, level: float, rng: np.random.Generator, size: int | None = None) -> np.ndarray:
    """First checkpoint with a rate above `level`: of all runs, then of bootstrap samples of as many or `size` runs."""
    runs = len(trace.correct)
    counts = rng.multinomial(size or runs, np.full(runs, 1.0 / runs), size=RESAMPLES)
    weights = np.vstack([np.ones(runs), counts])
    rates = weights @ trace.correct / weights.sum(axis=1, keepdims=True)  # whole numbers first: 475 of 500 is not above
    above = rates > level
    return np.where(above.any(axis=1), trace.t[above.argmax(axis=1)].astype(float), np.inf)


def mean_crossing(traces: list[Trace], level: float, seed: int = 0) -> tuple[float, float, float]:
    """The mean over problems, with a 95 % interval; infinite when a problem does not get there."""
    rng = np.random.default_rng(seed)
    means = np.mean([crossings(trace, level, rng) for trace in traces], axis=0)
    low, high = np.quantile(means[1:], (0.025, 0.975), method="inverted_cdf")
    return float(means[0]), float(low), float(high)


def write(scale: Scale, store: Store, out: Path) -> None:
    """samples.csv and samples.md."""
    rows, each = [], []
    for instance in INSTANCES:
        for policy in policies(instance):
            jobs = main_simulations(instance, policy, scale)
            traces = [store.trace(unit) for unit in jobs]
            for k, delta in enumerate(DELTAS[instance]):
                found = mean_crossing(traces, 1.0 - delta)
                paper = PAPER.get((instance, policy), (np.nan,) * 3)[k]
                runs = len(traces[0].correct)
                rows.append(
                    (instance, policy, delta, *found, budget(instance, policy, scale), runs, len(jobs), float(paper))
                )
                if instance == "sphere":
                    alone = [trace.samples_to(1.0 - delta, resamples=2).samples for trace in traces]
                    each += [(k, policy, delta, samples) for k, samples in enumerate(alone)]
    write_csv(out / "samples.csv", HEADER, rows)
    write_csv(out / "spheres.csv", ("sphere", "policy", "delta", "samples"), each)
    parts = [__doc__.split("\n", 1)[1].strip()]
    parts += [f"### {TITLES[i]}\n\n{table(out / 'samples.csv', i)}" for i in INSTANCES]
    (out / "samples.md").write_text("\n\n".join(parts) + "\n")


def shown(row: dict[str, str], *, interval: bool = True) -> str:
    """One figure as a person reads it."""
    value, low, high = (float(row[key]) for key in ("samples", "low", "high"))
    limit = f"> {row['budget']}"
    if not np.isfinite(value):
        return limit
    text = f"{value:.0f}"
    return f"{text} ({low:.0f} - {f'{high:.0f}' if np.isfinite(high) else limit})" if interval else text


def published(row: dict[str, str]) -> str:
    """The paper's figure."""
    value = float(row["paper"])
    return "" if np.isnan(value) else "not reached" if np.isinf(value) else f"{value:.0f}"


def table(path: Path, instance: str) -> str:
    """Ours beside the paper's, from the CSV file."""
    rows = [row for row in read_csv(path) if row["instance"] == instance]
    header = ["policy"]
    for delta in DELTAS[instance]:
        header += [f"delta = {delta:g}", "paper"]
    body = []
    for policy in dict.fromkeys(row["policy"] for row in rows):
        mine = [row for row in rows if row["policy"] == policy]
        body.append([policy, *(cell for row in mine for cell in (shown(row), published(row)))])
    return markdown(header, body)

"""Estimated prior and noise against stated ones, until the posterior rule stops: `python -m benchmarks.prior`.

theta_i ~ N(offset, scale^2) in every run, noise relative to the scale; the same thetas for both kinds of problems. The
rule may be wrong in a share delta of the runs. Runs that reach the budget make no claim, and count with the budget.

Where all answers have the same sum (subsets of one size, matchings, trees), offset and scale change nothing but the
units, and each cell has one pair of them. Paths and general arms are measured with every pair.
"""

from __future__ import annotations

import argparse
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from scipy.stats import binomtest

from benchmarks._store import Arrays, Store, Unit, write_csv
from benchmarks._table import markdown
from benchmarks._work import add_options, work
from combopeps import (
    ArgmaxOracle,
    ExplicitOracle,
    MatchingOracle,
    Problem,
    ShortestPathOracle,
    SpanningTreeOracle,
    TopKOracle,
    identify,
)

OUT = Path("docs/results/prior")
BUDGET = 1000
DELTAS = (0.05, 0.2)
NOISES = (0.1, 1.0, 10.0)
UNITS = ((0.0, 1.0), (80.0, 10.0), (1e6, 1e-3), (1e4, 1e3))  # offset and scale
DIFFERENT_SUMS = ("path, 12 edges", "10 general arms")
_ROWS = np.random.default_rng(5).normal(size=(10, 4))
PROBLEMS: dict[str, tuple[ArgmaxOracle, Any]] = {
    "best of 4": (TopKOracle(4, k=1), None),
    "3 of 12": (TopKOracle(12, k=3), None),
    "path, 12 edges": (
        ShortestPathOracle(nx.DiGraph([(i, j) for i in range(6) for j in range(i + 1, min(6, i + 4))]), 0, 5),
        None,
    ),
    "matching 5 x 5": (MatchingOracle(5, 5), None),
    "tree, 10 edges": (SpanningTreeOracle(nx.complete_graph(5)), None),
    "10 general arms": (ExplicitOracle(_ROWS), _ROWS / np.linalg.norm(_ROWS, axis=1)[:, None]),
}


def unit(name: str, noise: float, delta: float, units: tuple[float, float], runs: int) -> Unit:
    """`runs` pairs of runs: with estimated and with stated prior and noise."""
    params = {"problem": name, "noise": noise, "delta": delta, "units": list(units), "runs": runs, "budget": BUDGET}

    def compute(jobs: int) -> Arrays:
        found = {}
        for kind in ("estimated", "stated"):
            samples, stopped, wrong = _runs(name, noise, delta, units, runs, kind == "stated")
            found |= {f"{kind} samples": samples, f"{kind} stopped": stopped, f"{kind} wrong": wrong}
        return found

    return Unit(f"prior {name} {noise:g} {delta:g} {units[0]:g} {units[1]:g}", params, compute)


def cells(runs: int) -> list[Unit]:
    """All cells of the table."""
    pieces = []
    for i, (name, noise, delta) in enumerate(product(PROBLEMS, NOISES, DELTAS)):
        for units in UNITS if name in DIFFERENT_SUMS else (UNITS[i % len(UNITS)],):
            pieces.append(unit(name, noise, delta, units, runs))
    return pieces


def _runs(
    name: str, noise: float, delta: float, units: tuple[float, float], runs: int, stated: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    (oracle, rows), (offset, scale) = PROBLEMS[name], units
    known = {"noise_std": noise * scale, "prior_mean": offset, "prior_std": scale} if stated else {}
    problem = Problem(oracle, rows, **known)
    matrix = np.eye(oracle.dim) if rows is None else rows
    index = {label: i for i, label in enumerate(problem.arms.labels)}
    found = np.zeros((3, runs))
    for seed in range(runs):
        rng = np.random.default_rng([seed, 7])
        off = scale * rng.normal(size=oracle.dim)  # from the offset
        theta = offset + off

        def measure(label: Any, rng: np.random.Generator = rng, theta: np.ndarray = theta) -> float:
            return float(matrix[index[label]] @ theta + noise * scale * rng.normal())

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = identify(problem, measure, delta=delta, budget=BUDGET, rng=seed)
        y = oracle.argmax(theta) - result.z
        stopped = result.stop_reason == "posterior"
        wrong = stopped and float(y @ off) + offset * float(y.sum()) > 1e-9 * scale
        found[:, seed] = result.samples, stopped, wrong
    return found[0], found[1], found[2]


HEADER = (
    "problem", "noise", "delta", "offset", "scale", "runs", "wrong_estimated", "wrong_stated", "low", "high",
    "samples_estimated", "samples_stated", "ratio",
)  # fmt: skip


def write(store: Store, pieces: list[Unit], out: Path) -> None:
    """Write prior.csv, with every cell, and prior.md, with one row for every problem and noise."""
    rows = []
    for one in pieces:
        data = store.load(one)
        means = [float(data[f"{kind} samples"].mean()) for kind in ("estimated", "stated")]
        wrong = [int(data[f"{kind} wrong"].sum()) for kind in ("estimated", "stated")]
        runs = len(data["stated wrong"])
        bound = binomtest(wrong[0], runs).proportion_ci(method="exact")
        cell = one.params["problem"], one.params["noise"], one.params["delta"], *one.params["units"], runs
        rows.append((*cell, *wrong, bound.low, bound.high, *means, means[0] / means[1]))
    write_csv(out / "prior.csv", HEADER, rows)
    (out / "prior.md").write_text(summary([dict(zip(HEADER, row, strict=True)) for row in rows]))


def summary(rows: list[dict[str, Any]]) -> str:
    """One row for every problem and noise: the largest error rates over offsets and scales, and all ratios."""
    body = []
    for name, noise in product(PROBLEMS, NOISES):
        texts = [name, f"{noise:g}"]
        for delta in DELTAS:
            cells = [row for row in rows if (row["problem"], row["noise"], row["delta"]) == (name, noise, delta)]
            rates = [max(row[kind] / row["runs"] for row in cells) for kind in ("wrong_estimated", "wrong_stated")]
            ratios = sorted({f"{row['ratio']:.2f}" for row in cells})
            texts += [f"{rates[0]:.1%}", f"{rates[1]:.1%}", " to ".join(dict.fromkeys((ratios[0], ratios[-1])))]
        body.append(texts)
    kinds = ("wrong, estimated", "wrong, stated", "samples, estimated / stated")
    titles = ["problem", "noise / scale", *(f"delta {delta:g}: {kind}" for delta in DELTAS for kind in kinds)]
    ratios = [row["ratio"] for row in rows]
    mean, geometric = float(np.mean(ratios)), float(np.exp(np.mean(np.log(ratios))))
    return (
        "# Error rates and samples with estimated and with stated prior and noise\n\n"
        f"{markdown(titles, body)}\n\n"
        f"{rows[0]['runs']} runs of each kind in each of {len(rows)} cells. "
        f"Mean ratio of samples: {mean:.2f}, geometric mean {geometric:.2f}.\n"
    )


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prior", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=500, help="of each kind in every cell")
    add_options(parser)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args(argv)
    given.out.mkdir(parents=True, exist_ok=True)
    store, pieces = Store(given.out), cells(given.runs)
    work(pieces, store, given.jobs, given.scheduler)
    write(store, pieces, given.out)
    print((given.out / "prior.md").read_text())


if __name__ == "__main__":
    main()

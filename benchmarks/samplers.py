"""Cost of an alternative against P(Alt): `python -m benchmarks.samplers [--quick]`.

A sequential run as a policy makes it: every round one measurement changes the posterior, and one alternative is drawn;
the answer stays the same. Each row gives the averages over all rounds, the first search for facets included. Rejection
is run while 1/P is affordable, and beyond that extrapolated from its acceptance rate (marked ~).
Writes a table, a CSV file and a picture to docs/results/samplers/.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from benchmarks._problems import FAMILIES, Problem, answer, at_probability
from benchmarks._table import markdown, without_targets
from combopeps import AlternativeSampler, TopKOracle
from combopeps.alternatives import AutoSampler, GibbsSampler, HalfSpaceSampler, HitAndRunSampler, RejectionSampler
from combopeps.alternatives.base import SamplingTask
from combopeps.posterior import GaussianPosterior

OUT = Path("docs/results/samplers")
PROBABILITIES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12)
REJECTION_DRAWS = 2_000_000  # what a rejection run may spend on one row
CHAIN_DIM = 200  # Markov chains are run up to this dimension,
AUTO_DIM = 2000  # and AutoSampler, which does here what half-spaces do, up to this one


@dataclass(frozen=True)
class Row:
    """Averages per alternative over a run."""

    family: str
    problem: str
    d: int
    p: float
    sampler: str
    rounds: int
    oracle_calls: float
    draws: float
    microseconds: float
    extrapolated: bool = False


def run(
    sampler: AlternativeSampler, problem: Problem, posterior: GaussianPosterior, rounds: int, seed: int
) -> tuple[float, float, float]:
    """Seconds, oracle calls and draws per alternative, over `rounds` rounds that each change the posterior."""
    rng = np.random.default_rng(seed)
    z_hat = answer(problem, posterior)
    seconds, calls, draws = 0.0, 0, 0
    for _ in range(rounds):
        arm = int(rng.integers(len(posterior.arms)))
        posterior.update(arm, float(posterior.arms.row(arm) @ posterior.theta_hat[0]) + rng.standard_normal())
        start = time.perf_counter()
        account = sampler.sample(posterior, problem.oracle, z_hat, 1, rng).account
        seconds += time.perf_counter() - start
        calls += account.oracle_calls
        draws += account.draws
    return seconds / rounds, calls / rounds, draws / rounds


def measure(family: str, problem: Problem, p: float, rounds: int) -> list[Row]:
    """All samplers at one P(Alt)."""
    start, rows, d = at_probability(problem, p), [], problem.oracle.dim

    def add(name: str, sampler: AlternativeSampler, rounds: int) -> None:
        seconds, calls, draws = run(sampler, problem, start.copy(), rounds, seed=1)
        rows.append(Row(family, problem.name, d, p, name, rounds, calls, draws, seconds * 1e6))

    affordable = int(REJECTION_DRAWS * p * 200 / max(200, d))
    if affordable >= 10:
        add("rejection", RejectionSampler(cap=100_000_000), min(rounds, affordable))
    else:  # cost per draw, in batches as large as a long search would use
        sampler = RejectionSampler()
        z_hat, draws = answer(problem, start), 4096 if d < 2000 else 512
        generator = np.random.default_rng(2)
        begin = time.perf_counter()
        from combopeps.posterior import RealSpace

        question = SamplingTask(start, problem.oracle, z_hat, RealSpace(), 1.0)
        sampler.search(question, draws, generator, cap=draws)
        per_draw = (time.perf_counter() - begin) / draws
        rows.append(Row(family, problem.name, d, p, "rejection", 0, 1 / p, 1 / p, per_draw / p * 1e6, True))
    add("half-space", HalfSpaceSampler(), rounds)
    if d <= AUTO_DIM:
        add("auto", AutoSampler(), rounds)
    if d <= CHAIN_DIM:
        add("hit-and-run", HitAndRunSampler(), 20)
        add("gibbs", GibbsSampler(), 20)
    return rows


def warm_up() -> None:
    """Compile every kernel before anything is timed."""
    for family, makers in FAMILIES.items():
        measure(family, makers[0](), 1e-2, 5)


def verdicts(rows: list[Row]) -> list[tuple[str, str, str, str]]:
    """What must hold, problem by problem."""
    cost = {(row.problem, row.p, row.sampler): row for row in rows}
    out = []
    for name in dict.fromkeys(row.problem for row in rows):
        mine = {p: cost[name, p, "half-space"] for p in PROBABILITIES if (name, p, "half-space") in cost}
        calls = max(row.oracle_calls for row in mine.values())
        out.append((name, "oracle calls per alternative, worst P", f"{calls:.2f}", _holds(calls <= 10, "<= 10")))
        if 1e-2 in mine and 1e-10 in mine:
            ratio = mine[1e-10].microseconds / mine[1e-2].microseconds
            out.append((name, "time at 1e-10 / time at 1e-2", f"{ratio:.2f}", _holds(ratio <= 2, "<= 2")))
        for p, wanted in ((1e-3, 10), (1e-6, 1000)):
            if p in mine:
                ratio = cost[name, p, "rejection"].microseconds / mine[p].microseconds
                out.append(
                    (name, f"rejection / half-space at {p:g}", f"{ratio:.0f}", _holds(ratio >= wanted, f">= {wanted}"))
                )
    return out


def _holds(yes: bool, wanted: str) -> str:
    return f"{wanted} {'yes' if yes else 'NO'}"


def mixing() -> str:
    """How often the best answer changes from draw to draw on a symmetric top-k problem with 27 equal facets."""
    oracle = TopKOracle(12, 3)
    problem = Problem("symmetric top-k", oracle, np.r_[np.ones(3), np.zeros(9)], prior_mean=0.0, prior_std=1.0)
    table = []
    for p in (0.3, 1e-1, 1e-2, 1e-3, 1e-6):
        posterior = at_probability(problem, p)
        z_hat = answer(problem, posterior)
        cells = [f"{p:g}"]
        for sampler in (HalfSpaceSampler(), HitAndRunSampler(), GibbsSampler()):
            answers = sampler.sample(posterior, oracle, z_hat, 400, 1).answers
            cells.append(f"{(answers[1:] != answers[:-1]).any(axis=1).mean():.2f}")
        table.append(cells)
    return markdown(["P(Alt)", "independent (half-space)", "hit-and-run", "gibbs"], table)


def plot(rows: list[Row], path: Path) -> None:
    """One panel per family at its middle size, one line per sampler."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    style = {
        "rejection": ("#D55E00", "o"),
        "half-space": ("#0072B2", "s"),
        "auto": ("#009E73", "^"),
        "hit-and-run": ("#CC79A7", "D"),
        "gibbs": ("#E69F00", "v"),
    }
    figure, axes = plt.subplots(2, 2, figsize=(9, 7), sharex=True, layout="constrained")
    for ax, family in zip(axes.flat, dict.fromkeys(row.family for row in rows), strict=False):
        names = list(dict.fromkeys(row.problem for row in rows if row.family == family))
        name = names[min(1, len(names) - 1)]
        for sampler, (colour, marker) in style.items():
            line = [row for row in rows if row.problem == name and row.sampler == sampler]
            if not line:
                continue
            p, us = [row.p for row in line], [row.microseconds for row in line]
            ax.plot(p, us, color=colour, marker=marker, markersize=4, label=sampler)
            guess = [row for row in line if row.extrapolated]
            ax.plot(
                [r.p for r in guess], [r.microseconds for r in guess], marker, color="white", markeredgecolor=colour
            )
        ax.set(xscale="log", yscale="log", title=name)
        ax.invert_xaxis()
        ax.grid(alpha=0.3)
    for ax in axes[-1]:
        ax.set_xlabel("P(Alt)")
    for ax in axes[:, 0]:
        ax.set_ylabel("microseconds per alternative")
    handles = {label: h for ax in axes.flat for h, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5, frameon=False)
    figure.suptitle("Cost of one alternative (hollow: extrapolated from the acceptance rate)")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the smallest problem of every family, 200 rounds")
    quick = parser.parse_args().quick
    rounds = 200 if quick else 1000
    problems = [(family, make) for family, makers in FAMILIES.items() for make in (makers[:1] if quick else makers)]
    warm_up()
    rows = []
    with tqdm(total=len(problems) * len(PROBABILITIES), desc="rows") as bar:
        for family, make in problems:
            problem = make()
            for p in PROBABILITIES:
                bar.set_postfix_str(f"{problem.name} {p:g}")
                rows += measure(family, problem, p, rounds)
                bar.update()
    OUT.mkdir(parents=True, exist_ok=True)
    with (OUT / "samplers.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(asdict(rows[0])))
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    header = ["problem", "P(Alt)", "sampler", "oracle calls", "draws", "us per alternative"]
    cells = [
        [
            r.problem,
            f"{r.p:g}",
            r.sampler,
            f"{r.oracle_calls:.1f}",
            f"{r.draws:.1f}",
            f"{'~' * r.extrapolated}{r.microseconds:.0f}",
        ]
        for r in rows
    ]
    text = "\n\n".join(
        [
            "# What an alternative costs",
            f"Made by `python -m benchmarks.samplers{' --quick' * quick}`, {rounds} rounds, seed 1, "
            f"numpy {np.__version__}, Python {sys.version.split()[0]}.",
            markdown(["problem", "figure", "measured", "wanted"], verdicts(rows)),
            "Share of draws whose best answer differs from the one before (symmetric top-k, 27 equal facets):",
            mixing(),
            markdown(header, cells),
        ]
    )
    (OUT / "samplers.md").write_text(without_targets(text) + "\n")
    plot(rows, OUT / "samplers.png")
    print(text)


if __name__ == "__main__":
    main()

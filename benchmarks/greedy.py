"""Greedy information beside TopTwo on the six problems of the paper's comparison: `python -m benchmarks.greedy`.

Samples until the answer is right in a share of runs, every measurement counted, the same seeds for both; 95 % bootstrap
intervals over runs. Spheres and transductive: the mean over the drawn spheres. The last column takes the better of
LinGame and LinGapE from docs/results/paper (on the same spheres; it has no figures for single ones of the transductive
problem). K4,4 is `cyclic-matching`, a seventh problem beside the six.

Finished pieces of work are kept in docs/results/greedy/raw: after an interruption the same command goes on from there.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks._store import Arrays, Store, Unit, as_arrays, read_csv, write_csv
from benchmarks._table import markdown
from benchmarks._work import add_options, work
from benchmarks.paper._cases import CHECKPOINTS, problem, recipes
from benchmarks.paper.samples import crossings
from combopeps import simulate

OUT, PAPER = Path("docs/results/greedy"), Path("docs/results/paper")
RIVALS = ("LinGame", "LinGapE")
SEED = 777
LEVELS = (0.8, 0.9, 0.95, 0.98)
POLICIES = ("greedy", "top-two")
SPHERES = 6
BUDGETS = {
    "soare": 3600, "sphere": 1500, "topk": 14_000, "3 of 50": 4600, "path": 300, "transductive": 1200, "K4,4": 400,
}  # fmt: skip
SIX = tuple(BUDGETS)[:6]


def cases(name: str) -> list[str]:
    """The recipes that a problem stands for."""
    spheres = recipes("sphere", SPHERES)
    named = {"sphere": spheres, "transductive": [f"unit {sphere}" for sphere in spheres], "path": ["two-nets"]}
    named |= {"3 of 50": ["topk:d=50,k=3,seed=0"], "K4,4": ["cyclic-matching"]}
    return named.get(name) or recipes(name, 1)


def unit(recipe: str, policy: str, runs: int, budget: int) -> Unit:
    """`runs` runs of a policy."""
    params = {"recipe": recipe, "policy": policy, "runs": runs, "budget": budget, "seed": SEED}

    def compute(jobs: int) -> Arrays:
        made = problem(recipe)
        times = np.unique(np.geomspace(1, budget, min(budget, CHECKPOINTS)).round().astype(np.int64))
        trace = simulate(
            made.problem, made.theta, policy, budget=budget, replications=runs, rng=SEED, checkpoints=times, n_jobs=jobs
        )
        return as_arrays(trace)

    return Unit(f"greedy {recipe.replace(':', ' ').replace(',', ' ')} {policy}", params, compute)


def units(name: str, policy: str, runs: int) -> list[Unit]:
    """Those of a problem."""
    named = cases(name)
    return [unit(recipe, policy, max(4, runs // len(named)), BUDGETS[name]) for recipe in named]


def with_interval(values: np.ndarray) -> tuple[float, float, float]:
    """What was measured, first in `values`, and the middle 95 % of the bootstrap."""
    low, high = np.quantile(values[1:], (0.025, 0.975), method="inverted_cdf")
    return float(values[0]), float(low), float(high)


def better_rival(name: str) -> float:
    """Samples at 95 % of the better of LinGame and LinGapE on the same problem; NaN where the paper has none."""
    if name == "sphere":
        rows = [row for row in read_csv(PAPER / "spheres.csv") if float(row["delta"]) == 0.05]
        each = [[float(row["samples"]) for row in rows if row["policy"] == rival][:SPHERES] for rival in RIVALS]
        return float(np.mean(each, axis=1).min())
    rows = [row for row in read_csv(PAPER / "wider.csv") if row["problem"] == name and row["problems"] == "1"]
    return min((float(row["samples"]) for row in rows if row["policy"] in RIVALS), default=np.nan)


def shown(samples: float, budget: int) -> str:
    """As a person reads it."""
    return f"{samples:.0f}" if np.isfinite(samples) else f"> {budget}"


def write(store: Store, runs: int, out: Path) -> None:
    """samples.csv and greedy.md."""
    rng, rows, body, ratios = np.random.default_rng(0), [], [], []
    for name in BUDGETS:
        found = {}
        for policy in POLICIES:
            traces = [store.trace(one) for one in units(name, policy, runs)]
            for level in LEVELS:
                found[policy, level] = np.mean([crossings(trace, level, rng) for trace in traces], axis=0)
                total = sum(len(trace.correct) for trace in traces)
                rows.append((name, policy, level, *with_interval(found[policy, level]), total, len(traces)))
        ratio = found["greedy", 0.95] / found["top-two", 0.95]
        ratios += [ratio] if name in SIX else []
        best = better_rival(name)
        mean = with_interval(ratio)
        cells = [" / ".join(shown(found[policy, level][0], BUDGETS[name]) for level in LEVELS) for policy in POLICIES]
        share = "" if np.isnan(best) else f"{found['greedy', 0.95][0] / best:.2f}"
        body.append([name, str(total), *cells, "{:.2f} ({:.2f} - {:.2f})".format(*mean), share])
    mean = with_interval(np.exp(np.mean(np.log(ratios), axis=0)))
    body.append(["geometric mean of six", "", "", "", "{:.2f} ({:.2f} - {:.2f})".format(*mean), ""])
    write_csv(out / "samples.csv", ("problem", "policy", "rate", "samples", "low", "high", "runs", "draws"), rows)
    header = ["problem", "runs", "greedy, 80 / 90 / 95 / 98 %", "TopTwo", "ratio at 95 %", "of the better rival"]
    (out / "greedy.md").write_text(f"# Greedy information beside TopTwo\n\n{markdown(header, body)}\n")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.greedy", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=1500, help="of each policy on each problem")
    add_options(parser)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args(argv)
    given.out.mkdir(parents=True, exist_ok=True)
    store = Store(given.out)
    pieces = [one for policy in POLICIES for name in BUDGETS for one in units(name, policy, given.runs)]
    work(pieces, store, given.jobs, given.scheduler)
    write(store, given.runs, given.out)
    print((given.out / "greedy.md").read_text())


if __name__ == "__main__":
    main()

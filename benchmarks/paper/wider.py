"""Item 1 on more problems, and with more runs: the samples of TopTwo and PEPS as a share of LinGame's and LinGapE's.

Samples to an identification rate of 95 %, and ratios of them: geometric means over the paper's three problems and over
all six, with 95 % bootstrap intervals (runs are resampled for every policy and problem). A baseline that did not attain
the rate counts with its budget. The other three problems:

- 3 of 50: the recipe `topk:d=50,k=3,seed=0`, means 0.75 to 1 for the three best and 0 to 0.5 for the others;
- path: `two-nets`, the longest path through 32 edges (Katz-Samuels and others); LinGame and LinGapE need
  a list of answers (32 paths), TopTwo and PEPS ask the path oracle;
- transductive: the answers and theta of the spheres, but what is measured is one component.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks._store import Store, Unit, read_csv, write_csv
from benchmarks._table import markdown
from benchmarks.paper._cases import INSTANCES, TITLES, main_simulations, many_runs, recipes, simulation
from benchmarks.paper._scale import Scale
from benchmarks.paper.samples import crossings, shown

TITLE = "wider"
NOTE = __doc__.split("\n", 1)[1].strip()
DELTA = 0.05
POLICIES = ("TopTwo", "PEPS projected", "LinGame", "LinGapE")
NAMES = {**TITLES, "3 of 50": "3 of 50", "path": "Path", "transductive": "Transductive"}
GROUPS = {"three": INSTANCES, "six": tuple(NAMES)}
RIVALS = ("LinGame", "LinGapE")


def simulations(problem: str, policy: str, scale: Scale) -> list[Unit]:
    """The runs of a policy on a problem, or on each of its draws; those of the tables where they are many."""
    if problem in scale.blocks and policy != "PEPS projected":
        return [many_runs(problem, policy, scale)]
    if problem in INSTANCES:
        return main_simulations(problem, policy, scale)
    if problem == "transductive":
        named, runs = [f"unit {sphere}" for sphere in recipes("sphere", scale.spheres)], scale.sphere_runs
    elif problem == "path":
        named, runs = ["listed two-nets" if policy in RIVALS else "two-nets"], scale.runs
    else:
        named, runs = ["topk:d=50,k=3,seed=0"], scale.runs
    rounds = scale.many_budgets[problem]
    if problem == "3 of 50" and policy not in RIVALS:  # dear rounds, and fewer are needed
        rounds = round(0.7 * rounds)
    return [simulation(recipe, policy, runs, rounds) for recipe in named]


def units(scale: Scale) -> list[Unit]:
    """All of them; those on Soare and top-k serve `blocks` as well."""
    return [unit for problem in NAMES for policy in POLICIES for unit in simulations(problem, policy, scale)]


def write(scale: Scale, store: Store, out: Path) -> None:
    """wider.csv, ratios.csv and wider.md."""
    rng, found, budgets, rows = np.random.default_rng(0), {}, {}, []
    for problem in NAMES:
        for policy in POLICIES:
            jobs = simulations(problem, policy, scale)
            traces = [store.trace(unit) for unit in jobs]
            means = np.mean([crossings(trace, 1.0 - DELTA, rng) for trace in traces], axis=0)
            found[problem, policy] = means
            runs, budget = len(traces[0].correct), int(traces[0].t[-1])
            rows.append((problem, policy, *_with_interval(means), budget, runs, len(jobs)))
            budgets[problem, policy] = budget
    header = ("problem", "policy", "samples", "low", "high", "budget", "runs", "problems")
    write_csv(out / "wider.csv", header, rows)
    ratios = []
    for over, problems in GROUPS.items():
        for policy in ("TopTwo", "PEPS projected"):
            for rival in RIVALS:
                each = [
                    found[problem, policy] / np.minimum(found[problem, rival], budgets[problem, rival])
                    for problem in problems
                ]
                ratios.append((over, policy, rival, *_with_interval(np.exp(np.mean(np.log(each), axis=0)))))
    write_csv(out / "ratios.csv", ("over", "policy", "rival", "ratio", "low", "high"), ratios)
    (out / "wider.md").write_text(f"{NOTE}\n\n{table(out)}\n")


def _with_interval(values: np.ndarray) -> tuple[float, float, float]:
    """What was measured, first in `values`, and the middle 95 % of the bootstrap."""
    low, high = np.quantile(values[1:], (0.025, 0.975), method="inverted_cdf")
    return float(values[0]), float(low), float(high)


def table(out: Path) -> str:
    """Samples by problem, then the ratios."""
    rows, ratios = read_csv(out / "wider.csv"), read_csv(out / "ratios.csv")
    body = []
    for problem, name in NAMES.items():
        mine = [row for row in rows if row["problem"] == problem]
        body.append([name, " / ".join(row["runs"] for row in mine), mine[0]["problems"], *map(shown, mine)])
    samples = markdown(["problem", "runs of the four", "draws", *POLICIES], body)
    body = [
        [f"{row['policy']} / {row['rival']}", row["over"], "{:.2f} ({:.2f} - {:.2f})".format(*_numbers(row))]
        for row in ratios
    ]
    return f"{samples}\n\n{markdown(['samples of', 'problems', 'geometric mean of ratios'], body)}"


def _numbers(row: dict[str, str]) -> tuple[float, float, float]:
    return float(row["ratio"]), float(row["low"]), float(row["high"])

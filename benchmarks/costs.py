"""What it saves to know what measurements cost: `python -m benchmarks.costs [--quick] [--runs N]`.

A policy that knows the costs, against the same policy that takes them for equal and pays them all the same: expected
cost until 95 % of the runs are right, on three instances with costs from 1 to 10. Beside it what the lower bound says:

    (1 / tau* with costs) / (sum_x lam_x cost_x / tau* without)

Writes docs/results/costs/costs.csv and costs.md, which docs/costs.md shows. Seeds are fixed.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import exp, hypot, inf, isfinite, log
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._table import markdown, without_targets
from combopeps import PEPS, Policy, Problem, TopTwo, load_instance, lower_bound, simulate
from combopeps.session import Trace
from combopeps.session.trace import Crossing

OUT = Path("docs/results/costs")
LEVEL = 0.95
POLICIES: dict[str, type[Policy]] = {"TopTwo": TopTwo, "PEPS": PEPS}
PREDICTED, WANTED, NEVER = 0.6, 0.7, 1.05  # where at most this is predicted, at most that is wanted; never above
HEADER = ("instance", "costs", "policy", "runs", "predicted", "measured", "low", "high", "aware", "blind")

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Place:
    """An instance, its noise, and how many measurements a run takes."""

    name: str
    noise: float
    budget: int
    share: float = 1.0  # of the runs

    def problem(self) -> tuple[Problem, Floats]:
        """The problem and the truth."""
        made = load_instance(self.name)
        return made.problem.copy_with(noise_std=self.noise), np.asarray(made.theta)


# The noise of the paper's top-k instance is 1: with a quarter of it a run takes a sixteenth of the measurements.
PLACES = (Place("soare", 1.0, 4000), Place("topk-paper", 0.25, 1500, 0.5), Place("two-nets", 1.0, 220, 0.5))
LESS = {"PEPS": 0.5}  # share of the runs of a policy of which nothing was wanted


def twins(problem: Problem, noise: float) -> Problem:
    """Every arm twice; the second has this share of the noise."""
    K, d = len(problem.arms), problem.oracle.dim
    rows = np.stack([problem.arms.dot(unit) for unit in np.eye(d)], axis=1)
    std = np.concatenate([problem.noise, noise * problem.noise])
    rows = np.concatenate([rows, rows])
    assert rows.shape == (2 * K, d)
    return Problem(problem.oracle, rows, std, problem.space, prior_std=problem.prior_std, prior_mean=0.0)


Pattern = tuple[float | None, Callable[[Floats], Floats]]  # noise of the twins, and costs for the shares of tau*


def _second(cost: float) -> Callable[[Floats], Floats]:
    return lambda lam: np.repeat([1.0, cost], len(lam) // 2)


PATTERNS: dict[str, Pattern] = {
    "random": (None, lambda lam: 10.0 ** np.random.default_rng(1).random(len(lam))),
    "10 where most is measured": (None, lambda lam: np.where(lam > np.median(lam), 10.0, 1.0)),
    "10 where least is measured": (None, lambda lam: np.where(lam > np.median(lam), 1.0, 10.0)),
    "twins, 0.9 of the noise for 10": (0.9, _second(10.0)),
    "twins, 0.5 of the noise for 10": (0.5, _second(10.0)),
    "twins, 0.9 of the noise for 2.5": (0.9, _second(2.5)),
}


class Blind:
    """Runs of a policy that takes costs for equal; what it had measured at every checkpoint is priced afterwards."""

    def __init__(self, problem: Problem, theta: Floats, kind: type[Policy], budget: int, runs: int) -> None:
        seen: list[NDArray[np.int64]] = []

        class Watched(kind):  # type: ignore[valid-type, misc]
            """Notes down what it has measured whenever it is asked what it has spent."""

            @property
            def spent(self) -> Floats:
                seen.append(self.pulls.copy())
                return np.asarray(self.pulls.sum(axis=1), dtype=np.float64)

        self.trace = simulate(problem, theta, Watched, budget=budget, replications=runs, rng=0)
        at = len(self.trace.t)
        groups = [np.stack(seen[i : i + at], axis=1) for i in range(0, len(seen), at)]
        self.pulls = np.concatenate(groups)  # runs x checkpoints x arms

    def priced(self, cost: Floats) -> Trace:
        """As if each measurement had cost this."""
        return replace(self.trace, cost=self.pulls @ cost)


def predicted(problem: Problem, theta: Floats, cost: Floats) -> float:
    """What the lower bound says costs aware, over blind."""
    blind, lam = lower_bound(problem, theta)
    aware, _ = lower_bound(problem.copy_with(cost=cost), theta)
    return float((1.0 / aware) / (np.asarray(lam) @ cost / blind))


def cost_to(trace: Trace) -> Crossing:
    """Of runs that keep their last answer: some end long before others have spent as much."""
    cost = trace.cost.copy()
    cost[:, -1] = cost[:, -1].max()
    return replace(trace, cost=cost).cost_to(LEVEL)


def ratio(aware: Crossing, blind: Crossing) -> tuple[float, float, float]:
    """Of two crossings, with an interval from theirs, as if both were symmetric in the logarithm."""
    if not isfinite(aware.samples + blind.samples):
        return inf, 0.0, inf
    middle = log(aware.samples / blind.samples)
    down = hypot(log(aware.low / aware.samples), log(blind.high / blind.samples)) if isfinite(blind.high) else inf
    up = hypot(log(aware.high / aware.samples), log(blind.low / blind.samples)) if isfinite(aware.high) else inf
    return exp(middle), exp(middle - down), exp(middle + up)


def compare(place: Place, policy: str, runs: int, patterns: dict[str, Pattern]) -> Iterator[dict[str, Any]]:
    """Rows of the table, one for each pattern of costs."""
    plain, theta = place.problem()
    blind: dict[float | None, Blind] = {}
    for name, (noise, costs) in patterns.items():
        problem = plain if noise is None else twins(plain, noise)
        cost = costs(np.asarray(lower_bound(problem, theta).allocation))
        if noise not in blind:
            blind[noise] = Blind(problem, theta, POLICIES[policy], place.budget, runs)
        priced = problem.copy_with(cost=cost)
        trace = simulate(priced, theta, POLICIES[policy], budget=place.budget, replications=runs, rng=1)
        aware, other = cost_to(trace), cost_to(blind[noise].priced(cost))
        values = (predicted(problem, theta, cost), *ratio(aware, other), aware.samples, other.samples)
        yield dict(zip(HEADER, (place.name, name, policy, runs, *values), strict=True))


def holds(row: dict[str, Any]) -> str:
    """Whether what was wanted is met; unless the whole interval says so it is a matter of chance."""
    limit = WANTED if row["predicted"] <= PREDICTED else NEVER
    word = "yes" if row["measured"] <= limit else "NO"
    return f"<= {limit:g} {word}" + ("" if row["low"] > limit or row["high"] <= limit else ", within chance")


def cells(row: dict[str, Any]) -> list[str]:
    """A row of the page."""
    interval = f"{row['measured']:.2f} ({row['low']:.2f} to {row['high']:.2f})" if isfinite(row["measured"]) else "-"
    wanted = "-" if row["policy"] in LESS else holds(row)
    spent = [f"{row[key]:,.0f}" if isfinite(row[key]) else "not reached" for key in ("aware", "blind")]
    return [row["instance"], row["costs"], row["policy"], *spent, f"{row['predicted']:.2f}", interval, wanted]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs, written nowhere")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--only", help="one instance, written nowhere")
    parser.add_argument("--policy", choices=POLICIES, action="append", help="by default all; else written nowhere")
    said = parser.parse_args(arguments)
    rows = []
    for place in PLACES:
        for policy in said.policy or POLICIES:
            if said.only in (None, place.name):
                runs = max(10, round(place.share * LESS.get(policy, 1.0) * said.runs * (0.1 if said.quick else 1.0)))
                for row in compare(place, policy, runs, PATTERNS):
                    rows.append(row)
                    print(*cells(row), sep="   ", flush=True)
    if not (said.quick or said.only or said.policy):
        write(rows, said.runs)


def write(rows: list[dict[str, Any]], runs: int) -> None:
    """The figures as they are, and a table for people."""
    OUT.mkdir(parents=True, exist_ok=True)
    with (OUT / "costs.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, HEADER, lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in row.items()} for row in rows
        )
    header = ["instance", "costs", "policy", "cost, aware", "cost, blind", "predicted", "measured ratio", "wanted"]
    title = f"# Knowing the costs, or not\n\nMade by `python -m benchmarks.costs --runs {runs}`."
    (OUT / "costs.md").write_text(f"{title}\n\n{without_targets(markdown(header, map(cells, rows)))}\n")


if __name__ == "__main__":
    main()

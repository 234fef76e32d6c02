"""Time per round and per simulation: `python -m benchmarks.policies [--quick]`.

1. `simulate` on the paper's top-k instance: 500 runs x 30,000 rounds on two processes.
2. One round (ask, measure, tell) of a single run, beside the cost of one argmax plus one draw of d standard normals,
   measured in the same run; and the last tenth of the rounds beside the first.
3. The sphere with K = 50 ... 20,000 arms, beside the paper's milliseconds per round (Julia, another machine).
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import numpy as np
from tqdm import tqdm

from benchmarks._problems import grid_oracle
from benchmarks._table import markdown, without_targets
from benchmarks._timing import best_times
from combopeps import (
    PEPS,
    ArgmaxOracle,
    ExplicitOracle,
    MatchingOracle,
    Policy,
    Problem,
    Session,
    SpanningTreeOracle,
    TopKOracle,
    TopTwo,
    simulate,
)

OUT = Path("docs/results/policies")
PAPER_MS = {50: 0.132, 200: 0.484, 1000: 0.681, 5000: 3.77, 10000: 6.71, 20000: 17.11}
POLICIES: dict[str, type[Policy]] = {"TopTwo": TopTwo, "PEPS": PEPS}
FACTOR = {"TopTwo": 4.0, "PEPS": 8.0}


def topk_simulation(runs: int, rounds: int) -> list[list[str]]:
    """Wall time of the paper's top-k simulation."""
    theta = 1.0 - 0.05 * np.arange(12)
    rows = []
    for name, wanted in (("top-two", 60), ("peps", 120)):
        simulate(TopKOracle(12, 3), theta, name, budget=20, replications=4, n_jobs=2)  # compile and start workers
        start = time.perf_counter()
        trace = simulate(TopKOracle(12, 3), theta, name, budget=rounds, replications=runs, n_jobs=2, rng=1)
        seconds = time.perf_counter() - start
        limit = wanted * runs * rounds / (500 * 30_000)
        reached = trace.samples_to(0.9)
        rows.append(
            [name, f"{runs} x {rounds}", f"{seconds:.1f}", f"{seconds / runs / rounds * 1e6:.2f}",
             f"{reached.samples:g}", f"<= {limit:.0f} {'yes' if seconds <= limit else 'NO'}"]
        )  # fmt: skip
    return rows


def instances() -> dict[str, tuple[ArgmaxOracle, np.ndarray, float, int]]:
    """Oracle, theta, noise and rounds: visible gaps, so that the run gets certain before it ends."""
    rng = np.random.default_rng(0)
    grid10, grid100 = grid_oracle(10), grid_oracle(100)
    matching, trees = MatchingOracle(100, 100), SpanningTreeOracle(nx.complete_graph(100))
    return {
        "top-k 12 choose 3": (TopKOracle(12, 3), 1.0 - 0.05 * np.arange(12), 0.3, 6000),
        "grid 10 x 10": (grid10, _planted_route(grid10, rng), 0.3, 6000),
        "grid 100 x 100": (grid100, _planted_route(grid100, rng), 0.3, 4000),
        "matching 100 x 100": (matching, np.eye(100).ravel(), 0.3, 3000),
        "trees of 100 nodes": (trees, 1.5 + trees.argmax(rng.uniform(size=trees.dim)), 0.3, 3000),
        "top-k 100000 choose 100": (TopKOracle(100_000, 100), np.r_[np.full(100, 3.0), np.zeros(99_900)], 0.3, 600),
    }


def _planted_route(oracle: ArgmaxOracle, rng: np.random.Generator) -> np.ndarray:
    theta = rng.uniform(1.0, 2.0, oracle.dim)
    theta[oracle.argmax(rng.uniform(size=oracle.dim)) != 0] = 0.5
    return theta


def round_times(
    policy: Policy, theta: np.ndarray, rounds: int, seed: int, clock: Callable[[], float] = time.perf_counter
) -> np.ndarray:
    """Seconds of every round, measuring left out."""
    rng = np.random.default_rng(seed)
    arms = policy.problem.arms
    means = theta[arms.component] * arms.coefficient if arms.matrix is None else arms.matrix @ theta
    session, seconds = Session(policy.problem, policy=policy), np.empty(rounds)
    for t in range(rounds):
        start = clock()
        query = session.ask()
        middle = clock()
        y = means[query.arm] + policy.problem.noise_std * rng.standard_normal()
        resume = clock()
        session.tell(query, float(y), confirm=True)
        seconds[t] = middle - start + clock() - resume
    return seconds


def single_runs(quick: bool) -> list[list[str]]:
    """One run of every policy on every instance."""
    rows = []
    for name, (oracle, theta, noise, rounds) in tqdm(instances().items(), desc="single runs"):
        rng = np.random.default_rng(1)
        floor = best_times(
            {
                "argmax": lambda o=oracle, g=rng: o.argmax(g.standard_normal(o.dim)),
                "normals": lambda o=oracle, g=rng: g.standard_normal(o.dim),
            }
        )["argmax"]
        for kind, make in POLICIES.items():
            round_times(
                make(Problem(oracle, noise_std=noise, prior_mean=0.0, prior_std=1.0), rng=0), theta, 30, seed=0
            )  # compile
            seconds = round_times(
                make(Problem(oracle, noise_std=noise, prior_mean=0.0, prior_std=1.0), rng=2),
                theta,
                rounds // 4 if quick else rounds,
                seed=3,
            )
            tenth = max(1, len(seconds) // 10)
            mean, growth = seconds.mean(), seconds[-tenth:].mean() / seconds[:tenth].mean()
            small = name in ("top-k 12 choose 3", "grid 10 x 10")
            limit = 150e-6 if small else FACTOR[kind] * floor + 150e-6
            rows.append(
                [name, kind, f"{floor * 1e6:.0f}", f"{mean * 1e6:.0f}", f"{np.median(seconds) * 1e6:.0f}",
                 f"<= {limit * 1e6:.0f} {'yes' if mean <= limit else 'NO'}",
                 f"{growth:.2f}", f"{_megabytes():.0f}"]
            )  # fmt: skip
    return rows


def sphere_sweep(quick: bool) -> list[list[str]]:
    """Milliseconds per round against the number of arms."""
    rows = []
    for K, paper in tqdm(PAPER_MS.items(), desc="sphere"):
        rng = np.random.default_rng(K)
        points = rng.normal(size=(K, 6))
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        problem = Problem(ExplicitOracle(points), arms=points, noise_std=1.0, prior_mean=0.0, prior_std=1.0)
        cells = [str(K), f"{paper:.3f}"]
        for make in (PEPS, TopTwo):
            seconds = round_times(make(problem, rng=0), points[0], 100 if quick else 400, seed=1)[10:]
            cells += [f"{seconds.mean() * 1e3:.3f}", f"{paper / (seconds.mean() * 1e3):.1f}"]
        rows.append(cells)
    return rows


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the simulation, a quarter of the rounds")
    quick = parser.parse_args().quick
    parts = [
        "# Time per round",
        f"Made by `python -m benchmarks.policies{' --quick' * quick}`, numpy {np.__version__}, "
        f"Python {sys.version.split()[0]}.",
        markdown(
            ["policy", "runs x rounds", "seconds", "us per round", "samples to 90 %", "wanted"],
            topk_simulation(100 if quick else 500, 15_000 if quick else 30_000),
        ),
        markdown(
            ["instance", "policy", "argmax + d normals, us", "mean us per round", "median", "wanted",
             "last tenth / first", "peak MB"],
            single_runs(quick),
        ),
        markdown(["K", "paper's PEPS, ms", "PEPS, ms", "ratio", "TopTwo, ms", "ratio"], sphere_sweep(quick)),
    ]  # fmt: skip
    OUT.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join(parts) + "\n"
    (OUT / "policies.md").write_text(without_targets(text))
    print(text)


if __name__ == "__main__":
    main()

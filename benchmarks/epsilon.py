"""What an epsilon saves under the guaranteed rule, on 10 networks and 5 other sets: `python -m benchmarks.epsilon`.

The noise is such that the lower bound of every problem is about 200 measurements at delta = 0.05 and epsilon = 0.
Epsilons are shares of the standard deviation of theta over its components; all of them see the same seeds.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path

import networkx as nx
import numpy as np

from benchmarks._store import Arrays, Store, Unit, write_csv
from benchmarks._table import markdown
from benchmarks._work import add_options, work
from combopeps import (
    ArgmaxOracle,
    MatchingOracle,
    Problem,
    ShortestPathOracle,
    TopKOracle,
    identify,
    load_instance,
    lower_bound,
)
from combopeps.stopping import least_expected_cost

OUT = Path("docs/results/epsilon")
SHARES = (0.0, 0.01, 0.1, 0.5)
SAMPLES, DELTA, BUDGET = 200.0, 0.05, 100_000
Case = tuple[ArgmaxOracle, np.ndarray]


def _library(name: str) -> Case:
    instance = load_instance(name)
    return instance.problem.oracle, np.asarray(instance.theta)


def _streets(side: int, seed: int) -> Case:
    oracle = ShortestPathOracle(nx.grid_2d_graph(side, side), (0, 0), (side - 1, side - 1))
    return oracle, np.random.default_rng(seed).uniform(0.5, 1.5, oracle.dim)


def _roads(nodes: int, seed: int) -> Case:
    """A random geometric graph, from one corner to the other; travel times are distances times a factor."""
    graph = nx.random_geometric_graph(nodes, 1.8 / nodes**0.5, seed=seed)
    place = nx.get_node_attributes(graph, "pos")
    graph = graph.subgraph(max(nx.connected_components(graph), key=len))
    begin, end = (min(graph, key=lambda node: np.hypot(*(np.array(place[node]) - at))) for at in (0.0, 1.0))
    oracle = ShortestPathOracle(nx.Graph(graph.edges), begin, end)
    length = np.array([np.hypot(*(np.array(place[u]) - np.array(place[v]))) for u, v in oracle.components])
    return oracle, length * np.random.default_rng(seed).uniform(0.7, 1.3, oracle.dim)


def _drawn(oracle: ArgmaxOracle, seed: int) -> Case:
    return oracle, np.random.default_rng(seed).uniform(0.0, 2.0, oracle.dim)


PROBLEMS: dict[str, Callable[[], Case]] = {
    "nsfnet": lambda: _library("nsfnet"),
    "town": lambda: _library("town"),
    "two-nets": lambda: _library("two-nets"),
    "grid-10": lambda: _library("grid-10"),
    "streets 6 x 6": lambda: _streets(6, 5),
    "streets 8 x 8": lambda: _streets(8, 1),
    "streets 12 x 12": lambda: _streets(12, 2),
    "roads, 60 nodes": lambda: _roads(60, 1),
    "roads, 120 nodes": lambda: _roads(120, 2),
    "roads, 250 nodes": lambda: _roads(250, 3),
    "5 of 30": lambda: (TopKOracle(30, k=5), np.linspace(0.0, 3.0, 30)),
    "10 of 60": lambda: _drawn(TopKOracle(60, k=10), 4),
    "matching 6 x 6": lambda: _drawn(MatchingOracle(6, 6), 0),
    "tree-e20": lambda: _library("tree-e20"),
    "partition-10": lambda: _library("partition-10"),
}


def problem_of(name: str) -> tuple[Problem, np.ndarray]:
    """The problem, with the noise that makes its lower bound `SAMPLES`, and theta."""
    oracle, theta = PROBLEMS[name]()
    least = least_expected_cost(lower_bound(Problem(oracle, noise_std=1.0), theta, relative_gap=0.3).upper, DELTA)
    noise = float(np.sqrt(SAMPLES / least))
    return Problem(oracle, noise_std=noise, prior_mean=float(theta.mean()), prior_std=float(theta.std())), theta


def unit(name: str, share: float, runs: int) -> Unit:
    """`runs` runs of one problem with one epsilon."""

    def compute(jobs: int) -> Arrays:
        problem, theta = problem_of(name)
        epsilon, noise = share * float(theta.std()), float(problem.noise[0])
        means = dict(zip(problem.arms.labels, problem.arms.dot(theta), strict=True))
        best = float(problem.oracle.argmax(theta) @ theta)
        samples, wrong = np.zeros(runs), np.zeros(runs, dtype=bool)
        for seed in range(runs):
            drawn = np.random.default_rng([seed, 1])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = identify(
                    problem,
                    lambda arm, drawn=drawn: means[arm] + noise * drawn.normal(),
                    stopping="guaranteed",
                    delta=DELTA,
                    epsilon=epsilon,
                    budget=BUDGET,
                    rng=seed,
                )
            samples[seed] = result.samples if result.evidence.stop else np.nan
            wrong[seed] = best - float(result.z @ theta) > epsilon + 1e-9
        return {"samples": samples, "wrong": wrong}

    params = {"problem": name, "share": share, "runs": runs, "budget": BUDGET, "samples": SAMPLES}
    return Unit(f"epsilon {name} {share:g}", params, compute)


def write(store: Store, pieces: list[Unit], out: Path) -> None:
    """epsilon.csv and epsilon.md: mean samples, and their ratio to those without an epsilon."""
    found = {(one.params["problem"], one.params["share"]): store.load(one) for one in pieces}
    rows, body = [], []
    for name in PROBLEMS:
        without = found[name, 0.0]["samples"]
        cells = [name]
        for share in SHARES:
            samples, wrong = found[name, share]["samples"], int(found[name, share]["wrong"].sum())
            ratio = samples.mean() / without.mean()
            error = ratio * np.hypot(*(np.std(each, ddof=1) / np.mean(each) for each in (samples, without)))
            error /= len(samples) ** 0.5
            rows.append((name, share, len(samples), samples.mean(), ratio, error, wrong))
            said = f"{samples.mean():,.0f}"
            cells.append(said if share == 0.0 else f"{said} ({ratio:.2f} ± {error:.2f})")
        body.append(cells)
    write_csv(out / "epsilon.csv", ("problem", "share", "runs", "samples", "ratio", "error", "wrong"), rows)
    titles = ["problem", "0", *(f"{share:g}" for share in SHARES[1:])]
    title = "# Mean samples of the guaranteed rule, by epsilon in standard deviations of theta (ratio to epsilon = 0)"
    (out / "epsilon.md").write_text(f"{title}\n\n{markdown(titles, body)}\n")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.epsilon", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=20, help="of each problem and epsilon")
    add_options(parser)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args(argv)
    given.out.mkdir(parents=True, exist_ok=True)
    store = Store(given.out)
    pieces = [unit(name, share, given.runs) for name, share in product(PROBLEMS, SHARES)]
    work(pieces, store, given.jobs, given.scheduler)
    write(store, pieces, given.out)
    print((given.out / "epsilon.md").read_text())


if __name__ == "__main__":
    main()

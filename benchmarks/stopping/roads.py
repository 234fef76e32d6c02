"""Road networks with cycles: the certified rule beside the verified one, run by run.

Crossings lie at random in a square and are joined to near ones. Two thirds of the roads are two-way, and every
direction has a length of its own. A measurement has a tenth of the length as noise; what is known beforehand is the
distance.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import networkx as nx
import numpy as np
from scipy.spatial import Delaunay

from benchmarks._table import markdown
from benchmarks._work import Workers
from combopeps import Problem, ShortestPathOracle, identify
from combopeps.oracles.base import has_equal_value

DELTA, NOISE = 0.05, 0.1
BUDGET = 300_000
ENOUGH = 6.0  # budget of the certified rule, in samples of the verified one: more than is wanted of it
RULES = ("verified", "certified")


class Trip(NamedTuple):
    """How one run ended."""

    edges: int
    samples: int
    ended: bool
    right: bool
    seconds: float


def network(seed: int) -> tuple[Problem, np.ndarray]:
    """A problem with 1,000 to 3,000 directed edges, and the lengths."""
    rng = np.random.default_rng([seed, 17])
    points = rng.uniform(size=(int(rng.integers(400, 1020)), 2))
    graph, near = nx.DiGraph(), Delaunay(points)
    pairs = {tuple(sorted((int(t[i]), int(t[i - 1])))) for t in near.simplices for i in range(3)}
    for u, v in sorted(pairs):
        if rng.random() < 0.6:
            graph.add_edges_from(((u, v), (v, u)) if rng.random() < 2 / 3 else [((u, v), (v, u))[rng.integers(2)]])
    graph = graph.subgraph(max(nx.strongly_connected_components(graph), key=len))
    source, target = (min(graph, key=lambda v, at=at: np.abs(points[v] - at).sum()) for at in (0.15, 0.85))
    oracle = ShortestPathOracle(graph, source, target)
    ends = np.array(oracle.components)
    distance = np.linalg.norm(points[ends[:, 0]] - points[ends[:, 1]], axis=1)
    theta = distance * rng.uniform(1.0, 2.0, oracle.dim)
    return Problem(oracle, noise_std=NOISE * theta, prior_mean=1.5 * distance, prior_std=0.5 * distance), theta


def one(seed: int, rule: str, budget: int = BUDGET) -> Trip:
    """One run; the network, the noise and the policy all hang on the seed."""
    problem, theta = network(seed)
    lengths, nature = dict(zip(problem.arms.labels, theta, strict=True)), np.random.default_rng([seed, 1])
    start = time.perf_counter()
    result = identify(
        problem,
        lambda road: lengths[road] * (1.0 + NOISE * nature.normal()),
        delta=DELTA,
        stopping=rule,
        budget=budget,
        rng=seed,
    )
    seconds = time.perf_counter() - start
    right = has_equal_value(result.z, problem.oracle.argmax(theta), theta)
    return Trip(problem.oracle.dim, result.samples, result.stop_reason == rule, right, seconds)


Results = dict[str, list[Trip]]


def measure(networks: int, workers: Workers, budget: int = BUDGET) -> Results:
    """Networks 0, 1, ..., with both rules."""
    found: Results = {}
    budgets = [budget] * networks
    for rule in RULES:
        tasks = ((seed, rule, most) for seed, most in enumerate(budgets))
        found[rule] = workers.spread(one, tasks, f"roads, {rule}")
        budgets = [min(budget, int(ENOUGH * trip.samples)) for trip in found[rule]]
    return found


def table(results: Results) -> str:
    """A row for each network, and what the ratios come to; a run that its budget ended would have taken more."""
    rows, ratios = [], []
    for seed, (verified, certified) in enumerate(zip(*(results[rule] for rule in RULES), strict=True)):
        ratios.append(certified.samples / verified.samples)
        ended = ["" if trip.ended else " (budget)" for trip in (verified, certified)]
        rows.append(
            [seed, f"{verified.edges:,}", f"{verified.samples:,}{ended[0]}", f"{certified.samples:,}{ended[1]}",
             f"{ratios[-1]:.2f}", f"{verified.seconds:.1f}", f"{certified.seconds:.1f}"]
        )  # fmt: skip
    header = ["network", "edges", "verified", "certified", "ratio", "verified, s", "certified, s"]
    return f"{markdown(header, rows)}\n\n{verdict(results, np.array(ratios))}"


def verdict(results: Results, ratios: np.ndarray) -> str:
    """Right answers, and ratios."""
    right = ", ".join(f"{rule} {sum(trip.right for trip in done)} of {len(done)}" for rule, done in results.items())
    return f"Right: {right}. Certified / verified: median {np.median(ratios):.2f}, largest {ratios.max():.2f}."

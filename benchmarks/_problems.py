"""Posteriors of any size at a wanted P(Alt), for the sampler benchmarks and for statistical tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log

import networkx as nx
import numpy as np

from combopeps import ArgmaxOracle, ExplicitOracle, MatchingOracle, ShortestPathOracle, TopKOracle
from combopeps.alternatives import HalfSpaceSampler, current_answer
from combopeps.posterior import Arms, GaussianPosterior

COUNT = 1_000_000  # measurements of every arm behind a posterior: one more changes it, and P(Alt) hardly at all


@dataclass(frozen=True)
class Problem:
    """An oracle, its arms (None: one per component), and the shape of theta."""

    name: str
    oracle: ArgmaxOracle
    theta: np.ndarray
    arms: np.ndarray | None = None

    def posterior(self, scale: float) -> GaussianPosterior:
        """What many noiseless measurements of scale * theta leave behind."""
        arms = Arms.of(self.oracle, self.arms)
        posterior = GaussianPosterior.start(arms)
        for arm in range(len(arms)):
            posterior.update(arm, float(arms.row(arm) @ self.theta) * scale, count=COUNT)
        return posterior


def at_probability(problem: Problem, p: float) -> GaussianPosterior:
    """The posterior under which the current answer is wrong with probability p: theta is scaled until it is."""
    oracle, sampler = problem.oracle, HalfSpaceSampler(max_rays=512)
    z_hat = oracle.argmax(problem.theta)

    reference = problem.posterior(1.0)

    def log_p(scale: float) -> float:
        # Scaling theta is dividing the covariance: no need to build a posterior for each trial.
        return sampler.probability(reference, oracle, z_hat, 0, draws=300, eta=scale * scale).log_probability

    high = 1.0
    while log_p(high) > log(p):
        high *= 2.0
    low = high / 2.0
    while log_p(low) < log(p):
        low, high = low / 2.0, low
    for _ in range(8):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if log_p(middle) > log(p) else (low, middle)
    return problem.posterior(high)


def answer(problem: Problem, posterior: GaussianPosterior) -> np.ndarray:
    return current_answer(posterior, problem.oracle)


def grid_oracle(n: int) -> ShortestPathOracle:
    """Monotone paths across an n x n grid."""
    graph = nx.grid_2d_graph(n, n, create_using=nx.DiGraph)
    graph.remove_edges_from([(u, v) for u, v in graph.edges if sum(v) < sum(u)])
    return ShortestPathOracle(graph, (0, 0), (n - 1, n - 1))


def topk(d: int, k: int) -> Problem:
    rng = np.random.default_rng(d)
    return Problem(f"top-k {d} choose {k}", TopKOracle(d, k), rng.permutation(np.linspace(1.0, 0.0, d)))


def grid(n: int) -> Problem:
    oracle = grid_oracle(n)
    return Problem(f"grid {n} x {n}", oracle, np.random.default_rng(n).uniform(0.5, 1.5, oracle.dim))


def matching(n: int) -> Problem:
    oracle = MatchingOracle(n, n)
    return Problem(f"matching {n} x {n}", oracle, np.random.default_rng(n).uniform(0.0, 1.0, oracle.dim))


def sphere(rows: int, d: int, *, dense: bool) -> Problem:
    """Answers on the unit sphere; with `dense`, they are the arms too, and the posterior has a full covariance."""
    rng = np.random.default_rng(d)
    points = rng.normal(size=(rows, d))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    theta = points[0] + 0.01 * (points[1] - points[0])
    return Problem(f"sphere |Z|={rows} d={d}", ExplicitOracle(points), theta, points if dense else None)


FAMILIES: dict[str, list[Callable[[], Problem]]] = {
    "top-k": [lambda: topk(12, 3), lambda: topk(1_000, 50), lambda: topk(20_000, 20)],
    "path": [lambda: grid(4), lambda: grid(10), lambda: grid(30), lambda: grid(100)],
    "matching": [lambda: matching(4), lambda: matching(30), lambda: matching(141)],
    "explicit": [
        lambda: sphere(50, 12, dense=True),
        lambda: sphere(200, 1_000, dense=False),
        lambda: sphere(100, 20_000, dense=False),
    ],
}

"""How close the certified lower bound comes to the GLR statistic, by enumeration of small sets."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import numpy as np

from benchmarks._problems import grid_oracle
from benchmarks._table import markdown
from combopeps import ArgmaxOracle, MatchingOracle, ShortestPathOracle, TopKOracle
from combopeps.oracles.constrained_argmax import enumerate_answers
from combopeps.stopping.certificates.lagrangian import Gaussian, lagrangian_bound


def random_dag(rng: np.random.Generator, n: int = 8) -> ShortestPathOracle:
    """A chain with random shortcuts."""
    edges = [(i, i + 1) for i in range(n - 1)]
    edges += [(i, j) for i in range(n) for j in range(i + 2, n) if rng.random() < 0.5]
    return ShortestPathOracle(nx.DiGraph(edges), 0, n - 1)


FAMILIES: dict[str, Callable[[np.random.Generator], ArgmaxOracle]] = {
    "top-k 8 choose 3": lambda rng: TopKOracle(8, 3),
    "grid 4 x 4": lambda rng: grid_oracle(4),
    "random DAGs": random_dag,
    "matching 4 x 4": lambda rng: MatchingOracle(4, 4),
    "matching 3 x 5": lambda rng: MatchingOracle(3, 5),
}


def ratios(family: str, cases: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Bound / truth without branching, and with it (target: 0.1 % below the truth)."""
    plain, branched = [], []
    while len(plain) < cases:
        oracle = FAMILIES[family](rng)
        answers = enumerate_answers(oracle, limit=5000, calls=100_000)
        assert answers is not None
        theta, variance = rng.normal(size=oracle.dim), 10.0 ** -rng.uniform(0, 4, oracle.dim)
        z_hat = oracle.argmax(theta)
        y = np.array([z for z in answers if not np.array_equal(z, z_hat)]) - z_hat
        truth = ((y @ theta) ** 2 / (2 * (y * y) @ variance)).min()
        plain.append(lagrangian_bound(oracle, z_hat, theta, Gaussian(variance)).value / truth)
        branched.append(lagrangian_bound(oracle, z_hat, theta, Gaussian(variance), target=0.999 * truth).value / truth)
    return np.array(plain), np.array(branched)


def table(cases: int) -> str:
    rng, rows = np.random.default_rng(0), []
    for family in FAMILIES:
        plain, branched = ratios(family, cases, rng)
        reached = (branched >= 0.999).mean()
        rows.append(
            [family, cases, f"{np.median(plain):.4f}", f"{plain.min():.3f}", f"{max(plain.max(), branched.max()):.9f}",
             f"{reached:.1%}"]
        )  # fmt: skip
    header = ["family", "cases", "median bound / GLR", "worst", "largest", "with branching: reaches 99.9 % of the GLR"]
    return markdown(header, rows)

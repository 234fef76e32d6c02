"""Error rates at delta = 0.1 on small instances with small gaps; rules without a guarantee get a third of the runs."""

from __future__ import annotations

import networkx as nx
import numpy as np
from scipy.stats import binomtest

from benchmarks._table import markdown
from benchmarks._work import Workers
from benchmarks.stopping.runs import Make, many
from benchmarks.stopping.samples import RULES
from combopeps import ExplicitOracle, MatchingOracle, Problem, ShortestPathOracle, TopKOracle

DELTA = 0.1
_FALSE_ALARM = 1e-3
_BUDGET = 20_000


def topk() -> tuple[Problem, np.ndarray]:
    return Problem(TopKOracle(4, k=2), noise_std=1.0, prior_mean=0.0, prior_std=1.0), np.array([0.4, 0.3, 0.0, -0.1])


def path() -> tuple[Problem, np.ndarray]:
    graph = nx.DiGraph([("s", "a"), ("s", "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"), ("c", "t"), ("d", "t")])
    oracle = ShortestPathOracle(graph, "s", "t")
    theta = np.full(oracle.dim, 0.4)
    for edge in [("s", "a"), ("a", "c"), ("c", "t")]:
        theta[oracle.index(edge)] = 0.1
    return Problem(oracle, noise_std=1.0, prior_mean=0.0, prior_std=1.0), theta


def matching() -> tuple[Problem, np.ndarray]:
    return Problem(MatchingOracle(3, 3), noise_std=1.0, prior_mean=0.0, prior_std=1.0), 0.4 * np.eye(3).ravel()


def directions() -> tuple[Problem, np.ndarray]:
    X = np.array([[1.0, 0.0], [0.0, 1.0], [np.cos(0.4), np.sin(0.4)]])
    return Problem(ExplicitOracle(X), arms=X, noise_std=1.0, prior_mean=0.0, prior_std=1.0), np.array([1.0, 0.0])


FAMILIES: dict[str, Make] = {"top-k": topk, "path": path, "matching": matching, "general arms": directions}


def table(runs: int, workers: Workers) -> str:
    rows = []
    for family, make in FAMILIES.items():
        for rule in RULES:
            guaranteed = rule in ("certified", "verified")
            count = runs if guaranteed else -(-runs // 3)
            done = many(make, rule, DELTA, count, f"{family}, {rule}", workers, _BUDGET)
            errors = sum(not run.right for run in done)
            test = binomtest(errors, count, DELTA, alternative="greater")
            interval = binomtest(errors, count).proportion_ci(0.95, "exact")
            verdict = ("yes" if test.pvalue > _FALSE_ALARM else "NO") if guaranteed else "no such claim"
            rows.append(
                [family, rule, count, f"{np.mean([run.samples for run in done]):,.0f}",
                 f"{errors / count:.3f} [{interval.low:.3f}, {interval.high:.3f}]", verdict]
            )  # fmt: skip
    return markdown(["family", "rule", "runs", "mean samples", "error rate [95 %]", "consistent with <= 0.1"], rows)

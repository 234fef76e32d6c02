"""`python -m combopeps.warm_up`: compile the kernels of common runs into numba's cache.

This is for container images and for installations that are read-only for their users. NUMBA_CACHE_DIR sets the
directory of the cache, which may be read-only afterwards; see docs/deploy.md.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any

import networkx as nx
import numpy as np

from combopeps.alternatives.rejection import RejectionSampler
from combopeps.errors import ParameterError
from combopeps.oracles import (
    ArgmaxOracle,
    ExplicitOracle,
    KnapsackOracle,
    MatchingOracle,
    PartitionOracle,
    ShortestPathOracle,
    SpanningTreeOracle,
    TopKOracle,
)
from combopeps.posterior.gaussian import GaussianPosterior
from combopeps.problem import Problem
from combopeps.session.session import identify
from combopeps.utils.jit import is_writable

BUDGET = 60  # measurements per run
NOISE_STD = 0.1  # small enough that the guaranteed rule reaches its proof


def warm_up() -> float:
    """Run all `problems`; return the elapsed time in seconds.

    Raises
    ------
    ParameterError
        If the directory NUMBA_CACHE_DIR is not writable.
    """
    directory = os.environ.get("NUMBA_CACHE_DIR")
    if directory:
        with suppress(OSError):
            os.makedirs(directory, exist_ok=True)
        if not is_writable(directory):
            raise ParameterError(f"NUMBA_CACHE_DIR cannot be written: {directory}")
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the noise and the prior of these runs
        for problem in problems().values():
            _run(problem, "posterior")
            _run(problem, "guaranteed")
            _run(problem, "certified", policy="top-two")
            _run(problem.copy_with(noise_std=None, prior_mean=None, prior_std=None), "posterior")
            _reject(problem)
    return time.perf_counter() - start


def problems() -> dict[str, Problem]:
    """Return a small problem for each family of oracles, and one with general arms."""
    grid = nx.grid_2d_graph(3, 3)
    ring = [(i, (i + step) % 6) for i in range(6) for step in range(3)]
    pairs = {(i, j): np.eye(6)[i] + np.eye(6)[j] for i in range(6) for j in range(i)}
    oracles: dict[str, ArgmaxOracle] = {
        "top-k": TopKOracle(8, k=3),
        "path, acyclic": ShortestPathOracle(nx.DiGraph(grid.edges), (0, 0), (2, 2)),
        "path, cyclic": ShortestPathOracle(grid, (0, 0), (2, 2)),
        "matching": MatchingOracle(3, 4),
        "matching, sparse": MatchingOracle(6, 6, ring, engine="compiled"),
        "spanning tree": SpanningTreeOracle(grid),
        "knapsack": KnapsackOracle([3, 1, 4, 1, 5, 2], 7),
        "partition": PartitionOracle([range(4), range(4, 8)], 1),
        "explicit": ExplicitOracle(list(pairs.values())),
    }
    stated: dict[str, Any] = {"noise_std": NOISE_STD, "prior_mean": 1.0, "prior_std": 1.0}
    made = {name: Problem(oracle, **stated) for name, oracle in oracles.items()}
    return made | {"general arms": Problem(ExplicitOracle(np.eye(6)), pairs, **stated)}


def _run(problem: Problem, rule: str, **options: Any) -> None:
    identify(problem, _measure(problem), stopping=rule, budget=BUDGET, **options)


def _reject(problem: Problem) -> None:
    """Draw alternatives by rejection, the method of runs while alternatives are probable."""
    oracle = problem.oracle
    posterior = GaussianPosterior.start(problem.arms, prior_mean=1.0)
    RejectionSampler().sample(posterior, oracle, oracle.argmax(np.ones(oracle.dim)), rng=0)


def _measure(problem: Problem) -> Callable[[Hashable], float]:
    """Return a function that simulates measurements; theta >= 0, as required of edge lengths."""
    rng, arms = np.random.default_rng(0), problem.arms
    theta = np.abs(1.0 + rng.normal(size=problem.oracle.dim))
    means = theta[arms.component] if arms.matrix is None else arms.matrix @ theta
    values = dict(zip(arms.labels, means, strict=True))
    return lambda label: float(values[label] + NOISE_STD * rng.normal())


def main() -> int:
    """Run the command; return its exit code."""
    try:
        seconds = warm_up()
    except ParameterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"kernels are compiled and cached, in {seconds:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

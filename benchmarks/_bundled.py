"""The stored instances that are made by rule. `python -m benchmarks._bundled instances` writes them anew.

The other files in `instances/` (`nsfnet`, `town`, `tree-e20`, `tree-e25`) were written by hand; their notes say from what.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np

from combopeps.instances import generators as make
from combopeps.instances.library import save_instance
from combopeps.instances.model import Instance
from combopeps.oracles import MatchingOracle, ShortestPathOracle, TopKOracle
from combopeps.problem import Problem

PEPS = "Li, Jamieson, Jain: Optimal Exploration is no harder than Thompson Sampling."
PEACE = "Katz-Samuels, Jain, Karnin, Jamieson: An Empirical Process Approach to the Union Bound (Peace)."


def paper_topk() -> Instance:
    """theta_i = 1 - 0.05 i for i = 0 .. 11, k = 3."""
    theta = np.array([1 - 0.05 * i for i in range(12)])
    return Instance("topk-paper", Problem(TopKOracle(12, k=3)), theta, "the paper's top-k: 3 of 12")


def two_nets() -> Instance:
    """Two separate nets of four layers of two nodes; theta = 1 on a path of the one, 0.5 of the other, -1 elsewhere."""
    import networkx as nx

    graph: nx.DiGraph[Any] = nx.DiGraph()
    for net in "ab":
        layers = [["s"], *([f"{net}{layer}{side}" for side in "lr"] for layer in range(1, 5)), ["t"]]
        for here, there in pairwise(layers):
            graph.add_edges_from(product(here, there))
    oracle = ShortestPathOracle(graph, "s", "t", objective="max")
    first, second = (oracle.encode(["s", *(f"{net}{layer}l" for layer in range(1, 5)), "t"]) for net in "ab")
    return Instance("two-nets", Problem(oracle), 2 * first + 1.5 * second - 1, "longest path through one of two nets")


def cyclic_matching() -> Instance:
    """K_{4,4} with theta_ii = 1 and theta_{i-1,i} = 0.5, indices modulo 4, else 0."""
    theta = np.eye(4) + 0.5 * np.roll(np.eye(4), 1, axis=1)
    return Instance(
        "cyclic-matching", Problem(MatchingOracle(4, 4)), theta.ravel(), "best assignment, 4 x 4, with one near rival"
    )


STORED: dict[str, tuple[Callable[[], Instance], str]] = {
    "soare": (make.soare, f"{PEPS} After Soare, Lazaric, Munos (2014)."),
    "sphere": (make.sphere, f"{PEPS} The points are our own draw."),
    "topk-paper": (paper_topk, PEPS),
    "topk-1000": (lambda: make.topk(1000, 50), "topk:d=1000,k=50,seed=0"),
    "grid-10": (lambda: make.grid(10), "grid:n=10,seed=0"),
    "grid-30": (lambda: make.grid(30), "grid:n=30,seed=0"),
    "two-nets": (two_nets, PEACE),
    "cyclic-matching": (cyclic_matching, PEACE),
    "matching-10": (lambda: make.matching(10), "matching:n=10,seed=0"),
    "matching-30": (lambda: make.matching(30), "matching:n=30,seed=0"),
    "matching-sparse": (lambda: make.matching(50, 4), "matching:n=50,degree=4,seed=0"),
    "hard-topk": (lambda: make.hard_topk(60, 6), "hard-topk:d=60,k=6,seed=0"),
    "hard-grid": (lambda: make.hard_grid(10), "hard-grid:n=10"),
    "hard-matching": (lambda: make.hard_matching(10), "hard-matching:n=10,seed=0"),
}


def stored(name: str) -> Instance:
    """The instance as its rule makes it.

    Examples
    --------
    >>> stored("cyclic-matching").best
    {0: 0, 1: 1, 2: 2, 3: 3}
    """
    rule, note = STORED[name]
    return replace(rule(), name=name, note=note)


if __name__ == "__main__":
    for _name in STORED:
        save_instance(stored(_name), Path(sys.argv[1]) / f"{_name}.json")

"""The stored instances that are made by rule, and the index of all. They are written by
`python -m benchmarks._bundled instances`.

The other files in `instances/` (`nsfnet`, `town`, `tree-e20`, `tree-e25`) were written by hand; their notes say from
what.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np

from combopeps.io import generators as make
from combopeps.io.bundled import INDEX, IndexEntry, list_instances
from combopeps.io.instance import Instance
from combopeps.io.instance_files import load_instance, save_instance
from combopeps.oracles import CpSatOracle, MatchingOracle, MilpOracle, ShortestPathOracle, TopKOracle
from combopeps.problem import Problem
from combopeps.viz.text_descriptions import size_text

PEPS = "Li, Jamieson, Jain: Optimal Exploration is no harder than Thompson Sampling."
PEACE = "Katz-Samuels, Jain, Karnin, Jamieson: An Empirical Process Approach to the Union Bound (Peace)."


def paper_topk() -> Instance:
    """theta_i = 1 - 0.05 i for i = 0 .. 11, k = 3."""
    theta = np.array([1 - 0.05 * i for i in range(12)])
    return Instance(
        "topk-paper",
        Problem(TopKOracle(12, k=3), noise_std=1.0, prior_mean=0.0, prior_std=1.0),
        theta,
        "the paper's top-k: 3 of 12",
    )


def two_nets(layers: int = 4, gap: float = 0.5) -> Instance:
    """Two separate nets of layers of two nodes; theta = 1 on a path of the one, 1 - gap of the other, -1 elsewhere."""
    import networkx as nx

    graph: nx.DiGraph[Any] = nx.DiGraph()
    for net in "ab":
        nodes = [["s"], *([f"{net}{layer}{side}" for side in "lr"] for layer in range(1, layers + 1)), ["t"]]
        for here, there in pairwise(nodes):
            graph.add_edges_from(product(here, there))
    oracle = ShortestPathOracle(graph, "s", "t", objective="max")
    left = [[f"{net}{layer}l" for layer in range(1, layers + 1)] for net in "ab"]
    first, second = (oracle.encode(["s", *nodes, "t"]) for nodes in left)
    theta = 2 * first + (2 - gap) * second - 1
    return Instance(
        "two-nets",
        Problem(oracle, noise_std=1.0, prior_mean=0.0, prior_std=1.0),
        theta,
        "longest path through one of two nets",
    )


def cyclic_matching(n: int = 4, gap: float = 0.5) -> Instance:
    """K_{n,n} with theta_ii = 1 and theta_{i-1,i} = 1 - gap, indices modulo n, else 0."""
    theta, title = (
        np.eye(n) + (1 - gap) * np.roll(np.eye(n), 1, axis=1),
        f"best assignment, {n} x {n}, with one near rival",
    )
    return Instance(
        "cyclic-matching",
        Problem(MatchingOracle(n, n), noise_std=1.0, prior_mean=0.0, prior_std=1.0),
        theta.ravel(),
        title,
    )


def which_model() -> Instance:
    """Exactly one model for each task, at most 18 units of money in all: a multiple-choice knapsack."""
    price = {"small": 1, "medium": 3, "large": 8}
    quality = {
        "search": (0.62, 0.71, 0.74),
        "code": (0.31, 0.52, 0.83),
        "summary": (0.55, 0.78, 0.82),
        "translate": (0.48, 0.66, 0.91),
    }
    pairs = [(task, model) for task in quality for model in price]
    one_each = [[float(task == other) for task, _ in pairs] for other in quality]
    rows = [*one_each, [float(price[model]) for _, model in pairs]]
    ends = [1.0] * len(quality)
    oracle = MilpOracle(pairs, rows, [*ends, -np.inf], [*ends, 18.0])
    theta = np.array([quality[task][list(price).index(model)] for task, model in pairs])
    problem = Problem(oracle, noise_std=0.05, prior_mean=0.0, prior_std=1.0)
    return Instance("which-model", problem, theta, "which model for which task, within a budget")


def timetable() -> Instance:
    """Four courses, three hours, two rooms: who comes is measured, what may not be is a constraint model."""
    from ortools.sat.python import cp_model

    courses, hours = ("algebra", "biology", "chemistry", "drawing"), ("9h", "11h", "14h")
    model = cp_model.CpModel()
    at = {(course, hour): model.new_bool_var(f"{course} {hour}") for course in courses for hour in hours}
    start = {course: model.new_int_var(0, 2, f"start of {course}") for course in courses}
    for course in courses:
        model.add_exactly_one(at[course, hour] for hour in hours)
        model.add(start[course] == sum(i * at[course, hour] for i, hour in enumerate(hours)))
    for hour in hours:
        model.add(sum(at[course, hour] for course in courses) <= 2)  # rooms
        model.add_at_most_one(at["biology", hour], at["chemistry", hour])  # one laboratory
    model.add(start["chemistry"] > start["algebra"])
    come = {
        "algebra": (0.30, 0.90, 0.70),
        "biology": (0.80, 0.60, 0.45),
        "chemistry": (0.95, 0.75, 0.60),
        "drawing": (0.20, 0.50, 0.95),
    }
    theta = np.array([share for course in courses for share in come[course]])
    problem = Problem(CpSatOracle(model, at), noise_std=0.05, prior_mean=0.0, prior_std=1.0)
    return Instance("timetable", problem, theta, "the timetable that most attend")


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
    "partition-10": (lambda: make.partition(10, 4), "partition:groups=10,size=4,quota=1,seed=0"),
    "knapsack-20": (lambda: make.knapsack(20), "knapsack:d=20,seed=0"),
    "which-model": (which_model, "Invented: three models at prices 1, 3 and 8, four tasks, a budget of 18."),
    "timetable": (timetable, "Invented: four courses in three hours and two rooms; chemistry after algebra."),
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


def index() -> list[IndexEntry]:
    """The entries of the index of all bundled instances."""
    loaded = [load_instance(name) for name in list_instances()]
    return [IndexEntry(i.name, i.oracle.dim, size_text(i.oracle), i.title) for i in loaded]


if __name__ == "__main__":
    _folder = Path(sys.argv[1])
    for _name in STORED:
        save_instance(stored(_name), _folder / f"{_name}.json")
    with (_folder / INDEX).open("w", newline="", encoding="utf-8") as _file:
        csv.writer(_file, lineterminator="\n").writerows([IndexEntry._fields, *index()])

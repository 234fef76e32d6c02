"""Whole routes against single roads: how many of each until 95 % of the runs are right."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from benchmarks._table import markdown
from benchmarks._work import Workers
from benchmarks.policies import instances
from combopeps import Policy, Problem, ShortestPathOracle, TopTwo, load_instance, simulate
from combopeps.policies.baselines import Uniform
from combopeps.session.trace import Crossing

LEVEL = 0.95
Floats = NDArray[np.float64]


class Place(NamedTuple):
    """A network with its lengths, and how many roads and how many routes a run may measure."""

    make: Callable[[], tuple[Problem, Floats]]
    roads: int
    routes: int


def known(name: str) -> tuple[Problem, Floats]:
    made = load_instance(name)
    return made.problem, np.asarray(made.theta)


def planted() -> tuple[Problem, Floats]:
    """A grid with lengths from 1 to 2, but for one route of streets of 0.5; noise 1."""
    oracle, theta, *_ = instances()["grid 10 x 10"]
    return Problem(oracle, noise_std=1.0, prior_mean=1.0, prior_std=1.0), theta


def streets(crossings: int = 94, edges: int = 250, seed: int = 0) -> tuple[Problem, Floats]:
    """Two-way streets between crossings at random places, each as long as it is drawn; noise 10 % of a typical one."""
    from scipy.spatial import Delaunay

    rng = np.random.default_rng(seed)
    places = rng.uniform(size=(crossings, 2)) * crossings**0.5
    corners = Delaunay(places).simplices
    pairs = np.unique(np.sort(np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [0, 2]]])), axis=0)
    lengths = np.linalg.norm(places[pairs[:, 0]] - places[pairs[:, 1]], axis=1)
    graph: nx.Graph[int] = nx.Graph(pairs[np.argsort(lengths)[:edges]].tolist())
    ends = [int(node) for node in (places.sum(axis=1).argmin(), places.sum(axis=1).argmax())]
    oracle = ShortestPathOracle(graph.to_directed(), *ends)
    drawn = [float(np.linalg.norm(places[u] - places[v])) for u, v in oracle.components]  # type: ignore[misc]
    theta = np.array(drawn) * rng.uniform(0.8, 1.2, oracle.dim)
    return Problem(oracle, noise_std=0.1, prior_mean=float(theta.mean()), prior_std=1.0), theta


PLACES = {
    "grid 10 x 10": Place(planted, 1000, 120),
    "two-way streets": Place(streets, 2000, 300),
    "two-nets": Place(lambda: known("two-nets"), 400, 150),
}


def counted(kind: type[Policy]) -> type[Policy]:
    """The same policy, whose cost is what it has read."""

    class Counted(kind):  # type: ignore[valid-type, misc]
        @property
        def spent(self) -> Floats:
            return np.asarray(self.pulls.sum(axis=1), dtype=np.float64)

    return Counted


def table(runs: int, workers: Workers) -> str:
    """One row per network and way of measuring."""
    rows: list[list[object]] = []
    for name, place in PLACES.items():
        single, theta = place.make()
        whole, title = single.copy_with(actions="answers"), f"{name} (d = {single.oracle.dim})"
        least = np.inf
        for what, problem, kind, budget in (
            ("single roads, TopTwo", single, TopTwo, place.roads),
            ("whole routes, TopTwo", whole, TopTwo, place.routes),
            ("whole routes, uniform", whole, Uniform, place.routes),
        ):
            who = {"n_jobs": workers.jobs, "scheduler": workers.scheduler}
            trace = simulate(problem, theta, counted(kind), budget=budget, replications=runs, rng=0, **who)
            made, read = trace.samples_to(LEVEL), trace.cost_to(LEVEL)
            fewer = "" if problem is single or kind is Uniform else f"yes ({made.samples / least:.2f})"
            if problem is single:
                least = made.samples
            elif kind is TopTwo and not made.high < least:
                fewer = "NO"
            rows.append([title, what, runs, _interval(made), _interval(read), fewer])
            print(*rows[-1], sep="   ", flush=True)
    header = ["network", "measured", "runs", "measurements to 95 %", "roads read to 95 %", "fewer than single"]
    return markdown(header, rows)


def _interval(found: Crossing) -> str:
    if not isfinite(found.samples):
        return "not reached"
    high = f"{found.high:,.0f}" if isfinite(found.high) else "..."
    return f"{found.samples:,.0f} ({found.low:,.0f} to {high})"

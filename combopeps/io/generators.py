"""Generated instances, by family, size and seed.

Noise has standard deviation 1 unless stated otherwise. Random numbers are rounded to six digits, so that saved
instances are short.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from inspect import Parameter, signature
from itertools import pairwise
from typing import Any

import numpy as np

from combopeps.errors import ComboPepsError, InstanceError
from combopeps.io.instance import Instance
from combopeps.io.parsing import MAX_COMPONENTS
from combopeps.oracles import (
    ExplicitOracle,
    KnapsackOracle,
    MatchingOracle,
    PartitionOracle,
    ShortestPathOracle,
    SpanningTreeOracle,
    TopKOracle,
)
from combopeps.oracles.base import ArgmaxOracle
from combopeps.problem import Problem
from combopeps.utils.csv_files import is_digits, is_plain


def generate(recipe: str) -> Instance:
    """Generate the instance of a recipe "family:option=number,...".

    Families, with their defaults: topk (d, k, seed=0), grid (n, seed=0), matching (n, degree=n, seed=0), sphere (d=6,
    arms=20, seed=0), soare (d=2, omega=0.1), tree (n, seed=0), partition (groups, size, quota=1, seed=0), knapsack (d,
    seed=0), hard-topk (d, k, seed=0), hard-grid (n), hard-matching (n, seed=0).

    Examples
    --------
    >>> generate("grid:n=20,seed=1").oracle.dim
    760
    """
    family, _, rest = recipe.partition(":")
    if family not in FAMILIES:
        raise InstanceError(f"no family is called {family!r}; there are {', '.join(FAMILIES)}")
    build = FAMILIES[family]
    known = signature(build).parameters
    options: dict[str, Any] = {}
    for entry in filter(None, rest.split(",")):
        key, _, text = (part.strip() for part in entry.partition("="))
        if key not in known or key in options:
            raise InstanceError(f"{key}: unknown or repeated; {family} takes {', '.join(known)}", key)
        options[key] = _parse_option(key, text)
    missing = [key for key, p in known.items() if p.default is Parameter.empty and key not in options]
    if missing:
        raise InstanceError(f"{missing[0]}: is missing; write {family}:{missing[0]}=...", missing[0])
    try:
        instance = build(**options)
    except InstanceError:
        raise
    except ComboPepsError as cause:
        raise InstanceError(f"{recipe}: {cause}") from cause
    return replace(instance, name=recipe)


def _problem(oracle: ArgmaxOracle, arms: Any = None, noise_std: float = 1.0) -> Problem:
    """Return a problem with the prior N(0, 1) of the paper for every component."""
    return Problem(oracle, arms, noise_std, prior_mean=0.0, prior_std=1.0)


def topk(d: int, k: int, seed: int = 0) -> Instance:
    """Generate k items with theta in [0.75, 1] and others in [0, 0.5], in random order: a gap of at least 0.25."""
    _check_sizes(d=d)
    rng = np.random.default_rng(seed)
    oracle = TopKOracle(d, k)
    means = np.concatenate([0.75 + rng.random(k) / 4, rng.random(d - k) / 2])
    return Instance("topk", _problem(oracle), rng.permutation(means).round(6), f"the best {k} of {d} items")


def grid(n: int, seed: int = 0) -> Instance:
    """Generate edge lengths in [0.5, 1.5] on an n x n grid directed to the right and down; noise 0.1."""
    oracle = grid_oracle(n)
    theta = (0.5 + np.random.default_rng(seed).random(oracle.dim)).round(6)
    return Instance("grid", _problem(oracle, noise_std=0.1), theta, f"shortest monotone path across {n} x {n} corners")


def matching(n: int, degree: int | None = None, seed: int = 0) -> Instance:
    """Generate rewards in [0, 1] on all pairs or `degree` per left node, with a perfect matching; noise 0.1."""
    degree = n if degree is None else degree
    if not 1 <= degree <= n:
        raise InstanceError(f"degree: must lie in 1..{n}, got {degree}", "degree")
    _check_sizes(edges=n * degree)
    rng = np.random.default_rng(seed)
    edges = None if degree == n else _sparse_edges(n, degree, rng)
    oracle = MatchingOracle(n, n, edges)
    title = f"best assignment, {n} x {n}" + ("" if degree == n else f", {degree} choices each")
    return Instance("matching", _problem(oracle, noise_std=0.1), rng.random(oracle.dim).round(6), title)


def sphere(d: int = 6, arms: int = 20, seed: int = 0) -> Instance:
    """Generate random points on the sphere; theta = x + 0.01 (x' - x) for the closest pair x, x'."""
    _check_sizes(numbers=d * arms, pairs=arms * arms)
    if arms < 2:
        raise InstanceError(f"arms: must be at least 2, got {arms}", "arms")
    points = np.random.default_rng(seed).normal(size=(arms, d))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    products = points @ points.T - 2 * np.eye(arms)
    x, other = np.unravel_index(int(products.argmax()), products.shape)
    theta = points[x] + 0.01 * (points[other] - points[x])
    problem = _problem(ExplicitOracle(points), arms=points)
    return Instance("sphere", problem, theta, f"nearest of {arms} points on the sphere, d = {d}")


def soare(d: int = 2, omega: float = 0.1) -> Instance:
    """Generate unit vectors and (cos omega, sin omega, 0, ...), nearly as good as the best for theta = e_1."""
    _check_sizes(numbers=d * d)
    if d < 2 or not 0 < omega < np.pi:
        raise InstanceError("d: must be at least 2, and omega lie in (0, pi)", "d" if d < 2 else "omega")
    rows = np.vstack([np.eye(d), np.zeros(d)])
    rows[d, :2] = np.cos(omega), np.sin(omega)
    theta = np.eye(d)[0]
    return Instance("soare", _problem(ExplicitOracle(rows), arms=rows), theta, f"a rival at an angle of {omega:g}")


def tree(n: int, seed: int = 0) -> Instance:
    """Generate edge lengths in [0.5, 1.5] on the complete graph with n nodes; noise 0.1."""
    import networkx as nx

    if n < 3:
        raise InstanceError(f"n: must be at least 3, got {n}", "n")
    _check_sizes(edges=n * (n - 1) // 2)
    oracle = SpanningTreeOracle(nx.complete_graph(n))
    theta = (0.5 + np.random.default_rng(seed).random(oracle.dim)).round(6)
    return Instance("tree", _problem(oracle, noise_std=0.1), theta, f"lightest spanning tree of {n} nodes, all pairs")


def partition(groups: int, size: int, quota: int = 1, seed: int = 0) -> Instance:
    """Generate groups with `quota` items in [0.75, 1] and others in [0, 0.5], in random order."""
    _check_sizes(items=groups * size)
    names = [[(group, item) for item in range(size)] for group in range(groups)]
    oracle, rng = PartitionOracle(names, quota), np.random.default_rng(seed)
    rows = [np.concatenate([0.75 + rng.random(quota) / 4, rng.random(size - quota) / 2]) for _ in range(groups)]
    theta = np.concatenate([rng.permutation(row) for row in rows]).round(6)
    return Instance("partition", _problem(oracle), theta, f"the best {quota} of {size} in each of {groups} groups")


def knapsack(d: int, seed: int = 0) -> Instance:
    """Generate weights 1 to 20, half of which are the capacity; values U[0, 1] sqrt(weight / 10); noise 0.1."""
    _check_sizes(d=d)
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 21, size=d)
    theta = (rng.random(d) * np.sqrt(weights / 10.0)).round(6)
    oracle = KnapsackOracle(weights.tolist(), max(20, int(weights.sum()) // 2))
    return Instance("knapsack", _problem(oracle, noise_std=0.1), theta, f"the best of {d} items that fit")


def hard_topk(d: int, k: int, seed: int = 0) -> Instance:
    """Generate theta = 1 on k items, 0 elsewhere: k (d - k) alternatives at equal distance."""
    _check_sizes(d=d)
    oracle, theta = TopKOracle(d, k), np.zeros(d)
    theta[np.random.default_rng(seed).permutation(d)[:k]] = 1.0
    return Instance("hard-topk", _problem(oracle), theta, f"symmetric: {k} of {d} items are worth 1, the others 0")


def hard_grid(n: int) -> Instance:
    """Generate theta = 0 on a staircase route across the grid, 1 elsewhere."""
    oracle = grid_oracle(n)
    stairs = [(step // 2, (step + 1) // 2) for step in range(2 * n - 1)]
    theta = 1.0 + oracle.encode(stairs)  # an answer is minus its indicator
    return Instance("hard-grid", _problem(oracle), theta, f"symmetric: a free staircase across {n} x {n} corners")


def hard_matching(n: int, seed: int = 0) -> Instance:
    """Generate theta = 1 on one perfect matching, 0 elsewhere."""
    _check_sizes(edges=n * n)
    mate = np.random.default_rng(seed).permutation(n)
    theta = np.eye(n)[mate].ravel()
    return Instance("hard-matching", _problem(MatchingOracle(n, n)), theta, f"symmetric: one good job each, {n} x {n}")


def grid_oracle(n: int) -> ShortestPathOracle:
    """Return the oracle of monotone routes from (0, 0) to (n - 1, n - 1) on an n x n grid."""
    import networkx as nx

    if n < 2:
        raise InstanceError(f"n: must be at least 2, got {n}", "n")
    _check_sizes(edges=2 * n * (n - 1))
    graph: nx.DiGraph[Any] = nx.DiGraph()
    for i in range(n):
        graph.add_edges_from(pairwise((i, j) for j in range(n)))
        graph.add_edges_from(pairwise((j, i) for j in range(n)))
    return ShortestPathOracle(graph, (0, 0), (n - 1, n - 1))


FAMILIES: dict[str, Callable[..., Instance]] = {
    "topk": topk,
    "grid": grid,
    "matching": matching,
    "sphere": sphere,
    "soare": soare,
    "tree": tree,
    "partition": partition,
    "knapsack": knapsack,
    "hard-topk": hard_topk,
    "hard-grid": hard_grid,
    "hard-matching": hard_matching,
}


def _parse_option(key: str, text: str) -> int | float:
    """Parse an integer, or for the angle `omega` any number."""
    if key != "omega":
        if is_digits(text):
            return int(text)
        raise InstanceError(f"{key}: must be a whole number, got {text!r}", key)
    with suppress(ValueError):
        if is_plain(text):
            return float(text)
    raise InstanceError(f"{key}: must be a number, got {text!r}", key)


def _check_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        if not 1 <= size <= MAX_COMPONENTS:
            raise InstanceError(f"{name}: must be in 1..{MAX_COMPONENTS}, got {size}", name)


def _sparse_edges(n: int, degree: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Return edges of each left node: its mate in a random permutation and `degree` - 1 others."""
    edges = []
    for i, mate in enumerate(rng.permutation(n).tolist()):
        others = rng.choice(n - 1, size=degree - 1, replace=False)
        edges += [(i, j) for j in sorted({mate, *(others + (others >= mate)).tolist()})]
    return edges

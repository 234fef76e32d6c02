"""Instances with Z listed beside the oracle, without the package's own algorithms, and tau* by a general solver."""

import warnings
from itertools import pairwise, permutations

import networkx as nx
import numpy as np
from scipy.optimize import minimize

from combopeps import MatchingOracle, ShortestPathOracle


def grid(n, seed):
    """Shortest way across an n x n grid, right and down."""
    directed = nx.DiGraph((u, v) if u < v else (v, u) for u, v in nx.grid_2d_graph(n, n).edges)
    return routes(
        directed, (0, 0), (n - 1, n - 1), "min", np.random.default_rng(seed).uniform(0.5, 1.5, 2 * n * (n - 1))
    )


def dag(n, seed):
    """Best route of a random acyclic graph: routes have different numbers of edges."""
    rng = np.random.default_rng(seed)
    jumps = [(i, j) for i in range(n) for j in range(i + 2, n) if rng.random() < 0.5]
    graph = nx.DiGraph([*pairwise(range(n)), *jumps])
    return routes(graph, 0, n - 1, "max" if seed % 2 else "min", rng.normal(size=graph.number_of_edges()))


def routes(graph, source, target, objective, theta):
    oracle = ShortestPathOracle(graph, source, target, objective=objective)
    index = {label: i for i, label in enumerate(oracle.components)}
    if not graph.is_directed():
        index |= {(v, u): i for (u, v), i in index.items()}
    Z = [indicator([index[e] for e in path], oracle) for path in nx.all_simple_edge_paths(graph, source, target)]
    return oracle, np.array(Z), theta


def matching(n, m, seed):
    oracle = MatchingOracle(n, m)
    Z = [indicator([oracle.index(pair) for pair in enumerate(mates)], oracle) for mates in permutations(range(m), n)]
    return oracle, np.array(Z), np.random.default_rng(seed).normal(size=oracle.dim)


def indicator(chosen, oracle):
    z = np.zeros(oracle.dim)
    z[chosen] = oracle.unit
    return z


def inner_minimum(X, Z, theta, lam, noise_std=1.0):
    """min over z != z* of gap^2 / (2 ||z* - z||^2), straight from its definition."""
    scores = Z @ theta
    y = np.delete(Z[scores.argmax()] - Z, scores.argmax(), axis=0)
    width = np.einsum("nd,nd->n", y, y @ np.linalg.pinv((X.T * lam) @ X / noise_std**2))
    return ((y @ theta) ** 2 / (2.0 * width)).min()


def by_slsqp(X, Z, theta):
    """max over lam of the inner minimum, by sequential quadratic programming: attained, so never above tau*."""
    best = (Z @ theta).argmax()
    c = np.delete(Z[best] - Z, best, axis=0)
    c /= (c @ theta)[:, None]

    def width(lam):
        return np.einsum("nd,nd->n", c, np.linalg.solve((X.T * lam) @ X, c.T).T)

    def slope(lam):
        return (X @ np.linalg.solve((X.T * lam) @ X, c.T)).T ** 2

    K = len(X)
    start = np.full(K, 1.0 / K)
    unit = width(start).max()  # variables: lam, and the largest width over this unit
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Values in x were outside bounds")  # SciPy 1.15 steps out and clips
        found = minimize(
            lambda v: v[-1],
            np.append(start, 1.0),
            jac=lambda v: np.append(np.zeros(K), 1.0),
            bounds=[(1e-9, 1.0)] * K + [(0.0, None)],
            constraints=[
                {"type": "eq", "fun": lambda v: v[:-1].sum() - 1.0, "jac": lambda v: np.append(np.ones(K), 0.0)},
                {
                    "type": "ineq",
                    "fun": lambda v: v[-1] - width(v[:-1]) / unit,
                    "jac": lambda v: np.column_stack([slope(v[:-1]) / unit, np.ones(len(c))]),
                },
            ],
            method="SLSQP",
            options={"maxiter": 2000, "ftol": 1e-12},
        )
    lam = np.clip(found.x[:-1], 1e-12, None)
    return inner_minimum(X, Z, theta, lam / lam.sum())

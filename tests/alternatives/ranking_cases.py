"""Small problems of every family with random posteriors, and their probabilities by enumeration of Z."""

from itertools import combinations, permutations, product

import networkx as nx
import numpy as np
from slow_oracle import Slow

from combopeps import (
    ExplicitOracle,
    KnapsackOracle,
    MatchingOracle,
    Problem,
    Session,
    ShortestPathOracle,
    SpanningTreeOracle,
    TopKOracle,
)


def _subsets(d, sizes):
    return np.array([np.isin(np.arange(d), chosen) for k in sizes for chosen in combinations(range(d), k)], dtype=float)


def items():
    return TopKOracle(6, 2), _subsets(6, [2])


def rows():
    Z = np.array([z for z in product((-1.0, 0.0, 1.0), repeat=3) if np.abs(z).sum() <= 2.0])
    return ExplicitOracle(Z), Z


def pairs():
    Z = np.zeros((6, 9))
    for row, partners in enumerate(permutations(range(3))):
        Z[row, [3 * i + j for i, j in enumerate(partners)]] = 1.0
    return MatchingOracle(3, 3), Z


def routes():
    graph = nx.DiGraph([(u, v) for u, v in nx.grid_2d_graph(3, 3, create_using=nx.DiGraph).edges if sum(v) > sum(u)])
    oracle = ShortestPathOracle(graph, (0, 0), (2, 2))
    return oracle, np.array([oracle.encode(path) for path in nx.all_simple_paths(graph, (0, 0), (2, 2))])


def trees():
    graph = nx.complete_graph(4)
    oracle = SpanningTreeOracle(graph)
    found = [edges for edges in combinations(graph.edges, 3) if nx.is_connected(nx.Graph(edges)) and
             len(nx.Graph(edges)) == 4]  # fmt: skip
    return oracle, np.array([oracle.encode(edges) for edges in found])


def bags():
    weights = np.array([1, 2, 3, 4, 5])
    Z = _subsets(5, range(6))
    return KnapsackOracle(weights.tolist(), 7), Z[Z @ weights <= 7]


def slow_items():
    oracle, Z = items()
    return Slow(oracle), Z


def slow_rows():
    oracle, Z = rows()
    return Slow(oracle), Z


FAMILIES = {make.__name__: make for make in (items, rows, pairs, routes, trees, bags, slow_items, slow_rows)}


def posterior(name, seed):
    """A session of this family with a random number of results, and Z."""
    oracle, Z = FAMILIES[name]()
    rng = np.random.default_rng([seed, *name.encode()])
    problem = Problem(oracle, noise_std=1.0, prior_mean=0.0, prior_std=2.0)
    session = Session(problem, policy="top-two")
    scale, most = rng.choice([0.3, 1.0, 2.0]), int(rng.integers(2, 30))
    theta = scale * rng.normal(size=oracle.dim)
    for i, label in enumerate(oracle.components):
        count = int(rng.integers(1, most))
        session.observe(label, float(theta[i] + rng.normal() / np.sqrt(count)), count=count)
    return session, Z


def exact(session, Z, z, epsilons, draws=100_000):
    """Shares of draws: P(z' is best) for every row of Z, and P(z is worse by over epsilon) for every epsilon."""
    scores, gain = _scores(session, Z, z, draws)
    best = np.bincount(scores.argmax(axis=1), minlength=len(Z)) / draws
    return best, [float((gain > epsilon + 1e-12).mean()) for epsilon in epsilons]


def exact_loss(session, Z, z, draws=100_000):
    """The expected loss of z, and its standard error."""
    _, gain = _scores(session, Z, z, draws)
    return float(gain.mean()), float(gain.std() / np.sqrt(draws))


def _scores(session, Z, z, draws):
    posterior = session.posterior
    noise = np.random.default_rng(99).standard_normal((draws, Z.shape[1]))
    scores = (posterior.theta_hat[0] + noise * posterior.std[0]) @ Z.T
    return scores, scores.max(axis=1) - scores[:, int((z == Z).all(axis=1).argmax())]

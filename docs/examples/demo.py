"""The best route, the best set and the best assignment under random parameters, with labels.

Run by `make demo`; takes an optional seed: `python docs/examples/demo.py 7`.
"""

import sys

import networkx as nx
import numpy as np

from combopeps import ArgmaxOracle, MatchingOracle, ShortestPathOracle, TopKOracle, load_instance


def report(title: str, oracle: ArgmaxOracle, theta: np.ndarray) -> None:
    """Print the best answer under theta, and how many answers there are to choose from."""
    z = oracle.argmax(theta)
    size = oracle.log_cardinality
    assert size is not None
    many = f"{np.exp(size):,.0f}" if size < 20 else f"10^{size / np.log(10):.0f}"
    print(f"{title}\n  {'' if size.exact else 'at most '}{many} answers, {oracle.dim} unknown numbers")
    best = oracle.decode(z)
    print(f"  best: {sorted(best) if isinstance(best, set) else best}\n  total: {abs(z @ theta):.3f}\n")


def main(seed: int = 0) -> None:
    """Ask one question of each kind."""
    rng = np.random.default_rng(seed)

    route = load_instance("nsfnet").oracle
    report("Shortest route Palo Alto - Princeton on the NSFNET backbone", route, rng.uniform(1, 5, route.dim))

    grid = nx.grid_2d_graph(30, 30, create_using=nx.DiGraph)
    grid.remove_edges_from([(u, v) for u, v in grid.edges if sum(v) < sum(u)])
    corner = ShortestPathOracle(grid, (0, 0), (29, 29))
    z = corner.argmax(rng.uniform(size=corner.dim))
    print(f"Shortest monotone path across a 30 x 30 grid\n  10^{corner.log_cardinality / np.log(10):.0f} answers")
    print(f"  best begins {corner.decode(z)[:6]} ...\n")

    top = TopKOracle(sorted({site for link in route.components for site in link}), k=3)
    report("The 3 best of 14 sites", top, rng.normal(size=top.dim))

    crew = MatchingOracle(["Ann", "Bob", "Cat", "Dan"], ["dig", "plant", "prune", "water", "weed"], maximize=False)
    report("Cheapest assignment of 4 people to 5 tasks", crew, rng.uniform(1, 9, crew.dim))


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]))

"""The promise `exchanges`: an answer that is worse by some amount has a facet that is better by a share of it."""

import networkx as nx
import numpy as np
import pytest

from combopeps import MatchingOracle, PartitionOracle, ShortestPathOracle, TopKOracle
from combopeps.oracles.constrained_argmax import list_answers


def streets():
    return ShortestPathOracle(nx.grid_2d_graph(3, 3), (0, 0), (2, 2))


def dag():
    return ShortestPathOracle(nx.DiGraph([(i, j) for i in range(6) for j in range(i + 1, 6)]), 0, 5)


ORACLES = {
    "top-k": lambda: TopKOracle(6, k=3),
    "groups": lambda: PartitionOracle({"x": ["a", "b", "c"], "y": ["d", "e", "f", "g"]}, {"x": 1, "y": 2}),
    "square matching": lambda: MatchingOracle(4, 4),
    "matching": lambda: MatchingOracle(3, 5),
    "dag": dag,
    "streets": streets,
}


def answers(oracle):
    """All of them: by branching, or, with cycles, by random lengths."""
    listed = list_answers(oracle)
    if listed is not None:
        return listed.toarray()
    return np.unique(oracle.argmax(np.random.default_rng(0).exponential(size=(3000, oracle.dim))), axis=0)


@pytest.mark.parametrize("kind", ORACLES)
def test_some_facet_is_better_by_its_share(kind):
    oracle, rng = ORACLES[kind](), np.random.default_rng(1)
    assert oracle.exchanges
    draw = rng.exponential if oracle.domain == "nonnegative" else rng.normal
    seen, sharp = 0, 0
    for z in answers(oracle):
        rows = oracle.facets_up_to(z, 10_000)
        for _ in range(20):
            theta = draw(size=oracle.dim)
            worse = float((oracle.argmax(theta) - z) @ theta)
            best = float((rows @ theta).max())
            if worse > 1e-9:
                assert best >= worse / np.count_nonzero(z) - 1e-9
                seen += 1
                sharp += best < worse - 1e-9
    assert seen > 50
    assert sharp > 0  # the whole amount would be too much to promise

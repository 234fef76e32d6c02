"""Alternatives of spanning trees have the distribution of rejection, also where answers have different numbers of facets.

False alarm 1e-3 for the whole file, divided by the comparisons; seeds are fixed.
"""

import networkx as nx
import numpy as np
import pytest
from situations import Situation, measured
from wrong_samplers import AThirdMissing

from combopeps import SpanningTreeOracle
from combopeps.alternatives import Alternatives, AutoSampler, HalfSpaceSampler, RejectionSampler
from combopeps.alternatives.check import compare_distributions
from combopeps.alternatives.replications import ListedCones
from combopeps.random import Streams

DRAWS = 2000
SAMPLERS = {
    "half-space": HalfSpaceSampler,
    "auto": AutoSampler,
    "searched": lambda: HalfSpaceSampler(closed_form=False),
}
COUNTS = (1, 10)
ENOUGH = 1e-3 / (2 * len(COUNTS) * (len(SAMPLERS) + 1))


def situations(count):
    """A star and a path are the answers with the fewest and the most facets."""
    oracle = SpanningTreeOracle(nx.complete_graph(5))
    for tree in ([(0, i) for i in range(1, 5)], [(i, i + 1) for i in range(4)]):
        truth = oracle.encode(tree) + 0.3 * np.random.default_rng(0).uniform(size=oracle.dim)
        yield Situation(measured(oracle, truth, count), oracle)


@pytest.mark.parametrize("count", COUNTS)
def test_same_distribution_as_rejection(count):
    for situation in situations(count):
        truth = situation.draw(RejectionSampler(), DRAWS, seed=1)
        for name, make in SAMPLERS.items():
            test = compare_distributions(situation.draw(make(), DRAWS, seed=2), truth)
            assert test.p_value > ENOUGH, f"{name}: {test}"
        if count > 1:  # else nearly everything is an alternative, behind several facets at once
            test = compare_distributions(situation.draw(AThirdMissing(), DRAWS, seed=3), truth)
            assert test.p_value < ENOUGH, str(test)


@pytest.mark.parametrize("count", COUNTS)
def test_compiled_draws_of_short_lists(count):
    """Lists of an answer with more facets leave no traces."""
    star, path = situations(count)
    assert star.oracle.facets(star.z_hat).shape[0] < path.oracle.facets(path.z_hat).shape[0]
    lists = ListedCones(star.oracle, 1)
    for situation in (path, star):
        lists.set_answers(situation.z_hat[None])
        thetas = lists.draw(situation.posterior, DRAWS, Streams.of(4, 1).states, 1.0)[0][0]
        found = Alternatives(thetas, situation.oracle.argmax(thetas), None)
        test = compare_distributions(found, situation.draw(RejectionSampler(), DRAWS, seed=5))
        assert test.p_value > ENOUGH, str(test)

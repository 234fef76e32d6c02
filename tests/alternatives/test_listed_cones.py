"""`ListedCones`: facets of R replications, listed once per answer, with a bounded cache."""

import numpy as np
import pytest

from combopeps import ExplicitOracle, TopKOracle
from combopeps.alternatives import replications as cones
from combopeps.alternatives.replications import ListedCones


@pytest.mark.parametrize("oracle", [TopKOracle(6, k=2), ExplicitOracle(np.random.default_rng(0).normal(size=(9, 4)))])
def test_facets_equal_those_of_the_oracle(oracle):
    lists = ListedCones(oracle, 3)
    for thetas in np.random.default_rng(1).normal(size=(10, 3, oracle.dim)):
        z_hat = oracle.argmax(thetas)
        lists.set_answers(z_hat)
        for f in range(oracle.facet_count):
            rows = lists.pick(np.full(3, f))
            for r in range(3):
                assert np.array_equal(rows[r], oracle.facets(z_hat[r]).toarray()[f])


def test_an_answer_is_listed_once_and_the_cache_is_bounded(monkeypatch):
    oracle, built = TopKOracle(5, k=1), []

    class Counting(TopKOracle):
        def facets(self, z):
            built.append(z.tobytes())
            return super().facets(z)

    lists = ListedCones(Counting(5, k=1), 1)
    answers = [oracle.argmax(row) for row in np.eye(5)]
    for z in [*answers, *answers]:
        lists.set_answers(z[None])
    assert len(built) == 5
    monkeypatch.setattr(cones, "_MAX_CACHED_ENTRIES", 8)  # the facets of one answer: 4 swaps of two entries
    lists = ListedCones(Counting(5, k=1), 1)
    for z in [answers[0], answers[0], answers[1], answers[0]]:
        lists.set_answers(z[None])
    assert len(built) == 5 + 3
    assert lists._cached_entries <= 8

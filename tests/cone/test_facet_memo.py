"""`FacetMemo`: the oracle's own facets, built once, with a bound on what is kept."""

import numpy as np
import pytest

from combopeps import ExplicitOracle, TopKOracle
from combopeps.cone import memo as _memo
from combopeps.cone.memo import FacetMemo


@pytest.mark.parametrize("oracle", [TopKOracle(6, k=2), ExplicitOracle(np.random.default_rng(0).normal(size=(9, 4)))])
def test_the_facets_are_the_oracles(oracle):
    memo = FacetMemo(oracle)
    for theta in np.random.default_rng(1).normal(size=(30, oracle.dim)):
        z = oracle.argmax(theta)
        assert np.array_equal(memo(z).toarray(), oracle.facets(z).toarray())


def test_an_answer_is_built_once_and_little_is_kept(monkeypatch):
    oracle, built = TopKOracle(5, k=1), []

    class Counting(TopKOracle):
        def facets(self, z):
            built.append(z.tobytes())
            return super().facets(z)

    memo = FacetMemo(Counting(5, k=1))
    answers = [oracle.argmax(row) for row in np.eye(5)]
    for z in [*answers, *answers]:
        memo(z)
    assert len(built) == 5
    monkeypatch.setattr(_memo, "_NUMBERS", 8)  # the facets of one answer: 4 swaps of two entries
    memo = FacetMemo(Counting(5, k=1))
    for z in [answers[0], answers[0], answers[1], answers[0]]:
        memo(z)
    assert len(built) == 5 + 3
    assert memo._size <= 8

"""Ray exits against enumeration of the exits towards every answer."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from combopeps import ExplicitOracle, MatchingOracle, ShortestPathOracle, TopKOracle
from combopeps.alternatives.cone import ray_exits

DAG = nx.DiGraph([(i, j) for i in range(5) for j in range(i + 1, 5)])
ORACLES = {
    "top-k": TopKOracle(6, 2),
    "matching": MatchingOracle(3, 3),
    "path": ShortestPathOracle(DAG, 0, 4),
    "explicit": ExplicitOracle(np.random.default_rng(0).normal(size=(15, 4))),
}


def answers(oracle):
    """All answers that are best somewhere."""
    found = oracle.argmax(np.random.default_rng(1).normal(size=(5000, oracle.dim)))
    return np.unique(found, axis=0)


ALL = {name: answers(oracle) for name, oracle in ORACLES.items()}


def enumerated(Z, z_hat, base, v):
    """The smallest s at which some z catches up with z_hat along base + s v."""
    y = Z - z_hat
    slope, gap = y @ v, -y @ base
    return min((g / s for g, s in zip(gap, slope, strict=True) if s > 1e-12), default=np.inf)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(ORACLES)), st.integers(0, 100_000), st.integers(1, 6), st.booleans())
def test_exits_are_those_of_enumeration(name, seed, rays, tied):
    oracle, Z = ORACLES[name], ALL[name]
    rng = np.random.default_rng(seed)
    base = rng.integers(-2, 3, size=oracle.dim).astype(float) if tied else rng.normal(size=oracle.dim)
    z_hat, directions = oracle.argmax(base), rng.normal(size=(rays, oracle.dim))
    exits = ray_exits(oracle, z_hat, base, directions, np.full(rays, np.inf))
    for s, answer, found, v in zip(exits.s, exits.answers, exits.found, directions, strict=True):
        truth = enumerated(Z, z_hat, base, v)
        assert found == np.isfinite(truth)
        if found:
            assert s == pytest.approx(max(truth, 0.0), rel=1e-7, abs=1e-9)
            y = answer - z_hat
            assert y @ (base + s * v) == pytest.approx(0.0, abs=1e-9)
            assert y @ v > 0
        else:
            assert s == np.inf
            np.testing.assert_array_equal(answer, z_hat)
    assert not exits.empty.any()
    assert rays <= exits.oracle_calls <= 20 * rays


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(ORACLES)), st.integers(0, 100_000), st.floats(0.05, 5.0))
def test_exit_is_found_if_and_only_if_start_is_beyond_it(name, seed, factor):
    oracle, Z = ORACLES[name], ALL[name]
    rng = np.random.default_rng(seed)
    base, v = rng.normal(size=oracle.dim), rng.normal(size=(1, oracle.dim))
    z_hat = oracle.argmax(base)
    truth = enumerated(Z, z_hat, base, v[0])
    if not np.isfinite(truth) or abs(factor - 1.0) < 1e-3:
        return
    start = np.array([factor * truth])
    exits = ray_exits(oracle, z_hat, base, v, start)
    assert exits.found[0] == (factor > 1.0)
    assert exits.s[0] == pytest.approx(truth if factor > 1.0 else start[0], rel=1e-7)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(ORACLES)), st.integers(0, 100_000))
def test_a_line_through_a_point_outside_the_cone(name, seed):
    """From an alternative the cone lies on one side or nowhere, as `empty` states."""
    oracle, Z = ORACLES[name], ALL[name]
    rng = np.random.default_rng(seed)
    base, v = rng.normal(size=oracle.dim), rng.normal(size=oracle.dim)
    z_hat = oracle.argmax(rng.normal(size=oracle.dim))
    y = Z - z_hat
    slope, value = y @ v, y @ base
    if not value.max() > 1e-9:
        return
    high = min((-g / s for g, s in zip(value, slope, strict=True) if s > 1e-12), default=np.inf)
    low = max((-g / s for g, s in zip(value, slope, strict=True) if s < -1e-12), default=-np.inf)
    exits = ray_exits(oracle, z_hat, base, np.stack([v, -v]), np.full(2, np.inf))
    if high - low < -1e-9:
        assert exits.empty.any()
    elif high - low > 1e-9:
        assert not exits.empty.any()
        for side, end in ((0, high), (1, -low)):
            if exits.found[side]:
                assert exits.s[side] == pytest.approx(end, rel=1e-6, abs=1e-9)
            else:
                assert end == np.inf


def test_one_base_per_ray():
    oracle = ORACLES["top-k"]
    rng = np.random.default_rng(2)
    z_hat = oracle.argmax(np.arange(6.0))
    bases = np.arange(6.0) + 0.1 * rng.normal(size=(4, 6))
    directions = rng.normal(size=(4, 6))
    together = ray_exits(oracle, z_hat, bases, directions, np.full(4, np.inf))
    for k in range(4):
        alone = ray_exits(oracle, z_hat, bases[k], directions[k : k + 1], np.full(1, np.inf))
        assert together.s[k] == alone.s[0]


def test_a_known_facet_as_start_takes_one_call():
    oracle = ORACLES["matching"]
    rng = np.random.default_rng(3)
    base, directions = rng.normal(size=9), rng.normal(size=(50, 9))
    z_hat = oracle.argmax(base)
    cold = ray_exits(oracle, z_hat, base, directions, np.full(50, np.inf))
    warm = ray_exits(oracle, z_hat, base, directions[cold.found], cold.s[cold.found])
    assert warm.oracle_calls < 1.5 * cold.found.sum() < cold.oracle_calls
    np.testing.assert_allclose(warm.s, cold.s[cold.found], rtol=1e-9)

"""Is it a matroid? Subsets and exchanges of random independent sets, for `check_oracle`.

    subsets     I independent, J a part of I                            =>  J independent
    exchange    I, J independent, |I| = |J| - 1, and I has one          =>  I + e independent for some e in J - I
                component that J has not

The second, for sets this close, with the first is all there is to a matroid (Schrijver, Combinatorial Optimization,
theorem 39.1); and all maximal independent sets are then of one size, which is looked at too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, cast

import numpy as np

from combopeps.oracles.base import ArgmaxOracle
from combopeps.oracles.matroid import MatroidOracle

_TESTS = 3000  # of independence, roughly, for each of the two
_MOST_TRIALS, _FEWEST_TRIALS = 100, 10
_GREEDY = "a greedy choice is then not always the best: write an oracle with an exact argmax"


class _Probe(Protocol):
    @property
    def oracle(self) -> ArgmaxOracle: ...
    @property
    def rng(self) -> np.random.Generator: ...


def _trials(oracle: MatroidOracle) -> range:
    """As many sets as can be grown with so many tests."""
    return range(min(_MOST_TRIALS, max(_FEWEST_TRIALS, _TESTS // (2 * oracle.dim))))


def _grown(oracle: MatroidOracle, rng: np.random.Generator) -> list[int]:
    """A maximal independent set, by adding components in random order."""
    chosen: list[int] = []
    for i in rng.permutation(oracle.dim).tolist():
        if oracle.is_independent(sorted([*chosen, i])):
            chosen = sorted([*chosen, i])
    return chosen


def _subsets(p: _Probe) -> Iterator[str]:
    """Of sets drawn at random, and of grown ones: one component less, and any number less."""
    oracle, rng = cast(MatroidOracle, p.oracle), p.rng
    for trial in _trials(oracle):
        if trial % 4 == 0:
            found = _grown(oracle, rng)
        else:
            size = int(rng.integers(1, min(oracle.rank + 1, oracle.dim) + 1))
            found = sorted(rng.choice(oracle.dim, size, replace=False).tolist())
            if not oracle.is_independent(found):
                continue
        left = rng.random(len(found)) < rng.random()
        parts = [[i for i, keep in zip(found, left, strict=True) if keep]]
        parts += [[i for i in found if i != f] for f in rng.permutation(found)[:8].tolist()]
        for part in parts:
            if not oracle.is_independent(part):
                yield (
                    f"not a matroid: {oracle.name(found)} is independent, and {oracle.name(part)}, a part of it, "
                    f"is not; {_GREEDY}"
                )
                return


def _exchange(p: _Probe) -> Iterator[str]:
    """Two maximal sets of different size, or two small ones that differ in three components."""
    oracle, rng = cast(MatroidOracle, p.oracle), p.rng
    first = _grown(oracle, rng)
    for _ in _trials(oracle):
        larger = _grown(oracle, rng)
        if len(larger) != len(first):
            yield _no_exchange(oracle, *sorted([larger, first], key=len))
            return
        if len(larger) < 2:
            continue
        some = rng.permutation(larger)[: rng.integers(2, len(larger) + 1)].tolist()
        common, two = some[2:], some[:2]
        for e in rng.permutation(oracle.dim).tolist():
            smaller = sorted([*common, e])
            if e in some or not oracle.is_independent(smaller):
                continue
            if not any(oracle.is_independent(sorted([*smaller, x])) for x in two):
                yield _no_exchange(oracle, smaller, sorted(some))
                return


def _no_exchange(oracle: MatroidOracle, smaller: list[int], larger: list[int]) -> str:
    return (
        f"not a matroid: {oracle.name(smaller)} and {oracle.name(larger)} are independent, but no component of the "
        f"larger set can be added to the smaller; {_GREEDY}"
    )


MATROID_CHECKS: dict[str, Callable[[_Probe], Iterator[str]]] = {"subsets": _subsets, "exchange": _exchange}

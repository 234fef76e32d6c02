"""All answers of a set that is reached through its argmax, where they are few.

A part of Z is given by the components that its answers must have and must not have, and holds an answer z that is
known. One argmax finds the answer of the part that differs from z most:

    z' = argmax over the part of  #{a : z'_a differs from z_a}

If that is z, the part holds nothing else. Otherwise the two disagree about a component, which splits the part in two,
and both halves hold an answer that is known. Every question so finds an answer or closes a part: 2 |Z| - 1 in all.

A set that is too large shows it early. On a way down in which each half is as likely, a part without rest is reached
after as many splits as -log2 of its chance: the mean of 2^splits over such ways is |Z| (Knuth).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles.base import ArgmaxOracle, Sparse, as_sparse
from combopeps.oracles.forcing import Wanted, force

MOST = 100_000  # answers of an oracle that is quick
MOST_SLOW = 256  # of one that counts what it is asked
_BLOCK = 2048  # parts that are asked about together
_FEW = 1024  # answers that are listed before their number is estimated
_WAYS, _BEYOND = 64, 4.0  # ways down, and by how much the estimate must exceed the limit to be believed


def can_list(oracle: ArgmaxOracle) -> bool:
    """Can components be forced in and out, and is the set not known to be too large?"""
    if not oracle.binary or oracle.domain != "real":
        return False
    size = oracle.log_cardinality
    return size is None or not size.exact or size <= np.log(_limit(oracle)) + 1e-9


def list_answers(oracle: ArgmaxOracle) -> Sparse | None:
    """All answers, one in each row; None where they are too many, or the oracle does not find what must be there.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> list_answers(TopKOracle(4, k=2)).shape
    (6, 4)
    """
    if not can_list(oracle):
        return None
    most, counted = _limit(oracle), oracle.log_cardinality is not None and oracle.log_cardinality.exact
    open_parts, found, known = [_Parts.whole(oracle, 1)], list[NDArray[np.bool_]](), 1
    while open_parts:
        parts = open_parts.pop()
        if len(parts.z) > _BLOCK:
            open_parts.append(parts[_BLOCK:])
            parts = parts[:_BLOCK]
        other = parts.farthest(oracle)
        if other is None:
            return None
        split = (other != parts.z).any(axis=1)
        found.append(parts.z[~split])
        known += int(split.sum())  # parts do not overlap: each has an answer of its own
        if known > _FEW and not counted:
            counted = True
            if _estimate(oracle) > _BEYOND * most:
                return None
        if known > most:
            return None
        if split.any():
            one, two = parts[split].halves(other[split])
            open_parts.append(_Parts(np.concatenate([one.wanted, two.wanted]), np.concatenate([one.z, two.z])))
    return as_sparse(np.concatenate(found)) * oracle.unit


@dataclass(frozen=True)
class _Parts:
    """Parts of Z, in rows: what their answers must have and must not have, and an answer of each."""

    wanted: Wanted
    z: NDArray[np.bool_]

    @classmethod
    def whole(cls, oracle: ArgmaxOracle, times: int) -> _Parts:
        """All of Z, so many times."""
        z = oracle.argmax(np.zeros(oracle.dim)) != 0.0
        return cls(np.zeros((times, oracle.dim), dtype=np.int8), np.repeat(z[None], times, axis=0))

    def __getitem__(self, rows: Any) -> _Parts:
        return _Parts(self.wanted[rows], self.z[rows])

    def farthest(self, oracle: ArgmaxOracle) -> NDArray[np.bool_] | None:
        """z' of every part; None if the oracle does not find one, although there is z."""
        found = force(oracle, np.sign(oracle.unit) * np.where(self.z, -1.0, 1.0), self.wanted)
        return found.answers != 0.0 if found.obeys.all() else None

    def halves(self, other: NDArray[np.bool_]) -> tuple[_Parts, _Parts]:
        """Split at the first component about which z and z' disagree."""
        rows, at = np.arange(len(self.z)), (other != self.z).argmax(axis=1)
        with_z, with_other = self.wanted.copy(), self.wanted.copy()
        with_z[rows, at] = np.where(self.z[rows, at], 1, -1)
        with_other[rows, at] = -with_z[rows, at]
        return _Parts(with_z, self.z), _Parts(with_other, other)


def _estimate(oracle: ArgmaxOracle) -> float:
    """How many answers there are, roughly."""
    rng, parts, total = np.random.default_rng(0), _Parts.whole(oracle, _WAYS), 0.0
    for splits in count():
        other = parts.farthest(oracle)
        if other is None:
            return np.inf
        split = (other != parts.z).any(axis=1)
        total += float((~split).sum()) * 2.0**splits
        if not split.any():
            return total / _WAYS
        one, two = parts[split].halves(other[split])
        first = (rng.random(int(split.sum())) < 0.5)[:, None]
        parts = _Parts(np.where(first, one.wanted, two.wanted), np.where(first, one.z, two.z))
    raise AssertionError


def _limit(oracle: ArgmaxOracle) -> int:
    return MOST if oracle.quick else MOST_SLOW

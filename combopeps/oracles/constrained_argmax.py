"""With this component and without that one: the best answer of a part of Z, through the argmax alone.

    max z @ theta   over   {z in Z : z holds every component that is wanted, and none that is not}

A weight above the sum of all others puts one component before everything else. Answers have entries 0 and `unit`.

All answers of a set that is reached through its argmax, where they are few.

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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import OracleError
from combopeps.oracles.base import ArgmaxOracle, Array, Sparse, as_sparse

Wanted = NDArray[np.int8]  # per row and component: 1 must be in the answer, -1 must not, 0 is free


class Forced(NamedTuple):
    """What the oracle made of it, row by row.

    An answer `is_feasible` that holds what is wanted, and nothing that is not; if it does not, there is no such answer (where
    nothing was clipped). `slack` is by how much another one that obeys may be better, in sums of theta over its free
    components: the oracle's resolution, and for theta >= 0 only (`domain`) what clipping hides.
    """

    answers: Array  # (B, d)
    is_feasible: NDArray[np.bool_]
    slack: Array


def can_constrain(oracle: ArgmaxOracle) -> bool:
    """Can components be forced out (and, where answers may contain each other, in)?"""
    return oracle.binary and (oracle.domain == "real" or (oracle.antichain and oracle.unit < 0))


def constrained_argmax(oracle: ArgmaxOracle, thetas: Array, wanted: NDArray[np.signedinteger[Any]]) -> Forced:
    """The best answers under thetas, (B, d) or one for all, among those that are as wanted, (B, d).

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> constrained_argmax(TopKOracle(4, k=2), np.array([4.0, 3.0, 2.0, 1.0]), np.array([[-1, 0, 0, 1]])).answers
    array([[0., 1., 0., 1.]])
    """
    thetas = np.broadcast_to(thetas, wanted.shape)
    size = np.abs(thetas).sum(axis=1)
    large = np.where(size > 0.0, 2.0 * size, 1.0)[:, None]
    given = np.where(wanted == 0, thetas, np.sign(oracle.unit) * large * wanted)
    # Thousands of roundings: room for the large weights too. The oracle's values are |unit| times sums of theta.
    slack = oracle.resolution * size * max(1.0, 1.0 / abs(oracle.unit))
    if oracle.domain == "nonnegative":
        slack += np.maximum(-given, 0.0).sum(axis=1)
        given = np.maximum(given, 0.0)
    answers = binary_answers(oracle, given) if oracle.binary else oracle.argmax(given)
    is_feasible = (wanted == 0) | ((answers != 0.0) == (wanted > 0))
    return Forced(answers, is_feasible.all(axis=1), slack)


def flip_one_component(components: NDArray[np.intp], z: Array) -> Wanted:
    """For each of these components: without it where z has it, with it where z has not."""
    wanted = np.zeros((len(components), len(z)), dtype=np.int8)
    wanted[np.arange(len(components)), components] = np.where(z[components] != 0.0, -1, 1)
    return wanted


def second_best(oracle: ArgmaxOracle, theta: Array, z_star: Array) -> Array | None:
    """argmax over Z without z*: by the list of facets, or by forcing; None where there is none, or no way to it."""
    facets = oracle.facets(z_star)
    if facets is not None:
        gains = facets @ theta
        return z_star + facets[[int(gains.argmax())]].toarray()[0] if len(gains) else None
    if not can_constrain(oracle):
        return None
    components = np.flatnonzero(z_star) if oracle.antichain else np.arange(oracle.dim)
    found = constrained_argmax(oracle, theta, flip_one_component(components, z_star))
    others = found.answers[found.is_feasible]
    return others[int((others @ theta).argmax())] if len(others) else None


def enumerate_answers(oracle: ArgmaxOracle, limit: int, calls: int = 5000) -> list[Array] | None:
    """All answers of a set of 0/unit vectors on R^d by branching; None beyond `limit` answers or `calls` questions.

    A branch fixes some coordinates. The oracle's answer either obeys, and the branch splits at each later coordinate,
    or it does not, and the branch is empty (Lawler). For checks only, never on the way to an answer.
    """
    d = oracle.dim
    tie_breaker = np.random.default_rng(0).uniform(0.1, 1.0, d)
    first = oracle.argmax(tie_breaker)
    answers = [first]
    branches = [(first, i) for i in range(d)]  # as this answer up to coordinate i, which is flipped
    while branches:
        parent, i = branches.pop()
        wanted = np.zeros((1, d), dtype=np.int8)
        wanted[0, : i + 1] = np.where(parent[: i + 1] != 0.0, 1, -1)
        wanted[0, i] *= -1
        calls -= 1
        found = constrained_argmax(oracle, tie_breaker, wanted)
        if found.is_feasible[0]:
            answers.append(found.answers[0])
            branches += [(found.answers[0], j) for j in range(i + 1, d)]
        if len(answers) > limit or calls <= 0:
            return None
    return answers


def binary_answers(oracle: ArgmaxOracle, thetas: Array) -> Array:
    """The argmax of an oracle that promises 0/`unit` entries, and keeps to it."""
    answers = oracle.argmax(thetas)
    if not ((answers == 0.0) | (answers == oracle.unit)).all():
        raise OracleError(
            f"{oracle!r} says binary = True, but an answer has entries other than 0 and {oracle.unit:g}; "
            "list such a Z with ExplicitOracle, or take the promise back",
            thetas[0],
        )
    return answers


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
        found = constrained_argmax(oracle, np.sign(oracle.unit) * np.where(self.z, -1.0, 1.0), self.wanted)
        return found.answers != 0.0 if found.is_feasible.all() else None

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

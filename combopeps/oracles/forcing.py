"""With this component and without that one: the best answer of a part of Z, through the argmax alone.

    max z @ theta   over   {z in Z : z holds every component that is wanted, and none that is not}

A weight above the sum of all others puts one component before everything else. Answers have entries 0 and `unit`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import OracleError
from combopeps.oracles.base import ArgmaxOracle, Array

Wanted = NDArray[np.int8]  # per row and component: 1 must be in the answer, -1 must not, 0 is free


class Forced(NamedTuple):
    """What the oracle made of it, row by row.

    An answer `obeys` that holds what is wanted, and nothing that is not; if it does not, there is no such answer (where
    nothing was clipped). `slack` is by how much another one that obeys may be better, in sums of theta over its free
    components: the oracle's resolution, and for theta >= 0 only (`domain`) what clipping hides.
    """

    answers: Array  # (B, d)
    obeys: NDArray[np.bool_]
    slack: Array


def can_force(oracle: ArgmaxOracle) -> bool:
    """Can components be forced out (and, where answers may contain each other, in)?"""
    return oracle.binary and (oracle.domain == "real" or (oracle.antichain and oracle.unit < 0))


def force(oracle: ArgmaxOracle, thetas: Array, wanted: NDArray[np.signedinteger[Any]]) -> Forced:
    """The best answers under thetas, (B, d) or one for all, among those that are as wanted, (B, d).

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> force(TopKOracle(4, k=2), np.array([4.0, 3.0, 2.0, 1.0]), np.array([[-1, 0, 0, 1]])).answers
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
    obeys = (wanted == 0) | ((answers != 0.0) == (wanted > 0))
    return Forced(answers, obeys.all(axis=1), slack)


def one_at_a_time(components: NDArray[np.intp], z: Array) -> Wanted:
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
    if not can_force(oracle):
        return None
    components = np.flatnonzero(z_star) if oracle.antichain else np.arange(oracle.dim)
    found = force(oracle, theta, one_at_a_time(components, z_star))
    others = found.answers[found.obeys]
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
        found = force(oracle, tie_breaker, wanted)
        if found.obeys[0]:
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

"""List a small Z through its oracle: for checks only, never on the way to an answer."""

from __future__ import annotations

import numpy as np

from combopeps.oracles.base import ArgmaxOracle, Array


def enumerate_answers(oracle: ArgmaxOracle, limit: int, calls: int = 5000) -> list[Array] | None:
    """All answers of a set of 0/unit vectors on R^d by branching; None beyond `limit` answers or `calls` questions.

    A branch fixes some coordinates: a weight of +-M forces them in or out. The oracle's answer either obeys,
    and the branch splits at each later coordinate, or it does not, and the branch is empty (Lawler).
    """
    d = oracle.dim
    tie_breaker = np.random.default_rng(0).uniform(0.1, 1.0, d)
    force = 4.0 * d
    first = oracle.argmax(tie_breaker)
    answers = [first]
    branches = [(first, i) for i in range(d)]  # as this answer up to coordinate i, which is flipped
    while branches:
        parent, i = branches.pop()
        wanted = parent[: i + 1].copy()
        wanted[i] = oracle.unit - wanted[i]
        theta = tie_breaker.copy()
        theta[: i + 1] = force * np.where(wanted != 0, oracle.unit, -oracle.unit)
        calls -= 1
        z = oracle.argmax(theta)
        if np.array_equal(z[: i + 1], wanted):
            answers.append(z)
            branches += [(z, j) for j in range(i + 1, d)]
        if len(answers) > limit or calls <= 0:
            return None
    return answers

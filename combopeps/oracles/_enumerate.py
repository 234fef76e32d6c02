"""List a small Z through its oracle: for checks only, never on the way to an answer."""

from __future__ import annotations

import numpy as np

from combopeps.oracles.base import ArgmaxOracle, Array


def enumerate_answers(oracle: ArgmaxOracle, limit: int) -> list[Array] | None:
    """All answers of a set of 0/unit vectors on R^d by branching, or None when there are more than `limit`.

    A branch fixes some coordinates: a weight of +-M forces them in or out. The oracle's answer either obeys,
    and the branch splits at each later coordinate, or it does not, and the branch is empty (Lawler).
    """
    d = oracle.dim
    tie_breaker = np.random.default_rng(0).uniform(0.1, 1.0, d)
    force = 4.0 * d
    answers: list[Array] = []
    branches = [(np.zeros(0), 0)]  # (values of the fixed leading coordinates, how many)
    while branches:
        fixed, size = branches.pop()
        theta = tie_breaker.copy()
        theta[:size] = force * np.where(fixed != 0, oracle.unit, -oracle.unit)
        z = oracle.argmax(theta)
        if not np.array_equal(z[:size], fixed):
            continue
        answers.append(z)
        if len(answers) > limit:
            return None
        for i in range(size, d):
            flipped = z[: i + 1].copy()
            flipped[i] = oracle.unit - flipped[i]
            branches.append((flipped, i + 1))
    return answers

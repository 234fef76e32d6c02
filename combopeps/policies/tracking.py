"""From a share of the measurements to a sequence of arms, for R replications at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from combopeps.streams import Streams

Array = NDArray[np.float64]
Arm = NDArray[np.intp]


class CTracking:
    """x_t = argmax_x sum_{s <= t} lam_{s, x} - N_{t-1, x}: the arm that lags most behind its cumulated share.

    N counts what was picked here, so that arms asked for in a batch count at once.

    Examples
    --------
    >>> tracker = CTracking(2, Streams.of(0, 1))
    >>> [int(tracker.pick(np.array([[0.26, 0.74]]))[0]) for _ in range(4)]
    [1, 0, 1, 1]
    """

    def __init__(self, arms: int, streams: Streams) -> None:
        self._lag = 1e-9 * streams.normal(arms)  # a tiny random start breaks ties
        self._rows = np.arange(len(streams))

    def pick(self, lam: Array) -> Arm:
        """The arm of every replication, (R,), after its share lam, (R, K) or (K,), was added."""
        self._lag += lam
        arm: Arm = self._lag.argmax(axis=1)
        self._lag[self._rows, arm] -= 1.0
        return arm


class RoundRobin:
    """Every arm once in K rounds, in an order drawn at random in each replication and kept.

    Examples
    --------
    >>> turns = RoundRobin(3, Streams.of(0, 1))
    >>> sorted(int(turns.pick()[0]) for _ in range(3))
    [0, 1, 2]
    """

    def __init__(self, arms: int, streams: Streams) -> None:
        self._order: Arm = streams.normal(arms).argsort(axis=1)
        self._arms, self._turn = arms, 0

    @property
    def complete(self) -> bool:
        """Has every arm had a turn?"""
        return self._turn >= self._arms

    def pick(self) -> Arm:
        """The next arm of every replication, (R,)."""
        arm: Arm = self._order[:, self._turn % self._arms]
        self._turn += 1
        return arm

"""From shares of the measurements to arms, for R replications at once: drawn, tracked, or in turn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from combopeps.streams import Streams

Array = NDArray[np.float64]
Arm = NDArray[np.intp]
_BLOCK = 512  # arms whose weights are summed up at once


def draw_arms(weights: Array, uniform: Array) -> Arm:
    """One arm per row, with probability proportional to its weight."""
    if len(weights) == 1:
        return np.array([_draw_arm(weights[0], float(uniform[0]))])
    cumulative = np.cumsum(weights, axis=1)
    last = weights.shape[1] - 1
    return np.asarray(np.minimum((cumulative <= uniform[:, None] * cumulative[:, -1:]).sum(axis=1), last))


def _draw_arm(weights: Array, uniform: float) -> int:
    """First the block, then the arm in it: sums of blocks are many times faster than running sums of everything."""
    if len(weights) <= 4 * _BLOCK:
        cumulative = weights.cumsum()
        return _place(cumulative, uniform * cumulative[-1])
    blocks = np.add.reduceat(weights, np.arange(0, len(weights), _BLOCK)).cumsum()
    target = uniform * blocks[-1]
    block = _place(blocks, target)
    first, before = block * _BLOCK, blocks[block - 1] if block else 0.0
    return first + _place(weights[first : first + _BLOCK].cumsum(), target - before)


def _place(cumulative: Array, target: float) -> int:
    return min(int(cumulative.searchsorted(target, side="right")), len(cumulative) - 1)


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

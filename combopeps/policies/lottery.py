"""One arm per replication, drawn with given weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles.base import Array

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

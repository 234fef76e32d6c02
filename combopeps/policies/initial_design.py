"""`InitialDesign`: the initial design, measured before a policy chooses: every arm n times, or a random subset of arms.

The design is a sequence of positions 0, 1, ...: position p is assigned to arm order[p % A], where `order` is a random
permutation drawn once and A the number of arms in the design, and is complete when that arm has more than p // A
measurements. The next arm thus depends on the counts of measurements and open queries only, whatever their source.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import ParameterError
from combopeps.random import Streams
from combopeps.utils.validation import LARGEST_INTEGER, shown

Arm = NDArray[np.intp]
Counts = NDArray[np.int64]


def initial_design_length(initial_design: Any) -> int:
    """Return how often every arm is measured in the initial design: True means once, None means 0.

    Examples
    --------
    >>> initial_design_length(True), initial_design_length(3), initial_design_length(None)
    (1, 3, 0)
    """
    if initial_design is None:
        return 0
    if not isinstance(initial_design, (int, np.integer)) or not 0 <= initial_design <= LARGEST_INTEGER:
        raise ParameterError(
            f"initial_design must be True, or how often to measure every arm first, got {shown(initial_design)}"
        )
    return int(initial_design)


class InitialDesign:
    """Initial designs of R replications, each in a random order of its own.

    Parameters
    ----------
    count
        Number of arms, K.
    streams
        Source of the random orders.
    arms, length
        A and the number of positions of a design of a random subset of arms.

    Attributes
    ----------
    times
        How often every arm is measured, if this was required.
    is_complete
        Whether the last `pick` found the designs of all replications complete.

    Examples
    --------
    >>> design = InitialDesign(3, Streams.of(0, 1))
    >>> design.require(1)
    >>> int(design.pick(np.array([[1, 5, 0]]))[0])
    2
    """

    def __init__(self, count: int, streams: Streams, *, arms: int = 0, length: int = 0) -> None:
        self._count, self._arms, self._length, self.times = count, arms, length, 0
        self._order: Arm = streams.normal(count).argsort(axis=1)
        self._rows = np.arange(len(streams))
        self.restart()

    def require(self, times: int) -> None:
        """Measure every arm at least `times` times, instead of a subset."""
        self.times = max(self.times, times)
        self._arms, self._length, self.is_complete = self._count, self.times * self._count, False

    def pick(self, pulls: Counts) -> Arm:
        """Return the next arm of every replication, (R,), given the counts (R, K); -1 where the design is complete."""
        while True:
            arm = self._order[self._rows, self._position % self._arms]
            active = self._position < self._length
            measured = active & (pulls[self._rows, arm] > self._position // self._arms)
            if not measured.any():
                self.is_complete = not active.any()
                return np.where(active, arm, -1)
            self._position += measured

    def restart(self) -> None:
        """Return to the first position, as measurements may have been retracted."""
        self._position = np.zeros(len(self._rows), dtype=np.intp)  # all earlier positions are complete
        self.is_complete = False

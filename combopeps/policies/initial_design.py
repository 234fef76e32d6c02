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
from combopeps.utils.state_dict import StateDict, array
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
    times
        How often every arm is measured.
    streams
        Source of the random orders.
    subset
        (A, n): a design of n measurements of A random arms in turn, used while `times` is 0.

    Examples
    --------
    >>> design = InitialDesign(3, 1, Streams.of(0, 1))
    >>> int(design.pick(np.array([[1, 5, 0]]))[0])
    2
    >>> design.left(np.array([1, 5, 0]))
    1
    """

    def __init__(self, count: int, times: int, streams: Streams, *, subset: tuple[int, int] | None = None) -> None:
        self._count, self.times, self._subset = count, times, subset
        self._order: Arm = streams.normal(count).argsort(axis=1)
        self._rows = np.arange(len(streams))
        self._position = np.zeros(len(streams), dtype=np.intp)  # all earlier positions are complete

    @property
    def arms(self) -> int:
        """Number of arms in the design, A."""
        return self._count if self._subset is None or self.times else self._subset[0]

    @property
    def length(self) -> int:
        """Number of measurements in the design."""
        return self.times * self._count if self._subset is None or self.times else self._subset[1]

    def pick(self, pulls: Counts) -> Arm:
        """Return the next arm of every replication, (R,), given the counts (R, K); -1 where the design is complete."""
        while True:
            arm = self._order[self._rows, self._position % self.arms]
            active = self._position < self.length
            measured = active & (pulls[self._rows, arm] > self._position // self.arms)
            if not measured.any():
                return np.where(active, arm, -1)
            self._position += measured

    def __copy__(self) -> InitialDesign:
        """Return a copy with positions of its own."""
        other = object.__new__(type(self))
        other.__dict__.update(vars(self) | {"_position": self._position.copy()})
        return other

    def restart(self) -> None:
        """Return to the first position, as measurements may have been retracted."""
        self._position[:] = 0

    @property
    def is_complete(self) -> bool:
        """Whether every replication was past its last position at the last `pick`."""
        return int(self._position.min()) >= self.length

    def left(self, counts: Counts) -> int:
        """Return the number of measurements left in one replication, given its counts, (K,)."""
        if self._subset is None or self.times:
            return int(np.maximum(self.times - counts, 0).sum())
        position = np.arange(self.length)
        return int((counts[self._order[0, position % self.arms]] <= position // self.arms).sum())

    def state_dict(self) -> StateDict:
        """Return the positions; the order is drawn again from the streams."""
        return {"at": self._position}

    def load_state_dict(self, data: StateDict) -> None:
        """Restore the positions; ValueError if they exceed the design."""
        at = array(data["at"], self._position.dtype, len(self._position))
        if ((at < 0) | (at > self.length)).any():
            raise ValueError("the position in the initial design exceeds its length")
        self._position[:] = at

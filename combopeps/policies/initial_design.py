"""`InitialDesign`: the initial design, measured before anything is chosen: every arm so many times, or some random ones.

Places 0, 1, ... are filled in turn: the first A arms of an order drawn once, over and over. Place p belongs to arm
order[p % A], and is filled when that has more than p // A measurements. So the next arm follows from the measurements
(and open queries) alone, whatever they were made for: what was measured before need not be swept.
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
    """How often every arm is to be measured first, from what users write: True for once, None for not at all.

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
    """Which arms of R replications have yet to be measured; an order of its own for each.

    Parameters
    ----------
    count
        Number of arms there are, K.
    times
        How often every arm is measured.
    streams
        For the order.
    some
        (A, places): instead, only A random arms, one after the other, for so many measurements in all.

    Examples
    --------
    >>> initial design = InitialDesign(3, 1, Streams.of(0, 1))
    >>> int(initial design.pick(np.array([[1, 5, 0]]))[0])
    2
    >>> initial design.left(np.array([1, 5, 0]))
    1
    """

    def __init__(self, count: int, times: int, streams: Streams, *, some: tuple[int, int] | None = None) -> None:
        self._count, self.times, self._some = count, times, some
        self._order: Arm = streams.normal(count).argsort(axis=1)
        self._rows = np.arange(len(streams))
        self._at = np.zeros(len(streams), dtype=np.intp)  # all places before have been filled, which is for good

    @property
    def arms(self) -> int:
        """A: how many arms are measured in turn."""
        return self._count if self._some is None or self.times else self._some[0]

    @property
    def places(self) -> int:
        """Measurements in all."""
        return self.times * self._count if self._some is None or self.times else self._some[1]

    def pick(self, pulls: Counts) -> Arm:
        """The next arm of every replication, (R,), after these measurements, (R, K); -1 where nothing is left."""
        while True:
            arm = self._order[self._rows, self._at % self.arms]
            under_way = self._at < self.places
            filled = under_way & (pulls[self._rows, arm] > self._at // self.arms)
            if not filled.any():
                return np.where(under_way, arm, -1)
            self._at += filled

    def __copy__(self) -> InitialDesign:
        """A copy that moves on by itself."""
        twin = object.__new__(type(self))
        twin.__dict__.update(vars(self) | {"_at": self._at.copy()})
        return twin

    def restart(self) -> None:
        """Begin at the first place again: measurements were retracted."""
        self._at[:] = 0

    @property
    def over(self) -> bool:
        """Is nothing left for good? It may be noticed late."""
        return int(self._at.min()) >= self.places

    def left(self, counts: Counts) -> int:
        """How many measurements it takes still, of one replication whose arms have these, (K,)."""
        if self._some is None or self.times:
            return int(np.maximum(self.times - counts, 0).sum())
        place = np.arange(self.places)
        return int((counts[self._order[0, place % self.arms]] <= place // self.arms).sum())

    def state_dict(self) -> StateDict:
        """How far it has come, as plain data; its order is drawn again."""
        return {"at": self._at}

    def load_state_dict(self, data: StateDict) -> None:
        """Take that back."""
        at = array(data["at"], self._at.dtype, len(self._at))
        if ((at < 0) | (at > self.places)).any():
            raise ValueError("an initial design has fewer places")
        self._at[:] = at

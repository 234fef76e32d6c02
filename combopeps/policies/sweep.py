"""`Sweep`: every arm so many times, before anything is chosen.

Places 0, 1, ... are filled in turn: the arms in an order drawn once, as often as the sweep is long. Place p of K arms
belongs to arm order[p % K], and is filled when that has more than p // K measurements. So the next arm follows from the
measurements (and open queries) alone, whatever they were made for: what was measured before need not be swept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import ParameterError
from combopeps.restore import Plain, array
from combopeps.streams import Streams
from combopeps.validation import LARGEST_INTEGER, shown

Arm = NDArray[np.intp]
Counts = NDArray[np.int64]
_BLOCK = 256  # places looked at together


def sweep_length(sweep: Any) -> int:
    """How often every arm is to be measured first, from what users write: True for once, None for not at all.

    Examples
    --------
    >>> sweep_length(True), sweep_length(3), sweep_length(None)
    (1, 3, 0)
    """
    if sweep is None:
        return 0
    if not isinstance(sweep, (int, np.integer)) or not 0 <= sweep <= LARGEST_INTEGER:
        raise ParameterError(f"sweep must be True, or how often to measure every arm first, got {shown(sweep)}")
    return int(sweep)


class Sweep:
    """Which arms of R replications have yet to be measured; an order of its own for each.

    Examples
    --------
    >>> sweep = Sweep(3, 1, Streams.of(0, 1))
    >>> sorted(sweep.take(np.array([0, 5, 0]), 10))
    [0, 2]
    """

    def __init__(self, arms: int, times: int, streams: Streams) -> None:
        self.arms, self.times = arms, times
        self._order: Arm = streams.normal(arms).argsort(axis=1)
        self._rows = np.arange(len(streams))
        self._at = np.zeros(len(streams), dtype=np.intp)  # all places before have been filled, which is for good

    def pick(self, pulls: Counts) -> Arm:
        """The next arm of every replication, (R,), after these measurements, (R, K); -1 where nothing is left."""
        while True:
            arm = self._order[self._rows, self._at % self.arms]
            under_way = self._at < self.times * self.arms
            filled = under_way & (pulls[self._rows, arm] > self._at // self.arms)
            if not filled.any():
                return np.where(under_way, arm, -1)
            self._at += filled

    def take(self, pulls: Counts, n: int, waiting: Counts | None = None) -> list[int]:
        """Up to n arms for one replication, given the measurements and the open queries of every arm, (K,)."""
        order, begin, end = self._order[0], int(self._at[0]), self.times * self.arms
        while begin < end and pulls.item(order.item(begin % self.arms)) > begin // self.arms:
            begin += 1
        self._at[0] = begin
        if n == 1 and waiting is None:
            return [order.item(begin % self.arms)] if begin < end else []
        counts, found = pulls if waiting is None else pulls + waiting, list[int]()
        while len(found) < n and begin < end:
            places = np.arange(begin, min(end, begin + max(_BLOCK, n)))
            arms = order[places % self.arms]
            found += arms[counts[arms] <= places // self.arms][: n - len(found)].tolist()
            begin += len(places)
        return found

    @property
    def over(self) -> bool:
        """Is nothing left for good? It may be noticed late."""
        return int(self._at.min()) >= self.times * self.arms

    def left(self, counts: Counts) -> int:
        """How many measurements it takes still, of one replication whose arms have these, (K,)."""
        return int(np.maximum(self.times - counts, 0).sum())

    def plain(self) -> Plain:
        """How far it has come, as plain data; its order is drawn again."""
        return {"at": self._at}

    def restore(self, data: Plain) -> None:
        """Take that back."""
        at = array(data["at"], self._at.dtype, len(self._at))
        if ((at < 0) | (at > self.times * self.arms)).any():
            raise ValueError("a sweep has as many places as there are arms, times its length")
        self._at[:] = at

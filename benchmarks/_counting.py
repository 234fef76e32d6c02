"""How often is an oracle asked, and how long does it take to answer?"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from combopeps import ArgmaxOracle


class Calls:
    """Counts the rows that go through an oracle's argmax and membership from now on, and the seconds spent there."""

    def __init__(self, oracle: ArgmaxOracle, clock: Callable[[], float] = time.perf_counter) -> None:
        self.rows, self.seconds, self._clock = 0, 0.0, clock
        self._inside = False
        oracle._answers = self._counting(oracle._answers)  # type: ignore[method-assign]
        oracle._membership_batch = self._counting(oracle._membership_batch)  # type: ignore[method-assign]

    def _counting(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: np.ndarray) -> Any:
            if self._inside:  # a membership that asks for an argmax is one question, not two
                return method(*arguments)
            self._inside, start = True, self._clock()
            try:
                return method(*arguments)
            finally:
                self.rows += len(arguments[-1])
                self.seconds += self._clock() - start
                self._inside = False

        return counted

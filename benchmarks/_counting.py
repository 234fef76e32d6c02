"""How often is an oracle asked?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from combopeps import ArgmaxOracle


class Calls:
    """Counts the rows that go through an oracle's argmax and membership from now on."""

    def __init__(self, oracle: ArgmaxOracle) -> None:
        self.rows = 0
        oracle._argmax_batch = self._counting(oracle._argmax_batch)  # type: ignore[method-assign]
        oracle._membership_batch = self._counting(oracle._membership_batch)  # type: ignore[method-assign]

    def _counting(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: np.ndarray) -> Any:
            self.rows += len(arguments[-1])
            return method(*arguments)

        return counted

"""A share of runs, and how well it is known."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

_Z = 1.959963984540054  # 95 %


@dataclass(frozen=True)
class Share:
    """Of so many runs, the share with some property, and Wilson's 95 % interval for its probability.

    Examples
    --------
    >>> Share.of(80, 100)
    Share(value=0.8, low=0.711, high=0.867, runs=100)
    >>> print(Share.of(0, 0))
    unknown
    """

    value: float
    low: float
    high: float
    runs: int

    @classmethod
    def of(cls, hits: float, runs: int) -> Share:
        """hits of runs."""
        if runs == 0:
            return cls(float("nan"), 0.0, 1.0, 0)
        p, z2 = hits / runs, _Z * _Z
        middle = (p + z2 / (2 * runs)) / (1 + z2 / runs)
        half = _Z * sqrt(p * (1 - p) / runs + z2 / (4 * runs * runs)) / (1 + z2 / runs)
        return cls(p, max(0.0, middle - half) if hits else 0.0, min(1.0, middle + half) if hits < runs else 1.0, runs)

    def __repr__(self) -> str:
        return f"Share(value={self.value:.3g}, low={self.low:.3g}, high={self.high:.3g}, runs={self.runs})"

    def __str__(self) -> str:
        if not self.runs:
            return "unknown"
        return f"{100 * self.value:.1f} % [{100 * self.low:.1f}, {100 * self.high:.1f}]"

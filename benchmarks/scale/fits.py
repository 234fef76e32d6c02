"""From points to what they say of larger ones: slopes with their errors, and intervals for the next point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

LEVEL = 0.95


@dataclass(frozen=True)
class Line:
    """y = a + b x by least squares, with what it takes to say how far off another point may be."""

    a: float
    b: float
    error: float  # standard error of b
    scatter: float  # of a point about the line
    centre: float
    spread: float
    points: int

    @classmethod
    def through(cls, x: np.ndarray, y: np.ndarray) -> Line:
        """At least three points."""
        centre = float(x.mean())
        spread = float(((x - centre) ** 2).sum())
        b = float(((x - centre) * (y - y.mean())).sum() / spread)
        a = float(y.mean() - b * centre)
        scatter = float(np.sqrt(((y - a - b * x) ** 2).sum() / (len(x) - 2)))
        return cls(a, b, scatter / spread**0.5, scatter, centre, spread, len(x))

    def at(self, x: float) -> tuple[float, float, float]:
        """What is expected of another point, and the 95 % interval for it, if the line goes on."""
        y = self.a + self.b * x
        factor = float(student.ppf(0.5 + LEVEL / 2, self.points - 2))
        off = factor * self.scatter * float(np.sqrt(1 + 1 / self.points + (x - self.centre) ** 2 / self.spread))
        return y, y - off, y + off


def power(x: np.ndarray, y: np.ndarray) -> Line:
    """log y against log x."""
    return Line.through(np.log(x), np.log(y))


def beyond(x: np.ndarray, y: np.ndarray, far: float) -> tuple[float, float, float]:
    """What a `power` says of a size beyond, and its interval; growth is never taken for less than in proportion.

    A slope below 1 is that of a fixed part, which counts less and less, and a rest that grows at least with the size.
    """
    line = power(x, y)
    middle, low, high = (float(np.exp(value)) for value in line.at(float(np.log(far))))
    lift = max(1.0, float(y[-1]) * far / float(x[-1]) / middle) if line.b < 1.0 else 1.0
    return lift * middle, lift * low, lift * high

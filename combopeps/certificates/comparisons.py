"""How well n_x measurements of every arm tell z_hat from its rivals.

|y|^2 = y' G^-1 y,   G = sum_x n_x x x',   -d|y|^2 / dn_x = (x' G^-1 y)^2     in units of the noise
"""

from __future__ import annotations

from typing import Any

import numpy as np

from combopeps.belief import Arms, Measurements
from combopeps.cone.differences import Differences
from combopeps.oracles.base import Array

_SMALL = 65_536  # entries up to which full rows are faster than sparse ones


class Comparisons:
    """Differences y, seen through the arms."""

    def __init__(self, arms: Arms, rows: Differences) -> None:
        self.arms = arms
        matrix = rows.matrix(arms.dim)
        self._squares: Any = matrix * matrix
        if len(rows) * arms.dim <= _SMALL:
            self._squares = self._squares.toarray()
        self._lifted = np.zeros((0, 0)) if arms.are_units else np.asarray(matrix @ arms.span.lift)

    def widths(self, n: Array) -> tuple[Array, Array]:
        """|y|^2 of every row; and, for `slopes`, the diagonal of G^-1 (unit arms) or G^-1 y of every row."""
        information = Measurements(self.arms, 1.0, n, n).information
        if self.arms.are_units:
            seen = information > 0.0
            variance = np.where(seen, 1.0 / np.where(seen, information, 1.0), 0.0)
            return np.asarray(self._squares @ variance), variance
        q = np.linalg.solve(information, self._lifted.T).T
        return np.asarray((self._lifted * q).sum(axis=1)), np.asarray(q)

    def slopes(self, inverse: Array, weights: Array) -> Array:
        """sum_y weight_y (x' G^-1 y)^2 of every arm."""
        if self.arms.are_units:
            along = (weights @ self._squares) * inverse**2
            return np.asarray(along[self.arms.component] * self.arms.coefficient**2)
        return np.asarray(weights @ (inverse @ self.arms.span.rows.T) ** 2)

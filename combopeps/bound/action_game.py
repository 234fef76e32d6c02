"""The game where measurements are actions: columns are found as they are needed.

    w_i = sum_a lam_a 1{i in a} / (cost_a noise_i^2),   c' A(lam)^-1 c = sum_i c_i^2 / w_i

lam shares out the cost among the actions met so far. Which action would be worth more than these is one call of the
action oracle, at the price of every component: g_i = sum_c u_c c_i^2 / (w_i noise_i)^2, u the weights of the rivals.
Since every action counts in the maximum, so does the lower end of the game against all of them:

    phi^2 / max_a (sum_{i in a} g_i / cost_a)  <=  rho(C),   phi = sum_c u_c c' A(lam)^-1 c,   sum(u) = 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from combopeps.actions import Actions, Mask
from combopeps.bound.game import UnitGame, solve
from combopeps.oracles.base import Array
from combopeps.problem import Problem

_COLUMNS = 1000  # found in one game at most: each makes its value smaller


class ActionGame(UnitGame):
    """Actions as columns, beginning with some that show every component."""

    def __init__(self, problem: Problem, actions: Actions) -> None:
        super().__init__(problem.arms)
        self._actions, self._noise = actions, problem.noise
        self.columns = np.zeros((0, actions.oracle.dim), dtype=bool)
        self._rates = np.zeros((0, problem.oracle.dim))  # 1 / (cost_a noise_i^2) where action a shows component i
        self.certain = actions.finds_best
        for action in actions.cover()[0]:
            self._add(action)

    @property
    def cost(self) -> Array:
        """Of every column."""
        return self._actions.cost_of(self.columns)

    def labels(self) -> list[Any]:
        """The columns as people read them."""
        return [self._actions.label(action) for action in self.columns]

    def _add(self, action: Mask) -> bool:
        """Whether it is new."""
        if (self.columns == action).all(axis=1).any():
            return False
        self.columns = np.concatenate([self.columns, action[None]])
        rate = self._actions.shown(action[None])[0] / (self._actions.cost_of(action[None])[0] * self._noise**2)
        self._rates = np.concatenate([self._rates, rate[None]])
        self.arms = len(self.columns)
        return True

    def coordinates(self, y: Array) -> Array:
        return y

    def allocation(self, lam: Array) -> Array:
        return lam

    def variance(self, lam: Array) -> Array:
        information = lam @ self._rates
        return np.divide(1.0, information, out=np.zeros(len(information)), where=information > 0.0)

    def width(self, c: Array, lam: Array) -> Array:
        return np.asarray(c**2 @ self.variance(lam))

    def value(self, c: Array, lam: Array) -> tuple[Array, Array]:
        variance = self.variance(lam)
        return np.asarray(c**2 @ variance), np.asarray((c * variance) ** 2 @ self._rates.T)

    def newton(self, c: Array, lam: Array, w: Array, slope: Array, gradient: Array) -> Array:
        curve = 2.0 * (w @ c**2) * self.variance(lam) ** 3
        low = w[:, None] * slope
        hessian = (self._rates * curve) @ self._rates.T + low.T @ low + np.diag(lam**-2)
        return np.asarray(np.linalg.solve(hessian, gradient))

    def solve(self, c: Array, gap: float, start: Array | None) -> tuple[Array, float]:
        """As `game.solve`, against all actions; the lower end is `certain` if the best of them can be found."""
        low = 0.0
        for _ in range(_COLUMNS):
            lam, within, weights = solve(self, c, gap / 4, start)
            variance = self.variance(lam)
            gains = weights @ (c * variance) ** 2 / self._noise**2
            action = self._actions.best(gains[None])
            price = float((self._actions.shown(action) @ gains)[0] / self._actions.cost_of(action)[0])
            phi = float(weights @ (c**2 @ variance))
            low = max(low, phi**2 / (weights.sum() * price))
            if low >= (1.0 - gap) * within or not self._add(action[0]):
                break
            start = np.append(lam, 0.0)
        return lam, low

"""The game against a few rivals, solved with a certificate.

    rho(C) = min_{lam in simplex} max_{c in C} c' A(lam)^-1 c,   A(lam) = sum_x lam_x x x'

With c = (z - z*) / gap_z over some rivals z this is 1 / (2 tau*) of those rivals. Since c' A(lam)^-1 c scales as 1/lam,
rho is also the least sum(lam) with every c' A(lam)^-1 c <= 1: a barrier method needs no constraint but lam > 0.
For weights w >= 0 on the rivals, sum(w) = 1, and phi = sum_c w_c c' A(lam)^-1 c, convexity and scaling give

    phi^2 / max_x sum_c w_c (x' A(lam)^-1 c)^2  <=  rho(C)  <=  max_c c' A(lam)^-1 c      for lam in the simplex,

and both ends meet along the path of the barrier.

The game where measurements are actions: columns are found as they are needed.

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
from combopeps.oracles.base import Array
from combopeps.posterior.arms import Arms
from combopeps.problem import Problem

_MAX_STAGES, _MAX_STEPS = 25, 50


class UnitGame:
    """Arms that measure one component each; of several for one component only the strongest is of use."""

    def __init__(self, arms: Arms) -> None:
        gain, arm_of = arms.strongest
        self.component = np.flatnonzero(gain)
        self._arm, self._all = arm_of[self.component], arms
        self.arms = len(self.component)
        self.strength = np.abs(arms.coefficient[self._arm])

    def coordinates(self, y: Array) -> Array:
        """Differences y as rows c of the game: the measured components over the strength of their arms."""
        return y[:, self.component] / self.strength

    def allocation(self, lam: Array) -> Array:
        """`lam` of the game as an allocation over all arms."""
        full = np.zeros(len(self._all))
        full[self._arm] = lam
        return full

    def variance(self, lam: Array) -> Array:
        """The diagonal of A(lam)^-1 in all components; 0 where nothing is measured."""
        full = np.zeros(self._all.dim)
        full[self.component] = 1.0 / (lam * self.strength**2)
        return full

    def covariance_dot(self, lam: Array, y: Array) -> Array:
        """A(lam)^-1 y of every row, inside the span of the arms."""
        return y * self.variance(lam)

    def width(self, c: Array, lam: Array) -> Array:
        """c' A(lam)^-1 c of every row."""
        return np.asarray(c**2 @ (1.0 / lam))

    def value(self, c: Array, lam: Array) -> tuple[Array, Array]:
        """Widths `(n,)`, and (x' A^-1 c)^2, which is minus their slope in lam_x, `(n, K)`."""
        return self.width(c, lam), (c / lam) ** 2

    def newton(self, c: Array, lam: Array, w: Array, slope: Array, gradient: Array) -> Array:
        """H^-1 gradient for H = sum_c w_c Hessian(c' A^-1 c) + slope' diag(w^2) slope + diag(1 / lam^2).

        A diagonal plus one rank per rival: solved in the smaller of the two dimensions.
        """
        diagonal = 2.0 * (w @ slope) / lam + lam**-2
        low = w[:, None] * slope
        if len(c) >= len(lam):
            return np.asarray(np.linalg.solve(np.diag(diagonal) + low.T @ low, gradient))
        scaled = low / diagonal
        inner = np.linalg.solve(np.eye(len(c)) + scaled @ low.T, scaled @ gradient)
        return np.asarray(gradient / diagonal - inner @ scaled)


class GeneralGame:
    """The same for any arms, in coordinates of their own span."""

    def __init__(self, arms: Arms) -> None:
        self.span, self.X, self.arms = arms.span, arms.span.rows, len(arms)

    def coordinates(self, y: Array) -> Array:
        return y @ self.span.lift

    def allocation(self, lam: Array) -> Array:
        return lam

    def information(self, lam: Array) -> Array:
        """A(lam) in the coordinates of the span."""
        return np.asarray(self.X.T @ (lam[:, None] * self.X))

    def covariance_dot(self, lam: Array, y: Array) -> Array:
        lift = self.span.lift
        return np.asarray(np.linalg.solve(self.information(lam), lift.T @ y.T).T @ lift.T)

    def width(self, c: Array, lam: Array) -> Array:
        return np.asarray(np.einsum("nr,rn->n", c, np.linalg.solve(self.information(lam), c.T)))

    def value(self, c: Array, lam: Array) -> tuple[Array, Array]:
        q = np.linalg.solve(self.information(lam), c.T)
        return np.einsum("nr,rn->n", c, q), (self.X @ q).T ** 2

    def newton(self, c: Array, lam: Array, w: Array, slope: Array, gradient: Array) -> Array:
        information = self.information(lam)
        q = self.X @ np.linalg.solve(information, c.T)
        hessian = 2.0 * (q * w @ q.T) * (self.X @ np.linalg.solve(information, self.X.T))
        low = w[:, None] * slope
        return np.asarray(np.linalg.solve(hessian + low.T @ low + np.diag(lam**-2), gradient))


Game = UnitGame | GeneralGame


def solve(game: Game, c: Array, gap: float, start: Array | None = None) -> tuple[Array, float, Array]:
    """Lam within the relative `gap` of optimal against the rows c, a lower end of rho, and the weights w that give it.

    Minimise, for growing s,

    s sum(lam) - sum_c ln(1 - c' A(lam)^-1 c) - sum_x ln lam_x.
    """
    lam = np.full(game.arms, 1.0 / game.arms) if start is None else 0.9 * start + 0.1 / game.arms
    lam = lam * 2.0 * game.width(c, lam).max()
    pressure = (len(c) + game.arms) / lam.sum()
    best, low, high, weights = lam, 0.0, np.inf, np.ones(len(c))
    for _ in range(_MAX_STAGES):
        lam = _centre(game, c, lam, pressure)
        width, slope = game.value(c, lam)
        w = 1.0 / (1.0 - width)
        lower = float((w @ width) ** 2 / (w.sum() * (w @ slope).max()))
        if lower > low:
            low, weights = lower, w
        upper = float(width.max() * lam.sum())
        if upper < high:
            best, high = lam, upper
        if low >= (1.0 - gap) * high:
            break
        pressure *= 5.0
    return best / best.sum(), low, weights


def _centre(game: Game, c: Array, lam: Array, pressure: float) -> Array:
    """Damped Newton steps to the minimum of the barrier function."""

    def objective(lam: Array) -> float:
        if lam.min() <= 0.0:
            return np.inf
        slack = 1.0 - game.width(c, lam)
        return np.inf if slack.min() <= 0.0 else float(pressure * lam.sum() - np.log(slack).sum() - np.log(lam).sum())

    here = objective(lam)
    for _ in range(_MAX_STEPS):
        width, slope = game.value(c, lam)
        w = 1.0 / (1.0 - width)
        gradient = pressure - w @ slope - 1.0 / lam
        step = game.newton(c, lam, w, slope, gradient)
        decrement = float(gradient @ step)
        if decrement < 1e-6:
            break
        size = 1.0
        while (there := objective(lam - size * step)) > here - 0.1 * size * decrement and size > 1e-8:
            size /= 2.0
        if size <= 1e-8:  # rounding: no further descent
            break
        lam, here = lam - size * step, there
    return lam


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

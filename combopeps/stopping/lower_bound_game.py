"""The zero-sum game between an allocation and a few rivals, solved with a certificate.

    rho(C) = min_{lam in simplex} max_{c in C} c' A(lam)^-1 c,   A(lam) = sum_x lam_x x x'

With c = (z - z*) / gap_z for some rivals z, this is 1 / (2 tau*) of those rivals. Since c' A(lam)^-1 c scales as 1/lam,
rho is also the least sum(lam) with c' A(lam)^-1 c <= 1 for all c, which is solved by a barrier method on lam > 0. For
weights w >= 0 on the rivals, sum(w) = 1, and phi = sum_c w_c c' A(lam)^-1 c, convexity and scaling give

    phi^2 / max_x sum_c w_c (x' A(lam)^-1 c)^2  <=  rho(C)  <=  max_c c' A(lam)^-1 c      for lam in the simplex,

and both ends meet along the central path.

In problems with actions (`ActionGame`), columns are generated when needed. For an allocation lam of the cost over the
actions found so far,

    w_i = sum_a lam_a 1{i in a} / (cost_a noise_i^2),   c' A(lam)^-1 c = sum_i c_i^2 / w_i.

The action with the largest reduced cost is found by one call of the action oracle, at the prices
g_i = sum_c u_c c_i^2 / (w_i noise_i)^2 of the components, where u are the weights of the rivals. The lower end against
all actions is

    phi^2 / max_a (sum_{i in a} g_i / cost_a)  <=  rho(C),   phi = sum_c u_c c' A(lam)^-1 c,   sum(u) = 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from combopeps.actions import Actions, Mask
from combopeps.oracles.base import Array
from combopeps.posterior.arms import Arms
from combopeps.problem import Problem

_MAX_STAGES, _MAX_STEPS = 25, 50  # of the barrier multiplier, and Newton steps in each
_MAX_COLUMNS = 1000  # actions found in one game: each decreases its value


class UnitGame:
    """The game for arms that measure one component each; only the strongest arm of each component is used."""

    def __init__(self, arms: Arms) -> None:
        gain, arm_of = arms.strongest
        self.component = np.flatnonzero(gain)
        self._arm, self._all = arm_of[self.component], arms
        self.arms = len(self.component)
        self.strength = np.abs(arms.coefficient[self._arm])

    def coordinates(self, y: Array) -> Array:
        """Convert rows y to rows c of the game: measured components divided by the strength of their arms."""
        return y[:, self.component] / self.strength

    def allocation(self, lam: Array) -> Array:
        """Convert `lam` of the game to an allocation over all arms."""
        full = np.zeros(len(self._all))
        full[self._arm] = lam
        return full

    def variance(self, lam: Array) -> Array:
        """Return the diagonal of A(lam)^-1 in all components; 0 for unmeasured ones."""
        full = np.zeros(self._all.dim)
        full[self.component] = 1.0 / (lam * self.strength**2)
        return full

    def covariance_dot(self, lam: Array, y: Array) -> Array:
        """Compute A(lam)^-1 y of every row, within the span of the arms."""
        return y * self.variance(lam)

    def width(self, c: Array, lam: Array) -> Array:
        """Compute c' A(lam)^-1 c of every row."""
        return np.asarray(c**2 @ (1.0 / lam))

    def value(self, c: Array, lam: Array) -> tuple[Array, Array]:
        """Return the widths, `(n,)`, and minus their derivatives in lam_x, (x' A^-1 c)^2, `(n, K)`."""
        return self.width(c, lam), (c / lam) ** 2

    def newton(self, c: Array, lam: Array, w: Array, slope: Array, gradient: Array) -> Array:
        """Return H^-1 gradient for H = sum_c w_c Hessian(c' A^-1 c) + slope' diag(w^2) slope + diag(1 / lam^2).

        H is diagonal plus rank one per rival, and is solved in the smaller of the two dimensions.
        """
        diagonal = 2.0 * (w @ slope) / lam + lam**-2
        low = w[:, None] * slope
        if len(c) >= len(lam):
            return np.asarray(np.linalg.solve(np.diag(diagonal) + low.T @ low, gradient))
        scaled = low / diagonal
        inner = np.linalg.solve(np.eye(len(c)) + scaled @ low.T, scaled @ gradient)
        return np.asarray(gradient / diagonal - inner @ scaled)


class GeneralGame:
    """The game for any arms, in coordinates of their span."""

    def __init__(self, arms: Arms) -> None:
        self.span, self.X, self.arms = arms.span, arms.span.rows, len(arms)

    def coordinates(self, y: Array) -> Array:
        return y @ self.span.lift

    def allocation(self, lam: Array) -> Array:
        return lam

    def information(self, lam: Array) -> Array:
        """Return A(lam) in the coordinates of the span."""
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
    """Minimise s sum(lam) - sum_c ln(1 - c' A(lam)^-1 c) - sum_x ln lam_x, for growing s.

    Returns lam within the relative `gap` of the optimum against the rows c, a lower end of rho, and the weights w of
    the rivals that attain it.
    """
    lam = np.full(game.arms, 1.0 / game.arms) if start is None else 0.9 * start + 0.1 / game.arms
    lam = lam * 2.0 * game.width(c, lam).max()
    multiplier = (len(c) + game.arms) / lam.sum()
    best, low, high, weights = lam, 0.0, np.inf, np.ones(len(c))
    for _ in range(_MAX_STAGES):
        lam = _minimise_barrier(game, c, lam, multiplier)
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
        multiplier *= 5.0
    return best / best.sum(), low, weights


def _minimise_barrier(game: Game, c: Array, lam: Array, multiplier: float) -> Array:
    """Minimise the barrier function by damped Newton steps."""

    def objective(lam: Array) -> float:
        if lam.min() <= 0.0:
            return np.inf
        slack = 1.0 - game.width(c, lam)
        return np.inf if slack.min() <= 0.0 else float(multiplier * lam.sum() - np.log(slack).sum() - np.log(lam).sum())

    here = objective(lam)
    for _ in range(_MAX_STEPS):
        width, slope = game.value(c, lam)
        w = 1.0 / (1.0 - width)
        gradient = multiplier - w @ slope - 1.0 / lam
        step = game.newton(c, lam, w, slope, gradient)
        decrement = float(gradient @ step)
        if decrement < 1e-6:
            break
        size = 1.0
        while (there := objective(lam - size * step)) > here - 0.1 * size * decrement and size > 1e-8:
            size /= 2.0
        if size <= 1e-8:  # no descent beyond rounding errors
            break
        lam, here = lam - size * step, there
    return lam


class ActionGame(UnitGame):
    """The game in which measurements are actions: columns, initially a cover of all components."""

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
        """Cost of every column."""
        return self._actions.cost_of(self.columns)

    def labels(self) -> list[Any]:
        """Return the labels of the columns."""
        return [self._actions.label(action) for action in self.columns]

    def _add(self, action: Mask) -> bool:
        """Add a column; return whether it is new."""
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
        """Solve the game against all actions by column generation; the lower end is valid if `certain`."""
        low = 0.0
        for _ in range(_MAX_COLUMNS):
            lam, restricted_low, weights = solve(self, c, gap / 4, start)
            variance = self.variance(lam)
            gains = weights @ (c * variance) ** 2 / self._noise**2
            action = self._actions.best(gains[None])
            price = float((self._actions.shown(action) @ gains)[0] / self._actions.cost_of(action)[0])
            phi = float(weights @ (c**2 @ variance))
            low = max(low, phi**2 / (weights.sum() * price))
            if low >= (1.0 - gap) * restricted_low or not self._add(action[0]):
                break
            start = np.append(lam, 0.0)
        return lam, low

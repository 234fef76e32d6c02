"""What an error of the estimate costs, coordinate by coordinate: the two forms of evidence against an answer.

An answer z is refuted when no error of the estimate that makes up for its gap is cheap:

    max_lam  lam gap_z - sum_{a : z_a differs} pen_a(lam)   is large,

where pen_a is the conjugate of the cost of an error in coordinate a. Sums over coordinates are linear in a 0/1 answer,
so that the smallest value over a whole set of answers is one call of its argmax oracle.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from combopeps.belief.normal import row_sums
from combopeps.certificates import _kernels as kernels
from combopeps.certificates._kernels import LARGEST, POINTS, SMALLEST
from combopeps.oracles.base import Array, Sparse


class Gaussian:
    """pen_a(lam) = lam^2 s_a / 2: the value of z is gap_z^2 / (2 v_z), v_z = sum_a y_a^2 s_a, the GLR statistic."""

    def __init__(self, variance: Array) -> None:
        self.variance = variance

    def matrix(self, lams: Array) -> Array:
        """pen_a(lam) for every lam and every a, (E, d)."""
        return np.asarray(0.5 * lams[:, None] ** 2 * self.variance)

    def best(self, rows: Sparse, gaps: Array) -> tuple[Array, Array]:
        """For every row the best lam, gap / v, and max_lam lam gap - sum_a pen_a(lam |y_a|)."""
        v = row_sums(rows, rows.data**2 * self.variance[rows.indices])
        lams = np.maximum(gaps, 0.0) / np.maximum(v, 1e-300)
        return lams, 0.5 * lams * np.maximum(gaps, 0.0)


class HalfNormal:
    """One-sided mixture: h(x) = x^2/2 + ln(2 Phi(x)),   pen_a(lam) = h*(lam / sqrt(w_a)) + ln(1 + n_a/rho)/2 + kappa_a.

    exp(h(x_a)) / sqrt(1 + n_a/rho), x_a = S_a / sqrt(n_a + rho), is the mean of exp(lam S_a - lam^2 n_a / 2) over a
    half-normal lam of precision rho: a martingale in the errors S_a of the n_a measurements of a, for errors of one
    known sign. w_a = n_a^2 / (n_a + rho). `information` n_a is infinite where answers never differ, rho may be one per
    coordinate, and kappa is what the union bound charges for each.

    An error may have a limit: where theta_a >= 0 it was overestimated by theta_hat_a at most. The conjugate is then
    taken over x_a <= limit_a sqrt(w_a), which keeps lam theta_hat_a - pen_a(lam) from falling far below 0; a component
    that was never measured costs nothing.
    """

    def __init__(
        self, information: Array, rho: Array | float, kappa: Array | float = 0.0, limit: Array | float = np.inf
    ) -> None:
        rho, kappa, limit = (np.broadcast_to(np.float64(each), np.shape(information)) for each in (rho, kappa, limit))
        self.terms = np.asarray(kernels.all_terms(information, rho, kappa, limit))

    def matrix(self, lams: Array) -> Array:
        """pen_a(lam) for every lam and every a, (E, d)."""
        grid, table, _ = conjugate_table()
        return np.asarray(kernels.penalty_matrix(lams, self.terms, grid, table))

    def best(self, rows: Sparse, gaps: Array) -> tuple[Array, Array]:
        """By bisection on the derivative; any lam is valid, so that its last digits do not matter."""
        lams, values = kernels.best_multipliers(
            rows.indptr, rows.indices, rows.data, gaps, self.terms, *conjugate_table()
        )
        return lams, values


Penalty = Gaussian | HalfNormal


@lru_cache(maxsize=1)
def conjugate_table() -> tuple[Array, Array, Array]:
    """mu, h*(mu) and h*'(mu) = x on a grid, where x + phi(x)/Phi(x) = mu and h*(mu) = mu x - h(x)."""
    from scipy.special import erfcx, log_ndtr

    mu = np.geomspace(SMALLEST, LARGEST, POINTS)
    low, high = np.full(POINTS, -2.0 / SMALLEST), mu.copy()
    for _ in range(80):
        x = 0.5 * (low + high)
        above = x + np.sqrt(2 / np.pi) / erfcx(-x / np.sqrt(2)) > mu
        low, high = np.where(above, low, x), np.where(above, x, high)
    tail = x < 0.0  # there h = ln erfcx(-x / sqrt(2)), without cancellation
    h = np.where(tail, np.log(erfcx(-np.minimum(x, 0.0) / np.sqrt(2))), 0.5 * x * x + np.log(2.0) + log_ndtr(x))
    return mu, mu * x - h, x

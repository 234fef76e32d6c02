"""Exact draws from a normal law with a full covariance in a box, and from what of it lies behind a facet.

Write the rows that must stay in their intervals (components of theta, and y_f @ theta) as mean + L z with z ~ N(0, I)
and L lower triangular. The proposal draws z_1, z_2, ... in turn, z_k ~ N(mu_k, 1) on the interval that is left to it;
with p_k the probability of that interval, the law wanted over the proposal is

    exp(psi(z)),   psi(z) = sum_k mu_k^2 / 2 - mu_k z_k + ln p_k(z_1 .. z_k-1),

concave in z. Botev's minimax tilt (2017) is the mu with the least maximum, ln M: a draw is kept with probability
exp(psi(z)) / M, and

    P(all rows in their intervals) = M P(kept) <= M.

Rows that the others determine, such as the last one of a facet in a box, are looked at only in the end. The least
maximum needs d numbers, not 2 d: see `_minimax_kernels.saddle`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from combopeps.belief.gaussian import GaussianBelief
from combopeps.oracles.base import Array
from combopeps.samplers import _minimax_kernels as kernels
from combopeps.space import ParameterSpace
from combopeps.streams import stream_from

CURE = "general arms in a box: measure single components, or state a prior or a box in which theta has more room"
LARGEST = 400  # components: a tilt takes about 2 d^3 operations, some 50 ms there
_TRIES, _MORE = 20_000, 400  # proposals before draws are given up: so many, and so many more for each


class Tilted(NamedTuple):
    """Rows with a full covariance, each in its interval, and the proposal for drawing them.

    `log_m` is ln M, or a bound of the probability alone where the tilt was not found. `ends` are low and high of all
    rows, `shift` is where the search for the tilt has ended.
    """

    factor: tuple[NDArray[np.int64], Array, Array, Array, Array]
    mean: Array
    ends: tuple[Array, Array]
    mu: Array
    log_m: float
    found: bool
    shift: Array

    @classmethod
    def of(cls, covariance: Array, mean: Array, ends: tuple[Array, Array], near: Array | None = None) -> Tilted:
        """The minimax tilt; `near` are the shifts of one that may be close to it, row by row."""
        factor = rows, _, A, R, inner = kernels.factorise(covariance, mean, *ends)
        order = rows[: len(A)]
        start = np.zeros(len(A)) if near is None else near[order]
        mu, log_m, found = kernels.saddle(A, R, inner, start)
        if near is not None and not found:
            return cls.of(covariance, mean, ends)
        shift = np.zeros(len(mean))
        shift[order] = start
        return cls(factor, mean, ends, mu, log_m, found, shift)

    def rescaled(self, eta: float) -> Tilted:
        """The same with the covariance divided by eta."""
        order, L, A, R, inner = self.factor
        scaled = inner * np.sqrt(eta)
        mu, log_m, found = kernels.saddle(A, R, scaled, self.shift[order[: len(A)]])
        factor = order, L / np.sqrt(eta), A, R, scaled
        return self._replace(factor=factor, mu=mu, log_m=log_m, found=found)

    def draw(self, rng: np.random.Generator, n: int, cap: int, *, behind: int = 0) -> tuple[Array, int]:
        """Up to n draws in at most `cap` proposals, without the first `behind` rows; and how many proposals it took."""
        thetas = np.empty((n, len(self.mean) - behind))
        if not self.found:
            return thetas[:0], cap
        filled, proposals = kernels.draw(
            stream_from(rng), self.factor, (self.mu, self.log_m), (self.mean, *self.ends), behind, cap, thetas
        )
        return thetas[:filled], proposals


def tilted_box(belief: GaussianBelief, space: ParameterSpace, eta: float = 1.0) -> Tilted:
    """The belief in the box."""
    L = belief.spread[0]
    return Tilted.of(L @ L.T / eta, belief.theta_hat[0], space.bounds(belief.dim))


def replace_misses(
    belief: GaussianBelief, space: ParameterSpace, eta: Array, rng: np.random.Generator, thetas: Array
) -> NDArray[np.bool_]:
    """Put exact draws in the box in the place of thetas outside, (n, d), at their eta, (n,) or (1,); which are inside.

    Replacing a miss by an exact draw keeps the law exact. Where that takes too long, misses are left.
    """
    inside = space.contains(thetas)
    missed = np.flatnonzero(~inside)
    if not len(missed) or belief.dim > LARGEST:
        return inside
    tilted = tilted_box(belief, space)
    cap = _TRIES + _MORE * len(missed)
    for part, by in [(missed, eta[0])] if len(eta) == 1 else zip(missed[:, None], eta[missed], strict=True):
        found, proposals = (tilted if by == 1.0 else tilted.rescaled(by)).draw(rng, len(part), cap)
        part = part[: len(found)]
        thetas[part], inside[part] = found, True
        cap -= proposals
    return inside

"""Exact draws behind the known facets, by Karp and Luby's method: no oracle call, whatever P(Alt) is.

    pick f ~ Phi(-b_f),   theta ~ belief given y_f @ theta > 0,   keep it with probability 1 / N(theta)

N counts the known half-spaces that contain theta. Then P(Alt) = (sum_f Phi(-b_f)) E[1/N].
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log, sqrt

import numpy as np

from combopeps._random import stream_from
from combopeps.belief.base import GaussianBelief
from combopeps.belief.dense import DenseBelief
from combopeps.belief.diagonal import DiagonalBelief
from combopeps.cone.cone import FacetCache
from combopeps.oracles.base import Array
from combopeps.samplers import _kernels as kernels
from combopeps.space import ParameterSpace, RealSpace

_NONE = np.empty(0)


@dataclass(frozen=True)
class Draws:
    """Thetas behind known facets, and what the proposals say about the probability of being there.

    P = exp(log_mass) E[share]: `shares` and `squares` are sums over `proposals`.
    """

    thetas: Array
    proposals: int
    log_mass: float
    shares: float
    squares: float

    @property
    def log_probability(self) -> float:
        """ln of the estimated probability; few draws may say more than 1, which it cannot be."""
        return min(0.0, self.log_mass + log(self.shares / self.proposals)) if self.shares > 0 else -inf

    @property
    def relative_error(self) -> float:
        """Standard error of the estimate, relative to it."""
        if self.shares <= 0:
            return inf
        mean = self.shares / self.proposals
        return sqrt(max(0.0, self.squares / self.proposals - mean * mean) / self.proposals) / mean


def draw_behind(
    cache: FacetCache,
    belief: GaussianBelief,
    eta: float,
    rng: np.random.Generator,
    n: int,
    *,
    cap: int,
    space: ParameterSpace | None = None,
) -> Draws:
    """Up to n draws in at most `cap` proposals; the cache must be in step with the belief.

    In a box, proposals that fall outside are rejected: exact, and slow when most of them do.
    """
    log_w = cache.log_w if eta == cache.eta else cache.weights_at(eta)
    low, high = (_NONE, _NONE) if space is None or isinstance(space, RealSpace) else space.bounds(belief.dim)
    variance = belief.variance[0] if isinstance(belief, DiagonalBelief) else _NONE
    L = belief.L[0] if isinstance(belief, DenseBelief) else _NONE.reshape(0, 0)
    thetas = np.empty((n, belief.dim))
    size, indptr, indices, data = cache.rows
    theta, gap, width, scratch = belief.theta_hat[0], cache.gap, cache.width, cache.scratch
    filled, proposals, shares, squares, log_mass = kernels.karp_luby(
        stream_from(rng),
        size,
        indptr,
        indices,
        data,
        theta,
        variance,
        L,
        eta,
        gap,
        width,
        log_w,
        scratch,
        low,
        high,
        cap,
        thetas,
    )
    return Draws(thetas[:filled], proposals, log_mass, shares, squares)

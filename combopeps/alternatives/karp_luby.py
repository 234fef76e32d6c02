"""Exact draws behind the known facets, by Karp and Luby's method: no oracle call, whatever P(Alt) is.

    pick f ~ Phi(-b_f),   theta ~ belief given y_f @ theta > 0,   keep it with probability 1 / N(theta)

N counts the known half-spaces that contain theta. Then P(Alt) = (sum_f Phi(-b_f)) E[1/N].
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log, sqrt

import numpy as np

from combopeps.alternatives import _kernels as kernels
from combopeps.alternatives.facets import Facets
from combopeps.oracles.base import Array
from combopeps.posterior.gaussian import GaussianBelief
from combopeps.posterior.parameter_space import ParameterSpace, RealSpace
from combopeps.random import stream_from

_NONE = np.empty(0)
_FORGET = 0.2  # weight of the last call in the number of facets looked at per draw


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
    facets: Facets,
    belief: GaussianBelief,
    eta: float,
    rng: np.random.Generator,
    n: int,
    *,
    cap: int,
    space: ParameterSpace | None = None,
) -> Draws:
    """Up to n draws in at most `cap` proposals; the facets must be in step with the belief.

    In a box, proposals that fall outside are rejected: exact, and slow when most of them do.
    """
    weights = facets.weights if eta == facets.eta else facets.weights_at(eta)
    low, high = (_NONE, _NONE) if space is None or isinstance(space, RealSpace) else space.bounds(belief.dim)
    thetas = np.empty((n, belief.dim))
    filled, proposals, shares, squares, looks = kernels.karp_luby(
        stream_from(rng), facets.rows, facets.index, belief.theta_hat[0], belief.spread[0], eta, facets.gap,
        facets.width, weights.each, weights.blocks, weights.total, facets.room, low, high, cap, thetas,
    )  # fmt: skip
    if eta == facets.eta and proposals:
        facets.looks += _FORGET * (looks / proposals - facets.looks) if facets.looks else looks / proposals
    return Draws(thetas[:filled], proposals, weights.log_mass, shares, squares)

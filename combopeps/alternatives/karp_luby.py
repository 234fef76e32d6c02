"""Exact draws from the union of the known half-spaces, by the method of Karp and Luby.

    pick f ~ Phi(-b_f),   theta ~ posterior given y_f @ theta > 0,   keep it with probability 1 / N(theta)

N counts the known half-spaces that contain theta. Then P(Alt) = (sum_f Phi(-b_f)) E[1/N]. No oracle call is needed,
and the number of proposals does not depend on P(Alt).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log, sqrt

import numpy as np

from combopeps.alternatives import _kernels as kernels
from combopeps.alternatives.facets import Facets
from combopeps.oracles.base import Array
from combopeps.posterior.gaussian import GaussianPosterior
from combopeps.posterior.parameter_space import ParameterSpace, RealSpace
from combopeps.random import stream_from

_NO_BOUNDS = np.empty(0)
_SMOOTHING = 0.2  # weight of the last call in the running mean of facets evaluated per draw


@dataclass(frozen=True)
class Draws:
    """Thetas in the union of the known half-spaces, and the estimate of its probability by the proposals.

    P(union) = exp(log_mass) E[acceptance probability]: `acceptance_sum` and `acceptance_squares` are the sums of the
    acceptance probabilities and of their squares over `proposals`.
    """

    thetas: Array
    proposals: int
    log_mass: float
    acceptance_sum: float
    acceptance_squares: float

    @property
    def log_probability(self) -> float:
        """ln of the estimated probability, cut off at 0."""
        return min(0.0, self.log_mass + log(self.acceptance_sum / self.proposals)) if self.acceptance_sum > 0 else -inf

    @property
    def relative_error(self) -> float:
        """Standard error of the estimate, relative to it."""
        if self.acceptance_sum <= 0:
            return inf
        mean = self.acceptance_sum / self.proposals
        return sqrt(max(0.0, self.acceptance_squares / self.proposals - mean * mean) / self.proposals) / mean


def draw_from_union(
    facets: Facets,
    posterior: GaussianPosterior,
    eta: float,
    rng: np.random.Generator,
    n: int,
    *,
    cap: int,
    space: ParameterSpace | None = None,
) -> Draws:
    """Return up to n draws from at most `cap` proposals; the facets must be in sync with the posterior.

    In a box, proposals outside are rejected: exact, and slow when that happens to most of them.
    """
    weights = facets.weights if eta == facets.eta else facets.weights_at(eta)
    low, high = (
        (_NO_BOUNDS, _NO_BOUNDS) if space is None or isinstance(space, RealSpace) else space.bounds(posterior.dim)
    )
    thetas = np.empty((n, posterior.dim))
    filled, proposals, acceptance_sum, acceptance_squares, evaluated = kernels.karp_luby(
        stream_from(rng), facets.rows, facets.index, posterior.theta_hat[0], posterior.spread[0], eta, facets.gap,
        facets.width, weights.each, weights.blocks, weights.total, facets.slack, low, high, cap, thetas,
    )  # fmt: skip
    if eta == facets.eta and proposals:
        last, mean = evaluated / proposals, facets.evaluated_per_draw
        facets.evaluated_per_draw = mean + _SMOOTHING * (last - mean) if mean else last
    return Draws(thetas[:filled], proposals, weights.log_mass, acceptance_sum, acceptance_squares)

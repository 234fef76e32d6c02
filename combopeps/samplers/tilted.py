"""Exact draws behind the known facets for a diagonal belief in a box.

For any kappa_f >= 0, with s the standard deviations and the box-truncated belief as reference,

    M_f = E[exp(kappa_f y_f @ theta)] >= P(y_f @ theta > 0).

Pick f ~ M_f, draw every coordinate from its truncated normal with mean theta_hat + kappa_f y_f s^2, and keep theta with
probability 1{theta behind a facet} / sum_f exp(kappa_f y_f @ theta). Then P(Alt | Theta) = (sum_f M_f) E[that weight].
The best kappa_f minimises M_f; any other only costs time, so that one Newton step from the last value will do.
"""

from __future__ import annotations

import numpy as np

from combopeps._random import stream_from
from combopeps.belief.diagonal import DiagonalBelief
from combopeps.oracles.base import Array
from combopeps.samplers import _kernels as kernels
from combopeps.samplers.draws import Draws
from combopeps.samplers.facets import FacetCache
from combopeps.space import ParameterSpace


class TiltedWeights:
    """kappa_f and ln M_f of every cached facet, renewed where the belief has changed.

    Facets whose probability cannot matter are passed over until it might:

        P(y_f @ theta > 0 | box) <= Phi(-b_f) / prod_{i : y_fi != 0} P(theta_i in its interval).
    """

    def __init__(self, cache: FacetCache, space: ParameterSpace) -> None:
        self.cache = cache
        self.low, self.high = space.bounds(len(cache.z_hat))
        self._kappa, self._log_m, self._stale = np.zeros(0), np.zeros(0), np.zeros(0, dtype=bool)
        self._log_box = np.empty(len(cache.z_hat))
        self._seen: tuple[Array, Array, float, int] | None = None

    def _renew(self, belief: DiagonalBelief, eta: float) -> None:
        cache, old = self.cache, len(self._kappa)
        theta, deviation = belief.theta_hat[0], np.sqrt(belief.variance[0] / eta)
        added = np.zeros(max(0, cache.size - old))
        self._kappa = np.concatenate([self._kappa[: cache.size], added])
        self._log_m = np.concatenate([self._log_m[: cache.size], added])
        self._stale = np.concatenate([self._stale[: cache.size], added == 0.0])
        if self._seen is not None and self._seen[2:] == (eta, cache.renumbered):
            changed = np.flatnonzero((theta != self._seen[0]) | (deviation != self._seen[1]))
            self._stale[cache.touching(changed)] = True
        else:
            changed = np.arange(len(theta))
            self._stale[:] = True
        kernels.log_intervals(changed, theta, deviation, self.low, self.high, self._log_box)
        size, indptr, indices, data = cache.rows
        kernels.refresh_tilted(
            size,
            indptr,
            indices,
            data,
            theta,
            deviation,
            self.low,
            self.high,
            cache.log_w,
            self._log_box,
            self._stale,
            self._kappa,
            self._log_m,
        )
        self._seen = theta.copy(), deviation, eta, cache.renumbered

    def draw(self, belief: DiagonalBelief, eta: float, rng: np.random.Generator, n: int, *, cap: int) -> Draws:
        """Up to n draws in at most `cap` proposals; the cache must be in step with the belief."""
        self._renew(belief, eta)
        size, indptr, indices, data = self.cache.rows
        thetas = np.empty((n, belief.dim))
        theta_hat, deviation = belief.theta_hat[0], np.sqrt(belief.variance[0] / eta)
        low, high, kappa, log_m, scratch = self.low, self.high, self._kappa, self._log_m, self.cache.scratch
        filled, proposals, shares, squares, log_mass = kernels.karp_luby_tilted(
            stream_from(rng),
            size,
            indptr,
            indices,
            data,
            theta_hat,
            deviation,
            low,
            high,
            kappa,
            log_m,
            scratch,
            cap,
            thetas,
        )
        return Draws(thetas[:filled], proposals, log_mass, shares, squares)

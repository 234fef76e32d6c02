"""Exact draws behind the known facets for a diagonal belief in a box.

The coordinates of facet f are split into F, which the box hardly touches, and E. With s = y_E @ theta_E, sigma the
standard deviation of y_F @ theta_F on R^d, b its distance from 0 at s = s_0, and any s_0,

    P(y_f @ theta > 0 | theta_E) <= Phi(u - b) / P(box_F) <= Phi(-b) exp(kappa (s - s_0)) / P(box_F),
    u = (s - s_0) / sigma,   kappa = phi(b) / (Phi(-b) sigma),

the tangent to a log-concave function. M_f is the expectation of the bound over theta_E in its box. Pick f ~ M_f, draw
theta_E tilted by kappa (a truncated normal with mean theta_hat + kappa y s^2), theta_F behind the facet, what is left
from the belief, and keep theta if it lies in the box, with probability

    1{theta behind a facet} / sum_f 1{theta behind f} Phi(-b_f) exp(kappa_f (s - s_0)) / Phi(u - b_f).

Then P(Alt | Theta) = (sum_f M_f) E[that weight]. Where F is empty the bound is exp(kappa y_f @ theta), for any kappa,
behind f or not. The best split and s_0 make M_f small; others only cost time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from combopeps.belief.gaussian import GaussianBelief
from combopeps.cone.behind import Draws
from combopeps.cone.facets import Facets
from combopeps.oracles.base import Array
from combopeps.samplers import _tilt_kernels as tilts
from combopeps.samplers._box_kernels import karp_luby
from combopeps.space import ParameterSpace
from combopeps.streams import stream_from


class TiltedWeights:
    """kappa, sigma, b, s_0 and ln M of every known facet, renewed where the belief has changed.

    Facets whose probability cannot matter are passed over until it might:

        P(y_f @ theta > 0 | box) <= Phi(-b_f) / prod_{i : y_fi != 0} P(theta_i in its interval).
    """

    def __init__(self, facets: Facets, space: ParameterSpace) -> None:
        self.facets = facets
        self.box = space.bounds(len(facets.z_hat))
        self._tilt = tuple(np.zeros((7, 0)))  # as the kernels have it
        self._parts = np.zeros((2, 0))
        self._top = 0.0  # ln M of the nearest facet
        self._free: NDArray[np.bool_] = np.zeros(0, dtype=bool)
        self._stale: NDArray[np.bool_] = np.zeros(0, dtype=bool)
        self._log_box = np.empty(len(facets.z_hat))
        self._seen = np.full((2, len(facets.z_hat)), np.nan)  # theta_hat and standard deviations of the last time
        self._seen_with: tuple[float, int] | None = None

    def _renew(self, normal_in_box: tuple[Array, Array, Array, Array], eta: float) -> None:
        facets = self.facets
        self._make_room(facets.size, len(facets.rows[3]))
        if self._seen_with != (eta, facets.renumbered):
            self._seen_with = eta, facets.renumbered
            self._seen[:] = np.nan  # which nothing is equal to
            self._stale[:] = True
        kept = self._tilt, self._free, self._parts
        weighed = facets.gap, facets.log_w, self._log_box
        tilts.follow(facets.rows, normal_in_box, self._seen, facets.index, *weighed, self._top, self._stale, *kept)
        self._top = tilts.refresh(facets.rows, normal_in_box, *weighed, self._stale, *kept)

    def _make_room(self, size: int, entries: int) -> None:
        """New facets are stale."""
        old = len(self._stale)
        if size != old:
            self._tilt = tuple(np.concatenate([row[:size], np.zeros(max(0, size - old))]) for row in self._tilt)
            self._stale = np.concatenate([self._stale[:size], np.ones(max(0, size - old), dtype=bool)])
        if entries > len(self._free):
            self._free = np.concatenate([self._free, np.zeros(entries - len(self._free), dtype=bool)])
            self._parts = np.concatenate([self._parts, np.zeros((2, entries - self._parts.shape[1]))], axis=1)

    def draw(self, belief: GaussianBelief, eta: float, rng: np.random.Generator, n: int, *, cap: int) -> Draws:
        """Up to n draws in at most `cap` proposals; the facets must be in step with the belief."""
        normal_in_box = belief.theta_hat[0], np.sqrt(belief.spread[0] / eta), *self.box
        self._renew(normal_in_box, eta)
        thetas = np.empty((n, belief.dim))
        filled, proposals, shares, squares, log_mass = karp_luby(
            stream_from(rng), self.facets.rows, normal_in_box, self._tilt, self._free, cap, thetas
        )
        return Draws(thetas[:filled], proposals, log_mass, shares, squares)

"""Finding the facets of a cone through the argmax oracle alone.

Forced deviations forbid one component of z_hat at a time, or force one in. Rays then leave the cone in random
directions: "uniform" ones see every facet, "hot" ones those that matter, as draws from the belief with its standard
deviation blown up by 1/tau until the half-spaces have a total probability of about 1. (Draws from the belief itself
keep hitting what is known.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from combopeps.belief.base import GaussianBelief
from combopeps.cone.cone import FacetCache
from combopeps.cone.rays import ray_exits
from combopeps.errors import NoAlternativeError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.oracles.forcing import force, one_at_a_time
from combopeps.samplers import _kernels as kernels
from combopeps.samplers.draws import draw_behind
from combopeps.space import ParameterSpace, RealSpace

_CHUNK = 32  # rays of each kind per step of the first search
_MAX_FORCED = 256


class Discovery:
    """The search for facets of one cone; keeps the tally of hot rays for the Good-Turing estimate."""

    def __init__(self, cache: FacetCache, oracle: ArgmaxOracle, space: ParameterSpace) -> None:
        self.cache, self.oracle, self.space = cache, oracle, space
        self.oracle_calls = 0
        self._exits_of: dict[int, int] = {}
        self._hot_rays = self._met_once = 0

    @property
    def missing(self) -> float:
        """Good-Turing: the share of hot rays whose facet was met once only. An estimate; it certifies nothing."""
        if self.cache.complete:
            return 0.0
        return self._met_once / max(1, self._hot_rays)

    def first_search(
        self, belief: GaussianBelief, eta: float, rng: np.random.Generator, missing: float, max_rays: int
    ) -> None:
        """Forced deviations, then rays until little seems to be missing."""
        self._force(belief, rng)
        rays = 0
        while rays < max_rays and (self._hot_rays < 2 * _CHUNK or self.missing > missing):
            self.search(belief, eta, rng, hot=_CHUNK, uniform=_CHUNK)
            rays += 2 * _CHUNK
        if self.cache.size == 0:
            raise NoAlternativeError(
                f"no alternative exists: the current answer was best in all of {rays} opposite pairs of directions"
            )

    def search(self, belief: GaussianBelief, eta: float, rng: np.random.Generator, *, hot: int, uniform: int) -> None:
        """Send out some rays of each kind, and add the facets through which they leave."""
        base = self._base(belief)
        if uniform:
            # Opposite pairs: unless all answers are equal along v, z_hat loses to one of them along v or -v.
            half = belief.noise(rng.standard_normal((1, (uniform + 1) // 2, belief.dim)))[0]
            self._follow(base, self._aim(base, np.concatenate([half, -half])[:uniform], wide=True))
        if hot and self.cache.size:
            self.cache.sync(belief, eta)
            targets = self._hot_targets(belief, eta, rng, hot)
            numbers = self._follow(base, self._aim(base, targets - base))
            for number in numbers[numbers >= 0].tolist():
                count = self._exits_of[number] = self._exits_of.get(number, 0) + 1
                self._met_once += (count == 1) - (count == 2)
            self._hot_rays += hot

    def follow(self, belief: GaussianBelief, thetas: Array) -> None:
        """Add the facets between the belief's mean and these thetas."""
        base = self._base(belief)
        self._follow(base, thetas - base)

    def forget(self, keep: NDArray[np.intp]) -> None:
        """Keep only these facets, and renumber the tally."""
        self._exits_of = {new: self._exits_of[f] for new, f in enumerate(keep.tolist()) if f in self._exits_of}
        self._met_once = sum(count == 1 for count in self._exits_of.values())
        self.cache.keep(keep)

    def _follow(self, base: Array, directions: Array) -> NDArray[np.intp]:
        """The numbers of the facets through which the rays leave (-1: none), new ones added."""
        start = np.full(len(directions), np.inf if isinstance(self.space, RealSpace) else 1.0)
        through = np.full(len(directions), -1)
        kernels.known_exits(*self.cache.rows, base, directions, start, through)
        exits = ray_exits(self.oracle, self.cache.z_hat, base, directions, start, stop=0.0)
        self.oracle_calls += exits.oracle_calls
        numbers = self.cache.add(exits.answers)
        return np.where(exits.found, numbers, through)

    def _aim(self, base: Array, directions: Array, *, wide: bool = False) -> Array:
        """On R^d the directions themselves; in a box the way to the nearest point of the box, seen from far if wide."""
        if isinstance(self.space, RealSpace):
            return directions
        return self.space.project(base + (4.0 if wide else 1.0) * directions) - base

    def _base(self, belief: GaussianBelief) -> Array:
        """Theta_hat, pulled into the cone's interior when it sits on the boundary, where rays leave anywhere."""
        theta, z_hat = belief.theta_hat[0], self.cache.z_hat
        base = self.space.project(theta)
        size = self.cache.size
        tied = size == 0 or bool((self.cache.gap[:size] <= 1e-9 * np.sqrt(self.cache.width[:size])).any())
        if not tied:
            return base
        inward = z_hat if self.oracle.domain == "real" else (z_hat == 0.0).astype(float)
        scale = float(np.abs(belief.covariance_dot(np.ones((1, belief.dim)))).mean()) ** 0.5
        inner = self.space.project(base + 1e-3 * scale * inward)
        self.oracle_calls += 1
        return inner if np.array_equal(self.oracle.argmax(inner), z_hat) else base

    def _force(self, belief: GaussianBelief, rng: np.random.Generator) -> None:
        """The best answers without each component of z_hat, and with some component outside it.

        Facets do not depend on Theta: the thetas that force them may lie outside a box, where the oracle allows it.
        """
        theta, z_hat, unit = self._base(belief), self.cache.z_hat, self.oracle.unit
        if not np.isin(z_hat, (0.0, unit)).all():
            return
        components = rng.permutation(np.flatnonzero(z_hat))[:_MAX_FORCED]
        if self.oracle.domain == "real" or unit > 0:
            others = rng.permutation(np.flatnonzero(z_hat == 0.0))[:_MAX_FORCED]
            components = np.concatenate([components, others])
        for begin in range(0, len(components), 64):
            wanted = one_at_a_time(components[begin : begin + 64], z_hat)
            self.oracle_calls += len(wanted)
            self.cache.add(force(self.oracle, theta, wanted).answers)

    def _hot_targets(self, belief: GaussianBelief, eta: float, rng: np.random.Generator, n: int) -> Array:
        """Thetas behind known facets, drawn from the heated belief."""
        tau = self.cache.temperature(eta)
        return draw_behind(self.cache, belief, eta * tau * tau, rng, n, cap=100 * n).thetas

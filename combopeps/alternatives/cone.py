"""`Cone`: every theta under which z_hat is best, seen through its facets.

    C(z_hat) = {theta : y_f @ theta <= 0 for all facets f},   y_f = z_f - z_hat,   Alt(z_hat) = its complement

Facets depend on z_hat alone. An oracle may list them; otherwise they are found through the argmax. Forced deviations
forbid one component of z_hat at a time, or force one in. Rays then leave the cone in random directions: "uniform" ones
see every facet, "hot" ones those that matter, as draws from the belief with its standard deviation blown up by 1/tau
until the half-spaces have a total probability of about 1. (Draws from the belief itself keep hitting what is known.)

Where a ray leaves the cone of z_hat, and through which facet.

Along base + s v the alternatives are exactly s > s*. Newton's method on the convex, piecewise linear
h(s) = max_z (z - z_hat) @ (base + s v) comes down from above:

    s <- gap_z / ((z - z_hat) @ v),   z <- argmax(base + s v),   until z no longer beats z_hat.

Started at the exit through a facet that is known already, one oracle call confirms it or finds a nearer one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from combopeps.alternatives import _kernels as kernels
from combopeps.alternatives.facets import Facets
from combopeps.alternatives.karp_luby import draw_behind
from combopeps.errors import NoAlternativeError
from combopeps.oracles.base import ArgmaxOracle, Array, Sparse, strictly_better
from combopeps.oracles.constrained_argmax import force, one_at_a_time
from combopeps.posterior.gaussian import GaussianBelief
from combopeps.posterior.parameter_space import ParameterSpace, RealSpace

_MAX_STEPS = 100


@dataclass(frozen=True)
class Exits:
    """Per ray: the exit s* (infinite if there is none), the answer beyond it, and whether it is one that was found."""

    s: Array
    answers: Array
    found: NDArray[np.bool_]
    empty: NDArray[np.bool_]
    oracle_calls: int


def ray_exits(
    oracle: ArgmaxOracle, z_hat: Array, base: Array, directions: Array, start: Array, stop: Array | float = -np.inf
) -> Exits:
    """Newton from s = start (infinity allowed) down to the exit, for all rays together, never below `stop`.

    `base` is one point or one per ray. Where z_hat is best nowhere between stop and start, `empty` is set. `found` is
    False where the ray at `start` is still inside the cone.
    """
    n = len(directions)
    s = start.astype(np.float64).copy()
    answers = np.repeat(z_hat[None], n, axis=0)
    found, empty = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    base = np.broadcast_to(base, directions.shape)
    stop = np.broadcast_to(np.asarray(stop, dtype=np.float64), n)
    active = np.arange(n)
    calls = 0
    for _ in range(_MAX_STEPS):
        v, finite = directions[active], np.isfinite(s[active])
        points = np.where(finite[:, None], base[active] + np.where(finite, s[active], 0.0)[:, None] * v, v)
        if oracle.domain == "nonnegative":
            points = np.maximum(points, 0.0)  # the ends of a segment in the orthant, up to rounding
        z = oracle.best_answers(points)
        calls += len(active)
        better = strictly_better(z, z_hat, points)
        active, z, v = active[better], z[better], v[better]
        if not len(active):
            break
        y = z - z_hat
        slope = np.einsum("bd,bd->b", y, v)
        downhill = slope > 0.0
        empty[active[~downhill]] = True
        active, y, slope = active[downhill], y[downhill], slope[downhill]
        answers[active] = z[downhill]
        found[active] = True
        root = -np.einsum("bd,bd->b", y, base[active]) / slope
        floor = stop[active]
        over = root >= s[active]  # rounding: the root can fall no further
        past = root < floor
        rounding = 1e-9 * (1.0 + np.abs(np.where(np.isfinite(floor), floor, 0.0)))
        empty[active[past & (root < floor - rounding)]] = True
        s[active] = np.maximum(np.minimum(s[active], root), floor)
        active = active[~(over | past)]
        if not len(active):
            break
    s[~found & ~np.isfinite(start)] = np.inf
    return Exits(s, answers, found & ~empty, empty, calls)


_CHUNK = 32  # rays of each kind per step of the first search
_MAX_FORCED = 256
_RAYS = 4  # of each kind, per search after the first
_SHORTEST_PAUSE, _LONGEST_PAUSE = 2, 256  # calls between two such searches
_PATIENT_PAUSE = 32  # ... while they find something, time after time: a search takes the time of some 15 rounds
_FEW = 1024  # facets listed by an oracle that has no closed form for them
_MOST_DISCOVERED = 4096  # facets kept of those found by rays
_MEMORY = 32  # alternatives remembered for the first search


class Limits(NamedTuple):
    """How far the search for facets goes: see `HalfSpaceSampler`."""

    missing: float = 0.01
    max_rays: int = 512
    max_facets: int = 500_000
    closed_form: bool = True


class Cone(Facets):
    """The cone of one answer: facets known so far, gaps and widths under a belief, and the search for more.

    One run has one, for its current answer, and whoever asks about alternatives asks it: facets are searched once.
    """

    rays_per_search = _RAYS

    def __init__(self, oracle: ArgmaxOracle, z_hat: Array, space: ParameterSpace) -> None:
        super().__init__(z_hat)
        self.oracle, self.space = oracle, space
        self.oracle_calls = 0  # of searches, since somebody took them into account
        self.explored = False
        self._met: list[Array] = []
        self._exits_of: dict[int, int] = {}
        self._hot_rays = self._met_once = 0
        self._calls = self._next_search = 0
        self._pause = _SHORTEST_PAUSE

    def belongs_to(self, oracle: ArgmaxOracle, z_hat: Array, space: ParameterSpace) -> bool:
        """Is it the cone of this answer?"""
        return (
            self.oracle is oracle
            and (self.space is space or self.space == space)
            and (self.z_hat is z_hat or np.array_equal(self.z_hat, z_hat))
        )

    @property
    def missing(self) -> float:
        """Good-Turing: the share of hot rays whose facet was met once only. An estimate; it certifies nothing."""
        return 0.0 if self.complete else self._met_once / max(1, self._hot_rays)

    def best(self, thetas: Array) -> Array:
        """The best answers under alternatives that somebody measures by."""
        return self.oracle.best_answers(thetas)

    def remember(self, thetas: Array) -> None:
        """Alternatives that somebody has found: the first search adds the facets on the way to the last of them."""
        self._met = [*self._met, *thetas][-_MEMORY:]

    def prepare(self, belief: GaussianBelief, eta: float, rng: np.random.Generator, limits: Limits) -> None:
        """Facets in step with the belief: listed or searched once, and a few more rays now and then."""
        if not self.explored:
            self._explore(belief, eta, rng, limits)
        if self._met and not self.complete:
            base = self._base(belief)
            self._follow_rays(base, np.array(self._met) - base)
        self._met = []
        self.sync(belief, eta)
        self.extend(belief, eta, rng, limits)

    def extend(self, belief: GaussianBelief, eta: float, rng: np.random.Generator, limits: Limits) -> None:
        """Look for more facets now and then, and forget the least probable ones when there are too many."""
        if self.complete:
            return
        self._search_on(belief, eta, rng, limits.missing)
        most = min(limits.max_facets, _MOST_DISCOVERED)
        if self.size > most:
            self.keep(np.argsort(-self.log_w[: self.size])[: most // 2])
            self.sync(belief, eta)
            self._pause = _LONGEST_PAUSE  # more facets than can be kept: what is found only takes the place of others
            self._next_search = self._calls + self._pause

    def search(self, belief: GaussianBelief, rng: np.random.Generator, *, rays: int) -> None:
        """So many rays, half of each kind, in place of the first search; `NoAlternativeError` if none leaves."""
        self._search(belief, 1.0, rng, hot=rays // 2, uniform=rays // 2)
        if self.size == 0:
            raise NoAlternativeError(f"no alternative exists: the current answer was best along {rays // 2} rays")
        self.explored = True

    def list_if_few(self) -> bool:
        """Have all facets at once, without a search, where the oracle lists them and they are few; are all known?"""
        if not (self.explored or self.complete):
            count = self.oracle.facet_count
            rows = self.oracle.few_facets(self.z_hat, _FEW) if count is None or count <= _FEW else None
            if rows is not None:
                self._take_list(rows)
        return self.complete

    def _explore(self, belief: GaussianBelief, eta: float, rng: np.random.Generator, limits: Limits) -> None:
        rows = self._list(limits) if limits.closed_form else None
        if rows is None:
            self._first_search(belief, eta, rng, limits)
        else:
            self._take_list(rows)
        self.explored = True
        self._next_search, self._pause = self._calls + _SHORTEST_PAUSE, _SHORTEST_PAUSE

    def _take_list(self, rows: Sparse) -> None:
        if rows.shape[0] == 0:
            raise NoAlternativeError("no alternative exists: Z has one answer only")
        self.take(rows)
        self.explored = True

    def _list(self, limits: Limits) -> Sparse | None:
        """All facets, where the oracle has them in closed form or finds that they are few."""
        count = self.oracle.facet_count
        if count is not None and count <= limits.max_facets:
            return self.oracle.facets(self.z_hat)
        return self.oracle.few_facets(self.z_hat, min(limits.max_facets, _FEW) if count is None else limits.max_facets)

    def _first_search(self, belief: GaussianBelief, eta: float, rng: np.random.Generator, limits: Limits) -> None:
        """Forced deviations, then rays until little seems to be missing."""
        self._force(belief, rng)
        rays = 0
        while rays < limits.max_rays and (self._hot_rays < 2 * _CHUNK or self.missing > limits.missing):
            self._search(belief, eta, rng, hot=_CHUNK, uniform=_CHUNK)
            rays += 2 * _CHUNK
        if self.size == 0:
            raise NoAlternativeError(
                f"no alternative exists: the current answer was best in all of {rays} opposite pairs of directions"
            )

    def _search_on(self, belief: GaussianBelief, eta: float, rng: np.random.Generator, missing: float) -> None:
        """A few more rays: often while they begin to add probability, ever more rarely while they do not."""
        self._calls += 1
        if self._calls < self._next_search:
            return
        before, size = self.log_mass, self.size
        self._search(belief, eta, rng, hot=self.rays_per_search, uniform=self.rays_per_search)
        if self.size > size:
            self.sync(belief, eta)
        if self.log_mass - before > missing:
            self._pause = min(self._pause + _SHORTEST_PAUSE, _PATIENT_PAUSE)
        else:
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        self._next_search = self._calls + self._pause

    def _search(self, belief: GaussianBelief, eta: float, rng: np.random.Generator, *, hot: int, uniform: int) -> None:
        """Send out some rays of each kind, and add the facets through which they leave."""
        base = self._base(belief)
        # Opposite pairs: unless all answers are equal along v, z_hat loses to one of them along v or -v.
        half = belief.noise(rng.standard_normal((1, (uniform + 1) // 2, belief.dim)))[0]
        self._follow_rays(base, self._aim(base, np.concatenate([half, -half])[:uniform], wide=True))
        if self.size:
            self.sync(belief, eta)
            heated = eta * self.temperature(eta) ** 2
            targets = draw_behind(self, belief, heated, rng, hot, cap=100 * hot).thetas
            numbers = self._follow_rays(base, self._aim(base, targets - base))
            for number in numbers[numbers >= 0].tolist():
                count = self._exits_of[number] = self._exits_of.get(number, 0) + 1
                self._met_once += (count == 1) - (count == 2)
            self._hot_rays += hot

    def keep(self, chosen: NDArray[np.intp]) -> None:
        """Forget all facets but these, and renumber the tally of rays."""
        self._exits_of = {new: self._exits_of[f] for new, f in enumerate(chosen.tolist()) if f in self._exits_of}
        self._met_once = sum(count == 1 for count in self._exits_of.values())
        super().keep(chosen)

    def _follow_rays(self, base: Array, directions: Array) -> NDArray[np.intp]:
        """The numbers of the facets through which the rays leave (-1: none), new ones added."""
        start = np.full(len(directions), np.inf if isinstance(self.space, RealSpace) else 1.0)
        through = np.full(len(directions), -1)
        kernels.known_exits(self.rows, base, directions, start, through)
        exits = ray_exits(self.oracle, self.z_hat, base, directions, start, stop=0.0)
        self.oracle_calls += exits.oracle_calls
        return np.where(exits.found, self.add(exits.answers), through)

    def _aim(self, base: Array, directions: Array, *, wide: bool = False) -> Array:
        """On R^d the directions themselves; in a box the way to the nearest point of the box, seen from far if wide."""
        if isinstance(self.space, RealSpace):
            return directions
        return self.space.project(base + (4.0 if wide else 1.0) * directions) - base

    def _base(self, belief: GaussianBelief) -> Array:
        """Theta_hat, pulled into the cone's interior when it sits on the boundary, where rays leave anywhere."""
        theta, z_hat, size = belief.theta_hat[0], self.z_hat, self.size
        base = self.space.project(theta)
        tied = size == 0 or bool((self.gap[:size] <= 1e-9 * np.sqrt(self.width[:size])).any())
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
        theta, z_hat, unit = self._base(belief), self.z_hat, self.oracle.unit
        if not np.isin(z_hat, (0.0, unit)).all():
            return
        components = rng.permutation(np.flatnonzero(z_hat))[:_MAX_FORCED]
        if self.oracle.domain == "real" or unit > 0:
            others = rng.permutation(np.flatnonzero(z_hat == 0.0))[:_MAX_FORCED]
            components = np.concatenate([components, others])
        for begin in range(0, len(components), 64):
            wanted = one_at_a_time(components[begin : begin + 64], z_hat)
            self.oracle_calls += len(wanted)
            self.add(force(self.oracle, theta, wanted).answers)

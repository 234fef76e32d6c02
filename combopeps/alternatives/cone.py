"""Cone of an answer: the parameters under which it is best, described by its facets, and the search for facets by rays.

    C(z_hat) = {theta : y_f @ theta <= 0 for all facets f},   y_f = z_f - z_hat,   Alt(z_hat) = its complement

Facets depend on z_hat alone. Some oracles list them; otherwise they are found by argmax calls, in two ways. Forced
deviations forbid one component of z_hat at a time, or force one in. Rays leave the cone in random directions:
"uniform" rays find every facet sooner or later, "hot" rays find those that matter. Hot rays point to draws from the
posterior with its standard deviation divided by tau, such that the half-spaces have a total probability of about 1;
draws from the posterior itself would mostly hit facets that are known already.

Along base + s v the alternatives are exactly s > s*. Newton's method on the convex, piecewise linear
h(s) = max_z (z - z_hat) @ (base + s v) approaches s* from above:

    s <- gap_z / ((z - z_hat) @ v),   z <- argmax(base + s v),   until z no longer beats z_hat.

Started at the exit through a known facet, one oracle call confirms that exit or finds a nearer one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from combopeps.alternatives import _kernels as kernels
from combopeps.alternatives.facets import Facets, draw_from_union
from combopeps.errors import NoAlternativeError
from combopeps.oracles.base import ArgmaxOracle, Array, Sparse, strictly_better
from combopeps.oracles.constrained_argmax import constrained_argmax, flip_one_component
from combopeps.posterior.gaussian import GaussianPosterior
from combopeps.posterior.parameter_space import ParameterSpace, RealSpace

_MAX_NEWTON_STEPS = 100
_RAYS_PER_STEP = 32  # of each kind, per step of the first search
_RAYS_PER_SEARCH = 4  # of each kind, per search after the first
_MAX_FORCED = 256  # components in z_hat that are forbidden, and components outside it that are forced in
_FORCED_BATCH = 64
_MIN_PAUSE, _MAX_PAUSE = 2, 256  # calls between two searches after the first
_MAX_PAUSE_WHILE_FINDING = 32  # as long as each finds something; a search takes the time of some 15 rounds
_MAX_LISTED = 1024  # facets that are listed by an oracle without a closed form for them
_MAX_DISCOVERED = 4096  # facets kept of those found by rays
_MAX_REMEMBERED = 32  # alternatives that the first search starts from
_WIDE = 4.0  # standard deviations: distance of the points that uniform rays aim at in a box


@dataclass(frozen=True)
class Exits:
    """Points at which rays leave the cone.

    Attributes
    ----------
    s
        The exit s* of each ray; infinite if there is none.
    answers
        The best answer beyond the exit.
    found
        Whether the ray leaves the cone.
    empty
        Whether the part of the ray between `stop` and `start` lies outside the cone.
    oracle_calls
        Thetas passed to the oracle.
    """

    s: Array
    answers: Array
    found: NDArray[np.bool_]
    empty: NDArray[np.bool_]
    oracle_calls: int


def ray_exits(
    oracle: ArgmaxOracle, z_hat: Array, base: Array, directions: Array, start: Array, stop: Array | float = -np.inf
) -> Exits:
    """Find the exits of several rays by Newton's method, from s = start (may be infinite) down to `stop`.

    Parameters
    ----------
    oracle, z_hat
        Z and the answer of the cone.
    base
        One point, (d,), or one per ray, (n, d).
    directions
        Of the rays, (n, d).
    start, stop
        Range of s, (n,) each. A ray that is still in the cone at `start` has no exit.
    """
    n = len(directions)
    s = start.astype(np.float64).copy()
    answers = np.repeat(z_hat[None], n, axis=0)
    found, empty = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    base = np.broadcast_to(base, directions.shape)
    stop = np.broadcast_to(np.asarray(stop, dtype=np.float64), n)
    active = np.arange(n)
    calls = 0
    for _ in range(_MAX_NEWTON_STEPS):
        v, finite = directions[active], np.isfinite(s[active])
        # at s = infinity the best answer is that of the direction itself
        points = np.where(finite[:, None], base[active] + np.where(finite, s[active], 0.0)[:, None] * v, v)
        if oracle.domain == "nonnegative":
            points = np.maximum(points, 0.0)  # the ends of a segment in the orthant, up to rounding
        z = oracle.argmax_unchecked(points)
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
        lowest = stop[active]
        converged = root >= s[active]  # rounding: the root cannot decrease further
        below = root < lowest
        rounding = 1e-9 * (1.0 + np.abs(np.where(np.isfinite(lowest), lowest, 0.0)))
        empty[active[below & (root < lowest - rounding)]] = True
        s[active] = np.maximum(np.minimum(s[active], root), lowest)
        active = active[~(converged | below)]
        if not len(active):
            break
    s[~found & ~np.isfinite(start)] = np.inf
    return Exits(s, answers, found & ~empty, empty, calls)


class Limits(NamedTuple):
    """Limits of the search for facets: see `HalfSpaceSampler`."""

    missing: float = 0.01
    max_rays: int = 512
    max_facets: int = 500_000
    closed_form: bool = True


class Cone(Facets):
    """The cone of one answer: known facets, their gaps and widths under a posterior, and the search for more.

    A run shares one cone among its sampler, policy and stopping rule, so that facets are searched once.
    """

    rays_per_search = _RAYS_PER_SEARCH

    def __init__(self, oracle: ArgmaxOracle, z_hat: Array, space: ParameterSpace) -> None:
        super().__init__(z_hat)
        self.oracle, self.space = oracle, space
        self.oracle_calls = 0  # of searches, not yet counted by a sampler
        self.explored = False
        self._remembered: list[Array] = []
        self._exit_counts: dict[int, int] = {}
        self._hot_rays = self._singletons = 0
        self._calls = self._next_search = 0
        self._pause = _MIN_PAUSE

    def belongs_to(self, oracle: ArgmaxOracle, z_hat: Array, space: ParameterSpace) -> bool:
        """Return whether this is the cone of the given answer."""
        return (
            self.oracle is oracle
            and (self.space is space or self.space == space)
            and (self.z_hat is z_hat or np.array_equal(self.z_hat, z_hat))
        )

    @property
    def missing(self) -> float:
        """Good-Turing estimate of the probability that a hot ray leaves through an unknown facet.

        The share of hot rays whose facet was met once only; an estimate, not a bound.
        """
        return 0.0 if self.complete else self._singletons / max(1, self._hot_rays)

    def argmax_unchecked(self, thetas: Array) -> Array:
        """Return the best answers under alternatives by which an arm is chosen."""
        return self.oracle.argmax_unchecked(thetas)

    def remember_alternatives(self, thetas: Array) -> None:
        """Keep alternatives found elsewhere; the first search adds the facets on the way to the last of them."""
        self._remembered = [*self._remembered, *thetas][-_MAX_REMEMBERED:]

    def prepare(self, posterior: GaussianPosterior, eta: float, rng: np.random.Generator, limits: Limits) -> None:
        """List or search the facets if that has not been done, bring them in sync, and extend them now and then."""
        if not self.explored:
            self._explore(posterior, eta, rng, limits)
        if self._remembered and not self.complete:
            base = self._ray_base(posterior)
            self._trace_rays(base, np.array(self._remembered) - base)
        self._remembered = []
        self.sync(posterior, eta)
        self.extend(posterior, eta, rng, limits)

    def extend(self, posterior: GaussianPosterior, eta: float, rng: np.random.Generator, limits: Limits) -> None:
        """Search for more facets now and then; remove those of least weight if there are too many."""
        if self.complete:
            return
        self._search_again(posterior, eta, rng, limits.missing)
        most = min(limits.max_facets, _MAX_DISCOVERED)
        if self.size > most:
            self.keep(np.argsort(-self.log_w[: self.size])[: most // 2])
            self.sync(posterior, eta)
            self._pause = _MAX_PAUSE  # new facets would only replace others
            self._next_search = self._calls + self._pause

    def search(self, posterior: GaussianPosterior, rng: np.random.Generator, *, rays: int) -> None:
        """Search by `rays` rays, half of them hot and half uniform, in place of the first search.

        Raises
        ------
        NoAlternativeError
            If no ray leaves the cone.
        """
        self._search(posterior, 1.0, rng, hot=rays // 2, uniform=rays // 2)
        if self.size == 0:
            raise NoAlternativeError(f"no alternative exists: the current answer was best along {rays // 2} rays")
        self.explored = True

    def list_if_few(self) -> bool:
        """Set all facets without a search where the oracle lists few of them; return whether all are known."""
        if not (self.explored or self.complete):
            count = self.oracle.facet_count
            rows = self.oracle.facets_up_to(self.z_hat, _MAX_LISTED) if count is None or count <= _MAX_LISTED else None
            if rows is not None:
                self._set_listed(rows)
        return self.complete

    def _explore(self, posterior: GaussianPosterior, eta: float, rng: np.random.Generator, limits: Limits) -> None:
        """List the facets if the oracle can, else search them."""
        rows = self._listed_facets(limits) if limits.closed_form else None
        if rows is None:
            self._first_search(posterior, eta, rng, limits)
        else:
            self._set_listed(rows)
        self.explored = True
        self._next_search, self._pause = self._calls + _MIN_PAUSE, _MIN_PAUSE

    def _set_listed(self, rows: Sparse) -> None:
        """Set all facets, or raise `NoAlternativeError` if there are none."""
        if rows.shape[0] == 0:
            raise NoAlternativeError("no alternative exists: Z has one answer only")
        self.set_all(rows)
        self.explored = True

    def _listed_facets(self, limits: Limits) -> Sparse | None:
        """Return all facets if the oracle has them in closed form or lists few of them, else None."""
        count = self.oracle.facet_count
        if count is not None and count <= limits.max_facets:
            return self.oracle.facets(self.z_hat)
        return self.oracle.facets_up_to(
            self.z_hat, min(limits.max_facets, _MAX_LISTED) if count is None else limits.max_facets
        )

    def _first_search(self, posterior: GaussianPosterior, eta: float, rng: np.random.Generator, limits: Limits) -> None:
        """Search by forced deviations, then by rays until the estimated share of unknown facets is small."""
        self._force_deviations(posterior, rng)
        rays = 0
        while rays < limits.max_rays and (self._hot_rays < 2 * _RAYS_PER_STEP or self.missing > limits.missing):
            self._search(posterior, eta, rng, hot=_RAYS_PER_STEP, uniform=_RAYS_PER_STEP)
            rays += 2 * _RAYS_PER_STEP
        if self.size == 0:
            raise NoAlternativeError(
                f"no alternative exists: the current answer was best in all of {rays} opposite pairs of directions"
            )

    def _search_again(self, posterior: GaussianPosterior, eta: float, rng: np.random.Generator, missing: float) -> None:
        """Send a few more rays, if it is time.

        The pause between two searches grows slowly while they add probability, and doubles when they do not.
        """
        self._calls += 1
        if self._calls < self._next_search:
            return
        before, size = self.log_mass, self.size
        self._search(posterior, eta, rng, hot=self.rays_per_search, uniform=self.rays_per_search)
        if self.size > size:
            self.sync(posterior, eta)
        if self.log_mass - before > missing:
            self._pause = min(self._pause + _MIN_PAUSE, _MAX_PAUSE_WHILE_FINDING)
        else:
            self._pause = min(2 * self._pause, _MAX_PAUSE)
        self._next_search = self._calls + self._pause

    def _search(
        self, posterior: GaussianPosterior, eta: float, rng: np.random.Generator, *, hot: int, uniform: int
    ) -> None:
        """Send rays of both kinds, and add the facets through which they leave the cone."""
        base = self._ray_base(posterior)
        # Opposite pairs: unless all answers are equal along v, some answer beats z_hat far along v or -v.
        half = posterior.noise(rng.standard_normal((1, (uniform + 1) // 2, posterior.dim)))[0]
        self._trace_rays(base, self._directions_to(base, np.concatenate([half, -half])[:uniform], wide=True))
        if self.size:  # hot rays aim at draws from the union of the known half-spaces, at a higher temperature
            self.sync(posterior, eta)
            hot_eta = eta * self.temperature(eta) ** 2
            targets = draw_from_union(self, posterior, hot_eta, rng, hot, cap=100 * hot).thetas
            numbers = self._trace_rays(base, self._directions_to(base, targets - base))
            for number in numbers[numbers >= 0].tolist():
                count = self._exit_counts[number] = self._exit_counts.get(number, 0) + 1
                self._singletons += (count == 1) - (count == 2)
            self._hot_rays += hot

    def keep(self, chosen: NDArray[np.intp]) -> None:
        """Remove all facets but these; renumber the exit counts accordingly."""
        self._exit_counts = {
            new: self._exit_counts[f] for new, f in enumerate(chosen.tolist()) if f in self._exit_counts
        }
        self._singletons = sum(count == 1 for count in self._exit_counts.values())
        super().keep(chosen)

    def _trace_rays(self, base: Array, directions: Array) -> NDArray[np.intp]:
        """Add the facets through which the rays leave the cone; return their numbers (-1: no exit)."""
        # Start at the nearest known exit: one oracle call then confirms it or finds a nearer one.
        start = np.full(len(directions), np.inf if isinstance(self.space, RealSpace) else 1.0)
        exit_facet = np.full(len(directions), -1)
        kernels.exits_through_known_facets(self.rows, base, directions, start, exit_facet)
        exits = ray_exits(self.oracle, self.z_hat, base, directions, start, stop=0.0)
        self.oracle_calls += exits.oracle_calls
        return np.where(exits.found, self.add(exits.answers), exit_facet)

    def _directions_to(self, base: Array, directions: Array, *, wide: bool = False) -> Array:
        """Return the ways from `base` to base + directions; in a box, to the projections of these points.

        In a box, the points are four times as far away if `wide`.
        """
        if isinstance(self.space, RealSpace):
            return directions
        return self.space.project(base + (_WIDE if wide else 1.0) * directions) - base

    def _ray_base(self, posterior: GaussianPosterior) -> Array:
        """Return theta_hat, moved off the facets if it lies on one: from there every ray would leave at once."""
        theta, z_hat, size = posterior.theta_hat[0], self.z_hat, self.size
        base = self.space.project(theta)
        tied = size == 0 or bool((self.gap[:size] <= 1e-9 * np.sqrt(self.width[:size])).any())
        if not tied:
            return base
        # A direction along which z_hat gains on other answers, or, for costs, other answers lose.
        inward = z_hat if self.oracle.domain == "real" else (z_hat == 0.0).astype(float)
        scale = float(np.abs(posterior.covariance_dot(np.ones((1, posterior.dim)))).mean()) ** 0.5
        inner = self.space.project(base + 1e-3 * scale * inward)
        self.oracle_calls += 1
        return inner if np.array_equal(self.oracle.argmax(inner), z_hat) else base

    def _force_deviations(self, posterior: GaussianPosterior, rng: np.random.Generator) -> None:
        """Add the best answers without each component of z_hat, and with each component outside it, block by block.

        Facets do not depend on Theta: the thetas that force them may lie outside a box, where the oracle allows it.
        """
        theta = self._ray_base(posterior)
        for block in self.oracle.blocks(self.z_hat):
            oracle, z = block.oracle, block.z
            if not np.isin(z, (0.0, oracle.unit)).all():
                continue
            components = rng.permutation(np.flatnonzero(z))[:_MAX_FORCED]
            if oracle.domain == "real" or oracle.unit > 0:
                others = rng.permutation(np.flatnonzero(z == 0.0))[:_MAX_FORCED]
                components = np.concatenate([components, others])
            for begin in range(0, len(components), _FORCED_BATCH):
                wanted = flip_one_component(components[begin : begin + _FORCED_BATCH], z)
                self.oracle_calls += len(wanted)
                answers = constrained_argmax(oracle, theta[block.columns], wanted).answers
                self.add(self.z_hat + block.embedded(answers - z, len(self.z_hat)))

"""Cone of an answer for slow oracles: a limited number of oracle calls, and every answer seen so far as a facet.

Rays are sent two at a time, and only as many as the answer cache affords (`answer_cache`). A first search is made
only if no answer but z_hat was ever seen.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from combopeps.alternatives.answer_cache import AnswerCache
from combopeps.alternatives.cone import Cone, Limits
from combopeps.alternatives.facets import Facets
from combopeps.errors import NoAlternativeError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.posterior.gaussian import GaussianPosterior
from combopeps.posterior.parameter_space import ParameterSpace, RealSpace

# Opposite pairs of rays without an exit, after which there is taken to be no other answer: in a box a heuristic.
_PAIRS_IN_RD, _PAIRS_IN_BOX = 2, 32
_SEARCH_ROWS = 8  # oracle calls that a search by two rays may need
_MAX_PRODUCTS = 4_000_000  # at once
_RECENT = 16, 128  # numbers of recent answers that are tried before all of them
_ROUNDING = 1e-13


def cone_of(oracle: ArgmaxOracle, z_hat: Array, space: ParameterSpace, memory: AnswerCache | None = None) -> Cone:
    """Return a cone of the kind that suits the oracle; `memory` is the answer cache of the run."""
    return Cone(oracle, z_hat, space) if oracle.quick else BudgetedCone(oracle, z_hat, space, memory)


class BudgetedCone(Cone):
    """A cone whose facets come from the answer cache of the run, for an oracle that is not `quick`.

    Attributes
    ----------
    memory
        The answers seen by the run, and its oracle calls.
    is_rare
        Whether plain draws from the posterior hardly ever are alternatives.
    """

    rays_per_search = 1

    def __init__(
        self, oracle: ArgmaxOracle, z_hat: Array, space: ParameterSpace, memory: AnswerCache | None = None
    ) -> None:
        super().__init__(oracle, z_hat, space)
        self.memory = AnswerCache(oracle) if memory is None else memory
        self.is_rare = False
        self._last_number = 0  # of the answers taken from the cache
        self._searched = False
        self._known_union: FacetUnion | None = None

    def refresh(self) -> None:
        """Add the answers that the cache has received since the last call."""
        if not self.complete:
            new, self._last_number = self.memory.since(self._last_number)
            super().add(new)  # not self.add: they are in the cache

    def prepare(self, posterior: GaussianPosterior, eta: float, rng: np.random.Generator, limits: Limits) -> None:
        """Add the answers of the cache, then prepare as any cone."""
        self.refresh()
        super().prepare(posterior, eta, rng, limits)

    def search_in_full(self, posterior: GaussianPosterior, rng: np.random.Generator) -> None:
        """Search as the first search of any other cone does, once; for claims that rest on the facets."""
        if not (self._searched or self.complete):
            self._searched = True
            super()._first_search(posterior, 1.0, rng, Limits())

    def argmax_unchecked(self, thetas: Array) -> Array:
        """Return the best answers under alternatives by which an arm is chosen, and cache them."""
        return self.memory.ask(thetas, aside=False)

    def remember_alternatives(self, thetas: Array) -> None:
        """Do nothing: the answers are cached already, and rays would cost oracle calls."""

    @property
    def has_other_answers(self) -> bool:
        """Whether any answer but z_hat is known."""
        return self.size > 0 or bool((self.memory.latest(2) != self.z_hat).any())

    def all_beaten_by_recent(self, thetas: Array) -> bool:
        """Return whether some recent answer beats z_hat under each of these thetas.

        A few recent answers are tried first, which avoids a facet for every answer.
        """
        for count in _RECENT:
            differences = self.memory.latest(count) - self.z_hat
            gains = np.einsum("fd,nd->fn", differences, thetas).max(axis=0, initial=-np.inf)
            if (gains > _rounding(np.abs(differences).max(initial=0.0), thetas)).all():
                return True
            if len(differences) < count:
                break
        return False

    def beaten_by_known(self, thetas: Array, epsilon: float = 0.0) -> NDArray[np.bool_]:
        """Return under which thetas a known answer beats z_hat by more than epsilon, and more than rounding."""
        union = self._known_union
        if union is None or union.size != self.size or union.renumbered != self.renumbered:
            self._known_union = union = FacetUnion(self)
        return union(thetas, epsilon)

    @property
    def missing(self) -> float:
        """Good-Turing estimate, as for any cone; 1 before there were rays."""
        return 0.0 if self.complete else (self._singletons + (self._hot_rays == 0)) / max(1, self._hot_rays)

    def add(self, answers: Array) -> NDArray[np.intp]:
        """Add facets towards answers that a ray has met, and cache the answers."""
        self.memory.note(answers)
        return super().add(answers)

    def _first_search(self, posterior: GaussianPosterior, eta: float, rng: np.random.Generator, limits: Limits) -> None:
        """Send rays until the first facet; with growing pauses, if there is none."""
        self._calls += 1
        pairs = _PAIRS_IN_RD if isinstance(self.space, RealSpace) else _PAIRS_IN_BOX
        for _ in range(pairs if self._calls >= self._next_search else 0):
            if self.size == 0:
                self._search(posterior, eta, rng, hot=1, uniform=2)
        if self.size == 0:
            if self._calls >= self._next_search:
                self._pause *= 2
                self._next_search = self._calls + self._pause
            raise NoAlternativeError(
                f"no alternative exists: the current answer was best in all of {pairs} opposite pairs of directions"
            )

    def _search_again(self, posterior: GaussianPosterior, eta: float, rng: np.random.Generator, missing: float) -> None:
        """Send a few more rays, if it is time and the budget of oracle calls allows it."""
        if self.memory.can_afford(_SEARCH_ROWS):
            super()._search_again(posterior, eta, rng, missing)

    def _search(
        self, posterior: GaussianPosterior, eta: float, rng: np.random.Generator, *, hot: int, uniform: int
    ) -> None:
        """Send rays, and count their oracle calls in the budget."""
        before = self.oracle_calls
        super()._search(posterior, eta, rng, hot=hot, uniform=uniform)
        self.memory.aside += self.oracle_calls - before

    def _force_deviations(self, posterior: GaussianPosterior, rng: np.random.Generator) -> None:
        """Force deviations, and count their oracle calls in the budget."""
        before = self.oracle_calls
        super()._force_deviations(posterior, rng)
        self.memory.aside += self.oracle_calls - before


class FacetUnion:
    """The union of the half-spaces known at one moment; unaffected by facets found later.

    A call returns whether max_f y_f @ theta > epsilon + rounding for each theta.
    """

    def __init__(self, facets: Facets) -> None:
        from scipy.sparse import csr_array

        self.size, self.renumbered = facets.size, facets.renumbered
        size, indptr, indices, data = facets.rows
        entries, dim = int(indptr[size]), len(facets.z_hat)
        rows = data[:entries].copy(), indices[:entries].copy(), indptr[: size + 1].copy()
        self._rows = csr_array(rows, shape=(size, dim))
        self._largest = float(np.abs(rows[0]).max(initial=0.0))

    def __call__(self, thetas: Array, epsilon: float = 0.0) -> NDArray[np.bool_]:
        per_block = max(1, _MAX_PRODUCTS // max(1, self._rows.shape[0]))
        gains = np.full(len(thetas), -np.inf)
        for begin in range(0, len(thetas), per_block):
            block = thetas[begin : begin + per_block]
            gains[begin : begin + per_block] = np.asarray(self._rows @ block.T).max(axis=0, initial=-np.inf)
        return np.asarray(gains > epsilon + _rounding(self._largest, thetas))


def _rounding(largest: float, thetas: Array) -> Array:
    """Return a bound of the rounding error of y @ theta for y with entries up to `largest`."""
    return np.asarray(_ROUNDING * largest * np.abs(thetas).sum(axis=1))

"""`SparingCone`: the cone of an answer, for an oracle that should not be asked more often than need be.

Every answer that a run has seen is a facet candidate for free. Rays are sent out two at a time, no more of them than
`Memory` affords, and a first search is only made where nothing but z_hat was ever seen.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from combopeps.alternatives.answer_cache import Memory
from combopeps.alternatives.cone import Cone, Limits
from combopeps.alternatives.facets import Facets
from combopeps.errors import NoAlternativeError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.posterior.gaussian import GaussianBelief
from combopeps.posterior.parameter_space import ParameterSpace, RealSpace

_PROOF, _PAIRS = 2, 32  # opposite pairs of rays after which there is no other answer: on R^d, and as it seems, in a box
_PRICE = 8  # rows that a search by two rays may cost
_BLOCK = 4_000_000  # products at once
_LATEST = 16, 128  # answers that are looked at before all of them
_ROUNDING = 1e-13


def cone_of(oracle: ArgmaxOracle, z_hat: Array, space: ParameterSpace, memory: Memory | None = None) -> Cone:
    """As the oracle is quick, or is not; `memory` is that of the run."""
    return Cone(oracle, z_hat, space) if oracle.quick else SparingCone(oracle, z_hat, space, memory)


class SparingCone(Cone):
    """A cone whose facets are answers that were seen, for whatever reason they were asked for."""

    rays_per_search = 1

    def __init__(self, oracle: ArgmaxOracle, z_hat: Array, space: ParameterSpace, memory: Memory | None = None) -> None:
        super().__init__(oracle, z_hat, space)
        self.memory = Memory(oracle) if memory is None else memory
        self.rare = False  # plain draws hardly ever fall behind a facet
        self._noted = 0
        self._searched = False
        self._behind: Behind | None = None

    def refresh(self) -> None:
        """Take over what was seen since the last time."""
        if not self.complete:
            new, self._noted = self.memory.since(self._noted)
            super().add(new)

    def prepare(self, belief: GaussianBelief, eta: float, rng: np.random.Generator, limits: Limits) -> None:
        """As for any cone, with what was seen."""
        self.refresh()
        super().prepare(belief, eta, rng, limits)

    def explore_in_full(self, belief: GaussianBelief, rng: np.random.Generator) -> None:
        """The first search of any other cone, once, for a claim that rests on it."""
        if not (self._searched or self.complete):
            self._searched = True
            super()._first_search(belief, 1.0, rng, Limits())

    def best(self, thetas: Array) -> Array:
        """The best answers under alternatives that somebody measures by: each is remembered."""
        return self.memory.ask(thetas, aside=False)

    def remember(self, thetas: Array) -> None:
        """Their answers are known; rays on the way to them would cost rows."""

    @property
    def has_rivals(self) -> bool:
        """Is any answer known but z_hat?"""
        return self.size > 0 or bool((self.memory.latest(2) != self.z_hat).any())

    def plainly_behind(self, thetas: Array) -> bool:
        """Do answers seen last beat z_hat under all of these? That is found out without a facet for every answer."""
        for most in _LATEST:
            rivals = self.memory.latest(most) - self.z_hat
            gains = np.einsum("fd,nd->fn", rivals, thetas).max(axis=0, initial=-np.inf)
            if (gains > _rounding(np.abs(rivals).max(initial=0.0), thetas)).all():
                return True
            if len(rivals) < most:
                break
        return False

    def behind(self, thetas: Array, epsilon: float = 0.0) -> NDArray[np.bool_]:
        """Under which thetas is z_hat worse than a known answer by more than epsilon, and more than rounding?"""
        if self._behind is None or self._behind.size != self.size or self._behind.renumbered != self.renumbered:
            self._behind = Behind(self)
        return self._behind(thetas, epsilon)

    @property
    def missing(self) -> float:
        """Good-Turing, as for any cone; 1 before there were rays."""
        return 0.0 if self.complete else (self._met_once + (self._hot_rays == 0)) / max(1, self._hot_rays)

    def add(self, answers: Array) -> NDArray[np.intp]:
        """Facets towards answers that a ray has met: worth remembering."""
        self.memory.note(answers)
        return super().add(answers)

    def _first_search(self, belief: GaussianBelief, eta: float, rng: np.random.Generator, limits: Limits) -> None:
        """Only as far as to the first facet, and ever more rarely where there is none."""
        self._calls += 1
        pairs = _PROOF if isinstance(self.space, RealSpace) else _PAIRS
        for _ in range(pairs if self._calls >= self._next_search else 0):
            if self.size == 0:
                self._search(belief, eta, rng, hot=1, uniform=2)
        if self.size == 0:
            if self._calls >= self._next_search:
                self._pause *= 2
                self._next_search = self._calls + self._pause
            raise NoAlternativeError(
                f"no alternative exists: the current answer was best in all of {pairs} opposite pairs of directions"
            )

    def _search_on(self, belief: GaussianBelief, eta: float, rng: np.random.Generator, missing: float) -> None:
        if self.memory.affords(_PRICE):
            super()._search_on(belief, eta, rng, missing)

    def _search(self, belief: GaussianBelief, eta: float, rng: np.random.Generator, *, hot: int, uniform: int) -> None:
        before = self.oracle_calls
        super()._search(belief, eta, rng, hot=hot, uniform=uniform)
        self.memory.aside += self.oracle_calls - before

    def _force(self, belief: GaussianBelief, rng: np.random.Generator) -> None:
        before = self.oracle_calls
        super()._force(belief, rng)
        self.memory.aside += self.oracle_calls - before


class Behind:
    """The facets known at some moment, whatever is found later.

    is max_f y_f @ theta > epsilon + rounding?
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
        per_block = max(1, _BLOCK // max(1, self._rows.shape[0]))
        gains = np.full(len(thetas), -np.inf)
        for begin in range(0, len(thetas), per_block):
            block = thetas[begin : begin + per_block]
            gains[begin : begin + per_block] = np.asarray(self._rows @ block.T).max(axis=0, initial=-np.inf)
        return np.asarray(gains > epsilon + _rounding(self._largest, thetas))


def _rounding(largest: float, thetas: Array) -> Array:
    """Of y @ theta, when y has entries up to `largest`."""
    return np.asarray(_ROUNDING * largest * np.abs(thetas).sum(axis=1))

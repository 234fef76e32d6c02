"""A wrapper that catches an oracle that lies."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.errors import OracleError
from combopeps.oracles.base import ArgmaxOracle, Array, Confusions, LogCardinality, Sparse
from combopeps.oracles.watch import ask, check_best, check_same_value, typed
from combopeps.validation import check_choice, check_kind

_POOL = 16  # answers remembered as incumbents
_EVERY = 16  # in mode "sampled", one call in so many is checked in full


class CheckedOracle(ArgmaxOracle):
    """Passes every question on to `oracle` and every answer through a check; a lie raises `OracleError`.

    Shape, type, finiteness, exceptions and changes to theta are checked on every call. Full checks add: z a member
    of Z (through decode and encode), no earlier answer worth more than the one returned, and, asked again, no
    memory returned twice and no answer of another value. (Of several best answers any may be returned, and not always
    the same: `check_oracle` is stricter.) The error keeps the theta that caused it in `.theta`.

    Parameters
    ----------
    oracle
        Any `ArgmaxOracle`.
    mode
        "always" checks every call in full, which asks twice, "sampled" one call in 16.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> CheckedOracle(TopKOracle(4, k=2), mode="always").argmax([1.0, 4.0, 3.0, 2.0])
    array([0., 1., 1., 0.])
    """

    def __init__(self, oracle: ArgmaxOracle, mode: Literal["sampled", "always"] = "sampled") -> None:
        check_choice("mode", mode, ("sampled", "always"))
        check_kind("oracle", oracle, ArgmaxOracle)
        super().__init__(oracle.components)
        self.oracle, self.mode = oracle, mode
        self.domain, self.unit, self.resolution = oracle.domain, oracle.unit, oracle.resolution
        self.binary, self.antichain, self.pruned = oracle.binary, oracle.antichain, oracle.pruned
        self.expensive, self.quick, self.exchanges = oracle.expensive, oracle.quick, oracle.exchanges
        self._calls = 0
        self._incumbents: list[Array] = []

    def _argmax_batch(self, thetas: Array) -> Array:
        in_full = self.mode == "always" or self._calls % _EVERY == 0
        self._calls += 1
        best = ask(self.oracle, thetas)
        if in_full:
            self._check_feasible(best, thetas)
            if len(thetas):
                self._check_value(best, thetas)
                self._check_repetition(best, thetas)
        return best

    _answers = _argmax_batch  # the oracle inside has its own workers, and checks are counted here

    def _check_feasible(self, best: Array, thetas: Array) -> None:
        for z, theta in zip(best, thetas, strict=True):
            with typed(self.oracle, theta):
                again = self.oracle.encode(self.oracle.decode(z))
            if not np.array_equal(again, z):
                raise OracleError(f"{self._name} returned a z that decode and encode do not give back", theta.copy())

    def _check_value(self, best: Array, thetas: Array) -> None:
        for z in best:
            if not any(np.array_equal(z, known) for known in self._incumbents):
                self._incumbents = [*self._incumbents[1 - _POOL :], z.copy()]
        check_best(self.oracle, thetas, best, np.stack(self._incumbents))

    def _check_repetition(self, best: Array, thetas: Array) -> None:
        """Ask again: the first answers must stay as they were, and none may have another value."""
        kept = best.copy()
        again = ask(self.oracle, thetas)
        if np.shares_memory(best, again):
            raise OracleError(
                f"{self._name} returned the same memory twice, so that a later call changes earlier answers; return a "
                "fresh array, not a buffer",
                thetas.copy(),
            )
        check_same_value(self.oracle, thetas, kept, again)

    @property
    def _name(self) -> str:
        return type(self.oracle).__name__

    def _membership_batch(self, z: Array, thetas: Array) -> NDArray[np.bool_]:
        with typed(self.oracle, thetas):
            return np.atleast_1d(self.oracle.membership(z, thetas.copy()))

    def decode(self, z: ArrayLike) -> Any:
        return self.oracle.decode(z)

    def encode(self, answer: Any) -> Array:
        return self.oracle.encode(answer)

    def index(self, label: Hashable) -> int:
        return self.oracle.index(label)

    def why_pruned(self, label: Hashable) -> str:
        return self.oracle.why_pruned(label)

    def aliases(self, label: Hashable) -> tuple[Hashable, ...]:
        return self.oracle.aliases(label)

    def facets(self, z: ArrayLike) -> Sparse | None:
        return self.oracle.facets(z)

    def few_facets(self, z: ArrayLike, most: int) -> Sparse | None:
        return self.oracle.few_facets(z, most)

    def confusions(self, *, whole: bool = False) -> Confusions | None:
        return self.oracle.confusions(whole=whole)

    def equalities(self) -> Sparse | None:
        return self.oracle.equalities()

    @property
    def facet_count(self) -> int | None:
        return self.oracle.facet_count

    @property
    def log_cardinality(self) -> LogCardinality | None:
        return self.oracle.log_cardinality

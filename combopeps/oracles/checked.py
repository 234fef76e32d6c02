"""A wrapper that catches an oracle that lies."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.errors import AnswerError, OracleError, ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array, Confusions, LogCardinality
from combopeps.oracles.watch import check_best, check_form, worse

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_POOL = 16  # answers remembered as incumbents
_EVERY = 16  # in mode "sampled", one call in so many is checked in full


class CheckedOracle(ArgmaxOracle):
    """Passes every question on to `oracle` and every answer through a check; a lie raises `OracleError`.

    Shape, type, finiteness and exceptions are checked on every call. Full checks add: theta not mutated, z a
    member of Z (through decode and encode), no earlier answer worth more than the one returned, and, asked again, no
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
        if mode not in ("sampled", "always"):
            raise ParameterError(f'mode must be "sampled" or "always", got {mode!r}')
        if not isinstance(oracle, ArgmaxOracle):
            raise ParameterError(f"CheckedOracle wraps an instance of ArgmaxOracle, got {oracle!r}")
        super().__init__(oracle.components)
        self.oracle, self.mode = oracle, mode
        self.domain, self.unit, self.resolution = oracle.domain, oracle.unit, oracle.resolution
        self.binary, self.antichain = oracle.binary, oracle.antichain
        self._calls = 0
        self._incumbents: list[Array] = []

    def _argmax_batch(self, thetas: Array) -> Array:
        in_full = self.mode == "always" or self._calls % _EVERY == 0
        self._calls += 1
        given = thetas.copy()
        with self._typed(thetas):
            best = self.oracle.argmax(given)
        check_form(self.oracle, thetas, best)
        if in_full:
            if not np.array_equal(given, thetas):
                raise OracleError(f"{self._name} changed theta in place; work on a copy", thetas.copy())
            self._check_feasible(best, thetas)
            if len(thetas):
                self._check_value(best, thetas)
                self._check_repetition(best, thetas)
        return best

    @contextmanager
    def _typed(self, thetas: Array) -> Iterator[None]:
        """Whatever the oracle raises becomes an `OracleError` that keeps the theta."""
        try:
            yield
        except Exception as cause:
            hint = "; it writes into theta, work on a copy" if "read-only" in str(cause) else ""
            outside = "returned a z outside Z, " if isinstance(cause, AnswerError) else ""
            raise OracleError(
                f"{self._name} {outside}raised {type(cause).__name__}: {cause}{hint} (theta is kept in .theta)",
                thetas.copy(),
            ) from cause

    def _check_feasible(self, best: Array, thetas: Array) -> None:
        for z, theta in zip(best, thetas, strict=True):
            with self._typed(theta):
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
        with self._typed(thetas):
            again = self.oracle.argmax(thetas.copy())
        check_form(self.oracle, thetas, again)
        if np.shares_memory(best, again):
            raise OracleError(
                f"{self._name} returned the same memory twice, so that a later call changes earlier answers; return a "
                "fresh array, not a buffer",
                thetas.copy(),
            )
        differ = worse(self.oracle, kept, again, thetas) | worse(self.oracle, again, kept, thetas)
        if differ.any():
            row = int(differ.argmax())
            raise OracleError(
                f"{self._name} gave two answers of different value for one theta ({kept[row] @ thetas[row]:.12g} and "
                f"{again[row] @ thetas[row]:.12g}): does it keep state between calls?",
                thetas[row].copy(),
            )

    @property
    def _name(self) -> str:
        return type(self.oracle).__name__

    def _membership_batch(self, z: Array, thetas: Array) -> NDArray[np.bool_]:
        with self._typed(thetas):
            return np.atleast_1d(self.oracle.membership(z, thetas.copy()))

    def decode(self, z: ArrayLike) -> Any:
        """As the wrapped oracle does."""
        return self.oracle.decode(z)

    def encode(self, answer: Any) -> Array:
        """As the wrapped oracle does."""
        return self.oracle.encode(answer)

    def index(self, label: Hashable) -> int:
        """As the wrapped oracle does."""
        return self.oracle.index(label)

    def facets(self, z: ArrayLike) -> csr_array | None:
        """As the wrapped oracle does."""
        return self.oracle.facets(z)

    def few_facets(self, z: ArrayLike, most: int) -> csr_array | None:
        """As the wrapped oracle does."""
        return self.oracle.few_facets(z, most)

    def confusions(self, *, whole: bool = False) -> Confusions | None:
        """As the wrapped oracle does."""
        return self.oracle.confusions(whole=whole)

    def equalities(self) -> csr_array | None:
        """As the wrapped oracle does."""
        return self.oracle.equalities()

    @property
    def facet_count(self) -> int | None:
        """As the wrapped oracle does."""
        return self.oracle.facet_count

    @property
    def log_cardinality(self) -> LogCardinality | None:
        """As the wrapped oracle does."""
        return self.oracle.log_cardinality

"""Oracle of the bases, or of all independent sets, of a matroid given by an independence test."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.errors import AnswerError, OracleError, ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array, Confusions, LogCardinality, Sparse, as_sparse
from combopeps.oracles.exchanges import log_choices, neighbour_count, swap_confusions
from combopeps.oracles.input_checks import as_vector, count_or_labels, series_index
from combopeps.utils.formatting import short_repr
from combopeps.utils.validation import check_choice

_MAX_FACETS = 1024  # listed by `facets`; each takes one test of independence


class MatroidOracle(ArgmaxOracle):
    """Oracle of the bases of a matroid, by the greedy algorithm; on ties the earlier component wins.

        Z = {indicator of B : B independent, and no proper superset of B is}      (the bases)

    Greedy adds components by decreasing theta as long as the set stays independent. It is exact if and only if the
    independent sets are a matroid: the empty set is independent; subsets of independent sets are independent; and of
    two independent sets the larger one has a component that can be added to the smaller. `check_oracle` searches for
    violations of these axioms. Matchings and knapsacks are not matroids.

    An answer takes up to d calls of the Python function `independent`: `TopKOracle` and `PartitionOracle`, which are
    compiled, are much faster on their sets.

    Parameters
    ----------
    components
        The number of components (labelled 0 .. d-1), or their labels.
    independent
        Function of a list of distinct labels, in the order of `components`, that returns True if they are independent,
        else False. It must be deterministic. It is also called for single components: one that is not independent is in
        no answer.
    bases
        If True, Z are the maximal independent sets, all of the same size, the `rank`. If False, Z are all independent
        sets, and only components of positive value are chosen.
    objective
        "max" for values; "min" for costs: z is then minus the indicator, so that z @ theta is minus the total cost.

    Examples
    --------
    The best two sensors whose readings determine those of all others:

    >>> readings = {"in": (1, 0), "out": (0, 1), "net": (1, -1), "twice net": (2, -2)}
    >>> def independent(sensors):
    ...     return np.linalg.matrix_rank([readings[s] for s in sensors] or [[0]]) == len(sensors)
    >>> oracle = MatroidOracle(readings, independent)
    >>> oracle.rank
    2
    >>> sorted(oracle.decode(oracle.argmax([0.1, 0.4, 0.7, 0.9])))
    ['out', 'twice net']
    """

    binary = True

    def __init__(
        self,
        components: int | Iterable[Hashable],
        independent: Callable[[list[Any]], bool],
        *,
        bases: bool = True,
        objective: Literal["max", "min"] = "max",
    ) -> None:
        super().__init__(count_or_labels(series_index(components, "components"), "components"))
        if not callable(independent):
            raise ParameterError(f"independent must be a function of a list of labels, got {independent!r}")
        if not isinstance(bases, bool):
            raise ParameterError(f"bases must be True or False (all independent sets), got {bases!r}")
        check_choice("objective", objective, ("min", "max"))
        self.independent, self.bases = independent, bases
        self.antichain = self.exchanges = bases
        self.unit = 1.0 if objective == "max" else -1.0
        self._last_facets: tuple[bytes, Sparse] | None = None  # the last z and its facets, which callers ask for again
        if not self.is_independent([]):
            raise OracleError("independent([]) is False: the empty set is independent in every matroid")
        self._usable = [i for i in range(self.dim) if self.is_independent([i])]
        if not self._usable:
            raise ParameterError("no component is independent, not even alone: there is nothing to choose")
        self.rank = len(self._usable)
        self.rank = len(self._greedy(np.full(self.dim, self.unit)))
        self._size, self._quota = np.array([len(self._usable)]), np.array([self.rank])
        self._max_neighbours = neighbour_count(self._size, self._quota, exactly=bases)

    def __repr__(self) -> str:
        return f"MatroidOracle({'bases' if self.bases else 'independent sets'}, rank {self.rank} of {self.dim})"

    def _summary(self) -> Mapping[str, Any]:
        return {**super()._summary(), "rank": self.rank, "answers": "bases" if self.bases else "independent sets"}

    def is_independent(self, chosen: list[int]) -> bool:
        """Call the test for component indices in ascending order; its failures raise `OracleError`."""
        try:
            result = self.independent([self._components[i] for i in chosen])
        except Exception as cause:
            raise OracleError(
                f"independent({self.name(chosen)}) raised {type(cause).__name__}: {cause}; every list of different "
                "components must get True or False"
            ) from cause
        if not isinstance(result, (bool, np.bool_)):
            raise OracleError(f"independent({self.name(chosen)}) returned {short_repr(result)}; return True or False")
        return bool(result)

    def name(self, chosen: Iterable[int]) -> str:
        """Format the labels of components for messages."""
        return short_repr([self._components[i] for i in chosen])

    def _greedy(self, theta: Array) -> list[int]:
        """Return the indices of a best base (or independent set)."""
        values = self.unit * theta
        usable = np.array(self._usable)
        chosen: list[int] = []
        for i in usable[np.argsort(-values[usable], kind="stable")].tolist():
            if len(chosen) == self.rank or (not self.bases and values[i] <= 0.0):
                break
            larger = _insert(chosen, i)
            if self.is_independent(larger):
                chosen = larger
        return chosen

    def _argmax_batch(self, thetas: Array) -> Array:
        best = np.zeros(thetas.shape)
        for z, theta in zip(best, thetas, strict=True):
            z[self._greedy(theta)] = self.unit
        return best

    def _membership_batch(self, z: Array, thetas: Array) -> NDArray[np.bool_]:
        """Test by the facets of z if they are cached or take fewer independence tests than the argmax."""
        is_cached = self._last_facets is not None and self._last_facets[0] == z.tobytes()
        rows = self.facets(z) if is_cached or self._max_neighbours <= len(thetas) * self.dim else None
        if rows is None:
            return super()._membership_batch(z, thetas)
        gains = rows @ thetas.T
        return np.asarray(~(gains > 1e-13 * (abs(rows) @ np.abs(thetas.T))).any(axis=0))

    def decode(self, z: ArrayLike) -> set[Hashable]:
        """Return the set of chosen components."""
        chosen: set[Hashable] = super().decode(z)
        if self.bases and len(chosen) != self.rank:
            raise AnswerError(f"an answer holds {self.rank} components, the rank of the matroid, got {len(chosen)}")
        numbers = sorted(self.index(label) for label in chosen)
        if not self.is_independent(numbers):
            raise AnswerError(f"{self.name(numbers)} is not independent")
        return chosen

    def encode(self, answer: Any) -> Array:
        """Return the vector of a collection of components."""
        z = super().encode(answer)
        self.decode(z)
        return z

    def facets(self, z: ArrayLike) -> Sparse | None:
        """Return the swaps that keep z independent; None if they may be more than 1,024.

        Complete by the exchange property. With `bases=False`: removals; additions; and swaps for components that cannot
        be added.
        """
        return self.facets_up_to(z, _MAX_FACETS)

    def facets_up_to(self, z: ArrayLike, most: int) -> Sparse | None:
        """Return the facets at z, or None if an answer may have more than `most`."""
        if self._max_neighbours > most:
            return None
        vector = as_vector(z, self.dim)
        cached = self._last_facets
        if cached is None or cached[0] != vector.tobytes():
            self.decode(vector)
            cached = self._last_facets = vector.tobytes(), self._neighbours(np.flatnonzero(vector).tolist())
        return cached[1].copy()

    def _neighbours(self, inside: list[int]) -> Sparse:
        """Return the differences to all neighbours of an answer, by one independence test each."""
        from scipy.sparse import csr_array

        found: list[tuple[int, float]] = []  # components and entries of all rows
        ends = [0]

        def add(*entries: tuple[int, float]) -> None:
            found.extend(entries)
            ends.append(len(found))

        if not self.bases:
            for f in inside:
                add((f, -self.unit))
        for e in sorted(set(self._usable).difference(inside)):
            if not self.bases and self.is_independent(_insert(inside, e)):
                add((e, self.unit))
                continue
            for f in inside:
                if self.is_independent(_insert([i for i in inside if i != f], e)):
                    add(*sorted([(f, -self.unit), (e, self.unit)]))
        columns = np.array([i for i, _ in found], dtype=np.int32)
        data = np.array([value for _, value in found], dtype=np.float64)
        return csr_array((data, columns, np.array(ends, dtype=np.int32)), shape=(len(ends) - 1, self.dim))

    @property
    def facet_count(self) -> int | None:
        """rank (d - rank), or rank (d - rank + 1) with `bases=False`; None if that is more than 1,024."""
        return self._max_neighbours if self._max_neighbours <= _MAX_FACETS else None

    @property
    def log_cardinality(self) -> LogCardinality:
        """Upper bound ln C(d, rank), or ln sum_{i <= rank} C(d, i) with `bases=False`."""
        n = len(self._usable)
        return LogCardinality(log_choices(n, self.rank, exactly=self.bases), exact=self.rank == n)

    def confusions(self, *, whole: bool = False) -> Confusions:
        """Count the neighbours of the best answer: rank (d - rank) swaps of a component for another.

        By the symmetric exchange property of bases, for every wrong component a there is a missing b such that the
        answer with b for a and the best one with a for b are both bases: so theta_b >= theta_a. With `bases=False`:
        removing a suffices if a could be added to the best answer (theta_a <= 0); a missing b that can be added has
        theta_b >= 0; otherwise both sets are bases of the span of the best answer.
        """
        return swap_confusions(self._size, self._quota, self.dim, self.log_cardinality, exactly=self.bases, whole=whole)

    def equalities(self) -> Sparse | None:
        """Return components that are in no answer (loops of the matroid) and, for bases, the row of ones."""
        loops = np.setdiff1d(np.arange(self.dim), self._usable)
        rows = np.zeros((len(loops) + self.bases, self.dim))
        rows[np.arange(len(loops)), loops] = 1.0
        rows[len(loops) :] = 1.0
        return as_sparse(rows) if len(rows) else None


def _insert(chosen: list[int], i: int) -> list[int]:
    """Return a copy of an ascending list with one more entry."""
    at = bisect(chosen, i)
    return [*chosen[:at], i, *chosen[at:]]

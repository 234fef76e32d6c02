"""Z = the bases of a matroid that somebody else's test of independence defines."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.errors import AnswerError, OracleError, ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array, Confusions, LogCardinality, Sparse, as_sparse
from combopeps.oracles.confusions import log_choices, neighbour_count, swap_confusions
from combopeps.oracles.input_checks import as_vector, count_or_labels, index_of_series
from combopeps.utils.formatting import short_repr
from combopeps.utils.validation import check_choice

_AFFORDABLE = 1024  # tests of independence, for the list of all facets of an answer


class MatroidOracle(ArgmaxOracle):
    """Greedy: the largest theta that leaves the set independent, again and again; earlier components win ties.

        Z = {indicator of B : B independent, and no larger set that contains B is}      (the bases)

    Greedy is exact if and only if the independent sets are a matroid: the empty set is one; subsets of independent sets
    are independent; and of two independent sets the larger one has a component that can be added to the smaller.
    `check_oracle` looks for sets that break this, and names them. Matchings and knapsacks are no matroids.

    An answer takes up to d tests of independence, in Python: `TopKOracle` and `PartitionOracle`, which are compiled,
    are faster by far on sets that they know.

    Parameters
    ----------
    components
        The number of components (labelled 0 .. d-1), or their labels.
    independent
        The test: a list of labels, all different and in the order of `components`, to True or False. The same list must
        always get the same result. Test single components too: one that is not independent is in no answer.
    bases
        Choose among maximal independent sets, all of which are of one size, the `rank`. If False, among all independent
        sets: a component is then taken only if it is worth more than nothing.
    objective
        "max" for values; "min" for costs: z is then minus the indicator, so that z @ theta is minus the total cost.

    Examples
    --------
    Two sensors from whose readings all others follow:

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
        super().__init__(count_or_labels(index_of_series(components, "components"), "components"))
        if not callable(independent):
            raise ParameterError(f"independent must be a function of a list of labels, got {independent!r}")
        if not isinstance(bases, bool):
            raise ParameterError(f"bases must be True or False (all independent sets), got {bases!r}")
        check_choice("objective", objective, ("min", "max"))
        self.independent, self.bases, self.objective = independent, bases, objective
        self.antichain = self.exchanges = bases
        self.unit = 1.0 if objective == "max" else -1.0
        self._last: tuple[bytes, Sparse] | None = None  # facets of the last answer asked for: looks come back to it
        if not self.is_independent([]):
            raise OracleError("independent([]) is False: the empty set is independent in every matroid")
        self._usable = [i for i in range(self.dim) if self.is_independent([i])]
        if not self._usable:
            raise ParameterError("no component is independent, not even alone: there is nothing to choose")
        self.rank = len(self._usable)
        self.rank = len(self._greedy(np.full(self.dim, self.unit)))
        self._size, self._quota = np.array([len(self._usable)]), np.array([self.rank])
        self._most = neighbour_count(self._size, self._quota, exactly=bases)

    def __repr__(self) -> str:
        return f"MatroidOracle({'bases' if self.bases else 'independent sets'}, rank {self.rank} of {self.dim})"

    def is_independent(self, chosen: list[int]) -> bool:
        """Ask the test about the components with these numbers, in ascending order; whatever it does is typed."""
        try:
            said = self.independent([self._components[i] for i in chosen])
        except Exception as cause:
            raise OracleError(
                f"independent({self.name(chosen)}) raised {type(cause).__name__}: {cause}; every list of different "
                "components must get True or False"
            ) from cause
        if not isinstance(said, (bool, np.bool_)):
            raise OracleError(f"independent({self.name(chosen)}) returned {short_repr(said)}; return True or False")
        return bool(said)

    def name(self, chosen: Iterable[int]) -> str:
        """Components by number, in words."""
        return short_repr([self._components[i] for i in chosen])

    def _greedy(self, theta: Array) -> list[int]:
        worth = self.unit * theta
        chosen: list[int] = []
        for i in self._usable_by(worth):
            if len(chosen) == self.rank or (not self.bases and worth[i] <= 0.0):
                break
            larger = _with(chosen, i)
            if self.is_independent(larger):
                chosen = larger
        return chosen

    def _usable_by(self, worth: Array) -> list[int]:
        usable = np.array(self._usable)
        order: list[int] = usable[np.argsort(-worth[usable], kind="stable")].tolist()
        return order

    def _argmax_batch(self, thetas: Array) -> Array:
        best = np.zeros(thetas.shape)
        for z, theta in zip(best, thetas, strict=True):
            z[self._greedy(theta)] = self.unit
        return best

    def _membership_batch(self, z: Array, thetas: Array) -> NDArray[np.bool_]:
        """By the facets of z, where they are known already or need fewer tests than the answers."""
        known = self._last is not None and self._last[0] == z.tobytes()
        rows = self.facets(z) if known or self._most <= len(thetas) * self.dim else None
        if rows is None:
            return super()._membership_batch(z, thetas)
        gains = rows @ thetas.T
        return np.asarray(~(gains > 1e-13 * (abs(rows) @ np.abs(thetas.T))).any(axis=0))

    def decode(self, z: ArrayLike) -> set[Hashable]:
        """The set of chosen components."""
        chosen: set[Hashable] = super().decode(z)
        if self.bases and len(chosen) != self.rank:
            raise AnswerError(f"an answer holds {self.rank} components, the rank of the matroid, got {len(chosen)}")
        numbers = sorted(self.index(label) for label in chosen)
        if not self.is_independent(numbers):
            raise AnswerError(f"{self.name(numbers)} is not independent")
        return chosen

    def encode(self, answer: Any) -> Array:
        """The vector of a collection of components."""
        z = super().encode(answer)
        self.decode(z)
        return z

    def facets(self, z: ArrayLike) -> Sparse | None:
        """The swaps that leave z independent, where they take few tests to find.

        Complete by the exchange property. Among all independent sets: all removals; additions; and swaps for components
        that cannot be added.
        """
        return self.facets_up_to(z, _AFFORDABLE)

    def facets_up_to(self, z: ArrayLike, most: int) -> Sparse | None:
        """The same, where they are at most `most` in every answer."""
        if self._most > most:
            return None
        vector = as_vector(z, self.dim)
        last = self._last
        if last is None or last[0] != vector.tobytes():
            self.decode(vector)
            last = self._last = vector.tobytes(), self._neighbours(np.flatnonzero(vector).tolist())
        return last[1].copy()

    def _neighbours(self, inside: list[int]) -> Sparse:
        from scipy.sparse import csr_array

        found: list[tuple[int, float]] = []  # component and entry
        ends = [0]

        def add(*entries: tuple[int, float]) -> None:
            found.extend(entries)
            ends.append(len(found))

        if not self.bases:
            for f in inside:
                add((f, -self.unit))
        for e in sorted(set(self._usable).difference(inside)):
            if not self.bases and self.is_independent(_with(inside, e)):
                add((e, self.unit))
                continue
            for f in inside:
                if self.is_independent(_with([i for i in inside if i != f], e)):
                    add(*sorted([(f, -self.unit), (e, self.unit)]))
        columns = np.array([i for i, _ in found], dtype=np.int32)
        data = np.array([value for _, value in found], dtype=np.float64)
        return csr_array((data, columns, np.array(ends, dtype=np.int32)), shape=(len(ends) - 1, self.dim))

    @property
    def facet_count(self) -> int | None:
        """At most rank (d - rank), or rank (d - rank + 1) among all independent sets; None where that is too many."""
        return self._most if self._most <= _AFFORDABLE else None

    @property
    def log_cardinality(self) -> LogCardinality:
        """ln C(d, rank), or ln sum_{i <= rank} C(d, i): an upper bound."""
        n = len(self._usable)
        return LogCardinality(log_choices(n, self.rank, exactly=self.bases), exact=self.rank == n)

    def confusions(self, *, whole: bool = False) -> Confusions:
        """One pair across the true boundary: rank (d - rank) of them.

        By the symmetric exchange property of bases, for every wrong component a there is a missing b such that the
        answer with b for a and the best one with a for b are both bases: so theta_b >= theta_a. Among all independent
        sets: leaving a out is enough if the best answer has room for it (theta_a <= 0), and a missing b that can be
        added has theta_b >= 0; otherwise both are bases of the span of the best answer. As many mistakes as neighbours.
        """
        return swap_confusions(self._size, self._quota, self.dim, self.log_cardinality, exactly=self.bases, whole=whole)

    def equalities(self) -> Sparse | None:
        """All bases have `rank` components; one that is not independent alone is in no answer."""
        useless = np.setdiff1d(np.arange(self.dim), self._usable)
        rows = np.zeros((len(useless) + self.bases, self.dim))
        rows[np.arange(len(useless)), useless] = 1.0
        rows[len(useless) :] = 1.0
        return as_sparse(rows) if len(rows) else None


def _with(chosen: list[int], i: int) -> list[int]:
    """In ascending order."""
    at = bisect(chosen, i)
    return [*chosen[:at], i, *chosen[at:]]

"""Z = the integer points of a polytope."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from combopeps.errors import AnswerError
from combopeps.oracles._validate import (
    TIME_LIMIT,
    as_seconds,
    as_vector,
    count_or_labels,
    index_of_series,
    refuse_one_answer,
)
from combopeps.oracles.base import ArgmaxOracle, Array, LogCardinality, Sparse
from combopeps.oracles.explicit import ExplicitOracle
from combopeps.validation import check_choice, check_real

_LISTED = 4096  # points within the bounds; a batch of 64 questions then takes less than one solve


class MilpOracle(ArgmaxOracle):
    """The best integers under linear constraints, from a list or by HiGHS through `scipy.optimize.milp`.

        Z = {z integer : lower <= A z <= upper, low <= z <= high}

    Where at most 4,096 points are within the bounds (12 variables of yes or no), those that meet all rows are listed
    once: questions then take microseconds, and all neighbours of an answer are known. Other sets are left to HiGHS, at
    milliseconds for a question. Every answer of it is rounded and held against all rows and the solver's own bound
    before it is returned: what is not feasible, or not proved best, is a `SolverError`. A row counts as met within 1e-9
    of its largest coefficient.

    Parameters
    ----------
    components
        The number of variables (labelled 0 .. d-1), or their labels.
    A
        The constraints, (m, d): an array, a SciPy sparse matrix, or a pandas table with a column for each component.
    lower, upper
        Ends of the rows, numbers or (m,); -inf and inf where a row has one end only.
    bounds
        Least and largest value of the variables, numbers or (d,) each: (0, 1) for yes or no. Infinite ones are replaced
        by what the rows allow; where they allow everything, the set is refused.
    objective
        "max" for rewards, "min" for costs: then z is minus the vector of integers.
    gap
        By how much an answer may fall short of the best, relative to its value; it goes into `resolution`.
    time_limit
        Seconds for one solve, beyond which it is a `SolverError`; None for no limit.
    engine
        "auto", or "highs": no list, whatever the size.

    Examples
    --------
    Two courses at most, and no dessert without a main dish:

    >>> oracle = MilpOracle(["soup", "main", "dessert"], [[1, 1, 1], [0, -1, 1]], -np.inf, [2, 0])
    >>> sorted(oracle.decode(oracle.argmax([2.0, 1.0, 3.0])))
    ['dessert', 'main']
    >>> MilpOracle(["small", "large"], [[1, 4]], 0, 9, bounds=(0, 5)).argmax([1.0, 3.0])
    array([5., 1.])
    """

    side_by_side = "threads"

    def __init__(
        self,
        components: int | Iterable[Hashable],
        A: Any,
        lower: ArrayLike,
        upper: ArrayLike,
        *,
        bounds: tuple[ArrayLike, ArrayLike] = (0, 1),
        objective: Literal["max", "min"] = "max",
        gap: float = 0.0,
        time_limit: float | None = TIME_LIMIT,
        engine: Literal["auto", "highs"] = "auto",
    ) -> None:
        from combopeps.oracles._program import TOLERANCE, as_program, bounded, has_one_point, refuse_infeasible

        check_choice("objective", objective, ("max", "min"))
        check_choice("engine", engine, ("auto", "highs"))
        check_real("gap", gap, 0.0, np.nextafter(1.0, 0.0), "a number in [0, 1)")
        self.objective, self.gap, self.time_limit = objective, float(gap), as_seconds(time_limit)
        self._asked_engine = engine
        super().__init__(count_or_labels(index_of_series(components, "components"), "components"))
        program = as_program(A, lower, upper, bounds, self._components)
        some = refuse_infeasible(program, self.time_limit)
        self._program = bounded(program, self._components, self.time_limit)
        self.binary = bool((self._program.low >= 0.0).all() and (self._program.high <= 1.0).all())
        self.unit = 1.0 if objective == "max" else -1.0
        self.antichain = self.binary and self._weighs_everything()
        self._listed: ExplicitOracle | None = None
        points = self._program.points(_LISTED) if engine == "auto" else None
        if points is not None:
            refuse_one_answer(self._components, some, points[-1] if np.array_equal(points[0], some) else points[0])
            self._listed = ExplicitOracle(self.unit * points, components=self._components)
            self.quick = True
            return
        self.expensive = True
        self.resolution = (self.gap + TOLERANCE) * float(self._program.largest.max())
        if self.binary:
            farthest = self._program.best(2.0 * some - 1.0, 0.0, self.time_limit)
            refuse_one_answer(self._components, some, farthest)
        elif has_one_point(self._program, some, self.time_limit):
            refuse_one_answer(self._components, some, some)

    def __repr__(self) -> str:
        return f"MilpOracle(d={self.dim}, rows={self._program.A.shape[0]}, {self.objective}, engine={self.engine})"

    @property
    def engine(self) -> str:
        """Where answers come from: "list" or "highs"."""
        return "highs" if self._listed is None else "list"

    def _argmax_batch(self, thetas: Array) -> Array:
        if self._listed is not None:
            return self._listed._argmax_batch(thetas)
        best = np.empty(thetas.shape)
        for z, theta in zip(best, thetas, strict=True):
            z[...] = self._program.best(-self.unit * theta, self.gap, self.time_limit)
        return self.unit * best + 0.0

    def decode(self, z: ArrayLike) -> Any:
        """The set of chosen components; a dict component -> integer where values other than 0 and 1 are allowed."""
        vector = as_vector(z, self.dim)
        answer: Any = super().decode(vector) if self.binary else None
        x = self.unit * vector + 0.0
        broken = "an integer" if (x != np.rint(x)).any() else self._program.broken_row(x)
        if broken is not None:
            raise AnswerError(f"z is not an answer: it does not keep to {broken}")
        return answer if self.binary else dict(zip(self._components, map(int, x), strict=True))

    def encode(self, answer: Any) -> Array:
        """The vector of a set of components, or of a dict component -> integer."""
        if self.binary:
            z = super().encode(answer)
        elif isinstance(answer, Mapping):
            z = np.zeros(self.dim)
            for label, value in answer.items():
                z[self.index(label)] = self.unit * value
        else:
            raise AnswerError(f"an answer of this program is a dict component -> integer, got {answer!r}")
        self.decode(z)
        return z

    def facets(self, z: ArrayLike) -> Sparse | None:
        """All other answers minus z, where there is a list of them."""
        return None if self._listed is None else self._listed.facets(z)

    @property
    def facet_count(self) -> int | None:
        """All answers but one, where there is a list of them."""
        return None if self._listed is None else self._listed.facet_count

    @property
    def log_cardinality(self) -> LogCardinality:
        """Exact where there is a list; otherwise the number of integer points within the bounds, an upper bound."""
        if self._listed is not None:
            return self._listed.log_cardinality
        return LogCardinality(float(np.log(self._program.high - self._program.low + 1.0).sum()), exact=False)

    def equalities(self) -> Sparse | None:
        """Rows of A whose two ends are the same."""
        same = np.flatnonzero(self._program.lower == self._program.upper)
        return self._program.A[same] if len(same) else None

    def _weighs_everything(self) -> bool:
        """Do equalities with coefficients of one sign hold every component? Then no answer contains another one."""
        rows = self.equalities()
        if rows is None:
            return False
        one_sign = np.flatnonzero(np.abs(rows.sum(axis=1)) == abs(rows).sum(axis=1))
        return bool((abs(rows[one_sign]).sum(axis=0) > 0.0).all())

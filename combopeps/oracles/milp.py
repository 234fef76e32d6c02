"""Z = the integer points of a polytope.

An integer program, checked and scaled once, and one solve of it by HiGHS.

    minimise c @ x   over   {x integer : lower <= A x <= upper, low <= x <= high}

HiGHS compares with absolute tolerances of 1e-6 and 1e-7. Rows are therefore brought to one size, and so is c in every
solve, by powers of two, which change no digit.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.errors import AnswerError, ProgramError, SolverError
from combopeps.oracles.base import ArgmaxOracle, Array, LogCardinality, Sparse
from combopeps.oracles.explicit import ExplicitOracle
from combopeps.oracles.input_checks import (
    TIME_LIMIT,
    as_seconds,
    as_vector,
    count_or_labels,
    in_order_of,
    index_of_series,
    refuse_one_answer,
)
from combopeps.utils.formatting import short_repr
from combopeps.utils.validation import as_float_array, check_choice, check_real

if TYPE_CHECKING:
    from scipy.sparse import csr_array

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

    parallel_backend = "threads"

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
        pass

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


_ROW_BITS = 11  # the largest entry of a row is in [2^10, 2^11): 1e-6 is 1e-9 of it
_COST_BITS = 21  # the largest cost is in [2^20, 2^21): 1e-6 is 1e-12 of it
TOLERANCE = 1e-11  # what HiGHS may miss of a sum of |c x|, ten times its absolute gap
_ROW_TOLERANCE = 2e-6  # of a scaled row
_LARGEST = 1e9  # an integer of this size still has all its digits beside a tolerance of 1e-6
_EXAMINED = 64  # rows among which those that contradict each other are looked for
_OPTIMAL, _TIME_OVER, _INFEASIBLE = 0, 1, 2  # status of scipy.optimize.milp


@dataclass(frozen=True)
class Program:
    """Rows `lower <= A x <= upper`, scaled to one size, and the range of every variable."""

    A: csr_array
    lower: Array
    upper: Array
    low: Array
    high: Array
    exponents: NDArray[np.int64]  # rows are those that were stated, times two to the power of this

    @property
    def stated(self) -> tuple[csr_array, Array, Array]:
        """The rows and their ends as they were given."""
        A = self.A.copy()
        A.data = np.ldexp(A.data, -np.repeat(self.exponents, np.diff(A.indptr)))
        return A, np.ldexp(self.lower, -self.exponents), np.ldexp(self.upper, -self.exponents)

    def solve(self, cost: Array, *, gap: float = 0.0, time_limit: float = inf, relaxed: bool = False) -> Any:
        """SciPy's answer to one program, for costs of any size; the value is in units of the scaled cost.

        A model that is kept by highspy, with new costs in every call, was measured to be 1.0 to 1.3 times as fast as
        this (12 to 60 variables, 3 to 5 rows): not enough for a second engine.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp

        rows = LinearConstraint(self.A, self.lower, self.upper) if self.A.shape[0] else ()
        options: Any = {"mip_rel_gap": gap}
        if time_limit < inf:
            options["time_limit"] = time_limit
        integrality = np.full(len(cost), 0 if relaxed else 1)
        return milp(
            cost, integrality=integrality, bounds=Bounds(self.low, self.high), constraints=rows, options=options
        )

    def best(self, cost: Array, gap: float, time_limit: float) -> Array:
        """The integers that minimise c @ x; `SolverError` unless they are feasible, and as good as HiGHS promises."""
        scaled = unit_sized(cost)
        found = self.solve(scaled, gap=gap, time_limit=time_limit)
        if found.status == _TIME_OVER:
            raise _out_of_time(time_limit, cost)
        if found.status != _OPTIMAL or found.x is None:
            raise SolverError(f"HiGHS failed on a program that has answers: {found.message}", cost)
        x: Array = np.rint(found.x) + 0.0
        row = self.broken_row(x)
        if row is not None:
            raise SolverError(
                f"{row} is not met by HiGHS's answer after rounding: its coefficients are too far apart; "
                "use smaller constants, or split it",
                cost,
            )
        short = float(scaled @ x) - float(found.mip_dual_bound)
        sizes = np.multiply(np.abs(scaled), self.largest, out=np.zeros(len(x)), where=scaled != 0.0)
        if not short <= (gap + TOLERANCE) * sizes.sum():
            raise SolverError(f"HiGHS's answer may be {short:.3g} from the best, beyond the gap it was allowed", cost)
        return x

    @property
    def largest(self) -> Array:
        """The largest |x| of every variable, at least 1."""
        return np.maximum(np.maximum(np.abs(self.low), np.abs(self.high)), 1.0)

    def broken_row(self, x: Array) -> str | None:
        """What integers x do not keep to, or None."""
        outside = np.flatnonzero((x < self.low) | (x > self.high))
        if len(outside):
            return f"the range of variable {outside[0]}"
        broken = np.flatnonzero(self._missed(x[:, None]).any(axis=1))
        return f"row {broken[0]} of A" if len(broken) else None

    def _missed(self, columns: Array) -> NDArray[np.bool_]:
        """Rows of A by columns x: which are not met?"""
        sums, sizes = self.A @ columns, abs(self.A) @ np.abs(columns)
        beyond = np.maximum(self.lower[:, None] - sums, sums - self.upper[:, None])
        return np.asarray(beyond > _ROW_TOLERANCE + 1e-12 * sizes)

    def points(self, most: int) -> Array | None:
        """All of the set, (n, d); None where more than so many integer points are within the bounds."""
        if np.log(self.high - self.low + 1.0).sum() > np.log(most) + 1e-9:
            return None
        ranges = [range(int(low), int(high) + 1) for low, high in zip(self.low, self.high, strict=True)]
        every = np.array(list(product(*ranges)), dtype=np.float64)
        return every[~self._missed(every.T).any(axis=0)]

    def with_rows(self, rows: Sequence[int]) -> Program:
        """Some of the rows only."""
        kept = list(rows)
        return replace(
            self, A=self.A[kept], lower=self.lower[kept], upper=self.upper[kept], exponents=self.exponents[kept]
        )


def unit_sized(values: Array, bits: int = _COST_BITS) -> Array:
    """Times the power of two that brings the largest entry of every row into [2^(bits - 1), 2^bits)."""
    _, exponent = np.frexp(np.abs(values).max(axis=-1, initial=0.0, keepdims=True))
    return np.asarray(np.ldexp(values, bits - exponent))


def as_program(A: Any, lower: ArrayLike, upper: ArrayLike, bounds: Any, components: tuple[Hashable, ...]) -> Program:
    """Rows and ranges as arrays; `ProgramError` for what is malformed, naming the row or the component."""
    matrix = _as_matrix(in_order_of(A, components, "the columns of A"), components)
    rows, d = matrix.shape
    if isinstance(bounds, tuple):
        bounds = tuple(in_order_of(end, components, "bounds") for end in bounds)
    if hasattr(A, "iloc"):
        lower, upper = (in_order_of(end, tuple(A.index), "lower and upper") for end in (lower, upper))
    low, high = _as_ends("bounds", bounds, d, [f"component {c!r}" for c in components])
    low, high = np.ceil(low) + 0.0, np.floor(high) + 0.0
    empty = np.flatnonzero(low > high)
    if len(empty):
        raise ProgramError(f"component {components[empty[0]]!r} has no integer between its bounds")
    lower, upper = _as_ends("lower and upper", (lower, upper), rows, [f"row {i} of A" for i in range(rows)])
    exponents = np.zeros(rows, dtype=np.int64)
    for row in range(rows):
        entries = matrix.data[matrix.indptr[row] : matrix.indptr[row + 1]]
        exponents[row] = _ROW_BITS - np.frexp(np.abs(entries).max(initial=0.0))[1]
        entries[...] = np.ldexp(entries, exponents[row])
    return Program(matrix, np.ldexp(lower, exponents), np.ldexp(upper, exponents), low, high, exponents)


def _as_matrix(A: Any, components: tuple[Hashable, ...]) -> csr_array:
    from scipy.sparse import csr_array, issparse

    try:
        matrix: Any = A if issparse(A) else np.asarray(A)
    except ValueError as cause:
        raise ProgramError(f"A is not a rectangular matrix: {cause}") from None
    if matrix.ndim != 2 or matrix.shape[1] != len(components):
        raise ProgramError(
            f"A must have one column for each of the {len(components)} components, got shape {matrix.shape}"
        )
    if matrix.dtype.kind not in "biuf":
        raise ProgramError(f"A must hold real numbers, got dtype {matrix.dtype}")
    rows: Any = csr_array(matrix, dtype=np.float64, copy=True)
    rows.sum_duplicates()
    wild = np.flatnonzero(~(np.abs(rows.data) < 1e150))
    if len(wild):
        row = int(np.searchsorted(rows.indptr, wild[0], side="right")) - 1
        culprit = components[rows.indices[wild[0]]]
        raise ProgramError(f"row {row} of A is {rows.data[wild[0]]} at component {culprit!r}; every entry is finite")
    rows.eliminate_zeros()
    return cast("csr_array", rows)


def _as_ends(what: str, ends: Any, size: int, names: list[str]) -> tuple[Array, Array]:
    """Two arrays of this size, the lower ends below the upper ones; infinite only away from each other."""
    try:
        low, high = (np.array(np.broadcast_to(as_float_array(what, end, ProgramError), size)) for end in ends)
    except (TypeError, ValueError):
        raise ProgramError(
            f"{what} must be two numbers, or two arrays of length {size}; got {short_repr(ends)}"
        ) from None
    wrong = np.flatnonzero(~((low <= high) & (low < inf) & (high > -inf)))
    if len(wrong):
        i = wrong[0]
        raise ProgramError(f"{names[i]} is to be between {low[i]:g} and {high[i]:g}: nothing is; check {what}")
    return low, high


def refuse_infeasible(program: Program, time_limit: float) -> Array:
    """Some integers that keep to all rows; `ProgramError` naming rows that cannot be met together."""
    rising, falling = program.A.maximum(0.0), program.A.minimum(0.0)
    rising.eliminate_zeros()  # 0 times an infinite bound is no number
    falling.eliminate_zeros()
    least = rising @ program.low + falling @ program.high
    most = rising @ program.high + falling @ program.low
    hopeless = np.flatnonzero((least > program.upper + _ROW_TOLERANCE) | (most < program.lower - _ROW_TOLERANCE))
    if len(hopeless):
        raise ProgramError(f"row {hopeless[0]} of A cannot be met by any values within the bounds; loosen it")
    nothing = np.zeros(len(program.low))
    found = program.solve(nothing, time_limit=time_limit)
    if found.status == _INFEASIBLE:
        raise ProgramError(f"no integers meet all rows of A: {_contradiction(program, time_limit)}; loosen one of them")
    if found.status == _TIME_OVER:
        raise _out_of_time(time_limit, nothing)
    return program.best(nothing, 0.0, time_limit)


def _out_of_time(time_limit: float, cost: Array) -> SolverError:
    return SolverError(
        f"HiGHS did not find a best answer within time_limit = {time_limit:g} s; give a longer time_limit in seconds, "
        "None for no limit, or a gap",
        cost,
    )


def _contradiction(program: Program, time_limit: float) -> str:
    """Rows that cannot be met together, none of which can be left out, by leaving out one after the other.

    All solves together take at most the time limit; rows that are not examined by then are named too.
    """
    rows = list(range(program.A.shape[0]))
    if len(rows) > _EXAMINED:
        return f"the {len(rows)} rows contradict each other"
    deadline = monotonic() + time_limit
    for row in list(rows):
        time_limit = deadline - monotonic()
        if time_limit <= 0.0:
            break
        fewer = [other for other in rows if other != row]
        found = program.with_rows(fewer).solve(np.zeros(len(program.low)), time_limit=time_limit)
        if found.status == _INFEASIBLE:
            rows = fewer
    return (
        f"rows {short_repr(rows)} contradict each other" if len(rows) > 1 else f"row {rows[0]} has no integer solution"
    )


def has_one_point(program: Program, some: Array, time_limit: float) -> bool:
    """Is this all of the set? Along a random line its two ends differ, but for chance; the axes leave none to that.

    The time limit is for all solves together.
    """
    deadline = monotonic() + time_limit

    def is_end(cost: Array) -> bool:
        left = deadline - monotonic()
        if left <= 0.0:
            raise _out_of_time(time_limit, cost)
        return np.array_equal(program.best(cost, 0.0, left), some)

    line = np.random.default_rng(0).uniform(1.0, 2.0, size=len(some))
    axes = np.eye(len(some))
    return all(is_end(sign * cost) for cost in (line, *axes) for sign in (1.0, -1.0))


def bounded(program: Program, components: tuple[Hashable, ...], time_limit: float) -> Program:
    """The same set with finite ranges; `ProgramError` naming the components that may grow for ever.

    Where the numbers are rational, a feasible integer program is bounded if its relaxation is. The time limit is for
    all solves together.
    """
    low, high, free = program.low.copy(), program.high.copy(), []
    deadline = monotonic() + time_limit
    for ends, sign in ((low, 1.0), (high, -1.0)):
        for i in np.flatnonzero(np.isinf(ends)).tolist():
            cost = np.zeros(len(ends))
            cost[i] = sign
            left = deadline - monotonic()
            found = program.solve(cost, time_limit=left, relaxed=True) if left > 0.0 else None
            if found is None or found.status == _TIME_OVER:
                raise _out_of_time(time_limit, cost)
            if found.status != _OPTIMAL:
                free.append(components[i])
            else:
                ends[i] = sign * np.ceil(found.fun - 1e-6)
    if free:
        raise ProgramError(
            f"the set is unbounded: nothing keeps {short_repr(list(dict.fromkeys(free)))} from growing for ever; "
            "give them finite bounds"
        )
    wide = np.flatnonzero(np.maximum(np.abs(low), np.abs(high)) > _LARGEST)
    if len(wide):
        raise ProgramError(f"component {components[wide[0]]!r} may be beyond {_LARGEST:g}; give it smaller bounds")
    return replace(program, low=low + 0.0, high=high + 0.0)

"""Oracle of the integer points of a polytope: integer linear programs solved by HiGHS, or by enumeration.

    minimise c @ x   over   {x integer : lower <= A x <= upper, low <= x <= high}

HiGHS uses absolute tolerances of 1e-6 and 1e-7. Rows, and c in every solve, are therefore scaled to a common magnitude,
by powers of two so that no rounding occurs.
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
    check_several_answers,
    count_or_labels,
    reorder,
    series_index,
)
from combopeps.utils.formatting import short_repr
from combopeps.utils.validation import as_float_array, check_choice, check_real

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_MAX_LISTED = 4096  # points within the bounds; a batch of 64 thetas then takes less time than one solve
_ROW_BITS = 11  # the largest entry of a scaled row is in [2^10, 2^11): a tolerance of 1e-6 is 1e-9 of it
_COST_BITS = 21  # the largest scaled cost is in [2^20, 2^21): a tolerance of 1e-6 is 1e-12 of it
TOLERANCE = 1e-11  # optimality gap relative to a sum of |c x|: ten times the absolute gap of HiGHS
_ROW_TOLERANCE = 2e-6  # feasibility of a scaled row
_MAX_INTEGER = 1e9  # integers of this size are exact with a tolerance of 1e-6
_MAX_EXAMINED_ROWS = 64  # up to which an irreducible infeasible subset of rows is searched
_OPTIMAL, _TIME_LIMIT_REACHED, _INFEASIBLE = 0, 1, 2  # status of scipy.optimize.milp


class MilpOracle(ArgmaxOracle):
    """Oracle of the integer points of a polytope, by enumeration or by HiGHS (`scipy.optimize.milp`).

        Z = {z integer : lower <= A z <= upper, low <= z <= high}

    If at most 4,096 integer points are within the bounds (12 binary variables), the feasible ones are listed once: an
    argmax then takes microseconds, and facets are known. Larger sets are solved by HiGHS, in milliseconds. Its
    solutions are rounded and verified against all rows and the solver's own bound: a `SolverError` is raised if they
    are infeasible or not proved optimal. A row is satisfied within 1e-9 of its largest coefficient.

    Parameters
    ----------
    components
        The number of variables (labelled 0 .. d-1), or their labels.
    A
        The constraints, (m, d): an array, a SciPy sparse matrix, or a pandas DataFrame with a column per component.
    lower, upper
        Bounds of the rows, numbers or (m,); -inf and inf for one-sided constraints.
    bounds
        Lower and upper bounds of the variables, numbers or (d,) each; (0, 1) for binary variables. Infinite bounds are
        replaced by those that the rows imply; an unbounded set is an error.
    objective
        "max" for rewards, "min" for costs: then z is minus the vector of integers.
    gap
        Relative optimality gap, a tolerance of answers; included in `resolution`.
    time_limit
        Seconds per solve, after which a `SolverError` is raised; None for no limit.
    engine
        "auto", or "highs" for no enumeration whatever the size.

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
        check_choice("objective", objective, ("max", "min"))
        check_choice("engine", engine, ("auto", "highs"))
        check_real("gap", gap, 0.0, np.nextafter(1.0, 0.0), "a number in [0, 1)")
        self.gap, self.time_limit = float(gap), as_seconds(time_limit)
        self._engine_choice = engine
        super().__init__(count_or_labels(series_index(components, "components"), "components"))
        program = as_program(A, lower, upper, bounds, self._components)
        feasible = find_feasible(program, self.time_limit)
        self._program = with_finite_bounds(program, self._components, self.time_limit)
        self.binary = bool((self._program.low >= 0.0).all() and (self._program.high <= 1.0).all())
        self.unit = 1.0 if objective == "max" else -1.0
        self.antichain = self.binary and self._equalities_cover_components()
        self._listed: ExplicitOracle | None = None
        points = self._program.points(_MAX_LISTED) if engine == "auto" else None
        if points is not None:
            other = points[-1] if np.array_equal(points[0], feasible) else points[0]
            check_several_answers(self._components, feasible, other)
            self._listed = ExplicitOracle(self.unit * points, components=self._components)
            self.quick = True
            return
        self.expensive = True
        self.resolution = (self.gap + TOLERANCE) * float(self._program.largest.max())
        if self.binary:
            farthest = self._program.best(2.0 * feasible - 1.0, 0.0, self.time_limit)
            check_several_answers(self._components, feasible, farthest)
        elif has_single_point(self._program, feasible, self.time_limit):
            check_several_answers(self._components, feasible, feasible)

    def __repr__(self) -> str:
        return f"MilpOracle(d={self.dim}, rows={self._program.A.shape[0]}, {self.objective}, engine={self.engine})"

    def _summary(self) -> Mapping[str, Any]:
        return {
            **super()._summary(),
            "rows": self._program.A.shape[0],
            "objective": self.objective,
            "engine": self.engine,
        }

    @property
    def engine(self) -> str:
        """The solver in use: "list" (enumeration) or "highs"."""
        return "highs" if self._listed is None else "list"

    def _argmax_batch(self, thetas: Array) -> Array:
        if self._listed is not None:
            return self._listed._argmax_batch(thetas)
        best = np.empty(thetas.shape)
        for z, theta in zip(best, thetas, strict=True):
            z[...] = self._program.best(-self.unit * theta, self.gap, self.time_limit)
        return self.unit * best + 0.0

    def decode(self, z: ArrayLike) -> Any:
        """Return the set of chosen components if variables are binary, else a dict component -> integer."""
        vector = as_vector(z, self.dim)
        answer: Any = super().decode(vector) if self.binary else None
        x = self.unit * vector + 0.0
        violated = "integrality" if (x != np.rint(x)).any() else self._program.violated_constraint(x)
        if violated is not None:
            raise AnswerError(f"z is not an answer: it violates {violated}")
        return answer if self.binary else dict(zip(self._components, map(int, x), strict=True))

    def encode(self, answer: Any) -> Array:
        """Return the vector of a set of components, or of a dict component -> integer."""
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
        """Return all other answers minus z if they are listed, else None."""
        return None if self._listed is None else self._listed.facets(z)

    @property
    def facet_count(self) -> int | None:
        """The number of answers minus one if they are listed, else None."""
        return None if self._listed is None else self._listed.facet_count

    @property
    def log_cardinality(self) -> LogCardinality:
        """Exact if answers are listed; otherwise an upper bound, the number of integer points within the bounds."""
        if self._listed is not None:
            return self._listed.log_cardinality
        return LogCardinality(float(np.log(self._program.high - self._program.low + 1.0).sum()), exact=False)

    def equalities(self) -> Sparse | None:
        """Return the rows of A whose lower and upper bound are equal."""
        same = np.flatnonzero(self._program.lower == self._program.upper)
        return self._program.A[same] if len(same) else None

    def _equalities_cover_components(self) -> bool:
        """Test whether equalities with coefficients of one sign cover all components: Z is then an antichain."""
        rows = self.equalities()
        if rows is None:
            return False
        one_sign = np.flatnonzero(np.abs(rows.sum(axis=1)) == abs(rows).sum(axis=1))
        return bool((abs(rows[one_sign]).sum(axis=0) > 0.0).all())


@dataclass(frozen=True)
class Program:
    """Constraints of an integer program: scaled rows `lower <= A x <= upper`, and bounds `low <= x <= high`."""

    A: csr_array
    lower: Array
    upper: Array
    low: Array
    high: Array
    exponents: NDArray[np.int64]  # scaled row = stated row * 2^exponent

    @property
    def stated(self) -> tuple[csr_array, Array, Array]:
        """The unscaled rows and their bounds."""
        A = self.A.copy()
        A.data = np.ldexp(A.data, -np.repeat(self.exponents, np.diff(A.indptr)))
        return A, np.ldexp(self.lower, -self.exponents), np.ldexp(self.upper, -self.exponents)

    def solve(self, cost: Array, *, gap: float = 0.0, time_limit: float = inf, relaxed: bool = False) -> Any:
        """Minimise cost @ x and return SciPy's result; with `relaxed`, without integrality.

        Updating the costs of a persistent highspy model was measured to be only 1.0 to 1.3 times as fast (12 to 60
        variables, 3 to 5 rows), which does not justify a second engine.
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
        """Return integers that minimise c @ x; `SolverError` unless they are feasible and within the gap."""
        scaled = scale_to_bits(cost)
        found = self.solve(scaled, gap=gap, time_limit=time_limit)
        if found.status == _TIME_LIMIT_REACHED:
            raise _time_limit_error(time_limit, cost)
        if found.status != _OPTIMAL or found.x is None:
            raise SolverError(f"HiGHS failed on a program that has answers: {found.message}", cost)
        x: Array = np.rint(found.x) + 0.0
        violated = self.violated_constraint(x)
        if violated is not None:
            raise SolverError(
                f"the rounded solution of HiGHS violates {violated}: its coefficients differ too much in size; "
                "use smaller constants, or split it",
                cost,
            )
        loss = float(scaled @ x) - float(found.mip_dual_bound)
        sizes = np.multiply(np.abs(scaled), self.largest, out=np.zeros(len(x)), where=scaled != 0.0)
        if not loss <= (gap + TOLERANCE) * sizes.sum():
            raise SolverError(f"the solution of HiGHS may be {loss:.3g} from the optimum, beyond the gap", cost)
        return x

    @property
    def largest(self) -> Array:
        """Upper bound of |x| per variable, at least 1."""
        return np.maximum(np.maximum(np.abs(self.low), np.abs(self.high)), 1.0)

    def violated_constraint(self, x: Array) -> str | None:
        """Describe the first bound or row that integers x violate; None if they are feasible."""
        outside = np.flatnonzero((x < self.low) | (x > self.high))
        if len(outside):
            return f"the bounds of variable {outside[0]}"
        violated = np.flatnonzero(self._violations(x[:, None]).any(axis=1))
        return f"row {violated[0]} of A" if len(violated) else None

    def _violations(self, columns: Array) -> NDArray[np.bool_]:
        """Test rows of A (m) against columns x (d, n) for violations, (m, n)."""
        sums, sizes = self.A @ columns, abs(self.A) @ np.abs(columns)
        excess = np.maximum(self.lower[:, None] - sums, sums - self.upper[:, None])
        return np.asarray(excess > _ROW_TOLERANCE + 1e-12 * sizes)

    def points(self, limit: int) -> Array | None:
        """List the feasible points, (n, d); None if more than `limit` integer points are within the bounds."""
        if np.log(self.high - self.low + 1.0).sum() > np.log(limit) + 1e-9:
            return None
        ranges = [range(int(low), int(high) + 1) for low, high in zip(self.low, self.high, strict=True)]
        candidates = np.array(list(product(*ranges)), dtype=np.float64)
        return candidates[~self._violations(candidates.T).any(axis=0)]

    def with_rows(self, rows: Sequence[int]) -> Program:
        """Return the program with a subset of the rows."""
        kept = list(rows)
        return replace(
            self, A=self.A[kept], lower=self.lower[kept], upper=self.upper[kept], exponents=self.exponents[kept]
        )


def scale_to_bits(values: Array, bits: int = _COST_BITS) -> Array:
    """Multiply by the power of two that brings the largest entry of every row into [2^(bits - 1), 2^bits)."""
    _, exponent = np.frexp(np.abs(values).max(axis=-1, initial=0.0, keepdims=True))
    return np.asarray(np.ldexp(values, bits - exponent))


def as_program(A: Any, lower: ArrayLike, upper: ArrayLike, bounds: Any, components: tuple[Hashable, ...]) -> Program:
    """Convert and scale constraints; `ProgramError` naming the row or component that is malformed."""
    matrix = _as_matrix(reorder(A, components, "the columns of A"), components)
    rows, d = matrix.shape
    if isinstance(bounds, tuple):
        bounds = tuple(reorder(bound, components, "bounds") for bound in bounds)
    if hasattr(A, "iloc"):
        lower, upper = (reorder(bound, tuple(A.index), "lower and upper") for bound in (lower, upper))
    low, high = _as_intervals("bounds", bounds, d, [f"component {c!r}" for c in components])
    low, high = np.ceil(low) + 0.0, np.floor(high) + 0.0
    empty = np.flatnonzero(low > high)
    if len(empty):
        raise ProgramError(f"component {components[empty[0]]!r} has no integer between its bounds")
    lower, upper = _as_intervals("lower and upper", (lower, upper), rows, [f"row {i} of A" for i in range(rows)])
    exponents = np.zeros(rows, dtype=np.int64)
    for row in range(rows):
        entries = matrix.data[matrix.indptr[row] : matrix.indptr[row + 1]]
        exponents[row] = _ROW_BITS - np.frexp(np.abs(entries).max(initial=0.0))[1]
        entries[...] = np.ldexp(entries, exponents[row])
    return Program(matrix, np.ldexp(lower, exponents), np.ldexp(upper, exponents), low, high, exponents)


def _as_matrix(A: Any, components: tuple[Hashable, ...]) -> csr_array:
    """Convert A to a CSR copy without explicit zeros; `ProgramError` for a wrong shape or type."""
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
    invalid = np.flatnonzero(~(np.abs(rows.data) < 1e150))
    if len(invalid):
        row = int(np.searchsorted(rows.indptr, invalid[0], side="right")) - 1
        component = components[rows.indices[invalid[0]]]
        raise ProgramError(
            f"row {row} of A is {rows.data[invalid[0]]} at component {component!r}; every entry is finite"
        )
    rows.eliminate_zeros()
    return cast("csr_array", rows)


def _as_intervals(what: str, bounds: Any, size: int, names: list[str]) -> tuple[Array, Array]:
    """Return lower and upper bounds as arrays of this size; `ProgramError` naming an empty or infinite interval."""
    try:
        low, high = (np.array(np.broadcast_to(as_float_array(what, bound, ProgramError), size)) for bound in bounds)
    except (TypeError, ValueError):
        raise ProgramError(
            f"{what} must be two numbers, or two arrays of length {size}; got {short_repr(bounds)}"
        ) from None
    wrong = np.flatnonzero(~((low <= high) & (low < inf) & (high > -inf)))
    if len(wrong):
        i = wrong[0]
        raise ProgramError(f"{names[i]} is to be between {low[i]:g} and {high[i]:g}: nothing is; check {what}")
    return low, high


def find_feasible(program: Program, time_limit: float) -> Array:
    """Return a feasible point; `ProgramError` naming rows that contradict each other if there is none."""
    positive, negative = program.A.maximum(0.0), program.A.minimum(0.0)
    positive.eliminate_zeros()  # 0 times an infinite bound would be NaN
    negative.eliminate_zeros()
    least = positive @ program.low + negative @ program.high
    most = positive @ program.high + negative @ program.low
    infeasible = np.flatnonzero((least > program.upper + _ROW_TOLERANCE) | (most < program.lower - _ROW_TOLERANCE))
    if len(infeasible):
        raise ProgramError(f"row {infeasible[0]} of A cannot be met by any values within the bounds; relax it")
    zero_cost = np.zeros(len(program.low))
    found = program.solve(zero_cost, time_limit=time_limit)
    if found.status == _INFEASIBLE:
        conflict = _describe_conflict(program, time_limit)
        raise ProgramError(f"no integers meet all rows of A: {conflict}; relax one of them")
    if found.status == _TIME_LIMIT_REACHED:
        raise _time_limit_error(time_limit, zero_cost)
    return program.best(zero_cost, 0.0, time_limit)


def _time_limit_error(time_limit: float, cost: Array) -> SolverError:
    return SolverError(
        f"HiGHS did not find an optimum within time_limit = {time_limit:g} s; give a longer time_limit in seconds, "
        "None for no limit, or a gap",
        cost,
    )


def _describe_conflict(program: Program, time_limit: float) -> str:
    """Name an irreducible infeasible subset of rows, found by deletion filtering.

    The time limit applies to all solves together; rows that are not examined by then are named too.
    """
    rows = list(range(program.A.shape[0]))
    if len(rows) > _MAX_EXAMINED_ROWS:
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


def has_single_point(program: Program, point: Array, time_limit: float) -> bool:
    """Test whether a feasible point is the only one: it then minimises every cost.

    A random direction excludes this almost always; the axes, tried after it, prove it. The time limit applies to all
    solves together.
    """
    deadline = monotonic() + time_limit

    def is_minimiser(cost: Array) -> bool:
        time_left = deadline - monotonic()
        if time_left <= 0.0:
            raise _time_limit_error(time_limit, cost)
        return np.array_equal(program.best(cost, 0.0, time_left), point)

    direction = np.random.default_rng(0).uniform(1.0, 2.0, size=len(point))
    axes = np.eye(len(point))
    return all(is_minimiser(sign * cost) for cost in (direction, *axes) for sign in (1.0, -1.0))


def with_finite_bounds(program: Program, components: tuple[Hashable, ...], time_limit: float) -> Program:
    """Replace infinite bounds by those that the rows imply; `ProgramError` naming unbounded components.

    A feasible integer program with rational coefficients is bounded if its linear relaxation is. The time limit applies
    to all solves together.
    """
    low, high, unbounded = program.low.copy(), program.high.copy(), []
    deadline = monotonic() + time_limit
    for bounds, sign in ((low, 1.0), (high, -1.0)):
        for i in np.flatnonzero(np.isinf(bounds)).tolist():
            cost = np.zeros(len(bounds))
            cost[i] = sign
            time_left = deadline - monotonic()
            found = program.solve(cost, time_limit=time_left, relaxed=True) if time_left > 0.0 else None
            if found is None or found.status == _TIME_LIMIT_REACHED:
                raise _time_limit_error(time_limit, cost)
            if found.status != _OPTIMAL:
                unbounded.append(components[i])
            else:
                bounds[i] = sign * np.ceil(found.fun - 1e-6)
    if unbounded:
        raise ProgramError(
            f"the set is unbounded: nothing limits {short_repr(list(dict.fromkeys(unbounded)))}; give them "
            f"finite bounds"
        )
    wide = np.flatnonzero(np.maximum(np.abs(low), np.abs(high)) > _MAX_INTEGER)
    if len(wide):
        raise ProgramError(f"component {components[wide[0]]!r} may be beyond {_MAX_INTEGER:g}; give it smaller bounds")
    return replace(program, low=low + 0.0, high=high + 0.0)

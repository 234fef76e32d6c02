"""Oracle of the solutions of an OR-Tools CP-SAT model, projected onto some of its Boolean variables."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import cached_property
from math import inf, log
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.errors import AnswerError, LabelError, ProgramError, SolverError
from combopeps.oracles.base import ArgmaxOracle, Array, LogCardinality
from combopeps.oracles.input_checks import TIME_LIMIT, as_seconds, as_vector, check_several_answers
from combopeps.utils.formatting import short_repr
from combopeps.utils.validation import check_choice

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel

_COEFFICIENT_BITS = 52  # of the sum of all coefficients: values below 2^53 are exact in the solver's floats, too
_BOUND_TOLERANCE = 4  # units: CP-SAT reports its bound as a float, which may be off by one


class CpSatOracle(ArgmaxOracle):
    """Oracle of the solutions of a constraint model, whose components are Boolean variables.

        Z = {z : some solution of the model assigns z to the listed variables}

    The model may use all features of CP-SAT (intervals, circuits, tables, integers); variables that are not listed are
    auxiliary. The model is copied: later changes have no effect, and an objective in it is ignored. Values of theta are
    rounded to integers of 52 bits (see `resolution`). One worker and a fixed seed make answers reproducible.

    Parameters
    ----------
    model
        An `ortools.sat.python.cp_model.CpModel`.
    variables
        Boolean variables that are the components: a dict {label: variable}, or a sequence, labelled by their names.
    objective
        "max" for rewards, "min" for costs: then z is minus the indicator.
    time_limit
        Seconds per solve, after which a `SolverError` is raised; None for no limit.

    Examples
    --------
    >>> from ortools.sat.python import cp_model
    >>> model = cp_model.CpModel()
    >>> shifts = {day: model.new_bool_var(day) for day in ("mon", "tue", "wed", "thu")}
    >>> for today, tomorrow in zip(shifts.values(), list(shifts.values())[1:]):
    ...     _ = model.add_at_most_one(today, tomorrow)
    >>> oracle = CpSatOracle(model, shifts)
    >>> sorted(oracle.decode(oracle.argmax([3.0, 4.0, 3.0, 1.0])))
    ['mon', 'wed']
    """

    binary = True
    expensive = True
    parallel_backend = "threads"

    def __init__(
        self,
        model: CpModel,
        variables: Mapping[Hashable, Any] | Iterable[Any],
        *,
        objective: Literal["max", "min"] = "max",
        time_limit: float | None = TIME_LIMIT,
    ) -> None:
        from ortools.sat.python import cp_model

        if not isinstance(model, cp_model.CpModel):
            raise ProgramError(f"model must be a CpModel of ortools.sat.python.cp_model, got {type(model).__name__}")
        check_choice("objective", objective, ("max", "min"))
        fault = model.validate()
        if fault:
            raise ProgramError(f"CP-SAT rejects the model: {fault}")
        by_label = _as_variables(variables)
        super().__init__(by_label)
        self._indices = _variable_indices(model, by_label)
        self.time_limit = as_seconds(time_limit)
        self.unit = 1.0 if objective == "max" else -1.0
        self.resolution = 1e-12 + 8 * self.dim * 2.0**-_COEFFICIENT_BITS
        copy: Any = model.clone()
        copy.clear_objective()
        self._text = str(copy.proto)
        solution = self._solve(copy, np.zeros(self.dim))
        if solution is None:
            raise ProgramError("the model has no solution: its constraints contradict each other; remove some of them")
        check_several_answers(self._components, solution, self._maximise(copy, 1.0 - 2.0 * solution))

    def __repr__(self) -> str:
        return f"CpSatOracle(d={self.dim}, {self.objective})"

    def _summary(self) -> Mapping[str, Any]:
        return {**super()._summary(), "objective": self.objective}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_model"}  # it cannot be pickled

    @cached_property
    def _model(self) -> CpModel:
        """The model; every batch works on a copy."""
        return parse_model(self._text)

    def _argmax_batch(self, thetas: Array) -> Array:
        model, best = self._model.clone(), np.empty(thetas.shape)
        for z, theta in zip(best, thetas, strict=True):
            z[...] = self._maximise(model, self.unit * theta)
        return self.unit * best + 0.0

    def _maximise(self, model: CpModel, values: Array) -> Array:
        """Return the 0/1 vector of an optimal solution of a feasible model."""
        chosen = self._solve(model, values)
        if chosen is None:
            raise SolverError("CP-SAT found no solution of a model that has some", values)
        return chosen

    def _solve(self, model: CpModel, values: Array) -> Array | None:
        """Return the 0/1 vector of a solution that is proved optimal; None if the model is infeasible."""
        from ortools.sat.python import cp_model

        integers = as_integers(values)
        booleans = [model.get_bool_var_from_proto_index(i) for i in self._indices]
        model.maximize(cp_model.LinearExpr.weighted_sum(booleans, integers.tolist()))
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 0
        solver.parameters.absolute_gap_limit = 0.0
        # CP-SAT's SIGINT handler would leave the default one installed, with which the next Ctrl-C kills the process.
        solver.parameters.catch_sigint_signal = False
        if self.time_limit < inf:
            solver.parameters.max_time_in_seconds = self.time_limit
        status = solver.solve(model)
        if status == cp_model.INFEASIBLE:
            return None
        if status in (cp_model.FEASIBLE, cp_model.UNKNOWN) and self.time_limit < inf:
            raise SolverError(
                f"CP-SAT did not prove an optimum within time_limit = {self.time_limit:g} s; give a longer "
                "time_limit in seconds, None for no limit, or a smaller model",
                values,
            )
        if status != cp_model.OPTIMAL:
            raise SolverError(f"CP-SAT returned {solver.status_name(status)}", values)
        chosen = np.array([solver.boolean_value(boolean) for boolean in booleans], dtype=np.int64)
        if abs(int(chosen @ integers) - round(solver.best_objective_bound)) > _BOUND_TOLERANCE:
            raise SolverError("the value of CP-SAT's solution differs from its bound", values)
        return chosen.astype(np.float64)

    def decode(self, z: ArrayLike) -> set[Hashable]:
        """Return the set of chosen components; a solve verifies that they are part of a solution."""
        vector = as_vector(z, self.dim)
        chosen: set[Hashable] = super().decode(vector)
        model = self._model.clone()
        for index, entry in zip(self._indices, vector, strict=True):
            model.add(model.get_bool_var_from_proto_index(index) == bool(entry))
        if self._solve(model, np.zeros(self.dim)) is None:
            raise AnswerError(
                f"{short_repr(chosen)} is not an answer: no solution of the model has exactly these components"
            )
        return chosen

    def encode(self, answer: Any) -> Array:
        """Return the vector of a collection of components."""
        z = super().encode(answer)
        self.decode(z)
        return z

    @property
    def log_cardinality(self) -> LogCardinality:
        """Upper bound d ln 2, of all subsets of the components."""
        return LogCardinality(self.dim * log(2.0), exact=False)


def parse_model(text: str) -> CpModel:
    """Parse a model in the text form of protocol buffers; `ProgramError` if it is malformed."""
    from ortools.sat.python.cp_model import CpModel

    model: Any = CpModel()
    try:
        if hasattr(model.proto, "parse_text_format"):
            is_parsed = model.proto.parse_text_format(text)
        else:  # up to OR-Tools 9.14
            from google.protobuf import text_format

            is_parsed = text_format.Parse(text, model.proto) is not None
    except Exception as cause:  # ParseError, of a library that may not be installed
        raise ProgramError(f"this is no CP-SAT model in the text form of protocol buffers: {cause}") from None
    if is_parsed is False:
        raise ProgramError("this is no CP-SAT model in the text form of protocol buffers")
    return cast("CpModel", model)


def as_integers(values: Array) -> NDArray[np.int64]:
    """Scale values by a power of two and round them, such that the sum of their absolute values is below 2^53.

    The rounding error is at most half a unit per value, and d units for a difference of two answers: 2^-51 d relative
    to the sum of |values|.
    """
    _, exponent = np.frexp(np.abs(values).sum())
    return np.rint(np.ldexp(values, _COEFFICIENT_BITS - int(exponent))).astype(np.int64)


def _as_variables(variables: Any) -> dict[Hashable, Any]:
    """Return variables by label."""
    if isinstance(variables, Mapping):
        return dict(variables)
    if isinstance(variables, str) or not isinstance(variables, Iterable):
        raise LabelError(
            f"variables must be a dict label -> boolean, or a list of booleans, got {short_repr(variables)}"
        )
    by_name = dict[Hashable, Any]()
    for i, variable in enumerate(variables):
        name = getattr(variable, "name", "") or str(variable)
        if name in by_name:
            raise LabelError(
                f"two variables are called {name!r} (the latter is number {i}); give a dict label -> boolean"
            )
        by_name[name] = variable
    return by_name


def _variable_indices(model: CpModel, by_label: Mapping[Hashable, Any]) -> list[int]:
    """Return the variables' indices in the model; `ProgramError` unless they are distinct Boolean variables of it."""
    from ortools.sat.python.cp_model import IntVar

    label_of = dict[int, Hashable]()
    for label, variable in by_label.items():
        if not isinstance(variable, IntVar):
            is_literal = isinstance(getattr(variable, "index", None), int)
            what = "a negated boolean; list the boolean itself" if is_literal else "no variable of a CpModel"
            raise ProgramError(f"{label!r} is {what}, got {short_repr(variable)}")
        index, protos = variable.index, model.proto.variables
        if index >= len(protos) or variable.proto is not protos[index]:
            raise ProgramError(f"{label!r} belongs to another model; list variables of the one that is given")
        if not set(variable.proto.domain) <= {0, 1}:
            raise ProgramError(f"{label!r} is no boolean: its domain is {list(variable.proto.domain)}")
        if index in label_of:
            raise ProgramError(f"{label_of[index]!r} and {label!r} are one and the same boolean; list it once")
        label_of[index] = label
    return list(label_of)

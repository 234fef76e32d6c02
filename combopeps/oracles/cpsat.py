"""Z = the solutions of an OR-Tools CP-SAT model, as far as some of its booleans tell."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import cached_property
from math import inf, log
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.errors import AnswerError, LabelError, ProgramError, SolverError
from combopeps.oracles.base import ArgmaxOracle, Array, LogCardinality
from combopeps.oracles.input_checks import TIME_LIMIT, as_seconds, as_vector, refuse_one_answer
from combopeps.utils.formatting import short_repr
from combopeps.utils.validation import check_choice

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel

_BITS = 52  # of the sum of all coefficients: below 2^53 every value is exact in the solver's floats, too
_LAST_BITS = 4  # CP-SAT reports its bound as a float, which may have lost a unit on the way


class CpSatOracle(ArgmaxOracle):
    """The best solution of a constraint model whose booleans are the components.

        Z = {z : some solution of the model gives these values to the listed booleans}

    Everything that CP-SAT knows may stand in the model (intervals, circuits, tables, integers); what is not listed is
    auxiliary. The model is copied: later changes to it do not matter, and an objective in it is not used. Values of
    theta become integers of 52 bits (`resolution`). One worker and a fixed seed make answers reproducible.

    Parameters
    ----------
    model
        An `ortools.sat.python.cp_model.CpModel`.
    variables
        Its booleans that are components: a dict {label: variable}, or a sequence, labelled by their names.
    objective
        "max" for rewards, "min" for costs: then z is minus the indicator.
    time_limit
        Seconds for one solve, beyond which it is a `SolverError`; None for no limit.

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
            raise ProgramError(f"CP-SAT refuses the model: {fault}")
        named = _named(variables)
        super().__init__(named)
        self._numbers = _checked(model, named)
        self.objective, self.time_limit = objective, as_seconds(time_limit)
        self.unit = 1.0 if objective == "max" else -1.0
        self.resolution = 1e-12 + 8 * self.dim * 2.0**-_BITS
        copy: Any = model.clone()
        copy.clear_objective()
        self._text = str(copy.proto)
        some = self._solve(copy, np.zeros(self.dim))
        if some is None:
            raise ProgramError("the model has no solution: its constraints contradict each other; leave some out")
        refuse_one_answer(self._components, some, self._best(copy, 1.0 - 2.0 * some))

    def __repr__(self) -> str:
        return f"CpSatOracle(d={self.dim}, {self.objective})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_model"}  # no pickle of it exists

    @cached_property
    def _model(self) -> CpModel:
        """Never changed: every batch works on a copy."""
        return model_of_text(self._text)

    def _argmax_batch(self, thetas: Array) -> Array:
        model, best = self._model.clone(), np.empty(thetas.shape)
        for z, theta in zip(best, thetas, strict=True):
            z[...] = self._best(model, self.unit * theta)
        return self.unit * best + 0.0

    def _best(self, model: CpModel, values: Array) -> Array:
        """The chosen booleans of greatest value, 0/1."""
        chosen = self._solve(model, values)
        if chosen is None:
            raise SolverError("CP-SAT found no solution of a model that has some", values)
        return chosen

    def _solve(self, model: CpModel, values: Array) -> Array | None:
        """One solve, proved best, or None where there is no solution."""
        from ortools.sat.python import cp_model

        integers = as_integers(values)
        booleans = [model.get_bool_var_from_proto_index(i) for i in self._numbers]
        model.maximize(cp_model.LinearExpr.weighted_sum(booleans, integers.tolist()))
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 0
        solver.parameters.absolute_gap_limit = 0.0
        # Its own handler of SIGINT leaves the default one behind, with which the next Ctrl-C kills the process.
        solver.parameters.catch_sigint_signal = False
        if self.time_limit < inf:
            solver.parameters.max_time_in_seconds = self.time_limit
        status = solver.solve(model)
        if status == cp_model.INFEASIBLE:
            return None
        if status in (cp_model.FEASIBLE, cp_model.UNKNOWN) and self.time_limit < inf:
            raise SolverError(
                f"CP-SAT did not prove an answer best within time_limit = {self.time_limit:g} s; give a longer "
                "time_limit in seconds, None for no limit, or a smaller model",
                values,
            )
        if status != cp_model.OPTIMAL:
            raise SolverError(f"CP-SAT answered {solver.status_name(status)}", values)
        chosen = np.array([solver.boolean_value(boolean) for boolean in booleans], dtype=np.int64)
        if abs(int(chosen @ integers) - round(solver.best_objective_bound)) > _LAST_BITS:
            raise SolverError("CP-SAT's answer is not worth what it says is best", values)
        return chosen.astype(np.float64)

    def decode(self, z: ArrayLike) -> set[Hashable]:
        """The set of chosen components; CP-SAT says whether they are part of a solution."""
        vector = as_vector(z, self.dim)
        chosen: set[Hashable] = super().decode(vector)
        model = self._model.clone()
        for number, entry in zip(self._numbers, vector, strict=True):
            model.add(model.get_bool_var_from_proto_index(number) == bool(entry))
        if self._solve(model, np.zeros(self.dim)) is None:
            raise AnswerError(
                f"{short_repr(chosen)} is not an answer: no solution of the model has exactly these components"
            )
        return chosen

    def encode(self, answer: Any) -> Array:
        """The vector of a collection of components."""
        z = super().encode(answer)
        self.decode(z)
        return z

    @property
    def log_cardinality(self) -> LogCardinality:
        """All subsets of the components: an upper bound."""
        return LogCardinality(self.dim * log(2.0), exact=False)


def model_of_text(text: str) -> CpModel:
    """The model of a text form of its protocol buffer; `ProgramError` where it is none."""
    from ortools.sat.python.cp_model import CpModel

    model: Any = CpModel()
    try:
        if hasattr(model.proto, "parse_text_format"):
            good = model.proto.parse_text_format(text)
        else:  # up to OR-Tools 9.14
            from google.protobuf import text_format

            good = text_format.Parse(text, model.proto) is not None
    except Exception as cause:  # a ParseError of a library that need not be there
        raise ProgramError(f"this is no CP-SAT model in the text form of protocol buffers: {cause}") from None
    if good is False:
        raise ProgramError("this is no CP-SAT model in the text form of protocol buffers")
    return cast("CpModel", model)


def as_integers(values: Array) -> NDArray[np.int64]:
    """Values times a power of two, rounded; their absolute values add up to less than 2^53.

    Each is wrong by half a unit at most, and two answers compared by d units: d 2^-51 of the sum of |values|.
    """
    _, exponent = np.frexp(np.abs(values).sum())
    return np.rint(np.ldexp(values, _BITS - int(exponent))).astype(np.int64)


def _named(variables: Any) -> dict[Hashable, Any]:
    """Labels and variables."""
    if isinstance(variables, Mapping):
        return dict(variables)
    if isinstance(variables, str) or not isinstance(variables, Iterable):
        raise LabelError(
            f"variables must be a dict label -> boolean, or a list of booleans, got {short_repr(variables)}"
        )
    named = dict[Hashable, Any]()
    for i, variable in enumerate(variables):
        name = getattr(variable, "name", "") or str(variable)
        if name in named:
            raise LabelError(
                f"two variables are called {name!r} (the latter is number {i}); give a dict label -> boolean"
            )
        named[name] = variable
    return named


def _checked(model: CpModel, named: Mapping[Hashable, Any]) -> list[int]:
    """The variables' numbers in the model; `ProgramError` naming what is no boolean of it, or is there twice."""
    from ortools.sat.python.cp_model import IntVar

    seen = dict[int, Hashable]()
    for label, variable in named.items():
        if not isinstance(variable, IntVar):
            is_literal = isinstance(getattr(variable, "index", None), int)
            what = "a negated boolean; list the boolean itself" if is_literal else "no variable of a CpModel"
            raise ProgramError(f"{label!r} is {what}, got {short_repr(variable)}")
        number, owned = variable.index, model.proto.variables
        if number >= len(owned) or variable.proto is not owned[number]:
            raise ProgramError(f"{label!r} belongs to another model; list variables of the one that is given")
        if not set(variable.proto.domain) <= {0, 1}:
            raise ProgramError(f"{label!r} is no boolean: its domain is {list(variable.proto.domain)}")
        if number in seen:
            raise ProgramError(f"{seen[number]!r} and {label!r} are one and the same boolean; list it once")
        seen[number] = label
    return list(seen)

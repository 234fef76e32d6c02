"""Kinds of oracles that a solver answers for: knapsacks, integer programs and constraint models."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from combopeps.errors import ProgramError
from combopeps.instances.kinds import OracleKind, as_json, names_or
from combopeps.instances.parsing import Field
from combopeps.oracles import ArgmaxOracle, CpSatOracle, KnapsackOracle, MilpOracle
from combopeps.oracles._validate import TIME_LIMIT
from combopeps.oracles.base import Array
from combopeps.oracles.cpsat import model_of_text

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel

_MOST = 100_000  # variables: a file that asks for more is taken for broken, before a solver looks at it
_NO_LIMIT = "none"
_LARGEST = 2**53  # whole numbers below are written as integers


def _read_knapsack(field: Field) -> tuple[ArgmaxOracle, list[Hashable]]:
    part = field.record({"items", "weights", "capacity"}, {"pruned"})
    items, weights = _listed(part["items"]), part["weights"].numbers()
    if len(weights) != len(items):
        part["weights"].fail(f"must be {len(items)} numbers, one per item, got {len(weights)}")
    known, heavy = set(items), dict[Hashable, float]()  # those that are too heavy are known by name only
    for entry in part["pruned"].items() if part["pruned"].value is not None else []:
        parts = entry.items()
        if len(parts) != 2:
            entry.fail(f"must be an item and its weight, got {len(parts)} parts")
        label, weight = parts[0].label(), parts[1].number()
        if label in heavy or label in known:
            entry.fail(f"{label!r} stands there twice")
        if weight <= part["capacity"].number():
            entry.fail(f"{label!r} fits, and belongs among the items")
        heavy[label] = weight
    every = [*weights, *heavy.values()]
    return KnapsackOracle(every, part["capacity"].number(), labels=[*items, *heavy]), items


def _write_knapsack(oracle: KnapsackOracle) -> dict[str, Any]:
    document = {
        "items": names_or(oracle.dim, oracle.components),
        "weights": oracle.weights.tolist(),
        "capacity": oracle.capacity,
    }
    heavy = [[as_json(label), weight] for label, weight in oracle._too_heavy.items()]
    return document | {"pruned": heavy} if heavy else document


def _read_milp(field: Field) -> tuple[ArgmaxOracle, None]:
    optional = {"A", "lower", "upper", "low", "high", "objective", "gap", "time_limit", "engine"}
    part = field.record({"components"}, optional)
    labels = _listed(part["components"])
    rows, columns, values = _entries(part["A"], len(labels))
    ends = [_ends(part[name], rows, infinite) for name, infinite in (("lower", -np.inf), ("upper", np.inf))]
    bounds = [_ends(part[name], len(labels), usual) for name, usual in (("low", 0.0), ("high", 1.0))]

    from scipy.sparse import csr_array

    where = np.repeat(np.arange(rows), [len(row) for row in columns]), np.concatenate([[], *columns])
    matrix = csr_array((np.concatenate([[], *values]), where), shape=(rows, len(labels)))
    gap = 0.0 if part["gap"].value is None else part["gap"].number()
    options: dict[str, Any] = {"gap": gap, "time_limit": _seconds(part), "objective": _objective(part)}
    if part["engine"].value is not None:
        options["engine"] = part["engine"].choice("auto", "highs")
    return MilpOracle(labels, matrix, *ends, bounds=(bounds[0], bounds[1]), **options), None


def _write_milp(oracle: MilpOracle) -> dict[str, Any]:
    program = oracle._program
    A, lower, upper = program.stated
    kept = np.flatnonzero(np.diff(A.indptr)).tolist()  # a row without entries says nothing
    entries = [list(entry) for entry in zip(A.indices.tolist(), _readable(A.data), strict=True)]
    rows = [entries[A.indptr[i] : A.indptr[i + 1]] for i in kept]
    document = {
        "components": names_or(oracle.dim, oracle.components),
        "objective": oracle.objective,
        "low": _shortened(program.low),
        "high": _shortened(program.high),
    }
    if rows:
        document |= {"lower": _readable(lower[kept]), "upper": _readable(upper[kept]), "A": rows}
    if oracle._asked_engine != "auto":
        document["engine"] = oracle._asked_engine
    return document | _options(oracle) | ({"gap": oracle.gap} if oracle.gap else {})


def _read_cpsat(field: Field) -> tuple[ArgmaxOracle, None]:
    part = field.record({"components", "variables", "model"}, {"objective", "time_limit"})
    labels, numbers = _listed(part["components"]), part["variables"].items()
    if len(numbers) != len(labels):
        part["variables"].fail(f"must be {len(labels)} numbers, one per component, got {len(numbers)}")
    model = _parsed(part["model"])
    chosen = {}
    for label, number in zip(labels, numbers, strict=True):
        if type(number.value) is not int or not 0 <= number.value < len(model.proto.variables):
            number.fail(f"must be the number of a variable of the model, 0 to {len(model.proto.variables) - 1}")
        chosen[label] = model.get_int_var_from_proto_index(number.value)
    return CpSatOracle(model, chosen, objective=_objective(part), time_limit=_seconds(part)), None


def _write_cpsat(oracle: CpSatOracle) -> dict[str, Any]:
    document = {
        "components": names_or(oracle.dim, oracle.components),
        "variables": oracle._numbers,
        "objective": oracle.objective,
        "model": oracle._text.splitlines(),
    }
    return document | _options(oracle)


def _parsed(field: Field) -> CpModel:
    """The text form of a model, line by line: data, of which nothing is run."""
    try:
        return model_of_text("\n".join(line.text() for line in field.items()))
    except ProgramError as cause:
        field.fail(str(cause))


def _listed(field: Field) -> list[Hashable]:
    """Labels, or 0 .. n-1; not more than a solver can be given."""
    found = field.count_or_labels()
    if (found if isinstance(found, int) else len(found)) > _MOST:
        field.fail(f"there may be at most {_MOST} of these")
    return list(range(found)) if isinstance(found, int) else found


def _entries(field: Field, dim: int) -> tuple[int, list[list[int]], list[list[float]]]:
    """How many rows there are, the columns of each, none twice, and the numbers there."""
    columns: list[list[int]] = []
    values: list[list[float]] = []
    for row in field.items() if field.value is not None else []:
        found: dict[int, float] = {}
        for entry in row.items():
            parts = entry.items()
            if len(parts) != 2:
                entry.fail(f"must be the number of a component and a coefficient, got {len(parts)} parts")
            at = parts[0].value
            if type(at) is not int or not 0 <= at < dim or at in found:
                parts[0].fail(f"must be the number of a component, 0 to {dim - 1}, once in a row")
            found[at] = parts[1].number()
        columns.append(list(found))
        values.append(list(found.values()))
    return len(columns), columns, values


def _ends(field: Field, size: int, usual: float) -> Array:
    """One number for all, or a list; null where there is no end, and all of them `usual` if it is left out."""
    if not isinstance(field.value, list):
        return np.full(size, usual if field.value is None else field.number())
    entries = field.items()
    if len(entries) != size:
        field.fail(f"must be a number, or {size} of them, got {len(entries)}")
    return np.array([usual if entry.value is None else entry.number() for entry in entries])


def _readable(values: Array) -> list[Any]:
    """Numbers as people write them: whole ones without a point, and None for no end."""
    return [None if np.isinf(x) else int(x) if x.is_integer() and abs(x) < _LARGEST else x for x in values.tolist()]


def _shortened(values: Array) -> Any:
    numbers = [int(x) for x in values]
    return numbers[0] if len(set(numbers)) == 1 else numbers


def _objective(part: dict[str, Field]) -> Any:
    return "max" if part["objective"].value is None else part["objective"].choice("max", "min")


def _seconds(part: dict[str, Field]) -> float | None:
    """A file that does not state a limit gets the default one; only the word "none" means no limit."""
    if part["time_limit"].value is None:
        return TIME_LIMIT
    return None if part["time_limit"].value == _NO_LIMIT else part["time_limit"].positive()


def _options(oracle: MilpOracle | CpSatOracle) -> dict[str, Any]:
    if oracle.time_limit == TIME_LIMIT:
        return {}
    return {"time_limit": _NO_LIMIT if np.isinf(oracle.time_limit) else oracle.time_limit}


KNAPSACK = OracleKind(KnapsackOracle, _write_knapsack, _read_knapsack)
MILP = OracleKind(MilpOracle, _write_milp, _read_milp)
CPSAT = OracleKind(CpSatOracle, _write_cpsat, _read_cpsat)

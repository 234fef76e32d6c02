"""Version 1 of the instance file: a JSON object, read strictly.

    sha256 = SHA-256 of the other fields, as JSON with sorted keys and no spaces

The checksum finds what strictness cannot: a digit that changed. It may be left out, and is verified if it is there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from combopeps.errors import InstanceError
from combopeps.io.instance import Instance
from combopeps.io.oracle_kinds import as_json, labels_as_json, read_actions, read_oracle, write_actions, write_oracle
from combopeps.io.parsing import Field
from combopeps.oracles.base import ArgmaxOracle
from combopeps.posterior.arms import Arms
from combopeps.posterior.parameter_space import Box, ParameterSpace, RealSpace, space_for
from combopeps.problem import Problem

Read = tuple[ArgmaxOracle, list[Hashable] | None]
SCHEMA, VERSION = "combopeps/instance", 1
_REQUIRED = {"schema", "version", "name", "oracle"}
_OPTIONAL = {"title", "note", "arms", "noise_std", "noise_ratio", "cost", "prior_mean", "prior_std", "space", "theta"}
_LATER = {"nature", "actions", "part_cost", "sha256"}
_STATED = ("noise_std", "noise_ratio", "cost", "part_cost", "prior_mean", "prior_std")  # a number, or one for each


def checksum(document: dict[str, Any]) -> str:
    """SHA-256 of everything but the checksum itself, in hexadecimal."""
    rest = {key: value for key, value in document.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def from_document(document: Any, read: Callable[[Field], Read] = read_oracle) -> Instance:
    """The instance that a parsed file describes; `InstanceError` names the field that it cannot be.

    `read` makes the oracle of its field.

    Examples
    --------
    >>> oracle = {"kind": "topk", "items": ["a", "b"], "k": 1}
    >>> from_document({"schema": "combopeps/instance", "version": 1, "name": "ab", "oracle": oracle}).labels
    ('a', 'b')
    """
    if isinstance(document, dict) and document.get("schema") != SCHEMA:
        Field(document.get("schema"), "schema").fail(f"must be {SCHEMA!r}; networks of other formats: read_network")
    if isinstance(document, dict) and (type(document.get("version")) is not int or document["version"] != VERSION):
        Field(None, "version").fail(f"must be {VERSION}, the only one that this release reads")
    part = Field(document).record(_REQUIRED, _OPTIONAL | _LATER)
    _verify(document, part["sha256"])
    name = part["name"].text()
    title, note = ("" if part[key].value is None else part[key].text() for key in ("title", "note"))
    numbers = {key: _read_stated(part[key], key) for key in _STATED if part[key].value is not None}
    oracle, order = read(part["oracle"])
    arms, space = _read_arms(part["arms"], oracle), _read_space(part["space"], oracle.dim)
    actions = read_actions(part["actions"], oracle)
    theta = None
    if part["theta"].value is not None:
        theta = np.array(_by_component(part["theta"], part["theta"].numbers(), oracle, order))
    for key, values in numbers.items():
        if isinstance(values, list) and (arms is None or key.startswith("prior")):
            numbers[key] = _by_component(part[key], values, oracle, order)
    with part["space"].checked():
        space = space_for(oracle, space)
    with part["arms" if actions is None else "actions"].checked():
        problem = Problem(oracle, arms, space=space, actions=actions, **numbers)
    nature = "normal" if part["nature"].value is None else part["nature"].text()
    return Instance(name, problem, theta, title, note, nature=nature)


def to_document(instance: Instance, write: Callable[[ArgmaxOracle], dict[str, Any]] = write_oracle) -> dict[str, Any]:
    """The object that `from_document` reads, with its checksum."""
    problem, theta = instance.problem, instance.theta
    document = {
        "schema": SCHEMA,
        "version": VERSION,
        "name": instance.name,
        "title": instance.title,
        "note": instance.note,
        "oracle": write(problem.oracle),
        "arms": _write_arms(problem.arms, problem.oracle),
        "noise_std": _write_stated(problem.noise_std),
        "prior_mean": _write_stated(problem.prior_mean),
        "prior_std": _write_stated(problem.prior_std),
        "space": _write_space(problem.space, problem.oracle),
        "theta": None if theta is None else theta.tolist(),
    }
    ratio, actions = problem.noise if problem.noise_std is None else 1.0, problem.actions
    if actions is not None:  # a reader that does not know the field must not ask for something else
        document["actions"] = write_actions(actions)
    for key, value, usual in (
        ("noise_ratio", ratio, 1.0),
        ("cost", problem.cost if actions is None else actions.cost, 1.0),
        ("part_cost", 0.0 if actions is None else actions.part_cost, 0.0),
    ):
        if np.any(value != usual):  # files of old stay as they are
            document[key] = _write_stated(value)
    if instance.nature != "normal":  # a reader that does not know the field must not simulate something else
        document["nature"] = instance.nature
    return document | {"sha256": checksum(document)}


def _verify(document: dict[str, Any], field: Field) -> None:
    if field.value is None and "sha256" not in document:
        return
    try:
        right = field.text() == checksum(document)
    except RecursionError:
        raise InstanceError("the instance: the brackets are nested too deeply") from None
    if not right:
        field.fail("does not match the content: the file is damaged, or was edited (then delete this field)")


def _read_stated(field: Field, key: str) -> Any:
    """One number for all, or a list of one for each."""
    entries = field.items() if isinstance(field.value, list) else [field]
    values = [entry.number() if key in ("prior_mean", "part_cost") else entry.positive() for entry in entries]
    return values if isinstance(field.value, list) else values[0]


def _write_stated(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _by_component(field: Field, values: list[float], oracle: ArgmaxOracle, order: list[Hashable] | None) -> list[float]:
    """Numbers in the order of the components; edges on no route are dropped with theirs."""
    wanted = oracle.dim if order is None else len(order)
    if len(values) != wanted:
        field.fail(f"must have {wanted} numbers, one per {'component' if order is None else 'edge'}, got {len(values)}")
    if order is None:
        return values
    given = dict(zip(order, values, strict=True))
    labels: Any = oracle.components  # an undirected edge may be listed the other way round
    return [given[x] if x in given else given[x[1], x[0], *x[2:]] for x in labels]


def _read_arms(field: Field, oracle: ArgmaxOracle) -> Arms | None:
    if field.value is None:
        return None
    part = field.record(set(), {"components", "coefficients", "rows", "labels"})
    if (part["components"].value is None) == (part["rows"].value is None):
        field.fail('must have either "components" or "rows"')
    if part["rows"].value is None:
        return _read_units(part, oracle)
    if part["coefficients"].value is not None:
        part["coefficients"].fail('goes with "components" only')
    rows = np.array(part["rows"].matrix())
    if rows.shape[1] != oracle.dim:
        part["rows"].fail(f"rows must have {oracle.dim} numbers, one per component, got {rows.shape[1]}")
    labels = _arm_labels(part["labels"], len(rows))
    with part["rows"].checked():
        return Arms(rows, labels)


def _read_units(part: dict[str, Field], oracle: ArgmaxOracle) -> Arms:
    """Arms that measure one component each, without rows; with coefficients, a component may come more than once."""
    entries, factors = part["components"].items(), part["coefficients"]
    found = []
    if factors.value is None:
        part["components"].labels()  # refuses repetitions
    for entry in entries:
        with entry.checked():
            found.append(oracle.index(entry.label()))
    if factors.value is None:
        if part["labels"].value is not None:
            part["labels"].fail('goes with "rows" or "coefficients" only')
        return Arms.of(oracle, [oracle.components[i] for i in found])
    values = factors.numbers()
    if len(values) != len(found) or not all(values):
        factors.fail(f"must be {len(found)} numbers other than 0, one per entry of components")
    labels = _arm_labels(part["labels"], len(found))
    arms = Arms.units(oracle.dim, np.array(found), range(len(found)) if labels is None else labels)
    arms.coefficient = np.array(values)
    return arms


def _arm_labels(field: Field, count: int) -> list[Hashable] | None:
    labels = None if field.value is None else field.labels()
    if labels is not None and len(labels) != count:
        field.fail(f"must name {count} arms, got {len(labels)}")
    return labels


def _write_arms(arms: Arms, oracle: ArgmaxOracle) -> dict[str, Any] | None:
    labels = labels_as_json(None, arms.labels)
    if arms.matrix is not None:
        return {"rows": arms.matrix.tolist(), "labels": labels}
    named = tuple(oracle.components[i] for i in arms.component)
    if named == arms.labels and (arms.coefficient == 1).all():
        return None if named == oracle.components else {"components": as_json(named)}
    return {"components": as_json(named), "coefficients": arms.coefficient.tolist(), "labels": labels}


def _read_space(field: Field, dim: int) -> ParameterSpace | None:
    if field.value is None:
        return None
    part = field.record({"low", "high"}, set())
    ends = []
    for end, infinite in ((part["low"], -np.inf), (part["high"], np.inf)):
        entries = end.items() if isinstance(end.value, list) else [end]
        if isinstance(end.value, list) and len(entries) != dim:
            end.fail(f"must be a number, null, or a list of {dim}, one per component")
        values = [infinite if entry.value is None else entry.number() for entry in entries]
        ends.append(values if isinstance(end.value, list) else values[0])
    with field.checked():
        return Box(*ends)


def _write_space(space: ParameterSpace, oracle: ArgmaxOracle) -> dict[str, Any] | None:
    if space == space_for(oracle, None):
        return None
    if not isinstance(space, Box):
        if isinstance(space, RealSpace):
            return {"low": None, "high": None}
        raise InstanceError(f"space: a {type(space).__name__} cannot be stored, only a Box", "space")
    ends = {"low": space.low.tolist(), "high": space.high.tolist()}
    return {name: [*map(_finite, end)] if isinstance(end, list) else _finite(end) for name, end in ends.items()}


def _finite(end: float) -> float | None:
    return None if np.isinf(end) else end

"""What records say: their makers, and the checks by which they are believed.

The header holds the problem as the document of an instance, without the truth.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np

import combopeps
from combopeps.belief.scales import LARGEST_REWARD
from combopeps.campaign.storage import SCHEMA, Record, check_schema
from combopeps.errors import ParameterError
from combopeps.instances import Instance
from combopeps.instances.schema import from_document, to_document
from combopeps.oracles.base import ArgmaxOracle
from combopeps.policies.history import History
from combopeps.policies.ledger import Query
from combopeps.policies.registry import policy_class
from combopeps.problem import Problem
from combopeps.stopping.registry import RULES

_KEYS = {
    "ask": {"kind", "queries"},
    "tell": {"kind", "id", "arm", "label", "y"},
    "observe": {"kind", "arm", "label", "y"},
    "abandon": {"kind", "id"},
}
_OPTIONAL = {"observe": {"sem", "count"}}
_HEADER = {"kind", "schema", "problem", "policy", "delta", "stopping", "seed", "versions"}


def header(document: Record, policy: str, delta: float, stopping: str, seed: int) -> Record:
    """The first record of a campaign, with the versions of what chooses its queries."""
    versions = {"combopeps": combopeps.__version__, "numpy": np.__version__, "python": platform.python_version()}
    return {
        "kind": "campaign",
        "schema": SCHEMA,
        "problem": document,
        "policy": policy,
        "delta": delta,
        "stopping": stopping,
        "seed": seed,
        "versions": versions,
    }


def document_of(problem: Instance | Problem | ArgmaxOracle) -> tuple[Record, Problem]:
    """What the header stores, and the problem as it comes back from that; refused if it is not the same."""
    if not isinstance(problem, (Instance, Problem)):
        problem = Problem(problem)
    instance = problem if isinstance(problem, Instance) else Instance("campaign", problem)
    document = to_document(replace(instance, theta=None))
    again = from_document(document)
    if to_document(again) != document:
        raise ParameterError(
            "this problem would not come back the same from a file; was its oracle made with prune=False?"
        )
    return document, again.problem


def ask(queries: Sequence[tuple[int, int, Any]]) -> Record:
    """Queries handed out together: id, arm and label of each."""
    return {"kind": "ask", "queries": [{"id": i, "arm": arm, "label": plain(label)} for i, arm, label in queries]}


def tell(query: Query, y: float) -> Record:
    """The result of a query."""
    return {"kind": "tell", "id": query.id, "arm": query.arm, "label": plain(query.label), "y": y}


def observe(arm: int, label: Any, y: float, sem: float | None = None, count: int = 1) -> Record:
    """A measurement that nobody asked for; its standard error, and of how many it is the mean, where that is said."""
    return _observation(arm, plain(label), y, sem, count)


def observations(history: History, labels: Sequence[Any]) -> list[Record]:
    """Measurements that nobody asked for, of arms with these labels."""
    known = {arm: plain(labels[arm]) for arm in set(history.arms)}
    rows = zip(history.arms, history.ys, history.sems, history.counts, strict=True)
    return [_observation(arm, known[arm], y, sem, count) for arm, y, sem, count in rows]


def _observation(arm: int, label: Any, y: float, sem: float | None, count: int) -> Record:
    record = {"kind": "observe", "arm": arm, "label": label, "y": y}
    if sem is not None:
        record["sem"] = sem
    if count != 1:
        record["count"] = count
    return record


def abandon(query: Query) -> Record:
    """A query that will never be answered."""
    return {"kind": "abandon", "id": query.id}


def plain(label: Any) -> Any:
    """A label as JSON has it: tuples are lists, and what JSON does not know is its repr."""
    if isinstance(label, tuple):
        return [plain(part) for part in label]
    if hasattr(label, "item") and not hasattr(label, "__len__"):  # a numpy scalar
        label = label.item()
    if label is None or isinstance(label, (str, int)) or (isinstance(label, float) and isfinite(label)):
        return label
    return repr(label)


def check_header(record: Record) -> None:
    """Every field of a header is there and of the right type; ValueError otherwise."""
    check_schema(record)
    if record.keys() != _HEADER:
        raise ValueError(f"a header has the fields {', '.join(sorted(_HEADER))}")
    if not isinstance(record["problem"], dict) or not isinstance(record["versions"], dict):
        raise ValueError("problem and versions must be objects")
    if not isinstance(record["policy"], str) or not isinstance(record["stopping"], str):
        raise ValueError("policy and stopping must be names")
    if not whole(record["seed"]) or not isinstance(record["delta"], float):
        raise ValueError("seed must be a whole number, delta a fraction")


def check_options(header: Record) -> None:
    """What has the right type may still make no sense, or need a run; the rules' registry says which do."""
    policy_class(header["policy"])
    if not 0 < header["delta"] < 1:
        raise ParameterError(f"delta must lie in (0, 1), got {header['delta']!r}")
    name, fit = header["stopping"], [known for known, rule in RULES.items() if not rule.unfit_for_campaigns]
    if name in RULES and name not in fit:
        raise ParameterError(f'stopping "{name}" {RULES[name].unfit_for_campaigns}')
    if name not in fit:
        raise ParameterError(f"stopping must be one of {', '.join(fit)}, got {name!r:.40}")


def check_record(record: Record) -> str:
    """The kind of a record whose fields are the right ones; ValueError otherwise."""
    kind = record.get("kind")
    if not isinstance(kind, str) or record.keys() - _OPTIONAL.get(kind, set()) != _KEYS.get(kind):
        raise ValueError(f"a line of kind {kind!r:.40} has other fields, or does not exist")
    return kind


def whole(value: Any) -> bool:
    """A non-negative integer of a size that every JSON reader understands."""
    return type(value) is int and 0 <= value < 2**53


def number(value: Any, noise_std: float) -> float:
    """A measurement; ValueError if its square would not be finite."""
    if type(value) not in (int, float) or not abs(value) <= LARGEST_REWARD * noise_std:
        raise ValueError(f"y must be a number of at most {LARGEST_REWARD:g} standard deviations of the noise")
    return float(value)


def standard_error(record: Record) -> float | None:
    """How exact a measurement is, if it says so; ValueError for what is no standard error."""
    if "sem" not in record:
        return None
    sem = record["sem"]
    if type(sem) not in (int, float) or not 0 < sem < LARGEST_REWARD:
        raise ValueError("sem must be a number above 0")
    return float(sem)


def count(record: Record) -> int:
    """Of how many measurements y is the mean; ValueError for what is no such number."""
    number = record.get("count", 1)
    if not whole(number) or number < 1:
        raise ValueError("count must be a whole number, 1 or more")
    return int(number)

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
from combopeps.campaign.fingerprint import Own, own_or_none, reader, writer
from combopeps.campaign.hands import Holder
from combopeps.campaign.store import SCHEMA
from combopeps.campaign.store import Event as Record
from combopeps.errors import ParameterError
from combopeps.forms import plain
from combopeps.instances import Instance
from combopeps.instances.schema import from_document, to_document
from combopeps.oracles.base import ArgmaxOracle
from combopeps.policies.history import History
from combopeps.policies.ledger import ActionQuery, Query, Reading, Readings, check_reading
from combopeps.policies.registry import policy_class
from combopeps.problem import Problem
from combopeps.risk import check_epsilon
from combopeps.stopping.registry import RULES

_KEYS = {
    "ask": {"kind", "queries"},
    "tell": {"kind", "id", "arm", "label", "y"},
    "tell action": {"kind", "id", "arms", "labels", "ys"},
    "observe": {"kind", "arm", "label", "y"},
    "abandon": {"kind", "id"},
    "hand": {"kind", "ids", "client"},
}
_OPTIONAL = {
    "ask": {"client", "until", "rule"},
    "tell": {"sem"},
    "tell action": {"sems"},
    "observe": {"sem", "count", "key", "row"},
    "hand": {"until"},
}
_SIGNED = {"at", "by"}  # when an event was recorded, and by whom
_HEADER = {"kind", "schema", "problem", "policy", "delta", "stopping", "seed", "versions"}
_SOMETIMES = {"epsilon", "sweep"}  # in a header


def header(document: Record, policy: str, delta: float, stopping: str, seed: int, **options: Any) -> Record:
    """The first record of a campaign, with the versions of what chooses its queries, and options that are not usual.

    A release that does not know an option refuses a header that has it, and reads all others.
    """
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
        **options,
    }


def document_of(problem: Instance | Problem | ArgmaxOracle) -> tuple[Record, Problem, Own | None]:
    """What the header stores, the problem as it comes back from that, and its oracle where that is not in the file.

    Refused if it is not the same.
    """
    if not isinstance(problem, (Instance, Problem)):
        problem = Problem(problem)
    instance = problem if isinstance(problem, Instance) else Instance("campaign", problem)
    own = own_or_none(instance.oracle)
    document = to_document(replace(instance, theta=None, nature="normal"), writer(own))
    again = from_document(document, reader(own))
    if to_document(again, writer(own)) != document:
        raise ParameterError(
            "this problem would not come back the same from a file; was its oracle made with prune=False?"
        )
    return document, again.problem, own


def ask(queries: Sequence[Query], holder: Holder | None = None, **rule: Any) -> Record:
    """Queries handed out together: id, label, and the arm, or the action by the numbers of its components.

    And the `rule` after its look, if it looked.
    """
    return {"kind": "ask", "queries": [_asked(query) for query in queries], **_held(holder), **rule}


def hand(queries: Sequence[Query], holder: Holder) -> Record:
    """Open queries that somebody else has from now on, or the same one for longer."""
    return {"kind": "hand", "ids": [query.id for query in queries], **_held(holder)}


def _held(holder: Holder | None) -> Record:
    if holder is None:
        return {}
    return {"client": holder.client} | ({} if holder.until is None else {"until": holder.until})


def _asked(query: Query) -> Record:
    if isinstance(query, ActionQuery):
        return {"id": query.id, "action": np.flatnonzero(query.action).tolist(), "label": plain(query.label)}
    return {"id": query.id, "arm": query.arm, "label": plain_label(query.label)}


def tell(query: Query, reading: Reading | Readings) -> Record:
    """The result of a query; of an action, one for each of its parts, null for what was not read."""
    if isinstance(reading, Reading):
        return {"kind": "tell", "id": query.id, "arm": query.arm, "label": plain_label(query.label), **_said(reading)}
    said: Record = {"kind": "tell", "id": query.id, "arms": list(query.parts)}
    said["labels"] = [plain_label(label) for label in query.components]
    said["ys"] = [None if one is None else one.y for one in reading]
    sems = [None if one is None else one.sem for one in reading]
    return said if sems == [None] * len(sems) else said | {"sems": sems}


def readings_apart(record: Record) -> list[Record]:
    """What was told of an action, part by part: arm, label, y (None where nothing was read) and maybe sem.

    ValueError if these do not go together.
    """
    columns = [record[key] for key in ("arms", "labels", "ys", "sems") if key in record]
    if not all(isinstance(column, list) and len(column) == len(columns[0]) for column in columns):
        raise ValueError("arms, labels, ys and sems are lists, with one entry for each part of an action")
    rows = zip(*columns[:3], record.get("sems", [None] * len(columns[0])), strict=True)
    return [{"arm": arm, "label": label, "y": y} | ({} if sem is None else {"sem": sem}) for arm, label, y, sem in rows]


def observe(arm: int, label: Any, reading: Reading, key: str | None = None) -> Record:
    """A measurement that nobody asked for."""
    said: Record = {"kind": "observe", "arm": arm, "label": plain_label(label), **_said(reading)}
    return said if key is None else said | {"key": key}


def observations(history: History, labels: Sequence[Any], key: str | None = None) -> list[Record]:
    """Measurements that nobody asked for, of arms with these labels; with a key, each says which row of all it is."""
    known = {arm: plain_label(labels[arm]) for arm in set(history.arms)}
    rows = zip(history.arms, history.readings, strict=True)
    said: list[Record] = [{"kind": "observe", "arm": arm, "label": known[arm], **_said(one)} for arm, one in rows]
    if key is None:
        return said
    return [one | {"key": key} | ({"row": [i, len(said)]} if len(said) > 1 else {}) for i, one in enumerate(said)]


def _said(reading: Reading) -> Record:
    said: Record = {"y": reading.y}
    if reading.sem is not None:
        said["sem"] = reading.sem
    if reading.count != 1:
        said["count"] = reading.count
    return said


def abandon(query: Query) -> Record:
    """A query that will never be answered."""
    return {"kind": "abandon", "id": query.id}


def plain_label(label: Any) -> Any:
    """A label as JSON has it: tuples are lists, and what JSON does not know is its repr."""
    if isinstance(label, tuple):
        return [plain_label(part) for part in label]
    if hasattr(label, "item") and not hasattr(label, "__len__"):  # a numpy scalar
        label = label.item()
    if label is None or isinstance(label, (str, int)) or (isinstance(label, float) and isfinite(label)):
        return label
    return repr(label)


def check_schema(header: Record) -> None:
    """Is this the header of a campaign that this release reads? ValueError says why not."""
    schema = header.get("schema")
    if header.get("kind") != "campaign" or type(schema) is not int or schema < 1:
        raise ValueError("this is not the header of a campaign")
    if schema != SCHEMA:
        raise ValueError(
            f"the campaign has schema {schema}, and this release reads {SCHEMA}; use the one that wrote it"
        )


def check_header(record: Record) -> None:
    """Every field of a header is there and of the right type; ValueError otherwise."""
    check_schema(record)
    if record.keys() - _SOMETIMES - _SIGNED != _HEADER:
        raise ValueError(f"a header has the fields {', '.join(sorted(_HEADER))}, and may have an epsilon and a sweep")
    if not isinstance(record["problem"], dict) or not isinstance(record["versions"], dict):
        raise ValueError("problem and versions must be objects")
    if not isinstance(record["policy"], str) or not isinstance(record["stopping"], str):
        raise ValueError("policy and stopping must be names")
    if not whole(record.get("sweep", 1)) or record.get("sweep", 1) < 1:
        raise ValueError("sweep must be a whole number of at least 1")
    if not whole(record["seed"]) or not isinstance(record["delta"], float):
        raise ValueError("seed must be a whole number, delta a fraction")
    if not isinstance(record.get("epsilon", 0.0), float):
        raise ValueError("epsilon must be a number with a decimal point")


def check_options(header: Record) -> None:
    """What has the right type may still make no sense, or need a run; the rules' registry says which do."""
    policy_class(header["policy"])
    if not 0 < header["delta"] < 1:
        raise ParameterError(f"delta must lie in (0, 1), got {header['delta']!r}")
    check_epsilon(header.get("epsilon", 0.0))
    name, fit = header["stopping"], [known for known, rule in RULES.items() if not rule.unfit_for_campaigns]
    if name in RULES and name not in fit:
        raise ParameterError(f'stopping "{name}" {RULES[name].unfit_for_campaigns}')
    if name not in fit:
        raise ParameterError(f"stopping must be one of {', '.join(fit)}, got {name!r:.40}")


def check_record(record: Record) -> str:
    """The kind of a record whose fields are the right ones ("tell action" for an action); ValueError otherwise."""
    kind = record.get("kind")
    form = "tell action" if kind == "tell" and "arms" in record else kind
    if not isinstance(form, str) or record.keys() - _OPTIONAL.get(form, set()) - _SIGNED != _KEYS.get(form):
        raise ValueError(f"an event of kind {kind!r:.40} has other fields, or does not exist")
    return form


def whole(value: Any) -> bool:
    """A non-negative integer of a size that every JSON reader understands."""
    return type(value) is int and 0 <= value < 2**53


def reading(record: Record, noise: float, known: bool) -> Reading:
    """A result; ValueError if its square would not be finite, `ComboPepsError` if it is worth no sensible number."""
    y, sem, count = record["y"], record.get("sem"), record.get("count", 1)
    if type(y) not in (int, float) or not abs(y) <= LARGEST_REWARD * noise:
        raise ValueError(f"y must be a number of at most {LARGEST_REWARD:g} standard deviations of the noise")
    if len(record.keys() & {"sem", "count"}) == 0:
        return Reading(float(y))
    if type(record.get("sem", 1.0)) not in (int, float) or not whole(count):
        raise ValueError("sem must be a number, count a whole one")
    return check_reading(y, noise, sem, count, known=known)

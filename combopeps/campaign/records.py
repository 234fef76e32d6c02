"""Records: JSON encoding of the events of a campaign.

    campaign  schema, problem, policy, stopping, delta, seed, versions; epsilon and initial design where they are not 0
    ask       queries (id, measured, label); client and until, if there is a lease
    lease     ids, client; until
    tell      id, labels, ys; sems
    observe   arm, label, y; sem, count, key
    abandon   id
    look      rule: state of the stopping rule after it, serialised
    correct   event, ys; sems
    retract   event

Fields after the semicolon are optional. Every record also has `at`, the time at which it was stored, and `by`, its
author, if there is one. Arms are identified by their numbers; labels are stored for readers of an export, and are
compared with those of the problem. Decoding validates every field.
"""

from __future__ import annotations

import platform
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np

import combopeps
from combopeps.alternatives.error_probability import check_epsilon
from combopeps.campaign.checkpoint import pack, unpack
from combopeps.campaign.custom_oracle import CustomOracle, reader
from combopeps.errors import ParameterError
from combopeps.io.instance import Instance
from combopeps.io.instance_files import from_document, to_document
from combopeps.io.oracle_kinds import kind_of, write_oracle
from combopeps.oracles.base import ArgmaxOracle
from combopeps.policies.registry import policy_class
from combopeps.posterior.stated_values import LARGEST_REWARD
from combopeps.problem import Problem
from combopeps.session.events import (
    Abandoned,
    Asked,
    Corrected,
    Event,
    Lease,
    Leased,
    Looked,
    Observed,
    Retracted,
    Told,
    is_valid_name,
)
from combopeps.session.queries import Ledger, Query, QueryFactory, Reading, Readings, check_reading
from combopeps.stopping.registry import RULES
from combopeps.utils.formatting import to_json_data
from combopeps.utils.state_dict import StateDict
from combopeps.utils.validation import check_fraction

SCHEMA = 3
Record = dict[str, Any]
_MAX_INTEGER = 2**53  # integers below this are exact in every JSON parser


def _is_index(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MAX_INTEGER


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _is_time(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= sys.float_info.max


def _has_type(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: type(value) in kinds


def _is_id_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_index, value))


def _is_query_list(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(entry, dict)
            and entry.keys() == {"id", "measured", "label"}
            and _is_index(entry["id"])
            and isinstance(entry["measured"], list)
            for entry in value
        )
    )


# Checks of the fields, by kind of record. A field whose name ends in "?" is optional. Labels may have any type.
_FIELDS: dict[str, dict[str, Callable[[Any], bool]]] = {
    "campaign": {
        "schema": _is_index, "problem": _has_type(dict), "policy": _has_type(str), "delta": _has_type(float),
        "stopping": _has_type(str), "seed": _is_index, "versions": _has_type(dict), "epsilon?": _has_type(float),
        "initial_design?": lambda value: True,
    },
    "ask": {"queries": _is_query_list, "client?": is_valid_name, "until?": _is_time},
    "lease": {"ids": _is_id_list, "client": is_valid_name, "until?": _is_time},
    "tell": {"id": _is_index, "labels": _has_type(list), "ys": _has_type(list), "sems?": _has_type(list)},
    "observe": {
        "arm": _is_index, "label": lambda value: True, "y": _is_number, "sem?": _is_number, "count?": _is_index,
        "key?": is_valid_name,
    },
    "abandon": {"id": _is_index},
    "look": {"rule": _has_type(str)},
    "correct": {"event": _is_index, "ys": _has_type(list), "sems?": _has_type(list)},
    "retract": {"event": _is_index},
}  # fmt: skip
_COMMON = {"kind", "at", "by"}
_REQUIRED = {kind: {name for name in checks if name[-1] != "?"} for kind, checks in _FIELDS.items()}
_CHECKS = {kind: {name.rstrip("?"): check for name, check in checks.items()} for kind, checks in _FIELDS.items()}


def _check_fields(record: Mapping[str, Any]) -> str:
    """Return the kind of a record; raise `ValueError` unless it has the fields of its kind, each of its type."""
    kind: Any = record.get("kind")
    checks = _CHECKS.get(kind) if isinstance(kind, str) else None
    if checks is None or not _REQUIRED[kind] <= record.keys() <= checks.keys() | _COMMON:
        raise ValueError(f"a record of kind {kind!r:.40} has other fields, or there is no such kind")
    for name, check in checks.items():
        if name in record and not check(record[name]):
            raise ValueError(f"{name} of a record of kind {kind!r} cannot be {record[name]!r:.60}")
    return str(kind)


def header(document: Record, policy: str, delta: float, stopping: str, seed: int, **options: Any) -> Record:
    """Return the first record of a campaign, with the versions of the software that chooses its queries.

    Options are stored only if they are used, so that a release without an option reads all headers that do not use it.
    """
    versions = {"combopeps": combopeps.__version__, "numpy": np.__version__, "python": platform.python_version()}
    return {
        "kind": "campaign", "schema": SCHEMA, "problem": document, "policy": policy, "delta": delta,
        "stopping": stopping, "seed": seed, "versions": versions, **options,
    }  # fmt: skip


def encode_problem(problem: Instance | Problem | ArgmaxOracle) -> tuple[Record, Problem, CustomOracle | None]:
    """Return the document that a header stores, the problem read from it, and the oracle if it is user-defined."""
    if not isinstance(problem, (Instance, Problem)):
        problem = Problem(problem)
    instance = problem if isinstance(problem, Instance) else Instance("campaign", problem)
    custom = CustomOracle(instance.oracle) if kind_of(instance.oracle) is None else None
    write = write_oracle if custom is None else lambda _: custom.document
    document = to_document(replace(instance, theta=None, nature="normal"), write)
    stored = from_document(document, reader(custom))
    if to_document(stored, write) != document:
        raise ParameterError("this problem cannot be stored without a change; was its oracle made with prune=False?")
    return document, stored.problem, custom


def decode_problem(header: Record, custom: CustomOracle | None) -> Problem:
    """Return the problem of a header; raise an error if the header is invalid."""
    check_header(header)
    return from_document(header["problem"], reader(custom)).problem


def check_header(record: Mapping[str, Any]) -> None:
    """Raise `ValueError` unless a header has every field, each of the right type and with a valid value."""
    schema = record.get("schema")
    if record.get("kind") != "campaign" or not _is_index(schema) or schema == 0:
        raise ValueError("this is not the header of a campaign")
    if schema != SCHEMA:
        raise ValueError(
            f"the campaign has schema {schema}, and this release reads {SCHEMA}: use the release that wrote it"
        )
    _check_fields(record)
    if not _is_index(record.get("initial_design", 1)) or record.get("initial_design") == 0:
        raise ValueError("initial_design must be an integer of at least 1")
    policy_class(record["policy"])
    check_fraction("delta", record["delta"])
    check_epsilon(record.get("epsilon", 0.0))
    name, available = record["stopping"], [key for key, rule in RULES.items() if not rule.unfit_for_campaigns]
    if name in RULES and name not in available:
        raise ParameterError(f'stopping "{name}" {RULES[name].unfit_for_campaigns}')
    if name not in available:
        raise ParameterError(f"stopping must be one of {', '.join(available)}, got {name!r:.40}")


def encode(event: Event, labels: Sequence[Any], rule_state: StateDict | None = None) -> list[Record]:
    """Return the records of an event; `labels` are those of the arms, `rule_state` is the state after a look."""
    if isinstance(event, Told):
        query, results = event.query, _encode_readings(event.readings)
        return [{"kind": "tell", "id": query.id, "labels": [json_label(labels[arm]) for arm in query.arms]} | results]
    if isinstance(event, Asked):
        queries = [
            {"id": query.id, "measured": list(query.measured), "label": to_json_data(query.label)}
            for query in event.queries
        ]
        return [{"kind": "ask", "queries": queries} | ({} if event.lease is None else _encode_lease(event.lease))]
    if isinstance(event, Observed):
        names = {arm: json_label(labels[arm]) for arm in set(event.arms)}
        key = {} if event.key is None else {"key": event.key}
        rows = zip(event.arms, event.readings, strict=True)
        return [{"kind": "observe", "arm": arm, "label": names[arm]} | _encode_reading(one) | key for arm, one in rows]
    if isinstance(event, Leased):
        return [{"kind": "lease", "ids": list(event.ids)} | _encode_lease(event.lease)]
    if isinstance(event, Abandoned):
        return [{"kind": "abandon", "id": event.query.id}]
    if isinstance(event, Looked):
        assert rule_state is not None
        return [{"kind": "look", "rule": b64encode(pack(rule_state)).decode("ascii")}]
    if isinstance(event, Corrected):
        return [{"kind": "correct", "event": int(event.event)} | _encode_readings(event.readings)]
    return [{"kind": "retract", "event": int(event.event)}]


def _encode_readings(readings: Readings) -> Record:
    sems = [None if one is None else one.sem for one in readings]
    ys: Record = {"ys": [None if one is None else one.y for one in readings]}
    return ys if sems == [None] * len(sems) else ys | {"sems": sems}


def _encode_reading(reading: Reading) -> Record:
    fields: Record = {"y": reading.y}
    fields |= {} if reading.sem is None else {"sem": reading.sem}
    return fields if reading.count == 1 else fields | {"count": reading.count}


def _encode_lease(lease: Lease) -> Record:
    return {"client": lease.client} | ({} if lease.until is None else {"until": lease.until})


def json_label(label: Any) -> Any:
    """Return the JSON form of a label: tuples become lists, and types that JSON lacks become their repr."""
    if isinstance(label, tuple):
        return [json_label(part) for part in label]
    if hasattr(label, "item") and not hasattr(label, "__len__"):  # a numpy scalar
        label = label.item()
    if label is None or isinstance(label, (str, int)) or (isinstance(label, float) and isfinite(label)):
        return label
    return repr(label)


class Decoder:
    """Decode records to events; raise `ValueError` or `ComboPepsError` for an invalid record.

    A record may refer to queries of earlier records: apply each event before the next record is decoded.
    """

    def __init__(self, problem: Problem, queries: QueryFactory, ledger: Ledger) -> None:
        self._noise, self._labels = problem.noise.tolist(), problem.arms.labels
        self._is_noise_known, self._has_single_arms = problem.noise_std is not None, problem.actions is None
        self._queries, self._ledger = queries, ledger

    def decode(self, records: Sequence[Record]) -> Iterator[Event]:
        """Yield the events of records; consecutive observations with the same key are one event."""
        end = 0
        while end < len(records):
            record = records[end]
            kind = _check_fields(record)
            end += 1
            if kind != "observe":
                yield self._decode_event(kind, record)
                continue
            arms, readings, key = list[int](), list[Reading](), record.get("key")
            self._add_observation(record, arms, readings)
            while end < len(records) and records[end].get("kind") == "observe" and records[end].get("key") == key:
                _check_fields(records[end])
                self._add_observation(records[end], arms, readings)
                end += 1
            yield Observed(arms, readings, key)

    def _decode_event(self, kind: str, record: Record) -> Event:
        if kind == "campaign":
            raise ValueError("a campaign has one header")
        if kind == "tell":
            query = self._ledger.open.get(record["id"])
            if query is None:
                raise ValueError(f"query {record['id']!r:.20} is not open")
            if record["labels"] != [json_label(label) for label in query.components]:
                raise ValueError(f"query {query.id} was for other components than {record['labels']!r:.60}")
            return Told(query, self._decode_readings(query.arms, record))
        if kind == "ask":
            if "client" not in record and "until" in record:
                raise ValueError("until requires client")
            lease = _decode_lease(record) if "client" in record else None
            return Asked([self._decode_query(entry) for entry in record["queries"]], lease)
        if kind == "lease":
            return Leased(record["ids"], _decode_lease(record))
        if kind == "abandon":
            return Abandoned(self._ledger.find(record["id"]))
        if kind == "look":
            return Looked(unpack(b64decode(record["rule"], validate=True), any_code=True))
        results = self._ledger.results
        rows = results.rows_of_event(record["event"])
        if not len(rows):
            raise ValueError(f"event {record['event']!r:.20} recorded no result")
        if kind == "retract":
            return Retracted(record["event"])
        readings = self._decode_readings(results.arm[rows].tolist(), record)
        count = results.count.item(rows[0])
        if results.query.item(rows[0]) < 0 and count > 1:
            readings = tuple(one and replace(one, count=count) for one in readings)
        return Corrected(record["event"], readings)

    def _decode_query(self, entry: Record) -> Query:
        query = self._queries.restored(entry["id"], entry["measured"])
        if to_json_data(query.label) != entry["label"]:
            raise ValueError(f"query {query.id} is for {to_json_data(query.label)!r:.60}, not {entry['label']!r:.60}")
        return query

    def _decode_readings(self, arms: Sequence[int], record: Record) -> Readings:
        ys, sems = record["ys"], record.get("sems", [None] * len(arms))
        if not len(ys) == len(sems) == len(arms):
            raise ValueError("results are lists, with one entry for each arm")
        if self._has_single_arms and ys[0] is None:
            raise ValueError("the result of a single measurement is a number")
        rows = zip(arms, ys, sems, strict=True)
        return tuple(None if y is None else self._decode_reading(arm, y, sem) for arm, y, sem in rows)

    def _add_observation(self, record: Record, arms: list[int], readings: list[Reading]) -> None:
        """Append arm and reading of an observation to the lists."""
        arm = record["arm"]
        if arm >= len(self._labels) or json_label(self._labels[arm]) != record["label"]:
            raise ValueError(f"arm {arm} is not {record['label']!r:.60}")
        arms.append(arm)
        readings.append(self._decode_reading(arm, record["y"], record.get("sem"), record.get("count", 1)))

    def _decode_reading(self, arm: int, y: Any, sem: Any = None, count: int = 1) -> Reading:
        noise = self._noise[arm]
        if type(y) is float and sem is None and count == 1 and abs(y) <= LARGEST_REWARD * noise:
            return Reading(y)  # fast path: a plain value in the valid range
        if not _is_number(y) or not (sem is None or _is_number(sem)):
            raise ValueError("a result, and its standard error, are numbers")
        return check_reading(y, noise, sem, count, known=self._is_noise_known)


def _decode_lease(record: Record) -> Lease:
    until = record.get("until")
    return Lease(record["client"], None if until is None else float(until))

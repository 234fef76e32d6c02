"""Records: the events of a campaign as JSON objects.

    campaign  schema, problem, policy, stopping, delta, seed, versions; epsilon and sweep where they are not 0
    ask       queries (id, measured, label); client and until, if there is a lease
    lease     ids, client; until
    tell      id, labels, ys; sems
    observe   arm, label, y; sem, count, key
    abandon   id
    look      rule: state of the stopping rule after it, serialised
    correct   event, ys; sems
    retract   event

Every record also has `at`, the time at which it was stored, and `by`, its author, if there is one. Labels are for
readers of an export; numbers decide. Decoding a record checks everything that its encoding could have got wrong.
"""

from __future__ import annotations

import platform
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np

import combopeps
from combopeps.belief.scales import LARGEST_REWARD
from combopeps.campaign.checkpoint import pack, unpack
from combopeps.campaign.fingerprint import Own, own_or_none, reader, writer
from combopeps.campaign.store import SCHEMA
from combopeps.errors import ParameterError
from combopeps.forms import plain
from combopeps.instances import Instance
from combopeps.instances.schema import from_document, to_document
from combopeps.oracles.base import ArgmaxOracle
from combopeps.policies.registry import policy_class
from combopeps.problem import Problem
from combopeps.risk import check_epsilon
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
    is_name,
)
from combopeps.session.queries import Ledger, QueryFactory, Reading, Readings, check_reading, measured_numbers
from combopeps.state_dict import StateDict
from combopeps.stopping.registry import RULES

Record = dict[str, Any]
_FIELDS = {
    "ask": ({"queries"}, {"client", "until"}),
    "lease": ({"ids", "client"}, {"until"}),
    "tell": ({"id", "labels", "ys"}, {"sems"}),
    "observe": ({"arm", "label", "y"}, {"sem", "count", "key"}),
    "abandon": ({"id"}, set()),
    "look": ({"rule"}, set()),
    "correct": ({"event", "ys"}, {"sems"}),
    "retract": ({"event"}, set()),
}
_SIGNED = {"kind", "at", "by"}
_HEADER = {"schema", "problem", "policy", "delta", "stopping", "seed", "versions"}


def header(document: Record, policy: str, delta: float, stopping: str, seed: int, **options: Any) -> Record:
    """Return the first record of a campaign, with the versions of what chooses its queries.

    A release that does not know an option refuses a header that has it, and reads all others.
    """
    versions = {"combopeps": combopeps.__version__, "numpy": np.__version__, "python": platform.python_version()}
    return {
        "kind": "campaign", "schema": SCHEMA, "problem": document, "policy": policy, "delta": delta,
        "stopping": stopping, "seed": seed, "versions": versions, **options,
    }  # fmt: skip


def document_of(problem: Instance | Problem | ArgmaxOracle) -> tuple[Record, Problem, Own | None]:
    """Return what the header stores, the problem as it is read from that, and its oracle if a file cannot hold it."""
    if not isinstance(problem, (Instance, Problem)):
        problem = Problem(problem)
    instance = problem if isinstance(problem, Instance) else Instance("campaign", problem)
    own = own_or_none(instance.oracle)
    document = to_document(replace(instance, theta=None, nature="normal"), writer(own))
    again = from_document(document, reader(own))
    if to_document(again, writer(own)) != document:
        raise ParameterError("this problem cannot be stored without a change; was its oracle made with prune=False?")
    return document, again.problem, own


def check_header(record: Mapping[str, Any]) -> None:
    """Raise ValueError unless every field of a header is there, of the right type, and can be used."""
    schema = record.get("schema")
    if record.get("kind") != "campaign" or type(schema) is not int or schema < 1:
        raise ValueError("this is not the header of a campaign")
    if schema != SCHEMA:
        raise ValueError(
            f"the campaign has schema {schema}, and this release reads {SCHEMA}: use the one that wrote it"
        )
    if record.keys() - {"epsilon", "sweep"} - _SIGNED != _HEADER:
        raise ValueError(f"a header has the fields {', '.join(sorted(_HEADER))}, and may have an epsilon and a sweep")
    if not isinstance(record["problem"], dict) or not isinstance(record["versions"], dict):
        raise ValueError("problem and versions must be objects")
    if not isinstance(record["policy"], str) or not isinstance(record["stopping"], str):
        raise ValueError("policy and stopping must be names")
    if not _is_index(record.get("sweep", 1)) or record.get("sweep", 1) < 1:
        raise ValueError("sweep must be an integer of at least 1")
    if not _is_index(record["seed"]) or not isinstance(record["delta"], float):
        raise ValueError("seed must be an integer, delta a fraction")
    if not isinstance(record.get("epsilon", 0.0), float):
        raise ValueError("epsilon must be a number with a decimal point")
    policy_class(record["policy"])
    if not 0 < record["delta"] < 1:
        raise ParameterError(f"delta must lie in (0, 1), got {record['delta']!r}")
    check_epsilon(record.get("epsilon", 0.0))
    name, usable = record["stopping"], [known for known, rule in RULES.items() if not rule.unfit_for_campaigns]
    if name in RULES and name not in usable:
        raise ParameterError(f'stopping "{name}" {RULES[name].unfit_for_campaigns}')
    if name not in usable:
        raise ParameterError(f"stopping must be one of {', '.join(usable)}, got {name!r:.40}")


def encode(event: Event, labels: Sequence[Any], rule_state: StateDict | None = None) -> list[Record]:
    """Return the records of an event; `labels` are those of the arms, `rule_state` that after a look."""
    if isinstance(event, Told):
        query, said = event.query, _encoded(event.readings)
        return [{"kind": "tell", "id": query.id, "labels": [plain_label(label) for label in query.components]} | said]
    if isinstance(event, Asked):
        queries = [
            {"id": query.id, "measured": list(measured_numbers(query)), "label": plain(query.label)}
            for query in event.queries
        ]
        return [{"kind": "ask", "queries": queries} | ({} if event.lease is None else _leased(event.lease))]
    if isinstance(event, Observed):
        known = {arm: plain_label(labels[arm]) for arm in set(event.arms)}
        key = {} if event.key is None else {"key": event.key}
        rows = zip(event.arms, event.readings, strict=True)
        return [{"kind": "observe", "arm": arm, "label": known[arm]} | _observed(one) | key for arm, one in rows]
    if isinstance(event, Leased):
        return [{"kind": "lease", "ids": list(event.ids)} | _leased(event.lease)]
    if isinstance(event, Abandoned):
        return [{"kind": "abandon", "id": event.query.id}]
    if isinstance(event, Looked):
        assert rule_state is not None
        return [{"kind": "look", "rule": b64encode(pack(rule_state)).decode("ascii")}]
    if isinstance(event, Corrected):
        return [{"kind": "correct", "event": event.event} | _encoded(event.readings)]
    return [{"kind": "retract", "event": event.event}]


def _encoded(readings: Readings) -> Record:
    sems = [None if one is None else one.sem for one in readings]
    ys: Record = {"ys": [None if one is None else one.y for one in readings]}
    return ys if sems == [None] * len(sems) else ys | {"sems": sems}


def _observed(reading: Reading) -> Record:
    given: Record = {"y": reading.y}
    given |= {} if reading.sem is None else {"sem": reading.sem}
    return given if reading.count == 1 else given | {"count": reading.count}


def _leased(lease: Lease) -> Record:
    return {"client": lease.client} | ({} if lease.until is None else {"until": lease.until})


def plain_label(label: Any) -> Any:
    """Return a label as JSON has it: tuples are lists, and what JSON does not know is its repr."""
    if isinstance(label, tuple):
        return [plain_label(part) for part in label]
    if hasattr(label, "item") and not hasattr(label, "__len__"):  # a numpy scalar
        label = label.item()
    if label is None or isinstance(label, (str, int)) or (isinstance(label, float) and isfinite(label)):
        return label
    return repr(label)


class Decoder:
    """Events of records; ValueError or `ComboPepsError` for a record that no encoding of an event gives.

    A record may refer to queries that earlier ones have opened: decode each after those before it were applied.
    """

    def __init__(self, problem: Problem, queries: QueryFactory, ledger: Ledger) -> None:
        self._arms, self._noise = len(problem.arms), problem.noise.tolist()
        self._noise_known, self._single = problem.noise_std is not None, problem.actions is None
        self._labels = problem.arms.labels
        self._queries, self._ledger = queries, ledger

    def decode(self, records: Sequence[Record]) -> Iterator[Event]:
        """Yield the events of records; consecutive observations with the same key are one event."""
        end = 0
        while end < len(records):
            record = records[end]
            kind = _checked_kind(record)
            end += 1
            if kind != "observe":
                yield self._event(kind, record)
                continue
            arms, readings, key = list[int](), list[Reading](), record.get("key")
            if key is not None and not is_name(key):
                raise ValueError(f"key {key!r:.80} of an observation is no short text")
            self._observation(record, arms, readings)
            while end < len(records) and records[end].get("kind") == "observe" and records[end].get("key") == key:
                _checked_kind(records[end])
                self._observation(records[end], arms, readings)
                end += 1
            yield Observed(arms, readings, key)

    def _event(self, kind: str, record: Record) -> Event:
        if kind == "tell":
            query = self._ledger.open.get(record["id"]) if _is_index(record["id"]) else None
            if query is None:
                raise ValueError(f"query {record['id']!r:.20} is not open")
            if record["labels"] != [plain_label(label) for label in query.components]:
                raise ValueError(f"query {query.id} was for other components than {record['labels']!r:.60}")
            return Told(query, self._readings(query.arms, record))
        if kind == "ask":
            return Asked(self._asked(record["queries"]), _lease(record))
        if kind == "lease":
            lease, ids = _lease(record), record["ids"]
            if lease is None or not isinstance(ids, list) or not ids or not all(map(_is_index, ids)):
                raise ValueError("a lease has a client, and the ids of some queries")
            return Leased(ids, lease)
        if kind == "abandon":
            if not _is_index(record["id"]):
                raise ValueError("an id is an integer")
            return Abandoned(self._ledger.find(record["id"]))
        if kind == "look":
            if not isinstance(record["rule"], str):
                raise ValueError("the state of a rule is a text")
            return Looked(unpack(b64decode(record["rule"], validate=True), any_code=True))
        results = self._ledger.results
        rows = results.rows_of_event(record["event"]) if _is_index(record["event"]) else np.zeros(0, dtype=np.intp)
        if not len(rows):
            raise ValueError(f"event {record['event']!r:.20} recorded no result")
        if kind == "retract":
            return Retracted(record["event"])
        readings = self._readings(results.arm[rows].tolist(), record)
        count = results.count.item(rows[0])
        if results.query.item(rows[0]) < 0 and count > 1:
            readings = tuple(one and replace(one, count=count) for one in readings)
        return Corrected(record["event"], readings)

    def _asked(self, entries: Any) -> list[Any]:
        if not isinstance(entries, list) or not entries:
            raise ValueError("an ask has a list of queries")
        queries = []
        for entry in entries:
            if not isinstance(entry, dict) or entry.keys() != {"id", "measured", "label"} or not _is_index(entry["id"]):
                raise ValueError("a query has an id, what is measured, and a label")
            if not isinstance(entry["measured"], list):
                raise ValueError("what a query measures is a list of numbers")
            query = self._queries.restored(entry["id"], entry["measured"])
            if plain(query.label) != entry["label"]:
                raise ValueError(f"query {query.id} is for {plain(query.label)!r:.60}, not {entry['label']!r:.60}")
            queries.append(query)
        return queries

    def _readings(self, arms: Sequence[int], record: Record) -> Readings:
        ys, sems = record["ys"], record.get("sems", [None] * len(arms))
        if not all(isinstance(column, list) and len(column) == len(arms) for column in (ys, sems)):
            raise ValueError("results are lists, with one entry for each arm")
        if self._single and ys[0] is None:
            raise ValueError("the result of a single measurement is a number")
        rows = zip(arms, ys, sems, strict=True)
        return tuple(None if y is None else self._reading(arm, y, sem) for arm, y, sem in rows)

    def _observation(self, record: Record, arms: list[int], readings: list[Reading]) -> None:
        arm, count = record["arm"], record.get("count", 1)
        if not _is_index(arm) or arm >= self._arms:
            raise ValueError(f"arm {arm!r:.20} does not exist")
        if plain_label(self._labels[arm]) != record["label"]:
            raise ValueError(f"arm {arm} is called otherwise than {record['label']!r:.60}")
        if not _is_index(count):
            raise ValueError("count must be an integer")
        arms.append(arm)
        readings.append(self._reading(arm, record["y"], record.get("sem"), count))

    def _reading(self, arm: int, y: Any, sem: Any = None, count: int = 1) -> Reading:
        noise = self._noise[arm]
        if type(y) not in (int, float) or not abs(y) <= LARGEST_REWARD * noise:
            raise ValueError(f"y must be a number of at most {LARGEST_REWARD:g} standard deviations of the noise")
        if sem is None and count == 1:
            return Reading(float(y))
        if sem is not None and type(sem) not in (int, float):
            raise ValueError("sem must be a number")
        return check_reading(y, noise, sem, count, known=self._noise_known)


def _checked_kind(record: Record) -> str:
    """Return the kind of a record whose fields are the right ones."""
    kind = record.get("kind")
    required, optional = _FIELDS.get(kind, (None, set())) if isinstance(kind, str) else (None, set())
    if required is None or record.keys() - optional - _SIGNED != required:
        raise ValueError(f"a record of kind {kind!r:.40} has other fields, or does not exist")
    if any(record[name] is None for name in optional & record.keys()):
        raise ValueError("a field that is not used is left out")
    return str(kind)


def _lease(record: Record) -> Lease | None:
    if "client" not in record:
        if "until" in record:
            raise ValueError("a deadline belongs to a client")
        return None
    if not is_name(record["client"]):
        raise ValueError("a client has a short name")
    until: Any = record.get("until")
    if until is not None and (type(until) not in (int, float) or not (isfinite(until) and until >= 0)):
        raise ValueError("until must be a Unix time")
    return Lease(record["client"], None if until is None else float(until))


def _is_index(value: Any) -> bool:
    """Whether a value is a non-negative integer of a size that every JSON reader understands."""
    return type(value) is int and 0 <= value < 2**53

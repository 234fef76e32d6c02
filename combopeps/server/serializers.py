"""JSON of queries, results and statuses, in both directions.

Answers travel as vectors and arms as numbers, so that a client decodes them with the problem's own labels, tuples and
numbers included; labels beside them are for readers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any, TypeVar

import numpy as np

from combopeps.belief import NoiseEstimate
from combopeps.campaign.records import plain_label
from combopeps.errors import RewardError
from combopeps.forms import plain
from combopeps.oracles.base import Array
from combopeps.policies.base import Policy
from combopeps.problem import Problem
from combopeps.session.events import Lease, check_name
from combopeps.session.queries import (
    Query,
    QueryFactory,
    Reading,
    ResultReader,
    check_reward,
    measured_numbers,
)
from combopeps.session.result import Status, TopAnswer
from combopeps.session.session import Measurement, Session
from combopeps.state_dict import flag, text, whole
from combopeps.tables.written import as_label, label_text

Json = dict[str, Any]
_T = TypeVar("_T")


def dumped(document: Any) -> bytes:
    """Serialise JSON as the server sends it."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


def query_json(query: Query, lease: Lease | None = None) -> Json:
    """A query: id, label, what is to be read, what is measured in numbers, and its lease."""
    return {
        "id": query.id, "label": plain(query.label), "components": plain(query.components),
        "measured": list(measured_numbers(query)), "is_action": query.action is not None,
        "client": None if lease is None else lease.client, "until": None if lease is None else lease.until,
    }  # fmt: skip


def status_json(session: Session, status: Status) -> Json:
    """A status, with answers as vectors beside their names: [component, entry] pairs."""
    oracle = session.problem.oracle
    runner_up = None if status.runner_up is None else oracle.encode(status.runner_up)
    return {
        "answer": plain(status.answer),
        "z": entries(status.z),
        "runner_up": plain(status.runner_up),
        "runner_up_z": None if runner_up is None else entries(runner_up),
        "error_probability": plain(status.error_probability),
        "error_interval": [*status.error_interval],
        "top_answers": plain(status.top_answers),
        "top_answers_z": [entries(one.z) for one in status.top_answers],
        "delta": status.delta,
        "epsilon": status.epsilon,
        "stop": bool(status.stop),
        "rule": status.rule,
        "claim": status.claim,
        "samples": status.samples,
        "actions": status.actions,
        "cost": status.cost,
        "open": [query_json(query, status.leases.get(query.id)) for query in status.open_queries],
        "pulls": [[plain(label), int(count)] for label, count in status.pulls.items() if count],
        "corrections": status.corrections,
        "warning": status.warning,
        "noise_estimate": plain(status.noise_estimate),
    }


def measurement_json(measurement: Measurement) -> list[Any]:
    """A recorded result: event, query, label, y, sem, count, retracted."""
    label = plain_label(measurement.label)
    given = [measurement.y, measurement.sem, measurement.count, measurement.retracted]
    return [measurement.event, measurement.query, label, *given]


def sums_json(policy: Policy) -> Json:
    """Sufficient statistics of all arms that were measured."""
    arms, belief = np.flatnonzero(policy.pulls[0]), policy.belief
    sums = {name: getattr(policy, name)[0, arms].tolist() for name in ("pulls", "weights", "totals")}
    return {"arms": arms.tolist(), **sums, "sigma": belief.sigma.item(0), "dof": plain(belief.dof.item(0))}


def entries(z: Any) -> list[list[Any]]:
    """The non-zero entries of an answer."""
    vector = np.asarray(z)
    return [[int(i), float(vector[i])] for i in np.flatnonzero(vector)]


class Deserializer:
    """Objects of a problem from the JSON of its server, and results as the server takes them."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._queries, self.reader = QueryFactory(problem), ResultReader(problem)
        self._labels = {_text(plain(label)): label for label in problem.arms.labels}

    def query(self, given: Json) -> Query:
        """A query, equal to that of the campaign itself."""
        return self._queries.restored(whole(given["id"]), read_list(given["measured"]))

    def queries(self, given: Any) -> list[Query]:
        """Several queries."""
        return [self.query(one) for one in read_list(given)]

    def lease(self, given: Json) -> Lease | None:
        """The lease of a query."""
        if given["client"] is None:
            return None
        return Lease(check_name("client", given["client"]), _optional(_float, given["until"]))

    def leases(self, queries: Any) -> dict[int, Lease]:
        """The leases of queries that have one, by id."""
        return {whole(given["id"]): lease for given in read_list(queries) if (lease := self.lease(given))}

    def status(self, given: Json) -> Status:
        """The status of a campaign."""
        oracle, z, noise = self.problem.oracle, self._vector(given["z"]), given["noise_estimate"]
        runner_up, pulls = given["runner_up_z"], dict.fromkeys(self.problem.arms.labels, 0)
        pulls |= {self._labels[_text(label)]: whole(count) for label, count in read_list(given["pulls"])}
        return Status(
            z=z,
            answer=oracle.decode(z),
            runner_up=None if runner_up is None else oracle.decode(self._vector(runner_up)),
            error_probability=_probability(given["error_probability"]),
            error_interval=_interval(given["error_interval"]),
            top_answers=[
                self._top_answer(*one)
                for one in zip(read_list(given["top_answers"]), read_list(given["top_answers_z"]), strict=True)
            ],
            delta=_float(given["delta"]),
            epsilon=_float(given["epsilon"]),
            stop=flag(given["stop"]),
            rule=text(given["rule"]),
            claim=text(given["claim"]),
            samples=whole(given["samples"]),
            pulls=pulls,
            open_queries=self.queries(given["open"]),
            warning=text(given["warning"]),
            noise_estimate=None if noise is None else _noise_estimate(noise),
            actions=_optional(whole, given["actions"]),
            cost=_float(given["cost"]),
            leases=self.leases(given["open"]),
            corrections=whole(given["corrections"]),
        )

    def _top_answer(self, given: Json, z_entries: Any) -> TopAnswer:
        z = self._vector(z_entries)
        probability, interval = _probability(given["probability"]), _interval(given["interval"])
        return TopAnswer(self.problem.oracle.decode(z), z, probability, interval)

    def measurement(self, row: list[Any]) -> Measurement:
        """A recorded result."""
        event, query, label, y, sem, count, retracted = row
        given = _float(y), _optional(_float, sem), whole(count), flag(retracted)
        return Measurement(whole(event), _optional(whole, query), self._labels[_text(label)], *given)

    def learn(self, policy: Policy, sums: Json) -> None:
        """Update a policy that has learnt nothing with sufficient statistics."""
        arms, pulls = (
            np.array([whole(one) for one in read_list(sums[name])], dtype=np.intp) for name in ("arms", "pulls")
        )
        weights, totals = (np.array([_float(one) for one in read_list(sums[name])]) for name in ("weights", "totals"))
        sigma, dof = _float(sums["sigma"]), _optional(_float, sums["dof"])
        if len(arms) != len(weights) or (weights <= 0.0).any():
            raise ValueError("of every arm there are pulls, a positive weight and a total")
        if not len(arms):
            return
        policy.learn_many(arms, totals / weights * self.problem.noise[arms], weights, pulls)
        if self.problem.noise_std is None or self.problem.prior_is_estimated:
            policy.restate(np.array([sigma]), np.array([np.inf if dof is None else dof]))

    def result(self, query: Query | int, y: Any, sem: Any = None) -> Json:
        """A result as the server takes it; what can be seen to be wrong here is refused as in a campaign."""
        if isinstance(query, Query):
            readings = self.reader.result(query, y, sem)
            if query.action is None and readings[0] is not None:
                return {"id": query.id} | _given(readings[0])
            return {"id": query.id, "values": [None if one is None else _pair(one.y, one.sem) for one in readings]}
        return {"id": query} | self.values(y, sem)

    def values(self, y: Any, sem: Any = None) -> Json:
        """A result whose query is not known here, as far as it can be checked."""
        if self.problem.actions is None:
            given = {"value": check_reward(y), "sem": _number(sem)}
            return {key: value for key, value in given.items() if value is not None}
        if sem is not None:
            raise RewardError("an action has several results: give (value, sem) for each of them, not one sem")
        if isinstance(y, Mapping):
            labels = [self.problem.arms.labels[self.reader.arm(as_label(label))] for label in y]
            return {
                "values": {label_text(label): _part(value) for label, value in zip(labels, y.values(), strict=True)}
            }
        return {"values": [_part(value) for value in y] if isinstance(y, Iterable) else y}

    def observation(self, arm: int, reading: Reading) -> Json:
        """An observation as the server takes it."""
        given = {"label": plain_label(self.problem.arms.labels[arm])} | _given(reading)
        return given if reading.count == 1 else given | {"count": reading.count}

    def _vector(self, z_entries: Any) -> Array:
        z = np.zeros(self.problem.oracle.dim)
        for number, value in read_list(z_entries):
            z[whole(number)] = _float(value)
        return z


def _given(reading: Reading) -> Json:
    return {"value": reading.y} | ({} if reading.sem is None else {"sem": reading.sem})


def _pair(y: float, sem: float | None) -> Any:
    return y if sem is None else [y, sem]


def _part(value: Any) -> Any:
    """One result of an action: a number, [number, sem], or nothing."""
    if value is None:
        return None
    y, *sem = value if isinstance(value, tuple) else (value,)
    return _pair(check_reward(y), _number(sem[0]) if sem else None)


def _number(value: Any) -> Any:
    """A number of numpy as one of JSON; the server checks everything else."""
    return value.item() if isinstance(value, np.generic) else value


def _probability(given: Any) -> float:
    return float("nan") if given is None else _float(given)


def _interval(given: Any) -> tuple[float, float]:
    low, high = given
    return _float(low), _float(high)


def _noise_estimate(given: Json) -> NoiseEstimate:
    value, low, high = (_float(given[name]) for name in ("value", "low", "high"))
    return NoiseEstimate(value, low, high, whole(given["dof"]))


def _optional(read: Callable[[Any], _T], given: Any) -> _T | None:
    return None if given is None else read(given)


def _float(given: Any) -> float:
    if type(given) not in (int, float) or not isfinite(given):
        raise ValueError(f"a number is required, got {given!r:.40}")
    return float(given)


def read_list(given: Any) -> list[Any]:
    """Return a list of a response, or raise ValueError."""
    if type(given) is not list:
        raise ValueError(f"a list is required, got {given!r:.40}")
    return given


def _text(given: Any) -> str:
    return json.dumps(given)

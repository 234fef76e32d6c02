"""`Serializer`: read the responses of a campaign server as objects, and write results as request bodies."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import fields
from math import inf, isfinite
from typing import Any

import numpy as np

from combopeps.campaign.records import json_label
from combopeps.errors import LabelError, RewardError
from combopeps.oracles.base import Array
from combopeps.policies.base import Policy
from combopeps.posterior.noise_level import NoiseEstimate
from combopeps.problem import Problem
from combopeps.server import schemas
from combopeps.session.events import Lease, check_name
from combopeps.session.queries import Query, QueryFactory, Reading, ResultReader, check_reward
from combopeps.session.reports import Measurement
from combopeps.session.result import Status, TopAnswer
from combopeps.utils.formatting import short_repr, to_json_data
from combopeps.utils.label_format import as_label, label_text
from combopeps.utils.validation import as_float

_MAY_BE_NAN = (
    "error_probability", "value", "value_std", "runner_up_value", "runner_up_value_std", "gap", "gap_std",
    "expected_loss",
)  # fmt: skip


class Serializer:
    """Reader of responses and writer of request bodies for a problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._queries, self.result_reader = QueryFactory(problem), ResultReader(problem)
        self._labels = {json.dumps(to_json_data(label)): label for label in problem.arms.labels}

    def client(self, content: bytes) -> str | None:
        """Read the name that belongs to the token, None for a token without a name."""
        name = schemas.Me.read(content).client
        return None if name is None else check_name("client", name)

    def queries(self, content: bytes, n: int | None = None) -> list[Query]:
        """Read queries, which equal those of the campaign; raise `ValueError` unless there are n."""
        queries = self._restored(schemas.Queries.read(content).queries)
        if n not in (None, len(queries)):
            raise ValueError(f"{len(queries)} queries instead of {n}")
        return queries

    def status(self, content: bytes) -> Status:
        """Read a status."""
        parsed, oracle = schemas.Status.read(content), self.problem.oracle
        z, pulls, noise = self._vector(parsed.z), dict.fromkeys(self.problem.arms.labels, 0), parsed.noise_estimate
        pulls |= {self._label(label): count for label, count in parsed.pulls}
        top_answers = [
            TopAnswer(
                oracle.decode(vector),
                vector,
                _or_nan(one.probability),
                one.interval,
                _or_nan(one.value),
                _or_nan(one.value_std),
            )
            for one, vector in zip(parsed.top_answers, map(self._vector, parsed.top_answers_z), strict=True)
        ]
        low, high = parsed.loss_interval
        converted: dict[str, Any] = {
            "z": z,
            "answer": oracle.decode(z),
            "runner_up": None if parsed.runner_up_z is None else oracle.decode(self._vector(parsed.runner_up_z)),
            "top_answers": top_answers,
            "inclusion": self._vector(parsed.inclusion),
            "loss_interval": (low, inf if high is None else high),
            "pulls": pulls,
            "open_queries": self._restored(parsed.open),
            "leases": _leases(parsed.open),
            "noise_estimate": None if noise is None else NoiseEstimate(**dict(noise)),
        }
        converted |= {name: _or_nan(getattr(parsed, name)) for name in _MAY_BE_NAN}
        unchanged = [field.name for field in fields(Status) if field.name not in converted]
        return Status(**{name: getattr(parsed, name) for name in unchanged}, **converted)

    def samples(self, content: bytes) -> int:
        """Read the number of measurements from an acknowledgement or a list of open queries."""
        return schemas.Counted.read(content).samples

    def leases(self, content: bytes) -> dict[int, Lease]:
        """Read the leases of open queries, by query id."""
        return _leases(schemas.Queries.read(content).queries)

    def actions(self, content: bytes) -> int | None:
        """Read the number of actions measured."""
        return schemas.Open.read(content).actions

    def measurements(self, content: bytes) -> list[Measurement]:
        """Read all recorded results."""
        rows = schemas.Measurements.read(content).measurements
        return [
            Measurement(event, query, self._label(label), y, sem, count, retracted)
            for event, query, label, y, sem, count, retracted in rows
        ]

    def learn(self, policy: Policy, content: bytes) -> None:
        """Read sufficient statistics, and update a new policy with them."""
        sums = schemas.Sums.read(content)
        if not sums.arms:
            return
        arms, weights, pulls = np.array(sums.arms), np.array(sums.weights), np.array(sums.pulls)
        policy.learn_many(arms, np.array(sums.totals) / weights * self.problem.noise[arms], weights, pulls)
        if self.problem.noise_std is None or self.problem.prior_is_estimated:
            policy.restate(np.array([sums.sigma]), np.array([np.inf if sums.dof is None else sums.dof]))

    def result(self, query: Query | int, y: Any, sem: Any = None) -> dict[str, Any]:
        """Return the body of a result; values that are certainly wrong raise the errors of a campaign."""
        if not isinstance(query, Query):
            return {"id": query} | self.values(y, sem)
        readings = self.result_reader.result(query, y, sem)
        if query.action is None and readings[0] is not None:
            return {"id": query.id} | _reading_fields(readings[0])
        return {"id": query.id, "values": [None if one is None else _pair(one.y, one.sem) for one in readings]}

    def values(self, y: Any, sem: Any = None) -> dict[str, Any]:
        """Return the value fields of a result, checked as far as possible without its query."""
        if self.problem.actions is None:
            body = {"value": check_reward(y), "sem": _check_sem(sem)}
            return {key: value for key, value in body.items() if value is not None}
        if sem is not None:
            raise RewardError("an action has several results: give (value, sem) for each of them, not one sem")
        if isinstance(y, Mapping):
            labels = [self.problem.arms.labels[self.result_reader.arm(as_label(label))] for label in y]
            parts = zip(labels, y.values(), strict=True)
            return {"values": {label_text(label): _part_value(value) for label, value in parts}}
        if not isinstance(y, Iterable):
            raise RewardError(f"the result of an action has a value for each of its parts, got {short_repr(y, 60)}")
        return {"values": [_part_value(value) for value in y]}

    def observation(self, arm: int, reading: Reading) -> dict[str, Any]:
        """Return the body of an observation."""
        label = json_label(self.problem.arms.labels[arm])
        _check_is_unicode(label)
        body = {"label": label} | _reading_fields(reading)
        return body if reading.count == 1 else body | {"count": reading.count}

    def _restored(self, queries: list[schemas.Query]) -> list[Query]:
        return [self._queries.restored(one.id, one.measured) for one in queries]

    def _label(self, label: Any) -> Hashable:
        return self._labels[json.dumps(label)]

    def _vector(self, entries: schemas.Vector) -> Array:
        z = np.zeros(self.problem.oracle.dim)
        for number, value in entries:
            z[number] = value
        return z


def _leases(queries: list[schemas.Query]) -> dict[int, Lease]:
    return {one.id: Lease(check_name("client", one.client), one.until) for one in queries if one.client is not None}


def _reading_fields(reading: Reading) -> dict[str, Any]:
    return {"value": reading.y} | ({} if reading.sem is None else {"sem": reading.sem})


def _check_is_unicode(label: Any) -> None:
    """Raise `LabelError` for a label that UTF-8, the encoding of requests, cannot represent."""
    try:
        json.dumps(label, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise LabelError(
            f"the label {short_repr(label, 60)} contains a lone surrogate, which a request cannot hold; observe "
            f"it through "
            "`Campaign.open`, or tell the result of a query of it"
        ) from None


def _pair(y: float, sem: float | None) -> Any:
    return y if sem is None else [y, sem]


def _part_value(value: Any) -> Any:
    """Return one part of the result of an action: a number, [number, sem], or None."""
    if value is None:
        return None
    y, *sem = value if isinstance(value, tuple) else (value,)
    return _pair(check_reward(y), _check_sem(sem[0]) if sem else None)


def _check_sem(sem: Any) -> float | None:
    """Return a standard error that JSON can hold, or None; the server checks its size."""
    if sem is None:
        return None
    value = as_float(sem)
    if value is None or not isfinite(value):
        raise RewardError(f"sem must be a positive number, got {short_repr(sem, 60)}; nothing was recorded")
    return value


def _or_nan(probability: float | None) -> float:
    return float("nan") if probability is None else probability

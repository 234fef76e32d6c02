"""`Reader`: responses of the server of a campaign as objects, and results as it takes them."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from combopeps.campaign.records import plain_label
from combopeps.errors import RewardError
from combopeps.oracles.base import Array
from combopeps.policies.base import Policy
from combopeps.posterior.noise_level import NoiseEstimate
from combopeps.problem import Problem
from combopeps.server import schemas
from combopeps.session.events import Lease, check_name
from combopeps.session.queries import Query, QueryFactory, Reading, ResultReader, check_reward
from combopeps.session.result import Status, TopAnswer
from combopeps.session.session import Measurement
from combopeps.utils.formatting import to_json_data
from combopeps.utils.label_format import as_label, label_text


class Reader:
    """Responses as objects of a problem, and results as the server takes them."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._queries, self.reader = QueryFactory(problem), ResultReader(problem)
        self._labels = {json.dumps(to_json_data(label)): label for label in problem.arms.labels}

    def client(self, content: bytes) -> str | None:
        """The name that belongs to the token; None for a token without a name."""
        name = schemas.Me.read(content).client
        return None if name is None else check_name("client", name)

    def queries(self, content: bytes, n: int | None = None) -> list[Query]:
        """Queries, equal to those of the campaign itself; ValueError unless there are n."""
        queries = self._restored(schemas.Queries.read(content).queries)
        if n not in (None, len(queries)):
            raise ValueError(f"{len(queries)} queries")
        return queries

    def status(self, content: bytes) -> Status:
        given, oracle = schemas.Status.read(content), self.problem.oracle
        z, pulls, noise = self._vector(given.z), dict.fromkeys(self.problem.arms.labels, 0), given.noise_estimate
        pulls |= {self._label(label): count for label, count in given.pulls}
        top_answers = [
            TopAnswer(oracle.decode(vector), vector, _or_nan(one.probability), one.interval)
            for one, vector in zip(given.top_answers, map(self._vector, given.top_answers_z), strict=True)
        ]
        own: dict[str, Any] = {
            "z": z,
            "answer": oracle.decode(z),
            "runner_up": None if given.runner_up_z is None else oracle.decode(self._vector(given.runner_up_z)),
            "error_probability": _or_nan(given.error_probability),
            "top_answers": top_answers,
            "pulls": pulls,
            "open_queries": self._restored(given.open),
            "leases": _leases(given.open),
            "noise_estimate": None if noise is None else NoiseEstimate(**dict(noise)),
        }
        return Status(**{one.name: getattr(given, one.name) for one in fields(Status) if one.name not in own}, **own)

    def samples(self, content: bytes) -> int:
        """The number of measurements, in an acknowledgement or a list of open queries."""
        return schemas.Counted.read(content).samples

    def leases(self, content: bytes) -> dict[int, Lease]:
        return _leases(schemas.Queries.read(content).queries)

    def actions(self, content: bytes) -> int | None:
        return schemas.Open.read(content).actions

    def measurements(self, content: bytes) -> list[Measurement]:
        rows = schemas.Measurements.read(content).measurements
        return [
            Measurement(event, query, self._label(label), y, sem, count, retracted)
            for event, query, label, y, sem, count, retracted in rows
        ]

    def learn(self, policy: Policy, content: bytes) -> None:
        """Update a policy that has learnt nothing with sufficient statistics."""
        sums = schemas.Sums.read(content)
        if not sums.arms:
            return
        arms, weights, pulls = np.array(sums.arms), np.array(sums.weights), np.array(sums.pulls)
        policy.learn_many(arms, np.array(sums.totals) / weights * self.problem.noise[arms], weights, pulls)
        if self.problem.noise_std is None or self.problem.prior_is_estimated:
            policy.restate(np.array([sums.sigma]), np.array([np.inf if sums.dof is None else sums.dof]))

    def result(self, query: Query | int, y: Any, sem: Any = None) -> dict[str, Any]:
        """A result as the server takes it; what can be seen to be wrong here is refused as in a campaign."""
        if not isinstance(query, Query):
            return {"id": query} | self.values(y, sem)
        readings = self.reader.result(query, y, sem)
        if query.action is None and readings[0] is not None:
            return {"id": query.id} | _given(readings[0])
        return {"id": query.id, "values": [None if one is None else _pair(one.y, one.sem) for one in readings]}

    def values(self, y: Any, sem: Any = None) -> dict[str, Any]:
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

    def observation(self, arm: int, reading: Reading) -> dict[str, Any]:
        """An observation as the server takes it."""
        given = {"label": plain_label(self.problem.arms.labels[arm])} | _given(reading)
        return given if reading.count == 1 else given | {"count": reading.count}

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


def _given(reading: Reading) -> dict[str, Any]:
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


def _or_nan(probability: float | None) -> float:
    return float("nan") if probability is None else probability

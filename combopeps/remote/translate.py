"""What goes over the wire, in the words of the library: queries, results, and where a campaign stands.

Answers travel as vectors and are named here, arms as numbers: so labels come back as the problem's own, tuples and
numbers included.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from combopeps.belief import NoiseEstimate
from combopeps.campaign import Holder
from combopeps.campaign.records import plain_label
from combopeps.errors import QueryError, RewardError
from combopeps.forms import plain
from combopeps.oracles.base import Array
from combopeps.policies.base import Policy
from combopeps.policies.history import history_of
from combopeps.policies.ledger import ActionQuery, Query, Reading, check_reading, check_reward
from combopeps.policies.parts import read_parts
from combopeps.policies.recommendation import Leader
from combopeps.problem import Problem
from combopeps.run.status import Status
from combopeps.tables import Observed
from combopeps.tables.book import LabelBook
from combopeps.tables.rows import read_rows
from combopeps.tables.written import as_label, label_text

Told = dict[str, Any]


class Translator:
    """Between the JSON of a server and a problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.book = LabelBook(problem.arms.labels, problem.oracle)

    def query(self, said: Told) -> Query:
        """A query, equal to that of the campaign itself."""
        problem, id = self.problem, int(said["id"])
        if problem.actions is None:
            arm = int(said["arm"])
            return Query(id, arm, problem.arms.labels[arm], problem.arms)
        action = np.zeros(problem.actions.oracle.dim, dtype=bool)
        action[said["action"]] = True
        label, parts = problem.actions.spell_out(action)
        return ActionQuery(id, -1, label, problem.arms, parts, action)

    def status(self, said: Told) -> Status:
        """Where the campaign stands."""
        oracle, z = self.problem.oracle, self._vector(said["z"])
        rival, risk, noise = said["runner_up_z"], said["error_probability"], said["noise_estimate"]
        pulls = dict.fromkeys(self.problem.arms.labels, 0)
        pulls |= {self._known[_text(label)]: int(count) for label, count in said["pulls"]}
        return Status(
            z=z,
            answer=oracle.decode(z),
            alternative=None if rival is None else oracle.decode(self._vector(rival)),
            error_probability=_probability(risk),
            error_interval=_interval(said["error_interval"]),
            leaders=[self._leader(*one) for one in zip(said["leaders"], said["leaders_z"], strict=True)],
            delta=said["delta"],
            epsilon=said["epsilon"],
            stop=said["stop"],
            claim=said["claim"],
            samples=said["samples"],
            pulls=pulls,
            open_queries=[self.query(entry) for entry in said["open"]],
            next=self._label(said["next"]),
            warning=said["warning"],
            noise_estimate=None if noise is None else NoiseEstimate(**noise),
            actions=said["actions"],
            cost=said["cost"],
            holders=self.holders(said["open"]),
        )

    def _leader(self, said: Told, entries: Any) -> Leader:
        z = self._vector(entries)
        return Leader(self.problem.oracle.decode(z), z, _probability(said["probability"]), _interval(said["interval"]))

    def holders(self, entries: list[Told]) -> dict[int, Holder]:
        """Who has which of the open queries, and until when."""
        held = [entry for entry in entries if entry["client"] is not None]
        return {entry["id"]: Holder(entry["client"], entry["until"]) for entry in held}

    def result(self, query: Query | int, y: Any, sem: Any = None) -> Told:
        """What is told of a query; what can be seen to be wrong here is refused in the words of a campaign."""
        if self.problem.actions is not None:
            return {"id": number_of(query)} | self._parts(query, y, sem)
        if isinstance(query, Query) and 0 <= query.arm < len(self.problem.arms):
            reading = check_reading(y, float(self.problem.noise[query.arm]), sem, known=self._sized, of=query)
            said = {"value": reading.y, "sem": reading.sem}
        else:
            said = {"value": check_reward(y), "sem": _number(sem)}
        return {"id": number_of(query)} | {key: value for key, value in said.items() if value is not None}

    def _parts(self, query: Query | int, y: Any, sem: Any) -> Told:
        if sem is not None:
            raise RewardError("an action has several results: give (value, sem) for each of them, not one sem")
        if isinstance(query, ActionQuery):
            said = [one and (one.y, one.sem) for one in read_parts(query, y, self.book, self.check)]
            return {"values": [_part(pair) for pair in said]}
        if isinstance(y, Mapping):
            return {"values": {label_text(self._arm(label)): _part(value) for label, value in y.items()}}
        return {"values": [_part(value) for value in y] if isinstance(y, Iterable) else y}

    def observation(self, label: Any, y: Any, sem: Any, count: Any) -> Told:
        """A measurement that no query asked for."""
        arm = self.book.find(as_label(label))
        return self._observed(arm, self.check(arm, y, sem, count))

    def observations(self, rows: Any) -> tuple[list[Told], Observed]:
        """Those of a table, and what became of its rows."""
        history, observed = history_of(read_rows(rows), self.book, self.check)
        return [self._observed(*pair) for pair in zip(history.arms, history.readings, strict=True)], observed

    def learn(self, policy: Policy, sums: Told) -> None:
        """What was measured, summed up arm by arm, for a policy that has learnt nothing."""
        if not sums["arms"]:
            return
        arms, weights = np.array(sums["arms"]), np.array(sums["weights"])
        means = np.array(sums["totals"]) / weights * self.problem.noise[arms]
        policy.learn_many(arms, means, weights, np.array(sums["pulls"]))
        if not self._sized or self.problem.prior_is_estimated:
            policy.restate(np.array([sums["sigma"]]), np.array([np.inf if sums["dof"] is None else sums["dof"]]))

    def check(self, arm: int, y: Any, sem: Any = None, count: Any = 1) -> Reading:
        """A result of an arm, or a typed error."""
        noise, label = float(self.problem.noise[arm]), self.problem.arms.labels[arm]
        return check_reading(y, noise, sem, count, known=self._sized, of=label)

    @property
    def _sized(self) -> bool:
        """Is the size of the noise known?"""
        return self.problem.noise_std is not None

    def _observed(self, arm: int, reading: Reading) -> Told:
        said: Told = {"label": plain_label(self.problem.arms.labels[arm]), "value": reading.y}
        said |= {} if reading.sem is None else {"sem": reading.sem}
        return said if reading.count == 1 else said | {"count": reading.count}

    def _arm(self, label: Any) -> Any:
        return self.problem.arms.labels[self.book.find(as_label(label))]

    def _vector(self, entries: list[list[Any]]) -> Array:
        z = np.zeros(self.problem.oracle.dim)
        for number, value in entries:
            z[number] = value
        return z

    def _label(self, said: Any) -> Any:
        """A label of an arm, or of an action, in whatever a person's answer comes in: a set, a list, a dict."""
        if self.problem.actions is None:
            return self._known[_text(said)]
        actions = self.problem.actions
        like = actions.label(actions.best(np.ones((1, self.problem.oracle.dim)))[0])
        if isinstance(like, dict):
            return {self._name(key): self._name(value) for key, value in said}
        if isinstance(like, (set, frozenset, list)):
            return type(like)(map(self._name, said))
        return self._name(said)

    def _name(self, said: Any) -> Any:
        return self._names.get(_text(said), as_label(said))

    @cached_property
    def _known(self) -> dict[str, Any]:
        """Labels of arms, by what becomes of them on the way."""
        return {_text(plain(label)): label for label in self.problem.arms.labels}

    @cached_property
    def _names(self) -> dict[str, Any]:
        """The same of all that actions are made of, and of the parts of these: nodes, workers, tasks."""
        assert self.problem.actions is not None
        labels = self.problem.actions.oracle.components
        parts = [part for label in labels if isinstance(label, tuple) for part in label]
        return {_text(plain(label)): label for label in (*parts, *labels)}


def number_of(query: Any) -> int:
    """The number of a query, from itself or as it is."""
    if isinstance(query, Query):
        return query.id
    if isinstance(query, bool) or not isinstance(query, (int, np.integer)):
        raise QueryError(f"a query, or its number, is wanted, got {query!r:.40}")
    return int(query)


def _part(value: Any) -> Any:
    """One result of an action: a number, [number, sem], or nothing."""
    if value is None:
        return None
    y, *sem = value if isinstance(value, tuple) else (value,)
    return [check_reward(y), _number(sem[0])] if sem and sem[0] is not None else check_reward(y)


def _number(value: Any) -> Any:
    """A number of numpy as one of JSON; whatever else it is, the server says."""
    return value.item() if isinstance(value, np.generic) else value


def _probability(said: Any) -> float:
    return float("nan") if said is None else float(said)


def _interval(said: Any) -> tuple[float, float]:
    low, high = said
    return float(low), float(high)


def _text(said: Any) -> str:
    return json.dumps(said)

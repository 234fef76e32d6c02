"""Requests and responses as JSON: their schemas, which server and client validate with, and the server's side of them.

Answers travel as vectors and arms as numbers, so that a client decodes them with the problem's own labels, tuples and
numbers included; labels beside them are for readers.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Annotated, Any, Self

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from combopeps.campaign.records import plain_label
from combopeps.policies.base import Policy
from combopeps.session.events import MAX_LEASE, MAX_NAME, Lease
from combopeps.session.queries import Query as SessionQuery
from combopeps.session.queries import measured_numbers
from combopeps.session.result import Status as SessionStatus
from combopeps.session.session import Measurement, Session
from combopeps.utils.formatting import to_json_data

MARK = "combopeps-campaign"  # the header that says for which campaign a request, or a response, is
MAX_QUERIES = 100  # of one ask
MAX_ROWS = 10_000  # results, rows or parts in one request
MAX_LABEL = 1_000  # characters, or parts
_MAX_LABEL_DEPTH = 4
_MAX_INTEGER = 2**53 - 1  # what every JSON reader understands


def _checked_label(label: Any, depth: int = 0) -> Any:
    """A label as JSON has it, of a sensible size."""
    if isinstance(label, list):
        if depth == _MAX_LABEL_DEPTH or len(label) > MAX_LABEL:
            raise ValueError("a label has too many parts, one in the other, or beside each other")
        for part in label:
            _checked_label(part, depth + 1)
    elif isinstance(label, dict):
        raise ValueError("a label is a text, a number, or a list of these, no object")
    elif isinstance(label, float) and not isfinite(label):
        raise ValueError("a label that is a number is a finite one")
    elif len(str(label)) > MAX_LABEL:
        raise ValueError(f"a label has at most {MAX_LABEL} characters")
    return label


Json = dict[str, Any]
Count = Annotated[int, Field(ge=0, le=_MAX_INTEGER)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
Id = Annotated[Count, Field(description="number of the query")]
Event = Annotated[Count, Field(ge=1, description="number of the event that recorded the result")]
Sem = Annotated[Number | None, Field(description="standard error of this very measurement, in place of the noise")]
Part = Number | None | Annotated[list[Number], Field(min_length=2, max_length=2, description="value and sem")]
Values = (
    Annotated[list[Part], Field(max_length=MAX_ROWS)]
    | Annotated[dict[Annotated[str, Field(max_length=MAX_LABEL)], Part], Field(max_length=MAX_ROWS)]
    | None
)
Means = Annotated[Count, Field(ge=1, description="how many measurements the value is the mean of")]
Confirm = Annotated[bool, Field(description="accept a value that is implausible given the results so far")]
Label = Annotated[
    Any,
    AfterValidator(_checked_label),
    Field(description="what was measured, as /ask and /problem name it; an edge is a list"),
]
Seconds = Annotated[
    Number | None, Field(gt=0, le=MAX_LEASE, description="seconds after which other clients may get the query")
]
_LIST = Field(strict=False)  # a list of JSON stands for a tuple; types inside it are strict all the same
Vector = list[Annotated[tuple[Count, Number], _LIST]]  # the entries of an answer that are not 0
Interval = Annotated[tuple[Number, Number], _LIST]


class Body(BaseModel):
    """The body of a request."""

    model_config = ConfigDict(strict=True, extra="forbid")


class Ask(Body):
    """What to measure next. The same client asking again gets its open queries back."""

    client: Name | None = None
    n: Annotated[int, Field(ge=1, le=MAX_QUERIES)] = 1
    lease: Seconds = None


class Reading(Body):
    """A value, or of an action one of each part, in their order or by label; null: not read."""

    value: Number | None = None
    sem: Sem = None
    values: Values = None


class Result(Reading):
    """The result of a query: a value, or of an action one of each part, in their order or by label; null: not read."""

    id: Id


class Tell(Reading):
    """The result of one query, or `results` of many, all of which are recorded or none. A repetition is harmless."""

    id: Id | None = None
    results: Annotated[list[Result], Field(max_length=MAX_ROWS)] | None = None
    confirm: Confirm = False


class Row(Body):
    """A measurement that no query asked for."""

    label: Label
    value: Number
    sem: Sem = None
    count: Means = 1


class Observe(Body):
    """A measurement that no query asked for, or `rows` of them; with the same key, a repetition is harmless."""

    label: Label = None
    value: Number | None = None
    sem: Sem = None
    count: Means = 1
    rows: Annotated[list[Row], Field(max_length=MAX_ROWS)] | None = None
    key: Name | None = None
    confirm: Confirm = False


class Correct(Reading):
    """The right result in place of a recorded one, by the number of its event; for the owner."""

    event: Event
    confirm: Confirm = False


class Retract(Body):
    """Withdraw a recorded result, by the number of its event; for the owner."""

    event: Event


class Abandon(Body):
    """A query that will never be answered; who has it, where the token does not say."""

    id: Id
    client: Name | None = None


class Login(Body):
    """For the page: the token comes back as a cookie."""

    token: Annotated[str, Field(max_length=512)]


class Answer(BaseModel):
    """The body of a response; fields that a later release adds are ignored."""

    model_config = ConfigDict(strict=True)

    @classmethod
    def read(cls, content: bytes) -> Self:
        """Parse a response. The parser of pydantic would refuse texts that are no Unicode, which labels may hold."""
        return cls.model_validate(json.loads(content))


class Query(Answer):
    """What to measure: an arm, or an action with its components."""

    id: Count
    label: Any
    components: list[Any]
    measured: list[Count]
    is_action: bool
    client: Name | None
    until: Number | None


class Queries(Answer):
    """Queries, the oldest first."""

    queries: list[Query]


class Counted(Answer):
    """How much was measured."""

    samples: Count


class Open(Counted, Queries):
    """Open queries, and how much was measured."""

    actions: Count | None


class Recorded(Counted):
    """It is on the disk. Measurements so far, and open queries; of a table, what became of its rows."""

    open: Count
    rows: Count | None = None
    taken: Count | None = None
    left_out: list[Any] | None = None


class TopAnswer(Answer):
    """An answer that may be the best."""

    answer: Any
    probability: Number | None
    interval: Interval


class NoiseEstimate(Answer):
    """An estimate of the noise level."""

    value: Number
    low: Number
    high: Number
    dof: Count


class Status(Answer):
    """The state of the campaign; answers as vectors beside their names: [component, entry] pairs."""

    answer: Any
    z: Vector
    runner_up: Any
    runner_up_z: Vector | None
    error_probability: Number | None
    error_interval: Interval
    top_answers: list[TopAnswer]
    top_answers_z: list[Vector]
    delta: Number
    epsilon: Number
    stop: bool
    rule: str
    claim: str
    samples: Count
    actions: Count | None
    cost: Number
    open: list[Query]
    pulls: list[Annotated[tuple[Any, Count], _LIST]]
    corrections: Count
    warning: str
    noise_estimate: NoiseEstimate | None


class Header(Answer):
    """The header of a campaign."""

    problem: Json
    policy: str
    stopping: str
    delta: Number
    seed: Count
    versions: Json
    epsilon: Number = 0.0
    initial_design: Count = 0


class Me(Answer):
    """What the principal of a token may do, and the name in which it asks, if it has one."""

    role: str
    client: Name | None


class Sums(Answer):
    """Of every arm that was measured: how often, what that is worth, and the sum of results, each times its worth.

    Both in units of the noise. Where the size of the noise is unknown: what it is taken for, and by how many results.
    """

    arms: list[Count]
    pulls: list[Count]
    weights: list[Annotated[Number, Field(gt=0)]]
    totals: list[Number]
    sigma: Number
    dof: Number | None


class Measurements(Answer):
    """Recorded results: event, query, label, value, sem, count, and whether it was retracted."""

    measurements: list[Annotated[tuple[Count, Count | None, Any, Number, Number | None, Count, bool], _LIST]]


class Failure(Answer):
    """What is wrong, and what to do about it; the type is a class of `combopeps.errors`."""

    error: str
    type: str = ""


def dumped(document: Any) -> bytes:
    """Serialise JSON as the server sends it."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


def query_json(query: SessionQuery, lease: Lease | None = None) -> Json:
    """Return a query as `Query` describes it."""
    return {
        "id": query.id, "label": to_json_data(query.label), "components": to_json_data(query.components),
        "measured": list(measured_numbers(query)), "is_action": query.action is not None,
        "client": None if lease is None else lease.client, "until": None if lease is None else lease.until,
    }  # fmt: skip


def status_json(session: Session, status: SessionStatus) -> Json:
    """Return a status as `Status` describes it."""
    runner_up = None if status.runner_up is None else session.problem.oracle.encode(status.runner_up)
    same = [name for name in Status.model_fields if hasattr(status, name) and name not in ("z", "pulls")]
    return {name: to_json_data(getattr(status, name)) for name in same} | {
        "z": _entries(status.z),
        "runner_up_z": None if runner_up is None else _entries(runner_up),
        "top_answers_z": [_entries(one.z) for one in status.top_answers],
        "open": [query_json(query, status.leases.get(query.id)) for query in status.open_queries],
        "pulls": [[to_json_data(label), int(count)] for label, count in status.pulls.items() if count],
    }


def measurement_json(measurement: Measurement) -> list[Any]:
    """Return a recorded result as `Measurements` describes it."""
    label = plain_label(measurement.label)
    given = [measurement.y, measurement.sem, measurement.count, measurement.retracted]
    return [measurement.event, measurement.query, label, *given]


def sums_json(policy: Policy) -> Json:
    """Return the sufficient statistics of a policy as `Sums` describes them."""
    arms, posterior = np.flatnonzero(policy.pulls[0]), policy.posterior
    sums = {name: getattr(policy, name)[0, arms].tolist() for name in ("pulls", "weights", "totals")}
    return {"arms": arms.tolist(), **sums, "sigma": posterior.sigma.item(0), "dof": to_json_data(posterior.dof.item(0))}


def _entries(z: Any) -> list[list[Any]]:
    vector = np.asarray(z)
    return [[int(i), float(vector[i])] for i in np.flatnonzero(vector)]

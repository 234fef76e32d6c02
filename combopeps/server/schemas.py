"""JSON schemas of requests and responses, with which server and client validate, and the encoding of responses.

Answers are sent as vectors and arms as numbers, so that a client decodes them with the labels of the problem in their
original types, including tuples and numbers; the labels beside them are for display.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from combopeps.campaign.records import json_label
from combopeps.policies.base import Policy
from combopeps.session.events import MAX_LEASE, MAX_NAME, Lease
from combopeps.session.queries import Query as SessionQuery
from combopeps.session.reports import Measurement
from combopeps.session.result import Status as SessionStatus
from combopeps.session.session import Session
from combopeps.utils.formatting import to_json_data

CAMPAIGN_HEADER = "combopeps-campaign"  # the HTTP header with the hash of the campaign of a request or response
MAX_QUERIES = 100  # in one request to /ask
MAX_ROWS = 10_000  # results, rows or parts in one request
MAX_LABEL_LENGTH = 1_000  # characters or parts
_MAX_LABEL_DEPTH = 4
_MAX_INTEGER = 2**53 - 1  # exact in every JSON parser


def _validate_label(label: Any, depth: int = 0) -> Any:
    """Validate the type and size of a label."""
    if isinstance(label, list):
        if depth == _MAX_LABEL_DEPTH or len(label) > MAX_LABEL_LENGTH:
            raise ValueError("a label has too many parts, or they are nested too deeply")
        for part in label:
            _validate_label(part, depth + 1)
    elif isinstance(label, dict):
        raise ValueError("a label is a text, a number, or a list of these, not an object")
    elif isinstance(label, float) and not isfinite(label):
        raise ValueError("a label that is a number must be finite")
    elif len(str(label)) > MAX_LABEL_LENGTH:
        raise ValueError(f"a label has at most {MAX_LABEL_LENGTH} characters")
    return label


Json = dict[str, Any]
Count = Annotated[int, Field(ge=0, le=_MAX_INTEGER)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
Id = Annotated[Count, Field(description="number of the query")]
EventNumber = Annotated[Count, Field(ge=1, description="number of the event that recorded the result")]
Sem = Annotated[Number | None, Field(description="standard error of this measurement, instead of the noise level")]
Part = Number | None | Annotated[list[Number], Field(min_length=2, max_length=2, description="value and sem")]
Values = (
    Annotated[list[Part], Field(max_length=MAX_ROWS)]
    | Annotated[dict[Annotated[str, Field(max_length=MAX_LABEL_LENGTH)], Part], Field(max_length=MAX_ROWS)]
    | None
)
MeanCount = Annotated[Count, Field(ge=1, description="number of measurements of which the value is the mean")]
Confirm = Annotated[bool, Field(description="accept a value that is implausible given the results so far")]
Label = Annotated[
    Any,
    AfterValidator(_validate_label),
    Field(description="label of the arm, as in /ask and /problem; an edge is a list"),
]
Seconds = Annotated[
    Number | None, Field(gt=0, le=MAX_LEASE, description="seconds after which other clients may get the query")
]
_JSON_TUPLE = Field(strict=False)  # accepts a JSON list as a tuple; its entries are validated strictly
Vector = list[Annotated[tuple[Count, Number], _JSON_TUPLE]]  # component and value of the nonzero entries
Interval = Annotated[tuple[Number, Number], _JSON_TUPLE]
OpenInterval = Annotated[tuple[Number, Number | None], _JSON_TUPLE]  # the high end is null if there is none


class Body(BaseModel):
    """The body of a request."""

    model_config = ConfigDict(strict=True, extra="forbid")


class Ask(Body):
    """Request for the next queries; a client gets its open queries first."""

    client: Name | None = None
    n: Annotated[int, Field(ge=1, le=MAX_QUERIES)] = 1
    lease: Seconds = None


class Reading(Body):
    """A value; for an action, one of each part, in their order or by label, with null for a part without a value."""

    value: Number | None = None
    sem: Sem = None
    values: Values = None


class Result(Reading):
    """The result of a query: a value; for an action, one of each part, with null for a part without a value."""

    id: Id


class Tell(Reading):
    """The result of one query, or `results` of several: all of them are recorded, or none. Idempotent."""

    id: Id | None = None
    results: Annotated[list[Result], Field(max_length=MAX_ROWS)] | None = None
    confirm: Confirm = False


class Row(Body):
    """A measurement without a query."""

    label: Label
    value: Number
    sem: Sem = None
    count: MeanCount = 1


class Observe(Body):
    """A measurement without a query, or `rows` of several. Idempotent with a key."""

    label: Label = None
    value: Number | None = None
    sem: Sem = None
    count: MeanCount = 1
    rows: Annotated[list[Row], Field(max_length=MAX_ROWS)] | None = None
    key: Name | None = None
    confirm: Confirm = False


class Correct(Reading):
    """A new result instead of a recorded one, by the number of its event; only for the owner."""

    event: EventNumber
    confirm: Confirm = False


class Retract(Body):
    """Withdraw a recorded result, by the number of its event; only for the owner."""

    event: EventNumber


class Abandon(Body):
    """Close a query that will never be answered; `client` is that of its lease, unless the token has a name."""

    id: Id
    client: Name | None = None


class Login(Body):
    """Login of a browser: exchange a token for a session cookie."""

    token: Annotated[str, Field(max_length=512)]


class Answer(BaseModel):
    """The body of a response; fields that a later release adds are ignored."""

    model_config = ConfigDict(strict=True)

    @classmethod
    def read(cls, content: bytes) -> Self:
        """Parse and validate a response."""
        # Not model_validate_json, which refuses lone surrogates; labels may contain them.
        return cls.model_validate(json.loads(content))


class Query(Answer):
    """A query: an arm, or an action with its components."""

    id: Count
    label: Any
    components: list[Any]
    measured: list[Count]
    is_action: bool
    client: Name | None
    until: Number | None


class Queries(Answer):
    """Queries, oldest first."""

    queries: list[Query]


class Counted(Answer):
    """The number of measurements."""

    samples: Count


class Open(Counted, Queries):
    """Open queries, and the numbers of measurements and actions."""

    actions: Count | None


class Recorded(Counted):
    """Acknowledgement of a durable change: numbers of measurements and open queries, and a summary of a table."""

    open: Count
    rows: Count | None = None
    taken: Count | None = None
    left_out: list[Any] | None = None


class TopAnswer(Answer):
    """An answer that may be the best."""

    answer: Any
    probability: Number | None
    interval: Interval
    value: Number | None
    value_std: Number | None


class NoiseEstimate(Answer):
    """An estimate of the noise level."""

    value: Number
    low: Number
    high: Number
    dof: Count


class Status(Answer):
    """The state of the campaign, with answers as labels and as vectors of [component, entry] pairs."""

    answer: Any
    z: Vector
    runner_up: Any
    runner_up_z: Vector | None
    error_probability: Number | None
    error_interval: Interval
    top_answers: list[TopAnswer]
    top_answers_z: list[Vector]
    objective: Literal["max", "min"]
    value: Number | None
    value_std: Number | None
    runner_up_value: Number | None
    runner_up_value_std: Number | None
    gap: Number | None
    gap_std: Number | None
    expected_loss: Number | None
    loss_interval: OpenInterval
    inclusion: Vector
    delta: Number
    epsilon: Number
    stop: bool
    rule: str
    claim: str
    samples: Count
    actions: Count | None
    cost: Number
    open: list[Query]
    pulls: list[Annotated[tuple[Any, Count], _JSON_TUPLE]]
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
    """Role and client name of the token."""

    role: str
    client: Name | None


class Sums(Answer):
    """Sufficient statistics: for every measured arm, number of measurements, sum of weights, weighted sum of results.

    Weights and results are in units of the noise level; `sigma` is the estimate of its unknown scale, with `dof`
    degrees of freedom.
    """

    arms: list[Count]
    pulls: list[Count]
    weights: list[Annotated[Number, Field(gt=0)]]
    totals: list[Number]
    sigma: Number
    dof: Number | None


class Measurements(Answer):
    """Recorded results: event, query, label, value, sem, count, and whether it was retracted."""

    measurements: list[Annotated[tuple[Count, Count | None, Any, Number, Number | None, Count, bool], _JSON_TUPLE]]


class Failure(Answer):
    """An error message; the type is the name of a class in `combopeps.errors`."""

    error: str
    type: str = ""


def dumped(document: Any) -> bytes:
    """Return compact JSON."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


def query_json(query: SessionQuery, lease: Lease | None = None) -> Json:
    """Return a query in the form of `Query`."""
    return {
        "id": query.id, "label": to_json_data(query.label), "components": to_json_data(query.components),
        "measured": list(query.measured), "is_action": query.action is not None,
        "client": None if lease is None else lease.client, "until": None if lease is None else lease.until,
    }  # fmt: skip


def status_json(session: Session, status: SessionStatus) -> Json:
    """Return a status in the form of `Status`."""
    runner_up = None if status.runner_up is None else session.problem.oracle.encode(status.runner_up)
    unchanged = [
        name for name in Status.model_fields if hasattr(status, name) and name not in ("z", "inclusion", "pulls")
    ]
    return {name: to_json_data(getattr(status, name)) for name in unchanged} | {
        "z": _entries(status.z),
        "inclusion": _entries(status.inclusion),
        "runner_up_z": None if runner_up is None else _entries(runner_up),
        "top_answers_z": [_entries(answer.z) for answer in status.top_answers],
        "open": [query_json(query, status.leases.get(query.id)) for query in status.open_queries],
        "pulls": [[to_json_data(label), int(count)] for label, count in status.pulls.items() if count],
    }


def measurement_json(measurement: Measurement) -> list[Any]:
    """Return a recorded result in the form of a row of `Measurements`."""
    label = json_label(measurement.label)
    values = [measurement.y, measurement.sem, measurement.count, measurement.retracted]
    return [measurement.event, measurement.query, label, *values]


def sums_json(policy: Policy) -> Json:
    """Return the sufficient statistics of a policy in the form of `Sums`."""
    arms, posterior = np.flatnonzero(policy.pulls[0]), policy.posterior
    sums = {name: getattr(policy, name)[0, arms].tolist() for name in ("pulls", "weights", "totals")}
    return {"arms": arms.tolist(), **sums, "sigma": posterior.sigma.item(0), "dof": to_json_data(posterior.dof.item(0))}


def _entries(z: Any) -> list[list[Any]]:
    """Return the nonzero entries of a vector in the form of `Vector`."""
    vector = np.asarray(z)
    return [[int(i), float(vector[i])] for i in np.flatnonzero(vector)]

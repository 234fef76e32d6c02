"""Schemas of requests and responses, and the strict parsing of request bodies."""

from __future__ import annotations

import json
from math import isfinite
from typing import Annotated, Any, NoReturn

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from combopeps.errors import ParameterError
from combopeps.session.events import MAX_LEASE

MAX_QUERIES = 100  # of one ask
MAX_ROWS = 10_000  # results, rows or parts in one request
MAX_LABEL = 1_000  # characters, or parts
_MAX_LABEL_DEPTH = 4
_MAX_INTEGER = 2**53 - 1  # what every JSON reader understands

Id = Annotated[int, Field(ge=0, le=_MAX_INTEGER, description="number of the query")]
Number = Annotated[float, Field(allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=64)]
Sem = Annotated[Number | None, Field(description="standard error of this very measurement, in place of the noise")]
Part = Number | None | Annotated[list[Number], Field(min_length=2, max_length=2, description="value and sem")]
Values = (
    Annotated[list[Part], Field(max_length=MAX_ROWS)]
    | Annotated[dict[Annotated[str, Field(max_length=MAX_LABEL)], Part], Field(max_length=MAX_ROWS)]
    | None
)
Event = Annotated[int, Field(ge=1, le=_MAX_INTEGER, description="number of the event that recorded the result")]
Confirm = Annotated[bool, Field(description="accept a value that is implausible given the results so far")]
Label = Annotated[Any, Field(description="what was measured, as /ask and /problem name it; an edge is a list")]


class _Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class Ask(_Body):
    """What to measure next. The same client asking again gets its open queries back."""

    client: Name | None = None
    n: Annotated[int, Field(ge=1, le=MAX_QUERIES)] = 1
    lease: Annotated[
        Number | None,
        Field(gt=0, le=MAX_LEASE, description="seconds after which other clients may get the query"),
    ] = None


class Result(_Body):
    """The result of a query: a value, or of an action one of each part, in their order or by label; null: not read."""

    id: Id
    value: Number | None = None
    sem: Sem = None
    values: Values = None


class Tell(_Body):
    """The result of one query, or `results` of many, all of which are recorded or none. A repetition is harmless."""

    id: Id | None = None
    value: Number | None = None
    sem: Sem = None
    values: Values = None
    results: Annotated[list[Result], Field(max_length=MAX_ROWS)] | None = None
    confirm: Confirm = False


class Row(_Body):
    """A measurement that no query asked for."""

    label: Label
    value: Number
    sem: Sem = None
    count: Annotated[
        int, Field(ge=1, le=_MAX_INTEGER, description="how many measurements the value is the mean of")
    ] = 1


class Observe(_Body):
    """A measurement that no query asked for, or `rows` of them; with the same key, a repetition is harmless."""

    label: Label = None
    value: Number | None = None
    sem: Sem = None
    count: Annotated[int, Field(ge=1, le=_MAX_INTEGER)] = 1
    rows: Annotated[list[Row], Field(max_length=MAX_ROWS)] | None = None
    key: Name | None = None
    confirm: Confirm = False


class Correct(_Body):
    """The right result in place of a recorded one, by the number of its event; for the owner."""

    event: Event
    value: Number | None = None
    sem: Sem = None
    values: Values = None
    confirm: Confirm = False


class Retract(_Body):
    """Withdraw a recorded result, by the number of its event; for the owner."""

    event: Event


class Abandon(_Body):
    """A query that will never be answered; who has it, where the token does not say."""

    id: Id
    client: Name | None = None


class Login(_Body):
    """For the page: the token comes back as a cookie."""

    token: Annotated[str, Field(max_length=512)]


class Query(BaseModel):
    """What to measure: an arm, or an action with its components."""

    id: int
    label: Any
    components: list[Any]
    measured: list[int]
    is_action: bool
    client: str | None = None
    until: float | None = None


class Queries(BaseModel):
    """Queries, the oldest first."""

    queries: list[Query]


class Open(Queries):
    """Open queries, and how much was measured."""

    samples: int
    actions: int | None


class Me(BaseModel):
    """What the principal of a token may do, and the name in which it asks, if it has one."""

    role: str
    client: str | None


class Sums(BaseModel):
    """Of every arm that was measured: how often, what that is worth, and the sum of results, each times its worth.

    Both in units of the noise. Where the size of the noise is unknown: what it is taken for, and by how many results.
    """

    arms: list[int]
    pulls: list[int]
    weights: list[float]
    totals: list[float]
    sigma: float
    dof: float | None


class Recorded(BaseModel):
    """It is on the disk. Measurements so far, and open queries; of a table, what became of its rows."""

    samples: int
    open: int
    rows: int | None = None
    taken: int | None = None
    left_out: list[Any] | None = None


class Failure(BaseModel):
    """What is wrong, and what to do about it; the type is a class of `combopeps.errors`."""

    error: str
    type: str


def read_body(data: bytes) -> Any:
    """Strict JSON, each key once; a `ParameterError` otherwise."""
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_no_number, object_pairs_hook=_once)
    except RecursionError:
        raise ParameterError("the body is no JSON: brackets are nested too deeply") from None
    except ValueError as cause:
        raise ParameterError(f"the body is no JSON: {cause!s:.200}") from None


def parse(model: type[_Body], data: bytes) -> Any:
    """A body of this kind; a `ParameterError` names what is wrong with it."""
    try:
        return model.model_validate(read_body(data))
    except ValidationError as cause:
        fault = cause.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, fault["loc"]))[:100]
        raise ParameterError(f"{where or 'the body'}: {fault['msg']}") from None


def check_label(label: Any) -> Any:
    """A label as JSON has it, of a sensible size; or a `ParameterError`."""
    _count_parts(label, 0)
    return label


def _count_parts(label: Any, depth: int) -> None:
    if isinstance(label, list):
        if depth == _MAX_LABEL_DEPTH or len(label) > MAX_LABEL:
            raise ParameterError("a label has too many parts, one in the other, or beside each other")
        for part in label:
            _count_parts(part, depth + 1)
    elif isinstance(label, dict):
        raise ParameterError("a label is a text, a number, or a list of these, no object")
    elif isinstance(label, float) and not isfinite(label):
        raise ParameterError("a label that is a number is a finite one")
    elif len(str(label)) > MAX_LABEL:
        raise ParameterError(f"a label has at most {MAX_LABEL} characters")


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    said = dict(pairs)
    if len(said) < len(pairs):
        raise ValueError("a key stands there twice")
    return said

"""Events of a session, and leases of open queries.

Events are the changes of a session: applying them in order gives its state, without choosing or computing anything
again. A `Campaign` stores them. A lease assigns an open query to a client until a deadline:

    ask of a client = its own open queries, then those of others whose lease has expired, then new ones

The lease of a client that asks again is renewed if more than half of it is over. Deadlines are Unix times of the
process that asks. Leases determine which client measures, not what is measured next.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from numbers import Real
from typing import Any

from combopeps.errors import ParameterError
from combopeps.session.queries import Query, Reading, Readings
from combopeps.utils.formatting import ShortRepr
from combopeps.utils.state_dict import StateDict

MAX_NAME = 64  # characters
MAX_LEASE = 10 * 365.25 * 86_400  # seconds: ten years
_NAME = f"must be a text of 1 to {MAX_NAME} characters that can be printed"


@dataclass(frozen=True, repr=False)
class Lease(ShortRepr):
    """Client that holds an open query, and the Unix time after which other clients may get it; None for never."""

    client: str
    until: float | None = None


def is_valid_name(value: Any) -> bool:
    """Return whether a value can be the name of a client, or an idempotency key."""
    return isinstance(value, str) and 1 <= len(value) <= MAX_NAME and value.isprintable()


def check_name(what: str, value: Any) -> str:
    """Validate the name of a client or an idempotency key, and return it."""
    if not is_valid_name(value) or not value.strip():
        raise ParameterError(f"{what} {_NAME}, not of blanks alone, got {value!r:.80}")
    return str(value)


def check_lease(lease: Any, client: str | None) -> float | None:
    """Validate the seconds of a lease, and return them."""
    if lease is None:
        return None
    if client is None:
        raise ParameterError("lease requires client: it is the time for which a client holds its queries")
    seconds: Any = lease if isinstance(lease, Real) and not isinstance(lease, bool) else 0
    if not 0 < seconds < inf:
        raise ParameterError(f"lease must be a positive, finite number of seconds, got {lease!r:.40}")
    if seconds > MAX_LEASE:
        raise ParameterError(f"lease is at most {MAX_LEASE:.0f} seconds, ten years; leave it out for no deadline")
    return float(seconds)


def queries_for_client(
    open_queries: Mapping[int, Query], leases: Mapping[int, Lease], client: str, n: int, lease: float | None = None
) -> tuple[list[Query], list[Query]]:
    """Return up to n open queries for a client, its own first, and those of them whose lease is to be renewed.

    A lease is renewed if it belongs to another client, or expires within half of its duration.
    """
    now = time.time()
    renewal_time = now + (lease or 0.0) / 2
    own, expired = list[Query](), list[Query]()
    for id, query in open_queries.items():
        current = leases.get(id)
        if current is None:
            continue
        if current.client == client:
            own.append(query)
        elif _expires_before(current, now):
            expired.append(query)
    found = [*own, *expired][:n]
    return found, [query for query in found if _expires_before(leases[query.id], renewal_time)]


def new_lease(client: str, seconds: float | None) -> Lease:
    """Return a lease that starts now."""
    return Lease(client, None if seconds is None else time.time() + seconds)


def _expires_before(lease: Lease, moment: float) -> bool:
    return lease.until is not None and lease.until < moment


@dataclass(frozen=True, slots=True)
class Asked:
    """Queries were issued; to a client if there is a lease."""

    queries: Sequence[Query]
    lease: Lease | None = None


@dataclass(frozen=True, slots=True)
class Leased:
    """Open queries got a new lease."""

    ids: Sequence[int]
    lease: Lease


@dataclass(frozen=True, slots=True)
class Told:
    """A query was answered."""

    query: Query
    readings: Readings


@dataclass(frozen=True, slots=True)
class Observed:
    """Results without a query were recorded: one event each, with a common idempotency key."""

    arms: Sequence[int]
    readings: Sequence[Reading]
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Abandoned:
    """A query was closed without a result."""

    query: Query


@dataclass(frozen=True, slots=True)
class Looked:
    """The stopping rule has looked; `state` is its state afterwards, None if the rule is already in that state."""

    state: StateDict | None = None


@dataclass(frozen=True, slots=True)
class Corrected:
    """The result of an event was replaced."""

    event: int
    readings: Readings


@dataclass(frozen=True, slots=True)
class Retracted:
    """The result of an event was withdrawn."""

    event: int


Event = Asked | Leased | Told | Observed | Abandoned | Looked | Corrected | Retracted

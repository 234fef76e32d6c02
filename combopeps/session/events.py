"""Events of a session, and leases: which client measures which open query, and until when.

Events are the decisions and results that the state of a session consists of: applying them in their order gives it, and
nothing is chosen or computed again. A `Campaign` stores them.

    ask of a client = its own open queries, then those of others whose lease has expired, then new ones

A client that asks again with a lease of which more than half is over gets a new deadline. Deadlines are Unix times, by
the clock of the process that asks. Leases decide who measures, never what is asked next.
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
    """The client that holds an open query, and the Unix time after which others may get it; None: never."""

    client: str
    until: float | None = None


def is_valid_name(value: Any) -> bool:
    """Whether a value can be the name of a client, or an idempotency key."""
    return isinstance(value, str) and 1 <= len(value) <= MAX_NAME and value.isprintable()


def check_name(what: str, value: Any) -> str:
    """Return the name of a client, or an idempotency key, or raise a typed error."""
    if not is_valid_name(value) or not value.strip():
        raise ParameterError(f"{what} {_NAME}, not of blanks alone, got {value!r:.80}")
    return str(value)


def check_lease(lease: Any, client: str | None) -> float | None:
    """Return the seconds of a lease, or raise a typed error."""
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
    """Return up to n open queries for a client, its own first, and those of them that need a new lease.

    A new lease is needed for queries of others, and for its own that expire within half of the lease.
    """
    now = time.time()
    soon = now + (lease or 0.0) / 2
    own, expired = list[Query](), list[Query]()
    for id, query in open_queries.items():
        holder = leases.get(id)
        if holder is None:
            continue
        if holder.client == client:
            own.append(query)
        elif _is_over(holder, now):
            expired.append(query)
    found = [*own, *expired][:n]
    return found, [query for query in found if _is_over(leases[query.id], soon)]


def new_lease(client: str, seconds: float | None) -> Lease:
    """Return a lease that begins now."""
    return Lease(client, None if seconds is None else time.time() + seconds)


def _is_over(holder: Lease, now: float) -> bool:
    return holder.until is not None and holder.until < now


@dataclass(frozen=True, slots=True)
class Asked:
    """Queries were issued, to a client if there is a lease."""

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
    """Results without a query; one event each, which share the idempotency key."""

    arms: Sequence[int]
    readings: Sequence[Reading]
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Abandoned:
    """A query was closed without a result."""

    query: Query


@dataclass(frozen=True, slots=True)
class Looked:
    """The stopping rule has looked; `state` is its state after that, None where the rule has it already."""

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

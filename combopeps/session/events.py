"""Events of a session: the decisions and results that its state consists of.

Applying the events of a session in their order gives its state; nothing is chosen or computed again. A `Campaign`
stores them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from combopeps.session.leases import Lease
from combopeps.session.queries import Query, Reading, Readings
from combopeps.utils.state_dict import StateDict


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

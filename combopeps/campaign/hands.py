"""Who has which open query, and until when: hands change who measures, never what is asked next.

    ask of a client = its own open queries, then those of others whose deadline has passed, then new ones

Who asks again with patience, when more than half of it is over, has a new deadline; so does who asks after it.
Deadlines are Unix times, by the clock of whoever asks.
"""

from __future__ import annotations

import time
from collections.abc import Container, Mapping
from dataclasses import dataclass
from math import inf, isfinite
from numbers import Real
from typing import Any

from combopeps.errors import ParameterError
from combopeps.policies.ledger import Query

LONGEST_NAME = 64
LONGEST_PATIENCE = 10 * 365.25 * 86_400  # seconds: ten years
_NAME = f"must be a text of 1 to {LONGEST_NAME} characters that can be printed"


@dataclass(frozen=True)
class Holder:
    """Somebody who has an open query, and the Unix time after which it may be handed to others; None: never."""

    client: str
    until: float | None = None


def is_name(value: Any) -> bool:
    """Can this be the name of a client, or the key of an observation?"""
    return isinstance(value, str) and 1 <= len(value) <= LONGEST_NAME and value.isprintable()


def check_name(what: str, value: Any) -> str:
    """The name of a client, or the key of an observation, or a typed error; blanks alone are none."""
    if not is_name(value) or not value.strip():
        raise ParameterError(f"{what} {_NAME}, not of blanks alone, got {value!r:.80}")
    return str(value)


def check_holder(record: Mapping[str, Any]) -> Holder | None:
    """Whom a record names; None if nobody. ValueError if that makes no sense."""
    if "client" not in record:
        if "until" in record:
            raise ValueError("a deadline belongs to a client")
        return None
    client: Any = record["client"]
    if not is_name(client):
        raise ValueError(f"client {_NAME}")
    until: Any = record.get("until", 0.0)
    if type(until) not in (int, float) or not (isfinite(until) and until >= 0):
        raise ValueError("until must be a Unix time")
    return Holder(client, float(until) if "until" in record else None)


def plain_hands(hands: Mapping[int, Holder]) -> list[list[Any]]:
    """As plain data: id, client, until."""
    return [[id, holder.client, holder.until] for id, holder in hands.items()]


def restored_hands(rows: Any, open_queries: Container[int]) -> dict[int, Holder]:
    """From that; ValueError if somebody has a query that is not open, or a row makes no sense."""
    hands = dict[int, Holder]()
    for id, client, until in rows:
        holder = check_holder({"client": client} | ({} if until is None else {"until": until}))
        if holder is None or type(id) is not int or id not in open_queries:
            raise ValueError("somebody has a query that is not open")
        hands[id] = holder
    return hands


def check_patience(patience: Any, client: str | None) -> float | None:
    """Seconds until a query may be handed to others, or a typed error."""
    if patience is None:
        return None
    if client is None:
        raise ParameterError("patience is for queries that somebody has: say who, with client=")
    seconds: Any = patience if isinstance(patience, Real) and not isinstance(patience, bool) else 0
    if not 0 < seconds < inf:
        raise ParameterError(f"patience must be a positive, finite number of seconds, got {patience!r:.40}")
    if seconds > LONGEST_PATIENCE:
        raise ParameterError(
            f"patience is at most {LONGEST_PATIENCE:.0f} seconds, ten years; leave it out for no deadline"
        )
    return float(seconds)


def handed(
    open_queries: Mapping[int, Query], hands: Mapping[int, Holder], client: str, n: int, patience: float | None = None
) -> tuple[list[Query], list[Query]]:
    """Up to n open queries for a client, its own first; and which of them need a line that says so.

    Those are queries of others, and its own whose deadline has passed, or is nearer than half of its patience.
    """
    now = time.time()
    soon = now + (patience or 0.0) / 2
    mine, late = list[Query](), list[Query]()
    for id, query in open_queries.items():
        holder = hands.get(id)
        if holder is None:
            continue
        if holder.client == client:
            mine.append(query)
        elif _is_over(holder, now):
            late.append(query)
    found = [*mine, *late][:n]
    return found, [query for query in found if _is_over(hands[query.id], soon)]


def deadline(patience: float | None) -> float | None:
    """The Unix time when patience is over."""
    return None if patience is None else time.time() + patience


def _is_over(holder: Holder, now: float) -> bool:
    return holder.until is not None and holder.until < now

"""What an action showed: one result for each component on it, from whatever form people bring it in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any

from combopeps.errors import ComboPepsError, LabelError, RewardError
from combopeps.forms import brief
from combopeps.policies.ledger import ActionQuery, Reading, Readings
from combopeps.tables.book import LabelBook


def read_parts(query: ActionQuery, values: Any, book: LabelBook, check: Callable[..., Reading]) -> Readings:
    """A reading, or None for what was not read, of every component of the query; a typed error names the culprit.

    `values` is a sequence in the order of `query.components`, or a mapping from their labels; each entry is a number,
    (number, sem), or None. `check(arm, y, sem)` makes a reading, or raises a typed error.
    """
    each = _by_label(query, values, book) if isinstance(values, Mapping) else _in_order(query, values)
    readings = list[Reading | None]()
    for part, label, value in zip(query.parts, query.components, each, strict=True):
        try:
            said = value if isinstance(value, tuple) and len(value) == 2 else (value,)
            readings.append(None if value is None else check(part, *said))
        except ComboPepsError as cause:
            raise type(cause)(f"the result of {brief(label, 60)}: {cause}") from None
    return tuple(readings)


def _by_label(query: ActionQuery, values: Mapping[Any, Any], book: LabelBook) -> list[Any]:
    found: dict[int, Any] = {}
    for label, value in values.items():
        part = book.find(label)
        if part not in query.parts:
            raise LabelError(
                f"{brief(label, 60)} is not on the action of query {query.id}; its parts are "
                f"{brief(list(query.components), 200)}"
            )
        if part in found:
            raise LabelError(f"{brief(label, 60)} stands there twice, by two of its names")
        found[part] = value
    return [found.get(part) for part in query.parts]


def _in_order(query: ActionQuery, values: Any) -> list[Any]:
    wanted = len(query.parts)
    if isinstance(values, (str, bytes, Set)) or not isinstance(values, Iterable):
        raise RewardError(
            f"query {query.id} is an action with {wanted} parts: tell as many results, in the order of "
            f"query.components, or a dict of them, got {brief(values, 60)}"
        )
    each = list(values)
    if len(each) != wanted:
        raise RewardError(
            f"query {query.id} has {wanted} parts, got {len(each)} results; say None for what was not read, or give a "
            f"dict; the parts are {brief(list(query.components), 200)}"
        )
    return each

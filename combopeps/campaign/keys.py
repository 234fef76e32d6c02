"""Keys of observations: what was recorded with one is known again, so that it can be said twice and counts once.

A key is for one observation, or for a table of them: every event of the table has the key and says which row of how
many it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from combopeps.campaign.hands import is_name
from combopeps.errors import QueryError
from combopeps.policies.ledger import Reading
from combopeps.restore import Plain, array, wholes

Row = tuple[int, Reading]
"""Arm and reading of an observation."""


@dataclass
class Keyed:
    """What was recorded with a key: some rows of a table that has `of`."""

    of: int
    rows: dict[int, Row] = field(default_factory=dict)


Keys = dict[str, Keyed]


def unrecorded(keys: Keys, key: str, rows: Sequence[Row]) -> list[int]:
    """The places of the rows that are still to be recorded; a `QueryError` if the key was used for something else."""
    known = keys.get(key)
    if known is None:
        return list(range(len(rows)))
    if known.of != len(rows) or any(rows[place] != row for place, row in known.rows.items()):
        raise QueryError(f"key {key!r} was used for another observation before; give each a key of its own")
    return [place for place in range(len(rows)) if place not in known.rows]


def keep(keys: Keys, key: Any, place: Any, row: Row) -> None:
    """Note a line down, whose field `row` (None: it has none) is `place`; ValueError if it makes no sense here."""
    if not is_name(key):
        raise ValueError(f"key {key!r:.80} of an observation is no short text")
    at, of = (0, 1) if place is None else _place(place)
    known = keys.setdefault(key, Keyed(of))
    if known.of != of or at in known.rows:
        raise ValueError(f"key {key!r} of an observation was used before")
    known.rows[at] = row


def _place(given: Any) -> list[int]:
    place = wholes(given)
    if len(place) != 2 or not place[0] < place[1]:
        raise ValueError(f"a row of a table is one of so many, got {given!r:.40}")
    return place


def plain_keys(keys: Keys) -> Plain:
    """As plain data: the keys, and of every row which key it has; a sem of 0 stands for none."""
    known = [(table, at, *row) for table, keyed in enumerate(keys.values()) for at, row in keyed.rows.items()]
    return {
        "key": list(keys),
        "of": np.array([keyed.of for keyed in keys.values()], dtype=np.int64),
        "table": np.array([table for table, *_ in known], dtype=np.int64),
        "row": np.array([at for _, at, *_ in known], dtype=np.int64),
        "arm": np.array([arm for *_, arm, _ in known], dtype=np.int64),
        "y": np.array([reading.y for *_, reading in known], dtype=np.float64),
        "sem": np.array([reading.sem or 0.0 for *_, reading in known], dtype=np.float64),
        "count": np.array([reading.count for *_, reading in known], dtype=np.int64),
    }


def restored_keys(data: Plain, arms: int) -> Keys:
    """From that, in a campaign with so many arms; ValueError if it does not fit."""
    names = data["key"]
    if not isinstance(names, list) or len(set(names)) < len(names):
        raise ValueError("keys are texts, each of them once")
    of = array(data["of"], np.int64, len(names)).tolist()
    table = array(data["table"], np.int64, None)
    row, arm, count = (array(data[name], np.int64, len(table)) for name in ("row", "arm", "count"))
    y, sem = (array(data[name], np.float64, len(table)) for name in ("y", "sem"))
    if len(table) and not (0 <= table.min() <= table.max() < len(names) and 0 <= arm.min() <= arm.max() < arms):
        raise ValueError("an observation has one of the keys, and is of one of the arms")
    if len(table) and not (count.min() >= 1 and sem.min() >= 0.0):
        raise ValueError("an observation is the mean of some measurements")
    keys: Keys = {}
    for which, at, *rest in zip(*(each.tolist() for each in (table, row, arm, y, sem, count)), strict=True):
        keep(keys, names[which], [at, of[which]], (rest[0], Reading(rest[1], rest[2] or None, rest[3])))
    if list(keys) != names:
        raise ValueError("every key has a row")
    return keys

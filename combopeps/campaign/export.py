"""Check the events of a campaign, export them, and copy them to another database."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from combopeps.campaign.campaign import replayed, session_of
from combopeps.campaign.fingerprint import Own
from combopeps.campaign.store import START, Event, parsed, sql_store_at, verified
from combopeps.errors import ComboPepsError, StateFileError
from combopeps.oracles.base import ArgmaxOracle
from combopeps.utils import files
from combopeps.utils.label_format import as_label, label_text

COLUMNS = "event", "query", "label", "value", "sem", "count", "at", "by"


@dataclass(frozen=True)
class CheckReport:
    """Result of a check.

    Attributes
    ----------
    faults
        Number of the event, and what is wrong with it.
    events, asked, told
        Valid events, and the queries and measurements among them.
    """

    faults: list[tuple[int, str]]
    events: int
    asked: int
    told: int


def check(place: str | os.PathLike[str], *, oracle: ArgmaxOracle | None = None) -> CheckReport:
    """Verify the checksum and the content of every event; changes nothing.

    Parameters
    ----------
    place
        Path or URL of the campaign.
    oracle
        The oracle, where the campaign was created with a user-defined one.

    Raises
    ------
    StateFileError
        If the campaign cannot be read, or its header is damaged.

    Examples
    --------
    >>> import tempfile
    >>> from combopeps import Campaign, TopKOracle
    >>> path = tempfile.mkdtemp() + "/beans.db"
    >>> _ = Campaign.create(path, TopKOracle(3, k=1)).ask(2)
    >>> check(path)
    CheckReport(faults=[], events=2, asked=2, told=0)
    """
    store = sql_store_at(place)
    rows = store.rows()
    faults = dict(verified(rows, START))
    first = rows[0]
    if first[0] != 1 or 1 in faults:
        raise StateFileError(f"{store}, event 1: {faults.get(first[0], 'it is damaged')}", 1)
    session, good = session_of(store, first[1], None if oracle is None else Own(oracle)), 1
    for number, text, _ in rows[1:]:
        try:
            replayed(session, [parsed(text)], number)
            good += number not in faults
        except (ComboPepsError, ValueError) as cause:
            faults.setdefault(number, str(cause))
    return CheckReport(sorted(faults.items()), good, session._ledger.next_id, session.samples)


def export(place: str | os.PathLike[str], out: str | os.PathLike[str]) -> tuple[int, list[tuple[int, str]]]:
    """Write the events to a new file: JSON Lines, or the measurements as CSV if its name ends in `.csv`.

    Events whose checksum does not match, or that are not JSON, are left out.

    Returns
    -------
    int, list of (int, str)
        How many lines were written, and number and fault of the events that were left out.
    """
    rows = sql_store_at(place).rows()
    faults, events = dict(verified(rows, START)), list[tuple[int, Event]]()
    for number, text, _ in rows:
        try:
            if number not in faults or "missing" in faults[number]:
                events.append((number, parsed(text)))
        except ValueError as cause:
            faults[number] = str(cause)
    if os.fspath(out).lower().endswith(".csv"):
        data, count = measurements_csv(events)
    else:
        sound = {number for number, _ in events}
        data, count = b"".join(text + b"\n" for number, text, _ in rows if number in sound), len(events)
    files.write_atomically(out, data)
    return count, sorted(faults.items())


def measurements_csv(events: Iterable[tuple[int, Event]]) -> tuple[bytes, int]:
    """Return all measurements as a table, corrected and without those that were retracted, and their number.

    One row for each: number of its event, its query (none if observed), label, value, sem, count, when and by whom it
    was recorded. `combopeps observe --csv` reads the columns label, value, sem and count.
    """
    found = dict[int, list[list[Any]]]()
    for number, event in events:
        kind, signed = event.get("kind"), [event.get("at", ""), event.get("by", "")]
        if kind == "observe":
            given = [event["y"], event.get("sem", ""), event.get("count", 1)]
            found[number] = [[number, "", label_text(as_label(event["label"])), *given, *signed]]
        elif kind == "tell":
            labels = [label_text(as_label(label)) for label in event["labels"]]
            found[number] = [
                [number, event["id"], label, *given, 1, *signed]
                for label, given in zip(labels, _values(event), strict=True)
            ]
        elif kind == "correct" and event["event"] in found:  # it may be one of those that were left out
            for row, given in zip(found[event["event"]], _values(event), strict=True):
                row[3:5] = given
        elif kind == "retract":
            found.pop(event["event"], None)
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\r\n")
    table.writerow(COLUMNS)
    rows = [row for each in found.values() for row in each if row[3] is not None]
    table.writerows(rows)
    return text.getvalue().encode("utf-8", "backslashreplace"), len(rows)


def _values(event: Event) -> list[list[Any]]:
    """Value and sem of every part of a result."""
    sems = event.get("sems", [None] * len(event["ys"]))
    return [[y, "" if sem is None else sem] for y, sem in zip(event["ys"], sems, strict=True)]


def copy(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> int:
    """Copy a campaign to a place where there is none, and return its number of events.

    All events arrive, or none do. Others may continue with the source: the copy is the campaign at one moment.

    Examples
    --------
    >>> import tempfile
    >>> from combopeps import Campaign, TopKOracle
    >>> folder = tempfile.mkdtemp()
    >>> _ = Campaign.create(f"{folder}/beans.db", TopKOracle(3, k=1)).ask(2)
    >>> copy(f"{folder}/beans.db", f"sqlite:///{folder}/runs.db#beans")
    2
    >>> len(Campaign.open(f"sqlite:///{folder}/runs.db#beans").open_queries)
    2
    """
    events = [event for _, event in sql_store_at(source).read().events]
    sql_store_at(target).create(events)
    return len(events)

"""Check, export and copy the events of a campaign."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from combopeps.campaign.campaign import replay, session_from_header
from combopeps.campaign.custom_oracle import CustomOracle
from combopeps.campaign.open_store import sql_store_at
from combopeps.campaign.sql_store import find_faults, parse_event
from combopeps.campaign.store import START, Event
from combopeps.errors import ComboPepsError, StateFileError
from combopeps.oracles.base import ArgmaxOracle
from combopeps.utils import files
from combopeps.utils.formatting import ShortRepr
from combopeps.utils.label_format import as_label, label_text
from combopeps.utils.validation import as_path

COLUMNS = "event", "query", "label", "value", "sem", "count", "at", "by"


@dataclass(frozen=True, repr=False)
class CheckReport(ShortRepr):
    """Result of a check.

    Attributes
    ----------
    faults
        Number and fault of each invalid event.
    events, asked, told
        Numbers of valid events, and of the queries and measurements among them.
    """

    faults: list[tuple[int, str]]
    events: int
    asked: int
    told: int


def check(place: str | os.PathLike[str], *, oracle: ArgmaxOracle | None = None) -> CheckReport:
    """Verify the checksum and the content of every event, without changing anything.

    Parameters
    ----------
    place
        Path or URL of the campaign.
    oracle
        The oracle, if the campaign was created with a user-defined one.

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
    faults = dict(find_faults(rows, START))
    first = rows[0]
    if first[0] != 1 or 1 in faults:
        raise StateFileError(f"{store}, event 1: {faults.get(first[0], 'it is damaged')}", 1)
    session, n_valid = session_from_header(store, first[1], None if oracle is None else CustomOracle(oracle)), 1
    for number, text, _ in rows[1:]:
        try:
            replay(session, [parse_event(text)], number)
            n_valid += number not in faults
        except (ComboPepsError, ValueError) as cause:
            faults.setdefault(number, str(cause))
    return CheckReport(sorted(faults.items()), n_valid, session._ledger.next_id, session.samples)


def export(place: str | os.PathLike[str], out: str | os.PathLike[str]) -> tuple[int, list[tuple[int, str]]]:
    """Write the events to a new file: JSON Lines, or the measurements as CSV if its name ends in `.csv`.

    Events whose checksum does not match, or that are not JSON, are left out.

    Parameters
    ----------
    place
        Path or URL of the campaign.
    out
        Path of the file.

    Returns
    -------
    int, list of (int, str)
        Number of lines written, and number and fault of each event that was left out.
    """
    as_path(out, "out")  # a typed error before anything is read
    rows = sql_store_at(place).rows()
    faults, events = dict(find_faults(rows, START)), list[tuple[int, Event]]()
    for number, text, _ in rows:
        try:
            if number not in faults or "missing" in faults[number]:
                events.append((number, parse_event(text)))
        except ValueError as cause:
            faults[number] = str(cause)
    if os.fspath(out).lower().endswith(".csv"):
        data, count = measurements_csv(events)
    else:
        exported = {number for number, _ in events}
        data, count = b"".join(text + b"\n" for number, text, _ in rows if number in exported), len(events)
    files.write_atomically(out, data)
    return count, sorted(faults.items())


def measurements_csv(events: Iterable[tuple[int, Event]]) -> tuple[bytes, int]:
    """Return a CSV table of all measurements, with corrections and without retracted ones, and its number of rows.

    The columns are the number of the event, the query (empty if observed), label, value, sem, count, time and author.
    `combopeps observe --csv` reads the columns label, value, sem and count.
    """
    rows = dict[int, list[list[Any]]]()  # by number of the event
    for number, event in events:
        kind, signature = event.get("kind"), [event.get("at", ""), event.get("by", "")]
        if kind == "observe":
            given = [event["y"], event.get("sem", ""), event.get("count", 1)]
            rows[number] = [[number, "", label_text(as_label(event["label"])), *given, *signature]]
        elif kind == "tell":
            labels = [label_text(as_label(label)) for label in event["labels"]]
            rows[number] = [
                [number, event["id"], label, *given, 1, *signature]
                for label, given in zip(labels, _values(event), strict=True)
            ]
        elif kind == "correct" and event["event"] in rows:  # the corrected event may have been left out
            for row, given in zip(rows[event["event"]], _values(event), strict=True):
                row[3:5] = given
        elif kind == "retract":
            rows.pop(event["event"], None)
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\r\n")
    table.writerow(COLUMNS)
    measured = [row for event_rows in rows.values() for row in event_rows if row[3] is not None]
    table.writerows(measured)
    return text.getvalue().encode("utf-8", "backslashreplace"), len(measured)


def _values(event: Event) -> list[list[Any]]:
    """Return value and sem of every part of a result."""
    sems = event.get("sems", [None] * len(event["ys"]))
    return [[y, "" if sem is None else sem] for y, sem in zip(event["ys"], sems, strict=True)]


def copy(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> int:
    """Copy a campaign to a new file or database, and return its number of events.

    All events are copied, or none. Others may write to the source meanwhile: the copy is consistent.

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

"""`Storage`: where the records of a campaign are kept, for all who work on it at the same time.

    records behind a point -> read -> a later point;   append behind the last point, under the lock

Records are JSON objects, numbered from 1; the first one is the header of the campaign. A point is a storage's own note
of how far somebody has read: a place in a file, a number of rows. None stands before the first record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import isfinite
from typing import Any

from combopeps.errors import ParameterError
from combopeps.validation import as_float

SCHEMA = 1
Record = dict[str, Any]
Note = dict[str, int]


@dataclass(frozen=True)
class Excerpt:
    """Records with their numbers, and the point behind the last of them.

    `anew` says that the storage is no longer the one in which the reader's point lay: these are all its records.
    """

    records: list[tuple[int, Record]]
    end: Any
    anew: bool = False


@dataclass(frozen=True)
class Beginning:
    """The first lines of a storage: the header, the CRC-32 of all of them as they are stored, each with its newline,
    and the point behind the last one.
    """

    header: Record
    crc: int
    point: Any


class Storage(ABC):
    """An append-only list of records; `str()` names the place in messages.

    One object serves any number of campaigns, in several threads; it keeps no note of who has read what. A campaign
    can be copied to another process if its storage can be pickled.
    """

    @abstractmethod
    def create(self, records: Sequence[Record]) -> None:
        """Begin with these records, all or nothing; a `StateFileError` where there is something already."""

    @abstractmethod
    def read(self, point: Any = None) -> Excerpt:
        """The records behind a point, whole ones only. Waits for nobody, and changes nothing outside `locked`."""

    @abstractmethod
    def append(self, records: Sequence[Record], point: Any) -> None:
        """Add records behind a point, safe against a crash when this returns; nothing is added if it raises.

        Belongs inside `locked`, after a `read` there that ended at the point; refused if that is not the last one. With
        no records, it waits until all that is there is safe.
        """

    @abstractmethod
    def locked(self, timeout: float = 10.0) -> AbstractContextManager[None]:
        """Nobody else appends in here; a `LockError` if others do so for more than `timeout` seconds."""

    def snapshot(self) -> bytes | None:
        """What `keep_snapshot` was last given, as far as it is there; None where there is none."""
        return None

    def keep_snapshot(self, data: bytes) -> None:  # noqa: B027, who keeps none does nothing
        """Keep these bytes beside the records, in place of earlier ones, or do without: nothing depends on them.

        Belongs inside `locked`. Whoever keeps snapshots has `note` and `beginning` too.
        """

    def note(self, point: Any) -> Note | None:
        """A point in numbers that `beginning` finds it by, in this process or another; None: no snapshots are kept."""
        return None

    def beginning(self, note: Note) -> Beginning | None:
        """All that stands before a point that was noted; None if there is no such point, or its lines are damaged."""
        return None

    @property
    def torn(self) -> list[bytes]:
        """Pieces of records that were never acknowledged, which a crash left."""
        return []


def check_timeout(timeout: float) -> float:
    """Seconds to wait for the lock, or a typed error."""
    seconds = as_float(timeout)
    if seconds is None or not (isfinite(seconds) and seconds >= 0):
        raise ParameterError(f"timeout must be a finite number of seconds, 0 or more, got {timeout!r:.40}")
    return seconds


def check_schema(header: Record) -> None:
    """Is this the first record of a campaign that we can read? ValueError says why not."""
    schema = header.get("schema")
    if header.get("kind") != "campaign" or type(schema) is not int or schema < 1:
        raise ValueError("this is not a state file of combopeps, or its first line is damaged beyond recognition")
    if schema > SCHEMA:
        raise ValueError(f"the file has schema {schema}, this combopeps reads {SCHEMA}; install a newer combopeps")

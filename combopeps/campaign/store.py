"""The interface of stores: append-only event logs of campaigns.

Events are JSON objects, numbered from 1; the first one is the header of the campaign. A reader remembers its position
as a `Cursor`, and reads only the events after it. A checkpoint is a serialised state after some event; only the time to
open a campaign depends on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple

from combopeps.errors import ParameterError
from combopeps.utils.formatting import ShortRepr, brief_tuple, html_of_tuple
from combopeps.utils.validation import as_float

Event = dict[str, Any]


class Cursor(NamedTuple):
    """A position in a log: id of the campaign, number of the last event that was read, and its checksum."""

    campaign: int
    number: int
    checksum: str

    def __repr__(self) -> str:
        return brief_tuple(self)

    def _repr_html_(self) -> str:
        return html_of_tuple(self)


START = Cursor(0, 0, "")


@dataclass(frozen=True, repr=False)
class Page(ShortRepr):
    """Events with their numbers, and the cursor after the last of them.

    If the reader's cursor does not belong to this log, `restarted` is true, and these are all its events.
    """

    events: list[tuple[int, Event]]
    end: Cursor
    restarted: bool = False


@dataclass(frozen=True, repr=False)
class Checkpoint(ShortRepr):
    """A serialised state, and the cursor of the last event that it includes."""

    cursor: Cursor
    data: bytes

    def _summary(self) -> Mapping[str, Any]:
        return {"cursor": self.cursor, "bytes": len(self.data)}


class Store(ShortRepr, ABC):
    """An append-only log of events; `str()` gives its name for messages, without passwords.

    One object may serve several campaigns and threads. It must support pickling if campaigns are to be sent to other
    processes.
    """

    def _summary(self) -> Mapping[str, Any]:
        return {}  # attributes may hold a password

    @abstractmethod
    def create(self, events: Sequence[Event]) -> None:
        """Create the log with these events, all or none; raise `StateFileError` if it exists."""

    @abstractmethod
    def read(self, cursor: Cursor | None = None) -> Page:
        """Return the events after the cursor, without a lock."""

    @abstractmethod
    def locked(self, timeout: float = 10.0) -> AbstractContextManager[None]:
        """Exclude other writers; raise `LockError` if the lock is not free after `timeout` seconds."""

    @abstractmethod
    def append(self, events: Sequence[Event], cursor: Cursor) -> Cursor:
        """Append events after the cursor, which must be the end of the log; return the new end when they are durable.

        Call it once inside `locked`, after a `read` there. Nothing is appended if it raises, unless the error is a
        `ConnectionLostError` with `unknown`.
        """

    def checkpoint(self) -> Checkpoint | None:
        """Return the last checkpoint, None if there is none."""
        return None

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Replace the last checkpoint."""

    def close(self) -> None:
        """Close idle connections; the next call opens new ones."""


def check_timeout(timeout: float) -> float:
    """Return the seconds to wait for other writers; raise `ParameterError` unless finite and nonnegative."""
    seconds = as_float(timeout)
    if seconds is None or not (isfinite(seconds) and seconds >= 0):
        raise ParameterError(f"timeout must be a finite number of seconds, 0 or more, got {timeout!r:.40}")
    return seconds

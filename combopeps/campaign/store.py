"""Stores: the append-only event log of a campaign, in a SQL database.

    combopeps_campaigns     id, name
    combopeps_events        campaign, number, event (JSON), checksum
    combopeps_checkpoints   campaign, number, checksum, data

    checksum_n = blake2b(checksum_{n-1} || event_n)

Events are numbered from 1; the first one is the header of the campaign. A checksum covers its event and all events
before it, so that a changed, missing or reordered row is detected, and two logs that agree in one checksum agree in all
events up to it. A checkpoint is a serialised state after some event; nothing depends on it but the time to open.

The same statements run on SQLite (standard library, `combopeps.campaign.sqlite`) and on PostgreSQL
(`combopeps.campaign.postgresql`).
"""

from __future__ import annotations

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from math import isfinite
from threading import current_thread, get_ident, local
from typing import Any, NamedTuple, NoReturn
from weakref import finalize

from combopeps.errors import ComboPepsError, DependencyError, LockError, ParameterError, StateFileError
from combopeps.utils.formatting import ShortRepr, brief_tuple, html_of_tuple
from combopeps.utils.locks import renew_after_fork
from combopeps.utils.validation import as_float

SCHEMA = 3
DEFAULT_NAME = "campaign"
_LONGEST_NAME = 100  # characters
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_DAMAGED = "restore a backup; `combopeps check` lists all faults, and `combopeps export` writes what can be read"

Event = dict[str, Any]
_Row = tuple[int, int, bytes, str]  # campaign, number, event, checksum


class Cursor(NamedTuple):
    """A position in a log: the campaign's id, the number of the last event that was read, and its checksum."""

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

    `restarted` says that the reader's cursor does not belong to this log (any more): these are all its events.
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
    """An append-only log of events; `str()` names it in messages, without passwords.

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
        """Return the events after the cursor. Takes no lock."""

    @abstractmethod
    def locked(self, timeout: float = 10.0) -> AbstractContextManager[None]:
        """Exclude other writers; raise `LockError` if they are not done after `timeout` seconds."""

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


class SQLStore(Store):
    """A campaign in a SQL database: statements, checksums and connections; subclasses add their driver.

    Connections are in autocommit mode and are kept between calls, one per concurrent thread. A connection on which
    anything was raised is closed, which rolls back what it had begun.
    """

    placeholder = "?"
    tables: Sequence[str]
    driver_error: type[Exception]

    def __init__(self, name: str) -> None:
        self.name = name
        self._idle: list[Any] = []
        self._held = local()  # the connection with the lock, in the thread that holds it
        renew_after_fork(self)
        finalize(self, _close, self._idle, self.driver_error)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def _summary(self) -> Mapping[str, Any]:
        return {"database": str(self)}

    @abstractmethod
    def _connect(self, *, create: bool = False) -> Any:
        """A new connection; `create` a database that does not exist."""

    @abstractmethod
    def _begin(self, connection: Any, timeout: float) -> None:
        """Begin a transaction that excludes other writers; SQLite waits for the lock here."""

    @abstractmethod
    def _lock_tables(self, connection: Any) -> None:
        """In a transaction: exclude others that create tables."""

    @abstractmethod
    def _is_busy(self, cause: Exception) -> bool:
        """Did waiting for a lock time out?"""

    @abstractmethod
    def _lacks_table(self, cause: Exception) -> bool:
        """Does a table not exist?"""

    @abstractmethod
    def _translated(self, cause: Exception, committing: bool) -> ComboPepsError:
        """Another error of the driver as one of ours."""

    def _is_stale(self, connection: Any) -> bool:
        """Is an idle connection of no more use?"""
        return False

    def _lock_place(self) -> Hashable:
        """What a lock is on: equal for stores that exclude each other."""
        return str(self)

    def create(self, events: Sequence[Event]) -> None:
        rows = list(_rows(events, START))
        with self._connection(create=True) as connection:
            self._begin(connection, 10.0)
            self._lock_tables(connection)
            for statement in self.tables:
                connection.execute(statement)
            if self._campaign(connection) is not None:
                raise StateFileError(f"{self} exists already, and is not overwritten; open it, or choose another name")
            self._execute(connection, "INSERT INTO combopeps_campaigns (name) VALUES (?)", self.name)
            self._insert(connection, self._campaign(connection), rows)
            self._commit(connection)

    def read(self, cursor: Cursor | None = None) -> Page:
        start = cursor or START
        with self._reading() as connection:
            rows = self._fetch(connection, max(1, start.number))
            known = bool(rows) and start.number > 0 and rows[0] == (*start[:2], rows[0][2], start.checksum)
            if start.number and not known:
                rows = self._fetch(connection, 1)
            if not rows and self._campaign(connection) is None:
                raise self._absent()
        if known:
            rows = rows[1:]
        else:
            start = START
        events, end = self._verified(rows, start)
        return Page(events, end, restarted=cursor is not None and not known)

    @contextmanager
    def locked(self, timeout: float = 10.0) -> Iterator[None]:
        with self._connection(timeout) as connection:
            self._begin(connection, timeout)
            statement = "SELECT id FROM combopeps_campaigns WHERE name = ?" + self._for_update
            if self._execute(connection, statement, self.name).fetchone() is None:
                raise self._absent()
            place = self._lock_place()
            try:
                self._held.connection, self._held.process = connection, os.getpid()
                _lock_holders[place] = _LockHolder(os.getpid(), current_thread().name, get_ident())
                yield
            finally:
                self._held.connection = None
                _lock_holders.pop(place, None)
            if self._in_transaction(connection):
                connection.execute("ROLLBACK")

    _for_update = ""

    @abstractmethod
    def _in_transaction(self, connection: Any) -> bool:
        """Has a transaction been begun, and not ended?"""

    def append(self, events: Sequence[Event], cursor: Cursor) -> Cursor:
        connection = self._locked_connection
        if connection is None or not self._in_transaction(connection):
            raise StateFileError(f"{self}: append once inside `locked`")
        with self._errors():
            last = self._execute(
                connection, "SELECT MAX(number) FROM combopeps_events WHERE campaign = ?", cursor.campaign
            ).fetchone()[0]
            if last != cursor.number:
                raise StateFileError(f"{self}: events are appended after the last one; read on first")
            rows = list(_rows(events, cursor))
            if rows:
                self._insert(connection, cursor.campaign, rows)
                cursor = Cursor(cursor.campaign, rows[-1][0], rows[-1][2])
            self._commit(connection)
            return cursor

    def checkpoint(self) -> Checkpoint | None:
        with self._reading() as connection:
            row = self._execute(
                connection,
                "SELECT k.campaign, k.number, k.checksum, k.data FROM combopeps_checkpoints k "
                "JOIN combopeps_campaigns c ON c.id = k.campaign WHERE c.name = ?",
                self.name,
            ).fetchone()
        return None if row is None else Checkpoint(Cursor(row[0], row[1], _text(row[2])), bytes(row[3]))

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Replace the last checkpoint; raise `LockError` at once while others write."""
        with self._connection(0.0) as connection:
            self._begin(connection, 0.0)
            self._execute(
                connection,
                "INSERT INTO combopeps_checkpoints (campaign, number, checksum, data) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (campaign) DO UPDATE SET number = excluded.number, checksum = excluded.checksum, "
                "data = excluded.data",
                *checkpoint.cursor,
                checkpoint.data,
            )
            self._commit(connection)

    def names(self) -> list[str]:
        """Return the names of all campaigns in the database."""
        with self._connection() as connection:
            try:
                rows = connection.execute("SELECT name FROM combopeps_campaigns ORDER BY name").fetchall()
            except self.driver_error as cause:
                if self._lacks_table(cause):
                    return []
                raise
        return [_text(row[0]) for row in rows]

    def rows(self) -> list[tuple[int, bytes, str]]:
        """Return number, text and checksum of all events, unverified."""
        with self._reading() as connection:
            rows = self._fetch(connection, 1)
            if not rows:
                raise self._absent()
        return [row[1:] for row in rows]

    def close(self) -> None:
        _close(self._idle, self.driver_error)

    def after_fork(self) -> None:
        """In a child process: connections belong to the parent, which must not see them closed."""
        _inherited.extend(self._idle)
        self._idle.clear()
        self._held = local()

    @property
    def _locked_connection(self) -> Any:
        held = getattr(self._held, "connection", None)
        return held if held is not None and self._held.process == os.getpid() else None

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        """The connection with the lock in the thread that holds it, otherwise one that takes no lock."""
        held = self._locked_connection
        with self._connection() if held is None else self._errors() as connection:
            yield connection if held is None else held

    @contextmanager
    def _connection(self, timeout: float = 10.0, *, create: bool = False) -> Iterator[Any]:
        """An idle connection, or a new one; `timeout` is that of the lock, for its error."""
        connection = None
        with self._errors(timeout):
            while self._idle and connection is None:
                with suppress(IndexError):  # another thread took it
                    connection = self._idle.pop()
                    if self._is_stale(connection):
                        connection.close()
                        connection = None
            if connection is None:
                connection = self._connect(create=create)
            try:
                yield connection
                self._idle.append(connection)
            except BaseException:
                with suppress(self.driver_error):
                    connection.close()
                if getattr(self._held, "connection", None) is connection:  # a Ctrl-C came before `locked` reset it
                    self._held.connection = None
                raise

    @contextmanager
    def _errors(self, timeout: float = 10.0) -> Iterator[None]:
        """Raise errors of the driver as ours."""
        try:
            yield
        except self.driver_error as cause:
            if self._is_busy(cause):
                raise self._lock_error(timeout) from None
            if self._lacks_table(cause):
                raise self._absent() from None
            raise self._translated(cause, False) from None

    def _lock_error(self, timeout: float) -> LockError:
        """Waiting for a lock timed out: because of another process, another thread of this one, or the same thread."""
        holder, by = _lock_holders.get(self._lock_place()), "another process"
        if holder is not None and holder.process == os.getpid():
            if holder.thread == get_ident():
                return LockError(
                    f"{self} has been locked by this very thread for more than {timeout:g} s, and cannot be locked "
                    "twice; write through the object that has the lock, or after the end of its `locked`"
                )
            by = f"another thread of this process ({holder.name})"
        wait = f"for more than {timeout:g} s; wait for it, or give a longer timeout"
        return LockError(f"{self} has been in use by {by} {wait}")

    def _execute(self, connection: Any, statement: str, *parameters: Any) -> Any:
        return connection.execute(statement.replace("?", self.placeholder), parameters)

    def _commit(self, connection: Any) -> None:
        try:
            connection.execute("COMMIT")
        except self.driver_error as cause:
            if self._is_busy(cause):
                raise
            raise self._translated(cause, True) from None

    def _campaign(self, connection: Any) -> int | None:
        row = self._execute(connection, "SELECT id FROM combopeps_campaigns WHERE name = ?", self.name).fetchone()
        return None if row is None else int(row[0])

    def _fetch(self, connection: Any, first: int) -> list[_Row]:
        found = self._execute(
            connection,
            "SELECT e.campaign, e.number, e.event, e.checksum FROM combopeps_events e "
            "JOIN combopeps_campaigns c ON c.id = e.campaign WHERE c.name = ? AND e.number >= ? ORDER BY e.number",
            self.name,
            first,
        )
        return [(campaign, number, _bytes(event), _text(checksum)) for campaign, number, event, checksum in found]

    def _insert(self, connection: Any, campaign: int | None, rows: list[tuple[int, str, str]]) -> None:
        statement = "INSERT INTO combopeps_events (campaign, number, event, checksum) VALUES (?, ?, ?, ?)"
        cursor = connection.cursor()
        cursor.executemany(statement.replace("?", self.placeholder), [(campaign, *row) for row in rows])

    def _verified(self, rows: list[_Row], start: Cursor) -> tuple[list[tuple[int, Event]], Cursor]:
        """The events of rows, and the cursor after them; an error names the first fault."""
        for number, fault in verified((row[1:] for row in rows), start):
            raise StateFileError(f"{self}, event {number}: {fault}; {_DAMAGED}", number)
        try:  # one call of the parser for all: several times as fast
            events = _decode(b"[%s]" % b",".join(row[2] for row in rows))
            if len(events) != len(rows) or not all(type(event) is dict for event in events):
                raise ValueError
        except (ValueError, RecursionError):
            events = []
            for _, number, text, _ in rows:
                try:
                    events.append(parsed(text))
                except ValueError as cause:
                    raise StateFileError(f"{self}, event {number}: {cause!s:.100}; {_DAMAGED}", number) from None
        end = Cursor(rows[-1][0], rows[-1][1], rows[-1][3]) if rows else start
        return [(row[1], event) for row, event in zip(rows, events, strict=True)], end

    def _absent(self) -> StateFileError:
        return StateFileError(
            f"{self} cannot be opened: there is no campaign {self.name!r} in this database; create it, or list those "
            "that exist: `combopeps campaigns`"
        )


class _LockHolder(NamedTuple):
    process: int
    name: str
    thread: int


_lock_holders: dict[Hashable, _LockHolder] = {}  # of this process, or of its parent when it was forked
_inherited: list[Any] = []  # connections of parent processes, kept so that nothing closes them here
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def _close(connections: list[Any], driver_error: type[Exception]) -> None:
    while connections:
        with suppress(driver_error):
            connections.pop().close()


def verified(rows: Iterable[tuple[int, bytes, str]], start: Cursor) -> Iterator[tuple[int, str]]:
    """Yield number and fault of rows (number, text, checksum) that do not follow the cursor and each other."""
    number, checksum = start.number, start.checksum
    for found, text, given in rows:
        if found != number + 1:
            yield found, f"events {number + 1} to {found - 1} are missing"
        elif given != _checksum(checksum, text):
            yield found, "it does not match its checksum: it was changed"
        number, checksum = found, given


def parsed(text: bytes) -> Event:
    """The event of a row; ValueError for what is not a strict JSON object."""
    try:
        event = _decode(text)
    except RecursionError:
        raise ValueError("brackets are nested too deeply") from None
    if not isinstance(event, dict):
        raise ValueError("an event must be a JSON object")
    return event


def store_at(place: str | os.PathLike[str] | Store) -> Store:
    """Return the store of a path or URL, or the store that is given.

    Examples
    --------
    >>> store_at("beans.db")
    SQLiteStore('beans.db')
    >>> store_at("sqlite:///runs.db#beans")
    SQLiteStore('runs.db#beans')
    """
    if isinstance(place, Store):
        return place
    url = _URL.fullmatch(place) if isinstance(place, str) else None
    if url is None:
        from combopeps.campaign.sqlite import SQLiteStore

        return SQLiteStore(place)
    scheme, base, name = url[1].lower(), *_named(url[2])
    if scheme == "sqlite":
        from combopeps.campaign.sqlite import SQLiteStore

        if not base.startswith("/") or len(base) < 2 or "?" in base:
            raise ParameterError(
                "sqlite:///x.db names a file in this folder, sqlite:////folder/x.db one from the root; there are no "
                "options"
            )
        return SQLiteStore(base[1:], name)
    if scheme == "postgresql":
        try:
            from combopeps.campaign.postgresql import PostgreSQLStore
        except ModuleNotFoundError as cause:
            raise DependencyError(
                f"campaigns in PostgreSQL need {cause.name}; install it: pip install 'combopeps[sql]'"
            ) from None
        return PostgreSQLStore(f"postgresql://{base}", name)
    raise ParameterError(
        f"no store of campaigns is called {url[1]!r:.40}; there are sqlite:/// and postgresql://, and a plain path "
        "names a SQLite file"
    )


def campaigns(place: str | os.PathLike[str]) -> list[str]:
    """Return the names of all campaigns in a database.

    Examples
    --------
    >>> import tempfile
    >>> from combopeps import Campaign, TopKOracle
    >>> url = f"sqlite:///{tempfile.mkdtemp()}/runs.db"
    >>> for name in ("beans", "roads"):
    ...     _ = Campaign.create(f"{url}#{name}", TopKOracle(3, k=1))
    >>> campaigns(url)
    ['beans', 'roads']
    """
    return sql_store_at(place).names()


def sql_store_at(place: str | os.PathLike[str] | Store) -> SQLStore:
    """The store there, if it is in a database."""
    store = store_at(place)
    if not isinstance(store, SQLStore):
        raise ParameterError(f"{store} is not a database of combopeps")
    return store


def check_timeout(timeout: float) -> float:
    """Seconds to wait for other writers, or a typed error."""
    seconds = as_float(timeout)
    if seconds is None or not (isfinite(seconds) and seconds >= 0):
        raise ParameterError(f"timeout must be a finite number of seconds, 0 or more, got {timeout!r:.40}")
    return seconds


def _named(rest: str) -> tuple[str, str]:
    base, mark, name = rest.partition("#")
    if mark and not (0 < len(name) <= _LONGEST_NAME and name.isprintable() and "#" not in name):
        raise ParameterError(
            f"the name of a campaign, after the '#' of the URL, has 1 to {_LONGEST_NAME} printable characters and no "
            f"'#', got {name!r:.40}"
        )
    return base, name or DEFAULT_NAME


def _rows(events: Sequence[Event], cursor: Cursor) -> Iterator[tuple[int, str, str]]:
    checksum = cursor.checksum
    for number, event in enumerate(events, start=cursor.number + 1):
        text = _encode(event)
        checksum = _checksum(checksum, text.encode("ascii"))
        yield number, text, checksum


def _checksum(before: str, text: bytes) -> str:
    return blake2b(before.encode("utf-8", "replace") + text, digest_size=12).hexdigest()


def _bytes(text: bytes | str) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _decode(text: bytes) -> Any:
    return json.loads(text, parse_constant=_no_constant)

"""`SQLStore`: campaigns in a SQL database, with a checksum over every event and all events before it.

    combopeps_campaigns     id, name
    combopeps_events        campaign, number, event (JSON), checksum
    combopeps_checkpoints   campaign, number, checksum, data

    checksum_n = blake2b(checksum_{n-1} || event_n)

A changed, missing or reordered row does not match its checksum, and two logs that agree in one checksum agree in all
events up to it.

The same statements run on SQLite (`combopeps.campaign.sqlite`) and on PostgreSQL (`combopeps.campaign.postgresql`).
"""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from threading import current_thread, get_ident, local
from typing import Any, NamedTuple, NoReturn
from weakref import finalize

from combopeps.campaign.store import START, Checkpoint, Cursor, Event, Page, Store
from combopeps.errors import ComboPepsError, LockError, StateFileError
from combopeps.utils.locks import renew_after_fork

DEFAULT_NAME = "campaign"
_DAMAGED = "restore a backup; `combopeps check` lists all faults, and `combopeps export` writes what can be read"
_Row = tuple[int, int, bytes, str]  # campaign, number, event, checksum


class SQLStore(Store):
    """Base class of stores in a SQL database; subclasses add their driver.

    Connections are in autocommit mode and are kept between calls, one per concurrent thread. A connection on which
    anything was raised is closed, which rolls back its transaction.
    """

    placeholder = "?"  # of parameters in statements
    create_statements: Sequence[str]  # CREATE TABLE
    driver_error: type[Exception]
    _lock_clause = ""  # of the SELECT that locks the row of the campaign

    def __init__(self, name: str) -> None:
        self.name = name
        self._idle: list[Any] = []
        self._thread_state = local()  # in the thread with the lock: its connection
        renew_after_fork(self)
        finalize(self, _close, self._idle, self.driver_error)

    def _summary(self) -> Mapping[str, Any]:
        return {"database": str(self)}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    @abstractmethod
    def _connect(self, *, create: bool = False) -> Any:
        """Return a new connection; `create` a database that does not exist."""

    @abstractmethod
    def _begin(self, connection: Any, timeout: float) -> None:
        """Begin a transaction of a writer; SQLite waits for its lock here, PostgreSQL when a row is locked."""

    @abstractmethod
    def _lock_tables(self, connection: Any) -> None:
        """In a transaction, exclude other processes that create tables."""

    @abstractmethod
    def _is_busy(self, cause: Exception) -> bool:
        """Return whether waiting for a lock timed out."""

    @abstractmethod
    def _is_missing_table(self, cause: Exception) -> bool:
        """Return whether the error is that of a missing table."""

    @abstractmethod
    def _convert_error(self, cause: Exception, committing: bool) -> ComboPepsError:
        """Return a typed error for any other error of the driver."""

    @abstractmethod
    def _in_transaction(self, connection: Any) -> bool:
        """Return whether a transaction is open."""

    def _is_stale(self, connection: Any) -> bool:
        """Return whether an idle connection cannot be used again."""
        return False

    def _lock_key(self) -> Hashable:
        """Return what is locked: equal for stores that exclude each other."""
        return str(self)

    def create(self, events: Sequence[Event]) -> None:
        rows = list(_encode_events(events, START))
        with self._connection(create=True) as connection:
            self._begin(connection, 10.0)
            self._lock_tables(connection)
            for statement in self.create_statements:
                connection.execute(statement)
            if self._campaign_id(connection) is not None:
                raise StateFileError(f"{self} exists already, and is not overwritten; open it, or choose another name")
            self._execute(connection, "INSERT INTO combopeps_campaigns (name) VALUES (?)", self.name)
            self._insert(connection, self._campaign_id(connection), rows)
            self._commit(connection)

    def read(self, cursor: Cursor | None = None) -> Page:
        start = cursor or START
        with self._read_connection() as connection:
            rows = self._fetch_rows(connection, max(1, start.number))
            is_continued = bool(rows) and start.number > 0 and rows[0] == (*start[:2], rows[0][2], start.checksum)
            if start.number and not is_continued:
                rows = self._fetch_rows(connection, 1)
            if not rows and self._campaign_id(connection) is None:
                raise self._missing_campaign_error()
        if is_continued:
            rows = rows[1:]
        else:
            start = START
        events, end = self._decode_rows(rows, start)
        return Page(events, end, restarted=cursor is not None and not is_continued)

    @contextmanager
    def locked(self, timeout: float = 10.0) -> Iterator[None]:
        with self._connection(timeout) as connection:
            self._begin(connection, timeout)
            statement = "SELECT id FROM combopeps_campaigns WHERE name = ?" + self._lock_clause
            if self._execute(connection, statement, self.name).fetchone() is None:
                raise self._missing_campaign_error()
            key = self._lock_key()
            try:
                self._thread_state.connection, self._thread_state.process = connection, os.getpid()
                _lock_holders[key] = _LockHolder(os.getpid(), current_thread().name, get_ident())
                yield
            finally:
                self._thread_state.connection = None
                _lock_holders.pop(key, None)
            if self._in_transaction(connection):
                connection.execute("ROLLBACK")

    def append(self, events: Sequence[Event], cursor: Cursor) -> Cursor:
        connection = self._locked_connection
        if connection is None or not self._in_transaction(connection):
            raise StateFileError(f"{self}: call append once, inside `locked`")
        with self._converting_errors():
            last = self._execute(
                connection, "SELECT MAX(number) FROM combopeps_events WHERE campaign = ?", cursor.campaign
            ).fetchone()[0]
            if last != cursor.number:
                raise StateFileError(f"{self}: events are appended after the last one; call `read` first")
            rows = list(_encode_events(events, cursor))
            if rows:
                self._insert(connection, cursor.campaign, rows)
                cursor = Cursor(cursor.campaign, rows[-1][0], rows[-1][2])
            self._commit(connection)
            return cursor

    def checkpoint(self) -> Checkpoint | None:
        with self._read_connection() as connection:
            row = self._execute(
                connection,
                "SELECT k.campaign, k.number, k.checksum, k.data FROM combopeps_checkpoints k "
                "JOIN combopeps_campaigns c ON c.id = k.campaign WHERE c.name = ?",
                self.name,
            ).fetchone()
        return None if row is None else Checkpoint(Cursor(row[0], row[1], _to_text(row[2])), bytes(row[3]))

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
                if self._is_missing_table(cause):
                    return []
                raise
        return [_to_text(row[0]) for row in rows]

    def rows(self) -> list[tuple[int, bytes, str]]:
        """Return number, text and checksum of all events, without verifying them."""
        with self._read_connection() as connection:
            rows = self._fetch_rows(connection, 1)
            if not rows:
                raise self._missing_campaign_error()
        return [row[1:] for row in rows]

    def close(self) -> None:
        _close(self._idle, self.driver_error)

    def after_fork(self) -> None:
        """In a child process, discard connections without closing them: they belong to the parent."""
        _parent_connections.extend(self._idle)
        self._idle.clear()
        self._thread_state = local()

    @property
    def _locked_connection(self) -> Any:
        held = getattr(self._thread_state, "connection", None)
        return held if held is not None and self._thread_state.process == os.getpid() else None

    @contextmanager
    def _read_connection(self) -> Iterator[Any]:
        """Yield the connection with the lock in the thread that holds it, otherwise one without a lock."""
        held = self._locked_connection
        with self._connection() if held is None else self._converting_errors() as connection:
            yield connection if held is None else held

    @contextmanager
    def _connection(self, timeout: float = 10.0, *, create: bool = False) -> Iterator[Any]:
        """Yield an idle connection, or a new one; `timeout` is the limit for the lock that a `LockError` states."""
        connection = None
        with self._converting_errors(timeout):
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
                if getattr(self._thread_state, "connection", None) is connection:  # `locked` was interrupted
                    self._thread_state.connection = None
                raise

    @contextmanager
    def _converting_errors(self, timeout: float = 10.0) -> Iterator[None]:
        """Replace errors of the driver by typed errors."""
        try:
            yield
        except self.driver_error as cause:
            if self._is_busy(cause):
                raise self._lock_error(timeout) from None
            if self._is_missing_table(cause):
                raise self._missing_campaign_error() from None
            raise self._convert_error(cause, False) from None

    def _lock_error(self, timeout: float) -> LockError:
        """Return an error that names the holder of the lock: another process, another thread, or the same thread."""
        holder, by = _lock_holders.get(self._lock_key()), "another process"
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
            raise self._convert_error(cause, True) from None

    def _campaign_id(self, connection: Any) -> int | None:
        row = self._execute(connection, "SELECT id FROM combopeps_campaigns WHERE name = ?", self.name).fetchone()
        return None if row is None else int(row[0])

    def _fetch_rows(self, connection: Any, first: int) -> list[_Row]:
        found = self._execute(
            connection,
            "SELECT e.campaign, e.number, e.event, e.checksum FROM combopeps_events e "
            "JOIN combopeps_campaigns c ON c.id = e.campaign WHERE c.name = ? AND e.number >= ? ORDER BY e.number",
            self.name,
            first,
        )
        return [(campaign, number, _to_bytes(event), _to_text(checksum)) for campaign, number, event, checksum in found]

    def _insert(self, connection: Any, campaign: int | None, rows: list[tuple[int, str, str]]) -> None:
        statement = "INSERT INTO combopeps_events (campaign, number, event, checksum) VALUES (?, ?, ?, ?)"
        cursor = connection.cursor()
        cursor.executemany(statement.replace("?", self.placeholder), [(campaign, *row) for row in rows])

    def _decode_rows(self, rows: list[_Row], start: Cursor) -> tuple[list[tuple[int, Event]], Cursor]:
        """Return the events of rows and the cursor after them; an error names the first fault."""
        for number, fault in find_faults((row[1:] for row in rows), start):
            raise StateFileError(f"{self}, event {number}: {fault}; {_DAMAGED}", number)
        try:  # one call of the parser for all rows is several times as fast as one for each
            events = _decode(b"[%s]" % b",".join(row[2] for row in rows))
            if len(events) != len(rows) or not all(type(event) is dict for event in events):
                raise ValueError
        except (ValueError, RecursionError):
            events = []
            for _, number, text, _ in rows:
                try:
                    events.append(parse_event(text))
                except ValueError as cause:
                    raise StateFileError(f"{self}, event {number}: {cause!s:.100}; {_DAMAGED}", number) from None
        end = Cursor(rows[-1][0], rows[-1][1], rows[-1][3]) if rows else start
        return [(row[1], event) for row, event in zip(rows, events, strict=True)], end

    def _missing_campaign_error(self) -> StateFileError:
        return StateFileError(
            f"{self} cannot be opened: there is no campaign {self.name!r} in this database; create it, or list those "
            "that exist: `combopeps campaigns`"
        )


class _LockHolder(NamedTuple):
    """Process and thread that hold the lock of a store."""

    process: int
    name: str
    thread: int


_lock_holders: dict[Hashable, _LockHolder] = {}  # by `_lock_key`; entries of a parent process remain after a fork
_parent_connections: list[Any] = []  # kept so that the garbage collector does not close them
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def _close(connections: list[Any], driver_error: type[Exception]) -> None:
    while connections:
        with suppress(driver_error):
            connections.pop().close()


def find_faults(rows: Iterable[tuple[int, bytes, str]], start: Cursor) -> Iterator[tuple[int, str]]:
    """Yield number and fault of each row (number, text, checksum) that does not follow the one before it."""
    number, checksum = start.number, start.checksum
    for found, text, stored in rows:
        if found != number + 1:
            yield found, f"events {number + 1} to {found - 1} are missing"
        elif stored != _checksum(checksum, text):
            yield found, "it does not match its checksum: it was changed"
        number, checksum = found, stored


def parse_event(text: bytes) -> Event:
    """Parse the event of a row; raise `ValueError` unless it is a strict JSON object."""
    try:
        event = _decode(text)
    except RecursionError:
        raise ValueError("brackets are nested too deeply") from None
    if not isinstance(event, dict):
        raise ValueError("an event must be a JSON object")
    return event


def _encode_events(events: Sequence[Event], cursor: Cursor) -> Iterator[tuple[int, str, str]]:
    checksum = cursor.checksum
    for number, event in enumerate(events, start=cursor.number + 1):
        text = _encode(event)
        checksum = _checksum(checksum, text.encode("ascii"))
        yield number, text, checksum


def _checksum(previous: str, text: bytes) -> str:
    return blake2b(previous.encode("utf-8", "replace") + text, digest_size=12).hexdigest()


def _to_bytes(text: bytes | str) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def _to_text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _decode(text: bytes) -> Any:
    return json.loads(text, parse_constant=_reject_constant)

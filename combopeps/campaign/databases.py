"""SQLite and PostgreSQL: connections, the lock of a campaign, and errors in our words.

Connections are kept open between operations, one for each thread that is at work, and are in autocommit mode: what
belongs together stands between a BEGIN and a COMMIT of our own.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from combopeps import files
from combopeps.errors import ConnectionLostError, DependencyError, ParameterError, StateFileError

WAIT = 10.0  # seconds for what takes milliseconds: the tables, a connection, the recovery after a crash
_PAUSE = 0.0005  # seconds between two tries, as for the lock of a file
_SECRETS = ("password", "sslpassword", "passfile")
_TABLES = 0x636F6D626F  # of the advisory lock under which tables are made
_forks = 0  # how many processes up: connections are never shared with a parent
_inherited: list[Engine] = []  # a parent's, kept so that nothing closes them here


def _forked() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Database(ABC):
    """One of the two; `str()` shows no password."""

    def __init__(self, url: URL) -> None:
        self.url = url
        self._engines: dict[tuple[Any, ...], Engine] = {}  # those of parent processes are kept, and left alone

    def __str__(self) -> str:
        hidden = {key: "***" for key in _SECRETS if key in self.url.query}
        return self.url.update_query_dict(hidden).render_as_string(hide_password=True)

    def connected(self) -> Connection:
        """A connection, which is given back when it is closed; whatever it had begun is taken back then."""
        return self._engine().connect()

    def translated(self, cause: DBAPIError, *, unknown: bool = False) -> StateFileError:
        """An error of the driver in our words; `unknown`: while something was being committed."""
        reason = self.reason(cause.orig)
        if cause.connection_invalidated and unknown:
            return ConnectionLostError(
                f"{self}: the connection was lost while this was being recorded ({reason}); the next call finds "
                "out whether it is: to tell it again is harmless, before you observe it again look at the samples",
                unknown=True,
            )
        if cause.connection_invalidated:
            return ConnectionLostError(
                f"{self}: the connection to the database was lost ({reason}); nothing was recorded, try again"
            )
        if self._is_unreachable(cause):
            return ConnectionLostError(f"{self}: the database cannot be reached ({reason})")
        return StateFileError(f"{self} cannot be read or written: {reason}; nothing was recorded")

    def reason(self, cause: BaseException | None) -> str:
        """Somebody's words on one line, without a password."""
        text = " ".join(str(cause).split())
        for secret in (self.url.password, *(self.url.query.get(key) for key in _SECRETS)):
            if isinstance(secret, str) and secret:
                text = text.replace(secret, "***")
        return text.rstrip(".")

    @abstractmethod
    def prepare(self) -> None:
        """Whatever has to be there before tables are made; refuses a place where none can be."""

    @abstractmethod
    def begin(self, connection: Connection, timeout: float) -> None:
        """Begin a transaction that writes; SQLite waits for its lock here, so long."""

    @abstractmethod
    def lock_tables(self, connection: Connection) -> None:
        """In a transaction: nobody else makes tables until its end."""

    @abstractmethod
    def in_use(self, cause: DBAPIError) -> bool:
        """Did we wait for others in vain?"""

    @abstractmethod
    def lacks_table(self, cause: DBAPIError) -> bool:
        """Is there no such table?"""

    @abstractmethod
    def as_bytes(self, text: Any) -> Any:
        """A column or aggregate, so that damaged text can be read."""

    @abstractmethod
    def concatenated(self, lines: Any) -> Any:
        """SELECT: all lines of a subselect (columns number and line) with newlines between them; NULL for none."""

    @abstractmethod
    def _make(self) -> Engine:
        """An engine, whose functions do not hold on to this object."""

    def _place(self) -> tuple[Any, ...]:
        """Which database it is, for those that can be exchanged for another one under the same name."""
        return ()

    def _engine(self) -> Engine:
        key = (_forks, *self._place())
        if key not in self._engines:
            try:
                made = self._make()
            except ModuleNotFoundError as cause:
                raise DependencyError(f"{cause}; install it: pip install 'combopeps[sql]'") from None
            if self._engines.setdefault(key, made) is made:  # of several threads, one
                weakref.finalize(self, _dispose, made, _forks)
                for other in [other for other in self._engines if other[0] == _forks and other != key]:
                    self._engines.pop(other).dispose()
        return self._engines[key]

    def _is_unreachable(self, cause: DBAPIError) -> bool:
        return False


class SQLite(Database):
    """A file with one writer at a time. Readers wait for nobody (write-ahead log); a commit waits for the disk."""

    def __init__(self, url: URL) -> None:
        name = url.database or ""
        if url.query or url.host or not name or name == ":memory:" or name.endswith(("/", os.sep)):
            shown = url.render_as_string(hide_password=True)
            raise ParameterError(
                f"sqlite:///x.db names a file in this folder, and sqlite:////folder/x.db one from the root; got {shown:.60}"
            )
        super().__init__(url)
        self.path = Path(name)

    def prepare(self) -> None:
        try:
            mode = os.lstat(self.path).st_mode
        except FileNotFoundError:
            mode = stat.S_IFREG
        except (OSError, ValueError) as cause:
            raise StateFileError(f"{self} cannot be created: {cause}") from None
        if not stat.S_ISREG(mode):
            raise StateFileError(f"{self} exists already, and is {files.kind_of(mode)}; take the name of a new file")
        try:
            with closing(_connect(self.path, "rwc")) as connection:
                _patiently(lambda: connection.execute("PRAGMA journal_mode = WAL"), WAIT)
        except (sqlite3.Error, ValueError) as cause:
            raise StateFileError(f"{self} cannot be created: {cause}") from None

    def begin(self, connection: Connection, timeout: float) -> None:
        connection.exec_driver_sql("PRAGMA busy_timeout = 0")
        try:
            _patiently(lambda: connection.exec_driver_sql("BEGIN IMMEDIATE"), timeout)
        finally:
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {1000 * WAIT:.0f}")

    def lock_tables(self, connection: Connection) -> None:
        """The transaction has the whole file."""

    def in_use(self, cause: DBAPIError) -> bool:
        return _is_busy(cause.orig)

    def lacks_table(self, cause: DBAPIError) -> bool:
        return "no such table" in str(cause.orig)

    def as_bytes(self, text: Any) -> Any:
        return sa.cast(text, sa.LargeBinary)

    def concatenated(self, lines: Any) -> Any:
        return sa.select(self.as_bytes(sa.func.group_concat(lines.c.line, "\n")))

    def _place(self) -> tuple[Any, ...]:
        """A file is never opened by anyone but SQLite: to close it would give back the locks of the whole process."""
        try:
            found = os.stat(self.path)
            files.refuse_irregular(found.st_mode)
        except (OSError, ValueError) as cause:
            raise StateFileError(f"{self} cannot be opened: {cause}") from None
        return found.st_dev, found.st_ino

    def _make(self) -> Engine:
        path = self.path
        return sa.create_engine(
            "sqlite://", creator=lambda: _connect(path, "rw"), poolclass=QueuePool, max_overflow=-1,
            isolation_level="AUTOCOMMIT",
        )  # fmt: skip


class PostgreSQL(Database):
    """A server. The lock of a campaign is that of its row."""

    def prepare(self) -> None:
        """The database is there, or cannot be reached."""

    def begin(self, connection: Connection, timeout: float) -> None:
        """READ COMMITTED: what others wrote is seen once the lock is ours. A limit of 0 would be none."""
        limit = max(1, round(1000 * min(timeout, 1e6)))
        connection.exec_driver_sql(f"BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {limit}")

    def lock_tables(self, connection: Connection) -> None:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_TABLES)))

    def in_use(self, cause: DBAPIError) -> bool:
        return getattr(cause.orig, "sqlstate", None) == "55P03"

    def lacks_table(self, cause: DBAPIError) -> bool:
        return getattr(cause.orig, "sqlstate", None) == "42P01"

    def as_bytes(self, text: Any) -> Any:
        return text

    def concatenated(self, lines: Any) -> Any:
        ordered = aggregate_order_by(sa.literal("\n"), lines.c.number)
        return sa.select(sa.func.string_agg(lines.c.line, ordered))

    def _is_unreachable(self, cause: DBAPIError) -> bool:
        return isinstance(cause, sa.exc.OperationalError) and getattr(cause.orig, "sqlstate", None) is None

    def _make(self) -> Engine:
        given = {"connect_timeout": "10", "keepalives_idle": "30", "client_encoding": "utf8"} | self.url.query
        made = sa.create_engine(
            self.url.set(drivername="postgresql+psycopg", query=given), pool_pre_ping=True, max_overflow=-1,
            isolation_level="AUTOCOMMIT",
        )  # fmt: skip
        sa.event.listen(made, "connect", _settle)
        return made


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    """A connection to a file, which is made in mode "rwc" only; what it commits is on the disk."""
    where = f"file:{quote(str(path.absolute()))}?mode={mode}"
    connection = sqlite3.connect(where, timeout=WAIT, isolation_level=None, check_same_thread=False, uri=True)
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _settle(connection: Any, _: Any) -> None:
    """A commit waits for the disk, whatever the server's default; who vanishes loses his locks in a minute."""
    limits = "SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3; "
    safe = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
    with connection.cursor() as cursor:
        cursor.execute(limits + safe)


def _patiently(act: Callable[[], Any], timeout: float) -> None:
    """Again and again while others have the file, with short pauses to find the gaps between their writes."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            act()
            return
        except (sqlite3.OperationalError, DBAPIError) as cause:
            busy = _is_busy(cause.orig if isinstance(cause, DBAPIError) else cause)
            if not busy or time.monotonic() >= deadline:
                raise
        time.sleep(_PAUSE)


def _is_busy(cause: BaseException | None) -> bool:
    return getattr(cause, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _dispose(engine: Engine, forks: int) -> None:
    """Close its connections, if they are our own: to close those of a parent would end its work."""
    if forks == _forks:
        engine.dispose()
    else:
        _inherited.append(engine)

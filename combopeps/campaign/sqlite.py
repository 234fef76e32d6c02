"""`SQLite`: a database in one file, on one machine."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from combopeps import files
from combopeps.campaign.database import WAIT, Database
from combopeps.errors import ParameterError, StateFileError

_PAUSE = 0.0005  # seconds between two tries, as for the lock of a journal


class SQLite(Database):
    """A file with one writer at a time. Readers wait for nobody (write-ahead log); a commit waits for the disk."""

    def __init__(self, url: URL) -> None:
        name = url.database or ""
        if url.query or url.host or not name or name == ":memory:" or name.endswith(("/", os.sep)):
            shown = url.render_as_string(hide_password=True)
            raise ParameterError(
                f"sqlite:///x.db names a file here, and sqlite:////folder/x.db one from the root; got {shown:.60}"
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
        return sa.select(sa.func.max(lines.c.campaign), self.as_bytes(sa.func.group_concat(lines.c.line, "\n")))

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

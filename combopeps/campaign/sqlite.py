"""SQLite through the standard library: a campaign in a file on this machine."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from combopeps import files
from combopeps.campaign.store import DEFAULT_NAME, SQLStore
from combopeps.errors import ComboPepsError, ParameterError, StateFileError
from combopeps.validation import as_path

_PAUSE = 0.0005  # seconds between two attempts to get the lock
_WAIT = 10.0  # seconds for what takes milliseconds: creating the file, recovery after a crash


class SQLiteStore(SQLStore):
    """A file with one writer at a time. Readers never wait (write-ahead log); a commit waits for the disk.

    A file that this user may not write can be read.
    """

    driver_error = sqlite3.Error
    tables = (
        "CREATE TABLE IF NOT EXISTS combopeps_campaigns (id INTEGER PRIMARY KEY AUTOINCREMENT, "
        "name TEXT NOT NULL UNIQUE)",
        "CREATE TABLE IF NOT EXISTS combopeps_events (campaign INTEGER NOT NULL REFERENCES combopeps_campaigns (id) "
        "ON DELETE CASCADE, number INTEGER NOT NULL, event TEXT NOT NULL, checksum TEXT NOT NULL, "
        "PRIMARY KEY (campaign, number)) WITHOUT ROWID",
        "CREATE TABLE IF NOT EXISTS combopeps_checkpoints (campaign INTEGER PRIMARY KEY REFERENCES combopeps_campaigns "
        "(id) ON DELETE CASCADE, number INTEGER NOT NULL, checksum TEXT NOT NULL, data BLOB NOT NULL)",
    )

    def __init__(self, path: str | os.PathLike[str], name: str = DEFAULT_NAME) -> None:
        self.path = as_path(path)
        if str(path) in ("", ":memory:") or str(path).endswith(("/", os.sep)):
            raise ParameterError(f"the path of a file is wanted, got {str(path)!r:.60}")
        super().__init__(name)
        self._file: tuple[int, int] | None = None  # device and inode that idle connections belong to

    def __repr__(self) -> str:
        return f"SQLiteStore({str(self)!r})"

    def __str__(self) -> str:
        return str(self.path) + ("" if self.name == DEFAULT_NAME else f"#{self.name}")

    def __reduce__(self) -> tuple[type[SQLiteStore], tuple[Path, str]]:
        return type(self), (self.path, self.name)

    def _connect(self, *, create: bool = False) -> sqlite3.Connection:
        if create:
            self._check_new()
        else:
            self._identity()
        try:
            connection = self._opened("rwc" if create else "rw")
            if create:
                _retry(lambda: connection.execute("PRAGMA journal_mode = WAL"), _WAIT)
        except (sqlite3.Error, ValueError) as cause:
            raise StateFileError(f"{self} cannot be {'created' if create else 'opened'}: {cause}") from None
        self._file = self._identity()
        return connection

    def _opened(self, mode: str) -> sqlite3.Connection:
        where = f"file:{quote(str(self.path.absolute()))}?mode="
        if mode == "rw" and not os.access(self.path, os.W_OK):
            # Without write permission the shared memory of the log cannot be created. If there is no log, no writer
            # is active, and the file can be read as it is.
            log = self.path.with_name(self.path.name + "-wal")
            mode = "ro" if log.exists() and log.stat().st_size else "ro&immutable=1"
        connection = sqlite3.connect(
            where + mode, timeout=_WAIT, isolation_level=None, check_same_thread=False, uri=True
        )
        try:
            connection.text_factory = bytes  # damaged text is reported by the checksum
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            if "ro" in mode:
                connection.execute("SELECT 1 FROM sqlite_master LIMIT 1")
        except BaseException:
            connection.close()
            raise
        return connection

    def _is_stale(self, connection: Any) -> bool:
        """Another file may have been put in its place; and an immutable view does not show new events."""
        return self._identity() != self._file or not os.access(self.path, os.W_OK)

    def _begin(self, connection: Any, timeout: float) -> None:
        if not os.access(self.path, os.W_OK):
            raise StateFileError(f"{self} cannot be written: permission denied; nothing was recorded")
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            _retry(lambda: connection.execute("BEGIN IMMEDIATE"), timeout)
        finally:
            connection.execute(f"PRAGMA busy_timeout = {1000 * _WAIT:.0f}")

    def _lock_tables(self, connection: Any) -> None:
        """The transaction locks the whole file."""

    def _in_transaction(self, connection: Any) -> bool:
        return bool(connection.in_transaction)

    def _is_busy(self, cause: Exception) -> bool:
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

    def _lacks_table(self, cause: Exception) -> bool:
        return "no such table" in str(cause)

    def _translated(self, cause: Exception, committing: bool) -> ComboPepsError:
        if getattr(cause, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_NOTADB:
            return StateFileError(f"{self} is not a SQLite database")
        return StateFileError(f"{self} cannot be read or written: {cause}; nothing was recorded")

    def _check_new(self) -> None:
        try:
            mode = os.lstat(self.path).st_mode
        except FileNotFoundError:
            return
        except (OSError, ValueError) as cause:
            raise StateFileError(f"{self} cannot be created: {cause}") from None
        if not stat.S_ISREG(mode):
            raise StateFileError(f"{self} exists already, and is {files.kind_of(mode)}; choose the name of a new file")

    def _identity(self) -> tuple[int, int]:
        """Device and inode of the file. Only SQLite may open it: closing it would release the locks of this process."""
        try:
            found = os.stat(self.path)
            files.refuse_irregular(found.st_mode)
        except (OSError, ValueError) as cause:
            raise StateFileError(f"{self} cannot be opened: {cause}") from None
        return found.st_dev, found.st_ino


def _retry(act: Callable[[], Any], timeout: float) -> None:
    """Try until the file is free, with short pauses: SQLite's own are longer than the gaps between writes of others."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            act()
            return
        except sqlite3.OperationalError as cause:
            busy = cause.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            if not busy or time.monotonic() >= deadline:
                raise
        time.sleep(_PAUSE)

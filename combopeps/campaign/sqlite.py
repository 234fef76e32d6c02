"""SQLite through the standard library: a campaign in a file on this machine."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from combopeps.campaign.sql_store import DEFAULT_NAME, SQLStore
from combopeps.errors import ComboPepsError, ParameterError, StateFileError
from combopeps.utils import files
from combopeps.utils.validation import as_path

_PAUSE = 0.0005  # seconds between two attempts to get the lock
_WAIT = 10.0  # seconds for what takes milliseconds: creating the file, recovery after a crash
_LITTLE = 65_536  # bytes that SQLite may need for the files beside a database
_FEW = 4  # files that it may open
_PERMISSION = "allow it (chmod), or run as a user who may"
_FULL = "the disk is full, or the quota of this user; free some space"
_REASONS = {
    sqlite3.SQLITE_CORRUPT: "it is damaged (database disk image is malformed); restore a backup, or save what can be "
    "read: `sqlite3 FILE .recover`",
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_NOMEM: "there is not enough memory",
    sqlite3.SQLITE_PROTOCOL: "its locks do not work; move it from a network file system to a local disk",
    sqlite3.SQLITE_READONLY_DBMOVED: "it was moved, deleted or replaced while it was in use; put it back",
}  # by code of SQLite
_WRITES = (
    sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_TRUNCATE, sqlite3.SQLITE_IOERR_SHMOPEN,
    sqlite3.SQLITE_IOERR_SHMSIZE,
)  # fmt: skip


class SQLiteStore(SQLStore):
    """A file with one writer at a time. Readers never wait (write-ahead log); a commit waits for the disk.

    A file that this user may not write can be read.
    """

    driver_error = sqlite3.Error
    create_statements = (
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
        except sqlite3.Error as cause:
            if self._is_busy(cause):
                raise
            raise self._failure(cause, "created" if create else "opened") from None
        except ValueError as cause:
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
            if mode == "rwc":
                _retry(lambda: connection.execute("PRAGMA journal_mode = WAL"), _WAIT)
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
            reason = self._obstacle() or "permission denied"
            raise StateFileError(f"{self} cannot be written: {reason}; nothing was recorded")
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            _retry(lambda: connection.execute("BEGIN IMMEDIATE"), timeout)
        finally:
            connection.execute(f"PRAGMA busy_timeout = {1000 * _WAIT:.0f}")

    def _lock_tables(self, connection: Any) -> None:
        """The transaction locks the whole file."""

    def _in_transaction(self, connection: Any) -> bool:
        return bool(connection.in_transaction)

    def _lock_key(self) -> Hashable:
        return self._file

    def _is_busy(self, cause: Exception) -> bool:
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

    def _is_missing_table(self, cause: Exception) -> bool:
        return "no such table" in str(cause)

    def _convert_error(self, cause: Exception, committing: bool) -> ComboPepsError:
        return self._failure(cause, "read or written")

    def _failure(self, cause: Exception, act: str) -> StateFileError:
        """An error of SQLite that is not a lock, by its cause, as far as SQLite and the file system tell."""
        code = getattr(cause, "sqlite_errorcode", 0)
        if code & 0xFF == sqlite3.SQLITE_NOTADB:
            return StateFileError(f"{self} is not a SQLite database; give the path of a campaign, or of a new file")
        reason, said = _REASONS.get(code) or _REASONS.get(code & 0xFF), str(cause)
        if code & 0xFF in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
            reason = reason or self._obstacle()
        elif code & 0xFF == sqlite3.SQLITE_IOERR:
            said += f" ({getattr(cause, 'sqlite_errorname', code)}); look at the disk, and at the log of the system"
            reason = self._exhausted() if code in _WRITES else None
        end = "; nothing was recorded" if "written" in act else ""
        return StateFileError(f"{self} cannot be {act}: {reason or said}{end}")

    def _obstacle(self) -> str | None:
        """What the file system does not allow, and a cure; None if there is nothing to be seen."""
        folder = self.path.absolute().parent
        if not os.path.isdir(folder):
            return f"there is no folder {str(folder)!r}; create it, or give another path"
        log, index = (self.path.with_name(self.path.name + end) for end in ("-wal", "-shm"))
        there = [file for file in (self.path, log, index) if os.path.exists(file)]
        for file in there:
            if not os.access(file, os.R_OK):
                return f"permission denied: this user may not read {file.name!r}; {_PERMISSION}"
        if hasattr(os, "statvfs") and os.statvfs(folder).f_flag & os.ST_RDONLY:
            return "its file system is read-only; mount it for writing, or copy the campaign to another one"
        if index not in there and not os.access(folder, os.W_OK) and (log in there or os.access(self.path, os.W_OK)):
            files = f"{log.name!r} and {index.name!r}"
            return f"permission denied: this user may not write the folder, where SQLite keeps {files}; {_PERMISSION}"
        for file in there:
            if not os.access(file, os.W_OK):
                return f"permission denied: this user may not write {file.name!r}; {_PERMISSION}"
        if self.path not in there and not os.access(folder, os.W_OK):
            return f"permission denied: this user may not write the folder {str(folder)!r}; {_PERMISSION}"
        return _lacking_descriptors()

    def _exhausted(self) -> str | None:
        """Which limit a write has reached, and a cure; None if there is none to be seen."""
        try:
            import resource
        except ImportError:  # Windows
            return None
        most = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        if most != resource.RLIM_INFINITY:
            return f"this process may write at most {most} bytes to a file; raise that limit (ulimit -f)"
        disk = os.statvfs(self.path.absolute().parent)
        return _FULL if disk.f_bavail * disk.f_frsize < _LITTLE else None

    def _check_new(self) -> None:
        try:
            mode = os.lstat(self.path).st_mode
        except FileNotFoundError:
            return
        except (OSError, ValueError) as cause:
            raise StateFileError(f"{self} cannot be created: {_said(cause)}") from None
        if not stat.S_ISREG(mode):
            raise StateFileError(f"{self} exists already, and is {files.kind_of(mode)}; choose the name of a new file")

    def _identity(self) -> tuple[int, int]:
        """Device and inode of the file. Only SQLite may open it: closing it would release the locks of this process."""
        try:
            found = os.stat(self.path)
            if not stat.S_ISREG(found.st_mode):
                files.refuse_irregular(found.st_mode)
        except (OSError, ValueError) as cause:
            raise StateFileError(f"{self} cannot be opened: {_said(cause)}") from None
        return found.st_dev, found.st_ino


def _lacking_descriptors() -> str | None:
    """That no more files can be opened, and a cure; None if they can."""
    opened = list[int]()
    try:
        while len(opened) < _FEW:
            opened.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as cause:
        return f"{cause.strerror}; close some, or raise the limit (ulimit -n)"
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return None


_CURES = {
    errno.ENOENT: "create the campaign first, or give the path of another one",
    errno.EACCES: "this user may not enter its folder: " + _PERMISSION,
}


def _said(cause: OSError | ValueError) -> str:
    """The reason of the operating system, without the path, and a cure."""
    if not isinstance(cause, OSError) or cause.strerror is None:
        return str(cause)
    return cause.strerror + (f"; {_CURES[cause.errno]}" if cause.errno in _CURES else "")


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

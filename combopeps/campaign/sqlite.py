"""`SQLiteStore`: campaigns in a SQLite file on a local disk, through the standard library."""

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

_RETRY_PAUSE = 0.0005  # seconds between two attempts to get the lock
_BUSY_TIMEOUT = 10.0  # seconds for short operations: creating the file, recovery after a crash
_MIN_FREE_BYTES = 65_536  # that SQLite may need for the files beside a database
_MIN_DESCRIPTORS = 4  # files that it may open
_CHMOD_HINT = "allow it (chmod), or run as a user who may"
_DISK_FULL = "the disk is full, or the quota of this user; free some space"
_ERROR_REASONS = {
    sqlite3.SQLITE_CORRUPT: "it is damaged (database disk image is malformed); restore a backup, or save what can be "
    "read: `sqlite3 FILE .recover`",
    sqlite3.SQLITE_FULL: _DISK_FULL,
    sqlite3.SQLITE_NOMEM: "there is not enough memory",
    sqlite3.SQLITE_PROTOCOL: "its locks do not work; move it from a network file system to a local disk",
    sqlite3.SQLITE_READONLY_DBMOVED: "it was moved, deleted or replaced while it was in use; put it back",
}  # by error code of SQLite
_WRITE_ERRORS = (
    sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_TRUNCATE, sqlite3.SQLITE_IOERR_SHMOPEN,
    sqlite3.SQLITE_IOERR_SHMSIZE,
)  # fmt: skip


class SQLiteStore(SQLStore):
    """Campaigns in a file with one writer at a time.

    Readers never wait (write-ahead log); a commit waits until the disk has written it. A file without write permission
    can be read.
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
            raise ParameterError(f"a campaign needs the path of a file, got {str(path)!r:.60}")
        super().__init__(name)
        self._file: tuple[int, int] | None = None  # device and inode of the file of the idle connections

    def __str__(self) -> str:
        return str(self.path) + ("" if self.name == DEFAULT_NAME else f"#{self.name}")

    def __reduce__(self) -> tuple[type[SQLiteStore], tuple[Path, str]]:
        return type(self), (self.path, self.name)

    def _connect(self, *, create: bool = False) -> sqlite3.Connection:
        if create:
            self._check_is_new()
        else:
            self._inode()
        try:
            connection = self._open("rwc" if create else "rw")
        except sqlite3.Error as cause:
            if self._is_busy(cause):
                raise
            raise self._state_file_error(cause, "created" if create else "opened") from None
        except ValueError as cause:
            raise StateFileError(f"{self} cannot be {'created' if create else 'opened'}: {cause}") from None
        self._file = self._inode()
        return connection

    def _open(self, mode: str) -> sqlite3.Connection:
        uri = f"file:{quote(str(self.path.absolute()))}?mode="
        if mode == "rw" and not os.access(self.path, os.W_OK):
            # Without write permission, SQLite cannot create the shared memory of the write-ahead log. If there is no
            # log, no writer is active, and the file can be read as immutable.
            log = self.path.with_name(self.path.name + "-wal")
            mode = "ro" if log.exists() and log.stat().st_size else "ro&immutable=1"
        connection = sqlite3.connect(
            uri + mode, timeout=_BUSY_TIMEOUT, isolation_level=None, check_same_thread=False, uri=True
        )
        try:
            connection.text_factory = bytes  # damaged text is reported by the checksum
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            if mode == "rwc":
                _retry(lambda: connection.execute("PRAGMA journal_mode = WAL"), _BUSY_TIMEOUT)
            if "ro" in mode:
                connection.execute("SELECT 1 FROM sqlite_master LIMIT 1")
        except BaseException:
            connection.close()
            raise
        return connection

    def _is_stale(self, connection: Any) -> bool:
        """Return whether the file was replaced, or is read as immutable, which would not show new events."""
        return self._inode() != self._file or not os.access(self.path, os.W_OK)

    def _begin(self, connection: Any, timeout: float) -> None:
        if not os.access(self.path, os.W_OK):
            reason = self._permission_fault() or "permission denied"
            raise StateFileError(f"{self} cannot be written: {reason}; nothing was recorded")
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            _retry(lambda: connection.execute("BEGIN IMMEDIATE"), timeout)
        finally:
            connection.execute(f"PRAGMA busy_timeout = {1000 * _BUSY_TIMEOUT:.0f}")

    def _lock_tables(self, connection: Any) -> None:
        """Do nothing: the transaction locks the whole file."""

    def _in_transaction(self, connection: Any) -> bool:
        return bool(connection.in_transaction)

    def _lock_key(self) -> Hashable:
        return self._file

    def _is_busy(self, cause: Exception) -> bool:
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

    def _is_missing_table(self, cause: Exception) -> bool:
        return "no such table" in str(cause)

    def _convert_error(self, cause: Exception, committing: bool) -> ComboPepsError:
        return self._state_file_error(cause, "read or written")

    def _state_file_error(self, cause: Exception, action: str) -> StateFileError:
        """Return an error with the cause that SQLite and the file system report, and a cure."""
        code = getattr(cause, "sqlite_errorcode", 0)
        if code & 0xFF == sqlite3.SQLITE_NOTADB:
            return StateFileError(f"{self} is not a SQLite database; give the path of a campaign, or of a new file")
        reason, text = _ERROR_REASONS.get(code) or _ERROR_REASONS.get(code & 0xFF), str(cause)
        if code & 0xFF in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
            reason = reason or self._permission_fault()
        elif code & 0xFF == sqlite3.SQLITE_IOERR:
            text += f" ({getattr(cause, 'sqlite_errorname', code)}); check the disk and the system log"
            reason = self._limit_fault() if code in _WRITE_ERRORS else None
        end = "; nothing was recorded" if "written" in action else ""
        return StateFileError(f"{self} cannot be {action}: {reason or text}{end}")

    def _permission_fault(self) -> str | None:
        """Return what the file system does not allow, and a cure; None if no fault is found."""
        folder = self.path.absolute().parent
        if not os.path.isdir(folder):
            return f"there is no folder {str(folder)!r}; create it, or give another path"
        log, index = (self.path.with_name(self.path.name + end) for end in ("-wal", "-shm"))
        existing = [file for file in (self.path, log, index) if os.path.exists(file)]
        for file in existing:
            if not os.access(file, os.R_OK):
                return f"permission denied: this user may not read {file.name!r}; {_CHMOD_HINT}"
        if hasattr(os, "statvfs") and os.statvfs(folder).f_flag & os.ST_RDONLY:
            return "its file system is read-only; mount it for writing, or copy the campaign to another one"
        if (
            index not in existing
            and not os.access(folder, os.W_OK)
            and (log in existing or os.access(self.path, os.W_OK))
        ):
            files = f"{log.name!r} and {index.name!r}"
            return f"permission denied: this user may not write the folder, where SQLite keeps {files}; {_CHMOD_HINT}"
        for file in existing:
            if not os.access(file, os.W_OK):
                return f"permission denied: this user may not write {file.name!r}; {_CHMOD_HINT}"
        if self.path not in existing and not os.access(folder, os.W_OK):
            return f"permission denied: this user may not write the folder {str(folder)!r}; {_CHMOD_HINT}"
        return _descriptor_fault()

    def _limit_fault(self) -> str | None:
        """Return the limit that a write has reached, and a cure; None if no limit is found."""
        try:
            import resource
        except ImportError:  # Windows
            return None
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        if limit != resource.RLIM_INFINITY:
            return f"this process may write at most {limit} bytes to a file; raise that limit (ulimit -f)"
        disk = os.statvfs(self.path.absolute().parent)
        return _DISK_FULL if disk.f_bavail * disk.f_frsize < _MIN_FREE_BYTES else None

    def _check_is_new(self) -> None:
        try:
            mode = os.lstat(self.path).st_mode
        except FileNotFoundError:
            return
        except (OSError, ValueError) as cause:
            raise StateFileError(f"{self} cannot be created: {_os_reason(cause)}") from None
        if not stat.S_ISREG(mode):
            raise StateFileError(f"{self} exists already, and is {files.kind_of(mode)}; choose the name of a new file")

    def _inode(self) -> tuple[int, int]:
        """Return device and inode of the file."""
        # The file is not opened: closing any descriptor of it would release the POSIX locks that SQLite holds.
        try:
            found = os.stat(self.path)
            if not stat.S_ISREG(found.st_mode):
                files.refuse_irregular(found.st_mode)
        except (OSError, ValueError) as cause:
            raise StateFileError(f"{self} cannot be opened: {_os_reason(cause)}") from None
        return found.st_dev, found.st_ino


def _descriptor_fault() -> str | None:
    """Return that no more files can be opened, and a cure; None if they can."""
    opened = list[int]()
    try:
        while len(opened) < _MIN_DESCRIPTORS:
            opened.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as cause:
        return f"{cause.strerror}; close some, or raise the limit (ulimit -n)"
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return None


_CURES = {
    errno.ENOENT: "create the campaign first, or give the path of another one",
    errno.EACCES: "this user may not enter its folder: " + _CHMOD_HINT,
}


def _os_reason(cause: OSError | ValueError) -> str:
    """Return the reason that the operating system gives, without the path, and a cure."""
    if not isinstance(cause, OSError) or cause.strerror is None:
        return str(cause)
    return cause.strerror + (f"; {_CURES[cause.errno]}" if cause.errno in _CURES else "")


def _retry(operation: Callable[[], Any], timeout: float) -> None:
    """Repeat an operation until the file is not locked."""
    # The pauses of SQLite's own busy handler are longer than the gaps between writes of other processes.
    deadline = time.monotonic() + timeout
    while True:
        try:
            operation()
            return
        except sqlite3.OperationalError as cause:
            busy = cause.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            if not busy or time.monotonic() >= deadline:
                raise
        time.sleep(_RETRY_PAUSE)

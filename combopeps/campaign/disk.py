"""State files on the disk: only regular ones, new ones whole or not at all, and one writer at a time.

The lock is one that the kernel takes back from a process that dies.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from combopeps import files
from combopeps.errors import LockError, StateFileError

_PAUSE = 0.0005  # seconds between two tries: short, to find the gaps between two writes of a busy process

if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    _BYTE = 1 << 40  # far behind the data: locks of Windows keep others from reading, too

    def _take(fd: int) -> None:
        os.lseek(fd, _BYTE, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _take(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def opened(path: Path, flags: int = os.O_RDONLY) -> Iterator[int]:
    """A descriptor of a regular file; anything else is refused, and never waited for."""
    with ExitStack() as stack:
        try:
            fd = stack.enter_context(files.opened(path, flags))
        except (OSError, ValueError) as cause:  # ValueError: a path with a NUL
            raise StateFileError(f"{path} cannot be opened: {cause}") from None
        yield fd


@contextmanager
def locked(path: Path, timeout: float) -> Iterator[int]:
    """A descriptor of the file, for reading and appending, that nobody else holds at the same time."""
    deadline = time.monotonic() + timeout
    while True:
        with opened(path, os.O_RDWR | os.O_APPEND) as fd:  # closing it gives the lock back
            if _is_taken(fd) and _is_still(path, fd):
                yield fd
                return
        if time.monotonic() >= deadline:
            wait = f"for more than {timeout:g} s; wait for it, or give a longer timeout"
            raise LockError(f"{path} has been in use by another process {wait}")
        time.sleep(_PAUSE)


def create(path: Path, data: bytes) -> None:
    """A new file, complete on the disk before it gets its name; whatever bears the name already is left alone."""
    try:
        _refuse_existing(path)
        with files.drafted(path.parent, data) as draft:
            os.link(draft, path)  # unlike a rename, refuses to overwrite: of several at once, one succeeds
            _sync_directory(path.parent)
    except FileExistsError:
        _refuse_existing(path)
        raise StateFileError(f"{path} cannot be created: others create and delete it") from None
    except StateFileError:
        raise
    except (OSError, ValueError) as cause:
        raise StateFileError(f"{path} cannot be created: {cause}") from None


def read(fd: int, start: int, end: int) -> bytes:
    """The bytes from start to end, or to the end of the file."""
    os.lseek(fd, start, os.SEEK_SET)
    parts = []
    while start < end and (part := os.read(fd, end - start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def write(fd: int, data: bytes) -> None:
    """All of it."""
    while data:
        data = data[os.write(fd, data) :]


def _is_taken(fd: int) -> bool:
    try:
        _take(fd)
    except OSError:
        return False
    return True


def _is_still(path: Path, fd: int) -> bool:
    """False if the file was replaced while we waited: then we hold the lock of one that nobody sees any more."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _refuse_existing(path: Path) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISREG(mode):
        raise StateFileError(f"{path} exists already, and is not overwritten; open it, or take another name")
    raise StateFileError(f"{path} exists already, and is {files.kind_of(mode)}; take the name of a new file")


def _sync_directory(path: Path) -> None:
    """A new name is on the disk only when its directory is."""
    if os.name == "posix":
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

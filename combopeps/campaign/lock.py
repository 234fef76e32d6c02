"""One writer at a time: a lock that the kernel takes back from a process that dies."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
def locked(path: Path, timeout: float) -> Iterator[int]:
    """A descriptor of the file, for reading and appending, that nobody else holds at the same time."""
    deadline = time.monotonic() + timeout
    while True:
        fd = _open(path)
        try:
            _take(fd)
            if _is_still(path, fd):
                break
        except OSError:
            if time.monotonic() >= deadline:
                os.close(fd)
                wait = f"for more than {timeout:g} s; wait for it, or give a longer timeout"
                raise LockError(f"{path} has been in use by another process {wait}") from None
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        time.sleep(_PAUSE)
    try:
        yield fd
    finally:
        os.close(fd)  # gives the lock back


def _open(path: Path) -> int:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise OSError("it is not a regular file")
        return os.open(path, os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError) as cause:  # ValueError: a path with a NUL
        raise StateFileError(f"{path} cannot be opened: {cause}") from None


def _is_still(path: Path, fd: int) -> bool:
    """False if the file was replaced while we waited: then we hold the lock of one that nobody sees any more."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False

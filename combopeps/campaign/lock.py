"""One writer at a time: a lock that the kernel takes back from a process that dies."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from numbers import Real
from pathlib import Path

from combopeps.campaign.disk import opened
from combopeps.errors import LockError, ParameterError

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


def check_timeout(timeout: float) -> float:
    """Seconds to wait for the lock, or a typed error."""
    if isinstance(timeout, bool) or not isinstance(timeout, Real) or not (isfinite(timeout) and timeout >= 0):
        raise ParameterError(f"timeout must be a finite number of seconds, 0 or more, got {timeout!r:.40}")
    return float(timeout)


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

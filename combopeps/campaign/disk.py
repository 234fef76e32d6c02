"""State files on the disk: only regular ones, new ones whole or not at all, and one writer at a time.

The lock is one that the kernel takes back from a process that dies.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import numpy as np

from combopeps import files
from combopeps.errors import LockError, StateFileError

_LARGEST_ASIDE = 1 << 28  # bytes of a file that can be done without
_NO_LINKS, _BINARY = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_BINARY", 0)
_PIECE, _NEWLINE = 1 << 16, ord("\n")
_PAUSE = 0.0005  # seconds between two tries: short, to find the gaps between two writes of a busy process

if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    _BYTE = 1 << 40  # far behind the data: locks of Windows keep others from reading, too

    def _take(fd: int) -> None:
        os.lseek(fd, _BYTE, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)

    def _release(fd: int) -> None:
        os.lseek(fd, _BYTE, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _take(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _release(fd: int) -> None:
        """Closing the file does not do it while a process that was forked meanwhile has it open, too."""
        fcntl.flock(fd, fcntl.LOCK_UN)


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
        with opened(path, os.O_RDWR | os.O_APPEND) as fd:
            if _is_taken(fd) and _is_still(path, fd):
                owner = os.getpid()
                try:
                    yield fd
                finally:
                    if os.getpid() == owner:
                        _release(fd)
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


def newlines(data: bytes) -> int:
    """How many there are; in pieces that stay in the processor's cache, some times as fast as `bytes.count`."""
    codes = np.frombuffer(data, dtype=np.uint8)
    return sum(int(np.count_nonzero(codes[i : i + _PIECE] == _NEWLINE)) for i in range(0, len(codes), _PIECE))


def write(fd: int, data: bytes) -> None:
    """All of it."""
    while data:
        data = data[os.write(fd, data) :]


def read_aside(path: Path) -> bytes | None:
    """A file that nothing depends on, if it is there, regular and not huge."""
    with suppress(OSError, ValueError):
        if stat.S_ISREG(os.lstat(path).st_mode):
            with files.opened(path, os.O_RDONLY | _NO_LINKS) as fd:
                size = os.fstat(fd).st_size
                return read(fd, 0, size) if size <= _LARGEST_ASIDE else None
    return None


def write_aside(path: Path, data: bytes, mode: int) -> None:
    """Write such a file, all or nothing, or leave it; by one process at a time.

    There is no wait for the disk: what a crash leaves of it is found to be no good. The draft has one name, so that
    crashes leave one at most.
    """
    draft = path.with_name(path.name + ".draft")
    with suppress(OSError, ValueError):
        if len(data) > _LARGEST_ASIDE or not _may_replace(path) or not _may_replace(draft):
            return
        with suppress(FileNotFoundError):
            os.unlink(draft)
        fd = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | _NO_LINKS | _BINARY, 0o600)
        try:
            try:
                write(fd, data)
            finally:
                os.close(fd)
            os.chmod(draft, stat.S_IMODE(mode) & 0o777)
            os.replace(draft, path)
        except BaseException:
            os.unlink(draft)
            raise


def _may_replace(path: Path) -> bool:
    """Is there nothing, or a regular file?"""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except FileNotFoundError:
        return True


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

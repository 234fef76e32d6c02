"""State files on the disk: only regular ones, and new ones whole or not at all, never over an old one."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from combopeps.errors import ParameterError, StateFileError

_BINARY = getattr(os, "O_BINARY", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # opening a pipe would wait for its other end
_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0) | _BINARY
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def as_path(path: str | os.PathLike[str]) -> Path:
    """The path of a file, or a typed error."""
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text or text.endswith(("/", os.sep)):
        raise ParameterError(f"path must name a file, got {path!r:.40}")
    return Path(text)


@contextmanager
def opened(path: Path, flags: int = os.O_RDONLY) -> Iterator[int]:
    """A descriptor of a regular file; anything else is refused, and never waited for."""
    try:
        _refuse_irregular(os.stat(path))  # before it is opened, as some devices act on that
        fd = os.open(path, flags | _NO_WAIT | _BINARY)
    except (OSError, ValueError) as cause:  # ValueError: a path with a NUL
        raise StateFileError(f"{path} cannot be opened: {cause}") from None
    try:
        try:
            _refuse_irregular(os.fstat(fd))  # it may have been exchanged in between
        except OSError as cause:
            raise StateFileError(f"{path} cannot be opened: {cause}") from None
        yield fd
    finally:
        os.close(fd)


def create(path: Path, data: bytes) -> None:
    """A new file, complete on the disk before it gets its name; whatever bears the name already is left alone."""
    draft = path.parent / f".{secrets.token_hex(16)}.draft"  # nobody can lie in wait under this name, or share it
    made = False
    try:
        _refuse_existing(path)
        fd = os.open(draft, _NEW, 0o666)
        made = True
        try:
            write(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.link(draft, path)  # unlike a rename, refuses to overwrite: of several at once, one succeeds
        _sync_directory(path.parent)
    except FileExistsError:
        _refuse_existing(path)
        raise StateFileError(f"{path} cannot be created: others create and delete it") from None
    except (OSError, ValueError) as cause:
        raise StateFileError(f"{path} cannot be created: {cause}") from None
    finally:
        if made:
            with suppress(OSError):
                draft.unlink()


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


def _kind(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "no regular file")


def _refuse_irregular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(f"it is {_kind(status.st_mode)}; a campaign lives in a regular file")


def _refuse_existing(path: Path) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISREG(mode):
        raise StateFileError(f"{path} exists already, and is not overwritten; open it, or take another name")
    raise StateFileError(f"{path} exists already, and is {_kind(mode)}; take the name of a new file")


def _sync_directory(path: Path) -> None:
    """A new name is on the disk only when its directory is."""
    if os.name == "posix":
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

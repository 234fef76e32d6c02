"""Read and write files given by the user: regular files only, and atomic replacement."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from combopeps.errors import FileFormatError
from combopeps.utils.validation import as_path

_FILE_TYPES = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_BINARY = getattr(os, "O_BINARY", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)  # opening a pipe would wait for its other end
_CREATE_FLAGS = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0) | _BINARY


def kind_of(mode: int) -> str:
    """Return a description of the type of a file."""
    return _FILE_TYPES.get(stat.S_IFMT(mode), "something else")


@contextmanager
def open_regular(path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> Iterator[int]:
    """Open a regular file, and yield its descriptor; raise an OSError for other files, without blocking."""
    refuse_irregular(os.stat(path).st_mode)  # before opening, which has side effects on some devices
    fd = os.open(path, flags | _NONBLOCK | _BINARY)
    try:
        refuse_irregular(os.fstat(fd).st_mode)  # the file may have been replaced in between
        yield fd
    finally:
        os.close(fd)


def raise_format_error(path: Path, message: str, line: int | None = None, field: str = "") -> NoReturn:
    """Raise a `FileFormatError` that begins with file, line and field."""
    where = "".join((str(path), f", line {line}" if line else "", f", {field}" if field else ""))
    raise FileFormatError(f"{where}: {message}", str(path), line, field)


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a regular file."""
    path = as_path(path)
    with _as_format_errors(path, "read"), open_regular(path) as fd, open(fd, "rb", closefd=False) as file:
        return file.read()


def check_target(path: str | os.PathLike[str]) -> None:
    """Raise the error that `write_atomically` would raise, before a long computation whose result is to be written."""
    as_path(path)
    with _as_format_errors(path, "written"):
        _existing_mode(path)
        if not os.access(Path(path).parent, os.W_OK):
            raise OSError(
                f"there is no folder {str(Path(path).parent)!r} to write into; make one, or give another path"
            )


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a new or regular file atomically: readers get either the old or the new content.

    An existing file keeps its permissions, a new one has the default ones. Links, devices, pipes and folders are
    refused.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(f"{folder}/x", b"first")
    ...     write_atomically(f"{folder}/x", b"second")
    ...     read_regular(f"{folder}/x"), os.listdir(folder)
    (b'second', ['x'])
    """
    as_path(path)
    with _as_format_errors(path, "written"):
        mode = _existing_mode(path)
        with drafted(Path(path).parent, data, 0o666 if mode is None else mode) as draft:
            if mode is not None:
                os.chmod(draft, mode)
            os.replace(draft, path)


@contextmanager
def drafted(folder: Path, data: bytes, mode: int = 0o666) -> Iterator[Path]:
    """Write a temporary file to disk, and yield its path; it is removed afterwards unless it was renamed."""
    draft = folder / f".{secrets.token_hex(16)}.draft"  # unpredictable, so that no other process uses the name
    fd = os.open(draft, _CREATE_FLAGS, mode)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
        yield draft
    finally:
        with suppress(OSError):
            draft.unlink()


def _existing_mode(path: str | os.PathLike[str]) -> int | None:
    """Return the permissions of the file to be replaced; None if there is none."""
    if os.fspath(path).endswith(("/", os.sep)) or not Path(path).name:
        raise IsADirectoryError("it is a folder; give the path of a file in it")
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(mode):
        end = os.path.realpath(path)
        raise OSError(f"it is a symbolic link, which is neither followed nor replaced; write to {end!r} instead")
    refuse_irregular(mode)
    if not os.access(path, os.W_OK):
        raise PermissionError("it is write-protected; allow writing to it, or give another path")
    return stat.S_IMODE(mode) & 0o777


def refuse_irregular(mode: int) -> None:
    """Raise an OSError unless the mode is that of a regular file."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError("it is a folder; give the path of a file in it")
    if not stat.S_ISREG(mode):
        raise OSError(f"it is {kind_of(mode)}; give the path of a regular file")


@contextmanager
def _as_format_errors(path: str | os.PathLike[str], act: str) -> Iterator[None]:
    """Convert errors to `FileFormatError`, with a message that begins with the path."""
    try:
        yield
    except (OSError, ValueError) as cause:  # ValueError: a path with a NUL
        reason = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
        raise FileFormatError(f"{path}: cannot be {act}: {reason}", str(path)) from None

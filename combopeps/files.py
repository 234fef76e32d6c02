"""Files that people name: only regular ones are read or replaced, and a new one appears whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from combopeps.errors import FileFormatError

_KINDS = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
_BINARY, _NO_WAIT = getattr(os, "O_BINARY", 0), getattr(os, "O_NONBLOCK", 0)


def read(path: str | os.PathLike[str]) -> bytes:
    """The content of a regular file; nothing else is opened, as a pipe might keep us waiting for ever."""
    try:
        _refuse_irregular(os.stat(path).st_mode)
        fd = os.open(path, os.O_RDONLY | _BINARY | _NO_WAIT)
        with open(fd, "rb") as file:
            _refuse_irregular(os.fstat(fd).st_mode)  # it may have been exchanged in between
            return file.read()
    except (OSError, ValueError) as cause:  # ValueError: a path with a NUL
        raise FileFormatError(f"{path}: cannot be read: {_reason(cause)}", str(path)) from None


def check_target(path: str | os.PathLike[str]) -> None:
    """Refuse what `replace` would, before the work whose result is to be written."""
    try:
        _mode_of(path)
        if not os.access(Path(path).parent, os.W_OK):
            raise OSError(
                f"there is no folder {str(Path(path).parent)!r} to write into; make one, or give another path"
            )
    except (OSError, ValueError) as cause:
        raise FileFormatError(f"{path}: cannot be written: {_reason(cause)}", str(path)) from None


def replace(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file that is new or regular, all or nothing: a reader sees the old content or the new one.

    An old file keeps its permissions, a new one gets the usual ones. Links, devices, pipes and folders are refused.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     replace(f"{folder}/x", b"first")
    ...     replace(f"{folder}/x", b"second")
    ...     read(f"{folder}/x"), os.listdir(folder)
    (b'second', ['x'])
    """
    draft = None
    try:
        mode = _mode_of(path)
        name = Path(path).with_name(f".{secrets.token_hex(8)}.draft")  # nobody can lie in wait under this name
        fd = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | _BINARY, 0o666 if mode is None else mode)
        draft = name
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
        if mode is not None:
            os.chmod(draft, mode)
        os.replace(draft, path)
        draft = None
    except (OSError, ValueError) as cause:
        raise FileFormatError(f"{path}: cannot be written: {_reason(cause)}", str(path)) from None
    finally:
        if draft is not None:
            with suppress(OSError):
                draft.unlink()


def _mode_of(path: str | os.PathLike[str]) -> int | None:
    """Permissions of the file that would be replaced; None when there is none."""
    if os.fspath(path).endswith(("/", os.sep)) or not Path(path).name:
        raise IsADirectoryError("it is a folder; give the path of a file in it")
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(mode):
        end = os.path.realpath(path)
        raise OSError(f"it is a symbolic link, which is neither followed nor replaced; write to {end!r} instead")
    _refuse_irregular(mode)
    if not os.access(path, os.W_OK):
        raise PermissionError("it is write-protected; allow writing to it, or give another path")
    return stat.S_IMODE(mode) & 0o777


def _refuse_irregular(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError("it is a folder; give the path of a file in it")
    if not stat.S_ISREG(mode):
        raise OSError(f"it is {_KINDS.get(stat.S_IFMT(mode), 'something else')}; give the path of a regular file")


def _reason(cause: Exception) -> str:
    """Why, without the path, with which the message begins."""
    return (cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)) or type(cause).__name__

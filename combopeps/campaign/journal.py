"""`Journal`: an append-only file of sealed lines, shared by processes, each of which may die at any moment."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from combopeps.campaign.lines import Record, check_schema, follows, is_whole, parse_all, seal
from combopeps.campaign.lock import locked
from combopeps.errors import StateFileError

CURE = "`combopeps doctor --salvage` writes a repaired copy"


class Journal:
    """What this process has read of the file, and how to read on and to append.

    Everything happens inside `with journal.locked():`; `read` first, then `append`.

    Attributes
    ----------
    lines
        How many lines have been read or written.
    recovered
        What was cut off the end of the file, because a process died while writing it.
    """

    def __init__(self, path: str | os.PathLike[str], timeout: float = 10.0) -> None:
        self.path, self.timeout = Path(path), timeout
        self.recovered: list[bytes] = []
        self._fd = -1
        self.rewind()

    def rewind(self) -> None:
        """Begin at the first line again."""
        self.lines = self._offset = self._chain = 0
        self._last = b""
        self._file: tuple[int, int] | None = None

    @classmethod
    def create(cls, path: str | os.PathLike[str], records: Iterable[Record], timeout: float = 10.0) -> Journal:
        """A new file with these records, complete on the disk before it gets its name; never over an old one."""
        journal, chain, lines = cls(path, timeout), 0, []
        for record in records:
            line, chain = seal(record, chain)
            lines.append(line)
        draft = journal.path.with_name(f".{journal.path.name}.{os.getpid()}.draft")
        try:
            fd = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o666)
            try:
                _write(fd, b"".join(lines))
                os.fsync(fd)
            finally:
                os.close(fd)
            os.link(draft, journal.path)  # unlike a rename, refuses to overwrite
        except FileExistsError:
            raise StateFileError(
                f"{path} exists already, and is not overwritten; open it, or take another name"
            ) from None
        except (OSError, ValueError) as cause:
            raise StateFileError(f"{path} cannot be created: {cause}") from None
        finally:
            with suppress(OSError, ValueError):
                draft.unlink()
        _sync_directory(journal.path.parent)
        return journal

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else reads or writes in here."""
        with locked(self.path, self.timeout) as fd:
            self._fd = fd
            try:
                yield
            except OSError as cause:
                raise StateFileError(f"{self.path} cannot be read or written: {cause}") from cause

    def read(self) -> tuple[bool, list[tuple[int, Record]]]:
        """Records that are new to this process, with line numbers; True if the file is another one than before."""
        stat = os.fstat(self._fd)
        replaced = self._file is not None and not self._is_known(stat)
        if replaced:
            self.rewind()
        self._file = stat.st_dev, stat.st_ino
        *lines, tail = _read(self._fd, self._offset, stat.st_size).split(b"\n")
        records = self._take(lines)
        if tail and self._mend(tail):
            records += self._take([tail])
        return replaced, records

    def append(self, records: Iterable[Record]) -> None:
        """Write records and wait for the disk. They are not taken in: the next `read` brings them, like others'."""
        chain, lines = self._chain, []
        for record in records:
            line, chain = seal(record, chain)
            lines.append(line)
        try:
            _write(self._fd, b"".join(lines))
            self.sync()
        except OSError as cause:
            os.ftruncate(self._fd, self._offset)  # nobody has been told that these lines exist
            raise StateFileError(f"{self.path} cannot be written: {cause}; nothing was recorded") from cause

    def sync(self) -> None:
        """Wait until the disk has everything."""
        os.fsync(self._fd)

    def _is_known(self, stat: os.stat_result) -> bool:
        """Is it the file we have been reading, ending, as far as we know it, in the line we saw last?"""
        start = self._offset - len(self._last)
        return (stat.st_dev, stat.st_ino) == self._file and _read(self._fd, start, self._offset) == self._last

    def _take(self, lines: list[bytes]) -> list[tuple[int, Record]]:
        """The next lines, checked, with their numbers."""
        if not lines:
            return []
        first = number = self.lines + 1
        chain = self._chain
        try:
            if first == 1:
                check_schema(lines[0])
            for number, line in enumerate(lines, start=first):  # noqa: B007
                good, chain = follows(line, chain)
                if not good:
                    lost = "is not where it was written: lines before it are missing"
                    raise ValueError(f"this line {lost if is_whole(line) else 'is damaged'}; {CURE}")
            records = list(enumerate(parse_all(lines), start=first))
        except ValueError as cause:
            if len(cause.args) == 2:  # the index of a line that is no JSON
                number = first + cause.args[1]
            raise StateFileError(f"{self.path}, line {number}: {cause.args[0]}", number) from None
        self._chain, self._last = chain, lines[-1] + b"\n"
        self._offset += sum(map(len, lines)) + len(lines)
        self.lines += len(lines)
        return records

    def _mend(self, tail: bytes) -> bool:
        """A last line without its newline: nobody was told of it, so that it is completed (True) or cut off."""
        number = self.lines + 1
        if is_whole(tail):
            _write(self._fd, b"\n")
            self.sync()
            return True
        if is_whole(tail[:-1]):  # it is the newline that is damaged: this line may have been acknowledged
            raise StateFileError(f"{self.path}, line {number}: the end of this line is damaged; {CURE}", number)
        if number == 1:
            raise StateFileError(f"{self.path}, line 1: this is not a state file, or only a piece of one", 1)
        os.ftruncate(self._fd, self._offset)
        self.sync()
        self.recovered.append(tail)
        return False


def _read(fd: int, start: int, end: int) -> bytes:
    os.lseek(fd, start, os.SEEK_SET)
    parts = []
    while start < end and (part := os.read(fd, end - start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def _sync_directory(path: Path) -> None:
    """A new name is on the disk only when its directory is."""
    if os.name == "posix":
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

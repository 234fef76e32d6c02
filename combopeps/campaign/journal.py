"""`Journal`: an append-only file of sealed lines, shared by processes, each of which may die at any moment."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from combopeps.campaign import disk
from combopeps.campaign.copies import altered
from combopeps.campaign.lock import check_timeout, locked
from combopeps.campaign.seal import Record, check_schema, follows, is_whole, parse_all, seal
from combopeps.errors import StateFileError

CURE = "`combopeps doctor --salvage` writes a repaired copy"
_PAUSE = 0.001  # seconds until a fault that was seen without the lock is looked at again


class Journal:
    """What this process has read of the file, and how to read on and to append.

    `read` may be called at any time: without the lock it takes whole lines in and changes nothing. `append` belongs
    inside `with journal.locked():`, after a `read` there, which mends what a process left that died while writing.

    Attributes
    ----------
    lines
        How many lines have been read or written.
    recovered
        What was cut off the end of the file, because a process died while writing it.
    unfinished
        What stood behind the last line when the file was read without the lock: just being written, or torn.
    """

    def __init__(self, path: str | os.PathLike[str], timeout: float = 10.0) -> None:
        self.path, self.timeout = disk.as_path(path), check_timeout(timeout)
        self.recovered: list[bytes] = []
        self._fd = -1
        self.rewind()

    def rewind(self) -> None:
        """Begin at the first line again."""
        self.lines = self._offset = self._chain = 0
        self._last = self.unfinished = b""
        self._file: tuple[int, int] | None = None

    @classmethod
    def create(cls, path: str | os.PathLike[str], records: Iterable[Record], timeout: float = 10.0) -> Journal:
        """A new file with these records, complete on the disk before it gets its name; never over an old one."""
        journal = cls(path, timeout)
        disk.create(journal.path, _sealed(records, 0))
        return journal

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else writes in here."""
        with locked(self.path, self.timeout) as fd, self._own_errors():
            self._fd = fd
            try:
                yield
            finally:
                self._fd = -1

    def read(self) -> tuple[bool, list[tuple[int, Record]]]:
        """Records that are new to this process, with line numbers; True if the file is another one than before."""
        if self._fd >= 0:
            replaced, data = self._fetch(self._fd)
            return replaced, self._digest(data)
        with disk.opened(self.path) as fd, self._own_errors():
            replaced, seen = False, None
            while True:
                other, data = self._fetch(fd)
                replaced |= other
                try:
                    return replaced, self._digest(data)
                except StateFileError:  # somebody may be mending the file at this moment: believed when seen twice
                    if seen is not None and data.startswith(seen):
                        raise
                seen = data
                time.sleep(_PAUSE)

    def append(self, records: Iterable[Record]) -> None:
        """Write records and wait for the disk. They are not taken in: the next `read` brings them, like others'."""
        lines = _sealed(records, self._chain)
        try:
            disk.write(self._fd, lines)
            self.sync()
        except BaseException as cause:
            os.ftruncate(self._fd, self._offset)  # nobody has been told that these lines exist
            if not isinstance(cause, OSError):
                raise
            raise StateFileError(f"{self.path} cannot be written: {cause}; nothing was recorded") from cause

    def sync(self) -> None:
        """Wait until the disk has everything."""
        os.fsync(self._fd)

    def _fetch(self, fd: int) -> tuple[bool, bytes]:
        """What stands behind the lines that we know; True, and everything, if the file is another one than before."""
        stat = os.fstat(fd)
        replaced = self._file is not None and not self._is_known(fd, stat)
        if replaced:
            self.rewind()
        self._file = stat.st_dev, stat.st_ino
        return replaced, disk.read(fd, self._offset, stat.st_size)

    def _is_known(self, fd: int, stat: os.stat_result) -> bool:
        """Is it the file we have been reading, ending, as far as we know it, in the line we saw last?"""
        start = self._offset - len(self._last)
        return (stat.st_dev, stat.st_ino) == self._file and disk.read(fd, start, self._offset) == self._last

    def _digest(self, data: bytes) -> list[tuple[int, Record]]:
        """The records of new bytes; what is not a whole line yet is left for later, or mended under the lock."""
        *lines, tail = data.split(b"\n")
        before = self.lines, self._offset, self._chain, self._last
        try:
            records = self._take(lines)
            self.unfinished = b""
            return records + self._take([tail]) if tail and self._is_complete(tail) else records
        except StateFileError:
            self.lines, self._offset, self._chain, self._last = before
            raise

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
            raise self._fault(number, lines[number - first], cause.args[0]) from None
        self._chain, self._last = chain, lines[-1] + b"\n"
        self._offset += sum(map(len, lines)) + len(lines)
        self.lines += len(lines)
        return records

    def _is_complete(self, tail: bytes) -> bool:
        """A last line without its newline: nobody was told of it. Under the lock it is completed (True) or cut off."""
        number = self.lines + 1
        if is_whole(tail):
            if self._fd >= 0:
                disk.write(self._fd, b"\n")
                self.sync()
            return True
        if is_whole(tail[:-1]):  # it is the newline that is damaged: this line may have been acknowledged
            raise self._fault(number, tail, f"the end of this line is damaged; {CURE}")
        if number == 1:
            raise self._fault(1, tail, "this is not a state file, or only a piece of one")
        if self._fd >= 0:
            os.ftruncate(self._fd, self._offset)
            self.sync()
            self.recovered.append(tail)
        else:
            self.unfinished = tail
        return False

    def _fault(self, number: int, line: bytes, message: str) -> StateFileError:
        change = altered(line)
        return StateFileError(
            f"{self.path}, line {number}: {f'this line {change}; {CURE}' if change else message}", number
        )

    @contextmanager
    def _own_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as cause:
            raise StateFileError(f"{self.path} cannot be read or written: {cause}") from cause


def _sealed(records: Iterable[Record], chain: int) -> bytes:
    """The lines of records, linked to the end of a chain."""
    lines = []
    for record in records:
        line, chain = seal(record, chain)
        lines.append(line)
    return b"".join(lines)

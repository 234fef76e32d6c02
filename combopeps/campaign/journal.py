"""`Journal`: an append-only file of sealed lines, shared by processes, each of which may die at any moment."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import local
from typing import NamedTuple

from combopeps.campaign import disk
from combopeps.campaign.seal import chain_of, grouped, is_whole
from combopeps.campaign.sealed import CURE, SealedStorage, joined, sealed
from combopeps.campaign.storage import Excerpt, Record
from combopeps.errors import ParameterError, StateFileError

_PAUSE = 0.001  # seconds until a fault that was seen without the lock is looked at again


class Mark(NamedTuple):
    """A point: lines and bytes before it, the chain and the last line there, and which file it lies in."""

    lines: int = 0
    offset: int = 0
    chain: int = 0
    last: bytes = b""
    file: tuple[int, int] | None = None

    def behind(self, lines: Sequence[bytes]) -> Mark:
        """The point behind these lines, which follow this one."""
        if not lines:
            return self
        offset = self.offset + sum(map(len, lines)) + len(lines)
        return Mark(self.lines + len(lines), offset, chain_of(lines[-1]), lines[-1] + b"\n", self.file)


class Journal(SealedStorage):
    """A state file.

    Without the lock, `read` takes whole lines in and changes nothing; under it, `read` also mends what a process left
    that died while writing.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        name = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
        if not isinstance(name, str) or not name or name.endswith(("/", os.sep)):
            raise ParameterError(f"path must name a file, got {path!r:.40}")
        self.path = Path(name)
        self.recovered: list[bytes] = []  # what was cut off the end, because a process died while writing it
        self.unfinished = b""  # what stood behind the last line, read without the lock: just being written, or torn
        self._held = local()  # the descriptor, in the thread that has the lock

    def __repr__(self) -> str:
        return f"Journal({str(self.path)!r})"

    def __str__(self) -> str:
        return str(self.path)

    def __reduce__(self) -> tuple[type[Journal], tuple[Path]]:
        return type(self), (self.path,)

    def begin(self, lines: Sequence[bytes]) -> None:
        disk.create(self.path, joined(lines))

    def lines(self) -> list[bytes]:
        end = self.read().end
        with disk.opened(self.path) as fd, self._own_errors():
            lines = disk.read(fd, 0, end.offset).split(b"\n")
        lines = lines[:-1] if lines[-1] == b"" else lines  # the last one may lack its newline, of which nobody was told
        self._take(lines, 1, 0)  # nobody has changed them in between
        return lines

    def data(self) -> bytes:
        with disk.opened(self.path) as fd:
            try:
                return disk.read(fd, 0, os.fstat(fd).st_size)
            except OSError as cause:
                raise StateFileError(f"{self.path} cannot be read: {cause}") from None

    @contextmanager
    def locked(self, timeout: float = 10.0) -> Iterator[None]:
        with disk.locked(self.path, timeout) as fd, self._own_errors():
            self._held.fd = fd
            try:
                yield
            finally:
                self._held.fd = -1

    def read(self, point: Mark | None = None) -> Excerpt:
        if self._fd >= 0:
            return self._digest(*self._fetch(self._fd, point))
        with disk.opened(self.path) as fd, self._own_errors():
            seen = None
            while True:
                start, anew, data = self._fetch(fd, point)
                try:
                    return self._digest(start, anew, data)
                except StateFileError:  # somebody may be mending the file at this moment: believed when seen twice
                    if seen is not None and data.startswith(seen):
                        raise
                seen = data
                time.sleep(_PAUSE)

    def append(self, records: Sequence[Record], point: Mark) -> None:
        fd, data = self._fd, joined(sealed(grouped(records), point.chain))
        if fd < 0 or os.fstat(fd).st_size != point.offset:
            raise StateFileError(f"{self.path}: records are added under the lock, behind the last line; read on first")
        try:
            disk.write(fd, data)
            os.fsync(fd)
        except BaseException as cause:
            os.ftruncate(fd, point.offset)  # nobody has been told that these lines exist
            if not isinstance(cause, OSError):
                raise
            raise StateFileError(f"{self.path} cannot be written: {cause}; nothing was recorded") from cause

    @property
    def torn(self) -> list[bytes]:
        """What was cut off, and what may have to be."""
        return [*self.recovered, self.unfinished] if self.unfinished else self.recovered.copy()

    @property
    def _fd(self) -> int:
        return getattr(self._held, "fd", -1)

    def _fetch(self, fd: int, point: Mark | None) -> tuple[Mark, bool, bytes]:
        """What stands behind a point; True, and everything behind the beginning, if that is in another file."""
        stat = os.fstat(fd)
        file = stat.st_dev, stat.st_ino
        anew = point is not None and not (
            file == point.file and disk.read(fd, point.offset - len(point.last), point.offset) == point.last
        )
        start = Mark(file=file) if anew or point is None else point
        return start, anew, disk.read(fd, start.offset, stat.st_size)

    def _digest(self, start: Mark, anew: bool, data: bytes) -> Excerpt:
        """The records of new bytes; what is not whole yet is left for later, or mended under the lock."""
        *lines, tail = data.split(b"\n")
        records = self._take(lines, start.lines + 1, start.chain)
        if tail and self._is_complete(tail, start.lines + len(lines) + 1):
            lines.append(tail)
            records = self._take(lines, start.lines + 1, start.chain)
        kept = self._in_full(records, lines)
        end = start.behind(lines[:kept])
        self._mend(end, data[end.offset - start.offset :], lacks=end.offset - start.offset > len(data))
        return Excerpt(records[:kept], end, anew)

    def _is_complete(self, tail: bytes, number: int) -> bool:
        """Is there all of a last line but its newline? Nobody was told of it."""
        if is_whole(tail):
            return True
        if is_whole(tail[:-1]):  # it is the newline that is damaged: this line may have been acknowledged
            raise self._fault(number, tail, f"the end of this line is damaged; {CURE}")
        if number == 1:
            raise self._fault(1, tail, "this is not a state file, or only a piece of one")
        return False

    def _mend(self, end: Mark, rest: bytes, *, lacks: bool) -> None:
        """Under the lock, what stands behind the end is cut off, and a newline that it lacks is written."""
        fd = self._fd
        self.unfinished = rest if fd < 0 else b""
        if fd < 0 or not (rest or lacks):
            return
        if lacks:
            disk.write(fd, b"\n")
        else:
            os.ftruncate(fd, end.offset)
            self.recovered.append(rest)
        os.fsync(fd)

    @contextmanager
    def _own_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as cause:
            raise StateFileError(f"{self.path} cannot be read or written: {cause}") from cause

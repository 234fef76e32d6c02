"""`Writer`: the one thread that writes. Whatever waits is recorded with one commit, and answered after that.

While others hold the storage, it tries again and again; those who only read are answered in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, TypeVar

from combopeps.campaign import Campaign
from combopeps.campaign.together import Seen, Taken, Told, take
from combopeps.errors import ComboPepsError, LimitError, LockError

_MOST = 10_000  # jobs that may wait: beyond that, people had better come back later
_SLICE = 0.2  # seconds of one attempt
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Counts:
    """Where a campaign stands: measurements so far, and queries that wait for a result."""

    samples: int
    waiting: int


@dataclass(frozen=True, slots=True)
class _Job:
    """A result to be recorded, or something else to be done with the campaign; and who waits for it."""

    work: Told | Seen | Callable[[Campaign], Any]
    future: asyncio.Future[Any]


class Writer:
    """Has a campaign of its own, in a thread of its own.

    `version` counts what it has recorded: whoever reads the storage after that sees at least so much.
    """

    def __init__(self, campaign: Campaign) -> None:
        self.campaign, self._timeout = campaign, campaign.timeout
        campaign.timeout = min(_SLICE, campaign.timeout)
        self.version = 0
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._looks: SimpleQueue[_Job] = SimpleQueue()  # of those who only read
        self._thread = Thread(target=self._run, name="combopeps-writer", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Begin to work, for the loop that runs here."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def stop(self) -> None:
        """Record what waits, and end."""
        if self._loop is not None:
            self._jobs.put(None)
            self._thread.join()

    async def take(self, entry: Told | Seen) -> Counts:
        """Record it, together with what else waits; it is on the disk when this returns."""
        counts: Counts = await self._submit(entry)
        return counts

    async def call(self, act: Callable[[Campaign], _T]) -> _T:
        """Do something else with the campaign."""
        value: _T = await self._submit(act)
        return value

    async def read(self, look: Callable[[Campaign], _T]) -> _T:
        """Look at the campaign, and write nothing: before what waits to be recorded."""
        assert self._loop is not None
        future = self._loop.create_future()
        self._looks.put(_Job(look, future))
        self._submit(_nothing)  # so that it wakes up
        value: _T = await future
        return value

    def _submit(self, work: Any) -> asyncio.Future[Any]:
        assert self._loop is not None
        if self._jobs.qsize() >= _MOST:
            raise LimitError(f"{_MOST} requests are waiting to be recorded; come back later")
        future = self._loop.create_future()
        self._jobs.put(_Job(work, future))
        return future

    def _run(self) -> None:
        jobs: list[_Job | None] = []
        while None not in jobs:
            jobs = [self._jobs.get()]
            try:
                while True:
                    jobs.append(self._jobs.get_nowait())
            except Empty:
                pass
            self._answer_looks()
            due = [job for job in jobs if job is not None]
            results = [job for job in due if isinstance(job.work, (Told, Seen))]
            if results:
                self._deliver(zip(results, self._take([job.work for job in results]), strict=True))  # type: ignore[misc]
            for job in due:
                if not isinstance(job.work, (Told, Seen)):
                    self._deliver([(job, self._call(job.work))])

    def _take(self, entries: list[Told | Seen]) -> list[Counts | Exception]:
        try:
            taken: Taken = self._patiently(lambda campaign: take(campaign, entries))
        except Exception as error:
            _say(error)
            return [error] * len(entries)
        self.version += 1
        counts = Counts(taken.samples, taken.waiting)
        return [counts if error is None else error for error in taken.refused]

    def _call(self, act: Callable[[Campaign], Any]) -> Any:
        try:
            return self._patiently(act)
        except Exception as error:
            _say(error)
            return error
        finally:
            self.version += 1

    def _patiently(self, act: Callable[[Campaign], _T]) -> _T:
        """As long as it may take: an attempt that does not get the storage has changed nothing."""
        end = monotonic() + self._timeout
        while True:
            try:
                return act(self.campaign)
            except LockError:
                if monotonic() >= end:
                    where = self.campaign.store
                    raise LockError(f"{where} has been in use by another process for {self._timeout:g} s") from None
            self._answer_looks()

    def _answer_looks(self) -> None:
        for _ in range(self._looks.qsize()):
            job = self._looks.get()
            try:
                answer = job.work(self.campaign)  # type: ignore[operator]
            except Exception as error:
                _say(error)
                answer = error
            self._deliver([(job, answer)])

    def _deliver(self, answers: Iterable[tuple[_Job, Any]]) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(_settle, list(answers))


def _nothing(campaign: Campaign) -> None:
    """Has nothing to do."""


def _settle(answers: list[tuple[_Job, Any]]) -> None:
    for job, answer in answers:
        if job.future.done():  # nobody waits any more
            continue
        if isinstance(answer, Exception):
            job.future.set_exception(answer)
        else:
            job.future.set_result(answer)


def _say(error: Exception) -> None:
    if not isinstance(error, ComboPepsError):
        _log.error("unexpected error while writing", exc_info=error)

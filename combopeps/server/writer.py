"""`Writer`: the thread that changes the campaign of a server.

Operations that wait are committed together, and acknowledged after that. While another process holds the lock of the
store, the writer tries again; reads are answered in between.
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
from combopeps.errors import ComboPepsError, LimitError, LockError

_MAX_WAITING = 10_000  # operations
_ATTEMPT = 0.2  # seconds for which one attempt waits for the lock
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Job:
    """An operation on the campaign, the future that waits for it, and the author of its events."""

    work: Callable[[Campaign], Any]
    future: asyncio.Future[Any]
    author: str | None = None


class Writer:
    """Executes operations on a campaign in a thread of its own.

    `version` counts commits: what is read from the store after that includes them.
    """

    def __init__(self, campaign: Campaign) -> None:
        self.campaign, self._timeout = campaign, campaign.timeout
        campaign.timeout = min(_ATTEMPT, campaign.timeout)
        self.version = 0
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._reads: SimpleQueue[_Job] = SimpleQueue()
        self._thread = Thread(target=self._run, name="combopeps-writer", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Start the thread; futures belong to the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def stop(self) -> None:
        """Execute what waits, and end the thread."""
        if self._loop is not None:
            self._jobs.put(None)
            self._thread.join()

    def change(self, work: Callable[[Campaign], _T], author: str | None = None) -> asyncio.Future[_T]:
        """Execute an operation together with what else waits; it is durable when the future is done."""
        assert self._loop is not None
        if self._jobs.qsize() >= _MAX_WAITING:
            raise LimitError(f"{_MAX_WAITING} requests are waiting to be recorded; try again later")
        future = self._loop.create_future()
        self._jobs.put(_Job(work, future, author))
        return future

    async def read(self, work: Callable[[Campaign], _T]) -> _T:
        """Execute an operation that changes nothing, before changes that wait."""
        assert self._loop is not None
        future = self._loop.create_future()
        self._reads.put(_Job(work, future))
        self._jobs.put(_Job(_nothing, self._loop.create_future()))  # wakes the thread
        value: _T = await future
        return value

    def _run(self) -> None:
        jobs: list[_Job | None] = []
        while None not in jobs:
            jobs = [self._jobs.get()]
            try:
                while True:
                    jobs.append(self._jobs.get_nowait())
            except Empty:
                pass
            self._answer_reads()
            due = [job for job in jobs if job is not None and job.work is not _nothing]
            if due:
                self._deliver(zip(due, self._executed(due), strict=True))

    def _executed(self, jobs: list[_Job]) -> list[Any]:
        """The results, or exceptions, of all jobs, after one commit."""
        try:
            answers = self._patiently([self._operation(job) for job in jobs])
        except Exception as error:
            answers = [error] * len(jobs)
        finally:
            self.version += 1
        for each in {id(one): one for one in answers if isinstance(one, Exception)}.values():
            if not isinstance(each, ComboPepsError):
                _log.error("unexpected error while writing", exc_info=each)
        return answers

    def _operation(self, job: _Job) -> Callable[[], Any]:
        def operation() -> Any:
            self.campaign.author = job.author
            return job.work(self.campaign)

        return operation

    def _patiently(self, operations: list[Callable[[], Any]]) -> list[Any]:
        """Try until the time is over: an attempt that does not get the lock has changed nothing."""
        end = monotonic() + self._timeout
        while True:
            try:
                return self.campaign.apply_together(operations)
            except LockError:
                if monotonic() >= end:
                    raise
            self._answer_reads()

    def _answer_reads(self) -> None:
        for _ in range(self._reads.qsize()):
            job = self._reads.get()
            try:
                answer = job.work(self.campaign)
            except Exception as error:
                if not isinstance(error, ComboPepsError):
                    _log.error("unexpected error while reading", exc_info=error)
                answer = error
            self._deliver([(job, answer)])

    def _deliver(self, answers: Iterable[tuple[_Job, Any]]) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(_settle, list(answers))


def _nothing(campaign: Campaign) -> None:
    """Wake the thread."""


def _settle(answers: list[tuple[_Job, Any]]) -> None:
    for job, answer in answers:
        if job.future.done():  # the request was cancelled
            continue
        if isinstance(answer, Exception):
            job.future.set_exception(answer)
        else:
            job.future.set_result(answer)

"""`StatusWorker`: statuses and pages of the campaign, computed in a process beside the server.

The process reads the store for itself: however long a report takes, results are recorded meanwhile. A report that took
s seconds costs max(pause, 5 s) of an allowance that grows by one second each second: reports take at most a fifth of
the time in the long run, some may follow each other quickly, and one at a time is computed. The first one of a process,
which loads and compiles, counts as a quick one.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import secrets
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from threading import Lock
from typing import TYPE_CHECKING, Any

from combopeps.campaign import Campaign
from combopeps.campaign.export import measurements_csv
from combopeps.errors import ComboPepsError, ServerError
from combopeps.server.schemas import dumped, measurement_json, status_json

if TYPE_CHECKING:
    from combopeps.server.routes import Writer

_SHARE = 5  # reports may take one part in so many of the time
_BURST = 5  # reports that may follow each other without a pause
_UNCHANGED = 0.1  # seconds for which no other process is expected to have written


@dataclass(frozen=True)
class Report:
    """A report: `tag` identifies the events that it includes, `content` is what a request gets."""

    tag: str
    content: Any
    seconds: float = 0.0


class StatusWorker:
    """Asks the other process, which is started at the first request and replaced when it dies."""

    def __init__(self, opened: Callable[[], Campaign], writer: Writer, pause: float = 0.5) -> None:
        self._opened, self._writer, self._pause = opened, writer, pause
        self._thread = ThreadPoolExecutor(1, "combopeps-status")  # waits for the pipe
        self._process: Any = None
        self._cache: dict[str, _Cached] = {}
        self._turn = asyncio.Lock()
        self._allowance, self._since = _BURST * pause, time.monotonic()
        self._stopping, self._ending = asyncio.Event(), Lock()

    async def report(self, name: str, *, wait: bool = True) -> Report:
        """Return a report of all that was recorded before this call, or, without waiting, the last one."""
        cached = self._cache.setdefault(name, _Cached())
        if not wait and cached.report is not None:
            return cached.report
        wanted = self._writer.version
        while cached.is_older(wanted):
            async with self._turn:
                if cached.is_older(wanted):
                    await self._refresh(name, cached)
        assert cached.report is not None
        return cached.report

    async def once(self, name: str) -> Report:
        """Return a report that is not cached."""
        async with self._turn:
            report: Report = await self._ask(name)
            return report

    async def stop(self) -> None:
        """Answer requests that wait, and end the other process."""
        self.hurry()
        await asyncio.get_running_loop().run_in_executor(None, self._end)
        self._thread.shutdown(wait=False, cancel_futures=True)

    def hurry(self) -> None:
        """The server is about to stop: no request waits for a report any more."""
        self._stopping.set()

    async def _refresh(self, name: str, cached: _Cached) -> None:
        version = self._writer.version
        if cached.report is None or await self._ask("tag") != cached.report.tag:
            while (missing := -self._left()) >= 0:
                await self._unless_stopping(asyncio.sleep(missing + 0.001))
            version, is_first = self._writer.version, self._process is None
            cached.report = await self._ask(name)
            self._allowance -= max(self._pause, 0.0 if is_first else _SHARE * cached.report.seconds)
        cached.version, cached.checked = version, time.monotonic()

    def _left(self) -> float:
        now = time.monotonic()
        self._allowance = min(_BURST * self._pause, self._allowance + now - self._since)
        self._since = now
        return self._allowance if self._pause > 0 else 1.0

    async def _ask(self, name: str) -> Any:
        loop = asyncio.get_running_loop()
        return await self._unless_stopping(loop.run_in_executor(self._thread, self._exchange, name))

    async def _unless_stopping(self, awaitable: Any) -> Any:
        task, stopping = asyncio.ensure_future(awaitable), asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                task.cancel()
                raise ServerError("the server is stopping; try again when it runs")
            return task.result()
        finally:
            stopping.cancel()

    def _exchange(self, request: str) -> Any:
        """In the thread that waits; a process that has died is replaced, once."""
        for last in (False, True):
            try:
                if self._process is None:
                    self._begin()
                return self._send(request)
            except ComboPepsError:  # of a report
                raise
            except (EOFError, OSError, pickle.UnpicklingError) as cause:
                self._end()
                if last or self._stopping.is_set():
                    raise ServerError(f"the status process has died: {cause}") from None
            except Exception as cause:  # a request or a response cannot be pickled, or read
                self._end()
                raise ServerError(f"the status process cannot be asked: {type(cause).__name__}: {cause}") from None
        raise AssertionError

    def _begin(self) -> None:
        """Start a process; not one of `multiprocessing`, which would run the caller's script again."""
        program = [sys.executable, "-P", "-c", "from combopeps.server.status_worker import main; main()"]
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        self._process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": paths}
        )
        try:
            if self._send(self._opened) != self._writer.campaign.header:
                raise ServerError("another campaign took the place of the one that is served")
        except ComboPepsError:
            self._end()
            raise

    def _send(self, request: Any) -> Any:
        process = self._process
        if process is None:
            raise EOFError("it was ended")
        pickle.dump(request, process.stdin)
        process.stdin.flush()
        good, answer = pickle.load(process.stdout)
        if not good:
            raise answer
        return answer

    def _end(self) -> None:
        with self._ending:
            process, self._process = self._process, None
        if process is not None:
            process.kill()  # it only reads
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):
                    pipe.close()


class _Cached:
    """The last report of a kind, the version of the writer that it includes, and when that was checked."""

    report: Report | None = None
    version = -1
    checked = 0.0

    def is_older(self, version: int) -> bool:
        return self.report is None or self.version < version or time.monotonic() - self.checked > _UNCHANGED


def main() -> None:
    """In the other process: open the campaign, then answer names of reports by (True, report) or (False, error)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the server ends this process
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what an oracle prints must not mix with answers
    warnings.simplefilter("ignore", UserWarning)  # of measurements: the status has them
    reports: _Reports | None = None
    printed = set[tuple[str, type]]()
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        answer: tuple[bool, Any]
        try:
            if reports is None:
                reports = _Reports(request())
                answer = True, reports.campaign.header
            else:
                begun = time.perf_counter()
                made = getattr(reports, request)()
                answer = True, replace(made, seconds=time.perf_counter() - begun) if isinstance(made, Report) else made
        except ComboPepsError as error:
            answer = False, error
        except Exception as error:
            what = "campaign" if reports is None else request
            if (what, type(error)) not in printed:  # once is enough: a page asks every few seconds
                printed.add((what, type(error)))
                traceback.print_exc()
            verb = {"campaign": "opened", "page": "drawn"}.get(what, "shown")
            cause = f"{type(error).__name__}: {error!s:.200}" if str(error) else type(error).__name__
            answer = False, ServerError(f"the {what} cannot be {verb}: {cause}")
        try:
            answers.write(pickle.dumps(answer))
            answers.flush()
        except BrokenPipeError:
            return


class _Reports:
    """One method for each kind of report."""

    def __init__(self, campaign: Campaign) -> None:
        from combopeps.viz.error_curve import ErrorCurve

        self.campaign, self.curve = campaign, ErrorCurve()
        campaign.pin()

    def tag(self) -> str:
        """Of the events that are there now."""
        return blake2b(repr(self.campaign.synchronised()).encode(), digest_size=12).hexdigest()

    def status(self) -> Report:
        with self.campaign._mutex:
            tag = self.tag()
            return Report(tag, dumped(status_json(self.campaign, self.campaign.status()) | {"tag": tag}))

    def page(self) -> Report:
        """The whole page, the part of it that changes, and what stands in the page for the nonce of a request."""
        from combopeps.viz.build_view_model import report_data
        from combopeps.viz.html import Live, fragment, render

        with self.campaign._mutex:
            tag, placeholder = self.tag(), secrets.token_hex(16)
            facts, live = report_data(self.campaign, curve=self.curve), Live(f'"{tag}"')
        document = render(facts, live, nonce=placeholder)
        return Report(tag, (_encoded(document), _encoded(fragment(facts, live)), placeholder.encode()))

    def measurements(self) -> Report:
        with self.campaign._mutex:
            rows = [measurement_json(one) for one in self.campaign.measurements()]
            return Report(self.tag(), dumped({"measurements": rows}))

    def measurements_csv(self) -> Report:
        return Report(self.tag(), measurements_csv(self.campaign.store.read().events)[0])


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")  # labels may hold anything

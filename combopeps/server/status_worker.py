"""`StatusWorker`: reports (status, page, tables), computed in a separate process.

The process reads the store itself, so that results are recorded while a report is computed. Reports are computed one at
a time, and limited by a token bucket that grows by one second each second: a report that took s seconds costs

    max(pause, 5 s)

so that reports use at most a fifth of the time in the long run. The first report of a process, which loads and compiles
code, costs `pause`.
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

_COST_FACTOR = 5  # reports use at most 1/5 of the time
_BURST = 5  # reports that may follow each other without a pause
_MAX_AGE = 0.1  # seconds for which a report is used without checking for events of other processes


@dataclass(frozen=True)
class Report:
    """A report: `tag` identifies the events that it includes, `content` is the body of the response."""

    tag: str
    content: Any
    seconds: float = 0.0


class StatusWorker:
    """Client of the status process, which is started at the first request and replaced when it dies."""

    def __init__(self, opened: Callable[[], Campaign], writer: Writer, pause: float = 0.5) -> None:
        self._opened, self._writer, self._pause = opened, writer, pause
        self._thread = ThreadPoolExecutor(1, "combopeps-status")  # which waits for the pipe
        self._process: Any = None
        self._cache: dict[str, _Cached] = {}
        self._lock = asyncio.Lock()  # one report at a time
        self._budget, self._budget_at = _BURST * pause, time.monotonic()
        self._stopping, self._process_lock = asyncio.Event(), Lock()

    async def report(self, name: str, *, wait: bool = True) -> Report:
        """Return a report that includes all events before this call, or, without `wait`, the last one."""
        cached = self._cache.setdefault(name, _Cached())
        if not wait and cached.report is not None:
            return cached.report
        version = self._writer.version
        while cached.is_older(version):
            async with self._lock:
                if cached.is_older(version):
                    await self._refresh(name, cached)
        assert cached.report is not None
        return cached.report

    async def once(self, name: str) -> Report:
        """Return a report that is not cached."""
        async with self._lock:
            report: Report = await self._ask(name)
            return report

    async def stop(self) -> None:
        """Cancel waiting requests, and end the status process."""
        self.cancel_waiting()
        await asyncio.get_running_loop().run_in_executor(None, self._end_process)
        self._thread.shutdown(wait=False, cancel_futures=True)

    def cancel_waiting(self) -> None:
        """Raise an error in requests that wait for a report, now and later, as the server is stopping."""
        self._stopping.set()

    async def _refresh(self, name: str, cached: _Cached) -> None:
        version = self._writer.version
        if cached.report is None or await self._ask("tag") != cached.report.tag:
            while (missing := -self._refill()) >= 0:
                await self._unless_stopping(asyncio.sleep(missing + 0.001))
            version, is_first = self._writer.version, self._process is None
            cached.report = await self._ask(name)
            self._budget -= max(self._pause, 0.0 if is_first else _COST_FACTOR * cached.report.seconds)
        cached.version, cached.checked = version, time.monotonic()

    def _refill(self) -> float:
        """Return the budget for reports, in seconds."""
        now = time.monotonic()
        self._budget = min(_BURST * self._pause, self._budget + now - self._budget_at)
        self._budget_at = now
        return self._budget if self._pause > 0 else 1.0

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
        """Send a request and return the response, in the thread; a process that has died is replaced once."""
        for is_last in (False, True):
            try:
                if self._process is None:
                    self._start_process()
                return self._send(request)
            except ComboPepsError:  # raised by the computation of the report
                raise
            except (EOFError, OSError, pickle.UnpicklingError) as cause:
                self._end_process()
                if is_last or self._stopping.is_set():
                    raise ServerError(f"the status process has died: {cause}") from None
            except Exception as cause:  # a request or a response cannot be pickled or unpickled
                self._end_process()
                raise ServerError(f"a request to the status process failed: {type(cause).__name__}: {cause}") from None
        raise AssertionError

    def _start_process(self) -> None:
        """Start the status process."""
        # Not with `multiprocessing`, which imports the script of the caller again.
        program = [sys.executable, "-P", "-c", "from combopeps.server.status_worker import main; main()"]
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        self._process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": paths}
        )
        try:
            if self._send(self._opened) != self._writer.campaign.header:
                raise ServerError("another campaign took the place of the one that is served")
        except ComboPepsError:
            self._end_process()
            raise

    def _send(self, request: Any) -> Any:
        process = self._process
        if process is None:
            raise EOFError("it was stopped")
        pickle.dump(request, process.stdin)
        process.stdin.flush()
        succeeded, response = pickle.load(process.stdout)
        if not succeeded:
            raise response
        return response

    def _end_process(self) -> None:
        with self._process_lock:
            process, self._process = self._process, None
        if process is not None:
            process.kill()  # safe, as it only reads
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):
                    pipe.close()


class _Cached:
    """The last report of a kind, the version of the writer that it includes, and the time of the last check."""

    report: Report | None = None
    version = -1
    checked = 0.0

    def is_older(self, version: int) -> bool:
        """Return whether events after the version, or of other processes, may be missing."""
        return self.report is None or self.version < version or time.monotonic() - self.checked > _MAX_AGE


def main() -> None:
    """Run the status process: open the campaign, then respond to names of reports.

    Requests and responses are pickled; a response is (True, report) or (False, error).
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal; the server ends this process
    requests, responses = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # the output of an oracle must not mix with responses
    warnings.simplefilter("ignore", UserWarning)  # about measurements, which the status contains
    reports: _Reports | None = None
    printed = set[tuple[str, type]]()
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        response: tuple[bool, Any]
        try:
            if reports is None:
                reports = _Reports(request())
                response = True, reports.campaign.header
            else:
                start = time.perf_counter()
                report = getattr(reports, request)()
                if isinstance(report, Report):
                    report = replace(report, seconds=time.perf_counter() - start)
                response = True, report
        except ComboPepsError as error:
            response = False, error
        except Exception as error:
            what = "campaign" if reports is None else request
            if (what, type(error)) not in printed:  # once, as pages repeat their request every few seconds
                printed.add((what, type(error)))
                traceback.print_exc()
            verb = {"campaign": "opened", "page": "drawn"}.get(what, "shown")
            cause = f"{type(error).__name__}: {error!s:.200}" if str(error) else type(error).__name__
            response = False, ServerError(f"the {what} cannot be {verb}: {cause}")
        try:
            responses.write(pickle.dumps(response))
            responses.flush()
        except BrokenPipeError:
            return


class _Reports:
    """Reports of a campaign, one method for each kind."""

    def __init__(self, campaign: Campaign) -> None:
        from combopeps.viz.build_view_model import ErrorCurve

        self.campaign, self.curve = campaign, ErrorCurve()
        campaign.pin()

    def tag(self) -> str:
        """Return the tag of the events up to now."""
        return blake2b(repr(self.campaign.synchronise()).encode(), digest_size=12).hexdigest()

    def status(self) -> Report:
        """Return the status as JSON."""
        with self.campaign._mutex:
            tag = self.tag()
            return Report(tag, dumped(status_json(self.campaign, self.campaign.status()) | {"tag": tag}))

    def page(self) -> Report:
        """Return the page, the fragment of it that changes, and the placeholder of the nonce of a request."""
        from combopeps.viz.build_view_model import report_data
        from combopeps.viz.html import Live, fragment, render

        with self.campaign._mutex:
            tag, placeholder = self.tag(), secrets.token_hex(16)
            facts, live = report_data(self.campaign, curve=self.curve), Live(f'"{tag}"')
        document = render(facts, live, nonce=placeholder)
        return Report(tag, (_encoded(document), _encoded(fragment(facts, live)), placeholder.encode()))

    def measurements(self) -> Report:
        """Return all measurements as JSON."""
        with self.campaign._mutex:
            rows = [measurement_json(measurement) for measurement in self.campaign.measurements()]
            return Report(self.tag(), dumped({"measurements": rows}))

    def measurements_csv(self) -> Report:
        """Return all measurements as CSV."""
        return Report(self.tag(), measurements_csv(self.campaign.store.read().events)[0])


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")  # labels may contain lone surrogates

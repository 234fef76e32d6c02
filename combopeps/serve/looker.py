"""`Looker`: the newest look at the campaign, from a process beside the server, and not more often than is good for it.

A look that took s seconds costs max(pause, 5 s) of an allowance that grows by one second each second: looks take at
most a fifth of the time in the long run, some may follow each other quickly, and one at a time is taken. The first one
of a process, which loads and compiles, counts as a quick one.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Lock
from typing import Any

from combopeps.campaign import Campaign
from combopeps.errors import ServerError
from combopeps.serve.looks import Look
from combopeps.serve.writer import Writer

_SHARE = 5  # looks may take one part in so many of the time
_BURST = 5  # looks that may follow each other without a pause
_GLANCE = 0.1  # seconds for which nobody else is expected to have written


class Looker:
    """Asks the other process, which is started at the first question and replaced when it dies."""

    def __init__(self, opened: Callable[[], Campaign], writer: Writer, pause: float = 0.5) -> None:
        self._opened, self._writer, self._pause = opened, writer, pause
        self._thread = ThreadPoolExecutor(1, "combopeps-looker")  # waits for the pipe
        self._process: Any = None
        self._views: dict[str, _View] = {}
        self._turn = asyncio.Lock()
        self._allowance, self._since = _BURST * pause, time.monotonic()
        self._stopping, self._ending = asyncio.Event(), Lock()

    async def look(self, name: str, *, wait: bool = True) -> Look:
        """The newest look of a kind: at all that was recorded before this call, or, without waiting, the last one."""
        view = self._views.setdefault(name, _View())
        if not wait and view.look is not None:
            return view.look
        wanted = self._writer.version
        while view.look is None or view.version < wanted or time.monotonic() - view.checked > _GLANCE:
            async with self._turn:
                if view.look is None or view.version < wanted or time.monotonic() - view.checked > _GLANCE:
                    await self._refresh(name, view)
        return view.look

    async def once(self, name: str) -> Look:
        """A look that nobody keeps."""
        async with self._turn:
            look: Look = await self._ask(name)
            return look

    async def stop(self) -> None:
        """Answer those who wait, and end the other process."""
        self.hurry()
        await asyncio.get_running_loop().run_in_executor(None, self._end)
        self._thread.shutdown(wait=False, cancel_futures=True)

    def hurry(self) -> None:
        """The server is about to stop: nobody is to wait for a look any more."""
        self._stopping.set()

    async def _refresh(self, name: str, view: _View) -> None:
        version = self._writer.version
        if view.look is None or await self._ask("tag") != view.look.tag:
            while (missing := -self._left()) >= 0:
                await self._unless_stopping(asyncio.sleep(missing + 0.001))
            version, is_first = self._writer.version, self._process is None
            view.look = await self._ask(name)
            self._allowance -= max(self._pause, 0.0 if is_first else _SHARE * view.look.seconds)
        view.version, view.checked = version, time.monotonic()

    def _left(self) -> float:
        now = time.monotonic()
        self._allowance = min(_BURST * self._pause, self._allowance + now - self._since)
        self._since = now
        return self._allowance if self._pause > 0 else 1.0

    async def _ask(self, *question: Any) -> Any:
        loop = asyncio.get_running_loop()
        good, answer = await self._unless_stopping(loop.run_in_executor(self._thread, self._exchange, question))
        if not good:
            raise answer
        return answer

    async def _unless_stopping(self, awaitable: Any) -> Any:
        task, stopping = asyncio.ensure_future(awaitable), asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                task.cancel()
                raise ServerError("the server is stopping; come back when it runs again")
            return task.result()
        finally:
            stopping.cancel()

    def _exchange(self, question: tuple[Any, ...]) -> tuple[bool, Any]:
        """In the thread that waits; a process that has died is replaced, once."""
        for last in (False, True):
            try:
                if self._process is None and not (begun := self._begin())[0]:
                    return begun
                return self._say(question)
            except (EOFError, OSError, pickle.UnpicklingError) as cause:
                self._end()
                if last or self._stopping.is_set():
                    return False, ServerError(f"the process that looks has died: {cause}")
            except Exception as cause:  # what the two say to each other cannot be pickled, or read
                self._end()
                return False, ServerError(f"the process that looks cannot be asked: {type(cause).__name__}: {cause}")
        raise AssertionError

    def _begin(self) -> tuple[bool, Any]:
        """A process of its own, not one of `multiprocessing`, which would run the caller's script again."""
        program = [sys.executable, "-P", "-c", "from combopeps.serve.looks import main; main()"]
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        self._process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": paths}
        )
        begun = self._say(self._opened)
        if begun[0] and begun[1] != self._writer.campaign.header:
            begun = False, ServerError("another campaign was put in the place of the one that is served")
        if not begun[0]:
            self._end()
        return begun

    def _say(self, question: Any) -> tuple[bool, Any]:
        process = self._process
        if process is None:
            raise EOFError("it was ended")
        pickle.dump(question, process.stdin)
        process.stdin.flush()
        answer: tuple[bool, Any] = pickle.load(process.stdout)
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


class _View:
    look: Look | None = None
    version = -1
    checked = 0.0

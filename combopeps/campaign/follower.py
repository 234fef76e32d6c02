"""`Follower`: the state of a campaign's file, kept up to date while others write."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Any

from combopeps.campaign.journal import Journal
from combopeps.campaign.replay import State
from combopeps.campaign.seal import Record
from combopeps.errors import ComboPepsError, StateFileError
from combopeps.problem import Problem

_FEW = 100  # lines that may be gone through while others wait
_ROUNDS = 5  # of catching up with others that write all the time


class Follower:
    """Reads on whenever it is asked to, and writes behind the last line of all."""

    path: Path
    problem: Problem
    policy: str
    delta: float
    stopping: str
    seed: int
    versions: dict[str, Any]

    def __init__(self, journal: Journal) -> None:
        self._journal, self._mutex = journal, RLock()
        self._state: State | None = None
        self._catch_up()

    @contextmanager
    def _reading(self) -> Iterator[State]:
        """Up to date, without a lock: who looks waits for nobody, and keeps nobody waiting."""
        with self._mutex:
            yield self._catch_up()[0]

    @contextmanager
    def _writing(self) -> Iterator[State]:
        """Under the lock, and up to date. A long file is gone through before the lock is taken."""
        with self._mutex:
            for _ in range(_ROUNDS):
                if self._catch_up()[1] <= _FEW:
                    break
            with self._journal.locked():
                yield self._catch_up()[0]

    def _catch_up(self) -> tuple[State, int]:
        """The state after all lines that are there now, and how many of them were new."""
        state, self._state = self._state, None  # whatever goes wrong on the way, we shall begin at the first line again
        if state is None:
            self._journal.rewind()
        with _uncollected():
            replaced, lines = self._journal.read()
            new = len(lines)
            try:
                if state is None or replaced:
                    state, lines = self._begin(lines), lines[1:]
                state.apply(lines)
            except StateFileError as error:
                raise StateFileError(f"{self._journal.path}, {error}", error.line) from None
        self._state = state
        return state, new

    def _begin(self, lines: list[tuple[int, Record]]) -> State:
        if not lines:
            raise StateFileError("the file is empty; delete it, and begin a new campaign")
        header = lines[0][1]
        try:
            state = State.begin(header)
        except (ComboPepsError, ValueError) as cause:
            raise StateFileError(f"line 1: {cause}", 1) from None
        self.path, self.problem = self._journal.path, state.problem
        self.policy, self.stopping = str(header["policy"]), str(header["stopping"])
        self.delta, self.seed, self.versions = header["delta"], header["seed"], header["versions"]
        return state

    def _append(self, state: State, lines: list[Record], *, chosen: bool = False) -> None:
        """On the disk first, then into memory, by the same way as what others wrote."""
        self._state = None
        if lines:
            self._journal.append(lines)
        else:
            self._journal.sync()  # a repetition, of what a process wrote that may have died before it was on the disk
        with suppress(ComboPepsError, OSError):  # what is recorded must not look refused; we shall read it all again
            state.apply(self._journal.read()[1], chosen=chosen)
            self._state = state


@contextmanager
def _uncollected() -> Iterator[None]:
    """No garbage collection: none of the records read is garbage, and looking for some takes as long as reading."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()

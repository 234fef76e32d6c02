"""`Follower`: the state of a campaign, kept up to date while others write."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import RLock
from typing import Any

from combopeps.campaign.fingerprint import Own
from combopeps.campaign.replay import State
from combopeps.campaign.storage import Record, Storage, check_timeout
from combopeps.errors import ComboPepsError, OracleError, OtherOracleError, StateFileError
from combopeps.problem import Problem

_FEW = 100  # records that may be gone through while others wait
_ROUNDS = 5  # of catching up with others that write all the time


class Follower:
    """Reads on whenever it is asked to, and writes behind the last record of all."""

    problem: Problem
    policy: str
    delta: float
    epsilon: float
    stopping: str
    seed: int
    sweep: int
    versions: dict[str, Any]
    header: Record

    def __init__(self, storage: Storage, timeout: float = 10.0, own: Own | None = None) -> None:
        self.storage, self.timeout = storage, check_timeout(timeout)
        self._own = own  # the oracle, where the file does not hold it
        self._mutex = RLock()
        self._state: State | None = None
        self._point: Any = None  # how far the state has come
        self._catch_up()

    @contextmanager
    def _reading(self) -> Iterator[State]:
        """Up to date, without a lock: who looks waits for nobody, and keeps nobody waiting."""
        with self._mutex:
            yield self._catch_up()[0]

    @contextmanager
    def _writing(self) -> Iterator[State]:
        """Under the lock, and up to date. Many records are gone through before the lock is taken."""
        with self._mutex:
            for _ in range(_ROUNDS):
                if self._catch_up()[1] <= _FEW:
                    break
            with self.storage.locked(self.timeout):
                yield self._catch_up()[0]

    def _catch_up(self) -> tuple[State, int]:
        """The state after all records that are there now, and how many of them were new."""
        state, self._state = self._state, None  # whatever goes wrong on the way, we begin at the first record again
        with uncollected():
            found = self.storage.read(None if state is None else self._point)
            records = found.records
            try:
                if state is None or found.anew:
                    state, records = self._begin(records), records[1:]
                state.apply(records)
            except StateFileError as error:
                raise StateFileError(f"{self.storage}, {error}", error.line) from None
        self._state, self._point = state, found.end
        return state, len(found.records)

    def _begin(self, records: list[tuple[int, Record]]) -> State:
        if not records:
            raise StateFileError("there is nothing in it; delete it, and begin a new campaign")
        header = records[0][1]
        try:
            state = State(header, own=self._own)
        except OracleError:  # somebody's own: the file is not to blame
            raise
        except OtherOracleError as cause:
            raise OtherOracleError(f"{self.storage}: {cause}", cause.differs) from None
        except (ComboPepsError, ValueError) as cause:
            raise StateFileError(f"line 1: {cause}", 1) from None
        self.problem = state.problem
        self.policy, self.stopping = str(header["policy"]), str(header["stopping"])
        self.delta, self.epsilon = state.delta, state.epsilon
        self.seed, self.versions = header["seed"], header["versions"]
        self.sweep, self.header = header.get("sweep", 0), header
        return state

    def _append(self, state: State, records: list[Record], *, chosen: bool = False) -> None:
        """Into the storage first, then into memory, by the same way as what others wrote.

        No records are a repetition, of what a process wrote that may have died before it was on the disk. What is
        recorded must not look refused: if it cannot be read now, we shall read it all again.
        """
        self._state = None
        self.storage.append(records, self._point)
        with suppress(ComboPepsError, OSError), uncollected():
            found = self.storage.read(self._point)
            state.apply(found.records, chosen=chosen)
            self._state, self._point = state, found.end


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage collection: none of the records read is garbage, and looking for some takes as long as reading."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()

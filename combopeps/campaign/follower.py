"""`Follower`: the state of a campaign, kept up to date while others write."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import RLock
from time import monotonic
from typing import Any

from combopeps.campaign.fingerprint import Own
from combopeps.campaign.replay import State
from combopeps.campaign.snapshot import Snapshot
from combopeps.campaign.storage import Excerpt, Record, Storage, check_timeout
from combopeps.errors import ComboPepsError, OracleError, OtherOracleError, StateFileError
from combopeps.forks import is_lost, renew_after_fork
from combopeps.problem import Problem

_FEW = 100  # records that may be gone through while others wait
_CHEAP = 2000, 64  # lines from one snapshot to the next: so many, and that share of all
_COSTLY = 64, 256  # the same, where lines take long to go through
_RECENT = 0.05  # seconds in which others do not write so many
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
        renew_after_fork(self)
        self._state: State | None = None
        self._point: Any = None  # how far the state has come
        self._seen = 0.0  # when
        self._is_pinned = False
        self._lines = self._kept = 0  # how many lines these are, and how many of them were in the last snapshot
        self._catch_up()

    def after_fork(self) -> None:
        """In a child process: a state that another thread was changing is read again from the storage."""
        if is_lost(self._mutex):
            self._mutex, self._state = RLock(), None

    def pin(self) -> None:
        """From now on, another campaign that is put in the place of this one is refused."""
        self._is_pinned = True

    @contextmanager
    def _reading(self) -> Iterator[State]:
        """Up to date, without a lock: who looks waits for nobody, and keeps nobody waiting."""
        with self._mutex:
            yield self._catch_up()[0]

    @contextmanager
    def _writing(self) -> Iterator[State]:
        """Under the lock, and up to date. Many records are gone through before the lock is taken."""
        with self._mutex:
            for _ in range(_ROUNDS if self._state is None or monotonic() - self._seen > _RECENT else 0):
                if self._catch_up()[1] <= _FEW:
                    break
            with self.storage.locked(self.timeout):
                yield self._catch_up()[0]

    def _catch_up(self) -> tuple[State, int]:
        """The state after all records that are there now, and how many of them were new."""
        state, self._state = self._state, None  # whatever goes wrong on the way, we begin at the first record again
        with uncollected():
            if state is None and (state := self._from_snapshot()) is not None:
                try:
                    return self._read_on(state)
                except Exception:  # from the first record on we shall see whether the lines are to blame
                    state = None
            return self._read_on(state)

    def _read_on(self, state: State | None) -> tuple[State, int]:
        found = self.storage.read(None if state is None else self._point)
        records = found.records
        try:
            if state is None or found.anew:
                if not records:
                    raise StateFileError("there is nothing in it; delete it, and begin a new campaign")
                state, records, self._kept = self._begin(records[0][1]), records[1:], 0
            state.apply(records)
        except StateFileError as error:
            raise StateFileError(f"{self.storage}, {error}", error.line) from None
        self._moved_to(found)
        self._state = state
        return state, len(found.records)

    def _moved_to(self, found: Excerpt) -> None:
        self._point, self._lines = found.end, found.records[-1][0] if found.records else self._lines
        self._seen = monotonic()

    def _from_snapshot(self) -> State | None:
        """The state after the first lines, if there is a snapshot of just these; whatever is wrong with it, None."""
        try:
            data = self.storage.snapshot()
            known = None if data is None else Snapshot.unpacked(data)
            begun = None if known is None else self.storage.beginning(known.note)
            if known is None or begun is None or (begun.crc, begun.header) != (known.crc, known.header):
                return None
            state = self._begin(begun.header)
            state.restore(known.state)
        except Exception:  # bytes may say anything; and what the lines are to blame for, they will show again
            return None
        self._point, self._lines, self._kept = begun.point, known.note["lines"], known.note["lines"]
        return state

    def _keep(self, state: State) -> None:
        """Now and then, a snapshot; whatever goes wrong with it, what was recorded is recorded."""
        least, share = _COSTLY if state.is_costly else _CHEAP
        if self._lines - self._kept < max(least, self._lines // share):
            return
        self._kept = self._lines  # also if there is none: it is not tried again at once
        with suppress(Exception):
            note = self.storage.note(self._point)
            begun = None if note is None else self.storage.beginning(note)
            plain = None if begun is None else state.plain()
            if note is not None and begun is not None and plain is not None:
                self.storage.keep_snapshot(Snapshot(begun.header, note, begun.crc, plain).packed())

    def _begin(self, header: Record) -> State:
        if self._is_pinned and header != self.header:
            raise StateFileError("line 1: another campaign was put in the place of this one", 1)
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
            self._moved_to(found)
            self._keep(state)
            self._state = state


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

"""The state of a campaign in this process, kept up to date with its store."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import RLock
from time import monotonic, time
from typing import Any

from combopeps.campaign.checkpoint import pack, unpack
from combopeps.campaign.fingerprint import Own
from combopeps.campaign.hands import check_name
from combopeps.campaign.state import State
from combopeps.campaign.store import Checkpoint, Cursor, Event, Page, Store, check_timeout
from combopeps.errors import ComboPepsError, OracleError, OtherOracleError, StateFileError
from combopeps.forks import is_lost, renew_after_fork
from combopeps.problem import Problem

_FEW = 100  # events that may be applied under the lock
_EVERY, _SHARE = 500, 16  # events between two checkpoints: at least so many, and that share of all
_RECENT = 0.05  # seconds in which others do not write so many
_ROUNDS = 5  # of catching up with others that write all the time


class Synced:
    """A state that follows a store, and appends to it."""

    problem: Problem
    policy: str
    delta: float
    epsilon: float
    stopping: str
    seed: int
    sweep: int
    versions: dict[str, Any]
    header: Event

    def __init__(self, store: Store, timeout: float = 10.0, own: Own | None = None, author: str | None = None) -> None:
        self.store, self.timeout = store, check_timeout(timeout)
        self.author = None if author is None else check_name("author", author)
        self._own = own  # the oracle, where the file does not hold it
        self._mutex = RLock()
        renew_after_fork(self)
        self._state: State | None = None
        self._cursor: Cursor | None = None  # the last event that the state includes
        self._seen = 0.0  # when
        self._is_pinned = False
        self._saved = 0  # events in the last checkpoint
        self._catch_up()

    def after_fork(self) -> None:
        """In a child process: a state that another thread was changing is read again from the store."""
        if is_lost(self._mutex):
            self._mutex, self._state = RLock(), None

    def pin(self) -> None:
        """From now on, another campaign that is put in the place of this one is refused."""
        self._is_pinned = True

    @contextmanager
    def _reading(self) -> Iterator[State]:
        """Up to date, without a lock."""
        with self._mutex:
            yield self._catch_up()[0]

    @contextmanager
    def _writing(self) -> Iterator[State]:
        """Under the lock, and up to date. Many events are applied before the lock is taken."""
        with self._mutex:
            for _ in range(_ROUNDS if self._state is None or monotonic() - self._seen > _RECENT else 0):
                if self._catch_up()[1] <= _FEW:
                    break
            with self.store.locked(self.timeout):
                yield self._catch_up()[0]

    def _catch_up(self) -> tuple[State, int]:
        """The state after all events that are there now, and how many of them were new."""
        state, self._state = self._state, None  # whatever goes wrong on the way, begin with the first event again
        with uncollected():
            if state is None and (state := self._from_checkpoint()) is not None:
                try:
                    return self._read_on(state)
                except Exception:  # applying all events shows whether they are to blame
                    state = None
            return self._read_on(state)

    def _read_on(self, state: State | None) -> tuple[State, int]:
        page = self.store.read(None if state is None else self._cursor)
        events = page.events
        try:
            if state is None or page.restarted:
                if not events:
                    raise StateFileError("it has no events; delete it, and create a new campaign")
                state, events, self._saved = self._begin(events[0][1]), events[1:], 0
            state.apply(events)
        except StateFileError as error:
            raise StateFileError(f"{self.store}, {error}", error.line) from None
        self._moved_to(page)
        self._state = state
        return state, len(page.events)

    def _moved_to(self, page: Page) -> None:
        self._cursor, self._seen = page.end, monotonic()

    def _from_checkpoint(self) -> State | None:
        """The state of the last checkpoint; None if there is none, or it does not fit for whatever reason."""
        try:
            saved = self.store.checkpoint()
            if saved is None:
                return None
            plain = unpack(saved.data)
            state = self._begin(plain["header"])
            state.restore(plain["state"])
        except Exception:  # bytes may say anything; what the events are to blame for, they will show
            return None
        self._cursor, self._saved = saved.cursor, saved.cursor.number
        return state

    def _save(self, state: State) -> None:
        """Write a checkpoint now and then; if that fails, what was recorded is recorded."""
        assert self._cursor is not None
        number = self._cursor.number
        if number - self._saved < max(_EVERY, number // _SHARE):
            return
        self._saved = number  # also if it fails: it is not tried again at once
        with suppress(Exception):
            plain = state.plain()
            if plain is not None:
                self.store.save_checkpoint(Checkpoint(self._cursor, pack({"header": self.header, "state": plain})))

    def _begin(self, header: Event) -> State:
        if self._is_pinned and header != self.header:
            raise StateFileError("event 1: another campaign was put in the place of this one", 1)
        try:
            state = State(header, own=self._own)
        except OracleError:  # somebody's own: the file is not to blame
            raise
        except OtherOracleError as cause:
            raise OtherOracleError(f"{self.store}: {cause}", cause.differs) from None
        except (ComboPepsError, ValueError) as cause:
            raise StateFileError(f"event 1: {cause}", 1) from None
        self.problem = state.problem
        self.policy, self.stopping = str(header["policy"]), str(header["stopping"])
        self.delta, self.epsilon = state.delta, state.epsilon
        self.seed, self.versions = header["seed"], header["versions"]
        self.sweep, self.header = header.get("sweep", 0), header
        return state

    def _append(self, state: State, events: list[Event], *, own: bool = False) -> None:
        """Apply events, which checks them in the same way as those of others, and append them.

        If either fails, the state is read again before it is used. No events are a repetition, of what a process wrote
        that may have died before it was durable.
        """
        self._state = None
        assert self._cursor is not None
        signed = [self._signed(event) for event in events]
        state.apply(list(enumerate(signed, start=self._cursor.number + 1)), own=own)
        self._cursor, self._seen = self.store.append(signed, self._cursor), monotonic()
        self._save(state)
        self._state = state

    def _signed(self, event: Event) -> Event:
        """With the time, and the author."""
        return event | {"at": round(time(), 3)} | ({} if self.author is None else {"by": self.author})


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

"""Locks that survive `fork`, and updates that Ctrl-C does not interrupt.

A result changes several arrays and tables. A second thread, or a KeyboardInterrupt, in the middle of that would leave
them inconsistent. `SessionLock` excludes other threads, `Atomic` also defers KeyboardInterrupt to its end. In a forked
process, locks held by threads of the parent are replaced: those threads do not exist there.
"""

from __future__ import annotations

import os
from _signal import SIGINT, getsignal, signal  # type: ignore[import-not-found]  # `signal` takes ten times as long
from collections.abc import Callable
from threading import RLock
from typing import Any, Protocol
from weakref import ref

from combopeps.errors import ConcurrentUseError

_RLock = type(RLock())


class HasLocks(Protocol):
    """An object that owns locks."""

    def after_fork(self) -> None:
        """Replace locks that another thread of the parent held."""


# Plain references: a WeakSet runs Python code when an owner is deleted, which would swallow a KeyboardInterrupt.
_owners: dict[int, ref[Any]] = {}
_MIN_OWNERS = 1000  # references kept before those of deleted owners are searched for
_next_pruning = _MIN_OWNERS


def renew_after_fork(owner: HasLocks) -> None:
    """Call `owner.after_fork()` in every child process while the object exists."""
    global _next_pruning
    if len(_owners) >= _next_pruning:
        for key, known in list(_owners.items()):
            if known() is None:
                _owners.pop(key, None)  # one by one: another thread may be adding its own
        _next_pruning = max(_MIN_OWNERS, 2 * len(_owners))
    known = ref(owner)
    _owners[id(known)] = known


def is_lost(lock: Any) -> bool:
    """In a child process: whether a thread of the parent other than the forking one held the lock.

    A reentrant lock of the forking thread is still its own, and is released by it.
    """
    if not lock.acquire(False):
        return True
    lock.release()
    return False


def _after_fork() -> None:
    for known in list(_owners.values()):
        owner = known()
        if owner is not None:
            owner.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class SessionLock(_RLock):  # type: ignore[misc, valid-type]
    """A reentrant lock; copies and pickles are unlocked. Entering and leaving it cannot be interrupted by Ctrl-C.

    Attributes
    ----------
    changing
        Whether a change is under way (`Atomic`).
    lost
        In a child process: a thread of the parent was in the middle of a change.
    """

    def __init__(self) -> None:
        super().__init__()
        self.changing = self.lost = False
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Unlock in a child process, unless another thread of the parent was in the middle of a change."""
        if is_lost(self):
            self._at_fork_reinit()
            self.lost = self.changing

    def __reduce__(self) -> tuple[type[SessionLock], tuple[()]]:
        return SessionLock, ()

    def error(self) -> ConcurrentUseError:
        """Return the error for the use of a lost lock."""
        return ConcurrentUseError(
            "this process was forked while a thread of its parent was changing the session, and has half of that "
            "change: create the session anew in this process, or fork while no thread is inside ask, tell or observe"
        )


class Atomic:
    """A context that excludes other threads and defers KeyboardInterrupt to its end.

    Only handlers written in Python are deferred, and only in the main thread: other threads run none.
    """

    __slots__ = ("_handler", "_lock", "_pending", "_within")

    def __init__(self, lock: SessionLock) -> None:
        self._lock, self._pending, self._within = lock, False, False
        self._handler: Callable[[int, Any], Any] | None = None

    def __enter__(self) -> None:
        handler = getsignal(SIGINT)
        if callable(handler):
            try:
                signal(SIGINT, self._defer)
                self._handler = handler
            except ValueError:  # not the main thread
                pass
        self._lock.acquire()
        self._within, self._lock.changing = self._lock.changing, True

    def __exit__(self, *exception: object) -> None:
        self._lock.changing = self._within
        self._lock.release()
        self._end()

    def _defer(self, number: int, frame: Any) -> None:
        self._pending = True

    def _end(self) -> None:
        if self._handler is not None:
            signal(SIGINT, self._handler)
            if self._pending:
                self._handler(SIGINT, None)


class IgnoredInterrupts:
    """Drops a KeyboardInterrupt between `begin` and `end`, while another exception is being raised."""

    _handler: Callable[[int, Any], Any] | None = None

    def begin(self) -> None:
        """Begin to drop them; a repeated call changes nothing."""
        handler = getsignal(SIGINT)
        if self._handler is None and callable(handler):
            try:
                signal(SIGINT, _ignore)
                self._handler = handler
            except ValueError:  # not the main thread
                pass

    def end(self, error: BaseException) -> BaseException:
        """Return the exception to raise; on one line, so that no interrupt comes before it is raised."""
        return error if self._handler is None else (signal(SIGINT, self._handler), error)[1]


def _ignore(number: int, frame: Any) -> None:
    pass

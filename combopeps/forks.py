"""Locks in a process made by `fork`: the threads that held them do not exist there, and would never release them."""

from __future__ import annotations

import os
from typing import Any, Protocol
from weakref import ref


class HasLocks(Protocol):
    """An object with locks."""

    def after_fork(self) -> None:
        """Replace locks that another thread of the parent held."""


# Plain references: a WeakSet runs Python code when an owner is deleted, in which a Ctrl-C would be swallowed.
_owners: dict[int, ref[Any]] = {}
_FEWEST = 1000  # references that are kept before those of deleted owners are looked for
_next_pruning = _FEWEST


def renew_after_fork(owner: HasLocks) -> None:
    """Call `owner.after_fork()` in every child process, as long as the object exists."""
    global _next_pruning
    if len(_owners) >= _next_pruning:
        for key, known in list(_owners.items()):
            if known() is None:
                _owners.pop(key, None)  # one by one: another thread may be adding its own
        _next_pruning = max(_FEWEST, 2 * len(_owners))
    known = ref(owner)
    _owners[id(known)] = known


def is_lost(lock: Any) -> bool:
    """In a child: was the lock held by a thread of the parent other than the one that forked?

    A reentrant lock of the thread that forked is still its own, and is released by it.
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

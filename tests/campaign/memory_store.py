"""The smallest store there can be: a list, and a lock."""

import json
from contextlib import contextmanager
from threading import Lock, get_ident

from combopeps.campaign import Cursor, Page, Store
from combopeps.errors import LockError, StateFileError


class MemoryStore(Store):
    def __init__(self):
        self.rows, self._lock, self._owner = [], Lock(), None

    def create(self, events):
        if self.rows:
            raise StateFileError("the list exists already")
        self.rows += map(json.dumps, events)

    def read(self, cursor=None):
        seen = 0 if cursor is None else cursor.number
        new = self.rows[seen:]
        return Page(list(enumerate(map(json.loads, new), start=seen + 1)), Cursor(1, seen + len(new), ""))

    def append(self, events, cursor):
        if self._owner != get_ident() or cursor.number != len(self.rows):
            raise StateFileError("events are appended under the lock, after the last one")
        self.rows += [json.dumps(event) for event in events]
        return Cursor(1, len(self.rows), "")

    @contextmanager
    def locked(self, timeout=10.0):
        if not self._lock.acquire(timeout=timeout):
            raise LockError("the list is in use")
        self._owner = get_ident()
        try:
            yield
        finally:
            self._owner = None
            self._lock.release()

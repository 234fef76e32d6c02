"""The smallest storage there can be: a list, and a lock."""

import json
from contextlib import contextmanager
from threading import Lock, get_ident

from combopeps import LockError, StateFileError
from combopeps.campaign import Excerpt, Storage


class MemoryStorage(Storage):
    def __init__(self):
        self.rows, self._lock, self._owner = [], Lock(), None

    def create(self, records):
        if self.rows:
            raise StateFileError("the list exists already")
        self.rows += map(json.dumps, records)

    def read(self, point=None):
        new = self.rows[point or 0 :]
        return Excerpt(list(enumerate(map(json.loads, new), start=(point or 0) + 1)), (point or 0) + len(new))

    def append(self, records, point):
        if self._owner != get_ident() or point != len(self.rows):
            raise StateFileError("records are added under the lock, behind the last one")
        self.rows += [json.dumps(record) for record in records]

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

"""`Database`: connections, the lock of a campaign, and errors in our words; one file for each kind there is.

Connections are kept open between operations, one for each thread that is at work, and are in autocommit mode: what
belongs together stands between a BEGIN and a COMMIT of our own.
"""

from __future__ import annotations

import os
import weakref
from abc import ABC, abstractmethod
from typing import Any

from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import DBAPIError

from combopeps.errors import ConnectionLostError, DependencyError, StateFileError

WAIT = 10.0  # seconds for what takes milliseconds: the tables, a connection, the recovery after a crash
_SECRETS = ("password", "sslpassword", "passfile")
_forks = 0  # how many processes up: connections are never shared with a parent
_inherited: list[Engine] = []  # a parent's, kept so that nothing closes them here


def _forked() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Database(ABC):
    """A database; `str()` shows no password."""

    def __init__(self, url: URL) -> None:
        self.url = url
        self._engines: dict[tuple[Any, ...], Engine] = {}  # those of parent processes are kept, and left alone

    def __str__(self) -> str:
        hidden = {key: "***" for key in _SECRETS if key in self.url.query}
        return self.url.update_query_dict(hidden).render_as_string(hide_password=True).replace("%2A%2A%2A", "***")

    def connected(self) -> Connection:
        """A connection, which is given back when it is closed; whatever it had begun is taken back then."""
        return self._engine().connect()

    def translated(self, cause: DBAPIError, *, unknown: bool = False) -> StateFileError:
        """An error of the driver in our words; `unknown`: while something was being committed."""
        reason = self.reason(cause.orig)
        if cause.connection_invalidated and unknown:
            return ConnectionLostError(
                f"{self}: the connection was lost while this was being recorded ({reason}); the next call finds "
                "out whether it is: to tell it again is harmless, before you observe it again look at the samples",
                unknown=True,
            )
        if cause.connection_invalidated:
            return ConnectionLostError(
                f"{self}: the connection to the database was lost ({reason}); nothing was recorded, try again"
            )
        if self._is_unreachable(cause):
            return ConnectionLostError(f"{self}: the database cannot be reached ({reason})")
        return StateFileError(f"{self} cannot be read or written: {reason}; nothing was recorded")

    def reason(self, cause: BaseException | None) -> str:
        """Somebody's words on one line, without a password."""
        text = " ".join(str(cause).split())
        for secret in (self.url.password, *(self.url.query.get(key) for key in _SECRETS)):
            if isinstance(secret, str) and secret:
                text = text.replace(secret, "***")
        return text.rstrip(".")

    @abstractmethod
    def prepare(self) -> None:
        """Whatever has to be there before tables are made; refuses a place where none can be."""

    @abstractmethod
    def begin(self, connection: Connection, timeout: float) -> None:
        """Begin a transaction that writes; SQLite waits for its lock here, so long."""

    @abstractmethod
    def lock_tables(self, connection: Connection) -> None:
        """In a transaction: nobody else makes tables until its end."""

    @abstractmethod
    def in_use(self, cause: DBAPIError) -> bool:
        """Did we wait for others in vain?"""

    @abstractmethod
    def lacks_table(self, cause: DBAPIError) -> bool:
        """Is there no such table?"""

    @abstractmethod
    def as_bytes(self, text: Any) -> Any:
        """A column or aggregate, so that damaged text can be read."""

    @abstractmethod
    def concatenated(self, lines: Any) -> Any:
        """SELECT: the campaign and all lines of a subselect of them, with newlines between; NULL for none."""

    @abstractmethod
    def _make(self) -> Engine:
        """An engine, whose functions do not hold on to this object."""

    def _place(self) -> tuple[Any, ...]:
        """Which database it is, for those that can be exchanged for another one under the same name."""
        return ()

    def _engine(self) -> Engine:
        key = (_forks, *self._place())
        found = self._engines.get(key)
        if found is not None:
            return found
        try:
            made = self._make()
        except ModuleNotFoundError as cause:
            raise DependencyError(f"{cause}; install it: pip install 'combopeps[sql]'") from None
        found = self._engines.setdefault(key, made)
        if found is made:  # of several threads, one
            weakref.finalize(self, _dispose, made, _forks)
            for other, engine in list(self._engines.items()):
                if other[0] == _forks and other != key:  # of a file that is no longer there
                    self._engines.pop(other, None)
                    engine.dispose()
        return found

    def _is_unreachable(self, cause: DBAPIError) -> bool:
        return False


def _dispose(engine: Engine, forks: int) -> None:
    """Close its connections, if they are our own: to close those of a parent would end its work."""
    if forks == _forks:
        engine.dispose()
    else:
        _inherited.append(engine)

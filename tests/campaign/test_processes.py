"""Processes that die, and processes that write at the same time; on a file and in databases."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from threading import Barrier, Event

import pytest
from backends import content, slow_in_databases
from cases import go_on, measured, problems, same_state

from combopeps import Campaign, LockError, StateFileError
from combopeps.campaign import examine
from combopeps.campaign.replay import State

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="fork and SIGKILL")
ON_A_FILE = pytest.mark.parametrize("place", ["file"], indirect=True)
WORKER = Path(__file__).with_name("worker.py")


@pytest.fixture
def path(place):
    return place()


def start(*arguments):
    command = [sys.executable, str(WORKER), *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(WORKER.parents[2])}  # the package under test, wherever it stands
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, **pipes, text=True, env=environment)


def finish(process):
    with process:  # closes its pipes and waits for its end, whatever happens
        out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return json.loads(out)


def lines_of(path):
    return [json.loads(line) for line in content(path).splitlines()]


def check_acknowledged(path, acknowledged):
    """Every ask and tell that a process was told of stands in the file, once."""
    lines = lines_of(path)
    asked = [[[query["id"], query["arm"]] for query in line["queries"]] for line in lines if line["kind"] == "ask"]
    told = Counter((line["id"], line["y"]) for line in lines if line["kind"] == "tell")
    seen = Counter(line["y"] for line in lines if line["kind"] == "observe")
    assert set(told.values()) | set(seen.values()) <= {1}
    for kind, *rest in acknowledged:
        if kind == "ask":
            assert asked.count(rest[0]) == 1
        elif kind == "tell":
            assert told[tuple(rest)] == 1
        elif kind == "observe":
            assert seen[rest[0]] == 1


def test_the_check_sees_a_lost_and_a_doubled_line(tmp_path):
    """So that what is compared below could fail."""
    path = tmp_path / "campaign.jsonl"
    campaign = Campaign.create(path, problems()["topk"])
    go_on(campaign, 4, batch=2)
    campaign.observe("a", 1.5)
    lines = path.read_text().splitlines(keepends=True)
    told = [["tell", line["id"], line["y"]] for line in lines_of(path) if line["kind"] == "tell"]
    told.append(["observe", 1.5])
    check_acknowledged(path, told)
    for spoilt in (lines[:-1], [*lines, lines[-1]], lines[:-2] + lines[-1:], [*lines, lines[-2]]):
        path.write_text("".join(spoilt))
        with pytest.raises(AssertionError):
            check_acknowledged(path, told)


def crash_and_compare(place, kills, seed, policy="top-two", fault=()):
    path, twin = place(), place("straight")
    for campaign in (path, twin):
        Campaign.create(campaign, problems()["topk"], policy=policy, seed=seed)
    done = finish(start("crashes", path, kills, seed, *fault))
    straight = Campaign.open(twin)
    go_on(straight, Campaign.open(path).samples, batch=2)
    assert done["killed"] == kills
    assert done["acknowledged"][-1] == ["done"]
    check_acknowledged(path, done["acknowledged"])
    assert content(path) == content(twin)
    same_state(Campaign.open(path), straight)
    return done


@ON_A_FILE
def test_killed_at_50_random_moments(place):
    done = crash_and_compare(place, kills=50, seed=1)
    assert (
        sum(event != ["begun"] for event in done["acknowledged"]) > 10
    )  # kills fell into work, not all before it, however loaded the machine


def test_killed_at_random_moments_in_a_database(database):
    done = crash_and_compare(database, kills=10, seed=1)
    said = [event[0] for event in done["acknowledged"]]
    last = len(said) - said[::-1].index("begun")  # the one that nobody killed
    assert sum(kind in ("ask", "tell") for kind in said[:last]) > 5  # kills fell into work


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["top-two", "peps"])
@pytest.mark.parametrize("seed", range(5))
def test_killed_at_100_random_moments(place, seed, policy):
    crash_and_compare(place, kills=100, seed=seed, policy=policy)


@ON_A_FILE
@pytest.mark.parametrize("fault", ["before write", "torn", "before fsync", "after fsync"])
def test_killed_at_every_step_of_a_write(place, fault):
    crash_and_compare(place, kills=6, seed=2, fault=[fault])


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param("before insert", marks=pytest.mark.slow),
        pytest.param("before commit", marks=pytest.mark.slow),
        "after commit",
    ],
)
def test_killed_at_every_step_of_a_transaction(database, fault):
    crash_and_compare(database, kills=3, seed=2, fault=[fault])


def swarm(path, kills, seed):
    """Four processes on one file, killed at random and replaced, until so many have died."""
    Campaign.create(path, problems()["topk"])
    done = finish(start("swarm", path, kills, seed))
    Campaign.open(path).tell_many([])  # mends what the last one may have left
    assert examine(path).faults == []
    check_acknowledged(path, done["acknowledged"])
    lines = lines_of(path)
    recorded = sum(line["kind"] in ("ask", "tell", "observe") for line in lines)
    assert 0 <= recorded - len(done["acknowledged"]) <= done["killed"]  # each died with at most one word unsaid
    assert len(done["acknowledged"]) > kills
    state = State({key: value for key, value in lines[0].items() if key != "sum"})
    for number, line in enumerate(lines[1:], start=2):
        if line["kind"] == "ask":
            chosen = [(query["id"], query["arm"], query["label"]) for query in line["queries"]]
            assert state.choose(2) == chosen  # by the lines before it alone
        state.apply([(number, {key: value for key, value in line.items() if key != "sum"})])
    return done


def test_four_processes_are_killed_at_random(path):
    swarm(path, kills=12 if isinstance(path, Path) else 6, seed=1)


@pytest.mark.slow
def test_four_processes_are_killed_a_hundred_times(path):
    assert swarm(path, kills=100, seed=2)["killed"] >= 100


@pytest.mark.parametrize("processes", [True, False], ids=["processes", "threads"])
def test_of_eight_that_create_one_succeeds(path, processes):
    if processes:
        results = finish(start("create", path))
    else:
        barrier = Barrier(8)

        def create(_):
            barrier.wait()
            try:
                Campaign.create(path, problems()["topk"])
                return "created"
            except StateFileError as error:
                return str(error)

        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(create, range(8)))
    assert len(results) == 8
    assert results.count("created") == 1
    assert all("exists already" in result for result in results if result != "created")
    assert examine(path).faults == []
    if isinstance(path, Path):
        assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_threads_may_share_one_campaign(path):
    campaign = Campaign.create(path, problems()["topk"], policy="peps")

    def work(name):
        for count in range(5):
            query = campaign.ask()
            campaign.tell(query, measured(query))
            campaign.observe("a", 1.0 + (5 * name + count) * 2.0**-20)
            campaign.status()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert campaign.samples == Campaign.open(path).samples == 40
    assert campaign.open_queries == []
    assert [query.id for query in campaign.ask(2)] == [20, 21]
    same_state(campaign, Campaign.open(path))


@ON_A_FILE
def test_readers_see_whole_lines_while_others_write_die_and_mend(path):
    """A line that is torn, cut off and written over again under the reader's feet is never taken for damage."""
    reader, writer, stop = Campaign.create(path, problems()["topk"]), Campaign.open(path), Event()

    def write():
        count = 0
        while not stop.is_set():
            with path.open("ab") as file:
                file.write(b'{"kind":"observe","arm":0,"label":"a","y":0.12345678901' + b"?" * (count % 60))
            count += 1
            writer.observe("a", count * 2.0**-20)
        return count

    with ThreadPoolExecutor(1) as pool:
        future, seen = pool.submit(write), [0]
        while seen[-1] < 80:
            seen.append(reader.samples)
        stop.set()
        written = future.result()
    assert seen == sorted(seen)
    assert reader.samples == written
    assert reader.storage.recovered == []
    assert len(writer.storage.recovered) == written


def hammer(path, seconds):
    Campaign.create(path, problems()["topk"])
    workers = [start("hammer", path, seconds, name) for name in (1.0, 2.0)]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    said = [tuple(event) for events in [finish(worker) for worker in workers] for event in events]
    assert examine(path).faults == []
    lines = lines_of(path)
    found = [("tell", line["id"], line["y"]) for line in lines if line["kind"] == "tell"]
    found += [("observe", line["y"]) for line in lines if line["kind"] == "observe"]
    assert Counter(found) == Counter(said)
    ids = [query["id"] for line in lines if line["kind"] == "ask" for query in line["queries"]]
    assert ids == list(range(len(ids)))
    writers = [line["y"] < 1.5 for line in lines if line["kind"] == "observe"]
    assert sum(a != b for a, b in pairwise(writers)) > 2  # they did take turns
    assert Campaign.open(path).samples == len(said)


@slow_in_databases
def test_two_processes_write_at_once(path):
    hammer(path, 3.0)


@pytest.mark.slow
def test_two_processes_write_at_once_for_ten_seconds(path):
    hammer(path, 10.0)


def test_a_dead_process_holds_no_lock(path):
    Campaign.create(path, problems()["topk"])
    worker = start("hold", path, "kill")
    worker.communicate(timeout=60)
    assert worker.returncode == -9
    Campaign.open(path, timeout=5.0 if "postgresql:" in str(path) else 0.0).ask()  # a server hears of it


def test_a_living_process_holds_it_and_waiting_has_an_end(path):
    campaign = Campaign.create(path, problems()["topk"], timeout=0.2)
    query, before = campaign.ask(), content(path)
    worker = start("hold", path)
    try:
        assert worker.stdout.readline() == "held\n"
        begun = time.monotonic()
        for act in (lambda: campaign.tell(query, 1.0), campaign.ask, lambda: campaign.observe("a", 0.0)):
            with pytest.raises(LockError, match="in use by another process"):
                act()
        assert time.monotonic() - begun >= 0.6
        for reader in (campaign, Campaign.open(path)):  # who only looks waits for nobody
            assert reader.status().open_queries == reader.open_queries == [query]
            assert reader.samples == 0
            assert reader.belief.dim == 5
        assert content(path) == before
    finally:
        worker.kill()
        worker.communicate()
    campaign.tell(query, 1.0)

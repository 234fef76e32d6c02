"""Processes that die, that write at the same time, and that work on a large problem."""

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
from backends import events
from cases import go_on, problems, same_state

from combopeps import Campaign
from combopeps.campaign import check, copy
from combopeps.campaign.open_store import store_at
from combopeps.errors import LockError, StateFileError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="fork and SIGKILL")
IN_SQLITE = pytest.mark.parametrize("place", ["sqlite"], indirect=True)
WORKER = Path(__file__).with_name("worker.py")
ENVIRONMENT = os.environ | {"PYTHONPATH": str(WORKER.parents[2])}  # the package under test, wherever it stands


@pytest.fixture
def path(place):
    return place()


def start(*arguments):
    command = [sys.executable, str(WORKER), *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, **pipes, text=True, env=ENVIRONMENT)


def finish(process):
    with process:  # closes its pipes and waits for its end, whatever happens
        out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return json.loads(out)


def check_acknowledged(path, acknowledged):
    """Every ask, tell, observation and correction that was acknowledged is stored, once."""
    lines = events(path)
    asked = [
        [[query["id"], *query["measured"]] for query in line["queries"]] for line in lines if line["kind"] == "ask"
    ]
    told = Counter((line["id"], *line["ys"]) for line in lines if line["kind"] == "tell")
    seen = Counter(line["y"] for line in lines if line["kind"] == "observe")
    changed = Counter((line["event"], *line["ys"]) for line in lines if line["kind"] == "correct")
    assert set(told.values()) | set(seen.values()) | set(changed.values()) <= {1}
    for kind, *rest in acknowledged:
        if kind == "ask":
            assert asked.count(rest[0]) == 1
        elif kind == "tell":
            id, y = rest
            assert told[(id, *(y if isinstance(y, list) else [y]))] == 1
        elif kind == "observe":
            assert seen[rest[0]] == 1
        elif kind == "correct":
            assert changed[tuple(rest)] == 1


def test_the_check_sees_a_lost_and_a_doubled_event(tmp_path):
    """So that what is compared below could fail."""
    path = tmp_path / "campaign.db"
    campaign = Campaign.create(path, problems()["topk"])
    go_on(campaign, 4, batch=2)
    campaign.observe("a", 1.5)
    written = [event for _, event in campaign.store.read().events]
    told = [["tell", event["id"], event["ys"][0]] for event in written if event["kind"] == "tell"]
    told.append(["observe", 1.5])
    check_acknowledged(path, told)
    changed = (written[:-1], [*written, written[-1]], written[:-2] + written[-1:], [*written, written[-2]])
    for number, spoilt in enumerate(changed):
        store_at(tmp_path / f"{number}.db").create(spoilt)
        with pytest.raises(AssertionError):
            check_acknowledged(tmp_path / f"{number}.db", told)


def crash_and_compare(place, kills, seed, policy="top-two", fault=(), problem=None, **options):
    """Data, claims and the state of the rule are those of a campaign with the same events that was never interrupted."""
    path, twin = place(), place("straight")
    Campaign.create(path, problem or problems()["topk"], policy=policy, rng=seed, **options)
    done = finish(start("crashes", path, kills, seed, *fault))
    assert done["killed"] == kills
    assert done["acknowledged"][-1] == ["done"]
    check_acknowledged(path, done["acknowledged"])
    assert check(path).faults == []
    copy(path, twin)  # without checkpoints
    same_state(Campaign.open(path), Campaign.open(twin))
    return done


@IN_SQLITE
def test_killed_at_50_random_moments(place):
    done = crash_and_compare(place, kills=50, seed=1)
    assert (
        sum(event != ["begun"] for event in done["acknowledged"]) > 10
    )  # kills fell into work, not all before it, however loaded the machine


@pytest.mark.parametrize("stopping", ["posterior", "verified"])
def test_killed_at_10_random_moments(place, stopping):
    done = crash_and_compare(place, kills=10, seed=1, stopping=stopping)
    said = [event[0] for event in done["acknowledged"]]
    last = len(said) - said[::-1].index("begun")  # the one that was not killed
    assert sum(kind in ("ask", "tell") for kind in said[:last]) > 5  # kills fell into work


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["top-two", "peps"])
@pytest.mark.parametrize("stopping", ["posterior", "verified"])
@pytest.mark.parametrize("seed", range(3))
def test_killed_at_100_random_moments(place, seed, policy, stopping):
    crash_and_compare(place, kills=100, seed=seed, policy=policy, stopping=stopping)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param("before insert", marks=pytest.mark.slow),
        pytest.param("before commit", marks=pytest.mark.slow),
        "after commit",
    ],
)
def test_killed_at_every_step_of_a_transaction(place, fault):
    crash_and_compare(place, kills=3, seed=2, fault=[fault])


def swarm(path, kills, seed):
    """Four processes on one file, killed at random and replaced, until so many have died."""
    Campaign.create(path, problems()["topk"])
    done = finish(start("swarm", path, kills, seed))
    Campaign.open(path).tell_many([])  # waits until all is durable
    assert check(path).faults == []
    check_acknowledged(path, done["acknowledged"])
    lines = events(path)
    recorded = sum(line["kind"] in ("ask", "tell", "observe") for line in lines)
    assert (
        0 <= recorded - len(done["acknowledged"]) <= done["killed"]
    )  # each was killed before at most one acknowledgement
    assert len(done["acknowledged"]) > kills
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
    assert check(path).faults == []


def test_readers_see_whole_transactions_while_others_write(path):
    reader, writer, stop = Campaign.create(path, problems()["topk"]), Campaign.open(path), Event()

    def write():
        count = 0
        while not stop.is_set():
            count += 1
            writer.observe_table([("a", count * 2.0**-20), ("b", count * 2.0**-20)])
        return count

    with ThreadPoolExecutor(1) as pool:
        future, seen = pool.submit(write), [0]
        while seen[-1] < 80:
            seen.append(reader.samples)
        stop.set()
        written = future.result()
    assert seen == sorted(seen)
    assert all(samples % 2 == 0 for samples in seen)
    assert reader.samples == 2 * written


def hammer(path, seconds):
    Campaign.create(path, problems()["topk"])
    workers = [start("hammer", path, seconds, name) for name in (1.0, 2.0)]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    said = [tuple(event) for events in [finish(worker) for worker in workers] for event in events]
    assert check(path).faults == []
    lines = events(path)
    found = [("tell", line["id"], line["ys"][0]) for line in lines if line["kind"] == "tell"]
    found += [("observe", line["y"]) for line in lines if line["kind"] == "observe"]
    assert Counter(found) == Counter(said)
    ids = [query["id"] for line in lines if line["kind"] == "ask" for query in line["queries"]]
    assert ids == list(range(len(ids)))
    writers = [line["y"] < 1.5 for line in lines if line["kind"] == "observe"]
    assert sum(a != b for a, b in pairwise(writers)) > 2  # they did take turns
    assert Campaign.open(path).samples == len(said)


@IN_SQLITE
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
    Campaign.open(path, timeout=5.0 if "postgresql:" in str(path) else 0.0).ask()  # a server notices it


def test_a_living_process_holds_it_and_waiting_has_an_end(path):
    campaign = Campaign.create(path, problems()["topk"], timeout=0.2)
    query, before = campaign.ask(), events(path)
    worker = start("hold", path)
    try:
        assert worker.stdout.readline() == "held\n"
        begun = time.monotonic()
        for act in (lambda: campaign.tell(query, 1.0), campaign.ask, lambda: campaign.observe("a", 0.0)):
            with pytest.raises(LockError, match="in use by another process"):
                act()
        assert time.monotonic() - begun >= 0.6
        for reader in (campaign, Campaign.open(path)):  # readers do not wait
            assert reader.status().open_queries == reader.open_queries == [query]
            assert reader.samples == 0
            assert reader.posterior.dim == 5
        assert events(path) == before
    finally:
        worker.kill()
        worker.communicate()
    campaign.tell(query, 1.0)


LIMIT = 0.6e9  # bytes; one array of components times arms has 12.8e9 for the matching, 3.2e9 for the items

LARGE = """
import json, resource, sys, tempfile
import scipy.sparse
from combopeps import Campaign, MatchingOracle, Problem, TopKOracle

def peak():
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with open("/proc/self/status") as status:  # ru_maxrss would be that of the parent process, if that is larger
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))

items, peaks = TopKOracle(20_000, k=2), {"start": peak()}
for name, problem, stopping in [
    ("matching", MatchingOracle(200, 200), "posterior"),
    ("items", Problem(items, noise_std=1.0), "certified"),
    ("scaled arms", Problem(items, arms=2.0 * scipy.sparse.identity(items.dim, format="csr")), "posterior"),
]:
    path = f"{tempfile.mkdtemp()}/run.db"
    Campaign.create(path, problem, stopping=stopping)
    campaign = Campaign.open(path)
    campaign.tell(campaign.ask(), 1.0)
    assert campaign.status().samples == 1
    peaks[name] = peak()
print(json.dumps(peaks))
"""


def test_a_large_campaign_takes_memory_for_its_components_only():
    done = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, timeout=300, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    peaks = json.loads(done.stdout)
    assert max(peaks.values()) < LIMIT, peaks

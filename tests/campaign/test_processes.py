"""Processes that die, and processes that write at the same time."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from cases import go_on, problems, same_state

from combopeps import Campaign, LockError
from combopeps.campaign import examine

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="fork and SIGKILL")
WORKER = Path(__file__).with_name("worker.py")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "campaign.jsonl"


def start(*arguments):
    command = [sys.executable, str(WORKER), *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(WORKER.parents[2])}  # the package under test, wherever it stands
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def finish(process):
    with process:  # closes its pipes and waits for its end, whatever happens
        out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return json.loads(out)


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def check_acknowledged(path, acknowledged):
    """Every ask and tell that a process was told of stands in the file, once."""
    lines = lines_of(path)
    asked = [[[query["id"], query["arm"]] for query in line["queries"]] for line in lines if line["kind"] == "ask"]
    told = Counter((line["id"], line["y"]) for line in lines if line["kind"] == "tell")
    assert set(told.values()) <= {1}
    for kind, *rest in acknowledged:
        if kind == "ask":
            assert asked.count(rest[0]) == 1
        elif kind == "tell":
            assert told[tuple(rest)] == 1


def test_the_check_sees_a_lost_and_a_doubled_line(path):
    """So that what is compared below could fail."""
    campaign = Campaign.create(path, problems()["topk"])
    go_on(campaign, 4, batch=2)
    lines = path.read_text().splitlines(keepends=True)
    told = [["tell", line["id"], line["y"]] for line in lines_of(path) if line["kind"] == "tell"]
    check_acknowledged(path, told)
    for spoilt in (lines[:-1], [*lines, lines[-1]]):
        path.write_text("".join(spoilt))
        with pytest.raises(AssertionError):
            check_acknowledged(path, told)


def crash_and_compare(path, kills, seed, policy="top-two", fault=()):
    for file in (path, path.with_name("straight")):
        Campaign.create(file, problems()["topk"], policy=policy, seed=seed)
    done = finish(start("crashes", path, kills, seed, *fault))
    straight = Campaign.open(path.with_name("straight"))
    go_on(straight, Campaign.open(path).samples, batch=2)
    assert done["killed"] == kills
    assert done["acknowledged"][-1] == ["done"]
    check_acknowledged(path, done["acknowledged"])
    assert path.read_bytes() == path.with_name("straight").read_bytes()
    same_state(Campaign.open(path), straight)
    return done


def test_killed_at_50_random_moments(path):
    done = crash_and_compare(path, kills=50, seed=1)
    assert len(done["acknowledged"]) > 10  # kills fell into work, not all before it, however loaded the machine


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["top-two", "peps"])
@pytest.mark.parametrize("seed", range(5))
def test_killed_at_100_random_moments(path, seed, policy):
    crash_and_compare(path, kills=100, seed=seed, policy=policy)


@pytest.mark.parametrize("fault", ["before write", "torn", "before fsync", "after fsync"])
def test_killed_at_every_step_of_a_write(path, fault):
    crash_and_compare(path, kills=6, seed=2, fault=[fault])


def hammer(path, seconds):
    Campaign.create(path, problems()["topk"])
    workers = [start("hammer", path, seconds, name) for name in (1.0, 2.0)]
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
    Campaign.open(path, timeout=0.0).ask()


def test_a_living_process_holds_it_and_waiting_has_an_end(path):
    campaign = Campaign.create(path, problems()["topk"], timeout=0.2)
    query, before = campaign.ask(), path.read_bytes()
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
        assert path.read_bytes() == before
    finally:
        worker.kill()
        worker.communicate()
    campaign.tell(query, 1.0)

"""The server is killed under load: nothing acknowledged is lost or doubled, and the campaign continues."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from threading import Event, Thread

import httpx
import pytest
from backends import events
from served import ROOT, begun

from combopeps import Campaign
from combopeps.campaign import check

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="fork and SIGKILL")
CLIENTS = 8


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as plug:
        return plug.getsockname()[1]


class Measurer(Thread):
    """Asks, tells and observes; repeats every request until it is acknowledged."""

    def __init__(self, name, port, stop):
        super().__init__(daemon=True)
        self.client, self.stop, self.acknowledged, self.again = name, stop, [], 0
        self.web = httpx.Client(base_url=f"http://localhost:{port}", timeout=30)

    def say(self, address, body):
        while True:
            try:
                answer = self.web.post(address, json=body)
                assert answer.status_code == 200, answer.text
                return answer.json()
            except httpx.TransportError:
                self.again += 1
                time.sleep(0.01)

    def run(self):
        count = 0
        with self.web:
            while not self.stop.is_set():
                for query in self.say("/ask", {"client": self.client, "n": 2})["queries"]:
                    value = 1.0 + 0.3 * query["measured"][0] + 0.01 * (query["id"] % 7)
                    self.say("/tell", {"id": query["id"], "value": value})
                    self.acknowledged.append(("tell", query["id"], value))
                key, count = f"{self.client}-{count}", count + 1
                self.say("/observe", {"label": "a", "value": 1.0 + count * 2.0**-20, "key": key})
                self.acknowledged.append(("observe", key, 1.0 + count * 2.0**-20))


def check_acknowledged(records, acknowledged):
    """Each is recorded once, and nothing else is: every request was repeated until it was acknowledged."""
    found = [("tell", record["id"], *record["ys"]) for record in records if record["kind"] == "tell"]
    found += [("observe", record["key"], record["y"]) for record in records if record["kind"] == "observe"]
    assert Counter(found) == Counter(acknowledged)
    ids = [query["id"] for record in records if record["kind"] == "ask" for query in record["queries"]]
    assert ids == list(range(len(ids)))


def check_twin(path, records):
    """The same measurements in a campaign without interruptions give the same state."""
    twin, campaign = begun(path.with_name("twin.db")), Campaign.open(path)
    for record in records[1:]:
        if record["kind"] in ("tell", "observe"):
            label, y = (
                (record["label"], record["y"]) if record["kind"] == "observe" else (*record["labels"], *record["ys"])
            )
            twin.observe(label, y)
    assert twin.posterior.theta_hat.tolist() == campaign.posterior.theta_hat.tolist()
    assert twin.posterior.std.tolist() == campaign.posterior.std.tolist()
    mine, theirs = campaign.status(), twin.status()
    assert (mine.samples, mine.pulls, mine.answer) == (theirs.samples, theirs.pulls, theirs.answer)
    asked = sum(len(record["queries"]) for record in records if record["kind"] == "ask")
    told = sum(record["kind"] == "tell" for record in records)
    assert len(mine.open_queries) == asked - told
    assert [query.id for query in campaign.ask(5)] == list(range(asked, asked + 5))


def kill(path, kills, seed):
    store, seen = begun(path).store, None
    port, rng, stop = free_port(), random.Random(seed), Event()
    command = [sys.executable, str(Path(__file__).with_name("killed.py")), str(path), str(port)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as keeper:
        child = int(keeper.stdout.readline())
        measurers = [Measurer(f"m{i}", port, stop) for i in range(CLIENTS)]
        for measurer in measurers:
            measurer.start()
        for _ in range(kills):
            seen = store.read(seen).end
            while not store.read(seen).events:  # it has done something since the last one died
                time.sleep(0.001)
            time.sleep(rng.uniform(0.0, 0.15))
            os.kill(child, signal.SIGKILL)
            child = int(keeper.stdout.readline())
        stop.set()
        for measurer in measurers:
            measurer.join(60)
        os.kill(child, signal.SIGTERM)
        assert keeper.wait(60) == 0
    assert not any(measurer.is_alive() for measurer in measurers)
    acknowledged = [entry for measurer in measurers for entry in measurer.acknowledged]
    records = events(path)
    assert check(path).faults == []
    check_acknowledged(records, acknowledged)
    assert sum(measurer.again for measurer in measurers) >= kills  # each kill interrupted a request
    for spoilt in (records[:-1], [*records, records[-1]]) if records[-1]["kind"] != "ask" else ():
        with pytest.raises(AssertionError):
            check_acknowledged(spoilt, acknowledged)
    check_twin(path, records)


def test_killed_10_times_under_load(tmp_path):
    kill(tmp_path / "campaign.db", kills=10, seed=1)


@pytest.mark.slow
def test_killed_100_times_under_load(tmp_path):
    kill(tmp_path / "campaign.db", kills=100, seed=2)

"""Statuses and pages: by another process, never older than the request, and not too often."""

import json
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import httpx
import pytest
from own_oracles import slow
from served import begun, client, start, status_process, stop

from combopeps import Campaign
from combopeps.cli import main
from combopeps.errors import ServerError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "campaign.db"


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_status_is_that_of_the_command(path, capfd):
    campaign = begun(path)
    campaign.tell_many([(query, 1.0 + query.arm) for query in campaign.ask(6)])
    campaign.ask(client="ann", lease=60)
    with client(path, pause=0.0) as web:
        said = web.get("/status").json()
        main(["status", "--state", str(path), "--json"])
        expected = json.loads(capfd.readouterr().out)
        assert {key: said[key] for key in expected if key != "open"} == {
            key: value for key, value in expected.items() if key != "open"
        }
        status = campaign.status()
        assert [i for i, _ in said["z"]] == status.z.nonzero()[0].tolist()
        encoded = campaign.problem.oracle.encode(status.runner_up)
        assert said["runner_up_z"] == [[int(i), 1.0] for i in encoded.nonzero()[0]]
        assert said["open"] == web.get("/open").json()["queries"]
        assert said["open"][0]["client"] == "ann"

        # The newest, by all writers.
        web.post("/tell", json={"id": 6, "value": 1.0})
        assert web.get("/status").json()["samples"] == 7
        campaign.observe("a", 1.0)
        time.sleep(0.15)
        assert web.get("/status").json()["samples"] == 8
        assert web.get("/status", params={"wait": "false"}).json()["samples"] == 8

        # A table of all of it.
        table = web.get("/measurements.csv")
        assert table.headers["content-type"] == "text/csv; charset=utf-8"
        rows = [row.split(",") for row in table.text.splitlines()]
        assert rows[0] == ["event", "query", "label", "value", "sem", "count", "at", "by"]
        assert [row[1] for row in rows[1:]] == ["0", "1", "2", "3", "4", "5", "6", ""]
        assert rows[-1][2:6] == ["a", "1.0", "", "1"]
        assert abs(float(rows[-1][6]) - time.time()) < 60
        other = begun(path.with_name("other.db"))
        path.with_name("table.csv").write_bytes(table.content)
        assert other.observe_table(path.with_name("table.csv")).taken == 8
        assert other.posterior.theta_hat.tolist() == campaign.posterior.theta_hat.tolist()

        # A process that dies is replaced.
        before = status_process()
        os.kill(before, signal.SIGKILL)
        web.post("/observe", json={"label": "a", "value": 1.0})
        assert web.get("/status").json()["samples"] == 9
        assert status_process() not in (None, before)


def test_reports_are_not_computed_all_the_time(path):
    begun(path)
    with client(path, pause=0.3) as web:
        web.get("/status")
        seen, end = [], time.monotonic() + 2.5
        while time.monotonic() < end:
            web.post("/observe", json={"label": "a", "value": 1.0})
            asked = web.post("/observe", json={"label": "a", "value": 1.0}).json()["samples"]
            assert web.get("/status").json()["samples"] >= asked  # a new report each time
            seen.append(time.monotonic())
    gaps = [b - a for a, b in pairwise(seen)]
    assert 3 <= len(seen) <= 5 + 2.5 / 0.3 + 2
    assert gaps[-1] >= 0.2


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_requests_are_answered_while_a_report_is_computed_or_fails(path, tmp_path):
    """With an oracle of the user's own that waits in the status process, or fails, for as long as a file exists."""
    Campaign.create(path, slow()).ask(4)
    flag, broken = tmp_path / "slow", tmp_path / "broken"
    environment = {"SLOW_ORACLE": str(flag), "BROKEN_ORACLE": str(broken)}
    process, address = start(path, "--oracle", "own_oracles:slow", env=environment)
    try:
        with httpx.Client(base_url=address, timeout=60) as web, ThreadPoolExecutor(1) as pool:
            assert web.get("/status").json()["samples"] == 0
            web.post("/observe", json={"label": "x", "value": 1.0})
            flag.touch()
            report = pool.submit(httpx.get, f"{address}/status", timeout=60)
            wait_for(flag.with_name("slow.waiting").exists)
            begun_at = time.monotonic()
            for id in range(4):
                assert web.post("/tell", json={"id": id, "value": 1.0}).status_code == 200
            assert web.post("/ask", json={"client": "ann"}).json()["queries"][0]["id"] == 4
            assert web.get("/open").json()["samples"] == 5
            assert web.get("/status", params={"wait": "false"}).json()["samples"] == 0
            took = time.monotonic() - begun_at
            assert not report.done()
            flag.unlink()
            assert report.result().json()["samples"] >= 1
            assert web.get("/status").json()["samples"] == 5
            assert took < 5.0
            # An error of the oracle is named, and no process dies.
            broken.touch()
            for number in range(2):
                web.post("/observe", json={"label": "x", "value": 1.0 + number})
                answer = web.get("/")
                assert (answer.status_code, answer.json()["type"]) == (503, "ServerError")
                assert answer.json()["error"].startswith("the page cannot be drawn: ZeroDivisionError: ")
            broken.unlink()
            assert web.get("/").status_code == 200
            # A request that waits for a report when the server stops is refused.
            web.post("/observe", json={"label": "x", "value": 1.0})
            flag.touch()
            flag.with_name("slow.waiting").unlink()
            report = pool.submit(httpx.get, f"{address}/status", timeout=60)
            wait_for(flag.with_name("slow.waiting").exists)
            process.send_signal(signal.SIGTERM)
            answer = report.result()
            assert (answer.status_code, answer.json()["type"]) == (503, ServerError.__name__)
            flag.unlink()
    finally:
        flag.unlink(missing_ok=True)
        code, said = stop(process)
    assert code == 0
    assert said.count("Traceback") == 1  # once for a kind of error


@pytest.mark.parametrize("until", [1e300, 1e12])
def test_deadlines_beyond_the_calendar_are_shown(path, until):
    """A lease that this package would not write."""
    store = begun(path).store
    with store.locked():
        asked = {"kind": "ask", "queries": [{"id": 0, "measured": [0], "label": "a"}], "client": "far", "until": until}
        store.append([asked], store.read().end)
    with client(path, pause=0.0) as web:
        assert "9999-12-31 23:59 UTC" in web.get("/").text
        assert web.get("/fragment").status_code == web.get("/status").status_code == 200
        assert web.get("/open").json()["queries"][0]["until"] == until


def test_a_campaign_that_cannot_be_sent_to_the_status_process(tmp_path):
    begun(tmp_path / "campaign.db")
    with client(None, opened=lambda: Campaign.open(tmp_path / "campaign.db")) as web:
        answer = web.get("/status")
    assert answer.status_code == 503
    assert "a request to the status process failed" in answer.json()["error"]

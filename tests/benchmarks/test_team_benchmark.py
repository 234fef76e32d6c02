"""The load on a server: small, from a second process, and what it counts."""

import json

import pytest
from tampering import alter

from benchmarks import team
from combopeps import Campaign


@pytest.mark.parametrize("load", team.LOADS)
def test_a_small_load_is_acknowledged_exactly_once(tmp_path, monkeypatch, load):
    monkeypatch.setattr(team, "RATE", 2000)
    with team.place("SQLite", tmp_path, "small") as url:
        found = team.measured(url, tmp_path, load, 200, None)
    assert found["each once"]
    assert 0.0 < found["median ms"] <= found["99 % ms"] <= found["slowest ms"]
    assert team.row("SQLite", found)[2] == "yes"
    assert Campaign.open(url).samples == 200


def test_what_the_store_holds_is_counted(tmp_path):
    url = str(tmp_path / "one.db")
    work = team.begun(url, 5)
    campaign = Campaign.open(url)
    campaign.tell_many(work[:3])
    campaign.tell(*work[3])
    assert team.told(url) == (dict(work[:4]), 4)
    alter(url, 3, '"tell"', '"telL"')
    with pytest.raises(AssertionError):
        team.told(url)


def test_a_limit_that_is_missed_is_said():
    found = {"load": "paced", "each once": False, "tells per second": 1.0, "fsync ms": 0.1}
    late = team.row("SQLite", found | {"median ms": 1.1, "99 % ms": 2.0})
    assert (late[2], late[-1]) == ("NO", "NO")
    assert team.row("SQLite", found | {"median ms": 1.0, "99 % ms": 5.0})[-1] == "yes"
    assert team.row("PostgreSQL", found | {"median ms": 1.0, "99 % ms": 5.0})[-1] == "reported"


def test_a_server_that_refuses_fails_the_load(tmp_path):
    import subprocess
    import sys

    url = str(tmp_path / "one.db")
    team.begun(url, 3)
    with team.server(url) as address:
        order = {"tells": [[99, 1.0]], "clients": 1, "pause": 0.0}
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks._load", address], input=json.dumps(order), capture_output=True, text=True
        )
    assert done.returncode != 0
    assert "never asked" in done.stderr

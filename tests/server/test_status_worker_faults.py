"""Faults of the status process: the cause is named, and the next report may succeed."""

import httpx
import pytest
from own_oracles import slow
from served import begun, client, start, stop

from combopeps import Campaign
from combopeps.campaign.store import store_at


def lease(path, until):
    """Append a lease that this package would not write."""
    store = store_at(path)
    with store.locked():
        store.append([{"kind": "lease", "ids": [0], "client": "far", "until": until}], store.read().end)


@pytest.mark.parametrize("until", [1e300, 1e12])
def test_deadlines_beyond_the_calendar_are_shown(tmp_path, until):
    path = tmp_path / "campaign.db"
    begun(path).ask(client="ann")
    lease(path, until)
    with client(path, pause=0.0) as web:
        assert "9999-12-31 23:59 UTC" in web.get("/").text
        assert web.get("/fragment").status_code == web.get("/status").status_code == 200
        assert web.get("/open").json()["queries"][0]["until"] == until


def test_an_unexpected_error_is_named_and_no_process_dies(tmp_path):
    """An oracle of the user's own that fails as long as a file exists."""
    path, flag = tmp_path / "campaign.db", tmp_path / "broken"
    Campaign.create(path, slow())
    process, address = start(path, "--oracle", "own_oracles:slow", env={"BROKEN_ORACLE": str(flag)})
    try:
        with httpx.Client(base_url=address, timeout=60) as web:
            assert web.get("/").status_code == 200
            flag.touch()
            for number in range(2):
                web.post("/observe", json={"label": "x", "value": 1.0 + number})
                answer = web.get("/")
                assert answer.status_code == 503
                said = answer.json()
                assert said["type"] == "ServerError"
                assert said["error"].startswith("the page cannot be drawn: ZeroDivisionError: ")
            flag.unlink()
            assert web.get("/").status_code == 200
    finally:
        flag.unlink(missing_ok=True)
        code, said = stop(process)
    assert code == 0
    assert said.count("Traceback") == 1  # once for a kind


def test_a_campaign_that_cannot_be_sent_to_the_status_process(tmp_path):
    begun(tmp_path / "campaign.db")
    with client(None, opened=lambda: Campaign.open(tmp_path / "campaign.db")) as web:
        answer = web.get("/status")
    assert answer.status_code == 503
    assert "cannot be asked" in answer.json()["error"]

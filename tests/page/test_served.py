"""The page of the real server in a real browser: log in, ask, enter a result, see it counted and drawn."""

import json
import os
import subprocess
import sys

import browsing
import pytest
from page_cases import measured
from test_browser import count, find, until, waiting

from combopeps import Campaign

pytestmark = pytest.mark.xdist_group("browser")
TOKEN = "a-token-for-the-page-0123"


@pytest.fixture
def served(tmp_path):
    campaign = measured(tmp_path, "town", 8)
    (tmp_path / "tokens").write_text(f"owner {TOKEN}\n")
    os.chmod(tmp_path / "tokens", 0o600)
    words = ["serve", "--state", str(campaign.path), "--port", "0", "--json", "--token-file", str(tmp_path / "tokens")]
    with subprocess.Popen(
        [sys.executable, "-m", "combopeps", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            yield json.loads(server.stdout.readline())["address"], campaign
        finally:
            server.terminate()
            server.communicate(timeout=60)


def test_a_result_goes_all_the_way(chromium, served):
    address, campaign = served
    browsing.look_like(chromium, 390)
    chromium.get(address)
    assert browsing.complaints(chromium) in (
        [],
        [f"{address}/ - Failed to load resource: the server responded with a status of 401 (Unauthorized)"],
    )
    find(chromium, "#token").send_keys(TOKEN)
    find(chromium, "button").click()
    until(lambda: chromium.find_elements("css selector", "#figures"))
    assert count(chromium) == 8
    picture = find(chromium, "#picture").get_attribute("innerHTML")
    find(chromium, "#me").send_keys("ann")
    find(chromium, "#ask button").click()
    until(lambda: find(chromium, "#tell").is_displayed(), 30.0)
    until(lambda: "ann" in waiting(chromium), 30.0)
    find(chromium, "#part-0").send_keys("5.5")
    find(chromium, "#tell button").click()
    until(lambda: count(chromium) == 9, 30.0)
    assert find(chromium, "#picture").get_attribute("innerHTML") != picture
    assert "Recorded" in find(chromium, "#heard").text
    again = Campaign.open(campaign.path)
    assert (again.samples, again.open_queries) == (9, [])
    assert chromium.execute_script("return document.documentElement.scrollWidth") <= 390
    assert browsing.complaints(chromium) == []

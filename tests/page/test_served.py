"""The page of the real server in a real browser: log in, ask, enter a result, see it counted and drawn."""

import json
import os
import subprocess
import sys

import browsing
import pytest
from page_cases import measured
from test_browser import buttons, chosen, count, find, heard, listed, text_of, until

from combopeps import Campaign

pytestmark = pytest.mark.xdist_group("browser")
TOKEN, ANN = "a-token-for-the-page-0123", "a-token-for-ann-01234567"


@pytest.fixture
def served(chromium, tmp_path):
    campaign = measured(tmp_path, "town", 8)
    (tmp_path / "tokens").write_text(f"owner {TOKEN}\nmeasurer {ANN} ann\n")
    os.chmod(tmp_path / "tokens", 0o600)
    words = ["serve", "--state", str(campaign.path), "--port", "0", "--json", "--token-file", str(tmp_path / "tokens")]
    with subprocess.Popen(
        [sys.executable, "-m", "combopeps", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            yield json.loads(server.stdout.readline())["address"], campaign
        finally:
            chromium.delete_all_cookies()  # ports share them
            chromium.get("about:blank")
            browsing.complaints(chromium)
            server.terminate()
            server.communicate(timeout=60)


def test_somebody_is_known_by_a_token_and_gives_a_query_back(chromium, served):
    address, campaign = served
    campaign.ask(60, client="bob")
    chromium.get(address)
    find(chromium, "#token").send_keys(ANN)
    find(chromium, "button").click()
    until(lambda: chromium.find_elements("css selector", "#known:not([hidden])"))
    assert find(chromium, "#known").text == "You are ann"
    assert not find(chromium, "#download").is_displayed()
    find(chromium, "#ask button").click()
    until(lambda: chosen(chromium), 30.0)
    given = Campaign.open(campaign.path).open_queries[-1]
    assert heard(chromium) == f"Please measure {' - '.join(given.label)} (query {given.id})."
    until(lambda: "61 results are still out" in text_of(chromium, "#lede"), 30.0)
    assert chosen(chromium) == str(given.id)
    assert buttons(chromium) == [given.id]
    find(chromium, f"[aria-label='Close query {given.id}']").click()
    chromium.switch_to.alert.accept()
    until(lambda: len(listed(chromium)) == 50 and not buttons(chromium), 30.0)
    assert len(Campaign.open(campaign.path).open_queries) == 60
    assert chosen(chromium) == ""
    assert "somebody else" not in heard(chromium)


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
    until(lambda: "ann" in text_of(chromium, "#waiting"), 30.0)
    find(chromium, "#part-0").send_keys("5.5")
    find(chromium, "#tell button").click()
    until(lambda: count(chromium) == 9, 30.0)
    assert find(chromium, "#picture").get_attribute("innerHTML") != picture
    assert "Recorded" in find(chromium, "#heard").text
    again = Campaign.open(campaign.path)
    assert (again.samples, again.open_queries) == (9, [])
    assert chromium.execute_script("return document.documentElement.scrollWidth") <= 390
    assert browsing.complaints(chromium) == []

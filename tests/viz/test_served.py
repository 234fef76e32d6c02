"""The page of the server in a browser: log in, ask, enter, correct and retract results."""

import json
import os
import subprocess
import sys

import browsing
import pytest
from page_cases import measured
from test_browser import alert, buttons, chosen, count, find, listed, message, text_of, until

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


def test_a_client_with_a_token_closes_its_query(chromium, served):
    address, campaign = served
    campaign.ask(60, client="bob")
    chromium.get(address)
    find(chromium, "#token").send_keys(ANN)
    find(chromium, "button").click()
    until(lambda: chromium.find_elements("css selector", "#known:not([hidden])"))
    assert find(chromium, "#known").text == "You are ann"
    assert not find(chromium, "#download").is_displayed()
    find(chromium, "#ask button").click()
    until(lambda: chosen(chromium))
    given = Campaign.open(campaign.path).open_queries[-1]
    assert message(chromium) == f"Please measure {' - '.join(given.label)} (query {given.id})."
    until(lambda: "61 results are still out" in text_of(chromium, "#summary"))
    assert chosen(chromium) == str(given.id)
    assert buttons(chromium) == [given.id]
    press(chromium, f"Close query {given.id}").accept()
    until(lambda: len(listed(chromium)) == 50 and not buttons(chromium))
    assert len(Campaign.open(campaign.path).open_queries) == 60
    assert chosen(chromium) == ""
    assert "another client" not in message(chromium)


def test_a_result_is_entered_in_the_browser_and_stored(chromium, served):
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
    until(lambda: find(chromium, "#tell").is_displayed())
    until(lambda: "ann" in text_of(chromium, "#waiting"))
    find(chromium, "#part-0").send_keys("5.5")
    find(chromium, "#tell button").click()
    until(lambda: count(chromium) == 9)
    assert find(chromium, "#picture").get_attribute("innerHTML") != picture
    assert "Recorded" in find(chromium, "#message").text
    again = Campaign.open(campaign.path)
    assert (again.samples, again.open_queries) == (9, [])
    assert chromium.execute_script("return document.documentElement.scrollWidth") <= 390
    assert browsing.complaints(chromium) == []


def log_in(chromium, address, token):
    chromium.get(address)
    find(chromium, "#token").send_keys(token)
    find(chromium, "button").click()
    until(lambda: chromium.find_elements("css selector", "#figures"))


def changes(chromium):
    """Labels of the visible buttons that change results."""
    return chromium.execute_script(
        "return [...document.querySelectorAll('#recent button:not([hidden])')].map((one) => one.ariaLabel)"
    )


def shown(chromium, event):
    return text_of(chromium, f"#recent tr[data-event='{event}']")


def press(chromium, label):
    # In one call: between two, the page may replace the button.
    chromium.execute_script("document.querySelector(arguments[0]).click()", f"[aria-label='{label}']")
    return until(lambda: alert(chromium))


def test_the_owner_corrects_and_retracts_results(chromium, served):
    address, campaign = served
    measurements = campaign.measurements()
    one, two = measurements[-1], measurements[-2]
    correct, retract = f"Correct the result of event {one.event}", f"Retract the result of event {two.event}"
    log_in(chromium, address, TOKEN)
    until(lambda: correct in changes(chromium))

    for confirmed in (False, True):
        dialog = press(chromium, correct)  # a prompt; the value that is typed is implausible
        assert "makes every claim void" in dialog.text
        dialog.send_keys("1e6")
        dialog.accept()
        dialog = until(lambda: alert(chromium))
        assert "1e+06 is implausible" in dialog.text
        assert Campaign.open(campaign.path).measurements() == measurements
        if confirmed:
            dialog.accept()
            until(lambda: f"Event {one.event} is changed." in message(chromium))
        else:
            dialog.dismiss()
            until(lambda: "is implausible" in message(chromium))
            assert Campaign.open(campaign.path).measurements() == measurements
    assert Campaign.open(campaign.path).measurements()[-1].y == 1e6

    dialog = press(chromium, correct)
    dialog.send_keys("5,25")
    dialog.accept()
    until(lambda: "5.25" in shown(chromium, one.event))

    press(chromium, retract).dismiss()
    assert Campaign.open(campaign.path).samples == 8
    dialog = press(chromium, retract)
    assert f"(event {two.event})" in dialog.text
    dialog.accept()
    until(lambda: count(chromium) == 7)
    until(lambda: "3 results were corrected or retracted." in text_of(chromium, "#recent"))
    assert not {retract, retract.replace("Retract", "Correct")} & set(changes(chromium))
    again = Campaign.open(campaign.path)
    assert [(found.y, found.retracted) for found in again.measurements()[-2:]] == [(two.y, True), (5.25, False)]
    assert (again.samples, again.status().corrections) == (7, 3)


def test_a_measurer_does_not_change_results(chromium, served):
    address, _ = served
    log_in(chromium, address, ANN)
    until(lambda: find(chromium, "#known").is_displayed())
    assert chromium.find_elements("css selector", "#recent tr[data-event]")
    assert changes(chromium) == []

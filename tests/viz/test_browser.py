"""The live page in a browser, served by a minimal server."""

import json
import re
import threading
import time
import warnings
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import browsing
import pytest
from page_cases import measured
from unit_problem import unit_problem

from combopeps import Campaign, ComboPepsError, TopKOracle
from combopeps.errors import AuthorizationError
from combopeps.server.schemas import query_json
from combopeps.viz.build_view_model import ErrorCurve, report_data
from combopeps.viz.html import Live, fragment, render, report

pytestmark = pytest.mark.xdist_group("browser")
_POLICY = (
    "default-src 'none'; style-src 'nonce-abc'; script-src 'nonce-abc'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)


class MiniServer:
    """A minimal server of a campaign.

    It records the posted bodies and the number of 304 responses; with `cut`, it returns an error.

    `me` is the response of /me.
    """

    def __init__(self, campaign, me):
        self.me = me
        self.campaign, self.curve, self.posted, self.unchanged, self.cut = campaign, ErrorCurve(), [], 0, False
        self.lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 1.0  # seconds for a connection that a browser opens in advance, and never uses

            def log_message(self, *_):
                pass

            def reply(self, code, text="", **headers):
                body = text.encode()
                self.send_response(code)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                with server.lock:
                    facts = report_data(server.campaign, curve=server.curve)
                tag = zlib.crc32(fragment(facts, Live("")).encode())
                live = Live(f'"{tag}"', poll_seconds=0.2)
                if server.cut:
                    self.reply(503)
                elif self.path == "/":
                    page = render(facts, live, nonce="abc")
                    self.reply(200, page, Content_Type="text/html; charset=utf-8", Content_Security_Policy=_POLICY)
                elif self.path == "/me":
                    self.reply(200, json.dumps(server.me))
                elif self.path == "/open":
                    listed = [query_json(query) for query in server.campaign.open_queries]
                    self.reply(200, json.dumps({"queries": listed}))
                elif self.headers.get("If-None-Match") == live.etag:
                    server.unchanged += 1
                    self.reply(304, ETag=live.etag)
                else:
                    self.reply(200, fragment(facts, live), ETag=live.etag, Content_Type="text/html; charset=utf-8")

            def do_POST(self):
                said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.posted.append((self.path, self.headers["Content-Type"], said))
                try:
                    with server.lock:
                        if self.path == "/ask":
                            if server.me["client"] not in (None, said["client"]):
                                raise AuthorizationError(f"this token belongs to {server.me['client']!r}")
                            query = server.campaign.ask(said["n"], client=said["client"])[0]
                            return self.reply(200, json.dumps({"queries": [query_json(query)]}))
                        if self.path == "/abandon":
                            server.campaign.abandon(said["id"])
                        else:
                            value = said.get("values", said.get("value"))
                            server.campaign.tell(said["id"], value, confirm=said.get("confirm", False))
                except ComboPepsError as error:
                    self.reply(409, json.dumps({"error": str(error), "type": type(error).__name__}))
                else:
                    self.reply(200, "{}")

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = False  # responses are waited for, and sockets closed
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def serve(chromium):
    servers = []

    def begin(campaign, width=1280, role="measurer", name=None):
        servers.append(MiniServer(campaign, {"role": role, "client": name}))
        browsing.look_like(chromium, width)
        chromium.get(servers[-1].url)
        return servers[-1]

    yield begin
    chromium.get("about:blank")
    browsing.complaints(chromium)
    for server in servers:
        server.close()


def until(what, seconds=60.0):  # a loaded machine may take that long; waiting ends as soon as it is true
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
    return found


def find(chromium, selector):
    return chromium.find_element("css selector", selector)


def count(chromium):
    return int(chromium.execute_script("return document.querySelector('#figures data').value"))


def choose(chromium, query):
    find(chromium, f"#query option[value='{query.id}']").click()


def chosen(chromium):
    return find(chromium, "#query").get_attribute("value")


def listed(chromium):
    first, *ids = chromium.execute_script(
        "return [...document.querySelectorAll('#query option')].map((one) => one.value)"
    )
    assert first == ""
    return [int(id) for id in ids]


def buttons(chromium):
    """Return the numbers of the queries that the user can close."""
    script = "return [...document.querySelectorAll('.act button:not([hidden])')].map((one) => one.ariaLabel)"
    return [int(label.removeprefix("Close query ")) for label in chromium.execute_script(script)]


def text_of(chromium, selector):
    """Return the text of an element in one call: between two calls, the page may replace it."""
    return chromium.execute_script("return document.querySelector(arguments[0]).innerText", selector)


def alert(chromium):
    """Return the open dialog, or None."""
    from selenium.common.exceptions import NoAlertPresentException

    try:
        return chromium.switch_to.alert
    except NoAlertPresentException:
        return None


def message(chromium):
    return find(chromium, "#message").text


def test_entering_a_result_updates_the_page(chromium, serve, tmp_path):
    campaign = measured(tmp_path, "town", 8)
    query, other = campaign.ask(2)
    server = serve(campaign, 390)
    picture = find(chromium, "#picture").get_attribute("innerHTML")
    assert chosen(chromium) == ""  # nothing by itself
    choose(chromium, query)
    find(chromium, "#part-0").send_keys("-1,25")
    find(chromium, "#tell button").click()
    until(lambda: count(chromium) == 9)
    assert server.posted == [("/tell", "application/json", {"id": query.id, "value": -1.25})]
    assert campaign.samples == 9
    assert find(chromium, "#picture").get_attribute("innerHTML") != picture
    assert "Recorded" in find(chromium, "#message").text
    assert listed(chromium) == [other.id]
    assert chosen(chromium) == ""
    assert (
        chromium.execute_script("return document.getElementById('announcement').textContent") or campaign.status().stop
    )
    assert browsing.complaints(chromium) == []
    until(lambda: server.unchanged > 2)  # then nothing changes, and nothing is sent
    assert browsing.complaints(chromium) == []


def test_input_is_kept_when_the_page_updates(chromium, serve, tmp_path):
    campaign = measured(tmp_path, "topk-paper", 8)
    first, second = campaign.ask(2)
    server = serve(campaign)
    choose(chromium, second)
    field = find(chromium, "#part-0")
    field.send_keys("1.2")
    chromium.execute_script("window.scrollTo(0, 300)")
    top = "return arguments[0].getBoundingClientRect().top"
    before = chromium.execute_script(top, field)
    with server.lock:
        campaign.tell(first, 0.5)
    until(lambda: count(chromium) == 9)
    field.send_keys("5")  # the same element: it was never replaced
    assert field.get_attribute("value") == "1.25"
    assert chromium.switch_to.active_element == field
    assert chromium.execute_script(top, field) == before  # also where what is above it has become shorter
    assert chromium.execute_script("return window.scrollY") > 200
    assert chosen(chromium) == str(second.id)
    with server.lock:
        campaign.tell(second, 0.75)
    until(lambda: f"Query {second.id} was closed by another client" in message(chromium))
    assert field.get_attribute("value") == "1.25"
    assert field.is_displayed()


def test_each_part_of_an_action_has_a_field(chromium, serve, tmp_path):
    campaign = measured(tmp_path, "town", 8, actions="answers")
    query = campaign.ask()
    server = serve(campaign, 390)
    assert chromium.find_elements("css selector", "#fields label") == []
    choose(chromium, query)
    labels = [label.text for label in chromium.find_elements("css selector", "#fields label")]
    assert labels == [" - ".join(edge) for edge in query.components]
    find(chromium, "#part-1").send_keys("2.5")
    find(chromium, "#tell button").click()
    until(lambda: "Recorded" in find(chromium, "#message").text)
    values = [None] * len(labels)
    values[1] = 2.5
    assert server.posted[-1][2] == {"id": query.id, "values": values}
    assert browsing.complaints(chromium) == []


def test_a_query_is_requested_and_answered(chromium, serve, tmp_path):
    campaign = measured(tmp_path, "topk-paper", 8)
    server = serve(campaign, 390)
    assert not find(chromium, "#tell").is_displayed()
    find(chromium, "#me").send_keys("ann")
    find(chromium, "#ask button").click()
    until(lambda: find(chromium, "#tell").is_displayed())
    assert server.posted[-1][2] == {"n": 1, "client": "ann"}
    (query,) = campaign.open_queries
    assert find(chromium, "#query").get_attribute("value") == str(query.id)
    until(lambda: "ann" in text_of(chromium, "#waiting"))
    find(chromium, "#part-0").send_keys("0.5")
    find(chromium, "#tell button").click()
    until(lambda: count(chromium) == 9)
    assert not find(chromium, "#tell").is_displayed()
    chromium.refresh()
    assert find(chromium, "#me").get_attribute("value") == "ann"  # remembered
    assert browsing.complaints(chromium) == []
    chromium.execute_script("localStorage.clear()")


def test_a_query_that_another_client_closed_is_deselected(chromium, serve, tmp_path):
    campaign = measured(tmp_path, "topk-paper", 8)
    server = serve(campaign, name="ann")
    until(lambda: find(chromium, "#known").is_displayed())
    find(chromium, "#ask button").click()
    until(lambda: chosen(chromium))
    (given,) = campaign.open_queries
    assert message(chromium) == f"Please measure {given.label} (query {given.id})."
    with server.lock:
        other = campaign.ask(1, client="bob")[0]
    until(lambda: listed(chromium) == [given.id, other.id])
    assert chosen(chromium) == str(given.id)
    with server.lock:
        campaign.tell(given, 0.5)
    until(lambda: listed(chromium) == [other.id])
    assert chosen(chromium) == ""
    assert f"Query {given.id} was closed by another client" in message(chromium)
    find(chromium, "#part-0").send_keys("1.9")
    find(chromium, "#tell button").click()
    assert "choose what was measured" in message(chromium)
    until(lambda: server.unchanged > 2)
    assert [path for path, *_ in server.posted] == ["/ask"]
    assert campaign.open_queries == [other]
    assert find(chromium, "#part-0").get_attribute("value") == "1.9"
    find(chromium, "#ask button").click()  # what is typed belongs to something else
    until(lambda: "Please measure" in message(chromium))
    assert chosen(chromium) == ""
    choose(chromium, other)
    find(chromium, "#tell button").click()
    until(lambda: f"Recorded: query {other.id}" in message(chromium))
    assert server.posted[-1][2] == {"id": other.id, "value": 1.9}
    assert browsing.complaints(chromium) == []


def test_own_queries_are_listed_among_many_others(chromium, serve, tmp_path):
    campaign = measured(tmp_path, "town", 8)
    campaign.ask(70, client="bob")
    server = serve(campaign, 390, name="ann")
    until(lambda: find(chromium, "#known").is_displayed())
    assert len(listed(chromium)) == 50
    find(chromium, "#ask button").click()
    until(lambda: chosen(chromium))
    given = campaign.open_queries[-1]
    said = f"Please measure {' - '.join(given.label)} (query {given.id})."
    assert message(chromium) == said
    until(lambda: server.unchanged > 2)
    assert (chosen(chromium), message(chromium)) == (str(given.id), said)
    assert listed(chromium)[50:] == [given.id]
    rows = chromium.execute_script("return [...document.querySelectorAll('#waiting tr')].map((one) => one.dataset.id)")
    assert len(rows) == 1 + 51
    assert rows[-1] == str(given.id)
    assert buttons(chromium) == [given.id]
    assert "71 results are still out" in text_of(chromium, "#summary")
    with server.lock:
        campaign.tell(given, 5.0)
    until(lambda: f"Query {given.id} was closed by another client" in message(chromium))
    assert len(listed(chromium)) == 50
    assert chosen(chromium) == ""
    assert browsing.complaints(chromium) == []


def test_the_name_is_that_of_the_token_or_is_entered(chromium, serve, tmp_path):
    campaign = measured(tmp_path, "topk-paper", 8)
    server = serve(campaign, 390, name="ann")
    until(lambda: find(chromium, "#known").is_displayed())
    assert find(chromium, "#known").text == "You are ann"
    assert not find(chromium, "#me").is_displayed()
    find(chromium, "#ask button").click()
    until(lambda: chosen(chromium))
    assert server.posted[-1][2] == {"n": 1, "client": "ann"}
    server.me = {"role": "measurer", "client": None}
    chromium.refresh()
    until(lambda: server.unchanged > 2)
    assert not find(chromium, "#known").is_displayed()
    for name in ("", "  "):
        find(chromium, "#me").send_keys(name)
        find(chromium, "#ask button").click()
        assert "enter your name first" in message(chromium)
    assert len(server.posted) == 1
    find(chromium, "#me").clear()
    find(chromium, "#me").send_keys("bob")
    server.me = {"role": "measurer", "client": "ann"}  # another login since
    find(chromium, "#ask button").click()
    until(lambda: "belongs to 'ann'" in message(chromium))
    assert chromium.execute_script("return localStorage.getItem('combopeps-name')") in (None, "")
    until(lambda: find(chromium, "#known").is_displayed())
    assert {lease.client for lease in campaign.leases.values()} == {"ann"}


def test_results_of_many_parts_are_entered_line_by_line(chromium, serve, tmp_path):
    problem = unit_problem(TopKOracle(600, k=250)).copy_with(actions="answers")
    campaign = Campaign.create(tmp_path / "c.db", problem)
    query = campaign.ask()
    assert len(query.components) == 250
    server = serve(campaign, 390)
    choose(chromium, query)
    until(lambda: len(chromium.find_elements("css selector", "#order li")) == 250)
    names = chromium.execute_script("return [...document.querySelectorAll('#order li')].map((one) => one.textContent)")
    assert names == [str(component) for component in query.components]
    values = [None if i % 9 == 8 else i / 100 for i in range(250)]
    lines = ["" if value is None else str(value) for value in values]

    def enter(text):
        chromium.execute_script("document.getElementById('part-all').value = arguments[0]", text)
        find(chromium, "#tell button").click()

    enter("\n".join(lines[:-1]))
    assert "250 lines are required" in message(chromium)
    enter("\n".join(["1.5", "x", *lines[2:]]))
    assert "Line 2: x" in message(chromium)
    assert server.posted == []
    enter("\n".join(lines) + "\n")
    until(lambda: "Recorded" in message(chromium))
    assert server.posted[-1][2] == {"id": query.id, "values": values}
    assert campaign.samples == sum(value is not None for value in values)
    assert browsing.complaints(chromium) == []


def test_queries_are_closed_by_the_owner_or_by_the_client_that_holds_them(chromium, serve, tmp_path):
    campaign = measured(tmp_path, "topk-paper", 8)
    first, second = campaign.ask(1, client="ann")[0], campaign.ask(1, client="bob")[0]
    server = serve(campaign, 390, name="bob")
    until(lambda: buttons(chromium) == [second.id])
    assert not find(chromium, "#download").is_displayed()
    server.me = {"role": "owner", "client": None}
    chromium.refresh()
    until(lambda: buttons(chromium) == [first.id, second.id])
    assert find(chromium, "#download a").is_displayed()
    choose(chromium, first)
    button = find(chromium, f"[aria-label='Close query {first.id}']")
    button.click()
    chromium.switch_to.alert.dismiss()
    assert server.posted == []
    button.click()
    chromium.switch_to.alert.accept()
    until(lambda: listed(chromium) == [second.id])
    assert server.posted[-1][2] == {"id": first.id}
    assert campaign.open_queries == [second]
    assert chosen(chromium) == ""
    assert "another client" not in message(chromium)
    until(lambda: buttons(chromium) == [second.id])
    assert browsing.complaints(chromium) == []


def test_an_implausible_value_is_recorded_only_if_it_is_confirmed(chromium, serve, tmp_path):
    campaign = measured(tmp_path, "topk-paper", 12)
    query = campaign.ask()
    server = serve(campaign)
    choose(chromium, query)
    find(chromium, "#part-0").send_keys("1e6")
    body = {"id": query.id, "value": 1e6}
    for accepted in (False, True):
        find(chromium, "#tell button").click()
        dialog = until(lambda: alert(chromium))
        assert f"1e+06 is implausible for query {query.id}" in dialog.text
        assert "Is it right?" in dialog.text
        assert server.posted[-1][2] == body
        assert campaign.samples == 12
        if accepted:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the prior
                dialog.accept()
                until(lambda: f"Recorded: query {query.id}" in message(chromium))
        else:
            dialog.dismiss()
            until(lambda: "is implausible" in message(chromium))
            assert find(chromium, "#part-0").get_attribute("value") == "1e6"
    assert server.posted[-1][2] == body | {"confirm": True}
    assert (campaign.samples, campaign.measurements()[-1].y) == (13, 1e6)


def test_errors_are_shown_and_input_is_kept(chromium, serve, tmp_path):
    campaign = measured(tmp_path, "topk-paper", 8)
    query = campaign.ask()
    server = serve(campaign)
    choose(chromium, query)
    field, button, said = (find(chromium, selector) for selector in ("#part-0", "#tell button", "#message"))
    for wrong, words in (("1,234", "decimal"), ("seven", "a number is required"), ("1e999", "a number is required")):
        field.clear()
        field.send_keys(wrong)
        button.click()
        assert words in said.text
    assert server.posted == []
    field.clear()
    field.send_keys("1e300")
    button.click()
    until(lambda: "times noise_std" in said.text)  # the words of the library
    assert field.get_attribute("value") == "1e300"
    assert find(chromium, "#query").get_attribute("value") == str(query.id)
    server.cut = True
    until(lambda: "Connection lost" in find(chromium, "#pulse").text)
    server.cut = False
    until(lambda: "Live" in find(chromium, "#pulse").text)


LONG = [pytest.param(name, marks=pytest.mark.slow) for name in ("tree-e20", "partition-10", "sphere", "grid-30")]


@pytest.mark.parametrize("name", ["town", "cyclic-matching", "topk-paper", *LONG])
def test_pages_fit_a_phone_and_have_light_and_dark_colours(chromium, tmp_path, name):
    campaign = measured(tmp_path, name, 20)
    campaign.ask(2)
    report(campaign, tmp_path / "r.html")
    papers = {}
    for width in (390, 1280):
        for scheme in ("light", "dark"):
            browsing.look_like(chromium, width, scheme)
            chromium.get((tmp_path / "r.html").as_uri())
            assert chromium.execute_script("return document.documentElement.scrollWidth") <= width
            assert browsing.shades(chromium) > 20
            colours = chromium.execute_script(
                "const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]"
            )
            papers[scheme] = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in colours]
    assert papers["light"][0] > 700 > 150 > papers["light"][1]
    assert papers["dark"][0] < 150 < 650 < papers["dark"][1]
    assert browsing.complaints(chromium) == []


def test_a_blank_page_has_few_shades(chromium):
    chromium.get("about:blank")
    assert browsing.shades(chromium) < 5


def test_script_in_labels_is_not_run(chromium, serve, tmp_path):
    names = ["<script>document.title='run'</script>", "<img src=x onerror=\"document.title='run'\">", "c"]
    campaign = Campaign.create(tmp_path / "c.db", TopKOracle(names, k=1))
    campaign.observe_table([(name, 0.5) for name in names])
    campaign.ask(3)
    server = serve(campaign)
    with server.lock:
        campaign.tell(3 - 3, 1.0)
    until(lambda: count(chromium) == 4)
    assert chromium.title != "run"
    assert names[0] in find(chromium, "#arms").text
    assert browsing.complaints(chromium) == []

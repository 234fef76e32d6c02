"""The page in a real browser, before a small server of the kind that it expects."""

import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import browsing
import pytest
from page_cases import measured

from combopeps import ComboPepsError
from combopeps.page import Curve, Live, facts_of, fragment, render, report

pytestmark = pytest.mark.xdist_group("browser")
_POLICY = (
    "default-src 'none'; style-src 'nonce-abc'; script-src 'nonce-abc'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)


class Desk:
    """A campaign behind an address; what was posted, how often nothing had changed, and whether the line is cut."""

    def __init__(self, campaign):
        self.campaign, self.curve, self.posted, self.unchanged, self.cut = campaign, Curve(), [], 0, False
        self.lock = threading.Lock()
        desk = self

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
                with desk.lock:
                    facts = facts_of(desk.campaign, curve=desk.curve)
                live = Live(f'"{facts.samples}-{len(facts.waiting)}"', poll_seconds=0.2)
                if desk.cut:
                    self.reply(503)
                elif self.path == "/":
                    page = render(facts, live, nonce="abc")
                    self.reply(200, page, Content_Type="text/html; charset=utf-8", Content_Security_Policy=_POLICY)
                elif self.headers.get("If-None-Match") == live.etag:
                    desk.unchanged += 1
                    self.reply(304, ETag=live.etag)
                else:
                    self.reply(200, fragment(facts, live), ETag=live.etag, Content_Type="text/html; charset=utf-8")

            def do_POST(self):
                said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                desk.posted.append((self.path, self.headers["Content-Type"], said))
                try:
                    with desk.lock:
                        if self.path == "/ask":
                            query = desk.campaign.ask(said["n"], client=said.get("client"))[0]
                            return self.reply(200, json.dumps({"queries": [{"id": query.id}]}))
                        desk.campaign.tell(said["id"], said.get("values", said.get("value")))
                except ComboPepsError as error:
                    self.reply(409, json.dumps({"error": str(error), "type": type(error).__name__}))
                else:
                    self.reply(200, "{}")

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = False  # whoever is served is waited for: sockets are closed
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def serve(chromium):
    desks = []

    def begin(campaign, width=1280):
        desks.append(Desk(campaign))
        browsing.look_like(chromium, width)
        chromium.get(desks[-1].url)
        return desks[-1]

    yield begin
    chromium.get("about:blank")
    browsing.complaints(chromium)
    for desk in desks:
        desk.close()


def until(what, seconds=15.0):
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
    return found


def find(chromium, selector):
    return chromium.find_element("css selector", selector)


def count(chromium):
    return int(chromium.execute_script("return document.querySelector('#figures data').value"))


def test_a_result_is_entered_counted_and_drawn(chromium, serve, tmp_path):
    campaign = measured(tmp_path, "town", 8)
    query, other = campaign.ask(2)
    desk = serve(campaign, 390)
    picture = find(chromium, "#picture").get_attribute("innerHTML")
    chromium.execute_script("window.stays = document.getElementById('part-0')")
    find(chromium, "#part-0").send_keys("-7,25")
    find(chromium, "#tell button").click()
    until(lambda: count(chromium) == 9)
    assert desk.posted == [("/tell", "application/json", {"id": query.id, "value": -7.25})]
    assert campaign.samples == 9
    assert find(chromium, "#picture").get_attribute("innerHTML") != picture
    assert "Recorded" in find(chromium, "#heard").text
    options = chromium.find_elements("css selector", "#query option")
    assert [option.get_attribute("value") for option in options] == [str(other.id)]
    assert chromium.execute_script("return document.getElementById('say').textContent") or campaign.status().stop
    assert browsing.complaints(chromium) == []
    until(lambda: desk.unchanged > 2)  # then nothing changes, and nothing is sent
    assert browsing.complaints(chromium) == []


def test_what_is_typed_survives_what_others_do(chromium, serve, tmp_path):
    campaign = measured(tmp_path, "topk-paper", 8)
    first, second = campaign.ask(2)
    desk = serve(campaign)
    find(chromium, f"#query option[value='{second.id}']").click()
    field = find(chromium, "#part-0")
    field.send_keys("1.2")
    chromium.execute_script("window.scrollTo(0, 300)")
    with desk.lock:
        campaign.tell(first, 0.5)
    until(lambda: count(chromium) == 9)
    field.send_keys("5")  # the same element: it was never replaced
    assert field.get_attribute("value") == "1.25"
    assert chromium.switch_to.active_element == field
    assert chromium.execute_script("return window.scrollY") == 300
    assert find(chromium, "#query").get_attribute("value") == str(second.id)
    with desk.lock:
        campaign.tell(second, 0.75)
    until(lambda: "closed by somebody else" in find(chromium, "#heard").text)


def test_the_parts_of_an_action_have_a_field_each(chromium, serve, tmp_path):
    campaign = measured(tmp_path, "town", 8, actions="answers")
    query = campaign.ask()
    desk = serve(campaign, 390)
    labels = [label.text for label in chromium.find_elements("css selector", "#fields label")]
    assert labels == [" - ".join(edge) for edge in query.components]
    find(chromium, "#part-1").send_keys("2.5")
    find(chromium, "#tell button").click()
    until(lambda: "Recorded" in find(chromium, "#heard").text)
    values = [None] * len(labels)
    values[1] = 2.5
    assert desk.posted[-1][2] == {"id": query.id, "values": values}
    assert browsing.complaints(chromium) == []


def test_somebody_asks_what_to_measure_and_gets_it(chromium, serve, tmp_path):
    campaign = measured(tmp_path, "topk-paper", 8)
    desk = serve(campaign, 390)
    assert not find(chromium, "#tell").is_displayed()
    find(chromium, "#me").send_keys("ann")
    find(chromium, "#ask button").click()
    until(lambda: find(chromium, "#tell").is_displayed())
    assert desk.posted[-1][2] == {"n": 1, "client": "ann"}
    (query,) = campaign.open_queries
    assert find(chromium, "#query").get_attribute("value") == str(query.id)
    assert "ann" in find(chromium, "#waiting").text
    find(chromium, "#part-0").send_keys("0.5")
    find(chromium, "#tell button").click()
    until(lambda: count(chromium) == 9)
    assert not find(chromium, "#tell").is_displayed()
    chromium.refresh()
    assert find(chromium, "#me").get_attribute("value") == "ann"  # remembered
    assert browsing.complaints(chromium) == []


def test_errors_are_told_and_nothing_is_lost(chromium, serve, tmp_path):
    campaign = measured(tmp_path, "topk-paper", 8)
    query = campaign.ask()
    desk = serve(campaign)
    field, button, heard = (find(chromium, selector) for selector in ("#part-0", "#tell button", "#heard"))
    for wrong, words in (("1,234", "decimal"), ("seven", "a number is wanted"), ("1e999", "a number is wanted")):
        field.clear()
        field.send_keys(wrong)
        button.click()
        assert words in heard.text
    assert desk.posted == []
    field.clear()
    field.send_keys("1e300")
    button.click()
    until(lambda: "times noise_std" in heard.text)  # the words of the library
    assert field.get_attribute("value") == "1e300"
    assert find(chromium, "#query").get_attribute("value") == str(query.id)
    desk.cut = True
    until(lambda: "Connection lost" in find(chromium, "#pulse").text)
    desk.cut = False
    until(lambda: "Live" in find(chromium, "#pulse").text)


LONG = [pytest.param(name, marks=pytest.mark.slow) for name in ("tree-e20", "partition-10", "sphere", "grid-30")]


@pytest.mark.parametrize("name", ["town", "cyclic-matching", "topk-paper", *LONG])
def test_pages_fit_a_phone_and_know_light_from_dark(chromium, tmp_path, name):
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


def test_a_blank_page_is_seen_to_be_blank(chromium):
    chromium.get("about:blank")
    assert browsing.shades(chromium) < 5


def test_script_in_labels_is_not_run(chromium, serve, tmp_path):
    from combopeps import Campaign, TopKOracle

    names = ["<script>document.title='run'</script>", "<img src=x onerror=\"document.title='run'\">", "c"]
    campaign = Campaign.create(tmp_path / "c.jsonl", TopKOracle(names, k=1))
    campaign.observe_table([(name, 0.5) for name in names])
    campaign.ask(3)
    desk = serve(campaign)
    with desk.lock:
        campaign.tell(3 - 3, 1.0)
    until(lambda: count(chromium) == 4)
    assert chromium.title != "run"
    assert names[0] in find(chromium, "#went").text
    assert browsing.complaints(chromium) == []

"""Broken connections, busy servers and addresses of other services: nothing is lost, nothing counts twice."""

import os
import threading
import time
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from types import SimpleNamespace

import httpx
import numpy as np
import pytest
from backends import events
from cases import filled, measured, problems, state_of
from servers import served
from unit_problem import unit_problem
from unreliable_proxy import FATES, unreliable_proxy

from combopeps import Campaign, RemoteCampaign, TopKOracle
from combopeps.errors import AuthorizationError, LockError, ParameterError, RateLimitError, RemoteError
from combopeps.server import http_client

BAD = (6, 1, 1, 1, 1, 1, 1)  # the weights of the fates: half of all requests meet a bad one


pytestmark = pytest.mark.usefixtures("no_pauses")


def use(campaign, observed):
    """Asks, tells, tables, observations, an abandoned query, a repetition."""
    for number in range(8):
        queries = campaign.ask(1 + number % 3)
        for query in queries[1:]:
            campaign.tell(query, measured(query))
        if number % 4 == 3:
            campaign.abandon(queries[0])
        else:
            campaign.tell_many([(queries[0], measured(queries[0]))])
            campaign.tell(queries[0].id, measured(queries[0]))
        campaign.observe("b", 1.0 + 0.1 * number)
        campaign.observe("b", 1.0 + 0.1 * number)
        if number % 3 == 0:
            campaign.observe_table([("a", 1.0), ("c", 2.0)])
        observed.append(campaign.samples)


def without_keys(campaign):
    """The state, without idempotency keys, which only a client of a server makes up."""
    state = state_of(campaign)
    del state["ledger"]["keys"]
    return state


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_lost_doubled_and_late_requests_change_nothing(abroad, tmp_path, seed):
    abroad(problems()["topk"])
    twin, mine, theirs = Campaign.create(tmp_path / "twin", problems()["topk"]), [], []
    with unreliable_proxy(abroad.address, BAD, seed) as proxy, RemoteCampaign(proxy.address, patience=60) as campaign:
        use(campaign, mine)
        assert set(proxy.met) == set(FATES)
        use(twin, theirs)
        assert mine == theirs
        np.testing.assert_equal(without_keys(Campaign.open(abroad.path)), without_keys(twin))
        assert Campaign.open(abroad.path).status().to_dict() == twin.status().to_dict()
        assert campaign.ask(3) == twin.ask(3)


def test_without_keys_the_proxy_would_count_twice(abroad, tmp_path):
    """The control: the same proxy, and observations that cannot be told apart."""
    abroad(problems()["topk"])
    with unreliable_proxy(abroad.address, BAD) as proxy, RemoteCampaign(proxy.address, patience=60) as campaign:
        for _ in range(30):
            while not is_acknowledged(f"{proxy.address}/observe", {"label": "a", "value": 1.0}):
                pass
        assert campaign.samples > 30


def is_acknowledged(address, body):
    try:
        return httpx.post(address, json=body).status_code == 200
    except httpx.HTTPError:  # a connection that is lost
        return False


def test_many_scripts_behind_the_proxy_share_a_campaign(abroad):
    abroad(unit_problem(TopKOracle(["a", "b", "c"], k=1), noise_std=9.0))
    heard, faults, lock = [], [], threading.Lock()

    def measure(y, label):
        return [y] * len(label) if isinstance(label, list) else y

    def note(campaign, query, y):
        with lock:
            heard.append((query.id, y))

    with unreliable_proxy(abroad.address, BAD, 3) as proxy:

        def script(number):
            try:
                with RemoteCampaign(proxy.address, client=f"bench {number}", patience=60) as campaign:
                    campaign.run(partial(measure, float(number)), budget=8, batch_size=1 + number % 2, callback=note)
            except BaseException as error:
                faults.append(error)

        threads = [Thread(target=script, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert faults == []
    told = sorted((event["id"], *event["ys"]) for event in events(abroad.path) if event["kind"] == "tell")
    assert sorted(heard) == told
    assert len(told) == 32


def test_a_client_waits_for_a_server_that_is_restarted(abroad, tmp_path):
    path = tmp_path / "other.db"
    filled(path)
    with served(str(path)) as address:
        campaign = RemoteCampaign(address, patience=20)
        query = campaign.ask()
    with campaign, pytest.raises(RemoteError, match="cannot be reached"):
        RemoteCampaign(address, patience=0)
    again = Thread(target=lambda: (time.sleep(0.3), campaign.tell(query, 1.0)))
    again.start()
    with served(str(path), port=int(address.rpartition(":")[2])):
        again.join(20)
        assert campaign.samples == Campaign.open(path).samples
    campaign.close()
    assert query not in Campaign.open(path).open_queries


def test_by_default_there_is_time_to_start_a_server_again(tmp_path, monkeypatch):
    """For two minutes, by a clock of our own; and a wrong address is noticed soon."""
    monkeypatch.undo()  # with the real pauses
    now, pauses = [0.0], []

    def sleep(seconds):
        pauses.append(seconds)
        now[0] += seconds

    filled(tmp_path / "one")
    with served(str(tmp_path / "one")) as address:
        campaign = RemoteCampaign(address)
    monkeypatch.setattr(http_client, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    with campaign, pytest.raises(RemoteError, match="cannot be reached"):
        campaign.observe("a", 1.0)
    assert 119.0 < sum(pauses) < 121.0
    assert 5.0 < max(pauses) <= 10.0
    now[0], pauses[:] = 0.0, []
    with pytest.raises(RemoteError, match="cannot be reached"):
        RemoteCampaign(address)
    assert 4.0 < sum(pauses) < 6.0


def test_another_campaign_at_the_same_address_ends_it_at_once(tmp_path):
    filled(tmp_path / "one")
    with served(str(tmp_path / "one")) as address:
        campaign = RemoteCampaign(address)
        query = campaign.ask()
    Campaign.create(tmp_path / "two", problems()["topk"], rng=99).ask(9)
    before = events(tmp_path / "two")
    with campaign, served(str(tmp_path / "two"), port=int(address.rpartition(":")[2])):
        tell, observe = partial(campaign.tell, query, 1.0), partial(campaign.observe, "a", 1.0)
        for act in (tell, observe, campaign.ask, campaign.status):
            with pytest.raises(RemoteError, match="another campaign is served"):
                act()
    assert events(tmp_path / "two") == before


def test_the_result_of_a_script_whose_server_is_gone_comes_with_the_exception(tmp_path):
    Campaign.create(tmp_path / "one", problems()["topk"])
    with served(str(tmp_path / "one")) as address:
        proxy = unreliable_proxy(address)
        with proxy as line, RemoteCampaign(line.address, patience=0.1) as campaign:

            def measure(label):
                line.weights = (0, 1, 0, 0, 0, 0, 0)
                return 1.25

            with pytest.raises(RemoteError, match="cannot be reached") as caught:
                campaign.run(measure)
            ((query, y),) = caught.value.untold
            line.weights = (1, 0, 0, 0, 0, 0, 0)
            campaign.tell_many([(query, y)])
            assert (campaign.samples, y) == (1, 1.25)


# Responses that are not those of a server, or errors.


class Stranger(BaseHTTPRequestHandler):
    """Answers as the server's `reply` says: status, headers, body."""

    def do_GET(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.server.requests.append(self.headers)
        status, headers, body = self.server.reply
        if status == 0:
            time.sleep(body)
            return
        self.send_response(status)
        for key, value in {"content-length": str(len(body)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815

    def log_message(self, *words):
        pass


@pytest.fixture
def stranger():
    server = HTTPServer(("127.0.0.1", 0), Stranger)
    server.requests, server.address = [], f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def error(text, type):
    return b'{"error": "%s", "type": "%s"}' % (text.encode(), type.encode())


NO_SERVER, NOW = "no server of a campaign", {"retry-after": "0"}
REPLIES = [
    ((200, {"content-type": "text/html"}, b"<html>hello</html>"), RemoteError, f"{NO_SERVER} .*text/html"),
    ((200, {}, b"[1, 2]"), RemoteError, NO_SERVER),
    ((200, {}, b"{}"), RemoteError, NO_SERVER),
    ((404, {"content-type": "text/plain"}, b"nothing here"), RemoteError, f"{NO_SERVER} .status 404"),
    ((301, {"location": "https://elsewhere.example/"}, b""), RemoteError, "redirects to https://elsewhere.example/"),
    ((401, {}, error("a token is wanted", "AuthorizationError")), AuthorizationError, "wanted; pass token="),
    ((429, NOW, error("too fast", "RateLimitError")), RateLimitError, "^too fast$"),
    ((503, NOW, error("in use", "LockError")), LockError, "^in use$"),
    ((418, {}, error("a teapot", "TeapotError")), RemoteError, "a teapot"),
    ((418, {}, error("a teapot", "annotations")), RemoteError, "a teapot"),
    ((500, {}, b"oh no"), RemoteError, "status 500"),
]


@pytest.mark.parametrize(
    ("reply", "kind", "words"), REPLIES, ids=lambda value: str(value[0]) if type(value) is tuple else ""
)
def test_a_response_of_another_service_and_an_error_are_reported(stranger, reply, kind, words):
    stranger.reply = reply
    with pytest.raises(kind, match=words):
        RemoteCampaign(stranger.address, "a secret of mine", patience=0.05)
    assert (len(stranger.requests) > 1) == (reply[0] in (429, 503))
    assert stranger.requests[0]["authorization"] == "Bearer a secret of mine"


def test_a_time_out_names_its_cure(stranger):
    stranger.reply = (0, {}, 0.3)
    with pytest.raises(RemoteError, match=r"no answer within 0.1 s, 2 times: give a longer timeout="):
        RemoteCampaign(stranger.address, timeout=0.1, patience=0.05)


def test_a_server_says_how_long_to_wait(stranger):
    stranger.reply = (429, {"retry-after": "30"}, error("too fast", "RateLimitError"))
    begun = time.monotonic()
    with pytest.raises(RateLimitError):
        RemoteCampaign(stranger.address, patience=0.5)
    assert time.monotonic() - begun >= 0.5
    assert len(stranger.requests) == 2  # at once and, as patience is shorter than that, at its last moment


def test_a_server_that_does_not_say_is_asked_sooner(stranger):
    stranger.reply = (429, {}, error("too fast", "RateLimitError"))
    with pytest.raises(RateLimitError):
        RemoteCampaign(stranger.address, patience=0.5)
    assert len(stranger.requests) > 2


@pytest.mark.parametrize("url", ["lab.example:8765", "ftp://lab.example", "", None, "run.db"])
def test_an_invalid_url_is_refused(url):
    with pytest.raises(ParameterError, match="http://"):
        RemoteCampaign(url)


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": 0},
        {"patience": -1},
        {"patience": float("inf")},
        {"patience": "long"},
        {"token": "é"},
        {"client": ""},
    ],
    ids=str,
)
def test_invalid_options_are_refused(stranger, options):
    stranger.reply = (200, {}, b"{}")
    with pytest.raises((ParameterError, RemoteError)):
        RemoteCampaign(stranger.address, **options)


@pytest.mark.parametrize(("url", "words"), [("http://nowhere.invalid", "combopeps serve"), ("http://a b c", None)])
def test_a_host_that_does_not_exist_is_named_with_the_cure(url, words):
    with pytest.raises(RemoteError, match=words):
        RemoteCampaign(url, patience=0)


# Tokens.


@pytest.fixture
def guarded(tmp_path):
    """The address of a server with an owner, a measurer without a name, and ann."""
    Campaign.create(tmp_path / "one", problems()["topk"])
    file = tmp_path / "tokens"
    file.write_text("owner owner-of-it-all-1\nmeasurer measurer-without-name-2\nmeasurer the-token-of-ann-3 ann\n")
    os.chmod(file, 0o600)
    with served(str(tmp_path / "one"), tokens=file) as address:
        yield address


def test_a_measurer_measures_and_the_owner_does_all(guarded):
    with (
        RemoteCampaign(guarded, "measurer-without-name-2") as campaign,
        RemoteCampaign(guarded, "owner-of-it-all-1") as owner,
    ):
        assert "secret" not in repr(campaign)
        result = campaign.run(lambda label: 1.0, budget=3, client="bench")
        assert result.session.samples == result.samples == 3
        campaign.abandon(campaign.ask())
        query = owner.ask()
        with pytest.raises(AuthorizationError, match="not yours"):
            campaign.abandon(query)
        with pytest.raises(AuthorizationError, match="tables are for the owner"):
            campaign.observe_table([("a", 1.0)])
        owner.observe_table([("a", 1.0)])
        owner.abandon(query)


def test_a_token_with_a_name_asks_in_that_name(guarded):
    with RemoteCampaign(guarded, "the-token-of-ann-3") as ann:
        assert (ann.client, ann.is_named) == ("ann", True)
        query = ann.ask()
        assert ann.leases[query.id].client == "ann"
        with pytest.raises(AuthorizationError, match="belongs to 'ann'"):
            ann.ask(client="bob")
        ann.run(lambda label: 1.0, budget=1)
        assert query not in ann.open_queries

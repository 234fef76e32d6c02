"""Too much at once, and too often."""

import socket

import pytest
from served import ANN, MEASURER, OWNER, begun, client, token_file

from combopeps import LimitError
from combopeps.server import routes
from combopeps.server.auth import Askers, Principal, RateLimiter
from combopeps.server.schemas import MAX_QUERIES


@pytest.fixture
def path(tmp_path):
    begun(tmp_path / "campaign.db")
    return tmp_path / "campaign.db"


def test_long_bodies_are_refused_before_they_are_read(path):
    def parts():
        for _ in range(40):
            sent.append(1)
            yield b" " * 100_000

    sent = []
    with client(path) as web:
        answer = web.post("/tell", content=b" " * 1_000_001, headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()["type"]) == (413, "LimitError")
        try:
            answer = web.post("/tell", content=parts(), headers={"content-type": "application/json"})
            assert answer.status_code == 413
        except OSError:  # the server may close before all is sent
            pass
        wide = b'{"results": [' + b",".join([b'{"id":0,"value":1}'] * 10_001) + b"]}"
        answer = web.post("/tell", content=wide, headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()["type"]) == (422, "ParameterError")
        wide = b'{"id":0,"values":[' + b",".join([b"1"] * 10_001) + b"]}"
        assert web.post("/tell", content=wide, headers={"content-type": "application/json"}).status_code == 422


def test_a_wrong_content_length_is_refused(path):
    with client(path) as web:
        port = web.base_url.port
        for length, body in (("5", b"{}   garbage"), ("-1", b"{}"), ("9" * 400, b"{}"), ("x", b"{}")):
            with socket.create_connection(("127.0.0.1", port), timeout=10) as plug:
                head = f"POST /tell HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
                plug.sendall(head.encode() + body)
                plug.shutdown(socket.SHUT_WR)
                assert plug.recv(12) in (b"HTTP/1.1 400", b"HTTP/1.1 413", b"HTTP/1.1 422")
        assert web.get("/problem").status_code == 200


def test_too_many_requests_of_one_principal_are_refused(path):
    with client(path, rate=0.5, burst=5.0) as web:
        found = [web.get("/problem") for _ in range(7)]
    assert [answer.status_code for answer in found] == [200] * 5 + [429] * 2
    assert found[-1].json()["type"] == "LimitError"
    assert found[-1].headers["retry-after"] == "1"


def test_the_allowance_of_a_principal_comes_back_with_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    limiter = RateLimiter(rate=2.0, burst=3.0)
    limiter.spend("bob")
    for seconds, allowed in ((0.0, 3), (0.5, 1), (100.0, 3)):
        now[0] = seconds
        for _ in range(allowed):
            limiter.spend("ann")
        with pytest.raises(LimitError):
            limiter.spend("ann")
    for number in range(20_000):  # the first ones are forgotten, or all of memory would be theirs
        limiter.spend(str(number))
    for _ in range(3):
        limiter.spend("0")


def test_open_queries_of_a_campaign_are_limited(path, monkeypatch):
    monkeypatch.setattr(routes, "MAX_OPEN", 5)
    with client(path) as web:
        assert web.post("/ask", json={"client": "ann", "n": 5}).status_code == 200
        refused(web.post("/ask", json={"client": "bob"}), "would exceed the limit of 5")
        assert len(web.post("/ask", json={"client": "ann", "n": 5}).json()["queries"]) == 5  # they are hers already
        web.post("/tell", json={"id": 0, "value": 1.0})
        assert web.post("/ask", json={"client": "bob"}).status_code == 200


def refused(answer, words):
    assert (answer.status_code, answer.json()["type"]) == (429, "LimitError")
    assert words in answer.json()["error"]
    assert "tell or abandon" in answer.json()["error"]


@pytest.fixture
def web(path, tmp_path, monkeypatch):
    """A server with tokens, and small limits on open queries."""
    monkeypatch.setattr(routes, "MAX_OPEN", 12)
    monkeypatch.setattr(routes, "MAX_OPEN_PER_TOKEN", 6)
    monkeypatch.setattr(routes, "MAX_OPEN_PER_CLIENT", 4)
    with client(path, tokens=token_file(tmp_path)) as made:
        yield made


def ask(web, token, **body):
    return web.post("/ask", json=body, headers={"Authorization": f"Bearer {token}"})


def tell(web, id):
    body = {"id": id, "value": 1.0}
    assert web.post("/tell", json=body, headers={"Authorization": f"Bearer {OWNER}"}).status_code == 200


def test_one_token_cannot_take_the_open_queries_of_all(web):
    """Whatever names its clients give, and if they give none."""
    words = "6 queries that were asked for with this token are open, and 1 more would exceed the limit of 6"
    for number in range(5):
        assert ask(web, MEASURER, client=f"client {number}").status_code == 200
    assert ask(web, MEASURER).status_code == 200
    refused(ask(web, MEASURER, client="another"), words)
    refused(ask(web, MEASURER), words)
    (again,) = ask(web, MEASURER, client="client 3").json()["queries"]  # an open query is not a new one
    assert again["id"] == 3
    assert len(ask(web, ANN, n=4).json()["queries"]) == 4  # other tokens have their own
    tell(web, 0)
    assert ask(web, MEASURER, client="another").status_code == 200
    refused(ask(web, MEASURER), words)


def test_the_owner_has_the_limit_of_the_campaign_alone(web):
    for number in range(4):
        assert len(ask(web, OWNER, client=f"client {number}", n=3).json()["queries"]) == 3
    words = "12 queries of this campaign are open, and 1 more would exceed the limit of 12"
    for token in (OWNER, ANN, MEASURER):
        refused(ask(web, token), words)
    tell(web, 0)
    assert ask(web, ANN).status_code == 200


def test_one_client_has_a_limit_of_its_own(web):
    assert len(ask(web, OWNER, client="bob", n=4).json()["queries"]) == 4
    refused(ask(web, OWNER, client="bob", n=5), "4 queries of client 'bob' are open, and 1 more would exceed the limit")
    refused(ask(web, ANN, n=5), "0 queries of client 'ann' are open, and 5 more would exceed the limit of 4")
    assert len(ask(web, OWNER, client="bob", n=4).json()["queries"]) == 4


def test_a_query_counts_for_the_token_that_has_its_lease(web):
    for number in range(3):
        assert ask(web, MEASURER, client=f"c{number}", n=2, lease=1e-6).status_code == 200
    assert [query["id"] for query in ask(web, ANN, n=2).json()["queries"]] == [0, 1]
    assert len(ask(web, MEASURER, client="late", n=4, lease=3600.0).json()["queries"]) == 4  # 2 to 5
    assert [query["id"] for query in ask(web, MEASURER, client="new", n=2).json()["queries"]] == [6, 7]
    refused(ask(web, MEASURER), "with this token")


def test_a_client_may_hold_what_it_may_ask_for_at_once():
    assert routes.MAX_OPEN_PER_CLIENT == MAX_QUERIES == 100 < routes.MAX_OPEN_PER_TOKEN < routes.MAX_OPEN / 2


def test_tokens_forget_queries_that_are_closed():
    askers, one, two = Askers(), Principal("measurer", None, "one"), Principal("measurer", None, "two")
    askers.record(one, range(1000))
    askers.record(two, range(500, 1500))
    assert (askers.count(one, range(1500)), askers.count(two, range(1500))) == (500, 1000)
    assert (askers.count(one, range(490, 510)), askers.count(two, range(1500))) == (10, 10)

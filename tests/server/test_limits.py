"""Limits on connections, on what is sent before a login, on requests and on open queries."""

import re
import socket
import sys
import time
from contextlib import ExitStack

import httpx
import pytest
from served import ANN, MEASURER, OWNER, begun, client, server, token_file

from combopeps.errors import RateLimitError
from combopeps.server import auth, routes
from combopeps.server.auth import OpenQueryCounter, Principal, RateLimiter
from combopeps.server.schemas import MAX_QUERIES

GOOD = b"GET /problem HTTP/1.1\r\nHost: localhost\r\n\r\n"
KNOWN = GOOD[:-2] + f"Authorization: Bearer {OWNER}\r\n\r\n".encode()
HALF = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 900\r\n"
LOGIN = HALF % b"/login" + b"Expect: 100-continue\r\n\r\n"


@pytest.fixture
def path(tmp_path):
    begun(tmp_path / "campaign.db")
    return tmp_path / "campaign.db"


@pytest.fixture
def web(path):
    with client(path) as made:
        yield made


@pytest.fixture
def guarded(path, tmp_path, monkeypatch):
    """A function from limits to a server with tokens; a connection stays open unless a limit on their number closes it."""
    monkeypatch.setattr(auth, "_LOGIN_TIMEOUT", 600.0)
    with ExitStack() as stack:
        yield lambda proxies=(), **limits: stack.enter_context(
            client(path, tokens=token_file(tmp_path), proxies=proxies, limits={"head_timeout": 600.0} | limits)
        )


def connected(web, source="127.0.0.1"):
    return socket.create_connection(("127.0.0.1", web.base_url.port), timeout=20, source_address=(source, 0))


def answer(plug):
    """The status of the next response, all of which is read; 0 where there is none."""
    said, length = b"", 1
    try:
        while length and (part := plug.recv(65_536)):
            said += part
            head, end, body = said.partition(b"\r\n\r\n")
            if end:
                size = re.search(rb"content-length: (\d+)", head)
                length = int(size[1]) - len(body) if size else 0
    except ConnectionError:
        pass
    return int(said[9:12] or 0)


def authenticated(stack, web):
    """A connection that is kept after a request with a token."""
    plug = stack.enter_context(connected(web))
    plug.sendall(KNOWN)
    assert answer(plug) == 200
    return plug


def logging_in(stack, web, *source):
    """A connection with a login that the server is reading, and whose end does not come."""
    plug = stack.enter_context(connected(web, *source))
    plug.sendall(LOGIN)
    assert answer(plug) == 100  # the server wants the body
    return plug


def is_open(plug):
    plug.settimeout(0.05)
    try:
        return not is_over(plug)
    finally:
        plug.settimeout(20)


def is_over(plug):
    """Has the other end closed?"""
    try:
        while plug.recv(65_536):
            pass
    except ConnectionError:
        pass
    except TimeoutError:
        return False
    return True


def pour(plug, part, most):
    """Bytes that were sent before the other end had enough."""
    sent = 0
    try:
        while sent < most:
            sent += plug.send(part)
    except OSError:
        pass
    return sent


@pytest.mark.parametrize(
    ("begin", "part"),
    [
        (b"GET /problem HTTP/1.1\r\nX: ", b"x" * 4096),
        (b"GET /problem HTTP/1.1\r\n", b"a: b\r\n" * 700),
        (b"GET /", b"p" * 4096),
        (b"", b"\r\n" * 2048),
        (GOOD + b"GET /problem HTTP/1.1\r\nX: ", b"x" * 4096),
    ],
    ids=["line", "headers", "path", "nothing", "second"],
)
def test_a_head_without_end_is_cut_off(web, begin, part):
    with connected(web) as plug:
        plug.sendall(begin)
        assert pour(plug, part, 50_000_000) < 20_000_000  # what fits into the buffers of two systems
        assert is_over(plug)
    assert web.get("/problem").status_code == 200


@pytest.mark.parametrize("head", [b"X: " + b"x" * 66_000, b"a: b\r\n" * 11_000 + b"a: b"])
def test_a_long_head_is_refused_in_words(web, head):
    with connected(web) as plug:
        plug.sendall(b"GET /problem HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n\r\n")
        assert answer(plug) == 431
        assert is_over(plug)


def test_a_long_head_and_a_long_body_within_the_limits_are_read(web):
    assert web.get("/problem", headers={"X": "x" * 60_000}).status_code == 200
    assert web.post("/tell", content=b" " * 500_000, headers={"content-type": "application/json"}).status_code == 422
    assert web.get("/problem", headers={"X": "x" * 60_000}).status_code == 200


def test_a_connection_without_a_head_in_time_is_closed(path):
    """Nothing, a half, drop by drop, blank lines after an answer, and a body after an answer."""
    with client(path, limits={"head_timeout": 0.4}) as web:
        early = b"POST /problem HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n"
        for begin, drop in ((b"", b""), (GOOD[:30], b""), (GOOD[:30], b"x"), (GOOD, b"\r\n"), (early, b"x")):
            with connected(web) as plug:
                plug.sendall(begin)
                if begin in (GOOD, early):
                    assert answer(plug) in (200, 405)
                begun_at = time.monotonic()
                plug.settimeout(0.1)
                while not is_over(plug):
                    assert time.monotonic() < begun_at + 5.0, (begin, drop)
                    pour(plug, drop, 1) if drop else None
                assert time.monotonic() > begun_at + 0.2


def test_slow_requests_within_their_time_are_answered(path):
    with client(path, limits={"head_timeout": 0.2}) as web, connected(web) as plug:
        plug.sendall(GOOD)
        assert answer(plug) == 200
        time.sleep(0.5)  # between two requests there is more time
        plug.sendall(GOOD[:20])
        time.sleep(0.1)
        plug.sendall(GOOD[20:])
        assert answer(plug) == 200
        body = b'{"client": "ann"}'
        head = b"POST /ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        plug.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body))
        time.sleep(0.5)  # a body has its own time
        plug.sendall(body)
        assert answer(plug) == 200


def test_of_too_many_connections_the_oldest_is_closed(path):
    """The oldest one is closed: held connections lock out no client."""
    with client(path, limits={"max_connections": 10}) as web, ExitStack() as stack:
        held = [stack.enter_context(connected(web)) for _ in range(40)]
        time.sleep(0.2)
        with connected(web) as plug:
            plug.sendall(GOOD)
            assert answer(plug) == 200
        held[0].settimeout(1.0)
        assert is_over(held[0])
        held[-1].settimeout(0.1)
        assert not is_over(held[-1])


def test_where_all_connections_are_busy_a_new_one_is_refused(path):
    with client(path, limits={"max_connections": 3}) as web, ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(connected(web)).sendall(HALF % b"/ask" + b"\r\n")
        time.sleep(0.2)
        with connected(web) as plug:
            assert answer(plug) == 503
            assert is_over(plug)


@pytest.mark.parametrize("said", [LOGIN, b"", GOOD[:20]], ids=["logins", "idle", "heads"])
def test_of_one_address_the_oldest_that_are_not_authenticated_are_closed(guarded, said):
    web = guarded(max_unauthenticated=3)
    with ExitStack() as stack:
        known = [authenticated(stack, web) for _ in range(5)]  # these do not count
        held = []
        for _ in range(10):
            held.append(stack.enter_context(connected(web)))
            held[-1].sendall(said)
        assert all(is_over(plug) for plug in held[:7])
        assert all(is_open(plug) for plug in held[7:])
        for plug in known:
            plug.sendall(KNOWN)
            assert answer(plug) == 200


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all addresses of 127.0.0.0/8")
def test_other_addresses_have_their_own_limit(guarded):
    web = guarded(max_unauthenticated=3)
    with ExitStack() as stack:
        quiet = [logging_in(stack, web) for _ in range(3)]
        held = [logging_in(stack, web, "127.0.0.2") for _ in range(10)]
        assert all(is_over(plug) for plug in held[:7])
        assert all(is_open(plug) for plug in [*quiet, *held[7:]])


def test_those_that_are_not_authenticated_are_closed_before_the_others(guarded):
    """However long the others have been idle; busy or not; the oldest first."""
    web = guarded(max_connections=8)
    with ExitStack() as stack:
        known = [authenticated(stack, web) for _ in range(5)]
        held = [logging_in(stack, web) for _ in range(3)]
        for count in range(3):
            known.append(authenticated(stack, web))
            assert is_over(held[count])
            assert all(is_open(plug) for plug in held[count + 1 :])
        for plug in known:
            plug.sendall(KNOWN)
            assert answer(plug) == 200
        late = authenticated(stack, web)  # where all are authenticated, the one that is idle for longest
        assert is_over(known[0])
        assert all(is_open(plug) for plug in [*known[1:], late])


def test_the_last_request_of_a_connection_says_whether_it_is_authenticated(guarded):
    """As connections of a proxy are used by one client after another."""
    web = guarded(max_connections=4)
    with ExitStack() as stack:
        known = [authenticated(stack, web) for _ in range(4)]
        known[1].sendall(LOGIN)
        assert answer(known[1]) == 100
        known[2].sendall(GOOD)  # without a token
        assert answer(known[2]) == 401
        for count in (1, 2):
            known.append(authenticated(stack, web))
            assert is_over(known[count])
        for plug in (known[0], *known[3:]):
            plug.sendall(KNOWN)
            assert answer(plug) == 200


def test_a_login_that_succeeds_makes_its_connection_authenticated(guarded):
    web = guarded(max_unauthenticated=2)
    with ExitStack() as stack:
        plug = logging_in(stack, web)
        plug.sendall(b'{"token": "%s"}'.ljust(900 - len(OWNER) + 2) % OWNER.encode())
        assert answer(plug) == 200
        held = [logging_in(stack, web) for _ in range(5)]
        assert is_over(held[0])
        assert is_open(plug)


@pytest.mark.parametrize("proxies", [(), ("127.0.0.0/8",)], ids=["unknown", "trusted"])
def test_the_limit_of_an_address_is_not_for_trusted_proxies(guarded, proxies):
    web = guarded(proxies, max_unauthenticated=3)
    with ExitStack() as stack:
        held = [logging_in(stack, web) for _ in range(8)]
        assert is_open(held[0]) == bool(proxies)
        authenticated(stack, web)


def test_the_total_limit_is_for_trusted_proxies_too(guarded):
    web = guarded(("127.0.0.0/8",), max_connections=8)
    with ExitStack() as stack:
        held = [logging_in(stack, web) for _ in range(8)]
        assert is_open(held[0])
        authenticated(stack, web)
        assert is_over(held[0])


def test_hundreds_of_half_sent_logins_do_not_lock_out_a_client(path, tmp_path):
    """Of the command; and nonsense is not logged."""
    file = str(token_file(tmp_path))
    with server(path, "--token-file", file) as address, ExitStack() as stack:  # looks at stderr
        host, port = address.removeprefix("http://").split(":")
        for said in (b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000):
            with socket.create_connection((host, int(port)), timeout=20) as plug:
                plug.sendall(said)
                assert answer(plug) in (400, 431)
        for _ in range(600):
            plug = stack.enter_context(socket.create_connection((host, int(port)), timeout=20))
            plug.sendall(HALF % b"/login" + b'\r\n{"tok')
        with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {ANN}"}, timeout=20) as web:
            (query,) = web.post("/ask", json={}).json()["queries"]
            assert web.post("/tell", json={"id": query["id"], "value": 1.0}).json()["samples"] == 1


def test_the_body_of_a_login_has_three_seconds(path, tmp_path):
    with client(path, tokens=token_file(tmp_path)) as web, connected(web) as plug:
        plug.sendall(HALF % b"/login" + b'\r\n{"tok')
        said = plug.recv(65_536)
        assert said.startswith(b"HTTP/1.1 408")
        assert b"not received within 3 s" in said
        assert b"\r\nconnection: close\r\n" in said
        assert is_over(plug)


def test_a_long_body_of_a_login_is_refused(path, tmp_path):
    with client(path, tokens=token_file(tmp_path)) as web:
        assert web.post("/login", content=b" " * 1001, headers={"content-type": "application/json"}).status_code == 413


def test_other_bodies_are_not_waited_for_without_a_token(guarded):
    web = guarded()
    for address in (b"/ask", b"/tell", b"/observe", b"/abandon", b"/nowhere", b"/"):
        with connected(web) as plug:
            plug.sendall(HALF % address + b'\r\n{"n')
            assert answer(plug) == {b"/nowhere": 404, b"/": 405}.get(address, 401)


def test_long_bodies_are_refused_before_they_are_read(path):
    def parts():
        for _ in range(40):
            sent.append(1)
            yield b" " * 100_000

    sent = []
    with client(path) as web:
        answer = web.post("/tell", content=b" " * 1_000_001, headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()["type"]) == (413, "RateLimitError")
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
    assert found[-1].json()["type"] == "RateLimitError"
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
        with pytest.raises(RateLimitError):
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
    assert (answer.status_code, answer.json()["type"]) == (429, "RateLimitError")
    assert words in answer.json()["error"]
    assert "tell or abandon" in answer.json()["error"]


@pytest.fixture
def few(path, tmp_path, monkeypatch):
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


def test_one_token_cannot_take_the_open_queries_of_all(few):
    """Whatever names its clients give, and if they give none."""
    words = "6 queries that were asked for with this token are open, and 1 more would exceed the limit of 6"
    for number in range(5):
        assert ask(few, MEASURER, client=f"client {number}").status_code == 200
    assert ask(few, MEASURER).status_code == 200
    refused(ask(few, MEASURER, client="another"), words)
    refused(ask(few, MEASURER), words)
    (again,) = ask(few, MEASURER, client="client 3").json()["queries"]  # an open query is not a new one
    assert again["id"] == 3
    assert len(ask(few, ANN, n=4).json()["queries"]) == 4  # other tokens have their own
    tell(few, 0)
    assert ask(few, MEASURER, client="another").status_code == 200
    refused(ask(few, MEASURER), words)


def test_the_owner_has_the_limit_of_the_campaign_alone(few):
    for number in range(4):
        assert len(ask(few, OWNER, client=f"client {number}", n=3).json()["queries"]) == 3
    words = "12 queries of this campaign are open, and 1 more would exceed the limit of 12"
    for token in (OWNER, ANN, MEASURER):
        refused(ask(few, token), words)
    tell(few, 0)
    assert ask(few, ANN).status_code == 200


def test_one_client_has_a_limit_of_its_own(few):
    assert len(ask(few, OWNER, client="bob", n=4).json()["queries"]) == 4
    refused(ask(few, OWNER, client="bob", n=5), "4 queries of client 'bob' are open, and 1 more would exceed the limit")
    refused(ask(few, ANN, n=5), "0 queries of client 'ann' are open, and 5 more would exceed the limit of 4")
    assert len(ask(few, OWNER, client="bob", n=4).json()["queries"]) == 4


def test_a_query_counts_for_the_token_that_has_its_lease(few):
    for number in range(3):
        assert ask(few, MEASURER, client=f"c{number}", n=2, lease=1e-6).status_code == 200
    assert [query["id"] for query in ask(few, ANN, n=2).json()["queries"]] == [0, 1]
    assert len(ask(few, MEASURER, client="late", n=4, lease=3600.0).json()["queries"]) == 4  # 2 to 5
    assert [query["id"] for query in ask(few, MEASURER, client="new", n=2).json()["queries"]] == [6, 7]
    refused(ask(few, MEASURER), "with this token")


def test_a_client_may_hold_what_it_may_ask_for_at_once():
    assert routes.MAX_OPEN_PER_CLIENT == MAX_QUERIES == 100 < routes.MAX_OPEN_PER_TOKEN < routes.MAX_OPEN / 2


def test_tokens_forget_queries_that_are_closed():
    askers, one, two = OpenQueryCounter(), Principal("measurer", None, "one"), Principal("measurer", None, "two")
    askers.record(one, range(1000))
    askers.record(two, range(500, 1500))
    assert (askers.count(one, range(1500)), askers.count(two, range(1500))) == (500, 1000)
    assert (askers.count(one, range(490, 510)), askers.count(two, range(1500))) == (10, 10)

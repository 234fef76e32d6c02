"""What anybody may send before it is known who it is."""

import socket
import time
from contextlib import ExitStack

import pytest
from served import begun, client, server

from combopeps.serve import connections

GOOD = b"GET /problem HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def web(tmp_path):
    begun(tmp_path / "campaign.db")
    with client(tmp_path / "campaign.db") as made:
        yield made


def connected(web):
    return socket.create_connection(("127.0.0.1", web.base_url.port), timeout=20)


def answer(plug):
    """The status of the next answer, and 0 where there is none."""
    try:
        return int(plug.recv(65_536)[9:12] or 0)
    except ConnectionError:
        return 0


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
def test_a_head_without_end(web, begin, part):
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


def test_a_head_that_just_fits(web):
    assert web.get("/problem", headers={"X": "x" * 60_000}).status_code == 200
    assert web.post("/tell", content=b" " * 500_000, headers={"content-type": "application/json"}).status_code == 422
    assert web.get("/problem", headers={"X": "x" * 60_000}).status_code == 200


def test_heads_that_do_not_come(web, monkeypatch):
    """Nothing, a half, drop by drop, blank lines after an answer, and a body after an answer."""
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.4)
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


def test_what_is_under_way_is_not_cut_off(web, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
    with connected(web) as plug:
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


def test_too_many_connections(web, monkeypatch):
    """The one goes that has done nothing for longest: who only holds connections keeps nobody out."""
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 10)
    with ExitStack() as stack:
        held = [stack.enter_context(connected(web)) for _ in range(40)]
        time.sleep(0.2)
        with connected(web) as plug:
            plug.sendall(GOOD)
            assert answer(plug) == 200
        held[0].settimeout(1.0)
        assert is_over(held[0])
        held[-1].settimeout(0.1)
        assert not is_over(held[-1])


def test_all_connections_are_busy(web, monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 3)
    with ExitStack() as stack:
        for _ in range(3):
            plug = stack.enter_context(connected(web))
            plug.sendall(
                b"POST /ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
            )
        time.sleep(0.2)
        with connected(web) as plug:
            assert answer(plug) == 503
            assert is_over(plug)


def test_the_command_has_these_limits_and_logs_no_nonsense(tmp_path):
    begun(tmp_path / "campaign.db")
    with server(tmp_path / "campaign.db") as address:  # which looks at stderr
        host, port = address.removeprefix("http://").split(":")
        for said in (b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000):
            with socket.create_connection((host, int(port)), timeout=20) as plug:
                plug.sendall(said)
                assert answer(plug) in (400, 431)

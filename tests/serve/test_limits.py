"""Too much at once, and too often."""

import socket

import pytest
from served import begun, client

from combopeps import LimitError
from combopeps.serve import service
from combopeps.serve.access import Allowance


@pytest.fixture
def path(tmp_path):
    begun(tmp_path / "campaign.db")
    return tmp_path / "campaign.db"


def test_long_bodies_are_refused_before_they_are_there(path):
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


def test_a_length_that_lies(path):
    with client(path) as web:
        port = web.base_url.port
        for length, body in (("5", b"{}   garbage"), ("-1", b"{}"), ("9" * 400, b"{}"), ("x", b"{}")):
            with socket.create_connection(("127.0.0.1", port), timeout=10) as plug:
                head = f"POST /tell HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
                plug.sendall(head.encode() + body)
                plug.shutdown(socket.SHUT_WR)
                assert plug.recv(12) in (b"HTTP/1.1 400", b"HTTP/1.1 413", b"HTTP/1.1 422")
        assert web.get("/problem").status_code == 200


def test_too_many_requests_of_one_bearer(path):
    with client(path, rate=0.5, burst=5.0) as web:
        found = [web.get("/problem") for _ in range(7)]
    assert [answer.status_code for answer in found] == [200] * 5 + [429] * 2
    assert found[-1].json()["type"] == "LimitError"
    assert found[-1].headers["retry-after"] == "1"


def test_an_allowance_comes_back_with_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("combopeps.serve.access.time.monotonic", lambda: now[0])
    allowance = Allowance(rate=2.0, burst=3.0)
    for _ in range(3):
        allowance.spend("ann")
    with pytest.raises(LimitError):
        allowance.spend("ann")
    allowance.spend("bob")
    now[0] = 0.5
    allowance.spend("ann")
    with pytest.raises(LimitError):
        allowance.spend("ann")
    now[0] = 100.0
    for _ in range(3):
        allowance.spend("ann")
    with pytest.raises(LimitError):
        allowance.spend("ann")
    for number in range(20_000):
        allowance.spend(str(number))
    assert len(allowance._left) <= 10_000


def test_open_queries_have_an_end(path, monkeypatch):
    monkeypatch.setattr(service, "MOST_OPEN", 5)
    with client(path) as web:
        assert web.post("/ask", json={"client": "ann", "n": 5}).status_code == 200
        answer = web.post("/ask", json={"client": "bob"})
        assert (answer.status_code, answer.json()["type"]) == (429, "LimitError")
        assert "tell or abandon" in answer.json()["error"]
        assert len(web.post("/ask", json={"client": "ann", "n": 5}).json()["queries"]) == 5  # they are hers already
        web.post("/tell", json={"id": 0, "value": 1.0})
        assert web.post("/ask", json={"client": "bob"}).status_code == 200

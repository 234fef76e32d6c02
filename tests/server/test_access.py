"""Access: tokens, roles, hosts and origins."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from itertools import product

import httpx
import pytest
from backends import events
from served import MEASURER, OWNER, begun, client, token_file

from combopeps import Campaign
from combopeps.errors import ParameterError
from combopeps.server.auth import Tokens, make_token, read_tokens
from combopeps.server.launch import app, serve

OPEN_TO_ALL = {"/login"}  # which hands out nothing without a token


@pytest.fixture
def path(tmp_path):
    begun(tmp_path / "campaign.db").ask(3, client="bob")
    return tmp_path / "campaign.db"


@pytest.fixture
def web(path, tmp_path):
    with client(path, tokens=token_file(tmp_path)) as made:
        yield made


def addresses(path):
    """All routes that there are, by introspection."""
    return [(method, route.path) for route in app(path).routes for method in sorted(route.methods - {"HEAD"})]


def cookie_of(web, token=MEASURER):
    """Its name and value."""
    (found,) = web.post("/login", json={"token": token}).cookies.items()
    web.cookies.clear()
    return found


def bearing(token):
    return {"Authorization": f"Bearer {token}"}


def test_the_documented_routes_exist(path):
    posts = "ask tell observe abandon correct retract"
    gets = "status problem measurements.csv fragment docs openapi.json"
    wanted = {("POST", f"/{name}") for name in posts.split()} | {("GET", f"/{name}") for name in (*gets.split(), "")}
    assert wanted < set(addresses(path))


def test_without_a_right_token_everything_is_refused(web, path):
    """Missing, wrong, cut short, of another campaign, of another scheme, and as a cookie."""
    other, (cookie, session) = "owner-" + "x" * 20, cookie_of(web, OWNER)
    bearers = ["w" * 26, OWNER[:-1], OWNER + "o", other, f"{OWNER}, {OWNER}"]
    wrong = [{}, *map(bearing, bearers), {"Authorization": b"Bearer \xff\xfe"}]
    wrong += [{"Authorization": said} for said in ("Bearer", OWNER, f"Basic {OWNER}")]
    wrong += [{"Cookie": f"{cookie}={value}"} for value in (other, OWNER, session[:-1], "")]
    wrong += [{"Cookie": f"{cookie}={session}"} | bearing(other)]  # what is said outright counts
    before = events(path)
    for method, address in addresses(path):
        if address in OPEN_TO_ALL:
            continue
        for headers in wrong:
            answer = web.request(method, address, headers=headers, json={} if method == "POST" else None)
            assert answer.status_code == 401, (method, address, headers)
            assert answer.headers.get("www-authenticate") == "Bearer" or address == "/"
            assert "bob" not in answer.text
            assert "topk" not in answer.text
    assert web.post("/login", json={"token": other}).status_code == 401
    assert events(path) == before


def test_a_measurer_measures_and_changes_nothing_else(web, path):
    web.headers = bearing(MEASURER)
    assert web.post("/ask", json={"client": "eve"}).json()["queries"][0]["client"] == "eve"
    assert web.post("/tell", json={"id": 0, "value": 1.0}).status_code == 200  # of another client's query
    assert web.post("/observe", json={"label": "a", "value": 1.0}).status_code == 200
    assert web.get("/open").status_code == web.get("/problem").status_code == 200
    forbidden = [("/observe", {"rows": [{"label": "a", "value": 1.0}]}), ("/abandon", {"id": 1})]
    forbidden += [("/abandon", {"id": 1, "client": "eve"}), ("/correct", {"event": 3, "value": 2.0})]
    forbidden += [("/retract", {"event": 3}), ("/measurements", None), ("/measurements.csv", None)]
    for address, body in forbidden:
        answer = web.get(address) if body is None else web.post(address, json=body)
        assert (answer.status_code, answer.json()["type"]) == (403, "AuthorizationError")
    assert web.post("/abandon", json={"id": 1}, headers=bearing(OWNER)).status_code == 200  # the owner may
    assert web.post("/abandon", json={"id": 77}).status_code == 404
    assert web.post("/abandon", json={"id": 3, "client": "eve"}).status_code == 200
    assert Campaign.open(path).samples == 2


def test_a_measurer_may_have_a_shorter_lease_than_the_owner_allows(path, tmp_path):
    def seconds(token, name, lease):
        body = {"client": name} | ({} if lease is None else {"lease": lease})
        until = web.post("/ask", json=body, headers=bearing(token)).json()["queries"][0]["until"]
        return until and round((until - time.time()) / 10) * 10

    with client(path, tokens=token_file(tmp_path), lease=600.0) as web:
        assert seconds(MEASURER, "one", None) == 600
        assert seconds(MEASURER, "two", 100.0) == 100
        assert seconds(MEASURER, "three", 1e8) == 600
        assert seconds(OWNER, "four", 1e5) == 100_000
    with client(path, tokens=token_file(tmp_path)) as web:
        assert seconds(MEASURER, "five", None) is None
        assert seconds(MEASURER, "six", 1e5) == 100_000


def test_a_browser_logs_in_by_a_cookie_that_holds_no_token(web):
    answer = web.post("/login", json={"token": MEASURER})
    assert answer.json() == {"role": "measurer"}
    cookie = answer.headers["set-cookie"]
    assert all(word in cookie for word in ("HttpOnly", "SameSite=strict", "Path=/", "Max-Age=43200"))
    assert MEASURER not in cookie
    headers = {"Cookie": "=".join(cookie_of(web)), "Host": "lab.example"}  # with tokens, any name is answered to
    web.cookies.clear()
    assert web.get("/open", headers=headers).status_code == 200
    assert web.post("/tell", json={"id": 0, "value": 1.0}, headers=headers).status_code == 200


def test_a_session_of_a_browser_ends(web, monkeypatch):
    headers, clock, later = {"Cookie": "=".join(cookie_of(web))}, time.monotonic, 0.0
    monkeypatch.setattr("time.monotonic", lambda: clock() + later)
    for later, status in ((0.0, 200), (12 * 3600 - 600, 200), (12 * 3600 + 1, 401)):  # noqa: B007, read by the clock
        assert web.get("/open", headers=headers).status_code == status


def test_sessions_are_random_and_of_this_server_alone(web, path, tmp_path):
    name, first = cookie_of(web)
    values = {first, *(cookie_of(web)[1] for _ in range(4))}
    assert len(values) == 5
    assert min(map(len, values)) >= 43  # 32 bytes
    assert web.get("/open", headers={"Cookie": f"{name}={first}"}).status_code == 200  # others do not end it
    with client(path, tokens=token_file(tmp_path)) as again:  # as after a restart
        (cookie,) = again.post("/login", json={"token": MEASURER}).cookies
        again.cookies.clear()
        assert again.get("/open", headers={"Cookie": f"{cookie}={first}"}).status_code == 401


@pytest.mark.parametrize(
    ("proxies", "said", "secure"),
    [
        ([], {}, False),
        ([], {"X-Forwarded-Proto": "https"}, False),
        (["192.0.2.1"], {"X-Forwarded-Proto": "https"}, False),
        (["127.0.0.1"], {"X-Forwarded-Proto": "https"}, True),
        (["127.0.0.1"], {"X-Forwarded-Proto": "http"}, False),
        (["127.0.0.1"], {}, False),
    ],
)
def test_a_cookie_is_for_https_alone_where_a_trusted_proxy_says_https(path, tmp_path, proxies, said, secure):
    with client(path, tokens=token_file(tmp_path), proxies=proxies) as web:
        cookie = web.post("/login", json={"token": MEASURER}, headers=said).headers["set-cookie"]
    attributes = [part.strip().lower() for part in cookie.split(";")[1:]]
    assert sorted(attributes) == sorted(
        ["httponly", "max-age=43200", "path=/", "samesite=strict"] + ["secure"] * secure
    )


def test_a_cookie_of_a_server_with_a_certificate_is_for_https_alone(path, tmp_path):
    async def cookie():
        transport = httpx.ASGITransport(app(path, tokens=token_file(tmp_path)))
        async with httpx.AsyncClient(transport=transport, base_url="https://lab.example") as web:
            return (await web.post("/login", json={"token": MEASURER})).headers["set-cookie"]

    assert "; Secure" in asyncio.run(cookie())


def test_before_the_login_little_is_read(web):
    """A kilobyte at most, whatever its length is said to be."""
    assert web.post("/login", json={"token": "x" * 2000}).status_code == 413
    chunks = (b"x" * 100 for _ in range(20))
    answer = web.post("/login", content=chunks, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413


@pytest.mark.skipif(os.name != "posix", reason="pipes and devices of POSIX")
def test_token_files_that_are_no_regular_files_are_refused_at_once(path, tmp_path):
    """Pipes without a writer, which would be waited for, and with one; devices that never end; folders."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    command = [sys.executable, "-m", "combopeps", "serve", "--state", str(path), "--token-file", str(tmp_path / "pipe")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)  # which is killed if it waits
    assert (done.returncode, "it is a named pipe" in done.stderr) == (1, True)
    out, into = os.pipe()
    os.write(into, f"owner {OWNER}\n".encode())
    kinds = {tmp_path / "pipe": "a named pipe", tmp_path / "link": "a named pipe", "/dev/zero": "a device"}
    kinds |= {f"/dev/fd/{out}": "a named pipe", tmp_path: "a folder"}
    try:
        for file, kind in kinds.items():
            with pytest.raises(ParameterError, match=f"token file {file} cannot be read: it is {kind}; give the path"):
                read_tokens(file)
    finally:
        os.close(out)
        os.close(into)


def test_campaigns_of_one_machine_do_not_log_each_other_out(web, tmp_path):
    """Browsers send a cookie to all ports."""
    with client(tmp_path / "campaign.db", tokens=token_file(tmp_path)) as other:
        begun(tmp_path / "third.db", rng=7)
        with client(tmp_path / "third.db", tokens=token_file(tmp_path)) as third:
            jar = {}
            for one in (web, other, third):
                jar |= one.post("/login", json={"token": MEASURER}).cookies
            assert len(jar) == 3
            cookies = "; ".join(f"{name}={value}" for name, value in jar.items())
            for one in (web, other, third):
                one.cookies.clear()
                assert one.get("/open", headers={"Cookie": cookies}).status_code == 200


def test_a_wrong_token_counts_against_its_address_alone(path, tmp_path):
    with client(path, tokens=token_file(tmp_path), rate=1.0, burst=100.0) as web:
        for say in (lambda: web.post("/login", json={"token": "x" * 20}), lambda: web.get("/me", headers=bearing("x"))):
            found = [say().status_code for _ in range(7)]
            assert found in ([401] * 5 + [429] * 2, [429] * 7)
        for i in range(3):
            headers = {"X-Forwarded-For": f"10.0.0.{i}", "X-Real-IP": "10.1.1.1", "Forwarded": "for=1.1.1.1"}
            assert web.post("/login", json={"token": "x" * 20}, headers=headers).status_code == 429
        for _ in range(5):  # from the same address, with a right one
            assert web.post("/login", json={"token": MEASURER}).status_code == 200
            assert web.get("/me", headers=bearing(OWNER)).status_code == 200


STRANGE = [
    "", "[", "http://[", "http://[::1", "http://]", "//", "null", "\\", "%", "%zz", "a" * 5000, ";;;=;", "\xff\xfe",
    '=,;"', "http://a:b@[c]:d", "http://localhost:99999999", "https://\xe9", "http:///", "W/", '"', "-1", "1e999", "0x10",
]  # fmt: skip
HEADERS = [
    "origin",
    "host",
    "sec-fetch-site",
    "cookie",
    "authorization",
    "content-type",
    "if-none-match",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "accept",
    "referer",
    "range",
]
REQUESTS = [("POST", "/login", b'{"token": "x"}'), ("POST", "/observe", b"{}"), ("GET", "/me", b"")]


@pytest.mark.parametrize("has_tokens", [True, False])
def test_no_header_is_a_fault_of_the_server(path, tmp_path, has_tokens):
    usual = {"content-type": "application/json"} | (bearing(OWNER) if has_tokens else {})
    with client(path, tokens=token_file(tmp_path) if has_tokens else None) as web:
        for name, value, (method, address, body) in product(HEADERS, STRANGE, REQUESTS):
            answer = web.request(method, address, headers=usual | {name: value.encode("latin-1")}, content=body)
            assert answer.status_code < 500, (name, value, address)


def test_an_origin_without_a_matching_host_is_refused(path):
    cases = ("", "null"), ("", ""), ("", "http://"), ("localhost", "//localhost"), ("localhost", "http://[")
    with client(path) as web:
        for host, origin in cases:
            with socket.create_connection(("127.0.0.1", web.base_url.port), timeout=20) as plug:
                head = f"POST /login HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\nContent-Type: application/json\r\n"
                plug.sendall(f"{head}Content-Length: 2\r\nConnection: close\r\n\r\n{{}}".encode())
                said = plug.recv(65_536)
            assert said.startswith(b"HTTP/1.1 403"), (host, origin, said)
            assert b"another origin" in said


def test_pages_of_other_origins_cannot_write(web, path, tmp_path):
    """By a cookie, or where there are no tokens: not as a form, and not from another origin."""
    before = events(path)
    with client(path) as local:
        for made, headers in ((web, {"Cookie": "=".join(cookie_of(web, OWNER))}), (local, {})):
            form = headers | {"Content-Type": "text/plain"}
            assert made.post("/tell", content=b'{"id": 0, "value": 1}', headers=form).status_code == 415
            sites = {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site", "Origin": str(made.base_url)}
            for foreign in ({"Origin": "http://evil.example"}, {"Origin": "null"}, *sites):
                answer = made.post("/tell", json={"id": 0, "value": 1}, headers=headers | foreign)
                assert answer.status_code == 403, foreign
                assert "another origin" in answer.json()["error"]
            answer = made.options("/tell", headers={"Origin": "http://evil.example"})
            assert "access-control-allow-origin" not in answer.headers
        assert events(path) == before
        own = {"Origin": f"http://{httpx.URL(local.base_url).netloc.decode()}"}
        assert local.post("/tell", json={"id": 0, "value": 1}, headers=own).status_code == 200
        assert local.post("/tell", json={"id": 0, "value": 1}, headers={"Sec-Fetch-Site": "same-origin"}).is_success


def test_without_tokens_only_names_of_this_machine_are_answered_to(path):
    with client(path) as web:
        for host in ("evil.example", "evil.example:80", "localhost.evil.example", "[::1", "", "127.0.0.1.evil.example"):
            for method, address in addresses(path):
                answer = web.request(method, address, headers={"Host": host}, json={"token": "x"})
                assert answer.status_code in (400, 403), (host, address)
        for host in ("localhost", "127.0.0.1:8765", "[::1]:8765"):
            assert web.get("/problem", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "lab.example", ""])
def test_without_tokens_a_server_listens_on_this_machine_only(path, host):
    with pytest.raises(ParameterError, match="--token-file"):
        serve(path, host=host)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no owner"),
        ("measurer " + "m" * 20, "no owner"),
        ("owner short", "line 1: a token has 16 to 512"),
        ("owner\n", "line 1: a line is"),
        ("# x\nboss " + "b" * 20, "line 2: the role of a token is measurer or owner"),
        ("owner " + "ö" * 20, "visible ASCII"),
        (f"owner {'o' * 20}\nmeasurer {'o' * 20}", "line 2: duplicate token"),
        (f"owner {'o' * 20}\nmeasurer {'m' * 20} {'n' * 65}", "the name of a token must be"),
    ],
)
def test_invalid_token_files_are_refused_by_line(tmp_path, text, words):
    path = tmp_path / "tokens"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ParameterError, match=words) as caught:
        read_tokens(path)
    assert "o" * 20 not in str(caught.value)


def test_a_token_file_that_others_can_read_is_warned_of(tmp_path):
    path = token_file(tmp_path)
    read_tokens(path)
    path.chmod(0o644)
    with pytest.warns(UserWarning, match="can be read by others; chmod 600"):
        read_tokens(path)
    with pytest.raises(ParameterError, match="cannot be read"):
        read_tokens(tmp_path / "none")


def test_secrets_are_not_shown():
    token = make_token("owner", OWNER)
    assert OWNER not in repr(token) + repr(vars(Tokens([token])))

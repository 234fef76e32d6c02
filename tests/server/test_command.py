"""`combopeps serve`: how it begins, and how it ends."""

import signal
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from served import OWNER, begun, start, stop, token_file

from combopeps import Campaign
from combopeps.cli import main
from combopeps.errors import DependencyError, ParameterError
from combopeps.server.launch import addresses, app, serve

FORWARDED = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.7"}


@pytest.fixture
def path(tmp_path):
    begun(tmp_path / "campaign.db").ask(4, client="ann")
    return tmp_path / "campaign.db"


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_sigterm_waits_until_requests_are_recorded_and_answered(path, tmp_path):
    process, address = start(path, "--token-file", str(token_file(tmp_path)))
    headers = {"Authorization": f"Bearer {OWNER}"}
    with httpx.Client(base_url=address, headers=headers, timeout=60) as web, ThreadPoolExecutor(4) as pool:
        assert web.get("/open").json()["samples"] == 0
        login = web.post("/login", json={"token": OWNER}, headers=FORWARDED)
        assert "Secure" not in login.headers["set-cookie"]  # no proxy was stated
        with Campaign.open(path).store.locked():
            futures = [pool.submit(web.post, "/tell", json={"id": i, "value": 1.0}) for i in range(4)]
            time.sleep(0.3)  # they are on their way
            process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            assert not any(future.done() for future in futures)
        assert [future.result().status_code for future in futures] == [200] * 4
        assert process.wait(60) == 0
        assert stop(process) == (0, "")
    assert Campaign.open(path).samples == 4


def test_the_printed_address_is_that_of_the_server_and_stated_proxies_are_believed(path, tmp_path):
    """Below a path, too, which only the proxy shows; and nothing is on stderr, where the framework would warn."""
    proxies = ["--root-path", "/roads", "--proxy", "192.0.2.1", "--proxy", "127.0.0.0/8"]
    process, address = start(path, "--token-file", str(token_file(tmp_path)), *proxies)
    try:
        login = httpx.post(f"{address}/login", json={"token": OWNER}, headers=FORWARDED)
        assert "Secure" in login.headers["set-cookie"]
        for method in ("GET", "HEAD"):
            found = httpx.request(method, f"{address}/problem", headers={"Authorization": f"Bearer {OWNER}"})
            assert found.status_code == 200
    finally:
        assert stop(process) == (0, "")


def test_a_port_in_use_is_refused(path):
    with socket.create_server(("127.0.0.1", 0)) as plug, pytest.raises(ParameterError, match="give another --port"):
        serve(path, port=plug.getsockname()[1])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "0.0.0.0"], "--token-file"),
        (["--token-file", "/nowhere/at/all"], "cannot be read"),
        (["--oracle", "no_such_module:made"], "no module"),
        (["--lease", "-5"], "lease must be"),
        (["--lease", "1e12"], "ten years"),
        (["--pause", "-1"], "pause must be"),
        (["--rate", "0"], "rate must be"),
        (["--port", "70000"], "port must be"),
        (["--root-path", "lab"], "root path"),
        (["--proxy", "lab.example"], "IP address"),
        (["--proxy", "*"], "IP address"),
    ],
)
def test_invalid_options_are_refused_before_it_listens(path, words, said, capfd):
    assert main(["serve", "--state", str(path), *words]) == 1
    assert said in capfd.readouterr().err


def test_addresses_of_a_server_that_listens_everywhere():
    name = socket.gethostname()
    assert addresses("0.0.0.0", 80) == [f"http://{name}:80", "http://127.0.0.1:80"]
    assert addresses("::", 80) == [f"http://{name}:80", "http://[::1]:80"]
    assert addresses("::1", 80) == ["http://[::1]:80"]
    assert addresses("10.0.0.7", 80) == ["http://10.0.0.7:80"]


def test_all_addresses_are_printed(path, monkeypatch, capfd):
    monkeypatch.setattr(
        "combopeps.cli.campaigns.serve", lambda state, ready, **options: ready(["http://lab:1", "http://b:1"])
    )
    main(["serve", "--state", str(path), "--root-path", "/roads"])
    assert (
        capfd.readouterr().out
        == f"{path} at http://lab:1 or http://b:1, for a proxy that shows it at /roads; Ctrl-C stops it\n"
    )


def test_a_missing_campaign_is_refused(tmp_path, capfd):
    assert main(["serve", "--state", str(tmp_path / "none.db")]) == 1
    assert "cannot be opened" in capfd.readouterr().err


def test_a_missing_package_is_a_typed_error_with_the_cure(path, monkeypatch, capfd):
    for name in [name for name in sys.modules if name.startswith("combopeps.server.") and name != app.__module__]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    with pytest.raises(DependencyError, match="combopeps\\[serve\\]"):
        app(path)
    assert main(["serve", "--state", str(path)]) == 1
    assert "pip install 'combopeps[serve]'" in capfd.readouterr().err

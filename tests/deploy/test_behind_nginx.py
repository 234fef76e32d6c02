"""A server as compose.yaml starts it: PostgreSQL over TCP by password, nginx with TLS in front, below a path."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from exercises import ANN, PASSWORD, measure_and_look, secret_file, secret_files
from postgres import Postgres, free_port
from proxied import ROOT, behind_nginx, program, server_command

from combopeps import RemoteCampaign
from combopeps.errors import RemoteError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a shell, and signals")
ENTRYPOINT = str(ROOT / "docs" / "deploy" / "entrypoint.sh")
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


@pytest.fixture(scope="module")
def state():
    """The URL of a campaign on a PostgreSQL that wants a password; the URL does not have it."""
    program("nginx")
    port = free_port()
    try:
        database = Postgres(port)
    except Exception as cause:
        pytest.skip(f"no PostgreSQL can be started here: {cause}")
    database.add_user("combopeps", PASSWORD)
    yield f"postgresql://combopeps@127.0.0.1:{port}/combopeps"
    database.stop()


def environment(password_file):
    return os.environ | {"PATH": PATH, "PGPASSWORD_FILE": str(password_file)}


def command(password_file, *words):
    """A command of the image, in this environment."""
    env = environment(password_file)
    return subprocess.run(["sh", ENTRYPOINT, *words], env=env, capture_output=True, text=True, timeout=60)


@contextmanager
def server(state, password, tokens, **variables):
    """The address of a server with the arguments of compose.yaml, but for its port and the path of the tokens."""
    words = server_command(COMBOPEPS_STATE=state, COMBOPEPS_PROXY="127.0.0.1", **variables)
    own = ["--host=127.0.0.1", "--port=0", f"--token-file={tokens}", "--json"]
    process = subprocess.Popen(["sh", ENTRYPOINT, *words, *own], env=environment(password), stdout=subprocess.PIPE)
    try:
        yield json.loads(process.stdout.readline())["address"]
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0


def test_a_team_behind_nginx(state, tmp_path, monkeypatch):
    password, tokens = secret_files(tmp_path)
    begun = command(password, "init", "topk-paper", "--state", state)
    assert begun.returncode == 0, begun.stderr
    with (
        server(state, password, tokens, COMBOPEPS_ROOT_PATH="/roads") as address,
        behind_nginx(tmp_path, address, "/roads") as (https, http, certificate),
    ):
        with pytest.raises(RemoteError, match=r"(?i)certificate"):  # it is not trusted yet
            RemoteCampaign(https, ANN, patience=0.1).status()
        measure_and_look(https, certificate, monkeypatch)
        to_https = httpx.get(f"{http}/roads/")
        assert (to_https.status_code, to_https.headers["location"]) == (301, "https://127.0.0.1/roads/")
        ann = {"headers": {"Authorization": f"Bearer {ANN}"}}
        assert httpx.get(https, **ann).headers["location"] == f"{https}/"
        assert httpx.get(https.removesuffix("/roads") + "/status", **ann).status_code == 404
        assert httpx.post(f"{https}/tell", content=b" " * 1_100_000, **ann).status_code == 413
    status = command(password, "status", "--json", "--state", state)
    assert json.loads(status.stdout)["samples"] == 5


def test_a_wrong_password_is_refused_and_not_shown(state, tmp_path):
    wrong = secret_file(tmp_path, "password", "open-sesame\n")
    done = command(wrong, "campaigns", "--state", state)
    assert done.returncode == 1
    assert "password authentication failed" in done.stderr
    assert "open-sesame" not in done.stdout + done.stderr
    missing = command(tmp_path / "missing", "campaigns", "--state", state)
    assert missing.returncode != 0
    assert str(tmp_path / "missing") in missing.stderr

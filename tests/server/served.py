"""Servers for tests: in this process, or in one of their own that can be killed."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx
from servers import running
from unit_problem import unit_problem

from combopeps import Campaign, TopKOracle
from combopeps.server.connection_limits import Connection
from combopeps.server.launch import app

ROOT = Path(__file__).parents[2]
OWNER, ANN, MEASURER = "owner-" + "o" * 20, "ann-" + "a" * 20, "measurer-" + "m" * 20
TOKENS = f"# who may\nowner {OWNER}\n\nmeasurer {ANN} ann\nmeasurer {MEASURER}\n"


def begun(path, labels=("a", "b", "c", "d", "e"), **options):
    """A small campaign."""
    return Campaign.create(path, unit_problem(TopKOracle(list(labels), k=2), noise_std=0.5, prior_std=2.0), **options)


def token_file(folder):
    path = folder / "tokens"
    path.write_text(TOKENS)
    path.chmod(0o600)
    return path


@contextmanager
def client(path, *, root_path="", proxies=(), limits=None, **options):
    """Requests to a server in a thread of this process, with other `limits` on connections than those of the command."""
    application = app(path, **options)
    protocol = type("Limited", (Connection,), limits or {})
    options = {"proxy_headers": bool(proxies), "forwarded_allow_ips": list(proxies), "timeout_graceful_shutdown": None}
    with (
        running(application, http=protocol, root_path=root_path, log_level="critical", **options) as port,
        httpx.Client(base_url=f"http://localhost:{port}", timeout=60) as made,
    ):
        made.writer = application.state.writer
        yield made


def start(path, *options, env=None):
    """A server in a process of its own, and its address, when it listens."""
    command = [sys.executable, "-m", "combopeps", "serve", "--state", str(path), "--port", "0", "--json", *options]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests/server")])} | (env or {})
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    line = process.stdout.readline()
    if not line:
        raise AssertionError(process.communicate()[1].decode())
    return process, json.loads(line)["address"]


def status_process():
    """The id of the process that computes reports for the server in this process; Linux only."""
    for listed in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
        for pid in map(int, listed.read_text().split()):
            if b"status_worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
    return None


def stop(process, sig=signal.SIGTERM):
    """End it, and what it has said on stderr."""
    process.send_signal(sig)
    said = process.communicate(timeout=60)[1].decode()
    return process.returncode, said


@contextmanager
def server(path, *options, **more):
    """The address of a server in a process of its own."""
    process, address = start(path, *options, **more)
    try:
        yield address
    finally:
        code, said = stop(process)
    assert (code, said) == (0, "")

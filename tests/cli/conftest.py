"""Commands in processes of their own, with any kind of standard stream, without the price of the imports each time."""

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from fast_files import files_in_memory  # noqa: F401, the fixture tmp_path

from combopeps.cli import main

ROOT = Path(__file__).resolve().parents[2]
SERVER = """
import json, os, signal, sys
import contextlib, gc, tempfile
from combopeps.cli import main

def warm_up():  # what is imported, compiled and loaded here is there in every child
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(None):
        here = os.getcwd()
        os.chdir(folder)
        open("x.csv", "w").write("item,mean\\na,0\\nb,9\\n")
        for line in ("init town --state r", "ask --state r", "tell --state r 0 4", "status --state r --plot x.png",
                     "check --state r", "show x.csv --k 1", "solve x.csv --k 1", "compare x.csv --k 1 --runs 2"):
            main(line.split())
        os.chdir(here)

warm_up()
gc.collect()
gc.freeze()  # or every child would copy all of it at its end

names = ["stdin", "stdout", "stderr"]

def place(fd, target):
    os.close(fd)
    if target == "closed":
        setattr(sys, names[fd], None)  # as Python starts
        return
    if target == "pipe":  # whose reader is gone
        reader, new = os.pipe()
        os.close(reader)
    else:
        new = os.open(target, os.O_RDONLY if fd == 0 else os.O_WRONLY | os.O_CREAT)
    if new != fd:
        os.dup2(new, fd)
        os.close(new)
    if fd:
        setattr(sys, names[fd], os.fdopen(fd, "w", closefd=False))  # knows whether the new target can seek

for line in sys.stdin:
    words, folder, streams = json.loads(line)
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        os.chdir(folder)
        for fd, target in enumerate(streams):
            place(fd, target)
        sys.exit(main(words))
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(code, flush=True)
"""


class Done(NamedTuple):
    code: int
    out: str
    err: str


class Shell:
    """`shell(folder, *words, out=...)`: a path, "closed", or "pipe" for one without a reader."""

    def __init__(self):
        self.server = subprocess.Popen(
            [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )

    def __call__(self, folder, *words, out=None, err=None, stdin="/dev/null"):
        kept = [folder / ".out", folder / ".err"]
        for path in kept:
            path.write_text("")
        streams = [stdin, out or str(kept[0]), err or str(kept[1])]
        self.server.stdin.write(json.dumps([list(map(str, words)), str(folder), streams]) + "\n")
        self.server.stdin.flush()
        return Done(int(self.server.stdout.readline()), kept[0].read_text(), kept[1].read_text())


@pytest.fixture(scope="session")
def shell():
    made = Shell()
    yield made
    made.server.stdin.close()
    assert made.server.wait(timeout=60) == 0
    made.server.stdout.close()


@pytest.fixture
def call(capfd, tmp_path, monkeypatch):
    """`call(line, code=0)`, or word by word: a command in this process and an empty folder.

    Returns what it said, or its JSON object; with code=None, whatever its exit code is.
    """
    monkeypatch.chdir(tmp_path)

    def run(*words, code=0):
        words = words[0].split() if len(words) == 1 else list(map(str, words))
        got = main(words)
        out, err = capfd.readouterr()
        assert code in (None, got), out + err
        return json.loads(out) if "--json" in words else out + err

    return run

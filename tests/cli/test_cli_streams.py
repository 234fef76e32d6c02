"""What becomes of the exit code when the output cannot be written: a fact that is recorded is never denied."""

import json
import subprocess
import sys

import pytest
from backends import events
from test_cli_help import COMMANDS

from combopeps import Campaign, TopKOracle, load_instance
from combopeps.cli import main
from combopeps.errors import LockError

GONE = ["pipe", "closed"]  # nobody wants to read; "/dev/full" is a failure
NOISE = ("Traceback", "Exception ignored", "BrokenPipe", "Errno 9")


@pytest.fixture
def folder(tmp_path):
    for place in (tmp_path / "run.db", f"sqlite:///{tmp_path}/runs.db"):
        Campaign.create(place, load_instance("town")).ask(2)
    return tmp_path


def with_a_result(folder):
    """The same with a result, which event 3 has recorded."""
    Campaign.open(folder / "run.db").observe(("station", "market"), 4.0)


RECORDS = {
    "init": ["town", "--state", "new.db"],
    "tell": ["--state", "run.db", "0", "4.5"],
    "observe": ["--state", "run.db", "station", "market", "4.5"],
    "abandon": ["--state", "run.db", "1"],
    "correct": ["--state", "run.db", "3", "4.5"],
    "retract": ["--state", "run.db", "3"],
    "copy": ["sqlite:///runs.db", "new.db"],
    "ask": ["--state", "run.db"],
}


@pytest.mark.parametrize("out", [*GONE, "/dev/full"])
@pytest.mark.parametrize("name", RECORDS)
def test_what_is_recorded_is_not_denied(name, out, folder, shell):
    state = folder / ("new.db" if name in ("init", "copy") else "run.db")
    if name in ("correct", "retract"):
        with_a_result(folder)
    before = len(events(state) or ())
    done = shell(folder, name, *RECORDS[name], out=out)
    assert done.code == (4 if name == "ask" else 0)  # 4: recorded, but the labels went nowhere
    assert len(events(state)) == before + (2 if name == "copy" else 1)
    assert not any(noise in done.err for noise in NOISE)
    assert ("recorded" in done.err) == (out == "/dev/full")
    assert done.err.count("\n") == (out == "/dev/full")


def test_what_ask_could_not_show_is_in_status(folder, shell):
    assert shell(folder, "ask", "--state", "run.db", out="pipe").code == 4
    assert [query["id"] for query in json.loads(shell(folder, "status", "--state", "run.db", "--json").out)["open"]] == [0, 1, 2]  # fmt: skip


@pytest.mark.parametrize("certain", [False, True])
def test_status_never_says_certain_by_accident(certain, tmp_path, shell):
    campaign = Campaign.create(tmp_path / "run.db", TopKOracle(["a", "b"], 1))
    for _ in range(20 if certain else 1):
        campaign.observe("a", 2.0)
        campaign.observe("b", -2.0 if certain else 2.0)
    verdict = 0 if certain else 3
    for out in GONE:
        done = shell(tmp_path, "status", "--state", "run.db", out=out)
        assert (done.code, done.err) == (verdict, "")
    done = shell(tmp_path, "status", "--state", "run.db", out="/dev/full")
    assert done.code == 1
    assert "cannot be written" in done.err


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - set(RECORDS) - {"status", "serve"}))
def test_other_commands(name, folder, shell):
    words = {
        "show": ["town"],
        "plan": ["soare", "--budget", "20", "--runs", "2", "--stopping", "budget"],
        "solve": ["soare", "--budget", "3", "--stopping", "budget"],
        "compare": ["soare", "--runs", "2", "--budget", "5"],
        "check": ["--state", "run.db"],
        "export": ["--state", "run.db", "-o", "run.csv"],
        "campaigns": ["--state", "sqlite:///runs.db"],
        "report": ["--state", "run.db", "-o", "report.html"],
    }.get(name, [])
    right = shell(folder, name, *words)
    assert right.out
    done = shell(folder, name, *words, out="pipe")
    assert (done.code, done.err) == (right.code, right.err)
    done = shell(folder, name, *words, out="/dev/full")
    assert done.code == 1
    assert not any(noise in done.err for noise in NOISE)


@pytest.mark.parametrize("err", ["pipe", "closed", "/dev/full"])
def test_a_stderr_that_nobody_reads_changes_nothing(err, folder, shell):
    surprising = ["tell", "--state", "run.db", "0", "1e6"]  # warns of the prior
    assert shell(folder, *surprising, err=err).code == 0
    assert Campaign.open(folder / "run.db").samples == 1
    assert shell(folder, "show", "twon", err=err).code == 1
    assert shell(folder, "frobnicate", err=err).code == 2
    assert shell(folder, "solve", "soare", "--budget", "3", "--stopping", "budget", err=err).code in (0, 3)


def test_a_closed_stream_is_never_given_to_a_file(folder, shell):
    """Otherwise what a library prints to the number 1 or 2 would end up in the state file."""
    before = events(folder / "run.db")
    done = shell(folder, "ask", "--state", "run.db", stdin="closed", out="closed", err="closed")
    assert done.code == 4
    assert events(folder / "run.db")[:-1] == before
    assert main(["check", "--state", str(folder / "run.db")]) == 0


def test_a_lock_that_is_taken_after_the_fact_does_not_deny_it(folder, monkeypatch, capsys):
    def busy(self):
        raise LockError("in use")

    monkeypatch.setattr(Campaign, "samples", property(busy))
    assert main(["observe", "--state", str(folder / "run.db"), "station", "market", "4.5"]) == 0
    assert capsys.readouterr().out == "recorded\n"
    assert [event["kind"] for event in events(folder / "run.db")].count("observe") == 1


REAL = [("--version", 0), ("frobnicate --json", 2)]  # light enough for an interpreter of their own
if sys.platform != "win32":

    @pytest.mark.parametrize(("words", "code"), REAL)
    @pytest.mark.parametrize("how", ["| true", ">&-", ">/dev/full", "2>&- >&- <&-"])
    def test_in_a_shell(words, code, how):
        line = f"set -o pipefail; {{ {sys.executable} -m combopeps {words}; echo $? >&3; }} {how}"
        done = subprocess.run(["bash", "-c", f"exec 3>&1; {line}"], capture_output=True, text=True, check=False)
        assert done.stdout == f"{1 if 'full' in how and code == 0 else code}\n"
        assert not any(noise in done.stderr for noise in NOISE)

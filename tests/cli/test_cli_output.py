"""Help, exit codes, `--json` and standard streams: what programs and shells rely on."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from threading import Thread

import pytest
from backends import events
from cli_files import write_files
from unit_problem import unit_problem

from combopeps import Campaign, ComboPepsError, TopKOracle, load_instance
from combopeps.alternatives.registry import SAMPLERS
from combopeps.cli import main
from combopeps.cli.main import parser
from combopeps.errors import LockError
from combopeps.policies.registry import POLICIES
from combopeps.stopping.registry import RULES, NamedRule

COMMANDS = dict(next(a.choices for a in parser()._actions if hasattr(a, "choices") and a.choices))


HEAVY = {"numpy", "scipy", "networkx", "ortools", "numba", "matplotlib", "joblib", "tqdm"}


def test_the_documented_commands_exist():
    assert set(COMMANDS) == {
        "list", "show", "plan", "solve", "compare", "bench", "init", "ask", "tell", "observe", "abandon", "correct", "retract", "status",
        "check", "export", "copy", "campaigns", "report", "serve",
    }  # fmt: skip


@pytest.mark.parametrize("words", [["--help"], ["solve", "--help"], ["--version"], ["no-such-command"]])
def test_nothing_heavy_is_imported_for_help(words):
    code = f"from combopeps.cli import main; main({words!r}); import sys; print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "combopeps.cli.parser" in done.stderr
    assert HEAVY.isdisjoint(done.stderr.split())


def test_help_takes_less_than_half_a_second():
    code = (
        "from time import perf_counter as t; a = t(); from combopeps.cli import main; main(['--help']); print(t() - a)"
    )
    times = [subprocess.check_output([sys.executable, "-c", code], text=True).split()[-1] for _ in range(3)]
    assert min(map(float, times)) < 0.5


def test_help_names_every_command_and_exit_code(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for name in COMMANDS:
        assert re.search(rf"\n    {name}\s", text)
    for code in (0, 1, 2, 3):
        assert f"\n  {code}  " in text


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_json_debug_and_an_example(name, capsys):
    assert main([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert "--json" in text
    assert "--debug" in text
    assert f"\n  combopeps {name}" in text.split("example:")[1]


def interrupt_when_it_listens():
    while getattr(signal.getsignal(signal.SIGINT), "__name__", "") != "handle_exit":  # the server's own
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_work(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = COMMANDS[name].format_help().split("example:\n")[1]
    for line in text.strip().splitlines():
        if line.strip().startswith("printf"):
            subprocess.run(["bash", "-ec", line.strip()], check=True)
            continue
        command, *allowed = re.split(r"\|\| test \$\? = ", line)
        program, *words = shlex.split(command)
        assert program == "combopeps"
        if words[0] == "serve":
            Thread(target=interrupt_when_it_listens, daemon=True).start()
            assert main(words) == 0
            continue
        assert main(words) in {0, *map(int, allowed)}, capsys.readouterr().err
        assert capsys.readouterr().out
        for i, word in enumerate(words):
            if word == "--plot":
                assert (tmp_path / words[i + 1]).stat().st_size > 5000


def listed(what, capsys):
    assert main(["list", what, "--json"]) == 0
    (rows,) = json.loads(capsys.readouterr().out).values()
    assert all(row["about"] for row in rows)
    assert main(["list", what]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [row["name"] for row in rows]
    return {row["name"] for row in rows}


def test_names_are_those_of_the_registries(capsys, monkeypatch):
    assert listed("policies", capsys) == set(POLICIES) - {"fixed"}
    assert listed("rules", capsys) == set(RULES)
    assert listed("samplers", capsys) == set(SAMPLERS)
    for option, name, known in (
        ("--policy", "fixed", "top-two"),
        ("--stopping", "x", "budget"),
        ("--sampler", "x", "gibbs"),
    ):
        assert main(["solve", "soare", option, name]) == 2
        assert f"there is no '{name}'; there are " in (text := capsys.readouterr().err)
        assert known in text


def test_one_entry_in_the_registry_makes_a_rule_known(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(RULES, "hasty", NamedRule(RULES["heuristic"].make))
    monkeypatch.setitem(RULES, "lonely", NamedRule(RULES["heuristic"].make, "wants to be alone"))
    assert {"hasty", "lonely"} < listed("rules", capsys)
    assert main(["solve", "soare", "--stopping", "lonely", "--budget", "5", "--json"]) in (0, 3)
    campaign = Campaign.create(tmp_path / "x", unit_problem(TopKOracle(3, k=1)), stopping="hasty")
    assert campaign.status().claim == ""
    for name, words in (("lonely", "wants to be alone"), ("never", "one of .*hasty")):
        with pytest.raises(ComboPepsError, match=words):
            Campaign.create(tmp_path / "y", unit_problem(TopKOracle(3, k=1)), stopping=name)


def test_as_a_module_an_error_is_one_line():
    wrong = subprocess.run(
        [sys.executable, "-m", "combopeps", "show", "twon"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (wrong.returncode, wrong.stderr.count("\n")) == (1, 1)
    assert "did you mean town" in wrong.stderr


STATE = "--state run.db"


# Words of a call that works, that is not understood, that names a missing file, and whose value makes no sense.
CASES = {
    "list": ("", "surplus", None, None),
    "show": ("beers.csv --k 1", "", "no.csv", "beers.csv --k 0"),
    "solve": (
        "beers.csv --k 1 --noise 1 --budget 5000",
        "beers.csv --policy best",
        "no.json",
        "beers.csv --k 1 --seed -1",
    ),
    "plan": (
        "beers.csv --k 1 --noise 1 --prior-mean 0 --prior 1 --runs 2 --budget 20",
        "--runs",
        "no.csv",
        "beers.csv --k 1 --runs 0",
    ),
    "compare": ("beers.csv --k 1 --noise 1 --runs 3 --budget 20", "--runs", "no.csv", "beers.csv --k 1 --jobs 0"),
    "bench": ("", "--frob", None, "no-such-benchmark"),
    "init": ("town --state new.db", "town", "no.json --state new.db", "town --state new.db --delta 7"),
    "ask": (STATE, "", "--state no.db", f"{STATE} -n 0"),
    "tell": (f"{STATE} 0 4.5", f"{STATE} x 1", f"{STATE} --csv no.csv", f"{STATE} 99 1"),
    "observe": (f"{STATE} station market 4.5", f"{STATE} station", "--state no.db a 1", f"{STATE} nowhere 1"),
    "abandon": (f"{STATE} 1", f"{STATE}", "--state no.db 0", f"{STATE} 99"),
    "correct": (f"{STATE} 3 4.5", f"{STATE} 3", "--state no.db 3 1", f"{STATE} 2 4.5"),
    "retract": (f"{STATE} 3", f"{STATE} x", "--state no.db 3", f"{STATE} 99"),
    "check": (STATE, "", "--state no.db", "--state beers.csv"),
    "export": (f"{STATE} -o new.csv", STATE, "--state no.db -o new.csv", f"{STATE} -o no/folder.csv"),
    "copy": ("run.db sqlite:///x.db", "run.db", "no.db y.db", "run.db mysql:///x"),
    "campaigns": ("--state sqlite:///runs.db", "", "--state sqlite:///no.db", "--state beers.csv"),
    "report": (f"{STATE} -o new.html", STATE, "--state no.db -o new.html", f"{STATE} -o no/folder.html"),
    "serve": (None, "", "--state no.db", f"{STATE} --host 0.0.0.0"),
    "status": (STATE, f"{STATE} --plot", "--state no.db", f"{STATE} --plot x.nothing"),
}


KINDS = {"ok": (0, 3), "usage": (2,), "missing": (1,), "value": (1,)}


def test_every_command_has_cases():
    assert set(CASES) == set(COMMANDS)


@pytest.fixture
def folder(tmp_path):
    write_files(tmp_path)
    for place in (tmp_path / "run.db", f"sqlite:///{tmp_path}/runs.db"):
        campaign = Campaign.create(place, load_instance("town"))
        campaign.ask(2)
        campaign.observe(("station", "market"), 4.0)
    return tmp_path


@pytest.mark.parametrize("name", CASES)
def test_json_is_one_object_whatever_happens(name, folder, shell, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    for (kind, codes), line in zip(KINDS.items(), CASES[name], strict=True):
        if line is None:
            continue
        done = shell(folder, name, "--json", *line.split())
        said = json.loads(done.out)  # one document, and nothing beside it
        assert done.code in codes, (kind, done)
        assert isinstance(said, dict)
        assert ("error" in said) == (kind != "ok"), done
        assert kind == "ok" or said["error"].strip()
        assert "unexpected" not in done.out
        assert done.err == ""
        assert done.out.count("\n") == 1
        if kind != "ok":
            assert main([name, *line.split()]) == done.code
            out, err = capsys.readouterr()
            assert out == ""
            assert "combopeps: error: " in err.splitlines()[-1]


@pytest.mark.parametrize(
    "line", ["--json", "frobnicate --json", "solve --jso", "--json -- --help", "show town --json --k x"]
)
def test_json_of_words_that_make_no_command(line, tmp_path, shell):
    done = shell(tmp_path, *line.split())
    assert done.code == 2
    assert json.loads(done.out)["type"] == "UsageError"
    assert done.err == ""


def test_json_of_help_is_an_object(tmp_path, shell):
    assert "exit codes" not in json.loads(shell(tmp_path, "solve", "--json", "--help").out)["help"]
    assert "--stopping" in json.loads(shell(tmp_path, "solve", "--json", "--help").out)["help"]
    assert shell(tmp_path, "observe", "--state", "x", "--", "--json", "1").out == ""  # a label, not an option


def test_json_of_an_interruption_is_an_object(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("combopeps.io.bundled.read_index", interrupted)
    assert main(["list", "--json"]) == 130
    assert json.loads(capsys.readouterr().out) == {"error": "interrupted", "type": "KeyboardInterrupt"}


def test_a_traceback_goes_to_stderr(tmp_path, shell):
    done = shell(tmp_path, "show", "twon", "--json", "--debug")
    assert json.loads(done.out)["type"] == "InstanceError"
    assert "Traceback" in done.err


def test_bench_passes_arguments_on_and_keeps_what_a_benchmark_prints_apart(tmp_path, shell):
    done = shell(tmp_path, "bench", "policies", "--help", "--json")
    assert json.loads(done.out) == {"benchmark": "policies", "exit_code": 0}
    assert "--quick" in done.err


def test_numbers_that_json_does_not_know_are_null_in_files_too(tmp_path, capsys, monkeypatch):
    from combopeps.cli import solve

    made = solve._document
    monkeypatch.setattr(solve, "_document", lambda *a: made(*a) | {"error_probability": float("nan")})
    assert main(["solve", "soare", "--budget", "3", "--save", str(tmp_path / "x.json"), "--json"]) in (0, 3)
    refuse = {"parse_constant": lambda constant: pytest.fail(constant)}
    assert json.loads((tmp_path / "x.json").read_text(), **refuse) == json.loads(capsys.readouterr().out, **refuse)


GONE = ["pipe", "closed"]  # no reader is left; "/dev/full" is a failure


NOISE = ("Traceback", "Exception ignored", "BrokenPipe", "Errno 9")


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
    before = len(events(state) or ())
    done = shell(folder, name, *RECORDS[name], out=out)
    assert done.code == (4 if name == "ask" else 0)  # 4: recorded, but the labels went nowhere
    assert len(events(state)) == before + (3 if name == "copy" else 1)
    assert not any(noise in done.err for noise in NOISE)
    assert ("recorded" in done.err) == (out == "/dev/full")
    assert done.err.count("\n") == (out == "/dev/full")


def test_what_ask_could_not_show_is_in_status(folder, shell):
    assert shell(folder, "ask", "--state", "run.db", out="pipe").code == 4
    assert [query["id"] for query in json.loads(shell(folder, "status", "--state", "run.db", "--json").out)["open"]] == [0, 1, 2]  # fmt: skip


@pytest.mark.parametrize("certain", [False, True])
def test_status_keeps_its_exit_code_without_a_reader(certain, tmp_path, shell):
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
def test_output_that_cannot_be_written_fails_where_nothing_was_recorded(name, folder, shell):
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
def test_an_unread_stderr_changes_no_exit_code(err, folder, shell):
    surprising = ["tell", "--state", "run.db", "0", "1e6"]  # warns of the prior
    assert shell(folder, *surprising, err=err).code == 0
    assert Campaign.open(folder / "run.db").samples == 2
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
    assert [event["kind"] for event in events(folder / "run.db")].count("observe") == 2


REAL = [("--version", 0), ("frobnicate --json", 2)]  # light enough for an interpreter of their own


if sys.platform != "win32":

    @pytest.mark.parametrize(("words", "code"), REAL)
    @pytest.mark.parametrize("how", ["| true", ">&-", ">/dev/full", "2>&- >&- <&-"])
    def test_exit_codes_in_a_shell(words, code, how):
        line = f"set -o pipefail; {{ {sys.executable} -m combopeps {words}; echo $? >&3; }} {how}"
        done = subprocess.run(["bash", "-c", f"exec 3>&1; {line}"], capture_output=True, text=True, check=False)
        assert done.stdout == f"{1 if 'full' in how and code == 0 else code}\n"
        assert not any(noise in done.stderr for noise in NOISE)

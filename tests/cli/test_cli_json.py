"""With --json: exactly one object on stdout and the documented code, in every command, whatever goes wrong."""

import json

import pytest
from test_cli_commands import write_files
from test_cli_help import COMMANDS

from combopeps import Campaign, load_instance
from combopeps.cli import main

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


def test_every_command_is_there():
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
def test_one_object_whatever_happens(name, folder, shell, capsys, monkeypatch):
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
def test_words_that_make_no_command(line, tmp_path, shell):
    done = shell(tmp_path, *line.split())
    assert done.code == 2
    assert json.loads(done.out)["type"] == "UsageError"
    assert done.err == ""


def test_help_is_an_object_too(tmp_path, shell):
    assert "exit codes" not in json.loads(shell(tmp_path, "solve", "--json", "--help").out)["help"]
    assert "--stopping" in json.loads(shell(tmp_path, "solve", "--json", "--help").out)["help"]
    assert shell(tmp_path, "observe", "--state", "x", "--", "--json", "1").out == ""  # a label, not an option


def test_an_interruption_is_an_object(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("combopeps.cli.show.list_instances", interrupted)
    assert main(["list", "--json"]) == 130
    assert json.loads(capsys.readouterr().out) == {"error": "interrupted", "type": "KeyboardInterrupt"}


def test_a_traceback_goes_to_stderr(tmp_path, shell):
    done = shell(tmp_path, "show", "twon", "--json", "--debug")
    assert json.loads(done.out)["type"] == "InstanceError"
    assert "Traceback" in done.err


def test_what_a_benchmark_prints_is_kept_apart(tmp_path, shell):
    done = shell(tmp_path, "bench", "campaign", "--help", "--json")
    assert json.loads(done.out) == {"benchmark": "campaign", "exit_code": 0}
    assert "usage" in done.err


def test_numbers_that_json_does_not_know_are_null_in_files_too(tmp_path, capsys, monkeypatch):
    from combopeps.cli import solve

    made = solve._document
    monkeypatch.setattr(solve, "_document", lambda *a: made(*a) | {"error_probability": float("nan")})
    assert main(["solve", "soare", "--budget", "3", "--save", str(tmp_path / "x.json"), "--json"]) in (0, 3)
    refuse = {"parse_constant": lambda constant: pytest.fail(constant)}
    assert json.loads((tmp_path / "x.json").read_text(), **refuse) == json.loads(capsys.readouterr().out, **refuse)

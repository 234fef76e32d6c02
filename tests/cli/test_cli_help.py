"""`--help` is quick, complete, and its examples work."""

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
from unit_problem import unit_problem

from combopeps import Campaign, ComboPepsError, TopKOracle
from combopeps.alternatives.registry import SAMPLERS
from combopeps.cli import main
from combopeps.cli.main import parser
from combopeps.policies.registry import POLICIES
from combopeps.stopping.registry import RULES, NamedRule

COMMANDS = dict(next(a.choices for a in parser()._actions if hasattr(a, "choices") and a.choices))
HEAVY = {"numpy", "scipy", "networkx", "ortools", "numba", "matplotlib", "joblib", "tqdm"}


def run(*words):
    return subprocess.run(
        [sys.executable, "-m", "combopeps", *words], capture_output=True, text=True, check=False, timeout=60
    )


def test_the_commands_that_are_promised():
    assert set(COMMANDS) == {
        "list", "show", "plan", "solve", "compare", "bench", "init", "ask", "tell", "observe", "abandon", "correct", "retract", "status",
        "check", "export", "copy", "campaigns", "report", "serve",
    }  # fmt: skip


@pytest.mark.parametrize("words", [["--help"], ["solve", "--help"], ["--version"], ["no-such-command"]])
def test_nothing_heavy_is_imported_for_help(words):
    code = f"from combopeps.cli import main; main({words!r}); import sys; print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "combopeps.cli.commands" in done.stderr
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


def test_one_entry_makes_a_rule_known(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(RULES, "hasty", NamedRule(RULES["heuristic"].make))
    monkeypatch.setitem(RULES, "lonely", NamedRule(RULES["heuristic"].make, "wants to be alone"))
    assert {"hasty", "lonely"} < listed("rules", capsys)
    assert main(["solve", "soare", "--stopping", "lonely", "--budget", "5", "--json"]) in (0, 3)
    campaign = Campaign.create(tmp_path / "x", unit_problem(TopKOracle(3, k=1)), stopping="hasty")
    assert campaign.status().claim == ""
    for name, words in (("lonely", "wants to be alone"), ("never", "one of .*hasty")):
        with pytest.raises(ComboPepsError, match=words):
            Campaign.create(tmp_path / "y", unit_problem(TopKOracle(3, k=1)), stopping=name)


def test_as_a_module_and_its_exit_codes():
    assert run("--version").stdout.startswith("combopeps ")
    assert run("frobnicate").returncode == 2
    wrong = run("show", "twon")
    assert wrong.returncode == 1
    assert wrong.stderr.count("\n") == 1
    assert "did you mean town" in wrong.stderr
    assert "Traceback" not in wrong.stderr
    assert "Traceback" in run("show", "twon", "--debug").stderr


def test_a_closed_pipe_is_no_error():
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {sys.executable} -m combopeps list | true"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stderr == ""

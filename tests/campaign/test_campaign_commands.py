"""Commands on a state file that others use."""

import json

import pytest
from backends import events
from unit_problem import unit_problem

from combopeps import Campaign, TopKOracle
from combopeps.cli.main import main


@pytest.fixture
def state(tmp_path):
    Campaign.create(tmp_path / "run.db", unit_problem(TopKOracle(["a", "b", "c"], k=1)))
    return str(tmp_path / "run.db")


WRITERS = {"ask": [], "tell": ["0", "1.5"], "observe": ["a", "1.5"], "abandon": ["0"]}


def run(capsys, *words):
    code = main([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("command", WRITERS)
def test_writers_wait_for_the_lock_as_long_as_they_are_told(state, capsys, command):
    campaign = Campaign.open(state)
    campaign.ask()
    words = [command, "--state", state, *WRITERS[command]]
    with campaign.store.locked():
        code, said = run(capsys, *words, "--timeout", "0.05")
        assert (code, said["type"]) == (1, "LockError")
        assert "0.05 s" in said["error"]
    assert run(capsys, *words, "--timeout", "0")[0] == 0


@pytest.mark.parametrize("timeout", ["nan", "-1", "inf", "-inf"])
@pytest.mark.parametrize("command", [*WRITERS, "status"])
def test_timeouts_that_make_no_sense_are_refused_before_anything_happens(state, capsys, command, timeout):
    before = events(state)
    code, said = run(capsys, command, "--state", state, f"--timeout={timeout}", *WRITERS.get(command, []))
    assert (code, said["type"]) == (1, "ParameterError")
    assert events(state) == before


def test_status_and_check_work_while_others_write(state, capsys):
    campaign = Campaign.open(state)
    campaign.ask()
    with campaign.store.locked():
        code, said = run(capsys, "status", "--state", state)
        assert (code, len(said["open"]), said["samples"]) == (3, 1, 0)
        assert run(capsys, "check", "--state", state)[1]["asked"] == 1


@pytest.mark.parametrize("command", ["init", *WRITERS, "status", "check"])
def test_an_empty_name_is_refused(capsys, command):
    words = ["town"] if command == "init" else WRITERS.get(command, [])
    code, said = run(capsys, command, *words, "--state", "")
    assert (code, said["type"]) == (1, "ParameterError")

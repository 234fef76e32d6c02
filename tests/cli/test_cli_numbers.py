"""Numbers that make no sense are refused with a typed error, before anything is done."""

import json

import pytest
from backends import events

from combopeps import Campaign
from combopeps.cli import main

COMPARE = ["compare", "soare", "--runs", "2", "--budget", "3", "--json"]


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        ([*COMPARE, "--jobs", "0"], 1, "--jobs must be at least 1"),
        ([*COMPARE, "--jobs", "-1"], 1, "--jobs must be at least 1"),
        ([*COMPARE, "--jobs", "nan"], 2, "--jobs"),
        ([*COMPARE, "--jobs", "1_0"], 2, "--jobs"),
        ([*COMPARE, "--seed", "-1"], 1, "--seed must not be negative"),
        ([*COMPARE, "--seed", "٣"], 2, "--seed"),
        (["solve", "soare", "--json", "--seed", "-1"], 1, "--seed must not be negative"),
        (["solve", "soare", "--json", "--budget", "1_000"], 2, "--budget"),
        (["solve", "soare", "--json", "--noise", "1_0.5"], 2, "--noise"),
        (["solve", "soare", "--json", "--noise", "nan"], 1, "noise"),
        (["solve", "soare", "--json", "--prior", "0"], 1, "prior"),
        (["solve", "soare", "--json", "--batch", "0"], 1, "batch"),
        (["solve", "soare", "--json", "--budget", "0"], 1, "budget"),
        (["solve", "soare", "--json", "--delta", "nan"], 1, "delta"),
        (["init", "soare", "--state", "x.db", "--json", "--seed", "-1"], 1, "seed"),
        (["init", "soare", "--state", "x.db", "--json", "--delta", "inf"], 1, "delta"),
        (["tell", "--state", "run.db", "--json", "0", "1_000"], 2, "VALUE"),
        (["tell", "--state", "run.db", "--json", "0", "nan"], 1, "finite"),
        (["tell", "--state", "run.db", "--json", "1_0", "1"], 2, "ID"),
        (["observe", "--state", "run.db", "--json", "0", "1_000"], 2, "VALUE"),
        (["ask", "--state", "run.db", "--json", "-n", "1_0"], 2, "-n"),
    ],
)
def test_the_command_line(words, code, part, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["init", "soare", "--state", "run.db"]) == 0
    assert main(["ask", "--state", "run.db"]) == 0
    before = events("run.db")
    capsys.readouterr()
    assert main(words) == code
    said = json.loads(capsys.readouterr().out)
    assert part in said["error"]
    assert "unexpected" not in said["error"]
    assert events("run.db") == before
    assert not (tmp_path / "x.db").exists()


@pytest.mark.parametrize("value", ["-1e-05", "-2.5E+1", "-.5", "-3", "-4.", "1e-3"])
def test_negative_numbers_as_programs_print_them(value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["init", "soare", "--state", "run.db"]) == 0
    assert main(["ask", "--state", "run.db"]) == 0
    assert main(["tell", "--state", "run.db", "0", value]) == 0
    assert main(["observe", "--state", "run.db", "1", value]) == 0
    assert [one.y for one in Campaign.open("run.db").measurements()] == [float(value)] * 2


@pytest.mark.parametrize("size", ["1e-300", "1e-170", "1e140"])
def test_a_scale_at_which_squares_vanish_or_overflow_is_no_crash(size, tmp_path, capsys):
    (tmp_path / "x.csv").write_text(f"item,mean\na,{size}\nb,0\n")
    main(["show", str(tmp_path / "x.csv"), "--k", "1", "--prior", "1", "--json"])
    assert "unexpected" not in capsys.readouterr().out

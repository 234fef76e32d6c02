"""Names in a file can neither steer the terminal nor forge lines of the output; JSON has them as they are."""

import json

import pytest
from unit_problem import unit_problem

from combopeps import Campaign, TopKOracle, save_instance
from combopeps.cli import main
from combopeps.cli.output import shown
from combopeps.cli.text import answer_text, bars, label_text
from combopeps.io import Instance
from combopeps.oracles import MultiPath

NASTY = {
    "escape": "a\x1b[2J\x1b]0;owned\x07",
    "newline": "a\nstop           yes: certain",
    "return": "a\rrecorded",
    "tab": "0\tb",
    "line separator": "a\u2028b",
    "right to left": "a\u202egpj.exe",
    "isolate": "a\u2066b\u2069",
    "zero width": "a\u200bb",
    "C1": "a\x9b31mb",
    "delete": "a\x7f",
    "surrogate": "a\udc80",
    "next line": "a\x85b",
}


def controls(text, allowed="\n"):
    return [c for c in text if not c.isprintable() and c not in allowed]


@pytest.mark.parametrize("label", NASTY.values(), ids=NASTY)
def test_every_way_to_print_a_label(label):
    texts = [
        shown(label),
        label_text(label),
        label_text((label, "b", label)),
        answer_text([label, "b"]),
        answer_text({label: "b", "c": label}),
        answer_text({label, "b"}),
        answer_text(MultiPath([label, "b"], [label])),
        *bars({label: 3, "b": 1}),
    ]
    for text in texts:
        assert controls(text, "") == []
    assert label_text(label) != label_text(label.replace(controls(label, "")[0], "?"))


def test_labels_that_can_be_seen_are_left_alone():
    for label in ("Zürich", "Ω-3", "東京", "a b", "C:\\temp", "it's", "🚲"):
        assert shown(label) == label


@pytest.mark.parametrize("label", NASTY.values(), ids=NASTY)
def test_commands(label, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    oracle = TopKOracle([label, "harmless"], 1)
    save_instance(Instance(label, unit_problem(oracle, prior_std=0.1), [1.0, 0.0], label, label), "x.json")
    campaign = Campaign.create("run.db", unit_problem(oracle))
    campaign.observe(label, 1.0)
    lines = {}
    for words in (
        "show x.json", "solve x.json --budget 30", "compare x.json --runs 2 --budget 9", "init x.json --state new.db",
        "ask --state run.db -n 4", "status --state run.db", "observe --state new.db harmless 1e9",
        "observe --state run.db nothing 1", "check --state run.db", f"show x.json --k {label}", f"solve {label}",
    ):  # fmt: skip
        main(words.split(" "))
        out, err = capsys.readouterr()
        assert controls(out, "\n\t" if words.startswith(("ask", "status")) else "\n") == [], words
        assert controls(err) == [], words
        lines[words.split(" ")[0]] = out.splitlines()
    assert len(lines["ask"]) == 4
    assert all(line.count("\t") == 1 for line in lines["ask"])
    assert not any(line.startswith("stop           yes") for line in lines["status"])
    assert main(["ask", "--state", "run.db", "--json", "-n", "9"]) == 0
    assert label in [query["label"] for query in json.loads(capsys.readouterr().out)["queries"]]


def test_paths(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a\x1b[31m.db", "b\nb.db", "c d'.db"):
        assert main(["init", "town", "--state", name]) == 0
        assert main(["status", "--state", name]) == 3
        assert main(["check", "--state", name]) == 0
        assert main(["init", "town", "--state", name]) == 1
        out, err = capsys.readouterr()
        assert controls(out + err) == []
    assert "combopeps ask --state 'c d'\"'\"'.db'" in out  # a command to be copied works

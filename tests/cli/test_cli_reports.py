"""What commands report: policies that cannot run, answers that are tied, and where the truth was read from."""

import json

import pytest
from test_cli_commands import call, write_files  # noqa: F401

from combopeps.cli import main
from combopeps.cli.text import difference_text
from combopeps.errors import SamplerCapError
from combopeps.oracles import MultiPath
from combopeps.policies.registry import POLICIES

COMPARE = "compare nsfnet --policies lingame,top-two --runs 3 --budget 20"


def test_compare_goes_on_without_a_policy_that_cannot_run(call, tmp_path):  # noqa: F811
    refused, ran = call(f"{COMPARE} --json --plot c.png")["policies"]
    assert (refused["policy"], ran["policy"]) == ("lingame", "top-two")
    assert "use TopTwo or PEPS" in refused["error"]
    assert (refused["samples_to"], refused["right_at_the_end"]) == ([], None)
    assert ran["error"] is None
    assert len(ran["samples_to"]) == 3
    assert (tmp_path / "c.png").stat().st_size > 10_000
    lines = call(COMPARE).splitlines()
    assert lines[2].startswith("lingame         cannot run: LinGame is written for")
    assert lines[3].startswith("top-two         ")


def test_compare_goes_on_after_a_policy_that_fails_on_the_way(call, monkeypatch):  # noqa: F811
    def fail(self):
        raise SamplerCapError("no alternative\nwas found")

    monkeypatch.setattr(POLICIES["peps"], "choose", fail)
    rows = call("compare cyclic-matching --policies peps,uniform --runs 3 --budget 20 --json")["policies"]
    assert [row["error"] for row in rows] == ["no alternative\nwas found", None]
    text = call("compare cyclic-matching --policies peps,uniform --runs 3 --budget 20")
    assert "peps            cannot run: no alternative was found\n" in text


def test_compare_fails_if_no_policy_can_run_or_a_name_is_wrong(call):  # noqa: F811
    assert "no policy can run here: lingame: " in call("compare nsfnet --policies lingame --json", code=1)["error"]
    assert "no policy can run here: lingame: " in call("compare nsfnet --policies lingame,lingape", code=1)
    assert "there are" in call("compare nsfnet --policies top-two,best", code=1)


ROUTE = ["a", "b", "c", "d", "e", "f"]


@pytest.mark.parametrize(
    ("answer", "other", "text"),
    [
        (ROUTE, ["a", "x", "c", "d", "e", "f"], "a -> x -> c instead of a -> b -> c"),
        (ROUTE, ["a", "c", "d", "e", "f"], "a -> c instead of a -> b -> c"),
        (ROUTE, ["a", "b", "c", "d", "e", "x", "f"], "e -> x -> f instead of e -> f"),
        (ROUTE, ["a", "x", "c", "d", "y", "f"], "a -> x -> c instead of a -> b -> c; d -> y -> f instead of d -> e -> f"),
        (["a", "f"], ["a", "x", "f"], "a -> x -> f instead of a -> f"),
        (MultiPath(["a", "b", "c"], [0, 0]), MultiPath(["a", "b", "c"], [0, 1]), "b -[1]-> c instead of b -[0]-> c"),
        ({"ann": "dig", "bob": "plant", "eve": "rest"}, {"ann": "plant", "bob": "dig", "eve": "rest"},
         "ann: plant instead of dig, bob: dig instead of plant"),
        ({1, 2, 3}, {1, 2, 9}, "9 instead of 3"),
        ("x", "y", "y"),
        (["a\x1b[2J", "b", "c"], ["a\x1b[2J", "\n", "c"], r"'a\x1b[2J' -> '\n' -> c instead of 'a\x1b[2J' -> b -> c"),
    ],
)  # fmt: skip
def test_differences(answer, other, text):
    assert difference_text(answer, other) == text


def test_long_differences_are_cut():
    text = difference_text(["s", *range(200), "t"], ["s", *range(300, 500), "t"])
    assert text.count("... 162 more ...") == 2
    assert len(text) < 1000


def test_ties_are_told_by_differences_five_at_most(call, tmp_path):  # noqa: F811
    (tmp_path / "same.csv").write_text("item,mean\n" + "".join(f"i{i},1\n" for i in range(12)))
    words = "solve same.csv --k 6 --noise 0.1 --budget 600"
    found = call(f"{words} --json", code=3)
    assert found["stop_reason"] == "indistinguishable"
    assert len(found["tied"]) > 5  # all of them, for scripts
    lines = call(words, code=3).splitlines()
    said = [line.removeprefix("tied with   ") for line in lines if line.startswith("tied with")]
    answer = set(found["answer"])
    assert said == [difference_text(answer, set(other)) for other in found["tied"][:5]]
    assert all(line.count(" instead of ") == 1 for line in said)
    assert f"            ... and {len(found['tied']) - 5} more" in lines


def test_few_ties_are_all_told(call, tmp_path):  # noqa: F811
    (tmp_path / "two.csv").write_text("item,mean\na,1\nb,1\n")
    text = call("solve two.csv --k 1 --noise 0.01 --delta 1e-9 --budget 300", code=3)
    assert "tied with   a instead of b" in text or "tied with   b instead of a" in text
    assert "more" not in text


ENDS = "--source home --target work"
TNTP = (
    "<NUMBER OF NODES> 3\n<END OF METADATA>\n~ \tinit_node\tterm_node\tlength\tfree_flow_time\t;\n"
    "\t1\t2\t5\t6\t;\n\t2\t3\t5\t6\t;\n\t1\t3\t12\t14\t;\n"
)


@pytest.mark.parametrize(
    ("words", "what", "where"),
    [
        (f"roads.json {ENDS}", "length", "edge attribute `weight`"),
        (f"roads.graphml {ENDS} --attribute weight", "length", "edge attribute `weight`"),
        (f"roads.graphml {ENDS} --objective max", "reward", "edge attribute `weight`"),
        ("net.tntp --source 1 --target 3", "length", "column `free_flow_time`"),
        ("net.tntp --source 1 --target 3 --attribute length", "length", "column `length`"),
        ("beers.csv --k 1", "mean", "column `mean`"),
    ],
)
def test_where_the_truth_was_read_from(call, tmp_path, words, what, where):  # noqa: F811
    write_files(tmp_path)
    (tmp_path / "net.tntp").write_text(TNTP)
    for command, width in ((f"show {words}", 20), (f"solve {words} --noise 0.01", 11)):
        assert call(f"{command} --json")[what] == where
        assert f"{what:<{width}} {where}\n" in call(command)


def test_no_truth_and_why(call, tmp_path):  # noqa: F811
    link = {"nodes": [{"id": "s"}, {"id": "t"}], "edges": [{"source": "s", "target": "t", "hours": 2, "lanes": 1}]}
    (tmp_path / "x.json").write_text(json.dumps(link))
    words = "x.json --source s --target t"
    why = "(there is no edge attribute `weight`; others are hours, lanes)"
    assert call(f"show {words} --json")["length"] is None
    assert f"not known: the file has no true numbers {why}" in call(f"show {words}")
    assert why in call(f"solve {words}", code=1)
    assert call(f"show {words} --attribute hours --json")["length"] == "edge attribute `hours`"


def test_stored_problems_have_no_column(call):  # noqa: F811
    assert call("show town --json")["length"] is None
    assert "length" not in call("show cyclic-matching --json")
    assert "\n  length " not in call("show town")


def test_an_attribute_cannot_steer_the_terminal(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    link = {"nodes": [{"id": "s"}, {"id": "t"}], "edges": [{"source": "s", "target": "t", "\x1b[2J": 2}]}
    (tmp_path / "x.json").write_text(json.dumps(link))
    for attribute in (["--attribute", "\x1b[2J"], []):
        assert main(["show", "x.json", "--source", "s", "--target", "t", *attribute]) == 0
        assert "\x1b" not in capsys.readouterr().out

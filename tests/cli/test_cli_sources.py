"""Trees, knapsacks, groups and programs from people's own files, and the stored instances of the new kinds."""

import importlib.util
import json
import os

import networkx as nx
import pytest

from combopeps import load_instance
from combopeps.cli import main
from combopeps.cli.text import answer_text, difference_text

BAG = "item,kg,mean\ntent,5,9\nrope,2,3\nstove,3,5\nboat,80,70\nbook,4,1\n"
TEAM = "item,role,mean\nann,cook,3\ncleo,driver,1\nbob,cook,4\ndan,driver,2\neve,driver,7\n"


@pytest.fixture
def call(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    graph = nx.Graph()
    graph.add_weighted_edges_from([("a", "b", 3.0), ("b", "c", 1.0), ("a", "c", 2.0), ("c", "d", 5.0)])
    nx.write_graphml(graph, "roads.graphml")
    (tmp_path / "bag.csv").write_text(BAG)
    (tmp_path / "team.csv").write_text(TEAM)

    def run(line, *, code=0):
        got = main(line.split())
        out, err = capfd.readouterr()
        assert got == code, out + err
        return json.loads(out) if "--json" in line else out + err

    return run


@pytest.mark.parametrize("name", ["tree-e20", "tree-e25", "partition-10", "knapsack-20", "which-model", "timetable"])
def test_stored_instances_are_shown(call, name):
    instance = load_instance(name)
    text = call(f"show {name} --plot {name}.png")
    assert answer_text(instance.best, instance.oracle) in text
    assert "->" not in text
    assert "tau*" in text
    assert os.path.getsize(f"{name}.png") > 5_000


@pytest.mark.parametrize("name", ["tree-e20", "which-model"])
def test_stored_instances_are_solved(call, name):
    found = call(f"solve {name} --delta 0.1 --json --plot {name}.png")
    assert found["correct"]
    text = call(f"solve {name} --budget 10 --delta 0.1", code=3)
    assert "->" not in text.partition("samples")[0]


def test_a_tree_from_beginning_to_end(call):
    shown = call("show roads.graphml --tree --json")
    assert shown["length"] == "edge attribute `weight`"
    assert sorted(map(sorted, shown["best"])) == [["a", "c"], ["b", "c"], ["c", "d"]]
    assert shown["value"] == 8.0
    assert call("show roads.graphml --tree --objective max --json")["value"] == 10.0
    assert call("solve roads.graphml --tree --noise 0.01 --json")["correct"]
    call("init roads.graphml --tree --state run.db")
    call("observe --state run.db c b 2.0")  # either way round
    call("ask --state run.db")
    text = call("status --state run.db --plot x.png", code=3)
    assert "c - d" in text.splitlines()[0]
    assert "->" not in text


def test_a_knapsack_from_beginning_to_end(call):
    shown = call("show bag.csv --knapsack --capacity 9 --weight-column kg --json")
    assert sorted(shown["best"]) == ["stove", "tent"]
    assert shown["mean"] == "column `mean`"
    assert shown["d"] == 4
    call("init bag.csv --capacity 9 --weight-column kg --noise 0.1 --state run.db")
    call("observe --state run.db tent 9")
    assert "boat" in call("observe --state run.db boat 9", code=1)


def test_groups_from_beginning_to_end(call):
    shown = call("show team.csv --quota 1 --group-column role --json")
    assert shown["best"] == [["cook", ["bob"]], ["driver", ["eve"]]]
    assert "cook: bob, driver: dan + eve" in call("show team.csv --quota cook=1,driver=2 --group-column role")
    call("init team.csv --quota 1 --group-column role --noise 0.1 --state run.db")
    assert call("status --state run.db --json", code=3)["samples"] == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("show bag.csv --knapsack --weight-column kg", "add --capacity"),
        ("show bag.csv --capacity 9", "weight: there is no such column; the header has item, kg, mean"),
        ("show bag.csv --capacity 9 --k 2", "different sets"),
        ("show bag.csv --capacity 9 --quota 2", "different sets"),
        ("show bag.csv --k 2 --weight-column kg", "--weight-column has no meaning"),
        ("show bag.csv --k 2 --group-column kg", "--group-column has no meaning"),
        ("show bag.csv --k 2 --tree", "--tree has no meaning"),
        ("show team.csv --quota pilot=1 --group-column role", "'pilot', which is no group"),
        ("show team.csv --quota 3 --group-column role", "quota of group 'cook'"),
        ("show team.csv --quota 0 --group-column role", "all quotas are 0"),
        ("show roads.graphml --tree --source a", "--source has no meaning"),
        ("show roads.graphml --tree --capacity 3", "--capacity has no meaning"),
        ("show roads.graphml", "or --tree"),
        ("show town --tree", "--tree has no meaning"),
        ("show x.mps --k 3", "--k has no meaning"),
    ],
)
def test_words_that_do_not_fit(call, line, message):
    assert message in call(line, code=1)
    assert message in call(f"{line} --json", code=1)["error"]


@pytest.mark.parametrize("word", ["1.5", "a=1,a=2", "a=", "a=x"])
def test_quotas_that_are_none(call, word):
    call(f"show team.csv --quota {word}", code=2)


@pytest.mark.skipif(importlib.util.find_spec("highspy") is None, reason="needs the extra milp")
def test_a_program_from_beginning_to_end(call, tmp_path):
    program = "Maximize\n obj: 3 x + 2 y + z\nSubject To\n cap: 2 x + y + z <= 3\nGeneral\n z\nBinary\n x y\nEnd\n"
    (tmp_path / "menu.lp").write_text(program)
    shown = call("show menu.lp --json")
    assert shown["reward"] == "objective of the file"
    assert shown["best"] == [["x", 1], ["y", 1], ["z", 0]]
    assert "x: 1, y: 1   (value 5)" in call("show menu.lp")
    call("init menu.lp --state run.db --noise 0.1")
    call("ask --state run.db")


def test_answers_as_people_read_them():
    e20 = load_instance("tree-e20").oracle
    assert answer_text([(2, 1), (1, 3)], e20) == "1 - 3, 2 - 1"
    assert difference_text([(1, 2), (1, 3)], [(1, 2), (2, 3)], e20) == "2 - 3 instead of 1 - 3"
    assert answer_text({"cook": {"b", "a"}, "driver": set()}) == "cook: a + b, driver: nothing"
    assert difference_text({"g": {"a"}}, {"g": {"b", "c"}}) == "g: b + c instead of a"
    assert answer_text(set()) == "nothing"


def test_what_a_library_prints_is_no_result(call, tmp_path):
    (tmp_path / "noisy_library.py").write_text(
        "import os\nfrom combopeps import TopKOracle\n"
        "class Noisy(TopKOracle):\n"
        "    def _argmax_batch(self, thetas):\n"
        "        os.write(1, b'solving ...\\n')\n"
        "        return super()._argmax_batch(thetas)\n"
        "def make(): return Noisy(3, k=1)\n"
    )
    assert call("show --oracle noisy_library:make --json")["d"] == 3
    assert "unknown numbers" in call("show --oracle noisy_library:make").partition("solving")[0]

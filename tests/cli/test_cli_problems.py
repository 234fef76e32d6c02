"""Problems from people's own files and oracles, and what options state about them."""

import importlib.util
import json
import os
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
from tampering import alter
from unit_problem import unit_problem

from combopeps import Campaign, TopKOracle, load_instance, save_instance
from combopeps.cli.formatting import answer_text, difference_text
from combopeps.io import Instance

BAG = "item,kg,mean\ntent,5,9\nrope,2,3\nstove,3,5\nboat,80,70\nbook,4,1\n"


TEAM = "item,role,mean\nann,cook,3\ncleo,driver,1\nbob,cook,4\ndan,driver,2\neve,driver,7\n"


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    graph = nx.Graph()
    graph.add_weighted_edges_from([("a", "b", 3.0), ("b", "c", 1.0), ("a", "c", 2.0), ("c", "d", 5.0)])
    nx.write_graphml(graph, "roads.graphml")
    (tmp_path / "bag.csv").write_text(BAG)
    (tmp_path / "team.csv").write_text(TEAM)


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
def test_options_that_do_not_fit_the_file_are_refused(call, line, message):
    assert message in call(line, code=1)
    assert message in call(f"{line} --json", code=1)["error"]


@pytest.mark.parametrize("word", ["1.5", "a=1,a=2", "a=", "a=x"])
def test_invalid_quotas_are_usage_errors(call, word):
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


def test_answers_and_differences_in_words():
    e20 = load_instance("tree-e20").oracle
    assert answer_text([(2, 1), (1, 3)], e20) == "1 - 3, 2 - 1"
    assert difference_text([(1, 2), (1, 3)], [(1, 2), (2, 3)], e20) == "2 - 3 instead of 1 - 3"
    assert answer_text({"cook": {"b", "a"}, "driver": set()}) == "cook: a + b, driver: nothing"
    assert difference_text({"g": {"a"}}, {"g": {"b", "c"}}) == "g: b + c instead of a"
    assert answer_text(set()) == "nothing"


def test_what_a_library_prints_is_not_on_stdout(call, tmp_path):
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


NAMES = ["a", "b", "c"]


KNOWN = {
    "noise_std": [0.5, 1.0, 2.0],
    "cost": [1.0, 2.0, 3.0],
    "prior_mean": [1.0, 2.0, 3.0],
    "prior_std": [4.0, 5.0, 6.0],
}


UNKNOWN = {"noise_std": None, "noise_ratio": [1.0, 1.0, 3.0], "cost": [1.0, 2.0, 3.0]}


@pytest.fixture
def stated():
    """Files of an instance with all that can be stated, and of one with noise of unknown size."""
    for name, options in (("known", KNOWN), ("unknown", UNKNOWN)):
        instance = Instance(name, unit_problem(TopKOracle(NAMES, k=1), **options), np.array([1.0, 2.0, 6.0]))
        save_instance(instance, f"{name}.json")


@pytest.mark.usefixtures("stated")
def test_show_states_noise_prior_and_cost_of_every_arm(call):
    assert "noise 0.5 to 2, prior 1 to 3 +- 4 to 6, cost 1 to 3" in call("show known.json")
    found = call("show known.json --json")
    assert (found["noise_std"], found["prior_std"]) == ([0.5, 1.0, 2.0], [4.0, 5.0, 6.0])
    assert "noise estimated, prior 0 +- 1" in call("show unknown.json")
    assert call("show unknown.json --json")["noise_std"] is None


@pytest.mark.usefixtures("stated")
@pytest.mark.parametrize("batch", [1, 4])
def test_solve_finds_the_answer_where_arms_differ_in_noise_and_cost(call, batch):
    assert call(f"solve known.json --budget 300 --batch {batch} --json")["answer"] == ["c"]


@pytest.mark.usefixtures("stated")
def test_init_keeps_what_the_options_do_not_state(call):
    said = call("init known.json --state one.db")
    assert "noise 0.5 to 2, prior 1 to 3 +- 4 to 6, cost 1 to 3: in the units" in said
    call("init known.json --state two.db --noise 0.7")
    call("init unknown.json --state three.db --prior 9")
    call("init unknown.json --state four.db --noise 2")
    one, two, three, four = (Campaign.open(f"{x}.db").problem for x in ("one", "two", "three", "four"))
    for key in KNOWN:
        np.testing.assert_array_equal(getattr(one, key), KNOWN[key])
    assert two.noise_std == 0.7
    for key in ("cost", "prior_mean", "prior_std"):
        np.testing.assert_array_equal(getattr(two, key), KNOWN[key])
    assert (three.noise_std, three.prior_std) == (None, 9.0)
    np.testing.assert_array_equal(three.noise, [1.0, 1.0, 3.0])
    np.testing.assert_array_equal(three.cost, [1.0, 2.0, 3.0])
    assert four.noise_std == 2.0
    np.testing.assert_array_equal(four.cost, [1.0, 2.0, 3.0])


def test_a_csv_file_of_edges_is_refused_with_the_cure(call, tmp_path):
    (tmp_path / "edges.csv").write_text("source,target,minutes\na,b,3\nb,c,4\n")
    said = call("show edges.csv --source a --target c", code=1)
    assert "networkx" in said
    assert ".graphml" in said


MODULE = """
import networkx as nx
import numpy as np
from combopeps import ArgmaxOracle, Problem
from combopeps.io import Instance

print("loading")

class Best(ArgmaxOracle):
    def _argmax_batch(self, thetas):
        return np.eye(self.dim)[thetas.argmax(axis=1)]

def make(): return Best(["a", "b", "c"])
def other(): return Best(["a", "b", "d"])
def problem(): return Problem(make(), noise_std=0.25)
def instance(): return Instance("mine", problem(), [0.0, 2.0, 1.0])
def number(): return 3
def fails(): raise RuntimeError("no licence")
def leaves(): raise SystemExit(0)
oracle = make()
class Shop:
    make = staticmethod(make)
"""


@pytest.fixture
def own(call, tmp_path, monkeypatch, request):
    """`call` in a folder with a module of one's own, under a name that no other test uses."""
    name = f"own_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    (tmp_path / f"{name}_broken.py").write_text("import no_such_package_here\n")
    (tmp_path / f"{name}_raises.py").write_text("raise ValueError('half written')\n")
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    return lambda line, **options: call(line.replace("OWN", name), **options)


def test_a_campaign_with_an_oracle_of_ones_own(own):
    assert "--oracle" in own("init --oracle OWN:make --state run.db")
    options = "--oracle OWN:make --state run.db"
    queries = own(f"ask {options} -n 3 --json")["queries"]
    assert len(queries) == 3
    own(f"tell {options} 0 1.5")
    own(f"abandon {options} 1")
    own(f"observe {options} b 2.5")
    status = own(f"status {options} --json", code=3)
    assert status["samples"] == 2
    assert "--oracle" in own(f"status {options}", code=3)
    assert own(f"check {options} --json") == {"sound": True, "faults": [], "events": 5, "asked": 3, "told": 2}


def test_a_missing_or_other_oracle_is_refused_with_the_cure(own):
    own("init --oracle OWN:make --state run.db")
    for command in ("ask", "status", "tell", "abandon", "check", "observe"):
        rest = {"tell": " 0 1", "abandon": " 0", "observe": " a 1"}.get(command, "")
        said = own(f"{command} --state run.db{rest} --json", code=1)
        assert said["type"] == "OracleMismatchError"
        assert "--oracle package.module:factory" in said["error"]
    said = own("ask --state run.db --oracle OWN:other --json", code=1)
    assert said["type"] == "OracleMismatchError"
    assert "lacks ['c'] and adds ['d']" in said["error"]


def test_a_factory_may_return_a_problem_or_an_instance(own):
    assert own("show --oracle OWN:problem --json")["noise_std"] == 0.25
    assert own("show --oracle OWN:problem --noise 3 --json")["noise_std"] == 3.0
    assert own("solve --oracle OWN:instance --json")["answer"] == ["b"]
    own("init --oracle OWN:instance --state run.db")
    own("ask --state run.db --oracle OWN:instance")
    own("ask --state run.db --oracle OWN:Shop.make")
    assert "no Instance with a theta" in own("solve --oracle OWN:make", code=1)


def test_a_campaign_of_a_known_kind_takes_none_of_another(own):
    own("init topk-paper --state run.db")
    assert own("ask --state run.db --oracle OWN:make --json", code=1)["type"] == "OracleMismatchError"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("OWN", "takes package.module:factory"),
        ("OWN:", "takes package.module:factory"),
        (":make", "takes package.module:factory"),
        ("../OWN:make", "takes package.module:factory"),
        ("no_such_module_here:make", "there is no module 'no_such_module_here'"),
        ("OWN.inner:make", "raised|no module"),
        ("OWN_broken:make", "needs 'no_such_package_here', which is not installed"),
        ("OWN_raises:make", "raised ValueError: half written"),
        ("OWN:nothing", "there is no 'nothing'"),
        ("OWN:oracle", "is a Best, not a function"),
        ("OWN:number", "returned a int"),
        ("OWN:fails", "raised RuntimeError: no licence"),
        ("OWN:leaves", "raised SystemExit"),
    ],
)
def test_what_is_wrong_with_a_factory_is_named(own, spec, message):
    for line in (f"init --oracle {spec} --state run.db --json", f"show --oracle {spec} --json"):
        said = own(line, code=1)
        assert said["type"] == "ParameterError"
        assert any(part in said["error"] for part in message.split("|")), said


def test_a_problem_and_an_oracle_exclude_each_other(own):
    own("init --state run.db", code=2)
    own("init town --oracle OWN:make --state run.db", code=2)
    assert "no meaning" in own("show --oracle OWN:make --k 2", code=1)


def test_as_a_command_modules_of_the_folder_are_found(tmp_path):
    (tmp_path / "shop.py").write_text(MODULE)
    command = [sys.executable, "-P", "-c", "import sys; from combopeps.cli import main; sys.exit(main())"]
    done = subprocess.run(
        [*command, "show", "--oracle", "shop:make", "--json"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["d"] == 3
    assert "loading" in done.stderr


def test_a_file_cannot_name_a_module(own, tmp_path):
    """Whatever stands in a header, nothing is imported because of it."""
    (tmp_path / "trap.py").write_text("open('sprung', 'w').close()\n")
    own("init --oracle OWN:make --state run.db")
    alter(tmp_path / "run.db", 1, '"class":"Best"', '"class":"trap:make"')
    own("ask --state run.db", code=1)
    own("ask --state run.db --oracle OWN:make", code=1)  # the checksum of the event
    assert not (tmp_path / "sprung").exists()

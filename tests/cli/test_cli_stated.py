"""Problems whose arms differ in noise and cost, and priors by component, on the command line."""

import json

import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import Campaign, TopKOracle, save_instance
from combopeps.cli import main
from combopeps.io import Instance

NAMES = ["a", "b", "c"]
KNOWN = {
    "noise_std": [0.5, 1.0, 2.0],
    "cost": [1.0, 2.0, 3.0],
    "prior_mean": [1.0, 2.0, 3.0],
    "prior_std": [4.0, 5.0, 6.0],
}
UNKNOWN = {"noise_std": None, "noise_ratio": [1.0, 1.0, 3.0], "cost": [1.0, 2.0, 3.0]}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, options in (("known", KNOWN), ("unknown", UNKNOWN)):
        instance = Instance(name, unit_problem(TopKOracle(NAMES, k=1), **options), np.array([1.0, 2.0, 6.0]))
        save_instance(instance, f"{name}.json")
    return tmp_path


def test_show(folder, capsys):
    assert main(["show", "known.json"]) == 0
    assert "noise 0.5 to 2, prior 1 to 3 +- 4 to 6, cost 1 to 3" in capsys.readouterr().out
    assert main(["show", "known.json", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["noise_std"], found["prior_std"]) == ([0.5, 1.0, 2.0], [4.0, 5.0, 6.0])
    assert main(["show", "unknown.json"]) == 0
    assert "noise estimated, prior 0 +- 1" in capsys.readouterr().out
    assert main(["show", "unknown.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["noise_std"] is None


@pytest.mark.parametrize("batch", ["1", "4"])
def test_solve(folder, capsys, batch):
    assert main(["solve", "known.json", "--budget", "300", "--batch", batch, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["answer"] == ["c"]


def test_init_keeps_what_the_options_do_not_say(folder, capsys):
    assert main(["init", "known.json", "--state", "one.db"]) == 0
    assert "noise 0.5 to 2, prior 1 to 3 +- 4 to 6, cost 1 to 3: in the units" in capsys.readouterr().out
    assert main(["init", "known.json", "--state", "two.db", "--noise", "0.7"]) == 0
    assert main(["init", "unknown.json", "--state", "three.db", "--prior", "9"]) == 0
    assert main(["init", "unknown.json", "--state", "four.db", "--noise", "2"]) == 0
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

"""An answer is right when no other is better: one of several that are equally good is not wrong."""

import json

import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import ShortestPathOracle, TopKOracle, simulate
from combopeps.cli import main
from combopeps.oracles.base import as_good

TIES = {
    "items": ("x.csv", "item,mean\na,1\nb,1\nc,0\n", ["--k", "1"]),
    "rounding": ("x.csv", "item,mean\na,0.3\nb,0.30000000000000004\nc,-5\n", ["--k", "1"]),
    "assignments": ("x.csv", "who,dig,plant,mow\nann,1,1,0\nbob,1,1,0\ncid,0,0,9\n", []),
    "routes": ("x.gr", "p sp 4 5\na 1 2 0.1\na 2 4 0.2\na 1 3 0.15\na 3 4 0.15\na 1 4 9\n", ["--source", "1", "--target", "4"]),
}  # fmt: skip


@pytest.mark.parametrize("case", TIES)
def test_solve_calls_every_best_answer_right(case, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    name, text, options = TIES[case]
    (tmp_path / name).write_text(text)
    answers = set()
    for seed in range(12):
        main(["solve", name, *options, "--noise", "0.2", "--budget", "60", "--seed", str(seed), "--json"])
        said = json.loads(capsys.readouterr().out)
        answers.add(json.dumps(said["answer"]))
        assert said["correct"], said
    assert len(answers) > 1  # both of the tied ones are found
    main(["solve", name, *options, "--noise", "0.2", "--budget", "60"])
    assert "the answer is right" in capsys.readouterr().out


def test_a_wrong_answer_is_called_wrong(tmp_path, capsys):
    """The negative control: an answer from three hopelessly noisy measurements is often worse, and is said to be."""
    (tmp_path / "x.csv").write_text("item,mean\na,1e-9\nb,0\nc,0\n")
    said = set()
    for seed in range(16):
        line = ["solve", str(tmp_path / "x.csv"), "--k", "1", "--budget", "3", "--stopping", "budget", "--noise", "1"]
        main([*line, "--seed", str(seed), "--json"])
        found = json.loads(capsys.readouterr().out)
        assert found["correct"] == (found["answer"] == ["a"])
        said.add(found["correct"])
    assert said == {True, False}


def test_simulations_count_ties_as_right():
    trace = simulate(unit_problem(TopKOracle(3, 1)), [1.0, 1.0, -9.0], "uniform", budget=60, replications=50, rng=0)
    assert trace.correct[:, -1].all()
    edges = [("s", "a"), ("a", "t"), ("s", "b"), ("b", "t"), ("s", "t")]
    oracle = ShortestPathOracle(__import__("networkx").DiGraph(edges), "s", "t")
    lengths = dict(zip(edges, [0.1, 0.2, 0.15, 0.15, 90.0], strict=True))  # 0.1 + 0.2 is not 0.15 + 0.15 in floats
    theta = [lengths[edge] for edge in oracle.components]
    trace = simulate(unit_problem(oracle), theta, "uniform", budget=400, replications=50, rng=0)
    assert trace.correct[:, -1].all()


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_the_tolerance_is_relative(scale):
    z, best = np.eye(3)[:2]
    assert as_good(z, best, scale * np.array([1.0, 1.0 + 4e-16, 0.0]))
    assert not as_good(z, best, scale * np.array([1.0, 1.0 + 1e-9, 0.0]))

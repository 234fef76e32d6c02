"""Campaigns with an epsilon: almost the best is good enough, and the file, the status and the claim say so."""

import json
from math import erfc, sqrt

import numpy as np
import pytest
from backends import events
from unit_problem import unit_problem

from combopeps import Campaign, TopKOracle
from combopeps.campaign import copy, records
from combopeps.campaign.store import store_at
from combopeps.cli import main
from combopeps.errors import ParameterError, StateFileError

TRUTH = {"a": 0.0, "b": 3.0, "c": 2.9, "d": 0.5}


def problem():
    return unit_problem(TopKOracle(TRUTH, k=1), prior_std=3.0)


def measured(path, samples=60, **options):
    """Every arm in turn, the same numbers for each campaign."""
    campaign = Campaign.create(path, problem(), **options)
    noise = np.random.default_rng(1)
    campaign.observe_table([("abcd"[i % 4], TRUTH["abcd"[i % 4]] + noise.normal()) for i in range(samples)])
    return campaign


@pytest.mark.parametrize(
    ("stopping", "claim"),
    [
        ("posterior", "the answer is worse than the best by more than 2 with posterior probability at most 0.05"),
        (
            "certified",
            "the answer is worse than the best by more than 2 with probability at most 0.05, for every theta",
        ),
        ("heuristic", "none is proved"),
        ("clucb", "the answer is worse than the best by more than 2 with probability at most 0.05, for every theta"),
    ],
)
def test_what_is_almost_the_best_is_enough(stopping, claim, tmp_path):
    path = tmp_path / "lenient.db"
    status = measured(path, 200, stopping=stopping, epsilon=2.0).status()
    assert status.stop
    assert status.epsilon == 2.0
    assert status.claim.startswith(claim)
    again = Campaign.open(path)
    assert again.epsilon == 2.0
    assert again.status().claim == status.claim
    strict = measured(tmp_path / "strict.db", 200, stopping=stopping).status()  # the negative control
    assert not strict.stop
    assert strict.epsilon == 0.0


def test_the_error_probability_is_that_of_being_worse_by_more(tmp_path):
    campaign = Campaign.create(tmp_path / "run.db", unit_problem(TopKOracle(["a", "b"], k=1)), epsilon=0.3)
    strict = Campaign.create(tmp_path / "strict.db", unit_problem(TopKOracle(["a", "b"], k=1)))
    for each in (campaign, strict):
        for label, y in (("a", 1.0), ("b", 0.9), ("a", 0.9), ("b", 0.8)):
            each.observe(label, y)
    belief = campaign.belief
    gap, width = belief.theta_hat[0, 0] - belief.theta_hat[0, 1], sqrt(belief.variance[0].sum())
    wanted = [0.5 * erfc((gap + epsilon) / (width * sqrt(2))) for epsilon in (0.3, 0.0)]
    assert campaign.status().error_probability == pytest.approx(wanted[0], abs=4 * sqrt(0.25 / 256))
    assert strict.status().error_probability == pytest.approx(wanted[1], abs=0.1)
    assert wanted[1] - wanted[0] > 0.05
    assert campaign.status().error_probability == campaign.status().error_probability


def header_of(path):
    return events(path)[0]


def test_a_file_without_an_epsilon_is_as_it_was(tmp_path):
    Campaign.create(tmp_path / "run.db", problem())
    assert set(header_of(tmp_path / "run.db")) == {
        "kind", "schema", "problem", "policy", "delta", "stopping", "seed", "versions",
    }  # fmt: skip
    assert Campaign.open(tmp_path / "run.db").epsilon == 0.0
    Campaign.create(tmp_path / "lenient.db", problem(), epsilon=np.float32(0.5))
    assert header_of(tmp_path / "lenient.db")["epsilon"] == 0.5


@pytest.mark.parametrize("epsilon", [-1.0, float("nan"), float("inf"), "0.1", None])
def test_an_epsilon_that_makes_no_sense_is_refused_before_there_is_a_file(epsilon, tmp_path):
    with pytest.raises(ParameterError, match="epsilon"):
        Campaign.create(tmp_path / "run.db", problem(), epsilon=epsilon)
    assert not (tmp_path / "run.db").exists()


@pytest.mark.parametrize("epsilon", [-1.0, 1, "0.1", None, True, [0.1]])
def test_an_epsilon_that_makes_no_sense_in_a_file(epsilon, tmp_path):
    document, _, _ = records.document_of(problem())
    header = records.header(document, "top-two", 0.05, "posterior", 0) | {"epsilon": epsilon}
    store_at(tmp_path / "run.db").create([header])
    with pytest.raises(StateFileError, match=r"event 1: .*epsilon"):
        Campaign.open(tmp_path / "run.db")


def test_a_copy_keeps_it(tmp_path):
    measured(tmp_path / "run.db", 3, epsilon=0.5)
    copy(tmp_path / "run.db", tmp_path / "new.db")
    assert Campaign.open(tmp_path / "new.db").epsilon == 0.5


def test_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "beers.csv").write_text("item,mean\nale,1.0\nbock,1.01\ncider,0.0\n")

    def said(line, code):
        assert main(line.split()) == code
        return capsys.readouterr().out

    init = "init beers.csv --k 1 --noise 0.1 --prior 2 --state run.db"
    assert main([*init.split(), "--epsilon", "-1"]) == 1
    said(f"{init} --epsilon 0.5", 0)
    text = said("status --state run.db", 3)
    assert "worse than the best by more than 0.5 with posterior probability" in text
    assert "at delta = 0.05, epsilon = 0.5 is not satisfied" in text
    campaign = Campaign.open("run.db")
    for label, y in (("ale", 1.0), ("bock", 1.01), ("cider", 0.0)) * 3:
        campaign.observe(label, y)
    found = json.loads(said("status --state run.db --json", 0))
    assert (found["epsilon"], found["stop"]) == (0.5, True)
    assert found["error_probability"] < 0.05
    assert "stop           yes: the answer is worse than the best by more than 0.5" in said("status --state run.db", 0)


def test_solve_takes_an_epsilon(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "beers.csv").write_text("item,mean\nale,1.0\nbock,1.01\ncider,0.0\n")

    def said(*words):
        code = main(["solve", "beers.csv", "--k", "1", "--noise", "0.3", "--delta", "0.01", "--budget", "800", *words])
        return code, capsys.readouterr().out

    def found(*words):
        code, out = said("--json", *words)
        return code, json.loads(out)

    losses, few, many = set(), 0, 0
    for seed in map(str, range(12)):
        code, lenient = found("--epsilon", "0.2", "--seed", seed)
        assert (code, lenient["epsilon"]) == (0, 0.2)
        few += lenient["samples"]
        many += found("--seed", seed)[1]["samples"]
        assert "worse than the best by more than 0.2" in lenient["claim"]
        losses.add(round(lenient["loss"], 6))
        assert lenient["correct"] == (lenient["loss"] == 0.0)
        text = said("--epsilon", "0.2", "--seed", seed)[1]
        assert ("the answer is right" in text) == lenient["correct"]
        assert ("worse than the best by 0.01, which epsilon allows" in text) != lenient["correct"]
        assert "WRONG" not in text
    assert losses == {0.0, 0.01}  # both happen
    assert few < many / 4

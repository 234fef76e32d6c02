"""`combopeps plan`: forecasts, guesses and pictures before anything is measured."""

import numpy as np
import pytest

from combopeps import load_instance, plan


def test_plan_agrees_with_the_library(call):
    said = call("plan cyclic-matching --stopping posterior,verified --runs 2 --jobs 1 --seed 3 --json")
    instance = load_instance("cyclic-matching")
    ahead = plan(instance.problem, theta=instance.theta, stopping=["posterior", "verified"], runs=2, rng=3, n_jobs=1)
    for row, forecast in zip(said["forecasts"], ahead.forecasts, strict=True):
        assert (row["rule"], row["samples"]) == (forecast.rule, forecast.samples.tolist())
        assert row["mean_samples"] == forecast.mean_samples.value
        assert row["curve"][-1]["right"] == forecast.right_at[:, -1].mean()
    assert said["words"] == ahead.words
    again = call("plan cyclic-matching --stopping posterior --stopping heuristic --runs 1 --jobs 1")
    assert "The posterior rule ends after" in again
    assert "The heuristic rule ends after" in again


def test_plan_for_a_budget_writes_a_table_and_a_picture(call, tmp_path):
    text = call("plan cyclic-matching --budget 40 --runs 5 --jobs 1 --plot ahead.png --csv ahead.csv")
    assert "With 40 measurements you will be right in about" in text
    assert "the delta that this budget reaches" in text
    assert (tmp_path / "ahead.png").read_bytes()[:4] == b"\x89PNG"
    lines = (tmp_path / "ahead.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["rule", "posterior", "budget"]


def test_plan_for_a_guess_from_a_file(call, tmp_path):
    (tmp_path / "beers.csv").write_text("item\nale\nbock\ncider\n")
    (tmp_path / "guess.csv").write_text("label,value\nbock,2.5\nale,0.5\ncider,1.0\n")
    (tmp_path / "unsure.csv").write_text("label,value,sem\nbock,2.5,0.1\nale,0.5,0.2\ncider,1.0,\n")
    beers = "plan beers.csv --k 1 --noise 1 --prior-mean 0 --prior 1 --runs 3 --budget 40 --jobs 1 --json"
    drawn, exact, unsure = (call(f"{beers} {more}") for more in ("", "--theta guess.csv", "--theta unsure.csv"))
    assert drawn["theta"] == "from the prior"
    assert exact["assumes"] == "theta as guessed"
    assert "standard deviation of 0 to 0.2" in unsure["assumes"]
    assert "standard deviation of 0.3" in call(f"{beers} --theta guess.csv --theta-std 0.3")["assumes"]
    assert exact["guessed"]
    assert not drawn["guessed"]
    for text, words in (
        ("label,value\nbock,2.5\nale,0.5\n", "says nothing about 1 of 3"),
        ("label,value\nbock,2.5\nbock,0.5\n", "twice"),
        ("label,value\nstout,2.5\n", "stout"),
        ("label,value\nbock,x\n", "number"),
    ):
        (tmp_path / "bad.csv").write_text(text)
        assert words in call(f"{beers} --theta bad.csv", code=1)["error"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--runs 0", "runs must be an integer of at least 1"),
        ("--budget 5", "each of the 23 arms once: give at least 23"),
        ("--delta 0", "delta must lie in (0, 1)"),
        ("--stopping best", "unknown stopping rule 'best'"),
        ("--stopping posterior,", "names separated by commas"),
        ("--stopping budget", "needs a budget"),
        ("--from-prior --theta-std 1", "leave --theta-std out"),
        ("--from-prior --theta x.csv", "leave --theta out"),
        ("--theta-std -1", "must not be negative"),
        ("--theta nowhere.csv", "nowhere.csv"),
        ("--jobs 0", "n_jobs"),
        ("--seed -1", "must not be negative"),
        ("--plot x.nothing", "told by the suffix"),
        ("--csv nowhere/x.csv", "nowhere"),
        ("--seconds 0", "seconds must be a positive number"),
    ],
)
def test_invalid_options_are_refused_before_any_run(call, words, said, monkeypatch):
    from combopeps.session import plan as before

    monkeypatch.setattr(before, "planned_run", lambda *task: pytest.fail("a run was begun"))
    assert said in call(f"plan town {words} --json", code=1)["error"]


def test_plan_from_the_prior(call):
    said = call("plan town --from-prior --budget 25 --stopping budget --runs 3 --json")
    assert said["theta"] == "from the prior"
    assert np.isfinite(said["reach"]["epsilon"])
    assert said["reach"]["scale"] is None

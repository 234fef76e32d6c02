"""`python -m benchmarks.greedy_stops` in its smallest form, and what `benchmarks.greedy` is to measure."""

import numpy as np
import pytest

from benchmarks import greedy, greedy_stops
from benchmarks._store import Store, read_csv
from benchmarks.paper.wider import NAMES
from combopeps.session import Trace


def test_every_problem_and_policy_has_its_row(tmp_path, monkeypatch):
    monkeypatch.setattr(greedy_stops, "BUDGET", 30)
    greedy_stops.main(["--runs", "2", "--out", str(tmp_path)])
    rows = read_csv(tmp_path / "stops.csv")
    assert {(row["problem"], row["policy"]) for row in rows} == {
        (name, policy) for name in (*greedy_stops.PRIOR, *greedy_stops.PLANTED) for policy in greedy_stops.POLICIES
    }
    assert all(float(row["samples"]) <= 30 and int(row["wrong"]) <= int(row["stopped"]) for row in rows)
    assert (tmp_path / "stops.md").read_text().count("\n") == 4 + len(rows)


def test_the_six_problems_are_those_of_the_paper_s_comparison():
    assert set(greedy.SIX) == set(NAMES)


def test_ratios_are_those_of_the_samples(tmp_path, monkeypatch):
    """Right from t = 10 on, or from t = 20 on: a ratio of one half on every problem."""

    def trace(store, unit):
        first = {"greedy": 10, "top-two": 20}[unit.params["policy"]]
        t = np.arange(1, 41)
        correct = np.tile(t >= first, (unit.params["runs"], 1))
        return Trace(t, correct, np.zeros((len(correct), 1)), 0.0 * t, 0.0 * t, 0, 0.0 * correct)

    monkeypatch.setattr(Store, "trace", trace)
    greedy.write(Store(tmp_path), 8, tmp_path)
    last = (tmp_path / "greedy.md").read_text().splitlines()[-1]
    assert "0.50 (0.50 - 0.50)" in last
    assert {float(row["samples"]) for row in read_csv(tmp_path / "samples.csv")} == {10.0, 20.0}


@pytest.mark.parametrize("name", greedy.BUDGETS)
def test_recipes_can_be_made(name):
    assert all(greedy.problem(recipe).theta.size for recipe in greedy.cases(name))

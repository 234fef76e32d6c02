"""The benchmark of plans: its page is made of its files, and its verdicts can be negative."""

import numpy as np
import pytest

from benchmarks import plan as bench
from benchmarks._store import read_csv


def test_the_page_is_made_of_its_files():
    rows, times = (read_csv(bench.OUT / name) for name in ("plan.csv", "seconds.csv"))
    assert (bench.OUT / "plan.md").read_text() == bench.page(rows, times)
    assert [(row["instance"], row["rule"]) for row in rows] == list(bench.CASES)


def test_what_must_hold():
    """Seeds are fixed: these are facts about the files, not chances."""
    rows = read_csv(bench.OUT / "plan.csv")
    wanted = [row for row in rows if row["rule"] == "posterior"]
    assert {row["instance"] for row in wanted} == {"topk-paper", "two-nets", "cyclic-matching", "nsfnet"}
    for row in wanted:
        assert float(row["low"]) <= float(row["real_mean"]) <= float(row["high"])
        assert abs(float(row["planned_right"]) - float(row["real_right"])) <= bench.POINTS
        assert (row["within"], row["close"]) == ("yes", "yes")
        assert (row["planned_runs"], row["real_runs"]) == ("100", "200")


@pytest.mark.parametrize(("factor", "right", "within", "close"), [(1.0, 0.97, "yes", "yes"), (1.5, 0.9, "NO", "NO")])
def test_verdicts(factor, right, within, close):
    rng = np.random.default_rng(0)
    planned, real = rng.gamma(9.0, 10.0, size=100), factor * rng.gamma(9.0, 10.0, size=200)
    data = {
        "planned": planned.astype(int), "planned_ended": np.ones(100, bool), "planned_right": np.arange(100) < 97,
        "real": real, "real_right": np.arange(200) < 200 * right,
    }  # fmt: skip
    row = dict(zip(bench.HEADER, bench.compared(bench.unit("two-nets", "posterior", 100, 200), data), strict=True))
    assert (row["within"], row["close"]) == (within, close)


def test_a_real_run():
    samples, right = bench._real("two-nets", "posterior", 1)
    assert 10 <= samples <= 2000
    assert right in (True, False)

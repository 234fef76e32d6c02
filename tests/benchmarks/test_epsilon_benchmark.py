"""`python -m benchmarks.epsilon` in its smallest form."""

from benchmarks import epsilon
from benchmarks._store import read_csv


def test_every_problem_and_epsilon_has_its_row(tmp_path, monkeypatch):
    some = {name: epsilon.PROBLEMS[name] for name in ("town", "5 of 30")}
    monkeypatch.setattr(epsilon, "PROBLEMS", some)
    epsilon.main(["--runs", "2", "--jobs", "1", "--out", str(tmp_path)])
    rows = read_csv(tmp_path / "epsilon.csv")
    assert [(row["problem"], float(row["share"])) for row in rows] == [
        (name, share) for name in some for share in epsilon.SHARES
    ]
    assert all(float(row["ratio"]) == 1.0 for row in rows if float(row["share"]) == 0.0)
    assert (tmp_path / "epsilon.md").read_text().count("\n| ") == 3

"""`python -m benchmarks.prior` in its smallest form."""

from benchmarks import prior
from benchmarks._store import read_csv


def test_every_cell_has_its_row(tmp_path, monkeypatch):
    monkeypatch.setattr(prior, "BUDGET", 20)
    monkeypatch.setattr(prior, "NOISES", (0.1,))
    prior.main(["--runs", "2", "--jobs", "1", "--out", str(tmp_path)])
    rows = read_csv(tmp_path / "prior.csv")
    assert {row["problem"] for row in rows} == set(prior.PROBLEMS)
    assert all(int(row["wrong_estimated"]) <= int(row["runs"]) == 2 for row in rows)
    assert all(float(row["samples_estimated"]) <= 20 for row in rows)

"""Reports written by `combopeps report` and from Python."""

import os

import pytest

from combopeps import TopKOracle, identify
from combopeps.cli import main
from combopeps.errors import FileFormatError
from combopeps.viz.html import report


def test_the_command_writes_one_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["init", "town", "--state", "run.db"]) == 0
    assert main(["observe", "--state", "run.db", "station", "market", "3.25"]) == 0
    assert main(["report", "--state", "run.db", "-o", "report.html", "--title", "The <way>"]) == 0
    assert "the page is in report.html" in capsys.readouterr().out
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "The &lt;way&gt;" in page
    assert "station - market" in page
    assert main(["report", "--state", "run.db", "-o", "report.html", "--json"]) == 0
    assert capsys.readouterr().out == '{"report": "report.html", "samples": 1}\n'
    assert sorted(os.listdir(tmp_path)) == ["report.html", "run.db"]


def test_a_result_has_a_report(tmp_path):
    result = identify(TopKOracle(["a", "b"], k=1), lambda x: {"a": 0.0, "b": 2.0}[x], delta=0.1)
    report(result, tmp_path / "r.html", title="Two")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<title>Two</title>" in page
    assert "Stop." in page


def test_invalid_targets_are_rejected_before_any_work(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr("combopeps.viz.html.report_data", None)  # nothing is computed in vain
    for target in ("pipe", "", "no/such/folder.html"):
        with pytest.raises(FileFormatError):
            report(None, tmp_path / target)

"""Edges in a CSV file are no network yet, and the error says how they become one."""

from __future__ import annotations

from pathlib import Path

import pytest

from combopeps.cli.main import main


def test_a_csv_file_of_edges_is_refused_with_the_cure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "roads.csv"
    file.write_text("source,target,minutes\na,b,3\nb,c,4\n")
    assert main(["show", str(file), "--source", "a", "--target", "c"]) == 1
    said = capsys.readouterr().err
    assert "networkx" in said
    assert ".graphml" in said

"""Strange names and files that are no files: one line that says what is wrong."""

import json

import pytest

from combopeps.cli import main


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["show", "a:" + "b" * 5000], "no family"),
        (["show", "b" * 5000], "no instance"),
        (["show", "b" * 5000 + ".csv"], "cannot be read"),
        (["show", "\udcff.csv"], "cannot be read"),
        (["show", "x\0.csv"], "cannot be read"),
        (["show", "folder.csv"], "it is a folder"),
        (["show", "folder.json"], "it is a folder"),
        (["show", "missing.json", "--source", "a", "--target", "b"], "cannot be read"),
        (["show", "empty.csv", "--k", "1"], "a header and at least one row"),
        (["show", "semicolons.csv", "--k", "1"], "the header holds commas and semicolons"),
        (["show", "empty.gr", "--source", "1", "--target", "2"], "empty.gr: there is no line p sp"),
        (["show", "bare.graphml", "--source", "a", "--target", "b"], "which has none"),
        (["solve", "soare", "--save", ""], "cannot be written"),
        (["solve", "soare", "--plot", ""], "cannot be written"),
        (["solve", "soare", "--plot", "picture"], "told by the suffix"),
        (["solve", "soare", "--save", "no/x.json"], "there is no folder 'no' to write into"),
        (["solve", "soare", "--save", "y.png", "--plot", "./y.png"], "name the same file"),
        (["compare", "soare", "--plot", "x.nothing"], "told by the suffix"),
    ],
)
def test_one_line_before_any_work(words, part, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("folder.csv", "folder.json"):
        (tmp_path / name).mkdir()
    for name, text in {
        "empty.csv": "", "semicolons.csv": "item;mean,x\na;1,2\n", "empty.gr": "",
        "bare.graphml": '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="directed"/></graphml>',
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    before = sorted(tmp_path.iterdir())
    for name in ("combopeps.cli.solve.identify", "combopeps.cli.compare.simulate"):
        monkeypatch.setattr(name, lambda *_, **__: pytest.fail("refused only after the work"))
    assert main([*words, "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert part in said["error"]
    assert len(said["error"]) < 6000
    assert "unexpected" not in said["error"]
    assert sorted(tmp_path.iterdir()) == before
    assert main(words) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "text", ["\ufeffitem,mean\r\na,1\r\nb,9\r\n", "item,mean\ra,1\rb,9\r", 'item,mean\n"a",1\n"b",9']
)
def test_files_of_other_systems(text, tmp_path, capsys):
    (tmp_path / "ünï $(x) '.csv").write_text(text, newline="")
    assert main(["show", str(tmp_path / "ünï $(x) '.csv"), "--k", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["best"] == ["b"]

"""Whatever is in a file: an exit code and at most one line, never a traceback, never an error nobody foresaw."""

import random

import networkx as nx
import pytest
from tampering import image, put
from test_cli_commands import ROADS, write_files

from combopeps.cli import main

GR = "p sp 4 5\na 1 2 9\na 1 3 4\na 3 2 2\na 2 4 5\na 3 4 8\n"
TNTP = (
    "<NUMBER OF NODES> 3\n<NUMBER OF LINKS> 3\n<FIRST THRU NODE> 1\n<END OF METADATA>\n"
    "~ \tinit_node\tterm_node\tfree_flow_time\t;\n\t1\t2\t5\t;\n\t2\t3\t5\t;\n\t1\t3\t12\t;\n"
)
ENDS = ["--source", "home", "--target", "work"]
FILES = {
    "roads.graphml": ENDS,
    "roads.json": ENDS,
    "roads.gml": ENDS,
    "roads.gr": ["--source", "1", "--target", "4"],
    "roads.tntp": ["--source", "1", "--target", "3"],
    "beers.csv": ["--k", "2"],
    "crew.csv": [],
    "own.json": [],
}
EACH = 30


def corrupted(data, rng):
    """One to three accidents: a byte changed, a piece lost, doubled, or replaced by something nasty."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.randint(1, 40))
        kind = rng.randrange(6)
        if kind == 0 and at < len(data):
            data[at] = rng.randrange(256)
        elif kind == 1:
            del data[at:end]
        elif kind == 2:
            data[at:at] = data[at:end]
        elif kind == 3:
            data[at:end] = rng.choice(
                [b"\0", b"\xff\xfe", b"NaN", b"1e999", b"-1", b"[" * 50, b'"', b"\n\n", b"9" * 400]
            )
        elif kind == 4:
            del data[at:]
        else:
            data[at:at] = bytes(rng.randrange(256) for _ in range(5))
    return bytes(data)


def check(words, capsys):
    code = main(words)
    out, err = capsys.readouterr()
    assert code in (0, 1, 3), (words, out, err)
    assert "unexpected" not in err, (words, err)
    assert "Traceback" not in out + err
    if code == 1 and words[0] not in ("check", "export"):
        assert err.startswith("combopeps: ")
        assert [line.startswith("combopeps: error: ") for line in err.splitlines()].count(True) == 1
    return code


@pytest.fixture
def folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    (tmp_path / "roads.gr").write_text(GR)
    nx.write_gml(nx.DiGraph([(u, v, {"weight": w}) for u, v, w in ROADS]), tmp_path / "roads.gml")
    (tmp_path / "roads.tntp").write_text(TNTP)
    from combopeps import load_instance, save_instance

    save_instance(load_instance("cyclic-matching"), tmp_path / "own.json")
    text = (tmp_path / "own.json").read_text()
    kept = [line for line in text.splitlines() if '"sha256"' not in line]  # or the checksum would find everything
    kept[-2] = kept[-2].rstrip(",")
    (tmp_path / "own.json").write_text("\n".join(kept))
    return tmp_path


@pytest.mark.parametrize("name", FILES)
def test_problem_files(folder, name, capsys):
    whole, rng, codes = (folder / name).read_bytes(), random.Random(name), []
    assert check(["show", name, *FILES[name]], capsys) == 0
    for i in range(EACH):
        (folder / name).write_bytes(corrupted(whole, rng))
        command = ["show", name] if i % 2 else ["init", name, "--state", f"{i}.db"]
        codes.append(check([*command, *FILES[name]], capsys))
    assert codes.count(1) > EACH / 4  # the accidents are accidents


def test_state_files(folder, capsys):
    assert main(["init", "roads.graphml", *ENDS, "--state", "run.db"]) == 0
    assert main(["ask", "--state", "run.db", "-n", "3"]) == 0
    assert main(["tell", "--state", "run.db", "0", "5"]) == 0
    assert main(["ask", "--state", "run.db"]) == 0
    capsys.readouterr()
    whole, rng, codes = image(folder / "run.db"), random.Random(1), []
    commands = [["status"], ["ask"], ["check"], ["tell", "1", "2.5"], ["abandon", "2"]]
    for i in range(40):
        put(folder / "run.db", corrupted(whole, rng))
        codes.append(check([*commands[i % len(commands)], "--state", "run.db"], capsys))
        check(["export", "--state", "run.db", "-o", f"new{i}.jsonl"], capsys)
    assert codes.count(1) > 10


def test_result_files(folder, capsys):
    assert main(["init", "roads.graphml", *ENDS, "--state", "run.db"]) == 0
    assert main(["ask", "--state", "run.db", "-n", "5"]) == 0
    capsys.readouterr()
    whole, rng, codes = b"id,value\n0,4.5\n1,3.25\n2,8\n3,1e1\n", random.Random(2), []
    before = image(folder / "run.db")
    for _ in range(40):
        (folder / "results.csv").write_bytes(corrupted(whole, rng))
        put(folder / "run.db", before)
        codes.append(check(["tell", "--state", "run.db", "--csv", "results.csv"], capsys))
        if codes[-1] == 1:
            assert image(folder / "run.db") == before  # all or nothing
    assert codes.count(1) > 10

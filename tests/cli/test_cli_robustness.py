"""Strange files, names, labels and numbers: an exit code and at most one line, never a traceback."""

import json
import random

import networkx as nx
import pytest
from backends import events
from cli_files import ROADS, write_files
from tampering import image, put
from unit_problem import unit_problem

from combopeps import Campaign, TopKOracle, load_instance, save_instance
from combopeps.cli import main
from combopeps.cli.formatting import answer_text, label_text, pulls_chart
from combopeps.cli.output import printable
from combopeps.io import Instance
from combopeps.oracles import MultiPath

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
    from combopeps import save_instance

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


COMPARE = ["compare", "soare", "--runs", "2", "--budget", "3", "--json"]


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        ([*COMPARE, "--jobs", "0"], 1, "--jobs must be at least 1"),
        ([*COMPARE, "--jobs", "-1"], 1, "--jobs must be at least 1"),
        ([*COMPARE, "--jobs", "nan"], 2, "--jobs"),
        ([*COMPARE, "--jobs", "1_0"], 2, "--jobs"),
        ([*COMPARE, "--seed", "-1"], 1, "--seed must not be negative"),
        ([*COMPARE, "--seed", "٣"], 2, "--seed"),
        (["solve", "soare", "--json", "--seed", "-1"], 1, "--seed must not be negative"),
        (["solve", "soare", "--json", "--budget", "1_000"], 2, "--budget"),
        (["solve", "soare", "--json", "--noise", "1_0.5"], 2, "--noise"),
        (["solve", "soare", "--json", "--noise", "nan"], 1, "noise"),
        (["solve", "soare", "--json", "--prior", "0"], 1, "prior"),
        (["solve", "soare", "--json", "--batch", "0"], 1, "batch"),
        (["solve", "soare", "--json", "--budget", "0"], 1, "budget"),
        (["solve", "soare", "--json", "--delta", "nan"], 1, "delta"),
        (["init", "soare", "--state", "x.db", "--json", "--seed", "-1"], 1, "seed"),
        (["init", "soare", "--state", "x.db", "--json", "--delta", "inf"], 1, "delta"),
        (["tell", "--state", "run.db", "--json", "0", "1_000"], 2, "VALUE"),
        (["tell", "--state", "run.db", "--json", "0", "nan"], 1, "finite"),
        (["tell", "--state", "run.db", "--json", "1_0", "1"], 2, "ID"),
        (["observe", "--state", "run.db", "--json", "0", "1_000"], 2, "VALUE"),
        (["ask", "--state", "run.db", "--json", "-n", "1_0"], 2, "-n"),
    ],
)
def test_the_command_line(words, code, part, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["init", "soare", "--state", "run.db"]) == 0
    assert main(["ask", "--state", "run.db"]) == 0
    before = events("run.db")
    capsys.readouterr()
    assert main(words) == code
    said = json.loads(capsys.readouterr().out)
    assert part in said["error"]
    assert "unexpected" not in said["error"]
    assert events("run.db") == before
    assert not (tmp_path / "x.db").exists()


@pytest.mark.parametrize("value", ["-1e-05", "-2.5E+1", "-.5", "-3", "-4.", "1e-3"])
def test_negative_numbers_as_programs_print_them(value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["init", "soare", "--state", "run.db"]) == 0
    assert main(["ask", "--state", "run.db"]) == 0
    assert main(["tell", "--state", "run.db", "0", value]) == 0
    assert main(["observe", "--state", "run.db", "1", value]) == 0
    assert [one.y for one in Campaign.open("run.db").measurements()] == [float(value)] * 2


@pytest.mark.parametrize("size", ["1e-300", "1e-170", "1e140"])
def test_a_scale_at_which_squares_vanish_or_overflow_is_no_crash(size, tmp_path, capsys):
    (tmp_path / "x.csv").write_text(f"item,mean\na,{size}\nb,0\n")
    main(["show", str(tmp_path / "x.csv"), "--k", "1", "--prior", "1", "--json"])
    assert "unexpected" not in capsys.readouterr().out


NASTY = {
    "escape": "a\x1b[2J\x1b]0;owned\x07",
    "newline": "a\nstop           yes: certain",
    "return": "a\rrecorded",
    "tab": "0\tb",
    "line separator": "a\u2028b",
    "right to left": "a\u202egpj.exe",
    "isolate": "a\u2066b\u2069",
    "zero width": "a\u200bb",
    "C1": "a\x9b31mb",
    "delete": "a\x7f",
    "surrogate": "a\udc80",
    "next line": "a\x85b",
}


def controls(text, allowed="\n"):
    return [c for c in text if not c.isprintable() and c not in allowed]


@pytest.mark.parametrize("label", NASTY.values(), ids=NASTY)
def test_every_way_to_print_a_label(label):
    texts = [
        printable(label),
        label_text(label),
        label_text((label, "b", label)),
        answer_text([label, "b"]),
        answer_text({label: "b", "c": label}),
        answer_text({label, "b"}),
        answer_text(MultiPath([label, "b"], [label])),
        *pulls_chart({label: 3, "b": 1}),
    ]
    for text in texts:
        assert controls(text, "") == []
    assert label_text(label) != label_text(label.replace(controls(label, "")[0], "?"))


def test_labels_that_can_be_seen_are_left_alone():
    for label in ("Zürich", "Ω-3", "東京", "a b", "C:\\temp", "it's", "🚲"):
        assert printable(label) == label


@pytest.mark.parametrize("label", NASTY.values(), ids=NASTY)
def test_commands(label, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    oracle = TopKOracle([label, "harmless"], 1)
    save_instance(Instance(label, unit_problem(oracle, prior_std=0.1), [1.0, 0.0], label, label), "x.json")
    campaign = Campaign.create("run.db", unit_problem(oracle))
    campaign.observe(label, 1.0)
    lines = {}
    for words in (
        "show x.json", "solve x.json --budget 30", "compare x.json --runs 2 --budget 9", "init x.json --state new.db",
        "ask --state run.db -n 4", "status --state run.db", "observe --state new.db harmless 1e9",
        "observe --state run.db nothing 1", "check --state run.db", f"show x.json --k {label}", f"solve {label}",
    ):  # fmt: skip
        main(words.split(" "))
        out, err = capsys.readouterr()
        assert controls(out, "\n\t" if words.startswith(("ask", "status")) else "\n") == [], words
        assert controls(err) == [], words
        lines[words.split(" ")[0]] = out.splitlines()
    assert len(lines["ask"]) == 4
    assert all(line.count("\t") == 1 for line in lines["ask"])
    assert not any(line.startswith("stop           yes") for line in lines["status"])
    assert main(["ask", "--state", "run.db", "--json", "-n", "9"]) == 0
    assert label in [query["label"] for query in json.loads(capsys.readouterr().out)["queries"]]


def test_paths(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a\x1b[31m.db", "b\nb.db", "c d'.db"):
        assert main(["init", "town", "--state", name]) == 0
        assert main(["status", "--state", name]) == 3
        assert main(["check", "--state", name]) == 0
        assert main(["init", "town", "--state", name]) == 1
        out, err = capsys.readouterr()
        assert controls(out + err) == []
    assert "combopeps ask --state 'c d'\"'\"'.db'" in out  # a command to be copied works

"""What the commands do, in process."""

import csv
import json
import subprocess
import sys

import numpy as np
import pytest
from tampering import alter

from combopeps import Campaign, list_instances, load_instance, lower_bound
from combopeps.cli import main
from combopeps.cli.text import answer_text, bars, size_text
from combopeps.oracles import MultiPath
from combopeps.oracles.constrained_argmax import second_best


@pytest.fixture
def call(capsys, tmp_path, monkeypatch):
    """Run a command in an empty folder: exit code, and what --json says."""
    monkeypatch.chdir(tmp_path)

    def run(line, *, code=0):
        got = main(line.split())
        out, err = capsys.readouterr()
        assert got == code, out + err
        return json.loads(out) if "--json" in line else out + err

    return run


ROADS = [("home", "bridge", 9.0), ("home", "tunnel", 4.0), ("tunnel", "bridge", 2.0), ("bridge", "work", 5.0), ("tunnel", "work", 8.0)]  # fmt: skip


def write_files(folder):
    nodes = sorted({node for edge in ROADS for node in edge[:2]})
    edges = "".join(
        f'<edge source="{u}" target="{v}"><data key="m">{w}</data></edge>' if w is not None else "" for u, v, w in ROADS
    )
    (folder / "roads.graphml").write_text(
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
        '<key id="m" for="edge" attr.name="weight" attr.type="double"/><graph edgedefault="directed">'
        + "".join(f'<node id="{node}"/>' for node in nodes) + edges + "</graph></graphml>"
    )  # fmt: skip
    link = {"directed": True, "multigraph": False, "nodes": [{"id": node} for node in nodes],
            "edges": [{"source": u, "target": v, "weight": w} for u, v, w in ROADS]}  # fmt: skip
    (folder / "roads.json").write_text(json.dumps(link))
    (folder / "beers.csv").write_text("item,mean\nale,0.2\nbock,2.5\ncider,0.4\ndubbel,2.0\n")
    (folder / "crew.csv").write_text("worker,dig,plant\nann,3,2\nbob,9,1\n")
    (folder / "unknown.csv").write_text("worker,dig,plant\nann,?,?\nbob,?,?\n")


def test_list_has_every_instance(call):
    names = [row["name"] for row in call("list --json")["instances"]]
    assert names == list_instances()
    assert all(name in call("list") for name in names)


@pytest.mark.parametrize("name", ["town", "cyclic-matching", "topk-paper", "soare", "two-nets", "nsfnet", "sphere"])
def test_show_agrees_with_the_library(call, name):
    shown, instance = call(f"show {name} --json"), load_instance(name)
    assert (shown["d"], shown["arms"]) == (instance.oracle.dim, len(instance.arms))
    bound = lower_bound(instance.problem, instance.theta)
    if bound.certified:
        assert shown["tau_star"] == pytest.approx(bound.tau_star, rel=0.01)
    else:
        assert shown["tau_star"] >= bound.lower
    assert answer_text(instance.best) in call(f"show {name}")


@pytest.mark.parametrize("name", ["town", "cyclic-matching", "topk-paper", "soare", "two-nets"])
def test_the_gap_is_the_gap_to_the_second_best(name):
    """Independently: the best answer among very many random directions around theta that is not z*."""
    instance = load_instance(name)
    oracle, theta, rng = instance.oracle, instance.theta, np.random.default_rng(0)
    z_star = oracle.argmax(theta)
    thetas = (
        theta + rng.normal(size=(20_000, oracle.dim)) * rng.uniform(0.01, 1.0, size=(20_000, 1)) * np.abs(theta).max()
    )
    thetas = instance.problem.space.project(thetas)
    values = np.unique(oracle.argmax(thetas), axis=0)
    others = values[(values != z_star).any(axis=1)]
    second = second_best(oracle, theta, z_star)
    assert (second != z_star).any()
    assert second @ theta == pytest.approx((others @ theta).max())


def test_solve_finds_the_answer_and_is_reproducible(call):
    first, again = (call("solve cyclic-matching --delta 0.01 --seed 3 --json") for _ in range(2))
    assert first == again
    assert first["correct"]
    assert first["certain"]
    assert first["answer"] == [[i, i] for i in range(4)]
    assert first["error_probability"] <= 0.01
    assert sum(n for _, n in first["pulls"]) == first["samples"]
    assert call("solve cyclic-matching --delta 0.01 --seed 4 --json")["pulls"] != first["pulls"]


def test_solve_says_it_in_words(call, tmp_path):
    text = call("solve town --delta 0.05 --seed 1 --save result.json --plot town.png")
    saved = json.loads((tmp_path / "result.json").read_text())
    assert saved["claim"] in text
    assert "station -> market -> harbour -> tunnel -> hospital" in text
    assert "###" in text
    assert f"samples     {saved['samples']}" in text
    assert (tmp_path / "town.png").stat().st_size > 10_000


@pytest.mark.parametrize("options", ["--policy peps", "--policy top-two --sampler half-space", "--policy top-two --sampler rejection", "--batch 7", "--policy uniform", "--stopping certified", "--stopping verified", "--stopping heuristic"])  # fmt: skip
def test_every_option_of_solve_reaches_the_run(call, options):
    plain = call("solve cyclic-matching --json --budget 3000")
    other = call(f"solve cyclic-matching --json --budget 3000 {options}")
    assert other["correct"]
    assert other["pulls"] != plain["pulls"]


def test_a_budget_ends_a_run_without_a_claim(call):
    result = call("solve topk-paper --budget 20 --json", code=3)
    assert result["samples"] == 20
    assert not result["certain"]
    assert result["claim"].startswith("none")


@pytest.mark.parametrize(
    ("words", "best"),
    [
        ("roads.graphml --source home --target work", ["home", "tunnel", "bridge", "work"]),
        ("roads.json --source home --target work", ["home", "tunnel", "bridge", "work"]),
        ("roads.graphml --source home --target work --objective max", ["home", "bridge", "work"]),
        ("beers.csv --k 2", ["bock", "dubbel"]),
        ("crew.csv", [["ann", "plant"], ["bob", "dig"]]),
        ("crew.csv --objective min", [["ann", "dig"], ["bob", "plant"]]),
    ],
)  # fmt: skip
def test_own_files(call, tmp_path, words, best):
    write_files(tmp_path)
    assert call(f"show {words} --json")["best"] == best
    assert call(f"solve {words} --noise 0.1 --delta 0.01 --json")["answer"] == best


def test_noise_and_prior_override_the_instance(call):
    shown = call("show town --noise 0.25 --prior 7 --json")
    assert (shown["noise_std"], shown["prior_std"]) == (0.25, 7.0)
    noisy, quiet = (call(f"solve town --noise {x} --json")["samples"] for x in (1, 0.1))
    assert quiet < noisy


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        ("solve roads.graphml", "--source"),
        ("solve unknown.csv", "combopeps init"),
        ("solve town --source a", "leave it out"),
        ("solve beers.csv --k 9", "1..4"),
        ("solve nowhere.graphml --source a --target b", "nowhere.graphml"),
        ("solve town --delta 2", "(0, 1)"),
        ("solve town --seed -1", "negative"),
        ("solve town --noise 0", "positive"),
        ("solve town --save no/such/folder.json", "no/such"),
        ("solve town --plot no/such/folder.png", "no/such"),
        ("compare town --policies best", "there are"),
        ("compare town --policies peps,peps", "different"),
        ("bench nothing", "there are"),
        ("init town --state run.db --stopping budget", "posterior"),
        ("ask --state missing.db", "missing.db"),
        ("tell --state run.db", "ID VALUE"),
        ("grid:n=zero", None),
    ],
)
def test_errors_are_one_line_with_the_cure(call, tmp_path, words, cure):
    write_files(tmp_path)
    if cure is None:
        call(words, code=2)
        return
    text = call(words, code=1)
    assert cure in text
    assert text.startswith("combopeps: error: ")
    assert text.count("\n") == 1
    assert "unexpected" not in text
    command, _, rest = words.partition(" ")
    assert cure in call(f"{command} --json {rest}", code=1)["error"]


def test_compare_sets_a_table(call, tmp_path):
    words = "compare cyclic-matching --policies top-two,uniform --runs 20 --budget 100"
    table = call(f"{words} --json --plot c.png")
    assert [row["policy"] for row in table["policies"]] == ["top-two", "uniform"]
    reached = [level for row in table["policies"] for level in row["samples_to"] if level["samples"] is not None]
    assert reached
    assert all(1 <= level["low"] <= level["samples"] <= 100 for level in reached)
    text = call(words)
    assert "80%" in text
    assert "top-two" in text
    assert (tmp_path / "c.png").stat().st_size > 10_000


def test_bench_lists_and_passes_arguments_on(call):
    assert "samplers" in call("bench --json")["benchmarks"]
    words = [sys.executable, "-m", "combopeps", "bench", "policies", "--help"]
    assert "--quick" in subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout


def test_without_matplotlib_the_cure_is_named_before_the_work(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for words in ("solve town --plot x.png", "compare town --plot x.png"):
        assert "pip install 'combopeps[plot]'" in call(words, code=1)


def test_an_error_of_ours_is_told_apart(call, monkeypatch):
    """The negative control of the fuzz tests: what nobody foresaw is called unexpected."""
    monkeypatch.setattr("combopeps.cli.show.list_instances", lambda: 1 / 0)
    assert "unexpected ZeroDivisionError" in call("list", code=1)
    with pytest.raises(ZeroDivisionError):
        main(["list", "--debug"])


def test_texts():
    assert answer_text(MultiPath(["a", "b"], ["fast"])) == "a -[fast]-> b"
    assert "... 60 more ..." in answer_text(list(range(100)))
    assert answer_text({3, "a", 1}) == "1, 3, a"
    assert bars({"a": 10, "b": 5, "c": 0})[1].count("#") == 15
    assert bars({"a": 10, "b": 5, "c": 0})[-1] == "never measured: 1 of 3"
    assert bars({"a": 0}) == ["(nowhere yet)"]
    assert size_text(load_instance("topk-1000").oracle) == "10^85.0"
    assert size_text(load_instance("topk-paper").oracle) == "220"


def test_a_campaign_by_hand_to_its_end(call, tmp_path, capsys):
    write_files(tmp_path)
    call("init beers.csv --k 1 --noise 0.5 --prior 3 --state run.db --json")
    truth, rng = {"ale": 0.2, "bock": 2.5, "cider": 0.4, "dubbel": 2.0}, np.random.default_rng(0)
    assert call("status --state run.db --json", code=3)["samples"] == 0
    for _ in range(100):
        queries = call("ask --state run.db -n 4 --json")["queries"]
        rows = "".join(f"{q['id']},{truth[q['label']] + 0.5 * rng.normal()}\n" for q in queries)
        (tmp_path / "results.csv").write_text("id,value\n" + rows)
        assert call("tell --state run.db --csv results.csv --json")["open"] == 0
        if main(["status", "--state", "run.db", "--json"]) == 0:
            break
        capsys.readouterr()
    capsys.readouterr()
    final = Campaign.open(tmp_path / "run.db").status()
    assert final.stop
    assert final.answer == {"bock"}
    text = call("ask --state run.db")
    assert text.split("\t")[1].strip() in truth
    call(f"abandon --state run.db {text.split()[0]}")
    call("observe --state run.db cider -1.5")
    assert "not the label" in call("observe --state run.db stout 1", code=1)
    shown = call("status --state run.db --plot s.png")
    assert "posterior probability" in shown
    assert (tmp_path / "s.png").stat().st_size > 10_000
    assert call("check --state run.db --json")["sound"]


def test_damage_is_found_and_the_rest_exported(call, tmp_path):
    call("init town --state run.db")
    for _ in range(3):
        call("ask --state run.db")
    call("tell --state run.db 2 4.5")
    assert call("check --state run.db") == "run.db: sound; 5 valid events, 3 queries, 1 measurements\n"
    alter(tmp_path / "run.db", 3, "ask", "asc")
    assert "run.db, event 3: " in call("status --state run.db", code=1)
    assert "combopeps export" in call("ask --state run.db", code=1)
    found = call("check --state run.db --json", code=1)
    assert not found["sound"]
    assert found["faults"][0]["event"] == 3
    assert "checksum" in found["faults"][0]["fault"]
    assert "event 3: it does not match its checksum" in call("check --state run.db", code=1)
    said = call("export --state run.db -o run.jsonl --json", code=1)
    assert (said["lines"], [fault["event"] for fault in said["faults"]]) == (4, [3])
    kinds = [json.loads(line)["kind"] for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert kinds == ["campaign", "ask", "ask", "tell"]
    assert "event 3: " in call("export --state run.db -o run.csv", code=1)


def test_exported_measurements_can_be_observed(call, tmp_path):
    call("init town --state run.db")
    label = call("ask --state run.db --json")["queries"][0]["label"]
    call("tell --state run.db 0 4.5")
    call("observe --state run.db station market 3.5")
    assert call("export --state run.db -o run.jsonl --json") == {"output": "run.jsonl", "lines": 4, "faults": []}
    assert [json.loads(line)["kind"] for line in (tmp_path / "run.jsonl").read_text().splitlines()] == [
        "campaign", "ask", "tell", "observe",
    ]  # fmt: skip
    assert call("export --state run.db -o run.csv") == "2 lines in run.csv\n"
    rows = list(csv.DictReader((tmp_path / "run.csv").read_text().splitlines()))
    assert [(row["query"], row["label"], row["value"]) for row in rows] == [
        ("0", " - ".join(label), "4.5"), ("", "station - market", "3.5"),
    ]  # fmt: skip
    call("init town --state other.db")
    call("observe --state other.db --csv run.csv")
    before, after = (Campaign.open(name).belief.theta_hat for name in ("run.db", "other.db"))
    assert np.array_equal(before, after)


def test_edges_without_direction_may_be_observed_either_way(call):
    call("init nsfnet --state run.db")
    assert main(["observe", "--state", "run.db", "Palo Alto", "Seattle", "1100"]) == 0
    assert main(["observe", "--state", "run.db", "Seattle", "Palo Alto", "1140"]) == 0


def test_a_measurement_against_the_prior_is_a_one_line_warning(call):
    call("init town --state run.db --prior 0.1")
    call("ask --state run.db")
    text = call("tell --state run.db 0 1e6")
    assert "combopeps: warning: the results contradict the stated prior: " in text

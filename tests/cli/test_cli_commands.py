"""What `list`, `show`, `solve`, `compare` and `bench` do and report."""

import json
import sys

import numpy as np
import pytest
from cli_files import write_files
from unit_problem import unit_problem

from combopeps import ShortestPathOracle, TopKOracle, list_instances, load_instance, lower_bound, simulate
from combopeps.cli import main
from combopeps.cli.formatting import answer_text, difference_text, pulls_chart, size_text
from combopeps.errors import SamplerCapError
from combopeps.oracles import MultiPath
from combopeps.oracles.base import has_equal_value
from combopeps.oracles.constrained_argmax import second_best
from combopeps.policies.registry import POLICIES


def test_list_has_every_instance(call):
    assert [row["name"] for row in call("list --json")["instances"]] == list_instances()
    text = call("list")
    assert all(name in text for name in list_instances())


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


def test_solve_states_the_result_in_words_and_saves_it(call, tmp_path):
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
def test_files_of_ones_own_are_shown_and_solved(call, tmp_path, words, best):
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


def test_bench_lists_benchmarks(call):
    assert "samplers" in call("bench --json")["benchmarks"]


def test_without_matplotlib_the_cure_is_named_before_the_work(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for words in ("solve town --plot x.png", "compare town --plot x.png"):
        assert "pip install 'combopeps[plot]'" in call(words, code=1)


def test_an_error_of_ours_is_told_apart(call, monkeypatch):
    """The negative control of the fuzz tests: an unforeseen error is called unexpected."""
    monkeypatch.setattr("combopeps.io.bundled.read_index", lambda: 1 / 0)
    assert "unexpected ZeroDivisionError" in call("list", code=1)
    with pytest.raises(ZeroDivisionError):
        main(["list", "--debug"])


def test_answers_bars_and_sizes_in_words():
    assert answer_text(MultiPath(["a", "b"], ["fast"])) == "a -[fast]-> b"
    assert "... 60 more ..." in answer_text(list(range(100)))
    assert answer_text({3, "a", 1}) == "1, 3, a"
    assert pulls_chart({"a": 10, "b": 5, "c": 0})[1].count("#") == 15
    assert pulls_chart({"a": 10, "b": 5, "c": 0})[-1] == "never measured: 1 of 3"
    assert pulls_chart({"a": 0}) == ["(nowhere yet)"]
    assert size_text(load_instance("topk-1000").oracle) == "10^85.0"
    assert size_text(load_instance("topk-paper").oracle) == "220"


COMPARE = "compare nsfnet --policies lingame,top-two --runs 3 --budget 20"


def test_compare_goes_on_without_a_policy_that_cannot_run(call, tmp_path):
    refused, ran = call(f"{COMPARE} --json --plot c.png")["policies"]
    assert (refused["policy"], ran["policy"]) == ("lingame", "top-two")
    assert "use TopTwo or PEPS" in refused["error"]
    assert (refused["samples_to"], refused["right_at_the_end"]) == ([], None)
    assert ran["error"] is None
    assert len(ran["samples_to"]) == 3
    assert (tmp_path / "c.png").stat().st_size > 10_000
    lines = call(COMPARE).splitlines()
    assert lines[2].startswith("lingame         cannot run: LinGame is written for")
    assert lines[3].startswith("top-two         ")


def test_compare_goes_on_after_a_policy_that_fails_on_the_way(call, monkeypatch):
    def fail(self):
        raise SamplerCapError("no alternative\nwas found")

    monkeypatch.setattr(POLICIES["peps"], "choose", fail)
    rows = call("compare cyclic-matching --policies peps,uniform --runs 3 --budget 20 --json")["policies"]
    assert [row["error"] for row in rows] == ["no alternative\nwas found", None]
    text = call("compare cyclic-matching --policies peps,uniform --runs 3 --budget 20")
    assert "peps            cannot run: no alternative was found\n" in text


def test_compare_fails_if_no_policy_can_run_or_a_name_is_wrong(call):
    assert "no policy can run here: lingame: " in call("compare nsfnet --policies lingame --json", code=1)["error"]
    assert "no policy can run here: lingame: " in call("compare nsfnet --policies lingame,lingape", code=1)
    assert "there are" in call("compare nsfnet --policies top-two,best", code=1)


ROUTE = ["a", "b", "c", "d", "e", "f"]


@pytest.mark.parametrize(
    ("answer", "other", "text"),
    [
        (ROUTE, ["a", "x", "c", "d", "e", "f"], "a -> x -> c instead of a -> b -> c"),
        (ROUTE, ["a", "c", "d", "e", "f"], "a -> c instead of a -> b -> c"),
        (ROUTE, ["a", "b", "c", "d", "e", "x", "f"], "e -> x -> f instead of e -> f"),
        (ROUTE, ["a", "x", "c", "d", "y", "f"], "a -> x -> c instead of a -> b -> c; d -> y -> f instead of d -> e -> f"),
        (["a", "f"], ["a", "x", "f"], "a -> x -> f instead of a -> f"),
        (MultiPath(["a", "b", "c"], [0, 0]), MultiPath(["a", "b", "c"], [0, 1]), "b -[1]-> c instead of b -[0]-> c"),
        ({"ann": "dig", "bob": "plant", "eve": "rest"}, {"ann": "plant", "bob": "dig", "eve": "rest"},
         "ann: plant instead of dig, bob: dig instead of plant"),
        ({1, 2, 3}, {1, 2, 9}, "9 instead of 3"),
        ("x", "y", "y"),
        (["a\x1b[2J", "b", "c"], ["a\x1b[2J", "\n", "c"], r"'a\x1b[2J' -> '\n' -> c instead of 'a\x1b[2J' -> b -> c"),
    ],
)  # fmt: skip
def test_differences_between_answers_in_words(answer, other, text):
    assert difference_text(answer, other) == text


def test_long_differences_are_cut():
    text = difference_text(["s", *range(200), "t"], ["s", *range(300, 500), "t"])
    assert text.count("... 162 more ...") == 2
    assert len(text) < 1000


def test_ties_are_told_by_differences_five_at_most(call, tmp_path):
    (tmp_path / "same.csv").write_text("item,mean\n" + "".join(f"i{i},1\n" for i in range(12)))
    words = "solve same.csv --k 6 --noise 0.1 --budget 600"
    found = call(f"{words} --json", code=3)
    assert found["stop_reason"] == "indistinguishable"
    assert len(found["tied"]) > 5  # all of them, for scripts
    lines = call(words, code=3).splitlines()
    said = [line.removeprefix("tied with   ") for line in lines if line.startswith("tied with")]
    answer = set(found["answer"])
    assert said == [difference_text(answer, set(other)) for other in found["tied"][:5]]
    assert all(line.count(" instead of ") == 1 for line in said)
    assert f"            ... and {len(found['tied']) - 5} more" in lines


def test_few_ties_are_all_told(call, tmp_path):
    (tmp_path / "two.csv").write_text("item,mean\na,1\nb,1\n")
    text = call("solve two.csv --k 1 --noise 0.01 --delta 1e-9 --budget 300", code=3)
    assert "tied with   a instead of b" in text or "tied with   b instead of a" in text
    assert "more" not in text


ENDS = "--source home --target work"


TNTP = (
    "<NUMBER OF NODES> 3\n<END OF METADATA>\n~ \tinit_node\tterm_node\tlength\tfree_flow_time\t;\n"
    "\t1\t2\t5\t6\t;\n\t2\t3\t5\t6\t;\n\t1\t3\t12\t14\t;\n"
)


@pytest.mark.parametrize(
    ("words", "what", "where"),
    [
        (f"roads.json {ENDS}", "length", "edge attribute `weight`"),
        (f"roads.graphml {ENDS} --attribute weight", "length", "edge attribute `weight`"),
        (f"roads.graphml {ENDS} --objective max", "reward", "edge attribute `weight`"),
        ("net.tntp --source 1 --target 3", "length", "column `free_flow_time`"),
        ("net.tntp --source 1 --target 3 --attribute length", "length", "column `length`"),
        ("beers.csv --k 1", "mean", "column `mean`"),
    ],
)
def test_show_and_solve_name_where_the_truth_was_read_from(call, tmp_path, words, what, where):
    write_files(tmp_path)
    (tmp_path / "net.tntp").write_text(TNTP)
    for command, width in ((f"show {words}", 20), (f"solve {words} --noise 0.01", 11)):
        assert call(f"{command} --json")[what] == where
        assert f"{what:<{width}} {where}\n" in call(command)


def test_a_file_without_the_truth_says_why(call, tmp_path):
    link = {"nodes": [{"id": "s"}, {"id": "t"}], "edges": [{"source": "s", "target": "t", "hours": 2, "lanes": 1}]}
    (tmp_path / "x.json").write_text(json.dumps(link))
    words = "x.json --source s --target t"
    why = "(there is no edge attribute `weight`; others are hours, lanes)"
    assert call(f"show {words} --json")["length"] is None
    assert f"not known: the file has no true numbers {why}" in call(f"show {words}")
    assert why in call(f"solve {words}", code=1)
    assert call(f"show {words} --attribute hours --json")["length"] == "edge attribute `hours`"


def test_stored_problems_have_no_column(call):
    assert call("show town --json")["length"] is None
    assert "length" not in call("show cyclic-matching --json")
    assert "\n  length " not in call("show town")


def test_an_attribute_cannot_steer_the_terminal(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    link = {"nodes": [{"id": "s"}, {"id": "t"}], "edges": [{"source": "s", "target": "t", "\x1b[2J": 2}]}
    (tmp_path / "x.json").write_text(json.dumps(link))
    for attribute in (["--attribute", "\x1b[2J"], []):
        assert main(["show", "x.json", "--source", "s", "--target", "t", *attribute]) == 0
        assert "\x1b" not in capsys.readouterr().out


TIES = {
    "items": ("x.csv", "item,mean\na,1\nb,1\nc,0\n", ["--k", "1"]),
    "rounding": ("x.csv", "item,mean\na,0.3\nb,0.30000000000000004\nc,-5\n", ["--k", "1"]),
    "assignments": ("x.csv", "who,dig,plant,mow\nann,1,1,0\nbob,1,1,0\ncid,0,0,9\n", []),
    "routes": ("x.gr", "p sp 4 5\na 1 2 0.1\na 2 4 0.2\na 1 3 0.15\na 3 4 0.15\na 1 4 9\n", ["--source", "1", "--target", "4"]),
}  # fmt: skip


@pytest.mark.parametrize("case", TIES)
def test_solve_calls_every_best_answer_right(case, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    name, text, options = TIES[case]
    (tmp_path / name).write_text(text)
    answers = set()
    for seed in range(12):
        main(["solve", name, *options, "--noise", "0.2", "--budget", "60", "--seed", str(seed), "--json"])
        said = json.loads(capsys.readouterr().out)
        answers.add(json.dumps(said["answer"]))
        assert said["correct"], said
    assert len(answers) > 1  # both of the tied ones are found
    main(["solve", name, *options, "--noise", "0.2", "--budget", "60"])
    assert "the answer is right" in capsys.readouterr().out


def test_a_wrong_answer_is_called_wrong(tmp_path, capsys):
    """The negative control: an answer from three hopelessly noisy measurements is often worse, and is said to be."""
    (tmp_path / "x.csv").write_text("item,mean\na,1e-9\nb,0\nc,0\n")
    said = set()
    for seed in range(16):
        line = ["solve", str(tmp_path / "x.csv"), "--k", "1", "--budget", "3", "--stopping", "budget", "--noise", "1"]
        main([*line, "--seed", str(seed), "--json"])
        found = json.loads(capsys.readouterr().out)
        assert found["correct"] == (found["answer"] == ["a"])
        said.add(found["correct"])
    assert said == {True, False}


def test_simulations_count_ties_as_right():
    trace = simulate(unit_problem(TopKOracle(3, 1)), [1.0, 1.0, -9.0], "uniform", budget=60, replications=50, rng=0)
    assert trace.correct[:, -1].all()
    edges = [("s", "a"), ("a", "t"), ("s", "b"), ("b", "t"), ("s", "t")]
    oracle = ShortestPathOracle(__import__("networkx").DiGraph(edges), "s", "t")
    lengths = dict(zip(edges, [0.1, 0.2, 0.15, 0.15, 90.0], strict=True))  # 0.1 + 0.2 is not 0.15 + 0.15 in floats
    theta = [lengths[edge] for edge in oracle.components]
    trace = simulate(unit_problem(oracle), theta, "uniform", budget=400, replications=50, rng=0)
    assert trace.correct[:, -1].all()


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_the_tolerance_is_relative(scale):
    z, best = np.eye(3)[:2]
    assert has_equal_value(z, best, scale * np.array([1.0, 1.0 + 4e-16, 0.0]))
    assert not has_equal_value(z, best, scale * np.array([1.0, 1.0 + 1e-9, 0.0]))


def test_solve_with_an_epsilon_needs_fewer_samples_and_states_the_loss(call, tmp_path):
    (tmp_path / "beers.csv").write_text("item,mean\nale,1.0\nbock,1.01\ncider,0.0\n")
    solve, losses, few, many = "solve beers.csv --k 1 --noise 0.3 --delta 0.01 --budget 800 --seed", set(), 0, 0
    for seed in range(12):
        lenient = call(f"{solve} {seed} --epsilon 0.2 --json")
        assert lenient["epsilon"] == 0.2
        few += lenient["samples"]
        if seed < 4:
            many += call(f"{solve} {seed} --json", code=None)["samples"]
        assert "worse than the best by more than 0.2" in lenient["claim"]
        losses.add(round(lenient["loss"], 6))
        assert lenient["correct"] == (lenient["loss"] == 0.0)
        text = call(f"{solve} {seed} --epsilon 0.2")
        assert ("the answer is right" in text) == lenient["correct"]
        assert ("worse than the best by 0.01, which epsilon allows" in text) != lenient["correct"]
        assert "WRONG" not in text
    assert losses == {0.0, 0.01}  # both happen
    assert few / 12 < many / 4 / 4

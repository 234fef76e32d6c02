"""Plots of answers, results and pulls show the expected marks; empty pictures fail."""

import networkx as nx
import numpy as np
import pytest
from images import overlapping, pixels, share_of
from matplotlib.colors import to_rgb
from matplotlib.text import Text
from unit_problem import unit_problem

from combopeps import MatchingOracle, ShortestPathOracle, TopKOracle, identify, load_instance, simulate
from combopeps.errors import FileFormatError, ParameterError
from combopeps.viz.answers import plot_answer, plot_result
from combopeps.viz.canvas import ANSWER, OTHER, RUNNER_UP, new_axes, save
from combopeps.viz.curves import plot_identification, plot_pulls

NAMES = ["town", "nsfnet", "two-nets", "cyclic-matching", "matching-sparse", "topk-paper"]


def drawn(instance, **options):
    oracle = instance.oracle
    rng = np.random.default_rng(0)
    z, rival = (
        oracle.argmax(instance.problem.space.project(instance.theta + s * rng.normal(size=oracle.dim))) for s in (0, 3)
    )
    return plot_answer(oracle, z, rival=rival, samples=rng.integers(0, 50, oracle.dim), **options), z, rival


def test_an_empty_picture_has_no_coloured_pixels():
    image = pixels(new_axes())
    assert share_of(image, "white") > 0.9
    assert share_of(image, ANSWER) == share_of(image, RUNNER_UP) == 0.0


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_is_visible_and_labels_do_not_overlap(name):
    instance = load_instance(name)
    ax, z, rival = drawn(instance, theta=instance.theta)
    image = pixels(ax)
    assert share_of(image, ANSWER) > 1e-4
    if (z != rival).any():
        assert share_of(image, RUNNER_UP) > 1e-4
    assert share_of(image, OTHER) > 1e-4
    assert ax.get_title()
    assert overlapping(ax) == []


@pytest.mark.parametrize("name", ["town", "cyclic-matching"])
def test_more_samples_make_wider_lines(name):
    oracle = load_instance(name).oracle
    few, many = np.ones(oracle.dim), np.ones(oracle.dim)
    few[0], many[0] = 1e9, 1.0
    thin, wide = (share_of(pixels(plot_answer(oracle, samples=s)), OTHER) for s in (few, many))
    assert wide > 2 * thin


def test_no_answer_yet():
    oracle = load_instance("town").oracle
    image = pixels(plot_answer(oracle))
    assert share_of(image, OTHER) > 1e-4
    assert share_of(image, ANSWER) == 0.0


def test_the_cut_of_a_ranking_lies_below_the_kth_item():
    truth, noise = dict(zip("abcdef", [5.0, 4.0, 3.0, 2.0, 1.0, 0.0], strict=True)), np.random.default_rng(0)
    result = identify(unit_problem(TopKOracle(truth, k=2), prior_std=5.0), lambda x: truth[x] + noise.normal())
    ax = plot_result(result)
    labels = [text.get_text() for text in ax.get_yticklabels()]
    assert set(labels[:2]) == result.answer
    cut = next(line for line in ax.lines if line.get_linestyle() == "--")
    assert list(cut.get_ydata()) == [2.5, 2.5]
    posterior = result.session.policy.posterior
    drawn = ax.containers[0].lines[2][0].get_segments()
    chosen = sorted(np.flatnonzero(result.z), key=lambda i: -posterior.theta_hat[0, i])
    for segment, i in zip(drawn, chosen, strict=True):
        assert np.diff(segment[:, 0])[0] == pytest.approx(4 * posterior.variance[0, i] ** 0.5)


@pytest.mark.parametrize("name", ["town", "cyclic-matching", "soare", "sphere"])
def test_results_of_every_kind(name):
    instance = load_instance(name)
    means = dict(zip(instance.arms.labels, instance.arms.dot(instance.theta[None])[0], strict=True))
    noise = np.random.default_rng(0)
    result = identify(instance.problem, lambda x: means[x] + noise.normal(), budget=100)
    assert share_of(pixels(plot_result(result)), ANSWER) > 5e-4


def test_parallel_and_undirected_edges():
    graph = nx.MultiGraph([("a", "b"), ("a", "b"), ("b", "c")])
    oracle = ShortestPathOracle(graph, "a", "c")
    ax = plot_answer(oracle, oracle.argmax([1.0, 2.0, 1.0]))
    bends = {patch.get_connectionstyle().rad for patch in ax.patches}
    assert len(bends) == 2
    assert share_of(pixels(ax), ANSWER) > 5e-4


@pytest.mark.parametrize("recipe", ["grid:n=50", "matching:n=30", "topk:d=1000,k=50"])
def test_huge_problems_stay_readable(recipe):
    instance = load_instance(recipe)
    ax, _, _ = drawn(instance, theta=instance.theta)
    image = pixels(ax)
    assert 1e-3 < share_of(image, ANSWER) < 0.3  # it is there, and does not fill the page
    assert share_of(image, RUNNER_UP) > 5e-4
    assert len(ax.texts) + len(ax.get_yticklabels()) <= 70
    assert overlapping(ax) == []


def test_overlapping_labels_are_detected():
    ax = new_axes()
    ax.text(0.5, 0.5, "one label")
    assert overlapping(ax) == []
    ax.text(0.52, 0.5, "another label")
    assert overlapping(ax) == [("another label", "one label")]


def test_partners_are_level_and_the_runner_up_is_dashed():
    oracle = MatchingOracle(["ann", "bob", "eve"], ["dig", "plant", "rest", "water"])
    z, rival = (
        oracle.encode({"ann": "water", "bob": "dig", "eve": "rest"}),
        oracle.encode({"ann": "dig", "bob": "water", "eve": "rest"}),
    )
    ax = plot_answer(oracle, z, rival=rival)
    others, answer, dashed = ax.collections
    assert len(others.get_segments()) == 9
    assert [segment[0, 1] - segment[1, 1] for segment in answer.get_segments()] == [0, 0, 0]
    assert len(dashed.get_segments()) == 2
    assert dashed.get_linestyle()[0][1] is not None
    assert {text.get_text() for text in ax.texts} == {"ann", "bob", "eve", "dig", "plant", "rest", "water"}


def test_a_large_assignment_shows_where_the_runner_up_differs():
    oracle = MatchingOracle(200, 200)
    order = {i: i for i in range(200)}
    z, rival = oracle.encode(order), oracle.encode({**order, 150: 190, 190: 150})
    samples = np.ones(oracle.dim)
    samples[oracle.index((7, 7))] = 100
    ax = plot_answer(oracle, z, rival=rival, samples=samples)
    assert {"150", "190", "7"} < {text.get_text() for text in ax.texts}
    assert len(ax.collections[2].get_segments()) == 2
    assert "30 rows" in ax.get_title()


def test_a_large_sparse_assignment_without_results_shows_pairs():
    ax = plot_answer(load_instance("matching:n=500,degree=3").oracle)
    assert len(ax.collections[0].get_segments()) >= 30
    assert share_of(pixels(ax), "white") < 0.99


def test_the_runner_up_of_a_route_is_dashed_and_widths_are_samples():
    graph = nx.DiGraph([("a", "b"), ("b", "d"), ("a", "c"), ("c", "d")])
    oracle = ShortestPathOracle(graph, "a", "d")
    z, rival = oracle.encode(["a", "b", "d"]), oracle.encode(["a", "c", "d"])
    samples = np.array([{"ab": 10, "bd": 40, "ac": 20, "cd": 0}["".join(edge)] for edge in oracle.components])
    ax = plot_answer(oracle, z, rival=rival, samples=samples)
    dashed = [patch for patch in ax.patches if patch.get_linestyle() == "--"]
    assert len(dashed) == 2
    blue = sorted(patch.get_linewidth() for patch in ax.patches if patch.get_edgecolor()[:3] == to_rgb(ANSWER))
    assert blue[1] > 2 * blue[0]


def test_curves_and_pulls():
    traces = {
        name: simulate(unit_problem(TopKOracle(4, k=1)), [1.0, 0.5, 0.0, 0.0], name, budget=100, replications=30)
        for name in ("top-two", "uniform")
    }
    ax = plot_identification(traces)
    assert len(ax.lines) == len(ax.collections) == 2
    rate, _ = traces["uniform"].identification_rate()
    assert np.array_equal(ax.lines[1].get_ydata(), rate)
    assert share_of(pixels(ax), ANSWER) > 5e-4
    bars = plot_pulls({i: i for i in range(100)})
    assert [bar.get_width() for bar in bars.patches] == list(range(99, 69, -1))


def test_pulls_of_a_result_and_of_many_runs():
    noise = np.random.default_rng(0)
    result = identify(unit_problem(TopKOracle(["a", "b", "c"], k=1)), lambda x: "cab".index(x) + noise.normal())
    mine, same = plot_pulls(result), plot_pulls(result.pulls)
    assert [bar.get_width() for bar in mine.patches] == [bar.get_width() for bar in same.patches]
    assert mine.patches[0].get_width() == max(result.pulls.values())
    assert {text.get_text() for text in mine.get_yticklabels()} == {"a", "b", "c"}
    trace = simulate(unit_problem(TopKOracle(4, k=1)), [1.0, 0.5, 0.0, 0.0], budget=20, replications=10)
    bars = plot_pulls(trace)
    assert [bar.get_width() for bar in bars.patches] == sorted(trace.pulls.mean(axis=0), reverse=True)
    assert bars.get_yticklabels()[0].get_text() == str(trace.pulls.sum(axis=0).argmax())
    assert bars.get_xlabel() == "samples of an average run"
    for other in ([3, 4], "a", None):
        with pytest.raises(ParameterError, match="a Result, a Status or a Trace"):
            plot_pulls(other)


def test_pictures_are_written_and_failures_are_typed(tmp_path):
    mine = plot_answer(load_instance("town").oracle)
    save(mine, tmp_path / "x.png")
    assert (tmp_path / "x.png").stat().st_size > 5000
    save(mine, tmp_path / "x.svg")
    for path in (tmp_path / "no" / "x.png", tmp_path / "x.unknown"):
        with pytest.raises(FileFormatError, match="cannot be written"):
            save(mine, path)


@pytest.mark.parametrize("label", ["$\\foo$", "$$", "a$b$c", "\\", "\x1b[2J", "\u202e", "a\nb", "\udc80", "<&>"])
@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_labels_are_drawn_as_they_are(label, suffix, tmp_path):
    """Matplotlib takes text between two dollars for a formula, and cannot draw lone surrogates."""
    graph = nx.DiGraph([(label, "b"), ("b", "t"), (label, "t")])
    oracles = [
        TopKOracle([label, "b"], 1),
        ShortestPathOracle(graph, label, "t"),
        MatchingOracle([label, "b"], ["u", label + "!"]),
    ]
    for oracle in oracles:
        ax = plot_answer(oracle, oracle.argmax(np.ones(oracle.dim)))
        texts = [text.get_text() for text in ax.figure.findobj(Text)]
        assert not any(is_formula(text) for text in texts)
        save(ax, tmp_path / f"x.{suffix}")
    save(plot_pulls({label: 3, "b": 1}), tmp_path / f"y.{suffix}")


def is_formula(text):
    return text.replace(r"\$", "").count("$") > 1

"""Plots of spanning trees."""

import networkx as nx
import numpy as np
import pytest

from combopeps import SpanningTreeOracle, TopKOracle, load_instance
from combopeps.errors import ParameterError
from combopeps.viz.answers import plot_answer
from combopeps.viz.canvas import ANSWER, RUNNER_UP


def second_best(oracle, theta):
    z = oracle.argmax(theta)
    facets = oracle.facets(z)
    return z, z + facets[[int((facets @ theta).argmax())]].toarray()[0]


def test_a_small_tree_has_a_line_for_each_edge():
    instance = load_instance("tree-e20")
    z, rival = second_best(instance.oracle, instance.theta)
    ax = plot_answer(instance.oracle, z, rival=rival, samples=np.arange(20.0))
    colours = [patch.get_edgecolor() for patch in ax.patches]
    from matplotlib.colors import to_rgba

    assert colours.count(to_rgba(ANSWER)) == 7
    assert colours.count(to_rgba(RUNNER_UP)) == 1
    assert ax.get_title().startswith("spanning tree: width = samples")
    assert {text.get_text() for text in ax.texts} >= {"1", "8"}


@pytest.mark.parametrize("with_answer", [True, False])
def test_a_large_tree(with_answer):
    oracle = SpanningTreeOracle(nx.grid_2d_graph(14, 14))
    theta = np.random.default_rng(0).random(oracle.dim)
    z, rival = second_best(oracle, theta)
    ax = plot_answer(oracle, z, rival=rival) if with_answer else plot_answer(oracle)
    sizes = [len(part.get_segments()) for part in ax.collections]
    assert sizes == ([oracle.dim - 195, 0, 195, 1] if with_answer else [oracle.dim, 0, 0, 0])
    ax.get_figure().draw_without_rendering()


def test_places():
    graph = nx.Graph([("a", "b"), ("b", "c"), ("a", "c")])
    oracle = SpanningTreeOracle(graph)
    where = {"a": (0.0, 0.0), "b": (300.0, 0.0), "c": (0.0, 400.0)}
    ax = plot_answer(oracle, oracle.argmax([1.0, 2.0, 3.0]), pos=where)
    assert ax.get_aspect() == 1.0
    with pytest.raises(ParameterError, match="pos places"):
        plot_answer(TopKOracle(3, k=1), pos=where)

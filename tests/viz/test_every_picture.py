"""Contract of all public plots: they draw on the given axes, without overlaps, and explain missing packages."""

import sys

import numpy as np
import pytest
from images import ink, overlapping
from unit_problem import unit_problem

import combopeps.viz as plotting
from combopeps import TopKOracle, identify, load_instance, simulate
from combopeps.errors import DependencyError

EMPTY = 1e-3  # of the pixels inside the axes


@pytest.fixture(scope="module")
def result():
    noise = np.random.default_rng(0)
    return identify(
        unit_problem(TopKOracle(["a", "b", "c"], k=1)), lambda x: "cab".index(x) + noise.normal(), delta=0.01
    )


@pytest.fixture(scope="module")
def draw(result):
    """Return a function that calls a plot by its name, with example data."""
    trace = simulate(unit_problem(TopKOracle(3, k=1)), [1.0, 0.0, 0.0], budget=30, replications=10)
    oracle = load_instance("town").oracle
    arguments = {
        "plot_answer": oracle,
        "plot_cost": {"oracle": ([2, 40], [1e-4, 2e-4]), "list": ([2, 5], [1e-4, 1e-1])},
        "plot_run_lengths": {"posterior": ([50, 60, 90], [0.3, 0.7, 1.0])},
        "plot_error_probability": {"three items": result},
        "plot_identification": {"top-two": trace},
        "plot_pulls": {"a": 3, "b": 9},
        "plot_result": result,
        "plot_share_correct": {"posterior": ([10, 100], [[0, 1], [1, 1], [0, 1]])},
        "plot_stopping_times": {"posterior": [50, 60, 90]},
    }
    return lambda name, **options: getattr(plotting, name)(arguments[name], **options)


NAMES = [name for name in plotting.__all__ if name.startswith("plot_")]


def test_empty_axes_have_no_ink():
    bare = plotting.new_axes()
    bare.set(xlabel="samples", ylabel="share", title="nothing")
    assert ink(bare) < EMPTY
    bare.plot([0, 1], [0, 1])
    assert ink(bare) > EMPTY


@pytest.mark.parametrize("name", NAMES)
def test_plots_use_the_given_axes_and_texts_do_not_overlap(draw, name):
    mine = plotting.new_axes()
    assert draw(name, ax=mine) is mine
    assert draw(name) is not mine
    assert overlapping(mine) == []
    assert ink(mine) > EMPTY


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_matplotlib_is_explained(draw, name, monkeypatch):
    for module in ("matplotlib", "matplotlib.figure", "matplotlib.backends", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(DependencyError, match=r"combopeps\[plot\]"):
        draw(name)

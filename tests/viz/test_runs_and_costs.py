"""Data of the plots of error probabilities, stopping times and costs."""

import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import TopKOracle, identify
from combopeps.errors import ParameterError
from combopeps.viz.curves import plot_cost, plot_error_probability, plot_stopping_times


def run(**options):
    noise = np.random.default_rng(0)
    return identify(
        unit_problem(TopKOracle(["a", "b", "c"], k=1)), lambda x: 0.7 * "cab".index(x) + noise.normal(), **options
    )


def test_results_keep_their_looks():
    result = run(delta=0.01)
    t = [look.t for look in result.looks]
    assert t[0] == 10
    assert t[-1] == result.samples
    assert np.diff(t).min() >= 1
    last = result.looks[-1]
    assert (last.statistic, last.threshold) == (result.evidence.statistic, result.evidence.threshold)
    # The first estimate of the posterior rule is what it compares with delta until it is below.
    assert all(look.statistic == look.error_probability > 0.01 == look.threshold for look in result.looks[:3])


def test_looks_compute_no_probability_that_the_rule_does_not_need():
    result = run(stopping="budget", budget=50)
    assert len(result.looks) > 3
    assert all(np.isnan(look.error_probability) for look in result.looks)


def test_error_probabilities_are_those_of_the_looks():
    results = {"loose": run(delta=0.01), "guaranteed": run(delta=0.01, stopping="certified")}
    ax = plot_error_probability(results)
    for line, result in zip(ax.lines, results.values(), strict=False):
        seen = [look.error_probability for look in result.looks if look.t < result.samples]
        assert np.array_equal(line.get_ydata(), [*seen, result.error_probability], equal_nan=True)
    assert list(ax.lines[2].get_ydata()) == [0.01, 0.01]
    assert len(plot_error_probability({"a": run(delta=0.01), "b": run(delta=0.1)}).lines) == 2  # no common delta
    with pytest.raises(ParameterError, match="no result"):
        plot_error_probability({})


def test_stopping_times_are_an_empirical_distribution():
    times = np.random.default_rng(0).integers(10, 1000, size=50)
    (line,) = plot_stopping_times({"rule": times}).lines
    x, y = line.get_data()
    for t in (times.min() - 1, 100, 500, times.max()):
        assert y[np.searchsorted(x, t, side="right") - 1] == (times <= t).mean()


def test_a_run_that_does_not_stop_keeps_the_curve_below_one():
    (line,) = plot_stopping_times({"rule": [10, 20, np.inf, np.inf]}).lines
    assert line.get_ydata().max() == 0.5


@pytest.mark.parametrize("bad", [{}, {"a": []}, {"a": [0, 5]}, {"a": [np.nan]}, {"a": [np.inf]}])
def test_invalid_stopping_times_are_rejected(bad):
    with pytest.raises(ParameterError):
        plot_stopping_times(bad)


def test_a_line_that_ends_early_gets_a_cross_and_the_longest_does_not():
    ax = plot_cost({"oracle": ([85, 2, 30], [4e-4, 1e-4, 2e-4]), "list": ([2, 5, 30], [1e-4, 0.1, np.nan])})
    longest, short, crosses = ax.lines
    assert longest.get_xdata().tolist() == [2, 30, 85]
    assert short.get_xdata().tolist() == [2, 5]
    assert crosses.get_xydata().tolist() == [[5, 0.1]]
    assert ax.get_yscale() == "log"
    ax.get_figure().canvas.draw()
    assert "$10^{20}$" in [text.get_text() for text in ax.get_xticklabels()]
    assert len(plot_cost({"oracle": ([2, 30], [1e-4, 2e-4])}).lines) == 1


@pytest.mark.parametrize("bad", [{}, {"a": ([1, 2], [1.0])}, {"a": ([1], [np.nan])}, {"a": ([1], [0.0])}])
def test_invalid_costs_are_rejected(bad):
    with pytest.raises(ParameterError):
        plot_cost(bad)

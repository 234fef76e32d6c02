"""Pictures of answers, of where measurements went, and of how fast policies learn. Needs matplotlib (extra `plot`)."""

from combopeps.plotting.answers import component_samples, plot_answer, plot_result
from combopeps.plotting.canvas import new_axes, save
from combopeps.plotting.curves import (
    plot_cost,
    plot_error_probability,
    plot_identification,
    plot_pulls,
    plot_stopping_times,
)
from combopeps.plotting.plans import plot_ends, plot_right

__all__ = [
    "component_samples",
    "new_axes",
    "plot_answer",
    "plot_cost",
    "plot_ends",
    "plot_error_probability",
    "plot_identification",
    "plot_pulls",
    "plot_result",
    "plot_right",
    "plot_stopping_times",
    "save",
]

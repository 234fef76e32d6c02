"""Plots (extra `plot`) and the report page of a campaign (extra `serve`)."""

from typing import TYPE_CHECKING

from combopeps.utils import import_on_first_use

if TYPE_CHECKING:
    from combopeps.viz.answers import component_samples, plot_answer, plot_result
    from combopeps.viz.canvas import new_axes, save
    from combopeps.viz.curves import (
        plot_cost,
        plot_error_probability,
        plot_identification,
        plot_pulls,
        plot_run_lengths,
        plot_share_correct,
        plot_stopping_times,
    )
    from combopeps.viz.html import report

__all__ = [
    "component_samples",
    "new_axes",
    "plot_answer",
    "plot_cost",
    "plot_error_probability",
    "plot_identification",
    "plot_pulls",
    "plot_result",
    "plot_run_lengths",
    "plot_share_correct",
    "plot_stopping_times",
    "report",
    "save",
]

# Imported on first use: plots need matplotlib, pages need jinja2.
_MODULES = {
    "answers": "component_samples plot_answer plot_result",
    "canvas": "new_axes save",
    "curves": (
        "plot_cost plot_error_probability plot_identification plot_pulls plot_run_lengths plot_share_correct "
        "plot_stopping_times"
    ),
    "html": "report",
}
if not TYPE_CHECKING:
    __getattr__ = import_on_first_use(__name__, _MODULES)

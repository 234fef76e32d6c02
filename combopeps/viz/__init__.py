"""Plots (extra `plot`) and the report page of a campaign (extra `serve`)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
    "viz.answers": "component_samples plot_answer plot_result",
    "viz.canvas": "new_axes save",
    "viz.curves": (
        "plot_cost plot_error_probability plot_identification plot_pulls plot_run_lengths plot_share_correct "
        "plot_stopping_times"
    ),
    "viz.html": "report",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"combopeps.{_MODULE_OF[name]}"), name)

"""Pictures of answers, of where measurements went, and of how fast policies learn. Needs matplotlib (extra `plot`)."""

from combopeps.plotting.answers import component_samples, plot_answer, plot_result
from combopeps.plotting.canvas import new_axes, save
from combopeps.plotting.curves import plot_identification, plot_pulls

__all__ = ["component_samples", "new_axes", "plot_answer", "plot_identification", "plot_pulls", "plot_result", "save"]

"""Plots of a plan: when runs end, and the share of right answers against the budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from combopeps.errors import ParameterError
from combopeps.utils.formatting import Proportion
from combopeps.viz.canvas import CYCLE, STYLES, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_run_lengths(
    ends: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    unit: str = "measurements",
    budget: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the share of runs that have ended against the number of measurements: the left half of `Plan.plot`.

    Parameters
    ----------
    ends
        For each rule, numbers of measurements and the shares of runs that have ended by then.
    unit
        Label of the axis: "measurements" or "actions".
    budget
        Number of measurements that can be made, drawn as a dashed line.
    ax
        Axes to draw on; new ones by default.

    Examples
    --------
    >>> plot_run_lengths({"posterior": ([80, 95, 120], [0.3, 0.7, 1.0])}).get_ylabel()
    'share of runs ended'
    """
    ax = new_axes() if ax is None else ax
    for i, (rule, (times, share)) in enumerate(ends.items()):
        t = np.asarray(times, dtype=np.float64)
        steps, heights = np.append(t[0] / 1.2, t), np.append(0.0, np.asarray(share, dtype=np.float64))
        ax.step(steps, heights, STYLES[i % len(STYLES)], where="post", color=CYCLE[i % len(CYCLE)], label=rule)
    ax.set(xscale="log", ylim=(0, 1.02), xlabel=unit, ylabel="share of runs ended")
    return _finished(ax, budget)


def plot_share_correct(
    right: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    unit: str = "measurements",
    budget: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the share of right answers against the budget, with 95 % intervals: the right half of `Plan.plot`.

    Parameters
    ----------
    right
        For each rule, numbers of measurements, (T,), and whether the answer of each run was right then, (n, T).
    unit
        Label of the axis: "measurements" or "actions".
    budget
        Number of measurements that can be made, drawn as a dashed line.
    ax
        Axes to draw on; new ones by default.

    Examples
    --------
    >>> ax = plot_share_correct({"posterior": ([10, 100], [[0, 1], [1, 1], [0, 1]])})
    >>> ax.lines[0].get_ydata().round(2).tolist()
    [0.33, 1.0]
    """
    if not right:
        raise ParameterError("there is no run to draw")
    ax = new_axes() if ax is None else ax
    for i, (rule, (times, is_right)) in enumerate(right.items()):
        flags, t = np.asarray(is_right, dtype=bool), np.asarray(times)
        shares = [Proportion.of(int(count), len(flags)) for count in flags.sum(axis=0)]
        colour = CYCLE[i % len(CYCLE)]
        ax.plot(t, [share.value for share in shares], STYLES[i % len(STYLES)], color=colour, label=rule)
        low, high = [share.low for share in shares], [share.high for share in shares]
        ax.fill_between(t, low, high, color=colour, alpha=0.2, linewidth=0)
    ax.set(xscale="log", ylim=(0, 1.02), xlabel=f"{unit}, at most", ylabel="share of runs with the right answer")
    return _finished(ax, budget)


def _finished(ax: Axes, budget: int | None) -> Axes:
    """Add the grid, the line of the budget and the legend."""
    ax.grid(alpha=0.3)
    if budget is not None:
        ax.axvline(budget, color="black", linestyle="--", linewidth=1)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, fontsize=9)
    return ax

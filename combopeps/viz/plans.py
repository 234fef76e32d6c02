"""What runs will take, and what a budget is worth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from combopeps.errors import ParameterError
from combopeps.utils.formatting import Share
from combopeps.viz.canvas import CYCLE, STYLES, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_ends(
    ends: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    unit: str = "measurements",
    budget: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The share of runs that have ended, against the number of measurements: the left half of `Plan.plot`.

    Parameters
    ----------
    ends
        For each rule numbers of measurements, and the share of runs that have ended by then.
    unit
        What is counted.
    budget
        The number of measurements that can be made, if there is one: a dashed line.
    ax
        Where to draw; new axes by default.

    Examples
    --------
    >>> plot_ends({"posterior": ([80, 95, 120], [0.3, 0.7, 1.0])}).get_ylabel()
    'share of runs ended'
    """
    ax = new_axes() if ax is None else ax
    for i, (rule, (at, share)) in enumerate(ends.items()):
        t = np.asarray(at, dtype=np.float64)
        steps, heights = np.append(t[0] / 1.2, t), np.append(0.0, np.asarray(share, dtype=np.float64))
        ax.step(steps, heights, STYLES[i % len(STYLES)], where="post", color=CYCLE[i % len(CYCLE)], label=rule)
    ax.set(xscale="log", ylim=(0, 1.02), xlabel=unit, ylabel="share of runs ended")
    return _finished(ax, budget)


def plot_right(
    right: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    unit: str = "measurements",
    budget: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The share of runs with the right answer against the budget, with 95 % intervals: the right half of `Plan.plot`.

    Parameters
    ----------
    right
        For each rule numbers of measurements, (T,), and whether each run was right by then, (n, T).
    unit
        What is counted.
    budget
        The number of measurements that can be made, if there is one: a dashed line.
    ax
        Where to draw; new axes by default.

    Examples
    --------
    >>> ax = plot_right({"posterior": ([10, 100], [[0, 1], [1, 1], [0, 1]])})
    >>> ax.lines[0].get_ydata().round(2).tolist()
    [0.33, 1.0]
    """
    if not right:
        raise ParameterError("there is no run to draw")
    ax = new_axes() if ax is None else ax
    for i, (rule, (times, seen)) in enumerate(right.items()):
        flags, at = np.asarray(seen, dtype=bool), np.asarray(times)
        shares = [Share.of(int(hits), len(flags)) for hits in flags.sum(axis=0)]
        colour = CYCLE[i % len(CYCLE)]
        ax.plot(at, [share.value for share in shares], STYLES[i % len(STYLES)], color=colour, label=rule)
        low, high = [share.low for share in shares], [share.high for share in shares]
        ax.fill_between(at, low, high, color=colour, alpha=0.2, linewidth=0)
    ax.set(xscale="log", ylim=(0, 1.02), xlabel=f"{unit}, at most", ylabel="share of runs with the right answer")
    return _finished(ax, budget)


def _finished(ax: Axes, budget: int | None) -> Axes:
    ax.grid(alpha=0.3)
    if budget is not None:
        ax.axvline(budget, color="black", linestyle="--", linewidth=1)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, fontsize=9)
    return ax

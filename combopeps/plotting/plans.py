"""What runs will take, and what a budget is worth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from combopeps.errors import ParameterError
from combopeps.plotting.canvas import CYCLE, STYLES, new_axes
from combopeps.share import Share

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_plan(
    ends: Mapping[str, tuple[ArrayLike, ArrayLike]],
    right: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    unit: str = "measurements",
    budget: int | None = None,
    ax: tuple[Axes, Axes] | None = None,
) -> tuple[Axes, Axes]:
    """Two pictures side by side: by when runs end, and the share that is right against the budget.

    `Plan.plot` calls it. Bands are 95 % intervals; a vertical line marks the budget.

    Parameters
    ----------
    ends
        For each rule numbers of measurements, and the share of runs that have ended by then.
    right
        For each rule numbers of measurements, (T,), and whether each run was right by then, (n, T).
    unit
        What is counted.
    budget
        The number of measurements that can be made, if there is one.
    ax
        Where to draw; a new figure by default.

    Examples
    --------
    >>> ends, right = ([80, 95, 120], [0.3, 0.7, 1.0]), ([10, 100], [[0, 1], [1, 1], [0, 1]])
    >>> both = plot_plan({"posterior": ends}, {"posterior": right})
    >>> [axes.get_ylabel() for axes in both]
    ['share of runs ended', 'share of runs with the right answer']
    """
    if not right:
        raise ParameterError("there is no run to draw")
    left_ax, right_ax = _two() if ax is None else ax
    for i, (rule, (at, share)) in enumerate(ends.items()):
        t = np.asarray(at, dtype=np.float64)
        steps, heights = np.append(t[0] / 1.2, t), np.append(0.0, np.asarray(share, dtype=np.float64))
        left_ax.step(steps, heights, STYLES[i % len(STYLES)], where="post", color=CYCLE[i % len(CYCLE)], label=rule)
    left_ax.set(xscale="log", ylim=(0, 1.02), xlabel=unit, ylabel="share of runs ended")
    left_ax.grid(alpha=0.3)
    if ends:
        left_ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, fontsize=9)
    for i, (rule, (times, seen)) in enumerate(right.items()):
        flags, at = np.asarray(seen, dtype=bool), np.asarray(times)
        shares = [Share.of(int(hits), len(flags)) for hits in flags.sum(axis=0)]
        colour = CYCLE[i % len(CYCLE)]
        right_ax.plot(at, [share.value for share in shares], STYLES[i % len(STYLES)], color=colour, label=rule)
        low, high = [share.low for share in shares], [share.high for share in shares]
        right_ax.fill_between(at, low, high, color=colour, alpha=0.2, linewidth=0)
    right_ax.set(xscale="log", ylim=(0, 1.02), xlabel=f"{unit}, at most", ylabel="share of runs with the right answer")
    right_ax.grid(alpha=0.3)
    if budget is not None:
        for axes in (left_ax, right_ax):
            axes.axvline(budget, color="black", linestyle="--", linewidth=1)
    right_ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, fontsize=9)
    return left_ax, right_ax


def _two() -> tuple[Axes, Axes]:
    first = new_axes(10.0, 4.2)
    figure = first.get_figure(root=True)
    assert figure is not None
    first.remove()
    left, right = figure.subplots(1, 2)
    return left, right

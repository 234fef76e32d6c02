"""How runs come to an end: the probability of being wrong on the way, and when they stop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from combopeps.errors import ParameterError
from combopeps.plotting.canvas import CYCLE, MARKERS, STYLES, new_axes
from combopeps.run.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_error_probability(results: Mapping[str, Result], *, ax: Axes | None = None) -> Axes:
    """P(Alt | data), the posterior probability that the current answer is wrong, at the looks of each run.

    Of runs with an epsilon it is the probability that the answer is worse than the best by more than that.

    The last point is the end of the run. A line has a gap where the stopping rule did not ask for the probability; a
    dashed line marks delta, if it is the same for all.

    Parameters
    ----------
    results
        What `identify` returned, by the name to show.
    ax
        Where to draw; new axes by default.

    Examples
    --------
    >>> from combopeps import TopKOracle, identify
    >>> noise = np.random.default_rng(0)
    >>> result = identify(TopKOracle(["a", "b", "c"], k=1), lambda x: "cab".index(x) + noise.normal())
    >>> ax = plot_error_probability({"three items": result})
    >>> float(ax.lines[0].get_ydata()[-1]) == result.error_probability
    True
    """
    if not results:
        raise ParameterError("there is no result to draw")
    ax = new_axes() if ax is None else ax
    for i, (name, result) in enumerate(results.items()):
        seen = [(look.t, look.error_probability) for look in result.looks]
        t, p = np.array([*seen, (result.samples, result.error_probability)]).T
        p[p == 0] = np.nan  # there is no other answer, or none was drawn: no logarithm shows that
        style, marker = STYLES[i % len(STYLES)], MARKERS[i % len(MARKERS)]
        ax.plot(t, p, style, color=CYCLE[i % len(CYCLE)], marker=marker, markersize=3.5, label=name)
    deltas = {result.delta for result in results.values()}
    if len(deltas) == 1:
        ax.axhline(deltas.pop(), color="black", linestyle="--", linewidth=1, label="delta")
    lenient = any(result.epsilon > 0 for result in results.values())
    ylabel = "P(worse by more than epsilon | data)" if lenient else "P(Alt | data)"
    ax.set(xscale="log", yscale="log", xlabel="samples", ylabel=ylabel)
    ax.grid(alpha=0.3)
    ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=5, fontsize=9)
    return ax


def plot_stopping_times(samples: Mapping[str, ArrayLike], *, ax: Axes | None = None) -> Axes:
    """The share of runs that have stopped, against the number of samples.

    Parameters
    ----------
    samples
        For each name the samples at which its runs stopped; infinite for a run that did not.
    ax
        Where to draw; new axes by default.

    Examples
    --------
    >>> ax = plot_stopping_times({"posterior": [80, 120, 95], "verified": [300, 260, np.inf]})
    >>> [round(float(line.get_ydata()[-1]), 2) for line in ax.lines]
    [1.0, 0.67]
    """
    times = {name: np.sort(np.asarray(values, dtype=np.float64).ravel()) for name, values in samples.items()}
    for name, t in times.items():
        if not len(t) or not (t >= 1).all():
            raise ParameterError(f"{name}: give at least one stopping time, each 1 or more")
    stopped = np.concatenate([t[np.isfinite(t)] for t in times.values()]) if times else np.zeros(0)
    if not len(stopped):
        raise ParameterError("no run has stopped: there is nothing to draw")
    ax = new_axes() if ax is None else ax
    first, last = stopped.min() / 1.2, stopped.max() * 1.2
    for i, (name, t) in enumerate(times.items()):
        share = np.arange(len(t) + 1) / len(t)
        ended = np.isfinite(t).sum()
        steps = np.concatenate([[first], t[:ended], [last]])
        heights = np.concatenate([share[: ended + 1], [share[ended]]])
        style = STYLES[i % len(STYLES)]
        ax.step(steps, heights, style, where="post", color=CYCLE[i % len(CYCLE)], label=f"{name} ({len(t)} runs)")
    ax.set(xscale="log", xlabel="samples", ylabel="share of runs stopped", ylim=(0, 1.02), xlim=(first, last))
    ax.grid(alpha=0.3)
    ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, fontsize=9)
    return ax

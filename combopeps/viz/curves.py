"""Plots of runs: identification rates, pulls, error probabilities, stopping times, and the time of a round.

Plots of a plan: when runs end, and the share of right answers against the budget.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from combopeps.errors import ParameterError
from combopeps.oracles.base import Array
from combopeps.session.result import Result
from combopeps.session.trace import Trace
from combopeps.utils.formatting import Proportion, sort_by_count
from combopeps.viz.canvas import ANSWER, CYCLE, MARKERS, STYLES, new_axes, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from combopeps.session.result import Status

_MAX_BARS = 30


def plot_identification(traces: Mapping[str, Trace], *, ax: Axes | None = None) -> Axes:
    """Plot the share of right answers against the number of samples, with bands of two standard errors.

    Parameters
    ----------
    traces
        Results of `simulate` by name.
    ax
        Axes to draw on; new ones by default.

    Examples
    --------
    >>> from combopeps import Problem, TopKOracle, simulate
    >>> trace = simulate(Problem(TopKOracle(3, k=1), noise_std=1.0), [1.0, 0.0, 0.0], budget=50, replications=20)
    >>> len(plot_identification({"top-two": trace}).lines)
    1
    """
    ax = new_axes() if ax is None else ax
    for i, (name, trace) in enumerate(traces.items()):
        rate, error = trace.identification_rate()
        colour = CYCLE[i % len(CYCLE)]
        ax.plot(trace.t, rate, STYLES[i % len(STYLES)], color=colour, label=f"{name} ({len(trace.correct)} runs)")
        low, high = np.clip(rate - error, 0, 1), np.clip(rate + error, 0, 1)
        ax.fill_between(trace.t, low, high, color=colour, alpha=0.2, linewidth=0)
    ax.set(xscale="log", ylim=(0, 1.02), xlabel="samples", ylabel="share of runs with the right answer")
    ax.grid(alpha=0.3)
    ax.legend(loc="best", framealpha=0.7, edgecolor="none")
    return ax


def plot_pulls(pulls: Mapping[Hashable, int] | Result | Status | Trace, *, ax: Axes | None = None) -> Axes:
    """Plot the number of samples of each arm, in descending order.

    Parameters
    ----------
    pulls
        Counts by label, a `Result`, the `Status` of a campaign, or a `Trace`, of which the mean over runs is drawn, by
        the index of the arm.
    ax
        Axes to draw on; new ones by default.

    Examples
    --------
    >>> ax = plot_pulls({"a": 3, "b": 9, "c": 0})
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['b', 'a', 'c']
    """
    order = list(sort_by_count(_counts(pulls)).items())
    ax = new_axes() if ax is None else ax
    shown = order[:_MAX_BARS]
    at = np.arange(len(shown))
    ax.barh(at, [count for _, count in shown], color=ANSWER)
    ax.set_yticks(at, [_short_label(label) for label, _ in shown], fontsize=9 if len(shown) <= 20 else 7)
    ax.set_ylim(max(len(shown), 6) - 0.4, -0.6)
    ax.set_xlabel("samples of an average run" if isinstance(pulls, Trace) else "samples")
    if len(shown) < len(order):
        ax.set_title(f"the {len(shown)} most measured of {len(order)}", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_error_probability(results: Mapping[str, Result], *, ax: Axes | None = None) -> Axes:
    """Plot P(Alt | data), the posterior probability that the current answer is wrong, at the looks of each run.

    For runs with epsilon > 0 it is the probability that the answer is worse than the best by more than epsilon.

    The last point is the end of the run; those before it are rough estimates, from some hundred draws each. A line has
    a gap where the stopping rule did not compute the probability. A dashed line marks delta, if all runs have the same.

    Parameters
    ----------
    results
        Results of `identify` by name.
    ax
        Axes to draw on; new ones by default.

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
        looks = [(look.t, look.error_probability) for look in result.looks if look.t < result.samples]
        t, p = np.array([*looks, (result.samples, result.error_probability)]).T
        p[p == 0] = np.nan  # no alternative was drawn, or there is none: it has no place on a logarithmic axis
        style, marker = STYLES[i % len(STYLES)], MARKERS[i % len(MARKERS)]
        ax.plot(t, p, style, color=CYCLE[i % len(CYCLE)], marker=marker, markersize=3.5, label=name)
    deltas = {result.delta for result in results.values()}
    if len(deltas) == 1:
        ax.axhline(deltas.pop(), color="black", linestyle="--", linewidth=1, label="delta")
    has_epsilon = any(result.epsilon > 0 for result in results.values())
    ylabel = "P(worse by more than epsilon | data)" if has_epsilon else "P(Alt | data)"
    ax.set(xscale="log", yscale="log", xlabel="samples", ylabel=ylabel)
    ax.grid(alpha=0.3)
    ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=5, fontsize=9)
    return ax


def plot_stopping_times(samples: Mapping[str, ArrayLike], *, ax: Axes | None = None) -> Axes:
    """Plot the share of runs that have stopped against the number of samples.

    Parameters
    ----------
    samples
        For each name, the stopping times of its runs; infinite for runs that did not stop.
    ax
        Axes to draw on; new ones by default.

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


def plot_cost(
    series: Mapping[str, tuple[ArrayLike, ArrayLike]], *, end: str = "cannot list Z", ax: Axes | None = None
) -> Axes:
    """Plot seconds per round against |Z|, both on logarithmic scales.

    A line that ends before the largest set has a cross at its end.

    Parameters
    ----------
    series
        For each name, log10 |Z| (|Z| itself may be too large for a float) and seconds per round, NaN where unknown.
    end
        Meaning of the cross, for the legend.
    ax
        Axes to draw on; new ones by default.

    Examples
    --------
    >>> ax = plot_cost({"oracle": ([2, 10, 85], [1e-4, 2e-4, 4e-4]), "list": ([2, 5], [1e-4, 0.1])})
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['oracle', 'list', 'cannot list Z']
    """
    lines = {name: _finite_points(name, *values) for name, values in series.items()}
    if not lines:
        raise ParameterError("there is no series to draw")
    ax = new_axes() if ax is None else ax
    largest = max(log_size[-1] for log_size, _ in lines.values())
    for i, (name, (log_size, seconds)) in enumerate(lines.items()):
        ax.plot(
            log_size, seconds, color=CYCLE[i % len(CYCLE)], marker=MARKERS[i % len(MARKERS)], markersize=5, label=name
        )
    ends = [(log_size[-1], seconds[-1]) for log_size, seconds in lines.values() if log_size[-1] < largest]
    if ends:
        ax.plot(*zip(*ends, strict=True), "x", color="black", markersize=12, markeredgewidth=2.5, label=end)
    ax.set(yscale="log", xlabel="answers |Z|", ylabel="seconds per round")
    ax.xaxis.set_major_formatter(lambda power, _: f"$10^{{{power:g}}}$")
    ax.grid(alpha=0.3)
    ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4)
    return ax


def _counts(pulls: Mapping[Hashable, int] | Result | Status | Trace) -> Mapping[Hashable, float]:
    """Return the counts by label."""
    if isinstance(pulls, Trace):
        return dict(enumerate(pulls.pulls.mean(axis=0).tolist()))
    counts = pulls if isinstance(pulls, Mapping) else getattr(pulls, "pulls", None)
    if not isinstance(counts, Mapping):
        raise ParameterError(f"give counts by label, a Result, a Status or a Trace, got {pulls!r:.40}")
    return counts


def _short_label(label: Hashable) -> str:
    """Return a short label; edges as their two ends."""
    return short(" - ".join(map(str, label)) if isinstance(label, tuple) else label)


def _finite_points(name: str, log_size: ArrayLike, seconds: ArrayLike) -> tuple[Array, Array]:
    """Return the points that are finite, by size."""
    x, y = np.asarray(log_size, dtype=np.float64), np.asarray(seconds, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape:
        raise ParameterError(f"{name}: log10 |Z| and seconds must be two lists of one length")
    is_finite = np.isfinite(x) & np.isfinite(y)
    if not is_finite.any() or (y[is_finite] <= 0).any():
        raise ParameterError(f"{name}: there must be at least one time, and all above 0")
    order = np.argsort(x[is_finite], kind="stable")
    return x[is_finite][order], y[is_finite][order]


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

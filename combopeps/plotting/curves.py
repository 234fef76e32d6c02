"""How fast policies learn, and where measurements went."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from combopeps.plotting.canvas import ANSWER, CYCLE, STYLES, new_axes, short
from combopeps.run.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_BARS = 30


def plot_identification(traces: Mapping[str, Trace], *, ax: Axes | None = None) -> Axes:
    """The share of right answers against the number of samples, with bands of two standard errors.

    Examples
    --------
    >>> from combopeps import TopKOracle, simulate
    >>> trace = simulate(TopKOracle(3, k=1), [1.0, 0.0, 0.0], budget=50, replications=20)
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
    ax.set_xscale("log")
    ax.set_ylim(0, 1.02)
    ax.set_xlabel("samples")
    ax.set_ylabel("share of runs with the right answer")
    ax.grid(alpha=0.3)
    ax.legend(loc="best", framealpha=0.7, edgecolor="none")
    return ax


def plot_pulls(pulls: Mapping[Hashable, int], *, ax: Axes | None = None) -> Axes:
    """How often each arm was measured, the most measured ones first.

    Examples
    --------
    >>> ax = plot_pulls({"a": 3, "b": 9, "c": 0})
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['b', 'a', 'c']
    """
    ax = new_axes() if ax is None else ax
    order = sorted(pulls.items(), key=lambda item: -item[1])
    shown = order[:_MOST_BARS]
    at = np.arange(len(shown))
    ax.barh(at, [count for _, count in shown], color=ANSWER)
    ax.set_yticks(at, [_name(label) for label, _ in shown], fontsize=9 if len(shown) <= 20 else 7)
    ax.set_ylim(max(len(shown), 6) - 0.4, -0.6)
    ax.set_xlabel("samples")
    left_out = len(order) - len(shown)
    if left_out:
        ax.set_title(f"the {len(shown)} most measured of {len(order)}", fontsize=10)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def _name(label: Hashable) -> str:
    """An edge by its ends."""
    return short(" - ".join(map(str, label)) if isinstance(label, tuple) else label)

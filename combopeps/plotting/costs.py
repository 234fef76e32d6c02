"""What a round costs as the set of answers grows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from combopeps.errors import ParameterError
from combopeps.oracles.base import Array
from combopeps.plotting.canvas import CYCLE, MARKERS, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_cost(
    series: Mapping[str, tuple[ArrayLike, ArrayLike]], *, end: str = "cannot list Z", ax: Axes | None = None
) -> Axes:
    """Seconds per round against |Z|, both on logarithmic scales.

    A line that ends before the largest set of all gets a cross at its end, which the legend explains.

    Parameters
    ----------
    series
        For each name log10 |Z| (sets are too large for |Z| itself) and seconds per round; NaN where there are none.
    end
        Why a line ends early.
    ax
        Where to draw; new axes by default.

    Examples
    --------
    >>> ax = plot_cost({"oracle": ([2, 10, 85], [1e-4, 2e-4, 4e-4]), "list": ([2, 5], [1e-4, 0.1])})
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['oracle', 'list', 'cannot list Z']
    """
    lines = {name: _points(name, *values) for name, values in series.items()}
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
    ax.set_yscale("log")
    ax.xaxis.set_major_formatter(lambda power, _: f"$10^{{{power:g}}}$")
    ax.set_xlabel("answers |Z|")
    ax.set_ylabel("seconds per round")
    ax.grid(alpha=0.3)
    ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4)
    return ax


def _points(name: str, log_size: ArrayLike, seconds: ArrayLike) -> tuple[Array, Array]:
    """Those that are there, by size."""
    x, y = np.asarray(log_size, dtype=np.float64), np.asarray(seconds, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape:
        raise ParameterError(f"{name}: log10 |Z| and seconds must be two lists of one length")
    there = np.isfinite(x) & np.isfinite(y)
    if not there.any() or (y[there] <= 0).any():
        raise ParameterError(f"{name}: there must be at least one time, and all above 0")
    order = np.argsort(x[there], kind="stable")
    return x[there][order], y[there][order]

"""Items in order, with what is known about each, and the cut after the k-th."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from combopeps.belief import GaussianBelief
from combopeps.oracles import TopKOracle
from combopeps.oracles.base import Array
from combopeps.plotting.canvas import ANSWER, OTHER, RIVAL, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_ITEMS = 30


def draw_ranking(
    oracle: TopKOracle, z: Array, belief: GaussianBelief | None, theta: Array | None, samples: Array, ax: Axes
) -> Axes:
    """Posterior means with intervals of two standard deviations, or the truth; only items near the cut if many."""
    if belief is not None:
        mean, width = belief.theta_hat[0], 2.0 * belief.std[0]
    else:
        mean, width = (np.zeros(oracle.dim) if theta is None else theta), np.zeros(oracle.dim)
    order = np.lexsort((-mean, z == 0))
    start = max(0, min(oracle.k - _MOST_ITEMS // 2, oracle.dim - _MOST_ITEMS))
    shown = order[start : start + _MOST_ITEMS]
    at = np.arange(start, start + len(shown)) + 1
    for inside, colour, marker in ((True, ANSWER, "o"), (False, OTHER, "s")):
        pick = (z[shown] != 0) == inside
        ax.errorbar(
            mean[shown][pick], at[pick], xerr=width[shown][pick], fmt=marker, color=colour, markersize=4, capsize=2,
            label="chosen" if inside else "not chosen",
        )  # fmt: skip
    if z.any():
        ax.axhline(oracle.k + 0.5, color=RIVAL, linestyle="--", linewidth=2.0, label=f"cut at k = {oracle.k}")
    ax.set_yticks(at, [short(oracle.components[i]) for i in shown], fontsize=9 if len(shown) <= 20 else 7)
    ax.set_ylim(at[-1] + 0.7, at[0] - 0.7)
    ax.set_xlabel("posterior mean, with two standard deviations" if belief is not None else "true mean")
    total = f" after {int(samples.sum()):,} samples" if samples.any() else ""
    some = "" if len(shown) == oracle.dim else f", ranks {at[0]} to {at[-1]}"
    ax.set_title(f"the best {oracle.k} of {oracle.dim}{total}{some}", fontsize=10, pad=22)
    ax.legend(frameon=False, fontsize=9, loc="lower center", bbox_to_anchor=(0.5, 0.99), ncols=3)  # never on the data
    ax.grid(axis="x", alpha=0.3)
    return ax

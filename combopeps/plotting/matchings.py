"""An assignment: two columns of nodes, and lines between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from combopeps.oracles import MatchingOracle
from combopeps.oracles.base import Array
from combopeps.plotting.canvas import ANSWER, OTHER, RIVAL, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_LABELS = 60
_WIDEST = 5.0


def draw_matching(oracle: MatchingOracle, z: Array, rival: Array, samples: Array, ax: Axes) -> Axes:
    """The answer in full, the runner-up dashed where it differs, other pairs as thick as they were measured."""
    from matplotlib.collections import LineCollection
    from matplotlib.lines import Line2D

    heights = [{node: -(i + 0.5) / len(side) for i, node in enumerate(side)} for side in (oracle.left, oracle.right)]
    pairs: tuple[tuple[object, object], ...] = oracle.components  # type: ignore[assignment]
    lines = np.array([[(0.0, heights[0][i]), (1.0, heights[1][j])] for i, j in pairs])
    share = samples / max(1.0, samples.max())
    rest = (z == 0) & ((samples > 0) | (len(lines) <= 400))
    ax.add_collection(LineCollection(lines[rest], colors=OTHER, linewidths=0.3 + _WIDEST * share[rest], alpha=0.6))
    chosen = z != 0
    ax.add_collection(LineCollection(lines[chosen], colors=ANSWER, linewidths=1.5 + _WIDEST * share[chosen]))
    differs = (rival != 0) & (z == 0)
    ax.add_collection(LineCollection(lines[differs], colors=RIVAL, linewidths=1.8, linestyles="--"))
    for x, side, align in ((0.0, heights[0], "right"), (1.0, heights[1], "left")):
        ax.plot([x] * len(side), list(side.values()), "o", color="black", markersize=3)
        if len(side) <= _MOST_LABELS:
            for node, y in side.items():
                shift = -0.02 if align == "right" else 0.02
                size = 9 if len(side) <= 20 else 6
                ax.text(x + shift, y, short(node), ha=align, va="center", fontsize=size)
    ax.set_xlim(-0.35, 1.35)
    ax.set_ylim(-1.02, 0.02)
    ax.set_axis_off()
    total = f": width = samples, {int(samples.sum())} in all" if samples.any() else ""
    keys: list[tuple[str, Any, str]] = [
        (ANSWER, "-", "answer"),
        (RIVAL, "--", "runner-up, where it differs"),
        (OTHER, "-", "other pairs"),
    ]
    present = [chosen.any(), differs.any(), rest.any()]
    handles = [
        Line2D([], [], color=c, linestyle=s, linewidth=2, label=text)
        for (c, s, text), there in zip(keys, present, strict=True)
        if there
    ]
    ax.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=3, frameon=False, fontsize=9)
    ax.set_title(f"{len(oracle.left)} x {len(oracle.right)} assignment{total}", fontsize=10)
    return ax

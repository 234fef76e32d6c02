"""An assignment: two columns of nodes, partners level with each other, and lines between them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from combopeps.oracles import MatchingOracle
from combopeps.oracles.base import Array
from combopeps.plotting.canvas import ANSWER, OTHER, RIVAL, legend_below, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_ROWS, _MOST_LARGE_LABELS, _MOST_OTHERS = 30, 16, 150
_WIDEST = 5.0


def draw_matching(oracle: MatchingOracle, z: Array, rival: Array, samples: Array, ax: Axes) -> Axes:
    """The answer in full, the runner-up dashed where it differs, other pairs as thick as they were measured."""
    from matplotlib.collections import LineCollection

    pairs = cast("tuple[tuple[Hashable, Hashable], ...]", oracle.components)
    columns = _columns(oracle, pairs, z, rival, samples)
    rows = max(map(len, columns))
    left, right = ({node: -(i + 0.5) / rows for i, node in enumerate(column)} for column in columns)
    seen = np.fromiter((i in left and j in right for i, j in pairs), bool, len(pairs))
    lines: Any = np.array([[(0.0, left[i]), (1.0, right[j])] for (i, j), see in zip(pairs, seen, strict=True) if see])
    share, chosen = samples[seen] / max(1.0, samples.max()), z[seen] != 0
    differs = (rival[seen] != 0) & ~chosen
    rest = np.zeros(len(lines), dtype=bool)
    rest[np.argsort(np.where(chosen, -1.0, share))[::-1][:_MOST_OTHERS]] = True  # more would fill the picture
    rest &= ~chosen
    widest = _WIDEST * min(1.0, _MOST_LARGE_LABELS / rows)
    faint = 0.15 + 0.6 * share[rest]
    ax.add_collection(LineCollection(lines[rest], colors=OTHER, linewidths=0.3 + widest * share[rest], alpha=faint))
    ax.add_collection(LineCollection(lines[chosen], colors=ANSWER, linewidths=1.5 + widest * share[chosen]))
    ax.add_collection(LineCollection(lines[differs], colors=RIVAL, linewidths=2.0, linestyles="--"))
    size = 9 if rows <= _MOST_LARGE_LABELS else 7
    for x, column, align, away in ((0.0, left, "right", -6), (1.0, right, "left", 6)):
        ax.plot([x] * len(column), list(column.values()), "o", color="black", markersize=3)
        for node, y in column.items():
            ax.annotate(
                short(node), (x, y), (away, 0), textcoords="offset points", ha=align, va="center", fontsize=size
            )
    ax.set_xlim(-0.35, 1.35)
    ax.set_ylim(-1.02, 0.02)
    ax.set_axis_off()
    keys = (ANSWER, "-", "answer", chosen), (RIVAL, "--", "runner-up", differs), (OTHER, "-", "other pairs", rest)
    legend_below(ax, *keys)
    total = f": width = samples, {int(samples.sum()):,} in all" if samples.any() else ""
    some = "" if len(left) == len(oracle.left) else f"\n{len(left)} rows, the runner-up's and the most measured"
    ax.set_title(f"{len(oracle.left)} x {len(oracle.right)} assignment{total}{some}", fontsize=10)
    return ax


def _columns(
    oracle: MatchingOracle, pairs: tuple[tuple[Hashable, Hashable], ...], z: Array, rival: Array, samples: Array
) -> tuple[list[Hashable], list[Hashable]]:
    """The left nodes that are shown, and the right ones: first their partners, in the same order, then others."""
    interest = dict.fromkeys(oracle.left, 0.0)
    for c in np.flatnonzero((rival != z) | (samples > 0)):
        interest[pairs[c][0]] += samples[c] + (1e12 if rival[c] != z[c] else 0.0)
    shown = set(sorted(interest, key=lambda node: -interest[node])[:_MOST_ROWS])
    left = [node for node in oracle.left if node in shown]
    partner = {pairs[c][0]: pairs[c][1] for c in np.flatnonzero(z)}
    level = [partner[node] for node in left if node in partner]
    instead = [pairs[c][1] for c in np.flatnonzero(rival) if pairs[c][0] in shown]
    right = dict.fromkeys([*level, *instead, *(j for i, j in pairs if i in shown), *oracle.right])
    return left, list(right)[:_MOST_ROWS]

"""A route or a tree on its graph: edge width = samples, the runner-up dashed.

Nodes stand at their coordinates, or a route's source left and its target right.

A large network is a few collections of lines: the answer, the runner-up, what was measured and, faintly, the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from combopeps.oracles import ShortestPathOracle, SpanningTreeOracle
from combopeps.oracles.base import Array
from combopeps.oracles.path import MultiPath
from combopeps.viz.canvas import ANSWER, DARK, FAINT, OTHER, RIVAL, legend_below, short
from combopeps.viz.layout import Layout, layout_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation

Network = ShortestPathOracle | SpanningTreeOracle
Edges = tuple[tuple[Any, ...], ...]
_MOST_ARROWS, _MOST_LABELS = 300, 60
_WIDEST, _WIDEST_OF_MANY = 5.0, 3.0
_CLOSE = 0.5  # of a large map, both ways: where all that there is to see lies in less, the rest is left out


def draw_on_graph(
    oracle: Network,
    z: Array,
    rival: Array,
    samples: Array,
    ax: Axes,
    pos: Mapping[Hashable, Any] | None = None,
) -> Axes:
    """Grey edges as wide as they were measured, the answer over them, the runner-up where it differs."""
    layout = layout_of(oracle, pos)
    share = samples / max(1.0, samples.max())
    chosen, differs = z != 0, (rival != 0) & (z == 0)
    keys = [(ANSWER, "-", "answer", chosen), (RIVAL, "--", "runner-up", differs)]
    ax.margins(0.1)
    ax.set_axis_off()
    if layout.aspect is not None:
        ax.set_aspect(layout.aspect, adjustable="datalim")
    notes = [layout.note] if layout.note else []
    if oracle.dim <= _MOST_ARROWS:
        _draw_small(oracle, layout, chosen, differs, share, ax)
    else:
        grey, close = _draw_large(oracle, layout, chosen, rival, share, ax)
        keys += grey
        notes += [f"a part of the network of {oracle.dim:,} edges"] if close else []
    total = f": width = samples, {int(samples.sum()):,} in all" if samples.any() else ""
    title = f"{' to '.join(map(short, _ends(oracle))) or 'spanning tree'}{total}"
    ax.set_title("\n".join([title, *notes]), fontsize=10)
    legend_below(ax, *keys)
    _label(ax, oracle, layout, chosen, differs)
    return ax


def _ends(oracle: Network) -> list[Hashable]:
    """Of a route; a tree has none."""
    return [oracle.source, oracle.target] if isinstance(oracle, ShortestPathOracle) else []


def _draw_small(oracle: Network, layout: Layout, chosen: Any, differs: Any, share: Array, ax: Axes) -> None:
    """An arrow for each edge."""
    edges, at = cast("Edges", oracle.components), layout.at
    strokes = [
        (~chosen, OTHER, 0.7 + _WIDEST * share, "-"),
        (chosen, ANSWER, 1.8 + _WIDEST * share, "-"),
        (differs, RIVAL, np.full(len(edges), 2.0), "--"),
    ]
    bends = _bends(edges)
    tip = "-|>" if isinstance(oracle, ShortestPathOracle) and oracle.directed else "-"
    for pick, colour, width, style in strokes:
        ends = [(at[edges[i][0]], at[edges[i][1]]) for i in np.flatnonzero(pick)]
        _arrows(ax, ends, colour, width[pick], style, bends[pick], tip)
    places = np.array(list(at.values()))
    ax.plot(places[:, 0], places[:, 1], "o", color="black", markersize=5 if len(at) <= _MOST_LABELS else 1.5, zorder=4)


def _draw_large(
    oracle: Network, layout: Layout, chosen: Any, rival: Array, share: Array, ax: Axes
) -> tuple[list[tuple[str, Any, str, Any]], bool]:
    """One collection for each kind of edge, and dots at the two ends.

    Returns what the legend has to say of grey lines, and whether a part of the network is shown.
    """
    from matplotlib.collections import LineCollection

    number = {node: i for i, node in enumerate(layout.at)}
    places = np.array(list(layout.at.values()))
    lines = places[[[number[edge[0]], number[edge[1]]] for edge in cast("Edges", oracle.components)]]
    measured = (share > 0) & ~chosen
    rest = ~chosen & ~measured
    quiet = FAINT if chosen.any() or measured.any() else OTHER  # with nothing to show, the network itself
    detours = _detours(oracle, rival, chosen, layout.at) if rival.any() else []
    thin, wide = np.full(len(lines), 0.5), _WIDEST_OF_MANY * share
    for part, widths, look in (
        (lines[rest], thin[rest], {"colors": quiet, "zorder": 1}),
        (lines[measured], 0.6 + wide[measured], {"colors": DARK, "zorder": 2, "capstyle": "round"}),
        (lines[chosen], 2.2 + wide[chosen], {"colors": ANSWER, "zorder": 3, "capstyle": "round"}),
        (detours, 2.2, {"colors": RIVAL, "zorder": 4, "linestyles": (0, (2.5, 1.2))}),
    ):
        strokes = LineCollection(cast("Any", part), linewidths=cast("Any", widths), **cast("Any", look))
        strokes.set_in_layout(False)  # it lies inside the axes
        ax.add_collection(strokes, autolim=False)
    tips = np.array([layout.at[end] for end in _ends(oracle)]).reshape(-1, 2)
    ax.plot(tips[:, 0], tips[:, 1], "o", color="black", markersize=6, zorder=5)
    close = _zoom(ax, np.concatenate([lines[chosen | measured].reshape(-1, 2), *detours, tips]), places)
    return [(DARK, "-", "measured", measured), (FAINT, "-", "not measured", rest & bool(measured.any()))], close


def _detours(oracle: Network, rival: Array, chosen: Any, at: dict[Hashable, Array]) -> list[Array]:
    """Where the runner-up leaves the answer, as lines of many edges each: a dash may be longer than an edge."""
    if isinstance(oracle, SpanningTreeOracle):
        edges = cast("Edges", oracle.components)
        return [np.array([at[node] for node in edges[i][:2]]) for i in np.flatnonzero((rival != 0) & ~chosen)]
    route = oracle.decode(rival)
    nodes, keys = route if isinstance(route, MultiPath) else (route, [])
    labels = [(*ends, *keys[i : i + 1]) for i, ends in enumerate(pairwise(nodes))]
    lines: list[list[Array]] = []
    apart = False
    for label in labels:
        shared = bool(chosen[oracle.index(label)])
        if not shared:
            if not apart:
                lines.append([at[label[0]]])
            lines[-1].append(at[label[1]])
        apart = not shared
    return [np.array(line) for line in lines]


def _zoom(ax: Axes, interesting: Array, places: Array) -> bool:
    """Show only the part of a large map in which something happens, if it is a small one."""
    interesting = interesting if len(interesting) else places
    part, whole = np.ptp(interesting, axis=0), np.ptp(places, axis=0)
    close = bool((part < _CLOSE * whole).all())
    ax.update_datalim(interesting if close else places)
    ax.margins(0.25 if close else 0.03)
    return close


def _label(ax: Axes, oracle: Network, layout: Layout, chosen: Any, differs: Any) -> None:
    """Names of the nodes, in large graphs of the two ends only; on a map, those that do not cover others."""
    edges, at = cast("Edges", oracle.components), layout.at
    ends = _ends(oracle)
    few = len(at) <= _MOST_LABELS
    on_routes = [node for i in np.flatnonzero(chosen | differs) for node in edges[i][:2]]
    texts = []
    for node in dict.fromkeys([*ends, *on_routes, *at]) if few else ends:
        x, y = _free_side(node, at, edges)
        text = ax.annotate(
            short(node),
            (at[node][0], at[node][1]),
            xytext=(8 * x, 8 * y),
            textcoords="offset points",
            ha="left" if x > 0.4 else "right" if x < -0.4 else "center",
            va="bottom" if y > 0.4 else "top" if y < -0.4 else "center",
            zorder=6,
            fontsize=9,
            fontweight="bold" if node in ends else "normal",
            bbox={"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.6},
        )
        texts.append(text)
    if layout.is_map:
        _thin_out(ax, texts)


def _thin_out(ax: Axes, texts: list[Annotation]) -> None:
    """Remove each text that would cover one before it."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()  # sizes are known from here on
    kept: list[Any] = []
    for text in texts:
        box = text.get_window_extent()
        if any(box.overlaps(other) for other in kept):
            text.remove()
        else:
            kept.append(box)


def _free_side(node: Hashable, at: dict[Hashable, Array], edges: Edges) -> tuple[float, float]:
    """The direction from a node in which its edges leave most room."""
    others = [edge[1] if edge[0] == node else edge[0] for edge in edges if node in edge[:2]]
    size = np.ptp(list(at.values()), axis=0)
    ways = np.array([at[other] - at[node] for other in others]) / np.where(size > 0, size, 1.0)
    angles = np.sort(np.arctan2(ways[:, 1], 1.6 * ways[:, 0]))  # pictures are wider than high
    gaps = np.diff(angles, append=angles[0] + 2 * np.pi)
    middle = angles[gaps.argmax()] + gaps.max() / 2
    return float(np.cos(middle)), float(np.sin(middle))


def _bends(edges: Edges) -> Array:
    """The two directions of a street, and parallel edges, bend apart."""
    pairs, copies, bends = {edge[:2] for edge in edges}, Counter[Any](), []
    for u, v, *_ in edges:
        bends.append((0.12 if (v, u) in pairs else 0.0) + 0.18 * copies[u, v])
        copies[u, v] += 1
    return np.array(bends)


def _arrows(ax: Axes, ends: list[Any], colour: str, width: Array, style: Any, bends: Array, tip: str) -> None:
    from matplotlib.patches import FancyArrowPatch

    for (start, end), line, bend in zip(ends, width, bends, strict=True):
        arrow = FancyArrowPatch(
            start, end, arrowstyle=tip, mutation_scale=9 + 1.2 * line, connectionstyle=f"arc3,rad={bend}",
            color=colour, linewidth=line, linestyle=style, shrinkA=4, shrinkB=4, zorder=2 if colour == OTHER else 3,
        )  # fmt: skip
        arrow.set_in_layout(False)  # it lies between nodes: measuring it would cost more than drawing it
        ax.add_patch(arrow)

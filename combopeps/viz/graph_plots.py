"""Draw a route or a tree on its network with matplotlib: edge width = samples, the runner-up dashed.

Nodes are drawn at their coordinates, or by a layout with the source of a route on the left and its target on the right.
A large network is drawn as a few collections of lines: the answer, the runner-up, measured edges, and other edges.
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
from combopeps.viz.canvas import ANSWER, DARK, FAINT, OTHER, RUNNER_UP, legend_below, short
from combopeps.viz.graph_layout import MAX_ZOOMED_FRACTION, Layout, Network, layout_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation

Edges = tuple[tuple[Any, ...], ...]
_MAX_ARROWS, _MAX_LABELS = 300, 60  # edges that are drawn one by one, nodes that are all labelled
_MAX_EXTRA_WIDTH, _MAX_EXTRA_WIDTH_LARGE = 5.0, 3.0  # of the edge with the most samples


def draw_on_graph(
    oracle: Network,
    z: Array,
    runner_up: Array,
    samples: Array,
    ax: Axes,
    pos: Mapping[Hashable, Any] | None = None,
) -> Axes:
    """Draw edges as wide as they were measured often, the answer over them, and the runner-up where it differs."""
    layout = layout_of(oracle, pos)
    widths = samples / max(1.0, samples.max())
    chosen, differs = z != 0, (runner_up != 0) & (z == 0)
    entries = [(ANSWER, "-", "answer", chosen), (RUNNER_UP, "--", "runner-up", differs)]
    ax.margins(0.1)
    ax.set_axis_off()
    if layout.aspect is not None:
        ax.set_aspect(layout.aspect, adjustable="datalim")
    notes = [layout.note] if layout.note else []
    if oracle.dim <= _MAX_ARROWS:
        _draw_small(oracle, layout, chosen, differs, widths, ax)
    else:
        grey_entries, is_zoomed = _draw_large(oracle, layout, chosen, runner_up, widths, ax)
        entries += grey_entries
        notes += [f"a part of the network of {oracle.dim:,} edges"] if is_zoomed else []
    total = f": width = samples, {int(samples.sum()):,} in all" if samples.any() else ""
    title = f"{' to '.join(map(short, _ends(oracle))) or 'spanning tree'}{total}"
    ax.set_title("\n".join([title, *notes]), fontsize=10)
    legend_below(ax, *entries)
    _label_nodes(ax, oracle, layout, chosen, differs)
    return ax


def _ends(oracle: Network) -> list[Hashable]:
    """Return the source and the target of a route; a tree has none."""
    return [oracle.source, oracle.target] if isinstance(oracle, ShortestPathOracle) else []


def _draw_small(oracle: Network, layout: Layout, chosen: Any, differs: Any, widths: Array, ax: Axes) -> None:
    """Draw an arrow for each edge."""
    edges, positions = cast("Edges", oracle.components), layout.positions
    layers = [
        (~chosen, OTHER, 0.7 + _MAX_EXTRA_WIDTH * widths, "-"),
        (chosen, ANSWER, 1.8 + _MAX_EXTRA_WIDTH * widths, "-"),
        (differs, RUNNER_UP, np.full(len(edges), 2.0), "--"),
    ]
    bends = _bends(edges)
    arrow_style = "-|>" if isinstance(oracle, ShortestPathOracle) and oracle.directed else "-"
    for pick, colour, width, style in layers:
        ends = [(positions[edges[i][0]], positions[edges[i][1]]) for i in np.flatnonzero(pick)]
        _draw_arrows(ax, ends, colour, width[pick], style, bends[pick], arrow_style)
    places = np.array(list(positions.values()))
    size = 5 if len(positions) <= _MAX_LABELS else 1.5
    ax.plot(places[:, 0], places[:, 1], "o", color="black", markersize=size, zorder=4)


def _draw_large(
    oracle: Network, layout: Layout, chosen: Any, runner_up: Array, widths: Array, ax: Axes
) -> tuple[list[tuple[str, Any, str, Any]], bool]:
    """Draw one collection for each kind of edge, and dots at the two ends.

    Returns the legend entries of the grey lines, and whether only a part of the network is shown.
    """
    from matplotlib.collections import LineCollection

    number = {node: i for i, node in enumerate(layout.positions)}
    places = np.array(list(layout.positions.values()))
    lines = places[[[number[edge[0]], number[edge[1]]] for edge in cast("Edges", oracle.components)]]
    measured = (widths > 0) & ~chosen
    rest = ~chosen & ~measured
    rest_colour = FAINT if chosen.any() or measured.any() else OTHER  # without an answer, the network itself matters
    detours = _detours(oracle, runner_up, chosen, layout.positions) if runner_up.any() else []
    thin, wide = np.full(len(lines), 0.5), _MAX_EXTRA_WIDTH_LARGE * widths
    for part, line_widths, style in (
        (lines[rest], thin[rest], {"colors": rest_colour, "zorder": 1}),
        (lines[measured], 0.6 + wide[measured], {"colors": DARK, "zorder": 2, "capstyle": "round"}),
        (lines[chosen], 2.2 + wide[chosen], {"colors": ANSWER, "zorder": 3, "capstyle": "round"}),
        (detours, 2.2, {"colors": RUNNER_UP, "zorder": 4, "linestyles": (0, (2.5, 1.2))}),
    ):
        collection = LineCollection(cast("Any", part), linewidths=cast("Any", line_widths), **cast("Any", style))
        collection.set_in_layout(False)  # it lies inside the axes: the layout engine need not measure it
        ax.add_collection(collection, autolim=False)
    tips = np.array([layout.positions[end] for end in _ends(oracle)]).reshape(-1, 2)
    ax.plot(tips[:, 0], tips[:, 1], "o", color="black", markersize=6, zorder=5)
    is_zoomed = _zoom(ax, np.concatenate([lines[chosen | measured].reshape(-1, 2), *detours, tips]), places)
    return [(DARK, "-", "measured", measured), (FAINT, "-", "not measured", rest & bool(measured.any()))], is_zoomed


def _detours(oracle: Network, runner_up: Array, chosen: Any, positions: dict[Hashable, Array]) -> list[Array]:
    """Return polylines of the runner-up where it leaves the answer.

    Edges of a route are joined, because the dashes of single short edges would not be visible.
    """
    if isinstance(oracle, SpanningTreeOracle):
        edges = cast("Edges", oracle.components)
        different = np.flatnonzero((runner_up != 0) & ~chosen)
        return [np.array([positions[node] for node in edges[i][:2]]) for i in different]
    route = oracle.decode(runner_up)
    nodes, keys = route if isinstance(route, MultiPath) else (route, [])
    labels = [(*ends, *keys[i : i + 1]) for i, ends in enumerate(pairwise(nodes))]
    lines: list[list[Array]] = []
    was_apart = False
    for label in labels:
        is_shared = bool(chosen[oracle.index(label)])
        if not is_shared:
            if not was_apart:
                lines.append([positions[label[0]]])
            lines[-1].append(positions[label[1]])
        was_apart = not is_shared
    return [np.array(line) for line in lines]


def _zoom(ax: Axes, relevant: Array, places: Array) -> bool:
    """Show only the relevant part of a large map if it is small; return whether it is."""
    relevant = relevant if len(relevant) else places
    part, whole = np.ptp(relevant, axis=0), np.ptp(places, axis=0)
    is_zoomed = bool((part < MAX_ZOOMED_FRACTION * whole).all())
    ax.update_datalim(relevant if is_zoomed else places)
    ax.margins(0.25 if is_zoomed else 0.03)
    return is_zoomed


def _label_nodes(ax: Axes, oracle: Network, layout: Layout, chosen: Any, differs: Any) -> None:
    """Label all nodes, in large graphs the two ends only; on a map, leave out labels that would overlap."""
    edges, positions = cast("Edges", oracle.components), layout.positions
    ends = _ends(oracle)
    on_routes = [node for i in np.flatnonzero(chosen | differs) for node in edges[i][:2]]
    texts = []
    for node in dict.fromkeys([*ends, *on_routes, *positions]) if len(positions) <= _MAX_LABELS else ends:
        x, y = _free_direction(node, positions, edges)
        text = ax.annotate(
            short(node),
            (positions[node][0], positions[node][1]),
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
        _remove_overlapping(ax, texts)


def _remove_overlapping(ax: Axes, texts: list[Annotation]) -> None:
    """Remove each text that overlaps one before it."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()  # text sizes are known only after the layout of the figure
    kept: list[Any] = []
    for text in texts:
        box = text.get_window_extent()
        if any(box.overlaps(other) for other in kept):
            text.remove()
        else:
            kept.append(box)


def _free_direction(node: Hashable, positions: dict[Hashable, Array], edges: Edges) -> tuple[float, float]:
    """Return the unit vector in the middle of the largest angle between the edges of a node."""
    others = [edge[1] if edge[0] == node else edge[0] for edge in edges if node in edge[:2]]
    size = np.ptp(list(positions.values()), axis=0)
    directions = np.array([positions[other] - positions[node] for other in others]) / np.where(size > 0, size, 1.0)
    angles = np.sort(np.arctan2(directions[:, 1], 1.6 * directions[:, 0]))  # pictures are wider than high
    gaps = np.diff(angles, append=angles[0] + 2 * np.pi)
    middle = angles[gaps.argmax()] + gaps.max() / 2
    return float(np.cos(middle)), float(np.sin(middle))


def _bends(edges: Edges) -> Array:
    """Return curvatures that draw antiparallel and parallel edges apart."""
    pairs, copies, bends = {edge[:2] for edge in edges}, Counter[Any](), []
    for u, v, *_ in edges:
        bends.append((0.12 if (v, u) in pairs else 0.0) + 0.18 * copies[u, v])
        copies[u, v] += 1
    return np.array(bends)


def _draw_arrows(
    ax: Axes, ends: list[Any], colour: str, width: Array, style: Any, bends: Array, arrow_style: str
) -> None:
    from matplotlib.patches import FancyArrowPatch

    for (start, end), line_width, bend in zip(ends, width, bends, strict=True):
        arrow = FancyArrowPatch(
            start, end, arrowstyle=arrow_style, mutation_scale=9 + 1.2 * line_width,
            connectionstyle=f"arc3,rad={bend}", color=colour, linewidth=line_width, linestyle=style,
            shrinkA=4, shrinkB=4, zorder=2 if colour == OTHER else 3,
        )  # fmt: skip
        arrow.set_in_layout(False)  # it lies between nodes: measuring it would cost more than drawing it
        ax.add_patch(arrow)

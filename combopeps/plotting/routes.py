"""A route on its graph: source left, target right, edge width = samples, the runner-up dashed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from combopeps.oracles import ShortestPathOracle
from combopeps.oracles.base import Array
from combopeps.plotting.canvas import ANSWER, OTHER, RIVAL, legend_below, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_ARROWS, _MOST_LABELS, _MOST_DOTS = 300, 60, 400
_WIDEST = 5.0
_SMALL = 150  # nodes that a careful layout is affordable for


def draw_route(oracle: ShortestPathOracle, z: Array, rival: Array, samples: Array, ax: Axes) -> Axes:
    """Grey edges as wide as they were measured, the answer over them, the runner-up where it differs."""
    from matplotlib.collections import LineCollection

    edges = cast("tuple[tuple[Any, ...], ...]", oracle.components)
    at = _positions([edge[:2] for edge in edges], oracle.source, oracle.target, oracle.directed)
    share = samples / max(1.0, samples.max())
    chosen, differs = z != 0, (rival != 0) & (z == 0)
    strokes = [
        (~chosen, OTHER, 0.7 + _WIDEST * share, "-"),
        (chosen, ANSWER, 1.8 + _WIDEST * share, "-"),
        (differs, RIVAL, np.full(len(edges), 2.0), "--"),
    ]
    bends = _bends(edges) if len(edges) <= _MOST_ARROWS else None
    for pick, colour, width, style in strokes:
        ends = [(at[edges[i][0]], at[edges[i][1]]) for i in np.flatnonzero(pick)]
        if bends is None:
            dots: Any = (0, (1, 1)) if style == "--" else style  # each edge begins anew: a dash would fill it
            widths = (0.3 if colour == OTHER else 0.8) * width[pick]
            ax.add_collection(LineCollection(ends, colors=colour, linewidths=widths, linestyles=dots))
        else:
            _arrows(ax, ends, colour, width[pick], style, bends[pick], "-|>" if oracle.directed else "-")
    _nodes(ax, oracle, at, edges)
    legend_below(ax, (ANSWER, "-", "answer", chosen), (RIVAL, "--", "runner-up", differs))
    total = f": width = samples, {int(samples.sum()):,} in all" if samples.any() else ""
    ax.set_title(f"{short(oracle.source)} to {short(oracle.target)}{total}", fontsize=10)
    ax.margins(0.1)
    ax.set_axis_off()
    return ax


def _nodes(ax: Axes, oracle: ShortestPathOracle, at: dict[Hashable, Array], edges: tuple[tuple[Any, ...], ...]) -> None:
    """Dots and labels; in large graphs the two ends only."""
    ends = [oracle.source, oracle.target]
    dotted = np.array(list(at.values()) if len(at) <= _MOST_DOTS else [at[node] for node in ends])
    few = len(at) <= _MOST_LABELS
    ax.plot(dotted[:, 0], dotted[:, 1], "o", color="black", markersize=5 if few or len(dotted) == 2 else 1.5, zorder=4)
    for node in at if few else ends:
        x, y = _free_side(node, at, edges)
        ax.annotate(
            short(node),
            (at[node][0], at[node][1]),
            xytext=(8 * x, 8 * y),
            textcoords="offset points",
            ha="left" if x > 0.4 else "right" if x < -0.4 else "center",
            va="bottom" if y > 0.4 else "top" if y < -0.4 else "center",
            zorder=5,
            fontsize=9,
            fontweight="bold" if node in ends else "normal",
            bbox={"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.6},
        )


def _free_side(node: Hashable, at: dict[Hashable, Array], edges: tuple[tuple[Any, ...], ...]) -> tuple[float, float]:
    """The direction from a node in which its edges leave most room."""
    others = [edge[1] if edge[0] == node else edge[0] for edge in edges if node in edge[:2]]
    size = np.ptp(list(at.values()), axis=0)
    ways = np.array([at[other] - at[node] for other in others]) / np.where(size > 0, size, 1.0)
    angles = np.sort(np.arctan2(ways[:, 1], 1.6 * ways[:, 0]))  # pictures are wider than high
    gaps = np.diff(angles, append=angles[0] + 2 * np.pi)
    middle = angles[gaps.argmax()] + gaps.max() / 2
    return float(np.cos(middle)), float(np.sin(middle))


def _bends(edges: tuple[tuple[Any, ...], ...]) -> Array:
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


def _positions(
    edges: Sequence[tuple[Any, ...]], source: Hashable, target: Hashable, directed: bool
) -> dict[Hashable, Array]:
    """Pairs of numbers are coordinates; acyclic graphs go by layers; others by Kamada and Kawai, turned upright."""
    import networkx as nx

    graph: nx.Graph[Any] = nx.DiGraph(list(edges)) if directed else nx.Graph(list(edges))
    if all(isinstance(node, tuple) and len(node) == 2 and all(isinstance(x, Real) for x in node) for node in graph):
        return {node: np.array(node, dtype=float) for node in graph}
    if directed and nx.is_directed_acyclic_graph(graph):
        return _layers(graph)
    plain = graph.to_undirected()
    if len(graph) <= _SMALL:
        layout = nx.kamada_kawai_layout(plain)
    else:
        layout = nx.spring_layout(plain, seed=0, iterations=50 if len(graph) <= 1000 else 5)
    return _turned(layout, source, target)


def _layers(graph: Any) -> dict[Hashable, Array]:
    """Each node one step after the last of its predecessors, spread evenly within its layer."""
    import networkx as nx

    at = {}
    for x, layer in enumerate(nx.topological_generations(graph)):
        ranks = np.arange(len(layer)) - (len(layer) - 1) / 2.0
        for node, rank in zip(sorted(layer, key=str), ranks, strict=True):
            at[node] = np.array([float(x), -float(rank) - 0.15 * (x % 2)])  # a shift: edges over a layer stay visible
    return at


def _turned(layout: dict[Hashable, Array], source: Hashable, target: Hashable) -> dict[Hashable, Array]:
    """Rotated so that source and target lie level."""
    way = np.asarray(layout[target]) - np.asarray(layout[source])
    cosine, sine = way / (np.linalg.norm(way) or 1.0)
    turn = np.array([[cosine, sine], [-sine, cosine]])
    return {node: turn @ np.asarray(place) for node, place in layout.items()}

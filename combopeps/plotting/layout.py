"""Where the nodes of a network go: source on the left, target on the right."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from numbers import Real
from typing import Any

import numpy as np

from combopeps.oracles.base import Array

_SMALL = 150  # nodes that a careful layout is affordable for


def positions(
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

"""Single exchanges: the ways to turn one answer into another that cannot be split into smaller ones.

    z' - z = y_1 + ... + y_m   with every z + y_j an answer, so that  y @ theta > 0 for some y_j  wherever z' beats z

Hence they hold all facets of the cone of z. Routes exchange one stretch for a detour, matchings shift along one
alternating cycle, or along a path that ends at a free node. They are listed where they are few.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles._network import RouteNetwork
from combopeps.oracles.base import Array, Sparse

Index = NDArray[np.integer[Any]]
_STEPS = 64  # arcs tried, and arcs written down, for every exchange that may be listed


class _Walks:
    """Simple walks in a graph whose arcs are grouped by the node they leave, while they are few."""

    def __init__(self, indptr: Index, ends: Index, most: int) -> None:
        self.indptr, self.ends = indptr, ends
        self.role = np.full(len(indptr) - 1, 2, dtype=np.int8)  # 0: may be passed, 1: ends a walk, 2: is avoided
        self._ptr, self._last = np.zeros(most + 1, dtype=np.int64), np.empty(most, dtype=np.int64)
        self._arcs = np.empty(_STEPS * most, dtype=np.int64)
        self._steps, self.count = _STEPS * most + len(ends), 0

    def from_node(self, start: int) -> bool:
        """Add those from one node; False when they are too many."""
        from combopeps.oracles._kernels import simple_walks

        self.count, steps = simple_walks(
            start, self.indptr, self.ends, self.role, self._steps, self._ptr, self._arcs, self._last, self.count
        )
        self._steps -= steps
        return self.count >= 0

    @property
    def arcs(self) -> tuple[Index, Index]:
        """The arcs of all walks, and the walk that each belongs to."""
        lengths = np.diff(self._ptr[: self.count + 1])
        return self._arcs[: self._ptr[self.count]], np.repeat(np.arange(self.count), lengths)

    @property
    def last(self) -> Index:
        """The node that each walk ends in."""
        return self._last[: self.count]


def detours(network: RouteNetwork, z: Array, unit: float, most: int) -> Sparse | None:
    """Detours that leave the route z once and come back further on; None when there are more than `most`.

    With cycles they are all that is needed for theta >= 0: whatever else a better route does, its steps forward cover
    the whole route, and one of them is shorter than the stretch it replaces.
    """
    used = z[network.component] != 0.0
    # Arcs are grouped by the node they enter on an acyclic graph: there detours are walked backwards.
    near, far = (network.heads, network.tails) if network.acyclic else (network.tails, network.heads)
    free = np.flatnonzero(~used)
    indptr = np.searchsorted(near[free], np.arange(network.size + 1))
    stretch, route = _along(network, np.flatnonzero(used))
    walks = _Walks(indptr, far[free], most)
    walks.role[:] = 0
    walks.role[route] = 1
    starts = []
    for position in range(len(route)) if not network.acyclic else range(len(route) - 1, -1, -1):
        walks.role[route[position]] = 2  # those walked already lie behind
        before = walks.count
        if not walks.from_node(int(route[position])):
            return None
        starts.append(np.full(walks.count - before, position))
    place = np.zeros(network.size, dtype=np.int64)
    place[route] = np.arange(len(route))
    ends, begins = place[walks.last], np.concatenate(starts)
    low, high = np.minimum(begins, ends), np.maximum(begins, ends)
    arcs, walk = walks.arcs
    length = high - low
    replaced = np.repeat(low - np.cumsum(length) + length, length) + np.arange(length.sum())
    minus = stretch[replaced], np.repeat(np.arange(walks.count), length)
    return _rows((network.component[free[arcs]], walk), minus, unit, (walks.count, len(z)))


def _along(network: RouteNetwork, arcs: Index) -> tuple[Index, Index]:
    """The components of a route in order, and its nodes."""
    onward: dict[int, list[int]] = {}
    for arc in arcs.tolist():
        onward.setdefault(int(network.tails[arc]), []).append(arc)
    nodes, stretch = [0], []
    while nodes[-1] != network.size - 1:
        # In an undirected graph one of the arcs at a node leads back.
        arc = next(a for a in onward[nodes[-1]] if len(nodes) < 2 or network.heads[a] != nodes[-2])
        stretch.append(int(network.component[arc]))
        nodes.append(int(network.heads[arc]))
    return np.array(stretch), np.array(nodes)


def alternating(left_of: Index, right_of: Index, z: Array, unit: float, most: int) -> Sparse | None:
    """Alternating cycles through a matching, and alternating paths that end at a free right node.

    None when there are more than `most`. Edges are sorted by their left nodes.
    """
    n, m = int(left_of.max()) + 1, int(right_of.max()) + 1
    chosen = np.flatnonzero(z)
    owner = np.full(m, -1)
    owner[right_of[chosen]] = left_of[chosen]
    own = np.empty(n, dtype=np.int64)
    own[left_of[chosen]] = chosen
    spare = np.flatnonzero(z == 0.0)
    # Node i < n stands for a left node that gives its mate away, node n for a free right node: who is pushed out next?
    ends = np.where(owner[right_of[spare]] >= 0, owner[right_of[spare]], n)
    indptr = np.append(np.searchsorted(left_of[spare], np.arange(n + 1)), len(spare))
    walks = _Walks(indptr, ends, most)
    for ends_free in (False, True):
        walks.role[:n], walks.role[n] = 0, int(ends_free) or 2
        for start in range(n if not ends_free or len(chosen) < m else 0):
            walks.role[start] = 2 if ends_free else 1
            if not walks.from_node(start):
                return None
            walks.role[start] = 0 if ends_free else 2  # cycles are walked from their first node only
    arcs, walk = walks.arcs
    return _rows((spare[arcs], walk), (own[left_of[spare[arcs]]], walk), unit, (walks.count, len(z)))


def _rows(plus: tuple[Index, Index], minus: tuple[Index, Index], unit: float, shape: tuple[int, int]) -> Sparse:
    from scipy.sparse import csr_array

    columns, rows = (np.concatenate(pair) for pair in zip(plus, minus, strict=True))
    signs = np.repeat([unit, -unit], [len(plus[0]), len(minus[0])])
    return csr_array((signs, (rows, columns)), shape=shape)

"""Dominators: the nodes that every way from a root to a node passes (compiled).

With cycles, an arc (u, v) lies on no simple route from s to t if v dominates u as seen from s, because the route has
been at v before it comes to u; nor if u dominates v as seen from t, backwards, because it would have to pass u again.
Immediate dominators are found by the iteration of Cooper, Harvey and Kennedy.
"""

from __future__ import annotations

import numpy as np

from combopeps._compiled import njit


@njit(cache=True, nogil=True)
def comes_back(root, indptr, ends, tails, heads):
    """For every arc: does its head dominate its tail, as seen from the root? Node u leads on to its `ends`."""
    n = len(indptr) - 1
    order, rank = _postorder(root, indptr, ends)
    dominator = np.full(n, -1)
    dominator[root] = root
    into, sources = _entering(n, indptr, ends)
    changed = True
    while changed:
        changed = False
        for i in range(len(order) - 2, -1, -1):
            node, common = order[i], -1
            for e in range(into[node], into[node + 1]):
                other = sources[e]
                if dominator[other] < 0:
                    continue
                if common < 0:
                    common = other
                    continue
                while common != other:  # up to where the two meet
                    while rank[common] < rank[other]:
                        common = dominator[common]
                    while rank[other] < rank[common]:
                        other = dominator[other]
            if dominator[node] != common:
                dominator[node] = common
                changed = True
    first, size = _intervals(root, order, dominator)
    back = np.empty(len(tails), np.bool_)
    for e in range(len(tails)):
        u, v = tails[e], heads[e]
        back[e] = rank[u] >= 0 and rank[v] >= 0 and first[v] <= first[u] < first[v] + size[v]
    return back


@njit(cache=True, nogil=True)
def _postorder(root, indptr, ends):
    """Nodes that are reached, each after those that it leads to first; and their places, -1 where there is none."""
    n = len(indptr) - 1
    rank, at = np.full(n, -1), indptr[:-1].copy()
    order, stack = np.empty(n, np.int64), np.empty(n, np.int64)
    seen = np.zeros(n, np.bool_)
    stack[0], depth, size, seen[root] = root, 1, 0, True
    while depth:
        u = stack[depth - 1]
        if at[u] == indptr[u + 1]:
            order[size], rank[u] = u, size
            size, depth = size + 1, depth - 1
            continue
        v = ends[at[u]]
        at[u] += 1
        if not seen[v]:
            seen[v] = True
            stack[depth] = v
            depth += 1
    return order[:size], rank


@njit(cache=True, nogil=True)
def _entering(n, indptr, ends):
    """The arcs by the node that they enter: where they begin, and the nodes that they leave."""
    into = np.zeros(n + 1, np.int64)
    for v in ends:
        into[v + 1] += 1
    into = np.cumsum(into)
    sources, at = np.empty(len(ends), np.int64), into[:-1].copy()
    for u in range(n):
        for e in range(indptr[u], indptr[u + 1]):
            sources[at[ends[e]]] = u
            at[ends[e]] += 1
    return into, sources


@njit(cache=True, nogil=True)
def _intervals(root, order, dominator):
    """Numbers of the nodes such that those which v dominates are `first[v] : first[v] + size[v]`."""
    n = len(dominator)
    first, free, size = np.zeros(n, np.int64), np.ones(n, np.int64), np.zeros(n, np.int64)
    for node in order:  # the root comes last
        size[node] += 1
        if node != root:
            size[dominator[node]] += size[node]
    for i in range(len(order) - 2, -1, -1):
        node = order[i]
        parent = dominator[node]
        first[node] = first[parent] + free[parent]
        free[parent] += size[node]
    return first, size

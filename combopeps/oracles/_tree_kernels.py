"""Compiled loops for spanning trees (numba). Imported on first use, so that importing the package stays light.

Edge e joins the nodes `u[e]` and `v[e]` of 0 .. n-1; there are no loops, and the graph is connected.
"""

from __future__ import annotations

import numpy as np

from combopeps._compiled import njit

_ROUNDING = 1e-13  # as in `base.strictly_better`


@njit(cache=True, nogil=True)
def best_trees(u, v, n, thetas, unit, best):
    """argmax_z z @ theta over spanning trees, into the zeros of `best`, by Boruvka's algorithm.

    Every part of the forest takes the best edge that leaves it, the first one among equals. Edges inside a part are
    dropped, in order. No sorting: measured two to five times as fast as Kruskal's algorithm on dense graphs, and not
    slower on sparse ones.
    """
    m = len(u)
    a, b, edge, cost = np.empty(m, np.int32), np.empty(m, np.int32), np.empty(m, np.int32), np.empty(m)
    low, first, root, part = np.empty(n), np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    for row in range(len(thetas)):
        _begin(u, v, thetas[row], unit, a, b, edge, cost)
        size, parts = m, n
        while parts > 1:
            low[:parts] = np.inf
            for k in range(size):
                i, j, c = a[k], b[k], cost[k]
                if c < low[i]:
                    low[i], first[i] = c, k
                if c < low[j]:
                    low[j], first[j] = c, k
            root[:parts] = np.arange(parts)
            for i in range(parts):
                k = first[i]
                if _join(root, a[k], b[k]):
                    best[row, edge[k]] = unit
            parts = number(root, parts, part)
            size = _drop_inner(part, size, a, b, edge, cost)


@njit(cache=True, nogil=True)
def still_best(u, v, n, z, thetas, unit):
    """Is the tree z still a best one? Boruvka's algorithm again, along edges of z.

    A better edge than all of z that leave a part closes a cycle with one of those: the swap is better. Conversely a
    swap of f for a better e is seen at the latest when the last part of the cycle of e is joined.
    """
    m, still = len(u), np.ones(len(thetas), np.bool_)
    a, b, edge, cost = np.empty(m, np.int32), np.empty(m, np.int32), np.empty(m, np.int32), np.empty(m)
    low, first, root, part = np.empty(n), np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    own = np.empty(n)
    for row in range(len(thetas)):
        _begin(u, v, thetas[row], unit, a, b, edge, cost)
        size, parts = m, n
        while parts > 1:
            low[:parts], own[:parts] = np.inf, np.inf
            for k in range(size):
                i, j, c = a[k], b[k], cost[k]
                if z[edge[k]] == 0.0:
                    low[i], low[j] = min(low[i], c), min(low[j], c)
                else:
                    if c < own[i]:
                        own[i], first[i] = c, k
                    if c < own[j]:
                        own[j], first[j] = c, k
            for i in range(parts):
                if _is_better(low[i], own[i]):
                    still[row] = False
            if not still[row]:
                break
            root[:parts] = np.arange(parts)
            for i in range(parts):
                _join(root, a[first[i]], b[first[i]])
            parts = number(root, parts, part)
            size = _drop_inner(part, size, a, b, edge, cost)
    return still


@njit(cache=True, nogil=True)
def still_best_dense(u, v, order, parent, above, thetas, unit):
    """The same where pairs of nodes are not many more than edges: no edge is better than the worst on its way in z.

    `order` has parents before their children. Row x of `worst` is that of its parent, but for the edge between them.
    """
    n, still = len(order), np.ones(len(thetas), np.bool_)
    place = np.empty(n, np.int64)
    for i in range(n):
        place[order[i]] = i
    worst = np.full((n, n), -np.inf)
    for row in range(len(thetas)):
        for i in range(1, n):
            p, c = place[parent[order[i]]], -unit * thetas[row, above[order[i]]]
            for j in range(i):
                worst[i, j] = max(worst[p, j], c)
            for j in range(i):
                worst[j, i] = worst[i, j]
        for e in range(len(u)):
            high, c = worst[place[u[e]], place[v[e]]], -unit * thetas[row, e]
            if _is_better(c, high):
                still[row] = False
                break
    return still


@njit(cache=True, nogil=True)
def _begin(u, v, theta, unit, a, b, edge, cost):
    """Every node is a part, and every edge leaves one for another."""
    for e in range(len(u)):
        a[e] = u[e]
        b[e] = v[e]
        edge[e] = e
        cost[e] = -unit * theta[e]


@njit(cache=True, nogil=True)
def _drop_inner(part, size, a, b, edge, cost):
    """Give edges the new numbers of their parts, and keep those that leave one; how many are left."""
    kept = 0
    for k in range(size):
        i, j = part[a[k]], part[b[k]]
        a[kept] = i
        b[kept] = j
        edge[kept] = edge[k]
        cost[kept] = cost[k]
        kept += i != j
    return kept


@njit(cache=True, nogil=True)
def _is_better(low, high):
    """Lower cost, by more than rounding can explain."""
    return low < high and high - low > _ROUNDING * (abs(high) + abs(low))


@njit(cache=True, nogil=True)
def find(root, i):
    """The part of i: `root` of a part is itself, that of others leads there."""
    while root[i] != i:
        root[i] = root[root[i]]
        i = root[i]
    return i


@njit(cache=True, nogil=True)
def _join(root, i, j):
    """Make two parts one; False if they were."""
    i, j = find(root, i), find(root, j)
    root[i] = j
    return i != j


@njit(cache=True, nogil=True)
def number(root, size, part):
    """Number the parts 0, 1, ... into `part`, and say how many there are."""
    count = 0
    for i in range(size):
        if root[i] == i:
            part[i] = count
            count += 1
    for i in range(size):
        part[i] = part[find(root, i)]
    return count

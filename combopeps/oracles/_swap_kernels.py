"""Compiled loops over one spanning tree: its swaps, and the blocks of its graph. Arrays as in `_tree_kernels`."""

from __future__ import annotations

import numpy as np

from combopeps._compiled import njit
from combopeps.oracles._tree_kernels import find, number


@njit(cache=True, nogil=True)
def rooted(u, v, n, z, unit):
    """The tree z hung up at node 0: its nodes in order, parent, edge to the parent and depth of every node.

    Also says whether it is a tree at all, with entries 0 and `unit`.
    """
    order, parent, above = np.zeros(n, np.int32), np.full(n, -1, np.int32), np.full(n, -1, np.int32)
    depth, start, chosen = np.full(n, -1, np.int32), np.zeros(n + 1, np.int64), 0
    for e in range(len(u)):
        if z[e] != 0.0:
            start[u[e]] += 1
            start[v[e]] += 1
            chosen += 1 if z[e] == unit else n
    if chosen != n - 1:
        return order, parent, above, depth, False
    start[:] = np.cumsum(start)  # where the edges of each node end: they are filled in from behind
    edge = np.empty(2 * chosen, np.int32)
    for e in range(len(u)):
        if z[e] != 0.0:
            for x in (u[e], v[e]):
                start[x] -= 1
                edge[start[x]] = e
    depth[0], done, reached = 0, 0, 1
    while done < reached:
        x = order[done]
        done += 1
        for p in range(start[x], start[x + 1]):
            e = edge[p]
            if e != above[x]:
                y = v[e] if u[e] == x else u[e]
                if depth[y] >= 0:  # a cycle
                    return order, parent, above, depth, False
                parent[y], above[y], depth[y] = x, e, depth[x] + 1
                order[reached] = y
                reached += 1
    return order, parent, above, depth, reached == n


@njit(cache=True, nogil=True)
def count_swaps(u, v, z, parent, above, depth, most, start):
    """How many tree edges lie on the cycles of all other edges; some number above `most` where it is more.

    Into the zeros of `start` goes where the swaps of each tree edge begin when they are sorted by it.
    """
    total = 0
    for e in range(len(u)):
        if z[e] == 0.0:
            x, y = u[e], v[e]
            while x != y:
                if depth[x] < depth[y]:
                    x, y = y, x
                start[above[x]] += 1
                x = parent[x]
                total += 1
            if total > most:
                return total
    total = 0
    for e in range(len(start)):
        start[e], total = total, total + start[e]
    return total


@njit(cache=True, nogil=True)
def list_swaps(u, v, z, parent, above, depth, unit, start, columns, data):
    """Rows unit (e_in - e_out), two entries each, by edge that goes out: a measurement of it changes a run of rows."""
    for e in range(len(u)):
        if z[e] == 0.0:
            x, y = u[e], v[e]
            while x != y:
                if depth[x] < depth[y]:
                    x, y = y, x
                f = above[x]
                x = parent[x]
                swap = start[f]
                start[f] += 1
                columns[swap, 0], columns[swap, 1] = min(e, f), max(e, f)
                data[swap, 0] = unit if e < f else -unit
                data[swap, 1] = -data[swap, 0]


@njit(cache=True, nogil=True)
def blocks(u, v, n, z, parent, above, depth):
    """The block of every edge, (m,): two edges are in the same one if they lie on a common cycle.

    Blocks are joined along the cycles that the other edges close with any one tree. Node x stands for the edge above
    it, and `top` is the highest node of a block: a climb leaps over what is joined already.
    """
    root, top = np.arange(n).astype(np.int32), parent.copy()
    for e in range(len(u)):
        if z[e] == 0.0:
            x, y = u[e], v[e]
            block = find(root, x if depth[x] >= depth[y] else y)
            while x != y:
                if depth[x] < depth[y]:
                    x, y = y, x
                other = find(root, x)
                x = top[other]
                if other != block:
                    if depth[top[other]] < depth[top[block]]:
                        block, other = other, block
                    root[other] = block
    numbers, part = np.empty(len(u), np.int32), np.empty(n, np.int32)
    number(root, n, part)
    for e in range(len(u)):
        lower = u[e] if depth[u[e]] >= depth[v[e]] else v[e]  # its edge upwards is on the cycle of e, or is e
        numbers[e] = part[lower] - 1  # the root of the tree, node 0, is a part of its own
    return numbers

"""Compiled loops (numba). Imported on first use, so that importing the package stays light.

A route network has nodes 0 .. n-1, the source 0 and the target n-1. Its arcs are grouped by the node they
enter on an acyclic graph, and by the node they leave otherwise: the arcs of node v are `indptr[v] : indptr[v + 1]`.
Arc e goes from `tails[e]` to `heads[e]` and is measured by coordinate `component[e]` of theta (two arcs share one
coordinate in an undirected graph).

Dominators: the nodes that every way from a root to a node passes (compiled).

With cycles, an arc (u, v) lies on no simple route from s to t if v dominates u as seen from s, because the route has
been at v before it comes to u; nor if u dominates v as seen from t, backwards, because it would have to pass u again.
Immediate dominators are found by the iteration of Cooper, Harvey and Kennedy.

Compiled loops for spanning trees (numba). Imported on first use, so that importing the package stays light.

Edge e joins the nodes `u[e]` and `v[e]` of 0 .. n-1; there are no loops, and the graph is connected.

Compiled loops over one spanning tree: its swaps, and the blocks of its graph. Arrays as in `_tree_kernels`.
"""

from __future__ import annotations

import numpy as np

from combopeps.utils.jit import njit


@njit(cache=True, nogil=True)
def topk_membership(thetas, z, k):
    """Is min inside >= max outside? Counting what exceeds the minimum vectorises; a masked maximum does not.

    Also says whether z is an answer at all: k ones and zeros.
    """
    still = np.empty(len(thetas), np.bool_)
    inside, size = np.empty(k, np.int64), 0
    for i in range(len(z)):
        if z[i] != 0.0:
            if size == k or z[i] != 1.0:
                return still, False
            inside[size] = i
            size += 1
    if size < k:
        return still, False
    for b in range(len(thetas)):
        theta = thetas[b]
        low = np.inf
        for i in inside:
            low = min(low, theta[i])
        above_inside = len(inside)
        for i in inside:
            above_inside -= theta[i] == low
        above = 0
        for i in range(len(theta)):
            above += theta[i] > low
        still[b] = above == above_inside
    return still, True


@njit(cache=True, nogil=True)
def topological_order(indptr, heads):
    """Kahn's order of the nodes; shorter than n exactly when there is a cycle."""
    n = len(indptr) - 1
    waiting = np.zeros(n, np.int64)
    for head in heads:
        waiting[head] += 1
    order = np.empty(n, np.int64)
    size = 0
    for u in range(n):
        if waiting[u] == 0:
            order[size] = u
            size += 1
    done = 0
    while done < size:
        u = order[done]
        done += 1
        for e in range(indptr[u], indptr[u + 1]):
            waiting[heads[e]] -= 1
            if waiting[heads[e]] == 0:
                order[size] = heads[e]
                size += 1
    return order[:size]


@njit(cache=True, nogil=True)
def log_route_count(indptr, tails):
    """ln of the number of source-target routes; nodes numbered in topological order."""
    count = np.full(len(indptr) - 1, -np.inf)
    count[0] = 0.0
    for v in range(1, len(count)):
        for e in range(indptr[v], indptr[v + 1]):
            count[v] = np.logaddexp(count[v], count[tails[e]])
    return count[-1]


@njit(cache=True, nogil=True)
def dag_routes(indptr, tails, heads, component, thetas, unit, best):
    """argmax_z z @ theta over routes, into the zeros of `best`, by dynamic programming in topological order.

    Each node pulls from its entering arcs into two scalars: that compiles to selects, where a branch would be
    mispredicted half of the time.
    """
    n = len(indptr) - 1
    cost = np.empty(n)
    entry = np.empty(n, np.int64)
    for b in range(len(thetas)):
        theta = thetas[b]
        cost[0] = 0.0
        for v in range(1, n):
            low, arc = np.inf, indptr[v]
            for e in range(indptr[v], indptr[v + 1]):
                candidate = cost[tails[e]] - unit * theta[component[e]]
                better = candidate < low
                low = candidate if better else low
                arc = e if better else arc
            cost[v], entry[v] = low, arc
        _mark_route(entry, tails, component, n - 1, best[b], unit)


@njit(cache=True, nogil=True)
def cyclic_routes(indptr, tails, heads, component, thetas, unit, best):
    """argmax_z z @ theta over simple routes, into the zeros of `best`, by Dijkstra's algorithm; theta >= 0."""
    n = len(indptr) - 1
    cost = np.empty(n)
    entry = np.empty(n, np.int64)
    settled = np.empty(n, np.bool_)
    keys = np.empty(len(heads) + 1)
    nodes = np.empty(len(heads) + 1, np.int64)
    for b in range(len(thetas)):
        theta = thetas[b]
        cost[:] = np.inf
        cost[0] = 0.0
        settled[:] = False
        keys[0], nodes[0], size = 0.0, 0, 1
        while True:
            u = nodes[0]
            size = _heap_pop(keys, nodes, size)
            if u == n - 1:
                break
            if settled[u]:
                continue
            settled[u] = True
            for e in range(indptr[u], indptr[u + 1]):
                candidate = cost[u] - unit * theta[component[e]]
                if candidate < cost[heads[e]]:
                    cost[heads[e]] = candidate
                    entry[heads[e]] = e
                    size = _heap_push(keys, nodes, size, candidate, heads[e])
        _mark_route(entry, tails, component, n - 1, best[b], unit)


@njit(cache=True, nogil=True)
def cyclic_through(indptr, tails, heads, component, into, arcs_into, thetas, unit, best):
    """Minus the shortest walk through each component, into `best`: from the source to it, and from it to the target.

    The arcs that enter node v are `arcs_into[into[v] : into[v + 1]]`; theta >= 0.
    """
    n = len(indptr) - 1
    here, there = np.empty(n), np.empty(n)
    keys = np.empty(len(heads) + 1)
    nodes = np.empty(len(heads) + 1, np.int64)
    onward = np.arange(len(heads))
    best[:] = -np.inf
    for b in range(len(thetas)):
        _distances(0, indptr, onward, heads, component, thetas[b], unit, here, keys, nodes)
        _distances(n - 1, into, arcs_into, tails, component, thetas[b], unit, there, keys, nodes)
        for e in range(len(heads)):
            a = component[e]
            best[b, a] = max(best[b, a], unit * thetas[b, a] - here[tails[e]] - there[heads[e]])


@njit(cache=True, nogil=True)
def _distances(start, indptr, arcs, ends, component, theta, unit, cost, keys, nodes):
    """Of every node from `start`, along arcs that lead to their ends."""
    cost[:] = np.inf
    cost[start] = 0.0
    keys[0], nodes[0], size = 0.0, start, 1
    while size:
        key, u = keys[0], nodes[0]
        size = _heap_pop(keys, nodes, size)
        if key > cost[u]:
            continue
        for i in range(indptr[u], indptr[u + 1]):
            e = arcs[i]
            candidate = key - unit * theta[component[e]]
            if candidate < cost[ends[e]]:
                cost[ends[e]] = candidate
                size = _heap_push(keys, nodes, size, candidate, ends[e])


@njit(cache=True, nogil=True)
def _mark_route(entry, tails, component, node, z, unit):
    while node != 0:
        z[component[entry[node]]] = unit
        node = tails[entry[node]]


@njit(cache=True, nogil=True)
def _heap_push(keys, nodes, size, key, node):
    i = size
    while i > 0:
        parent = (i - 1) >> 1
        if keys[parent] <= key:
            break
        keys[i], nodes[i] = keys[parent], nodes[parent]
        i = parent
    keys[i], nodes[i] = key, node
    return size + 1


@njit(cache=True, nogil=True)
def _heap_pop(keys, nodes, size):
    size -= 1
    key, node = keys[size], nodes[size]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        keys[i], nodes[i] = keys[child], nodes[child]
        i = child
    keys[i], nodes[i] = key, node
    return size


@njit(cache=True, nogil=True)
def simple_walks(start, indptr, ends, role, most_steps, ptr, arcs, last, count):
    """All walks from `start` that visit no node twice and end where role is 1, through nodes where it is 0.

    Walk w is `arcs[ptr[w] : ptr[w + 1]]` and ends in `last[w]`; `count` of them are there already. Returns their new
    number and the steps made, or -1 when `last`, `arcs` or the steps do not suffice.
    """
    at = np.empty(len(indptr), np.int64)  # the next arc to try, for every node of the walk
    walk = np.empty(len(indptr), np.int64)
    taken = np.empty(len(indptr), np.int64)
    on_walk = np.zeros(len(indptr), np.bool_)
    depth, steps = 0, 0
    walk[0], at[0], on_walk[start] = start, indptr[start], True
    while depth >= 0:
        node = walk[depth]
        if at[depth] == indptr[node + 1]:
            on_walk[node] = False
            depth -= 1
            continue
        steps += 1
        if steps > most_steps:
            return -1, steps
        arc = at[depth]
        at[depth] += 1
        end = ends[arc]
        taken[depth] = arc
        if role[end] == 1:
            if count == len(last) or ptr[count] + depth + 1 > len(arcs):
                return -1, steps
            arcs[ptr[count] : ptr[count] + depth + 1] = taken[: depth + 1]
            ptr[count + 1] = ptr[count] + depth + 1
            last[count] = end
            count += 1
        elif role[end] == 0 and not on_walk[end]:
            depth += 1
            walk[depth], at[depth], on_walk[end] = end, indptr[end], True
    return count, steps


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

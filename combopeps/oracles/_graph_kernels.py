"""Compiled loops on graphs (numba): simple walks, dominators and spanning trees.

Imported on first use, so that importing the package stays light. `combopeps.oracles.path` describes route networks.

**Dominators.** Node v dominates u from a root if every walk from the root to u visits v. On a graph with cycles, an arc
(u, v) is on no simple s-t route if v dominates u from s, because the route has visited v before u; nor if u dominates v
from t in the reversed graph, because the route would have to visit u again. Immediate dominators are computed by the
iteration of Cooper, Harvey and Kennedy (2001).

**Spanning trees.** Edge e joins nodes `u[e]` and `v[e]` of 0 .. n-1; the graph is connected and has no loops. A rooted
tree is given by the `parent`, the edge to the parent (`above`) and the `depth` of every node.
"""

from __future__ import annotations

import numpy as np

from combopeps.utils.jit import njit

_ROUNDING = 1e-13  # as in `base.strictly_better`


@njit
def topk_membership(thetas, z, k):
    """Test per row whether min theta over chosen items >= max over others; and whether z has k ones, else zeros.

    Counting the entries above the minimum vectorises; a masked maximum does not.
    """
    is_best = np.empty(len(thetas), np.bool_)
    inside, size = np.empty(k, np.int64), 0
    for i in range(len(z)):
        if z[i] != 0.0:
            if size == k or z[i] != 1.0:
                return is_best, False
            inside[size] = i
            size += 1
    if size < k:
        return is_best, False
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
        is_best[b] = above == above_inside
    return is_best, True


@njit(steps=lambda indptr, heads: 2 * (len(indptr) + len(heads)))
def topological_order(indptr, heads):
    """Return a topological order (Kahn's algorithm); it has fewer than n nodes exactly if there is a cycle."""
    n = len(indptr) - 1
    in_degree = np.zeros(n, np.int64)
    for head in heads:
        in_degree[head] += 1
    order = np.empty(n, np.int64)
    size = 0
    for u in range(n):
        if in_degree[u] == 0:
            order[size] = u
            size += 1
    done = 0
    while done < size:
        u = order[done]
        done += 1
        for e in range(indptr[u], indptr[u + 1]):
            in_degree[heads[e]] -= 1
            if in_degree[heads[e]] == 0:
                order[size] = heads[e]
                size += 1
    return order[:size]


@njit(steps=lambda indptr, tails: 3 * (len(indptr) + len(tails)))
def log_route_count(indptr, tails):
    """Return ln of the number of source-target routes of an acyclic graph with nodes in topological order."""
    log_count = np.full(len(indptr) - 1, -np.inf)
    log_count[0] = 0.0
    for v in range(1, len(log_count)):
        for e in range(indptr[v], indptr[v + 1]):
            log_count[v] = np.logaddexp(log_count[v], log_count[tails[e]])
    return log_count[-1]


@njit(steps=lambda start, indptr, ends, *_: 4 * len(ends))  # that is a typical number
def simple_walks(start, indptr, ends, role, max_steps, ptr, arcs, last, count):
    """Enumerate the simple walks from `start` that end at a node of role 1 and otherwise pass nodes of role 0.

    Walk w is `arcs[ptr[w] : ptr[w + 1]]` and ends in `last[w]`. New walks are appended after the first `count`. Returns
    the new count, or -1 if `last`, `arcs` or `max_steps` do not suffice, and the number of steps.
    """
    next_arc = np.empty(len(indptr), np.int64)  # of every node of the current walk
    walk = np.empty(len(indptr), np.int64)
    taken = np.empty(len(indptr), np.int64)
    on_walk = np.zeros(len(indptr), np.bool_)
    depth, steps = 0, 0
    walk[0], next_arc[0], on_walk[start] = start, indptr[start], True
    while depth >= 0:
        node = walk[depth]
        if next_arc[depth] == indptr[node + 1]:
            on_walk[node] = False
            depth -= 1
            continue
        steps += 1
        if steps > max_steps:
            return -1, steps
        arc = next_arc[depth]
        next_arc[depth] += 1
        end = ends[arc]
        taken[depth] = arc
        if role[end] == 1:
            if count == len(last) or ptr[count] + depth + 1 > len(arcs):
                return -1, steps
            for i in range(depth + 1):
                arcs[ptr[count] + i] = taken[i]
            ptr[count + 1] = ptr[count] + depth + 1
            last[count] = end
            count += 1
        elif role[end] == 0 and not on_walk[end]:
            depth += 1
            walk[depth], next_arc[depth], on_walk[end] = end, indptr[end], True
    return count, steps


@njit
def head_dominates_tail(root, indptr, ends, tails, heads):
    """Test for every arc whether its head dominates its tail from the root; `indptr` and `ends` are the graph."""
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
                while common != other:  # the nearest common ancestor in the tree of dominators
                    while rank[common] < rank[other]:
                        common = dominator[common]
                    while rank[other] < rank[common]:
                        other = dominator[other]
            if dominator[node] != common:
                dominator[node] = common
                changed = True
    first, size = _intervals(root, order, dominator)
    dominates = np.empty(len(tails), np.bool_)
    for e in range(len(tails)):
        u, v = tails[e], heads[e]
        dominates[e] = rank[u] >= 0 and rank[v] >= 0 and first[v] <= first[u] < first[v] + size[v]
    return dominates


@njit(inner=True)
def _postorder(root, indptr, ends):
    """Return the reachable nodes in postorder of a depth-first search, and the rank of every node (-1: unreachable)."""
    n = len(indptr) - 1
    rank, next_arc = np.full(n, -1), indptr[:-1].copy()
    order, stack = np.empty(n, np.int64), np.empty(n, np.int64)
    seen = np.zeros(n, np.bool_)
    stack[0], depth, size, seen[root] = root, 1, 0, True
    while depth:
        u = stack[depth - 1]
        if next_arc[u] == indptr[u + 1]:
            order[size], rank[u] = u, size
            size, depth = size + 1, depth - 1
            continue
        v = ends[next_arc[u]]
        next_arc[u] += 1
        if not seen[v]:
            seen[v] = True
            stack[depth] = v
            depth += 1
    return order[:size], rank


@njit(inner=True)
def _entering(n, indptr, ends):
    """Group arcs by head: `sources[into[v] : into[v + 1]]` are the tails of the arcs that enter v."""
    into = np.zeros(n + 1, np.int64)
    for v in ends:
        into[v + 1] += 1
    into = np.cumsum(into)
    sources, free = np.empty(len(ends), np.int64), into[:-1].copy()
    for u in range(n):
        for e in range(indptr[u], indptr[u + 1]):
            sources[free[ends[e]]] = u
            free[ends[e]] += 1
    return into, sources


@njit(inner=True)
def _intervals(root, order, dominator):
    """Number the nodes in preorder of the dominator tree: v dominates the numbers `first[v] : first[v] + size[v]`."""
    n = len(dominator)
    first, free, size = np.zeros(n, np.int64), np.ones(n, np.int64), np.zeros(n, np.int64)
    for node in order:  # postorder: the root comes last
        size[node] += 1
        if node != root:
            size[dominator[node]] += size[node]
    for i in range(len(order) - 2, -1, -1):
        node = order[i]
        parent = dominator[node]
        first[node] = first[parent] + free[parent]
        free[parent] += size[node]
    return first, size


@njit
def best_trees(u, v, n, thetas, unit, best):
    """argmax_z z @ theta over spanning trees, by Boruvka's algorithm; written into the zeros of `best`.

    Every tree of the forest takes the best edge that leaves it, the first one among equals; then edges inside a tree
    are dropped. Without sorting this is two to five times as fast as Kruskal's algorithm on dense graphs, and not
    slower on sparse ones.
    """
    m = len(u)
    a, b, edge, cost = np.empty(m, np.int32), np.empty(m, np.int32), np.empty(m, np.int32), np.empty(m)
    low, first, root, part = np.empty(n), np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    for row in range(len(thetas)):
        _init_forest(u, v, thetas[row], unit, a, b, edge, cost)
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
                if _unite(root, a[k], b[k]):
                    best[row, edge[k]] = unit
            parts = _number_sets(root, parts, part)
            size = _drop_inner_edges(part, size, a, b, edge, cost)


@njit
def tree_membership(u, v, n, z, thetas, unit):
    """Test per row whether the tree z is a best one, by Boruvka's algorithm along edges of z.

    If another edge that leaves a tree of the forest is better than all edges of z that do, it closes a cycle with one
    of those, and the swap is better. Conversely, a better swap of f for e is found at the latest when the cycle of e is
    contracted to two nodes.
    """
    m, is_best = len(u), np.ones(len(thetas), np.bool_)
    a, b, edge, cost = np.empty(m, np.int32), np.empty(m, np.int32), np.empty(m, np.int32), np.empty(m)
    low, first, root, part = np.empty(n), np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    own = np.empty(n)
    for row in range(len(thetas)):
        _init_forest(u, v, thetas[row], unit, a, b, edge, cost)
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
                    is_best[row] = False
            if not is_best[row]:
                break
            root[:parts] = np.arange(parts)
            for i in range(parts):
                _unite(root, a[first[i]], b[first[i]])
            parts = _number_sets(root, parts, part)
            size = _drop_inner_edges(part, size, a, b, edge, cost)
    return is_best


@njit
def tree_membership_dense(u, v, order, parent, above, thetas, unit):
    """Test as `tree_membership` on dense graphs: no edge is better than the worst edge of its path in z.

    `order` has parents before their children. `worst` holds the cost of the worst edge of the path between two nodes:
    the maximum of the parent's entry and the edge to the parent.
    """
    n, is_best = len(order), np.ones(len(thetas), np.bool_)
    rank = np.empty(n, np.int64)
    for i in range(n):
        rank[order[i]] = i
    worst = np.full((n, n), -np.inf)
    for row in range(len(thetas)):
        for i in range(1, n):
            p, c = rank[parent[order[i]]], -unit * thetas[row, above[order[i]]]
            for j in range(i):
                worst[i, j] = max(worst[p, j], c)
            for j in range(i):
                worst[j, i] = worst[i, j]
        for e in range(len(u)):
            high, c = worst[rank[u[e]], rank[v[e]]], -unit * thetas[row, e]
            if _is_better(c, high):
                is_best[row] = False
                break
    return is_best


@njit(inner=True)
def _init_forest(u, v, theta, unit, a, b, edge, cost):
    """Start Boruvka's algorithm: every node is a tree of the forest, and every edge joins two of them."""
    for e in range(len(u)):
        a[e] = u[e]
        b[e] = v[e]
        edge[e] = e
        cost[e] = -unit * theta[e]


@njit(inner=True)
def _drop_inner_edges(part, size, a, b, edge, cost):
    """Renumber the ends of edges by tree and drop edges inside a tree; return how many are left."""
    kept = 0
    for k in range(size):
        i, j = part[a[k]], part[b[k]]
        a[kept] = i
        b[kept] = j
        edge[kept] = edge[k]
        cost[kept] = cost[k]
        kept += i != j
    return kept


@njit(inner=True)
def _is_better(low, high):
    """Test for a lower cost beyond rounding."""
    return low < high and high - low > _ROUNDING * (abs(high) + abs(low))


@njit(inner=True)
def _find(root, i):
    """Return the representative of i in a union-find structure, halving the path to it."""
    while root[i] != i:
        root[i] = root[root[i]]
        i = root[i]
    return i


@njit(inner=True)
def _unite(root, i, j):
    """Unite two sets of a union-find structure; return False if they were the same."""
    i, j = _find(root, i), _find(root, j)
    root[i] = j
    return i != j


@njit(inner=True)
def _number_sets(root, size, part):
    """Number the sets of a union-find structure 0, 1, ... into `part`; return how many there are."""
    count = 0
    for i in range(size):
        if root[i] == i:
            part[i] = count
            count += 1
    for i in range(size):
        part[i] = part[_find(root, i)]
    return count


@njit
def root_tree(u, v, n, z, unit):
    """Root the tree z at node 0: return its nodes in breadth-first order; parent, edge to it and depth of every node.

    The last value tells whether z is a spanning tree with entries 0 and `unit`.
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
    start[:] = np.cumsum(start)  # ends of the nodes' edge lists, which are filled backwards
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


@njit
def count_swaps(u, v, z, parent, above, depth, limit, start):
    """Count the pairs of a tree edge and another edge whose cycle contains it; stops at some number above `limit`.

    Writes the offset of each tree edge in the list of swaps sorted by tree edge into the zeros of `start`.
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
            if total > limit:
                return total
    total = 0
    for e in range(len(start)):
        start[e], total = total, total + start[e]
    return total


@njit
def list_swaps(u, v, z, parent, above, depth, unit, start, columns, data):
    """Write rows unit (e_in - e_out), sorted by the removed edge: an update of one edge touches adjacent rows."""
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


@njit
def blocks(u, v, n, z, parent, above, depth):
    """Return the biconnected component (block) of every edge, (m,): edges of one block lie on a common cycle.

    Blocks are united along the cycles that non-tree edges close with the tree. Node x represents the edge above it;
    `top` is the highest node of a block, so that a climb skips edges that are united already.
    """
    root, top = np.arange(n).astype(np.int32), parent.copy()
    for e in range(len(u)):
        if z[e] == 0.0:
            x, y = u[e], v[e]
            block = _find(root, x if depth[x] >= depth[y] else y)
            while x != y:
                if depth[x] < depth[y]:
                    x, y = y, x
                other = _find(root, x)
                x = top[other]
                if other != block:
                    if depth[top[other]] < depth[top[block]]:
                        block, other = other, block
                    root[other] = block
    numbers, part = np.empty(len(u), np.int32), np.empty(n, np.int32)
    _number_sets(root, n, part)
    for e in range(len(u)):
        lower = u[e] if depth[u[e]] >= depth[v[e]] else v[e]  # its edge upwards is on the cycle of e, or is e
        numbers[e] = part[lower] - 1  # the root of the tree, node 0, is a set of its own
    return numbers

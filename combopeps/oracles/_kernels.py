"""Compiled loops (numba). Imported on first use, so that importing the package stays light.

A route network has nodes 0 .. n-1, the source 0 and the target n-1. Its arcs are grouped by the node they
enter on an acyclic graph, and by the node they leave otherwise: the arcs of node v are `indptr[v] : indptr[v + 1]`.
Arc e goes from `tails[e]` to `heads[e]` and is measured by coordinate `component[e]` of theta (two arcs share one
coordinate in an undirected graph).
"""

from __future__ import annotations

import numpy as np

from combopeps._compiled import njit


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

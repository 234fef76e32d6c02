"""Compiled assignment by shortest augmenting paths, after Jonker and Volgenant; floats, sparse rows, any shape.

Prices v of columns are kept such that the edge of every assigned row is its cheapest one:

    cost_ij - v_j >= u_i   for all edges,   with equality where i has j,   v_j <= 0 and 0 where j is free

(free columns have no say where there are as many rows: then any v will do). Rows first bid for columns, which settles
most of them; each of the others then takes the shortest path to a free column, by Dijkstra's method.
"""

from __future__ import annotations

import numpy as np

from combopeps._compiled import njit

_BIDS = 4  # per row and round: near ties must not keep two rows bidding for ever
_ROUNDS = 2


@njit(cache=True, nogil=True)
def _cheapest(i, first, column, cost, price):
    """The cheapest edge of a row under the prices, its reduced cost, and that of the next one."""
    edge, least, second = -1, np.inf, np.inf
    for e in range(first[i], first[i + 1]):
        reduced = cost[e] - price[column[e]]
        if reduced < least:
            edge, second, least = e, least, reduced
        elif reduced < second:
            second = reduced
    return edge, least, second


@njit(cache=True, nogil=True)
def _bid(first, column, cost, price, row_of, edge_of, waiting, count):
    """Rows of `waiting[:count]` take their cheapest column and raise its price; how many are left, at the front."""
    most, bids, left = _BIDS * len(edge_of), 0, 0
    for k in range(count):
        i = waiting[k]
        while i >= 0:
            edge, least, second = _cheapest(i, first, column, cost, price)
            j = column[edge]
            other = row_of[j]
            bids += 1
            if other >= 0 and (not least < second or second == np.inf or bids > most):
                waiting[left] = i  # left <= k: nothing is written over
                left += 1
                break
            if least < second < np.inf:
                price[j] -= second - least
            row_of[j], edge_of[i] = i, edge
            if other >= 0:
                edge_of[other] = -1
            i = other
    return left


@njit(cache=True, nogil=True)
def _rise(heap, place, key, k):
    """Move the entry at k of a binary heap up to where it belongs."""
    j = heap[k]
    while k > 0 and key[heap[(k - 1) >> 1]] > key[j]:
        heap[k] = heap[(k - 1) >> 1]
        place[heap[k]] = k
        k = (k - 1) >> 1
    heap[k], place[j] = j, k


@njit(cache=True, nogil=True)
def _take_least(heap, place, key, size):
    """The least entry of a heap of this size, which then has one less."""
    least, j, k = heap[0], heap[size - 1], 0
    while 2 * k + 1 < size - 1:
        child = 2 * k + 1
        if child + 1 < size - 1 and key[heap[child + 1]] < key[heap[child]]:
            child += 1
        if key[j] <= key[heap[child]]:
            break
        heap[k] = heap[child]
        place[heap[k]] = k
        k = child
    heap[k], place[j] = j, k
    return least


@njit(cache=True, nogil=True)
def _augment(i, first, column, cost, price, row_of, edge_of, tail, distance, via, done, heap, place, touched):
    """Give row i a column by the shortest path to a free one; is there one?"""
    start, base, size, count, end = i, 0.0, 0, 0, -1
    least = _cheapest(i, first, column, cost, price)[1]
    while True:
        for e in range(first[i], first[i + 1]):
            j = column[e]
            way = base + max(0.0, cost[e] - price[j] - least)
            if not done[j] and way < distance[j]:
                if distance[j] == np.inf:
                    touched[count], heap[size], place[j] = j, j, size
                    count, size = count + 1, size + 1
                distance[j], via[j] = way, e
                _rise(heap, place, distance, place[j])
        if size == 0:
            break
        j = _take_least(heap, place, distance, size)
        size -= 1
        base, done[j] = distance[j], True
        if row_of[j] < 0:
            end = j
            break
        i = row_of[j]
        least = cost[edge_of[i]] - price[j]
    for j in touched[:count]:
        if done[j] and end >= 0:
            price[j] += distance[j] - base
        distance[j], done[j] = np.inf, False
    if end < 0:
        return False
    j, i = end, -1
    while i != start:
        i = tail[via[j]]
        before = edge_of[i]
        row_of[j], edge_of[i] = i, via[j]
        if i != start:
            j = column[before]
    return True


@njit(cache=True, nogil=True)
def assignments(first, column, columns, order, weights, sign, unit, best):
    """One assignment per row of `weights` of the least sum of sign * weight, as entries `unit` of `best`; all found?

    Edges are those of row 0, then of row 1, ...: `first[i] : first[i + 1]` of `column`; edge e has weight `order[e]`.
    """
    rows, edges = len(first) - 1, len(column)
    tail = np.empty(edges, dtype=np.int64)
    for i in range(rows):
        tail[first[i] : first[i + 1]] = i
    cost, price, distance = np.empty(edges), np.empty(columns), np.full(columns, np.inf)
    row_of, edge_of = np.empty(columns, dtype=np.int64), np.empty(rows, dtype=np.int64)
    via, heap, place = np.empty((3, columns), dtype=np.int64)
    touched, done, waiting = np.empty(columns, dtype=np.int64), np.zeros(columns, dtype=np.bool_), np.arange(rows)
    for b in range(len(weights)):
        for e in range(edges):
            cost[e] = sign * weights[b, order[e]]
        row_of[:], edge_of[:], price[:] = -1, -1, 0.0
        if rows == columns:
            price[:] = np.inf
            for e in range(edges):
                price[column[e]] = min(price[column[e]], cost[e])
        left = rows
        for i in range(rows):
            waiting[i] = i
        for _ in range(_ROUNDS):
            left = _bid(first, column, cost, price, row_of, edge_of, waiting, left)
        for k in range(left):
            if not _augment(
                waiting[k], first, column, cost, price, row_of, edge_of, tail, distance, via, done, heap, place, touched
            ):
                return False
        for chosen in edge_of:
            best[b, order[chosen]] = unit
    return True

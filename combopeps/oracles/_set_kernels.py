"""Compiled loops over groups of components (numba), imported on first use.

Group g holds the coordinates `ptr[g] : ptr[g + 1]`, and at most, or exactly, `quota[g]` of them are chosen. Loops have
selects in place of branches, which random values would make mispredicted half of the time.

Compiled loops over loads of a knapsack: the best one, and how many there are.

Compiled assignment by shortest augmenting paths, after Jonker and Volgenant; floats, sparse rows, any shape.

Prices v of columns are kept such that the edge of every assigned row is its cheapest one:

    cost_ij - v_j >= u_i   for all edges,   with equality where i has j,   v_j <= 0 and 0 where j is free

(free columns have no say where there are as many rows: then any v will do). Rows first bid for columns, which settles
most of them; each of the others then takes the shortest path to a free column, by Dijkstra's method.
"""

from __future__ import annotations

import numpy as np

from combopeps.utils.jit import njit

_FEW = 8  # places that are quickest kept in order


@njit(cache=True, nogil=True)
def best_of_groups(thetas, unit, ptr, quota, exactly, best):
    """The largest unit * theta of every group, earlier ones first among equals, into `best`.

    Unless so many are wanted exactly, only what is worth more than nothing is taken.
    """
    values, others = np.empty((2, max(_FEW, np.diff(ptr).max())))
    floor = -np.inf if exactly else 0.0
    for b in range(len(thetas)):
        for g in range(len(quota)):
            k, theta, z = quota[g], thetas[b, ptr[g] : ptr[g + 1]], best[b, ptr[g] : ptr[g + 1]]
            n = len(theta)
            if k == 0:
                z[:] = 0.0
                continue
            if k == n:
                low, room = -np.inf, 0
            elif k <= _FEW:
                low, room = _last_place(theta, unit, values[:k])
            else:
                values[:n] = unit * theta
                low, room = _kth_largest(values, others, n, k)
            for i in range(n):
                value = unit * theta[i]
                tied = value == low
                z[i] = unit if ((value > low) | (tied & (room > 0))) & (value > floor) else 0.0
                room -= tied


@njit(cache=True, nogil=True)
def _last_place(theta, unit, places):
    """The smallest of the largest values, as many as there are places, and how many equal to it have one."""
    places[:] = -np.inf
    for i in range(len(theta)):
        value = unit * theta[i]
        for j in range(len(places)):  # the larger one stays, the other goes on to the next place
            here = places[j]
            places[j] = max(here, value)
            value = min(here, value)
    low, room = places[-1], 0
    for j in range(len(places)):
        room += places[j] == low
    return low, room


@njit(cache=True, nogil=True)
def _kth_largest(values, others, n, k):
    """The k-th largest of the first n values, and how many equal to it belong to the k largest.

    Quickselect, on arrays that may be written over: what is above a pivot stays in front, what is below goes into the
    other array, until the pivot is the one.
    """
    while True:
        a, b, c = values[0], values[n // 2], values[n - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        above, below = 0, 0
        for i in range(n):
            value = values[i]
            values[above] = value
            others[below] = value
            above += value > pivot
            below += value < pivot
        if k <= above:
            n = above
        elif k <= n - below:
            return pivot, k - above
        else:
            values, others, n, k = others, values, below, k - (n - below)


@njit(cache=True, nogil=True)
def still_best(thetas, unit, z, ptr, quota, exactly):
    """Is z best in every group? What is above its last one must be inside: counting vectorises.

    Where there is room for more, nothing outside may be worth more than 0. Also says whether z is an answer at all.
    """
    still = np.ones(len(thetas), np.bool_)
    inside = np.flatnonzero(z)
    ends = np.searchsorted(inside, ptr)
    for g in range(len(quota)):
        size = ends[g + 1] - ends[g]
        if size > quota[g] or (exactly and size < quota[g]):
            return still, False
    for i in inside:
        if z[i] != unit:
            return still, False
    for b in range(len(thetas)):
        theta = thetas[b]
        for g in range(len(quota)):
            mine = inside[ends[g] : ends[g + 1]]
            full = exactly or len(mine) == quota[g]
            if full and len(mine) == 0:
                continue
            low = np.inf
            for i in mine:
                low = min(low, unit * theta[i])
            if not exactly and low < 0.0:
                still[b] = False
                break
            low = low if full else 0.0
            inside_above, above = 0, 0
            for i in mine:
                inside_above += unit * theta[i] > low
            for value in theta[ptr[g] : ptr[g + 1]]:
                above += unit * value > low
            if above > inside_above:
                still[b] = False
                break
    return still, True


@njit(cache=True, nogil=True)
def neighbours(unit, z, ptr, quota, exactly, indptr, indices, data):
    """Swaps in a full group; where fewer will do, also single components taken out, or added while there is room.

    Rows of a sparse matrix, into arrays that are long enough; returns how many rows and entries there are.
    """
    row, entry = 0, 0
    indptr[0] = 0
    for g in range(len(quota)):
        size = np.count_nonzero(z[ptr[g] : ptr[g + 1]])
        for i in range(ptr[g], ptr[g + 1]):
            inside = z[i] != 0.0
            if not exactly and (inside or size < quota[g]):
                indices[entry], data[entry] = i, -unit if inside else unit
                row, entry = row + 1, entry + 1
                indptr[row] = entry
            if inside and size == quota[g]:
                for j in range(ptr[g], ptr[g + 1]):
                    if z[j] == 0.0:
                        first = min(i, j)
                        indices[entry], indices[entry + 1] = first, max(i, j)
                        data[entry] = -unit if first == i else unit
                        data[entry + 1] = -data[entry]
                        row, entry = row + 1, entry + 2
                        indptr[row] = entry
    return row, entry


@njit(cache=True, nogil=True)
def knapsack_loads(weights, capacity, thetas, best):
    """For every row of thetas the best set of items within the capacity, by dynamic programming; `best` starts as 0.

    value[c] is the best value of a load of at most c; of equal loads the one without the later item wins.
    """
    d = len(weights)
    value = np.empty(capacity + 1)
    taken = np.empty((d, capacity + 1), dtype=np.bool_)
    for b in range(len(thetas)):
        value[:] = 0.0
        for i in range(d):
            worth, weight = thetas[b, i], weights[i]
            if worth <= 0.0:
                continue
            for c in range(capacity, weight - 1, -1):
                loaded = value[c - weight] + worth
                taken[i, c] = loaded > value[c]
                if taken[i, c]:
                    value[c] = loaded
        room = capacity
        for i in range(d - 1, -1, -1):
            if thetas[b, i] > 0.0 and weights[i] <= room and taken[i, room]:
                best[b, i] = 1.0
                room -= weights[i]


@njit(cache=True, nogil=True)
def log_load_count(weights, capacity):
    """ln of the number of sets of items within the capacity; counts are scaled down before they overflow."""
    counts = np.zeros(capacity + 1)
    counts[0], shift = 1.0, 0.0
    for weight in weights:
        for c in range(capacity, weight - 1, -1):
            counts[c] += counts[c - weight]
        largest = counts.max()
        if largest > 1e200:
            counts /= largest
            shift += np.log(largest)
    return shift + np.log(counts.sum())


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

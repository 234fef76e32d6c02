"""Compiled loops on sets (numba): partition matroids, knapsacks and assignments.

Imported on first use, so that importing the package stays light. Comparisons of random values are written as selects,
because branches would be mispredicted half of the time.

**Groups.** Group g has the coordinates `ptr[g] : ptr[g + 1]`, of which exactly, or at most, `quota[g]` are chosen.

**Assignments.** Shortest augmenting paths after Jonker and Volgenant (1987), on float costs in sparse rows of any
shape. Prices v of columns are maintained such that the edge of every assigned row is its cheapest one:

    cost_ij - v_j >= u_i   for all edges,   with equality if i has j,   v_j <= 0 and 0 if j is free

(if there are as many rows as columns, no column stays free and prices may have any sign). Rows first bid for columns,
which settles most of them; each of the others then takes the shortest path to a free column (Dijkstra's algorithm).
"""

from __future__ import annotations

import numpy as np

from combopeps.utils.jit import njit

_MAX_SORTED = 8  # up to which quota a sorted list of the largest values is faster than quickselect
_BIDS_PER_ROW = 4  # and round: with near ties, two rows could otherwise outbid each other indefinitely
_BIDDING_ROUNDS = 2


@njit
def best_of_groups(thetas, unit, ptr, quota, exactly, best):
    """Choose the largest unit * theta of every group into `best`; among equal values earlier ones are chosen.

    If not `exactly`, only positive values are chosen.
    """
    values, others = np.empty((2, max(_MAX_SORTED, np.diff(ptr).max())))
    floor = -np.inf if exactly else 0.0
    for b in range(len(thetas)):
        for g in range(len(quota)):
            k, theta, z = quota[g], thetas[b, ptr[g] : ptr[g + 1]], best[b, ptr[g] : ptr[g + 1]]
            n = len(theta)
            if k == 0:
                z[:] = 0.0
                continue
            if k == n:
                low, ties_left = -np.inf, 0
            elif k <= _MAX_SORTED:
                low, ties_left = _kth_largest_sorted(theta, unit, values[:k])
            else:
                values[:n] = unit * theta
                low, ties_left = _kth_largest(values, others, n, k)
            for i in range(n):
                value = unit * theta[i]
                tied = value == low
                z[i] = unit if ((value > low) | (tied & (ties_left > 0))) & (value > floor) else 0.0
                ties_left -= tied


@njit(inner=True)
def _kth_largest_sorted(theta, unit, largest):
    """Return the k-th largest unit * theta, k = len(largest), and how many equal to it are among the k largest."""
    largest[:] = -np.inf
    for i in range(len(theta)):
        value = unit * theta[i]
        for j in range(len(largest)):  # insertion: the larger value stays, the smaller one moves on
            current = largest[j]
            largest[j] = max(current, value)
            value = min(current, value)
    low, ties_left = largest[-1], 0
    for j in range(len(largest)):
        ties_left += largest[j] == low
    return low, ties_left


@njit(inner=True)
def _kth_largest(values, others, n, k):
    """Return the k-th largest of the first n values, and how many equal to it are among the k largest.

    Quickselect that overwrites both arrays: values above the pivot stay in front, values below it go into `others`.
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


@njit
def groups_membership(thetas, unit, z, ptr, quota, exactly):
    """Test per row whether z is best in every group; and whether z is an answer.

    All values above the smallest chosen one must be chosen, which is tested by counting because that vectorises. In a
    group below its quota, no value that is not chosen may be positive.
    """
    is_best = np.ones(len(thetas), np.bool_)
    inside = np.flatnonzero(z)
    ends = np.searchsorted(inside, ptr)
    for g in range(len(quota)):
        size = ends[g + 1] - ends[g]
        if size > quota[g] or (exactly and size < quota[g]):
            return is_best, False
    for i in inside:
        if z[i] != unit:
            return is_best, False
    for b in range(len(thetas)):
        theta = thetas[b]
        for g in range(len(quota)):
            chosen = inside[ends[g] : ends[g + 1]]
            full = exactly or len(chosen) == quota[g]
            if full and len(chosen) == 0:
                continue
            low = np.inf
            for i in chosen:
                low = min(low, unit * theta[i])
            if not exactly and low < 0.0:
                is_best[b] = False
                break
            low = low if full else 0.0
            inside_above, above = 0, 0
            for i in chosen:
                inside_above += unit * theta[i] > low
            for value in theta[ptr[g] : ptr[g + 1]]:
                above += unit * value > low
            if above > inside_above:
                is_best[b] = False
                break
    return is_best, True


@njit
def write_neighbours(unit, z, ptr, quota, exactly, indptr, indices, data):
    """Write the neighbours of z minus z as CSR rows into preallocated arrays; return the numbers of rows and entries.

    Neighbours are the swaps in a group at its quota and, if not `exactly`, removals, and additions below the quota.
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


@njit
def solve_knapsacks(weights, capacity, thetas, best):
    """Solve the knapsack problem per row by dynamic programming, into the zeros of `best`.

    value[c] is the best value of a load of at most c; on ties the later item is left out.
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
        remaining = capacity
        for i in range(d - 1, -1, -1):
            if thetas[b, i] > 0.0 and weights[i] <= remaining and taken[i, remaining]:
                best[b, i] = 1.0
                remaining -= weights[i]


@njit
def log_load_count(weights, capacity):
    """Return ln of the number of sets of items within the capacity; counts are rescaled before they overflow."""
    counts = np.zeros(capacity + 1)
    counts[0], log_scale = 1.0, 0.0
    for weight in weights:
        for c in range(capacity, weight - 1, -1):
            counts[c] += counts[c - weight]
        largest = counts.max()
        if largest > 1e200:
            counts /= largest
            log_scale += np.log(largest)
    return log_scale + np.log(counts.sum())


@njit(inner=True)
def _cheapest(i, first, column, cost, price):
    """Return the cheapest edge of a row, its reduced cost cost - price, and the second smallest reduced cost."""
    edge, least, second = -1, np.inf, np.inf
    for e in range(first[i], first[i + 1]):
        reduced = cost[e] - price[column[e]]
        if reduced < least:
            edge, second, least = e, least, reduced
        elif reduced < second:
            second = reduced
    return edge, least, second


@njit(inner=True)
def _bid(first, column, cost, price, row_of, edge_of, waiting, count):
    """Let each row of `waiting[:count]` take its cheapest column, at a price that makes the second one as cheap.

    Rows that lose their column bid again. Returns how many rows remain unassigned, at the front of `waiting`.
    """
    max_bids, bids, left = _BIDS_PER_ROW * len(edge_of), 0, 0
    for k in range(count):
        i = waiting[k]
        while i >= 0:
            edge, least, second = _cheapest(i, first, column, cost, price)
            j = column[edge]
            other = row_of[j]
            bids += 1
            if other >= 0 and (not least < second or second == np.inf or bids > max_bids):
                waiting[left] = i  # left <= k: no unread entry is overwritten
                left += 1
                break
            if least < second < np.inf:
                price[j] -= second - least
            row_of[j], edge_of[i] = i, edge
            if other >= 0:
                edge_of[other] = -1
            i = other
    return left


@njit(inner=True)
def _sift_up(heap, place, key, k):
    """Restore the order of a binary heap whose entry at position k has a smaller key."""
    j = heap[k]
    while k > 0 and key[heap[(k - 1) >> 1]] > key[j]:
        heap[k] = heap[(k - 1) >> 1]
        place[heap[k]] = k
        k = (k - 1) >> 1
    heap[k], place[j] = j, k


@njit(inner=True)
def _pop_min(heap, place, key, size):
    """Remove and return the entry of the smallest key from a heap of this size."""
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


@njit(inner=True)
def _augment(i, first, column, cost, price, row_of, edge_of, tail, distance, via, done, heap, place, touched):
    """Assign row i along the shortest alternating path to a free column; return False if there is none."""
    start, base, size, count, end = i, 0.0, 0, 0, -1
    least = _cheapest(i, first, column, cost, price)[1]
    while True:
        for e in range(first[i], first[i + 1]):
            j = column[e]
            # Reduced costs are non-negative, as Dijkstra's algorithm requires, except for rounding.
            way = base + max(0.0, cost[e] - price[j] - least)
            if not done[j] and way < distance[j]:
                if distance[j] == np.inf:
                    touched[count], heap[size], place[j] = j, j, size
                    count, size = count + 1, size + 1
                distance[j], via[j] = way, e
                _sift_up(heap, place, distance, place[j])
        if size == 0:
            break
        j = _pop_min(heap, place, distance, size)
        size -= 1
        base, done[j] = distance[j], True
        if row_of[j] < 0:
            end = j
            break
        i = row_of[j]
        least = cost[edge_of[i]] - price[j]
    # Lower the prices of settled columns, so that the edges of the path become the cheapest of their rows.
    for j in touched[:count]:
        if done[j] and end >= 0:
            price[j] += distance[j] - base
        distance[j], done[j] = np.inf, False
    if end < 0:
        return False
    # Shift the assignments along the path, from the free column back to the row.
    j, i = end, -1
    while i != start:
        i = tail[via[j]]
        before = edge_of[i]
        row_of[j], edge_of[i] = i, via[j]
        if i != start:
            j = column[before]
    return True


@njit
def solve_assignments(first, column, columns, order, weights, sign, unit, best):
    """Minimise the sum of sign * weight over assignments of all rows to columns, for every row of `weights`.

    Writes entries `unit` at the chosen edges into the zeros of `best`, and returns whether all problems are feasible.
    Edges are sorted by row: those of row i are `first[i] : first[i + 1]` of `column`; edge e has weight `order[e]`.
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
        for _ in range(_BIDDING_ROUNDS):
            left = _bid(first, column, cost, price, row_of, edge_of, waiting, left)
        for k in range(left):
            if not _augment(
                waiting[k], first, column, cost, price, row_of, edge_of, tail, distance, via, done, heap, place, touched
            ):
                return False
        for chosen in edge_of:
            best[b, order[chosen]] = unit
    return True

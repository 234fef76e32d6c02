"""Compiled loops over groups of components (numba), imported on first use.

Group g holds the coordinates `ptr[g] : ptr[g + 1]`, and at most, or exactly, `quota[g]` of them are chosen. Loops have
selects in place of branches, which random values would make mispredicted half of the time.
"""

from __future__ import annotations

import numpy as np

from combopeps._compiled import njit

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

"""Compiled loops over loads of a knapsack: the best one, and how many there are."""

from __future__ import annotations

import numpy as np

from combopeps._compiled import njit


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

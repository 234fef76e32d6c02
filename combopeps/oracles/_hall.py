"""Hall's theorem made visible: which left nodes have too few neighbours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching


def deficient_set(
    left: NDArray[np.intp], right: NDArray[np.intp], shape: tuple[int, int]
) -> tuple[list[int], list[int]] | None:
    """Left nodes S and all their neighbours N(S) with |N(S)| < |S|, or None when the left side can be saturated.

    S is what alternating paths reach from one left node that a maximum matching leaves free: S without it is
    matched one to one with N(S).
    """
    graph = csr_array((np.ones(len(left), dtype=np.int8), (left, right)), shape=shape)
    mate_of_left = maximum_bipartite_matching(graph, perm_type="column")
    if (mate_of_left >= 0).all():
        return None
    mate_of_right = {int(j): i for i, j in enumerate(mate_of_left) if j >= 0}
    start = int(np.flatnonzero(mate_of_left < 0)[0])
    reached, neighbours, frontier = {start}, set(), [start]
    while frontier:
        i = frontier.pop()
        for j in graph.indices[graph.indptr[i] : graph.indptr[i + 1]].tolist():
            if j not in neighbours:
                neighbours.add(j)
                reached.add(mate_of_right[j])
                frontier.append(mate_of_right[j])
    return sorted(reached), sorted(neighbours)

"""Single exchanges: the ways to turn one answer into another that cannot be split into smaller ones.

    z' - z = y_1 + ... + y_m   with every z + y_j an answer, so that  y @ theta > 0 for some y_j  wherever z' beats z

Hence they hold all facets of the cone of z. Routes exchange one stretch for a detour, matchings shift along one
alternating cycle, or along a path that ends at a free node. They are listed where they are few.

How many ways there are to mistake a route, where the graph has cycles.

Let z* be the best route and z_hat a longer one, theta >= 0. z* runs from node to node of z_hat; its steps forward cover
z_hat, and one of them, from u to w say, is shorter than the stretch of z_hat that it spans. A mistake is this stretch:

    u before w on z*,   a way from u to w that takes another edge than z* first, and turns back nowhere.

Ways from u to w are weighted by the probability that a random walk takes them which never goes straight back. No way is
the beginning of another one, so that together they weigh at most 1, and all of them at most m (m - 1) / 2 for a best
route with m nodes.

How many subsets there are, and how many ways to be wrong about the best one: for groups and for matroids.
"""

from __future__ import annotations

from math import expm1, log, log1p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles.base import Array, Confusions, Sparse
from combopeps.oracles.graph import RouteNetwork

Index = NDArray[np.integer[Any]]
_STEPS = 64  # arcs tried, and arcs written down, for every exchange that may be listed


class _Walks:
    """Simple walks in a graph whose arcs are grouped by the node they leave, while they are few."""

    def __init__(self, indptr: Index, ends: Index, most: int) -> None:
        self.indptr, self.ends = indptr, ends
        self.role = np.full(len(indptr) - 1, 2, dtype=np.int8)  # 0: may be passed, 1: ends a walk, 2: is avoided
        self._ptr, self._last = np.zeros(most + 1, dtype=np.int64), np.empty(most, dtype=np.int64)
        self._arcs = np.empty(_STEPS * most, dtype=np.int64)
        self._steps, self.count = _STEPS * most + len(ends), 0

    def from_node(self, start: int) -> bool:
        """Add those from one node; False when they are too many."""
        from combopeps.oracles._graph_kernels import simple_walks

        self.count, steps = simple_walks(
            start, self.indptr, self.ends, self.role, self._steps, self._ptr, self._arcs, self._last, self.count
        )
        self._steps -= steps
        return self.count >= 0

    @property
    def arcs(self) -> tuple[Index, Index]:
        """The arcs of all walks, and the walk that each belongs to."""
        lengths = np.diff(self._ptr[: self.count + 1])
        return self._arcs[: self._ptr[self.count]], np.repeat(np.arange(self.count), lengths)

    @property
    def last(self) -> Index:
        """The node that each walk ends in."""
        return self._last[: self.count]


def detours(network: RouteNetwork, z: Array, unit: float, most: int) -> Sparse | None:
    """Detours that leave the route z once and come back further on; None when there are more than `most`.

    With cycles they are all that is needed for theta >= 0: whatever else a better route does, its steps forward cover
    the whole route, and one of them is shorter than the stretch it replaces.
    """
    used = z[network.component] != 0.0
    # Arcs are grouped by the node they enter on an acyclic graph: there detours are walked backwards.
    near, far = (network.heads, network.tails) if network.acyclic else (network.tails, network.heads)
    free = np.flatnonzero(~used)
    indptr = np.searchsorted(near[free], np.arange(network.size + 1))
    stretch, route = _along(network, np.flatnonzero(used))
    walks = _Walks(indptr, far[free], most)
    walks.role[:] = 0
    walks.role[route] = 1
    starts = []
    for position in range(len(route)) if not network.acyclic else range(len(route) - 1, -1, -1):
        walks.role[route[position]] = 2  # those walked already lie behind
        before = walks.count
        if not walks.from_node(int(route[position])):
            return None
        starts.append(np.full(walks.count - before, position))
    place = np.zeros(network.size, dtype=np.int64)
    place[route] = np.arange(len(route))
    ends, begins = place[walks.last], np.concatenate(starts)
    low, high = np.minimum(begins, ends), np.maximum(begins, ends)
    arcs, walk = walks.arcs
    length = high - low
    replaced = np.repeat(low - np.cumsum(length) + length, length) + np.arange(length.sum())
    minus = stretch[replaced], np.repeat(np.arange(walks.count), length)
    return _rows((network.component[free[arcs]], walk), minus, unit, (walks.count, len(z)))


def _along(network: RouteNetwork, arcs: Index) -> tuple[Index, Index]:
    """The components of a route in order, and its nodes."""
    onward: dict[int, list[int]] = {}
    for arc in arcs.tolist():
        onward.setdefault(int(network.tails[arc]), []).append(arc)
    nodes, stretch = [0], []
    while nodes[-1] != network.size - 1:
        # In an undirected graph one of the arcs at a node leads back.
        arc = next(a for a in onward[nodes[-1]] if len(nodes) < 2 or network.heads[a] != nodes[-2])
        stretch.append(int(network.component[arc]))
        nodes.append(int(network.heads[arc]))
    return np.array(stretch), np.array(nodes)


def alternating(left_of: Index, right_of: Index, z: Array, unit: float, most: int) -> Sparse | None:
    """Alternating cycles through a matching, and alternating paths that end at a free right node.

    None when there are more than `most`. Edges are sorted by their left nodes.
    """
    n, m = int(left_of.max()) + 1, int(right_of.max()) + 1
    chosen = np.flatnonzero(z)
    owner = np.full(m, -1)
    owner[right_of[chosen]] = left_of[chosen]
    own = np.empty(n, dtype=np.int64)
    own[left_of[chosen]] = chosen
    spare = np.flatnonzero(z == 0.0)
    # Node i < n stands for a left node that gives its mate away, node n for a free right node: who is pushed out next?
    ends = np.where(owner[right_of[spare]] >= 0, owner[right_of[spare]], n)
    indptr = np.append(np.searchsorted(left_of[spare], np.arange(n + 1)), len(spare))
    walks = _Walks(indptr, ends, most)
    for ends_free in (False, True):
        walks.role[:n], walks.role[n] = 0, int(ends_free) or 2
        for start in range(n if not ends_free or len(chosen) < m else 0):
            walks.role[start] = 2 if ends_free else 1
            if not walks.from_node(start):
                return None
            walks.role[start] = 0 if ends_free else 2  # cycles are walked from their first node only
    arcs, walk = walks.arcs
    return _rows((spare[arcs], walk), (own[left_of[spare[arcs]]], walk), unit, (walks.count, len(z)))


def _rows(plus: tuple[Index, Index], minus: tuple[Index, Index], unit: float, shape: tuple[int, int]) -> Sparse:
    from scipy.sparse import csr_array

    columns, rows = (np.concatenate(pair) for pair in zip(plus, minus, strict=True))
    signs = np.repeat([unit, -unit], [len(plus[0]), len(minus[0])])
    return csr_array((signs, (rows, columns)), shape=shape)


def cyclic_confusions(network: RouteNetwork, dim: int, *, directed: bool, whole: bool) -> Confusions:
    """Stretches, or with `whole` all other routes.

    These follow z*, or leave it, at each of its nodes: at most 2 (m - 1) times; without directions they may follow it
    backwards, too.
    """
    charge = np.zeros(dim)
    np.maximum.at(charge, network.component, _log_choices(network)[network.tails])
    m = network.size
    log_count = (m - 1) * log(2.0 if directed else 3.0) if whole else log(0.5 * m * (m - 1))
    return Confusions(log_count, charge)


def _log_choices(network: RouteNetwork) -> Array:
    """ln of the ways on from each node: one less than there are where every way in is also a way out."""
    n = network.size
    tails, heads = network.tails.astype(np.int64), network.heads.astype(np.int64)
    two_way = np.isin(heads * n + tails, tails * n + heads)  # the arc has a twin the other way
    choices = np.bincount(tails, minlength=n)
    returns = np.ones(n, dtype=bool)
    returns[heads[~two_way]] = False
    return np.asarray(np.log(np.maximum(choices - returns, 1)))


Counts = NDArray[np.int64]


def log_choices(n: int, k: int, *, exactly: bool) -> float:
    """ln C(n, k), or ln of the sum of C(n, i) over i <= k.

    Examples
    --------
    >>> [round(np.exp(log_choices(5, 3, exactly=exactly))) for exactly in (True, False)]
    [10, 26]
    """
    last = min(k, n - k) if exactly else k
    i = np.arange(1, last + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log((n - i + 1) / i))])
    return float(logs[-1] if exactly else np.logaddexp.reduce(logs))


def neighbour_count(sizes: Counts, quotas: Counts, *, exactly: bool) -> int:
    """No answer has more neighbours: k (n - k) swaps in a group, and where fewer will do k removals too.

    A group with room for more has fewer, its n removals and additions: n <= k (n - k + 1) for 1 <= k <= n.
    """
    return int((quotas * (sizes - quotas + (not exactly))).sum())


def swap_confusions(
    sizes: Counts, quotas: Counts, dim: int, log_size: float, *, exactly: bool, whole: bool
) -> Confusions:
    """Mistakes about the best choice of `quotas` out of `sizes`, group by group (a matroid is one group).

    One by one they are the neighbours of the best answer. As for whole answers, m_g wrong components in each group g
    are at most prod p_g^m_g / m_g!^2 ways, p_g = k_g (n_g - k_g), P = sum p_g:

        sum_m prod (p_g / P)^m_g / m_g!^2 = prod I0(2 sqrt(p_g / P)) <= e   at a charge of ln P.

    Where fewer will do, any part of the best answer may be missing without one wrong component: 2^K for K = sum k_g,
    times (1 + x)^(d - K) for those added at a charge of -ln x. All other answers alike may be fewer than that.
    """
    if not whole:
        return Confusions(log(max(neighbour_count(sizes, quotas, exactly=exactly), 1)), np.zeros(dim))
    free = sizes - quotas
    if exactly:
        pairs = quotas * free
        total = max(int(pairs.sum()), 1)
        count = expm1(float(np.log(np.i0(2.0 * np.sqrt(pairs / total))).sum()))
        return Confusions(log(max(count, 1e-300)), np.full(dim, log(total)))
    others = max(int(free.sum()), 1)
    everyone = float(quotas.sum()) * log(2.0) + free.sum() * log1p(1.0 / others)
    charged = Confusions(everyone + log(-expm1(-everyone)), np.full(dim, log(others)))
    alike = Confusions.of_all_others(log_size, dim)
    return min(charged, alike, key=lambda found: found.log_count + found.charge[0])

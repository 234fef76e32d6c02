"""Elementary exchanges between answers, and weighted counts of mistakes (`Confusions`) for union bounds.

**Exchanges.** The difference of two answers is a sum of elementary exchanges,

    z' - z = y_1 + ... + y_m   with every z + y_j an answer, so that  y_j @ theta > 0 for some j  if z' is better than z

Hence the elementary exchanges at z include all facets of the cone of z. A route replaces one stretch by a detour; a
matching shifts along one alternating cycle, or along an alternating path that ends at a free node. `detours` and
`alternating_exchanges` list them if there are few.

**Mistakes about a route in a graph with cycles** (`cyclic_confusions`). Let z* be the shortest route, z_hat a longer
one, and theta >= 0. z* visits some nodes of z_hat; its moves forward along z_hat cover z_hat, and one of them, say from
u to w, is shorter than the stretch of z_hat that it spans. A mistake is this stretch of z_hat:

    u before w on z*,   a walk from u to w that does not start with the edge of z*, and never reverses immediately.

Walks from u to w are weighted by the probability that a non-backtracking random walk follows them. No walk is a prefix
of another one, so that their weights add up to at most 1, and those of all pairs to at most m (m - 1) / 2 for a
shortest route with m nodes.

**Mistakes about a best subset** (`swap_confusions`), for partition matroids and general matroids.
"""

from __future__ import annotations

from math import expm1, log, log1p
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles.base import Array, Confusions, Sparse

if TYPE_CHECKING:
    from combopeps.oracles.graph_arrays import RouteNetwork  # at run time it would import networkx with every oracle

Index = NDArray[np.integer[Any]]
Counts = NDArray[np.int64]

_STEPS_PER_WALK = 64  # arcs tried, and arcs stored, per exchange that may be listed
_PASS, _END, _AVOID = 0, 1, 2  # roles of nodes: a walk may pass, ends there, or never enters


class _SimpleWalks:
    """Simple walks in a graph whose arcs are grouped by tail, collected until there are more than `limit`."""

    def __init__(self, indptr: Index, heads: Index, limit: int) -> None:
        self.indptr, self.heads = indptr, heads
        self.role = np.full(len(indptr) - 1, _AVOID, dtype=np.int8)
        self._ptr, self._last = np.zeros(limit + 1, dtype=np.int64), np.empty(limit, dtype=np.int64)
        self._arcs = np.empty(_STEPS_PER_WALK * limit, dtype=np.int64)
        self._steps_left, self.count = _STEPS_PER_WALK * limit + len(heads), 0

    def add_from(self, start: int) -> bool:
        """Add the walks from one node; return False if there are too many."""
        from combopeps.oracles._graph_kernels import simple_walks

        self.count, steps = simple_walks(
            start, self.indptr, self.heads, self.role, self._steps_left, self._ptr, self._arcs, self._last, self.count
        )
        self._steps_left -= steps
        return self.count >= 0

    @property
    def arcs(self) -> tuple[Index, Index]:
        """The arcs of all walks, and the index of the walk of each arc."""
        lengths = np.diff(self._ptr[: self.count + 1])
        return self._arcs[: self._ptr[self.count]], np.repeat(np.arange(self.count), lengths)

    @property
    def last(self) -> Index:
        """The last node of each walk."""
        return self._last[: self.count]


def detours(network: RouteNetwork, z: Array, unit: float, limit: int) -> Sparse | None:
    """List the detours that leave the route z once and rejoin it later; None if there are more than `limit`.

    On a graph with cycles and for theta >= 0 these suffice: the moves forward of a shorter route cover z, and one of
    them is shorter than the stretch that it replaces.
    """
    used = z[network.component] != 0.0
    # Arcs of an acyclic graph are grouped by head: there, detours are walked backwards.
    near, far = (network.heads, network.tails) if network.acyclic else (network.tails, network.heads)
    free = np.flatnonzero(~used)
    indptr = np.searchsorted(near[free], np.arange(network.size + 1))
    stretch, route = _order_route(network, np.flatnonzero(used))
    walks = _SimpleWalks(indptr, far[free], limit)
    walks.role[:] = _PASS
    walks.role[route] = _END
    starts = []
    for position in range(len(route)) if not network.acyclic else range(len(route) - 1, -1, -1):
        walks.role[route[position]] = _AVOID  # later walks must not end at nodes before their start
        before = walks.count
        if not walks.add_from(int(route[position])):
            return None
        starts.append(np.full(walks.count - before, position))
    position_of = np.zeros(network.size, dtype=np.int64)
    position_of[route] = np.arange(len(route))
    last, first = position_of[walks.last], np.concatenate(starts)
    low, high = np.minimum(first, last), np.maximum(first, last)
    arcs, walk = walks.arcs
    length = high - low
    # The ranges low : high of all walks, one after the other, without a loop.
    replaced = np.repeat(low - np.cumsum(length) + length, length) + np.arange(length.sum())
    removed = stretch[replaced], np.repeat(np.arange(walks.count), length)
    return _exchange_rows((network.component[free[arcs]], walk), removed, unit, (walks.count, len(z)))


def _order_route(network: RouteNetwork, arcs: Index) -> tuple[Index, Index]:
    """Return the components and the nodes of a route in order."""
    leaving: dict[int, list[int]] = {}
    for arc in arcs.tolist():
        leaving.setdefault(int(network.tails[arc]), []).append(arc)
    nodes, components = [0], []
    while nodes[-1] != network.size - 1:
        # In an undirected graph, one of the arcs at a node leads back.
        arc = next(a for a in leaving[nodes[-1]] if len(nodes) < 2 or network.heads[a] != nodes[-2])
        components.append(int(network.component[arc]))
        nodes.append(int(network.heads[arc]))
    return np.array(components), np.array(nodes)


def alternating_exchanges(left_of: Index, right_of: Index, z: Array, unit: float, limit: int) -> Sparse | None:
    """List the alternating cycles of a matching, and the alternating paths that end at a free right node.

    None if there are more than `limit`. Edges are sorted by their left nodes.
    """
    n, m = int(left_of.max()) + 1, int(right_of.max()) + 1
    chosen = np.flatnonzero(z)
    owner = np.full(m, -1)
    owner[right_of[chosen]] = left_of[chosen]
    own = np.empty(n, dtype=np.int64)
    own[left_of[chosen]] = chosen
    spare = np.flatnonzero(z == 0.0)
    # Walks run on left nodes 0 .. n-1: an unused edge leads to the left node that is matched to its right end, or to
    # node n, which stands for all free right nodes.
    heads = np.where(owner[right_of[spare]] >= 0, owner[right_of[spare]], n)
    indptr = np.append(np.searchsorted(left_of[spare], np.arange(n + 1)), len(spare))
    walks = _SimpleWalks(indptr, heads, limit)
    for ends_free in (False, True):
        walks.role[:n], walks.role[n] = _PASS, _END if ends_free else _AVOID
        for start in range(n if not ends_free or len(chosen) < m else 0):
            walks.role[start] = _AVOID if ends_free else _END
            if not walks.add_from(start):
                return None
            walks.role[start] = _PASS if ends_free else _AVOID  # a cycle is listed from its first node only
    arcs, walk = walks.arcs
    return _exchange_rows((spare[arcs], walk), (own[left_of[spare[arcs]]], walk), unit, (walks.count, len(z)))


def _exchange_rows(
    added: tuple[Index, Index], removed: tuple[Index, Index], unit: float, shape: tuple[int, int]
) -> Sparse:
    """Return rows with entries `unit` at added and -`unit` at removed components, given as (component, row)."""
    from scipy.sparse import csr_array

    columns, rows = (np.concatenate(pair) for pair in zip(added, removed, strict=True))
    signs = np.repeat([unit, -unit], [len(added[0]), len(removed[0])])
    return csr_array((signs, (rows, columns)), shape=shape)


def cyclic_confusions(network: RouteNetwork, dim: int, *, directed: bool, whole: bool) -> Confusions:
    """Count mistaken stretches of routes in a graph with cycles or, with `whole`, all other routes.

    At each of the m - 1 nodes of z* before the target, a route follows z* or leaves it: 2^(m - 1) combinations. In an
    undirected graph it may also follow z* backwards: 3^(m - 1).
    """
    charge = np.zeros(dim)
    np.maximum.at(charge, network.component, _log_out_degrees(network)[network.tails])
    m = network.size
    log_count = (m - 1) * log(2.0 if directed else 3.0) if whole else log(0.5 * m * (m - 1))
    return Confusions(log_count, charge)


def _log_out_degrees(network: RouteNetwork) -> Array:
    """Return ln of the number of continuations at each node of a walk that never reverses immediately.

    The out-degree; one less at nodes whose incoming arcs all have a reverse arc.
    """
    n = network.size
    tails, heads = network.tails.astype(np.int64), network.heads.astype(np.int64)
    has_reverse = np.isin(heads * n + tails, tails * n + heads)
    degree = np.bincount(tails, minlength=n)
    always_reversible = np.ones(n, dtype=bool)
    always_reversible[heads[~has_reverse]] = False
    return np.asarray(np.log(np.maximum(degree - always_reversible, 1)))


def log_choices(n: int, k: int, *, exactly: bool) -> float:
    """Compute ln C(n, k), or ln sum_{i <= k} C(n, i) if not `exactly`.

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
    """Return an upper bound of the number of neighbours of any answer.

    k (n - k) swaps per group and, if not `exactly`, k removals. A group below its quota has fewer neighbours, its n
    removals and additions: n <= k (n - k + 1) for 1 <= k <= n.
    """
    return int((quotas * (sizes - quotas + (not exactly))).sum())


def swap_confusions(
    sizes: Counts, quotas: Counts, dim: int, log_size: float, *, exactly: bool, whole: bool
) -> Confusions:
    """Count mistakes about the best choice of `quotas` out of `sizes`, group by group (a matroid is one group).

    Single mistakes are the neighbours of the best answer. As for whole answers, m_g wrong components in each group g
    can be chosen in at most prod p_g^m_g / m_g!^2 ways, p_g = k_g (n_g - k_g), P = sum p_g:

        sum_m prod (p_g / P)^m_g / m_g!^2 = prod I0(2 sqrt(p_g / P)) <= e   at a charge of ln P.

    If not `exactly`, any part of the best answer may be missing without a wrong component: 2^K for K = sum k_g, times
    (1 + x)^(d - K) for additions at a charge of -ln x. The count of all other answers is used if it is smaller.
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
    log_total = float(quotas.sum()) * log(2.0) + free.sum() * log1p(1.0 / others)
    charged = Confusions(log_total + log(-expm1(-log_total)), np.full(dim, log(others)))
    uncharged = Confusions.of_all_others(log_size, dim)
    return min(charged, uncharged, key=lambda found: found.log_count + found.charge[0])

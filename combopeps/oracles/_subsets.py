"""How many subsets there are, and how many ways to be wrong about the best one: for groups and for matroids."""

from __future__ import annotations

from math import expm1, log, log1p

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles.base import Confusions

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

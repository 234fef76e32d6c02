"""How many ways there are to mistake a route, where the graph has cycles.

Let z* be the best route and z_hat a longer one, theta >= 0. z* runs from node to node of z_hat; its steps forward cover
z_hat, and one of them, from u to w say, is shorter than the stretch of z_hat that it spans. A mistake is this stretch:

    u before w on z*,   a way from u to w that takes another edge than z* first, and turns back nowhere.

Ways from u to w are weighted by the probability that a random walk takes them which never goes straight back. No way is
the beginning of another one, so that together they weigh at most 1, and all of them at most m (m - 1) / 2 for a best
route with m nodes.
"""

from __future__ import annotations

from math import log

import numpy as np

from combopeps.oracles._network import RouteNetwork
from combopeps.oracles.base import Array, Confusions


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

"""Compiled: ties between answers are broken inside Theta."""

from __future__ import annotations

import numpy as np

from combopeps.utils.jit import njit


@njit(cache=True, nogil=True)
def broken(theta, tie, low, high):
    """Theta plus the tie breaker, projected on the box, (R, d).

    At a boundary the tie breaker points inwards: projected with the rest, half of it would be lost there.
    """
    out = np.empty(theta.shape)
    for r in range(theta.shape[0]):
        for i in range(theta.shape[1]):
            inside, by = min(max(theta[r, i], low[i]), high[i]), tie[r, i]
            if inside <= low[i]:
                by = abs(by)
            elif inside >= high[i]:
                by = -abs(by)
            out[r, i] = min(max(inside + by, low[i]), high[i])
    return out

"""Where a ray leaves the cone of z_hat, and through which facet.

Along base + s v the alternatives are exactly s > s*. Newton's method on the convex, piecewise linear
h(s) = max_z (z - z_hat) @ (base + s v) comes down from above:

    s <- gap_z / ((z - z_hat) @ v),   z <- argmax(base + s v),   until z no longer beats z_hat.

Started at the exit through a facet that is known already, one oracle call confirms it or finds a nearer one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles.base import ArgmaxOracle, Array, strictly_better

_MAX_STEPS = 100


@dataclass(frozen=True)
class Exits:
    """Per ray: the exit s* (infinite if there is none), the answer beyond it, and whether it is one that was found."""

    s: Array
    answers: Array
    found: NDArray[np.bool_]
    empty: NDArray[np.bool_]
    oracle_calls: int


def ray_exits(
    oracle: ArgmaxOracle, z_hat: Array, base: Array, directions: Array, start: Array, stop: Array | float = -np.inf
) -> Exits:
    """Newton from s = start (infinity allowed) down to the exit, for all rays together, never below `stop`.

    `base` is one point or one per ray. Where z_hat is best nowhere between stop and start, `empty` is set. `found` is
    False where the ray at `start` is still inside the cone.
    """
    n = len(directions)
    s = start.astype(np.float64).copy()
    answers = np.repeat(z_hat[None], n, axis=0)
    found, empty = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    base = np.broadcast_to(base, directions.shape)
    stop = np.broadcast_to(np.asarray(stop, dtype=np.float64), n)
    active = np.arange(n)
    calls = 0
    for _ in range(_MAX_STEPS):
        v, finite = directions[active], np.isfinite(s[active])
        points = np.where(finite[:, None], base[active] + np.where(finite, s[active], 0.0)[:, None] * v, v)
        if oracle.domain == "nonnegative":
            points = np.maximum(points, 0.0)  # the ends of a segment in the orthant, up to rounding
        z = oracle.best_answers(points)
        calls += len(active)
        better = strictly_better(z, z_hat, points)
        active, z, v = active[better], z[better], v[better]
        if not len(active):
            break
        y = z - z_hat
        slope = np.einsum("bd,bd->b", y, v)
        downhill = slope > 0.0
        empty[active[~downhill]] = True
        active, y, slope = active[downhill], y[downhill], slope[downhill]
        answers[active] = z[downhill]
        found[active] = True
        root = -np.einsum("bd,bd->b", y, base[active]) / slope
        floor = stop[active]
        over = root >= s[active]  # rounding: the root can fall no further
        past = root < floor
        rounding = 1e-9 * (1.0 + np.abs(np.where(np.isfinite(floor), floor, 0.0)))
        empty[active[past & (root < floor - rounding)]] = True
        s[active] = np.maximum(np.minimum(s[active], root), floor)
        active = active[~(over | past)]
        if not len(active):
            break
    s[~found & ~np.isfinite(start)] = np.inf
    return Exits(s, answers, found & ~empty, empty, calls)

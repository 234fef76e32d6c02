"""Alpha spending: the division of delta over repeated looks at accumulating data.

A few looks planned in advance (group-sequential boundaries, `boundaries`):

    Z_j = B(t_j) / sqrt(t_j),   P(some Z_j > c_j) = sum_j spend_j   under the null hypothesis

for a Brownian motion B and information fractions t_1 < ... < t_J. c_j is computed from the density of B(t_j) on the
event that no earlier boundary was crossed, which is propagated from look to look on a grid.

Looks at any number t of measurements (`share_at`):

    share(t) = 2^-j / ((j + 1)(j + 2)),   j = floor(log2 t),   sum over t >= 1 of share(t) = 1

The share depends on the number of measurements, not on a counter of looks. A rule needs no state for it, and two looks
at the same data with the same random numbers count as one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import ParameterError
from combopeps.oracles.base import Array

_GRID_POINTS = 401  # odd, for Simpson's rule
_TRUNCATION = 8.0  # standard deviations, beyond which densities are neglected
MIN_DELTA = 1e-100  # the smallest delta: its boundary is at 21 standard deviations, and 0.1^20 of it still a float


def boundaries(fractions: Array, spend: Array) -> Array:
    """Compute the boundaries c_j that are first crossed at look j with probability spend_j."""
    from scipy.special import ndtr, ndtri

    t, alpha = np.asarray(fractions, dtype=float), np.asarray(spend, dtype=float)
    if t.shape != alpha.shape or not (np.diff(t, prepend=0.0) > 0).all() or not (alpha > 0).all() or alpha.sum() >= 1:
        raise ParameterError("fractions must be positive and increase, spend be positive with a sum below 1")
    c = np.empty(len(t))
    c[0] = -ndtri(alpha[0])
    highest = _TRUNCATION - ndtri(alpha.min())  # an upper bound of every c_j
    x, weight = _grid(-_TRUNCATION * np.sqrt(t[0]), c[0] * np.sqrt(t[0]))
    density = _normal_density(x, t[0]) * weight
    for j in range(1, len(t)):
        step = np.sqrt(t[j] - t[j - 1])
        low, high = -_TRUNCATION, highest
        for _ in range(60):
            c[j] = 0.5 * (low + high)
            crossed = float(density @ ndtr((x - c[j] * np.sqrt(t[j])) / step))
            low, high = (c[j], high) if crossed > alpha[j] else (low, c[j])
        y, weight = _grid(-_TRUNCATION * np.sqrt(t[j]), c[j] * np.sqrt(t[j]))
        density = (_normal_density(y[:, None] - x, step**2) @ density) * weight
        x = y
    return c


def _grid(low: float, high: float) -> tuple[Array, Array]:
    """Return grid points and the weights of Simpson's rule."""
    points = np.linspace(low, high, _GRID_POINTS)
    weight = np.full(_GRID_POINTS, 2.0)
    weight[1::2] = 4.0
    weight[[0, -1]] = 1.0
    return points, weight * (high - low) / (3 * (_GRID_POINTS - 1))


def _normal_density(x: Array, variance: float) -> Array:
    return np.asarray(np.exp(-0.5 * x * x / variance) / np.sqrt(2 * np.pi * variance))


def guaranteed_fractions(counts: NDArray[np.int64]) -> Array:
    """Compute information fractions valid for every comparison, from the counts (J, K) of all arms at all looks.

    The estimate of a comparison at look i is correlated with the one at look j by sqrt(I_i / I_j), and I_i / I_j is at
    least the smallest ratio of counts. Lower correlation makes a crossing more probable (Slepian's inequality), so
    boundaries for these fractions hold for every comparison.
    """
    measured = counts[:, counts[-1] > 0].astype(float)
    shrink = (measured[:-1] / measured[1:]).min(axis=1)
    return np.append(np.cumprod(shrink[::-1])[::-1], 1.0)


def share_at(t: int) -> float:
    """Return the share of a look after t measurements.

    Examples
    --------
    >>> [round(share_at(t), 4) for t in (1, 2, 3, 4)]
    [0.5, 0.0833, 0.0833, 0.0208]
    >>> 0.9 < sum(share_at(t) for t in range(1, 4096)) < 1.0
    True
    """
    j = max(int(t), 1).bit_length() - 1
    return 1.0 / (2.0**j * (j + 1) * (j + 2))

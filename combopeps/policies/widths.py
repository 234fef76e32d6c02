"""How uncertain the belief is about every arm: |x|^2_{V^-1}."""

from __future__ import annotations

import numpy as np

from combopeps.belief import DenseBelief, DiagonalBelief, GaussianBelief
from combopeps.oracles.base import Array


def covariance(belief: GaussianBelief) -> Array:
    """V^-1, (R, d, d), or its diagonal (R, d) where that is all there is."""
    if isinstance(belief, DiagonalBelief):
        return belief.variance
    assert isinstance(belief, DenseBelief)
    return np.asarray(np.matmul(belief.L, np.swapaxes(belief.L, 1, 2)))


def arm_widths(belief: GaussianBelief) -> Array:
    """|x|^2_{V^-1} of every arm, (R, K)."""
    arms = belief.arms
    if isinstance(belief, DiagonalBelief):
        return np.asarray(belief.variance[:, arms.component] * arms.coefficient**2)
    assert isinstance(belief, DenseBelief)
    assert arms.matrix is not None
    half = np.matmul(arms.matrix, belief.L)
    return np.asarray(np.einsum("rkd,rkd->rk", half, half))

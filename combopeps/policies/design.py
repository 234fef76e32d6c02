"""The G-optimal design.

    lam_G = argmin_lam max_x x' A(lam)^-1 x,   A(lam) = sum_x lam_x x x'

By the equivalence theorem of Kiefer and Wolfowitz the optimal value is the rank of the arms (d when they span R^d), so
that max_x x' A(lam)^-1 x / rank - 1 is a certified relative gap.
"""

from __future__ import annotations

import numpy as np

from combopeps.errors import ParameterError
from combopeps.oracles.base import Array
from combopeps.posterior.arms import Arms
from combopeps.utils.validation import as_reals, check_integer, check_positive


def g_optimal(arms: Arms | Array, *, gap: float = 1e-3, max_steps: int = 100_000) -> Array:
    """A design within the relative `gap` of the G-optimal one, by Frank-Wolfe steps with away steps.

    Examples
    --------
    >>> g_optimal(np.eye(4))
    array([0.25, 0.25, 0.25, 0.25])
    """
    if not isinstance(arms, Arms):
        arms = Arms(as_reals("arms", arms))
    check_positive("gap", gap)
    check_integer("max_steps", max_steps)
    if arms.matrix is None:
        return _unit_design(arms)
    X = _reduced(arms.matrix)
    K, rank = X.shape
    lam = np.full(K, 1.0 / K)
    for step in range(max_steps):
        if step % 256 == 0:
            inverse = np.linalg.inv(X.T @ (lam[:, None] * X))
        width = np.einsum("kd,de,ke->k", X, inverse, X)
        best = int(width.argmax())
        if width[best] <= rank * (1.0 + gap):
            return lam
        support = np.flatnonzero(lam)
        worst = int(support[width[support].argmin()])
        if width[best] - rank >= rank - width[worst]:
            chosen, move = best, (width[best] / rank - 1.0) / (width[best] - 1.0)
        else:  # an away step, at most until the arm is gone
            limit = lam[worst] / (1.0 - lam[worst]) if lam[worst] < 1.0 else 0.0
            ideal = (1.0 - width[worst] / rank) / (width[worst] - 1.0) if width[worst] > 1.0 else np.inf
            chosen, move = worst, -min(limit, ideal)
        lam *= 1.0 - move
        lam[chosen] = max(0.0, lam[chosen] + move)
        x = inverse @ X[chosen] / (1.0 - move)
        inverse = inverse / (1.0 - move) - np.outer(x, x) * move / (1.0 + move * float(X[chosen] @ x))
    raise ParameterError(f"no design within {gap:g} of the optimum in {max_steps} steps; allow a larger gap")


def _unit_design(arms: Arms) -> Array:
    """One arm per component, the one with the largest coefficient: uniform over components."""
    gain, arm_of = arms.strongest
    chosen = arm_of[gain > 0.0]
    lam = np.zeros(len(arms))
    lam[chosen] = 1.0 / len(chosen)
    return lam


def _reduced(matrix: Array) -> Array:
    """Coordinates of the arms in their own span."""
    u, singular, _ = np.linalg.svd(matrix, full_matrices=False)
    kept = singular > singular[0] * max(matrix.shape) * np.finfo(float).eps
    return np.asarray(u[:, kept] * singular[kept])

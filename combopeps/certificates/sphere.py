"""A randomised certificate of the GLR statistic: any Z, any covariance, a handful of argmax calls.

If some answer were best within distance sqrt(2 beta) of the estimate, the points where it is would fill a cap of every
sphere around it. Let c solve P(u_1 >= c) = 1 - nu^(1/n) for u uniform on the unit sphere. If z_hat is best at

    theta + sqrt(2 beta)/c L u   for n independent u,   then GLR > beta, except with probability nu.

The sphere lies in the smallest subspace known to hold all L'(z - z_hat).
"""

from __future__ import annotations

from math import ceil, log, sqrt

import numpy as np

from combopeps.belief import Normal
from combopeps.certificates.lagrangian import Bound
from combopeps.errors import ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array


def sphere_test(
    oracle: ArgmaxOracle,
    z_hat: Array,
    estimate: Normal,
    beta: float,
    nu: float,
    rng: np.random.Generator,
    *,
    directions: int = 256,
    epsilon: float = 0.0,
) -> Bound:
    """GLR > beta? A bound of beta, or of 0; wrongly beta with probability at most nu."""
    if not (0 < nu < 1 and beta > 0 and directions >= 1):
        raise ParameterError(f"nu must lie in (0, 1), beta be positive, directions at least 1, got {nu}, {beta}")
    if oracle.domain != "real":
        raise ParameterError(
            f"{oracle!r} takes theta >= 0 only: the sphere test leaves that set; use stopping='posterior'"
        )
    n = max(directions, ceil(log(1 / nu) / log(2)) + 1)
    basis = _basis(oracle, estimate)
    if basis.shape[1] == 0:
        return Bound(np.inf, 0, np.zeros((0, len(z_hat))))
    u = rng.standard_normal((n, basis.shape[1]))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    radius = sqrt(2 * beta) / cap_height(basis.shape[1], 1 - nu ** (1 / n))
    thetas = estimate.theta + radius * u @ basis.T
    answers = oracle.argmax(thetas)
    y = answers - z_hat
    rounding = 1e-13 * np.einsum("nd,nd->n", np.abs(y), np.abs(thetas))
    beaten = y.any(axis=1) & (np.einsum("nd,nd->n", y, thetas) >= epsilon - rounding)
    return Bound(0.0 if beaten.any() else beta, n, y[beaten])


def cap_height(dim: int, share: float) -> float:
    """c with P(u_1 >= c) = share <= 1/2 for u uniform on the unit sphere of R^dim."""
    from scipy.stats import beta as beta_law

    if dim == 1:
        return 1.0
    return float(np.sqrt(beta_law.isf(2.0 * share, 0.5, 0.5 * (dim - 1))))


def _basis(oracle: ArgmaxOracle, estimate: Normal) -> Array:
    """L Q, Q an orthonormal basis of a space that holds L' (z - z_hat) for all z."""
    from scipy.linalg import null_space, orth

    root, known = estimate.root, oracle.equalities()
    if known is None:
        return root
    return np.asarray(root @ orth(root.T @ null_space(known.toarray())))

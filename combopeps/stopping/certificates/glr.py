"""Certified lower bounds of the GLR statistic.

    GLR = min_{z != z_hat} (gap_z + epsilon)^2 / (2 |z - z_hat|^2_{G^-1})

`glr_bound` uses the first of these methods that applies:

1. Rivals listed by the oracle (an explicit Z, the facets of a top-k set): the minimum is exact.
2. Arms that measure one component each and 0/1 answers: Lagrangian duality, with a few oracle calls per component.
3. `sphere_test`, for any Z and any covariance: a randomised test with a stated error probability nu.

The sphere test: if another answer is better than z_hat somewhere within distance sqrt(2 beta) of the estimate, the
points where it is better fill a cap of every larger sphere. Let c solve P(u_1 >= c) = 1 - nu^(1/n) for u uniform on the
unit sphere. If z_hat is best at

    theta + sqrt(2 beta)/c L u   for n independent u,   then GLR > beta, except with probability nu.

The sphere lies in the smallest subspace known to contain all L'(z - z_hat).

`require_identifiability` proves that no two answers differ in a direction that no arm measures, or raises. The check in
`Problem` is by sampling, on which no guarantee may rest.
"""

from __future__ import annotations

from math import ceil, exp, log, sqrt

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import IdentifiabilityError, ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array, Sparse, as_sparse
from combopeps.oracles.constrained_argmax import can_constrain, constrained_argmax
from combopeps.posterior.arms import Arms
from combopeps.posterior.gaussian import Normal
from combopeps.stopping.certificates.lagrangian import Bound, Gaussian, lagrangian_bound

_MAX_LISTED_ROWS = 200_000
_MAX_SEARCHED_FACETS = 4096  # of z_hat, where the oracle has to search for them
_MAX_RIVALS = 512  # returned in a `Bound`: the closest ones
_BLIND_TOLERANCE = 1e-9


def glr_bound(
    oracle: ArgmaxOracle,
    z_hat: Array,
    estimate: Normal,
    *,
    target: float,
    nu: float = 1e-3,
    rng: np.random.Generator | None = None,
    epsilon: float = 0.0,
) -> Bound:
    """Compute a lower bound of the GLR statistic, tight enough to decide whether it exceeds `target`.

    Only the sphere test uses `nu` and `rng`.
    """
    rows = listed_rows(oracle, z_hat, epsilon)
    if rows is not None:
        values = glr_values(rows, estimate, epsilon)
        return Bound(float(values.min()), 0, closest(rows, values))
    if estimate.is_diagonal and can_constrain(oracle):
        penalty = Gaussian(estimate.spread)
        found = lagrangian_bound(oracle, z_hat, estimate.theta, penalty, target=target, epsilon=epsilon)
        return Bound(max(found.value, 0.0), found.oracle_calls, found.rivals)
    return sphere_test(oracle, z_hat, estimate, target, nu, np.random.default_rng(rng), epsilon=epsilon)


def is_randomised(oracle: ArgmaxOracle, z_hat: Array, unit_arms: bool, epsilon: float) -> bool:
    """Return whether `glr_bound` uses the sphere test."""
    return listed_rows(oracle, z_hat, epsilon) is None and not (unit_arms and can_constrain(oracle))


def listed_rows(oracle: ArgmaxOracle, z_hat: Array, epsilon: float = 0.0) -> Sparse | None:
    """Return the rivals that the oracle lists, as rows: facets, or all other answers if epsilon > 0; else None."""
    count = oracle.facet_count
    if count is None or not 0 < count <= _MAX_LISTED_ROWS:
        return None
    size = oracle.log_cardinality
    n_others = round(exp(size)) - 1 if size is not None and size.exact and size < 20 else -1
    if epsilon > 0 and not 0 < n_others <= count:
        return None
    facets = oracle.facets(z_hat)
    is_complete = facets is not None and facets.shape[0] == n_others
    return None if facets is None or (epsilon > 0 and not is_complete) else as_sparse(facets)


def rival_rows(oracle: ArgmaxOracle, z_hat: Array, epsilon: float = 0.0) -> Sparse | None:
    """Return the rivals as `listed_rows`, or the facets of z_hat if a search finds that there are few of them."""
    rows = listed_rows(oracle, z_hat, epsilon)
    if rows is not None or epsilon > 0.0:
        return rows
    facets = oracle.facets_up_to(z_hat, _MAX_SEARCHED_FACETS)
    return None if facets is None or facets.shape[0] == 0 else as_sparse(facets)


def other_answers(answers: Sparse, z_hat: Array) -> Sparse | None:
    """Return the rows z - z_hat of all answers but z_hat, given all answers; None if there are none."""
    from scipy.sparse import csr_array

    y = csr_array(answers - as_sparse(z_hat[None])[np.zeros(answers.shape[0], dtype=np.intp)])
    y.eliminate_zeros()
    rows = y[np.diff(y.indptr) > 0]
    return rows if rows.shape[0] else None


def glr_values(rows: Sparse, estimate: Normal, epsilon: float) -> Array:
    """Compute (gap_z + epsilon)_+^2 / (2 |y|^2) of every row."""
    gaps = np.maximum(estimate.gaps(rows) + epsilon, 0.0)
    widths = estimate.quadratic(rows)
    known = np.where(widths > 0, 0.5 * gaps**2 / np.where(widths > 0, widths, 1.0), np.inf)
    return np.asarray(np.where((widths > 0) | (gaps > 0), known, 0.0))


def closest(rows: Sparse, values: Array) -> Array:
    """Return the rows with the smallest values, as dense vectors."""
    return np.asarray(rows[np.argsort(values)[:_MAX_RIVALS]].toarray())


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
    """Return the bound beta or 0 of the GLR statistic; beta is wrong with probability at most nu."""
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
    """Compute c with P(u_1 >= c) = share <= 1/2 for u uniform on the unit sphere of R^dim."""
    from scipy.special import betainccinv

    if dim == 1:
        return 1.0
    return float(np.sqrt(betainccinv(0.5, 0.5 * (dim - 1), 2.0 * share)))


def _basis(oracle: ArgmaxOracle, estimate: Normal) -> Array:
    """Return L Q, where Q is an orthonormal basis of a space that contains L' (z - z_hat) for all z."""
    from scipy.linalg import null_space, orth

    root, known = estimate.root, oracle.equalities()
    if known is None:
        return root
    return np.asarray(root @ orth(root.T @ null_space(known.toarray())))


def require_identifiability(oracle: ArgmaxOracle, arms: Arms, z_hat: Array, epsilon: float) -> None:
    """Raise unless every difference between answers lies in the span of the arms and some certificate applies.

    Raises
    ------
    IdentifiabilityError
        If answers may differ in a direction that no arm measures.
    ParameterError
        If no certificate applies to this oracle with these arms.
    """
    if is_randomised(oracle, z_hat, arms.are_units, epsilon) and oracle.domain != "real":
        raise ParameterError(
            f"{oracle!r} takes theta >= 0 only and has no certificate with these arms: use stopping='posterior'"
        )
    rows = listed_rows(oracle, z_hat)
    if rows is not None and arms.are_units:  # without dense rows, of which there may be many
        unseen = np.setdiff1d(rows.indices, arms.component)
        _refuse_blind(_units(unseen[:1], oracle.dim))
    elif rows is not None:
        _refuse_blind(arms.blind(rows.toarray()))
    elif arms.are_units:
        _refuse_unmeasured(oracle, arms)
    else:
        from scipy.linalg import null_space

        known = oracle.equalities()
        _refuse_blind(arms.blind(np.eye(oracle.dim) if known is None else null_space(known.toarray()).T))


def _units(component: NDArray[np.intp], dim: int) -> Array:
    """Return the unit vectors of these components."""
    directions = np.zeros((np.size(component), dim))
    directions[np.arange(len(directions)), component] = 1.0
    return directions


def _refuse_blind(blind: Array) -> None:
    """Raise if a row, the part of a direction outside the span of the arms, is not zero."""
    size = np.abs(blind).max(axis=1, initial=0.0)
    if size.max(initial=0.0) > _BLIND_TOLERANCE:
        worst = blind[size.argmax()]
        raise IdentifiabilityError(
            "answers may differ where no arm measures: nothing can be guaranteed; add an arm with a component along "
            "the attribute `direction`",
            worst / np.linalg.norm(worst),
        )


def _refuse_unmeasured(oracle: ArgmaxOracle, arms: Arms) -> None:
    """Raise unless every unmeasured component is in all answers or in none, found by forcing it in and out."""
    unseen = np.setdiff1d(np.arange(oracle.dim), arms.component)
    if len(unseen) == 0:
        return
    if not can_constrain(oracle) or oracle.domain != "real":
        raise ParameterError("with this oracle a guarantee needs an arm for every component; leave arms= out")
    for component in unseen:
        direction = _units(component, oracle.dim)[0]
        inside, outside = constrained_argmax(
            oracle, np.zeros(oracle.dim), np.stack([direction, -direction]).astype(np.int8)
        ).answers
        if inside[component] != outside[component]:
            raise IdentifiabilityError(
                f"some answers hold component {oracle.components[component]!r} and some do not, but no arm measures "
                "it: nothing can be guaranteed; add an arm for it",
                direction,
            )

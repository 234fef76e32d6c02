"""Before anything is certified: is there a certificate, and can the arms tell all answers apart?

`Problem` looks for answers that the arms cannot tell apart, by probing. A guarantee must not rest on that: here it is
proved that no two answers differ where nothing is measured, or the rule refuses.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from combopeps.belief import Arms
from combopeps.certificates.glr import is_randomised, listed_rows
from combopeps.errors import ParameterError, ReachError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.oracles.forcing import can_force, force

_TINY = 1e-9


def require_reach(oracle: ArgmaxOracle, arms: Arms, z_hat: Array, epsilon: float) -> None:
    """Raise unless every difference of answers lies in the span of the arms, and a certificate exists."""
    if is_randomised(oracle, z_hat, arms.are_units, epsilon) and oracle.domain != "real":
        raise ParameterError(
            f"{oracle!r} takes theta >= 0 only and has no certificate with these arms: use stopping='posterior'"
        )
    rows = listed_rows(oracle, z_hat)
    if rows is not None and arms.are_units:  # no need for full rows, of which there may be many
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
    """The unit vectors of these components."""
    directions = np.zeros((np.size(component), dim))
    directions[np.arange(len(directions)), component] = 1.0
    return directions


def _refuse_blind(blind: Array) -> None:
    size = np.abs(blind).max(axis=1, initial=0.0)
    if size.max(initial=0.0) > _TINY:
        worst = blind[size.argmax()]
        raise ReachError(
            "answers may differ where no arm measures: nothing can be guaranteed; add an arm with a component along "
            "the attribute `direction`",
            worst / np.linalg.norm(worst),
        )


def _refuse_unmeasured(oracle: ArgmaxOracle, arms: Arms) -> None:
    """Force every unmeasured component in and out: it must be in all answers or in none."""
    unseen = np.setdiff1d(np.arange(oracle.dim), arms.component)
    if len(unseen) == 0:
        return
    if not can_force(oracle) or oracle.domain != "real":
        raise ParameterError("with this oracle a guarantee needs an arm for every component; leave arms= out")
    for component in unseen:
        direction = _units(component, oracle.dim)[0]
        inside, outside = force(oracle, np.zeros(oracle.dim), np.stack([direction, -direction]).astype(np.int8)).answers
        if inside[component] != outside[component]:
            raise ReachError(
                f"some answers hold component {oracle.components[component]!r} and some do not, but no arm measures "
                "it: nothing can be guaranteed; add an arm for it",
                direction,
            )

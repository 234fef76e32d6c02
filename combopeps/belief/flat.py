"""The belief without a prior: N(theta_LS, G^-1)."""

from __future__ import annotations

import numpy as np

from combopeps.belief.base import GaussianBelief
from combopeps.belief.dense import DenseBelief
from combopeps.belief.diagonal import DiagonalBelief
from combopeps.belief.measurements import Measurements


def flat_belief(data: Measurements) -> GaussianBelief | None:
    """What the measurements alone say; None until every direction that some arm sees has been measured.

    Where no arm measures, answers must not differ: there the belief is a point at 0.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> from combopeps.belief import Arms
    >>> data = Measurements(Arms.of(TopKOracle(2, k=1)), 1.0, np.array([2.0, 1.0]), np.array([6.0, 5.0]))
    >>> flat_belief(data).theta_hat
    array([[3., 5.]])
    """
    if not data.complete:
        return None
    belief = GaussianBelief.start(data.arms, noise_std=data.noise_std)
    if isinstance(belief, DiagonalBelief):
        seen = data.information > 0.0
        belief.precision[0] = np.where(seen, data.information, np.inf)
        belief.moment[0] = data.moment
        belief.variance[0] = 1.0 / belief.precision[0]
        belief.theta_hat[0, seen] = data.moment[seen] / data.information[seen]
        return belief
    assert isinstance(belief, DenseBelief)
    values, vectors = np.linalg.eigh(data.information)
    root = data.arms.span.lift @ (vectors / np.sqrt(values))
    belief.L[0] = 0.0
    belief.L[0, :, : root.shape[1]] = root
    belief.theta_hat[0] = data.arms.span.lift @ (vectors @ (vectors.T @ data.moment / values))
    return belief

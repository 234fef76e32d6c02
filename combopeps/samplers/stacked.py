"""Half-spaces for many replications at once, where the oracle lists few facets: one compiled call for all rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from combopeps.belief.base import GaussianBelief
from combopeps.belief.dense import DenseBelief
from combopeps.belief.diagonal import DiagonalBelief
from combopeps.cone.memo import FacetMemo
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.samplers import _stacked

_FACETS, _NUMBERS = 256, 1 << 14  # facets, and facets times d, up to which recomputing everything is cheapest


class StackedHalfSpaces:
    """Closed-form facets of R answers, as one array (R, F, d); rows are renewed when their answer changes.

    Exact on R^d. The same method as `HalfSpaceSampler`, with weights computed anew each time: at this size that is
    cheaper than keeping them up to date.
    """

    def __init__(self, oracle: ArgmaxOracle, replications: int) -> None:
        count = oracle.facet_count
        assert count is not None
        self._facets = FacetMemo(oracle)
        self._answers = np.full((replications, oracle.dim), np.nan)
        self._rows = np.zeros((replications, count, oracle.dim))

    @staticmethod
    def suits(oracle: ArgmaxOracle) -> bool:
        """Is the list of facets short enough?"""
        count = oracle.facet_count
        return count is not None and 0 < count <= _FACETS and count * oracle.dim <= _NUMBERS

    def sample(
        self, belief: GaussianBelief, z_hat: Array, n: int, states: NDArray[np.uint64], eta: float
    ) -> tuple[Array, NDArray[np.int64], Array]:
        """Thetas (R, n, d), proposals made (R,), and estimates of ln P(Alt) (R,)."""
        for r in np.flatnonzero((z_hat != self._answers).any(axis=1)):
            self._rows[r], self._answers[r] = self._facets(z_hat[r]).toarray(), z_hat[r]
        R, d = z_hat.shape
        thetas, proposals, log_p = np.empty((R, n, d)), np.zeros(R, dtype=np.int64), np.empty(R)
        if isinstance(belief, DiagonalBelief):
            _stacked.diagonal(states, self._rows, belief.theta_hat, belief.variance, eta, thetas, proposals, log_p)
        else:
            assert isinstance(belief, DenseBelief)
            _stacked.dense(states, self._rows, belief.theta_hat, belief.L, eta, thetas, proposals, log_p)
        return thetas, proposals, log_p

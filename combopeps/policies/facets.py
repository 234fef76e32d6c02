"""The facets of R answers, where the oracle lists them: what the nearest alternative is found among.

    gap_f = -y_f @ theta,   width_f = y_f' C y_f,   y_f = z_f - z_hat

The alternatives of z_hat are the union of the half-spaces y_f @ theta > 0, so that the nearest one lies on a facet,
at the squared distance gap_f^2 / width_f in the norm of C^-1.
"""

from __future__ import annotations

import numpy as np

from combopeps.cone.memo import FacetMemo
from combopeps.errors import NoAlternativeError, ParameterError, SpaceError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.policies._kernels import spread_out, weigh_dense, weigh_diagonal
from combopeps.policies.base import Arm, Policy
from combopeps.space import RealSpace


class FacetRows:
    """Closed-form facets of one answer per replication, stored sparsely; renewed where the answer changes."""

    def __init__(self, oracle: ArgmaxOracle, replications: int) -> None:
        count = oracle.facet_count
        if count is None:
            raise ParameterError(
                f"{oracle!r} does not list the alternatives of an answer, which this policy goes through one by one; "
                "use TopTwo or PEPS, which need argmax only"
            )
        self.count = count
        self._facets = FacetMemo(oracle)
        self._answers = np.full((replications, oracle.dim), np.nan)
        self._indptr = np.zeros((replications, count + 1), dtype=np.int64)
        self._indices = np.zeros((replications, 0), dtype=np.int32)
        self._data = np.zeros((replications, 0))

    def move_to(self, z_hat: Array) -> None:
        """Hold the facets of these answers, (R, d)."""
        if self.count == 0:
            raise NoAlternativeError("there is one answer only: nothing to find out")
        for r in np.flatnonzero((z_hat != self._answers).any(axis=1)):
            rows = self._facets(z_hat[r])
            missing = rows.nnz - self._data.shape[1]
            if missing > 0:
                self._indices = np.pad(self._indices, ((0, 0), (0, missing)))
                self._data = np.pad(self._data, ((0, 0), (0, missing)))
            self._indptr[r] = rows.indptr
            self._indices[r, : rows.nnz], self._data[r, : rows.nnz] = rows.indices, rows.data
            self._answers[r] = z_hat[r]

    def weigh(self, theta: Array, covariance: Array) -> tuple[Array, Array]:
        """Gaps and widths, (R, F), for C of shape (R, d, d), or (R, d) when it is diagonal."""
        gap, width = np.empty((2, len(theta), self.count))
        kernel = weigh_diagonal if covariance.ndim == 2 else weigh_dense
        kernel(self._indptr, self._indices, self._data, theta, covariance, gap, width)
        return gap, width

    def pick(self, facet: Arm) -> Array:
        """One y per replication, (R, d)."""
        y = np.zeros_like(self._answers)
        spread_out(self._indptr, self._indices, self._data, facet, y)
        return y


def check_unbounded(policy: Policy) -> None:
    """Refuse a bounded Theta."""
    if not isinstance(policy.problem.space, RealSpace):
        raise SpaceError(
            f"{type(policy).__name__} is written for Theta = R^d, got {policy.problem.space!r}; use TopTwo or PEPS"
        )

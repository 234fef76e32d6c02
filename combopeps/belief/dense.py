"""General arms: a square root of the covariance, updated in O(d^2) per measurement."""

from __future__ import annotations

import numpy as np

from combopeps.belief.base import Arm, GaussianBelief
from combopeps.belief.normal import Normal
from combopeps.oracles.base import Array
from combopeps.state_dict import StateDict, whole

_REFRESH = 512  # updates between two factorisations from scratch: rounding never has time to add up


class DenseBelief(GaussianBelief):
    """V^-1 = L L', L kept up to date by Potter's rule.

        a = L' x,   L <- L - gamma (L a) a',   gamma = (1 - (1 + a'a)^-1/2) / a'a

    No solve is ever needed: L gives draws, covariances and the gain of the next measurement. V and S are summed
    up beside it, and L is recomputed from V every 512 updates.

    Examples
    --------
    >>> from combopeps import Arms, ExplicitOracle
    >>> arms = Arms.of(ExplicitOracle(np.eye(2)), np.array([[1.0, 1.0], [1.0, -1.0]]))
    >>> belief = DenseBelief(arms)
    >>> belief.update(0, 3.0)
    >>> belief.theta_hat.round(12)
    array([[1., 1.]])
    """

    is_diagonal = False
    _arrays = "theta_hat", "V", "L", "moment"

    def _start(self) -> None:
        eye = np.broadcast_to(np.eye(self.dim), (self.replications, self.dim, self.dim))
        self.V = eye * self.prior_precision
        self.L: Array = eye / np.sqrt(self.prior_precision)
        self.moment = self.prior_precision * self.theta_hat
        self._updates = 0

    def _learn(self, arm: Arm, y: Array, scale: float | Array) -> None:
        x = self._sum_up(arm, y, scale)
        if self._updates % _REFRESH == 0:
            self._refactor()
            return
        a = np.matmul(x[:, None, :], self.L)[:, 0]
        gain = np.matmul(self.L, a[:, :, None])[:, :, 0]
        squares = np.einsum("ri,ri->r", a, a)
        surprise = y - np.einsum("ri,ri->r", x, self.theta_hat)
        self.theta_hat += gain * (surprise / (1.0 + squares))[:, None]
        gamma = (1.0 - 1.0 / np.sqrt(1.0 + squares)) / np.maximum(squares, np.finfo(float).tiny)
        self.L -= (gamma[:, None] * gain)[:, :, None] * a[:, None, :]

    def _learn_many(self, arm: Arm, y: Array, scale: Array) -> None:
        refresh = (self._updates + len(arm)) // _REFRESH * _REFRESH - self._updates
        for i in range(max(refresh, 0)):  # before the last factorisation, only V and S matter
            self._sum_up(arm[i : i + 1], y[i : i + 1], scale[i])
        if refresh > 0:
            self._refactor()
        for i in range(max(refresh, 0), len(arm)):
            self._learn(arm[i : i + 1], y[i : i + 1], scale[i])

    def _sum_up(self, arm: Arm, y: Array, scale: float | Array) -> Array:
        """V += x x', S += x y; the rows x."""
        x: Array = self.arms.row(arm) * np.reshape(scale, (-1, 1))
        self.V += x[:, :, None] * x[:, None, :]
        self.moment += x * y[:, None]
        self._updates += 1
        return x

    def _refactor(self) -> None:
        """V = C C', L = C^-T, theta_hat = L L' S."""
        C = np.linalg.cholesky(self.V)
        eye = np.broadcast_to(np.eye(self.dim), self.V.shape)
        self.L[...] = np.swapaxes(np.linalg.solve(C, eye), 1, 2)
        self.theta_hat[...] = self.covariance_dot(self.moment)

    def _begin_anew(self, weights: Array, totals: Array) -> None:
        rows = self.arms.row(np.arange(len(self.arms)))
        precision = self.prior_precision if self.prior is None else self.prior.precision[:, None, :]
        self.V[...] = np.eye(self.dim) * precision + np.matmul(rows.T * weights[:, None, :], rows)
        self.moment[...] = self._prior_moment + np.matmul(totals[:, None, :], rows)[:, 0]
        self._updates = 0
        self._refactor()

    def state_dict(self) -> StateDict:
        return super().state_dict() | {"updates": self._updates}

    def load_state_dict(self, data: StateDict) -> None:
        super().load_state_dict(data)
        self._updates = whole(data["updates"])

    def become(self, estimate: Normal) -> None:
        self.theta_hat[0], self.L[0] = estimate.theta, 0.0
        self.L[0, :, : estimate.spread.shape[1]] = estimate.spread

    @property
    def spread(self) -> Array:
        return self.L

    @property
    def std(self) -> Array:
        return np.asarray(np.sqrt(np.einsum("rij,rij->ri", self.L, self.L)))

    def covariance(self) -> Array:
        return np.asarray(np.matmul(self.L, np.swapaxes(self.L, 1, 2)))

    def arm_widths(self) -> Array:
        half = np.matmul(self.arms.row(np.arange(len(self.arms))), self.L)
        return np.asarray(np.einsum("rkd,rkd->rk", half, half) / (self.sigma**2)[:, None])

    def narrowing(self, square: Array) -> Array:
        assert self.arms.matrix is not None
        half = np.matmul(self.arms.matrix, self.L) / self.sigma[:, None, None]  # L' x
        inner = np.matmul(np.matmul(np.swapaxes(self.L, 1, 2), square), self.L)
        taken = np.einsum("rkd,rkd->rk", np.matmul(half, inner), half)
        return np.asarray(taken / (1.0 + np.einsum("rkd,rkd->rk", half, half)))

    def noise(self, normals: Array) -> Array:
        return np.asarray(np.matmul(normals, np.swapaxes(self.L, 1, 2)))

    def covariance_dot(self, y: Array) -> Array:
        half = np.matmul(y[:, None, :], self.L)
        return np.asarray(np.matmul(half, np.swapaxes(self.L, 1, 2))[:, 0])

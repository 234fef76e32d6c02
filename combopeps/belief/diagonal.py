"""Arms that measure one component each: V stays diagonal, and everything costs O(d) or less."""

from __future__ import annotations

import numpy as np

from combopeps.belief.base import Arm, GaussianBelief
from combopeps.belief.normal import Normal
from combopeps.oracles.base import Array


class DiagonalBelief(GaussianBelief):
    """V = diag(precision); `variance` holds its inverse.

    Examples
    --------
    >>> from combopeps import Arms, TopKOracle
    >>> belief = DiagonalBelief(Arms.of(TopKOracle(3, k=1)))
    >>> belief.update(2, 4.0)
    >>> belief.theta_hat, belief.variance
    (array([[0., 0., 2.]]), array([[1. , 1. , 0.5]]))
    """

    is_diagonal = True
    _arrays = "theta_hat", "precision", "variance", "moment"

    def _start(self) -> None:
        self.precision = np.empty(self.theta_hat.shape)  # row after row in memory, as `_learn` needs it
        self.precision[:] = self.prior_precision
        self.variance = 1.0 / self.precision
        self.moment = self.precision * self.theta_hat
        self._first = np.arange(self.replications) * self.dim  # where each replication begins

    def _learn(self, arm: Arm, y: Array, scale: float | Array) -> None:
        at = self._first[: self.replications] + self.arms.component[arm]
        x = self.arms.coefficient[arm] * scale
        precision, moment = self.precision.reshape(-1), self.moment.reshape(-1)
        precision[at] += x * x
        moment[at] += x * y
        variance = 1.0 / precision[at]
        self.variance.reshape(-1)[at] = variance
        self.theta_hat.reshape(-1)[at] = moment[at] * variance

    def _learn_one(self, arm: int, y: float, scale: float) -> None:
        i, x = self.arms.component[arm], self.arms.coefficient[arm] * scale
        precision, moment = self.precision[0], self.moment[0]
        precision[i] += x * x
        moment[i] += x * y
        self.variance[0, i] = 1.0 / precision[i]
        self.theta_hat[0, i] = moment[i] * self.variance[0, i]

    def _learn_many(self, arm: Arm, y: Array, scale: Array) -> None:
        at = self.arms.component[arm]
        x = self.arms.coefficient[arm] * scale
        np.add.at(self.precision[0], at, x * x)  # adds in the order given, as one update after the other does
        np.add.at(self.moment[0], at, x * y)
        self.variance[0, at] = 1.0 / self.precision[0, at]
        self.theta_hat[0, at] = self.moment[0, at] * self.variance[0, at]

    def _learn_parts(self, rows: Arm, arms: Arm, y: Array, scale: Array) -> None:
        at, x = (rows, self.arms.component[arms]), self.arms.coefficient[arms] * scale
        self.precision[at] += x * x
        self.moment[at] += x * y
        self.variance[at] = 1.0 / self.precision[at]
        self.theta_hat[at] = self.moment[at] * self.variance[at]

    def _begin_anew(self, weights: Array, totals: Array) -> None:
        self.precision[...] = self.prior_precision if self.prior is None else self.prior.precision
        self.moment[...] = self._prior_moment
        at, x = self.arms.component, self.arms.coefficient
        np.add.at(self.precision.T, at, (weights * x**2).T)
        np.add.at(self.moment.T, at, (totals * x).T)
        self.variance[...] = 1.0 / self.precision
        self.theta_hat[...] = self.moment * self.variance

    def become(self, estimate: Normal) -> None:
        self.theta_hat[0], self.variance[0] = estimate.theta, estimate.spread
        with np.errstate(divide="ignore"):
            self.precision[0] = 1.0 / estimate.spread

    @property
    def spread(self) -> Array:
        return self.variance

    @property
    def std(self) -> Array:
        return np.sqrt(self.variance)

    def covariance(self) -> Array:
        return self.variance

    def arm_widths(self) -> Array:
        widths = self.variance[:, self.arms.component] * self.arms.coefficient**2
        return np.asarray(widths / (self.sigma**2)[:, None])

    def narrowing(self, square: Array) -> Array:
        from combopeps.belief._kernels import narrow_units

        gains = np.empty((self.replications, len(self.arms)))
        narrow_units(self.variance, self.sigma, self.arms.component, self.arms.coefficient, square, gains)
        return gains

    def noise(self, normals: Array) -> Array:
        return normals * np.sqrt(self.variance)[:, None, :]

    def covariance_dot(self, y: Array) -> Array:
        return self.variance * y

"""Hierarchical prior: mean and standard deviation of the prior, estimated from the measurements.

    theta_i ~ N(mu, tau^2),   m_i | theta ~ N(theta_i, s_i^2),   so   m_i ~ N(mu, tau^2 + s_i^2)

m_i is the mean of the results of component i, s_i its standard error. With v_i = tau^2 + s_i^2 and a flat prior on mu,

    A = sum 1/v_i,   mu_hat = sum m_i/v_i / A,   ln p(m | tau) = -1/2 [sum ln v_i + ln A + sum (m_i - mu_hat)^2/v_i]

(the restricted likelihood, REML). The prior of tau is DuMouchel's, p(tau) = sigma / (sigma + tau)^2: proper, in units
of the noise, with its median at the noise of one measurement. It matters where few components have been measured;
elsewhere the data dominate. The prior of every component is N(mu_hat, tau_hat^2 + 1/A), where 1/A is the variance of
mu_hat.

tau_hat is the 10 % quantile of the posterior of tau: with a tau that is too large, noise counts as differences between
components, and claims are too confident. (With the posterior mean instead, and noise of 10 tau, 30 % of the answers
for the best of 4 were wrong at delta = 0.2.) Where answers differ in their sums, as routes and general arms do, a tau
that is too small makes claims too confident as well, by pulling theta to mu. So there is a second estimate, the
posterior mean of tau, under which claims have to hold too (`PosteriorRule`). For general arms the two are exchanged.

General arms: the same in the eigenvectors of sum_x n_x x x', where the likelihood is diagonal; mu then enters direction
u with the coefficient u @ 1. Like every likelihood this one does not depend on how arms were chosen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles.base import Array
from combopeps.posterior.arms import Arms
from combopeps.posterior.stated_values import NumberOrArray

_GRIDS = 24, 24, 120  # values of tau; each grid covers the posterior mass found by the previous one
_QUANTILE = 0.1  # of the posterior of tau: the estimate of tau
_NEGLIGIBLE = 16.0  # nats below the maximum
_LOWEST, _HIGHEST = 1e-4, 100.0  # ends of the first grid, relative to the smallest s_i and to the spread of the m_i
_RANK = 1e-12  # eigenvalues below this fraction of the largest are zero
_MAX_TEMPORARY = 2_000_000  # numbers in one temporary array


@dataclass(frozen=True)
class PriorEstimate:
    """A normal prior for each of R replications, with independent components.

    Attributes
    ----------
    mean, precision
        Of every component, (R, d) each.
    level, spread
        Estimates of mu and tau, (R,) each.
    """

    mean: Array
    precision: Array
    level: Array
    spread: Array


class HierarchicalPrior:
    """Estimates the parameters of the prior that were not given.

    Parameters
    ----------
    arms
        In units of the noise (`Problem.signal`).
    mean, std
        Given values, a number or one per component; None: to be estimated.
    """

    def __init__(self, arms: Arms, mean: NumberOrArray | None, std: NumberOrArray | None) -> None:
        self._arms = arms
        self._mean_known, self.std_known = mean is not None, std is not None
        self._centre = np.broadcast_to(np.asarray(0.0 if mean is None else mean), (arms.dim,))
        self._scale = np.broadcast_to(np.asarray(1.0 if std is None else std), (arms.dim,))
        self._noise_unit = float(1.0 / np.median(np.abs(arms.coefficient)))  # noise of one result, in units of theta

    def estimate(self, weights: Array, totals: Array, sigma: Array, *, second: bool = False) -> PriorEstimate:
        """Estimate the prior from weights and weighted sums of results by arm, (R, K) each, for noise sigma, (R,).

        With `second`, by the other estimate of tau: the larger one for arms that measure one component each.
        """
        coordinates = self._components if self._arms.are_units else self._directions
        mu, tau, mu_variance = self._fit(*coordinates(weights, totals), sigma, low=self._arms.are_units != second)
        variance = np.square(tau[:, None] * self._scale) + mu_variance[:, None]
        return PriorEstimate(mu[:, None] + self._centre, 1.0 / variance, mu, tau)

    def _components(self, weights: Array, totals: Array) -> tuple[Array, Array, Array, Array]:
        """Return information, moment around the given mean, coefficient of mu, and scale^2, for unit arms."""
        R, d, at = len(weights), self._arms.dim, self._arms.component
        information, moment = np.zeros((2, R, d))
        np.add.at(information.T, at, (weights * self._arms.coefficient**2).T)
        np.add.at(moment.T, at, (totals * self._arms.coefficient).T)
        measured = np.flatnonzero((information > 0.0).any(axis=0))
        information, moment = information[:, measured], moment[:, measured]
        moment = moment - information * self._centre[measured]
        return information, moment, np.ones(information.shape), self._scale[measured] ** 2

    def _directions(self, weights: Array, totals: Array) -> tuple[Array, Array, Array, Array]:
        """Return the same for general arms, in phi = theta / scale, with variance tau^2 of all entries."""
        rows = self._arms.row(np.arange(len(self._arms))) * self._scale
        information = np.matmul(rows.T * weights[:, None, :], rows)
        moment = np.matmul(totals[:, None, :], rows)[:, 0] - np.matmul(information, self._centre / self._scale)
        values, vectors = np.linalg.eigh(information)
        values = np.where(values > _RANK * values[:, -1:], values, 0.0)
        turned = np.einsum("rik,ri->rk", vectors, moment) * (values > 0.0)
        return values, turned, np.einsum("rik,i->rk", vectors, 1.0 / self._scale), np.ones(self._arms.dim)

    def _fit(
        self, lam: Array, S: Array, c: Array, scale2: Array, sigma: Array, *, low: bool
    ) -> tuple[Array, Array, Array]:
        """Return mu, tau and the variance of mu, (R,) each.

        The likelihoods are N(S / lam, sigma^2 / lam) in each coordinate; lam = 0 means no data.
        """
        measured, unit = lam > 0.0, sigma * self._noise_unit
        if not measured.any():
            return np.zeros(len(lam)), np.ones(len(lam)), np.zeros(len(lam))
        m, s2 = S / np.where(measured, lam, 1.0), (sigma * sigma)[:, None] / np.where(measured, lam, 1.0)
        first = np.zeros(len(lam))
        if not self._mean_known:  # relative to a first estimate of mu, so that a large mu costs no digits
            first = (lam * c * m).sum(axis=1) / np.maximum((lam * c * c).sum(axis=1), 1e-300)
            m = np.where(measured, m - first[:, None] * c, 0.0)
        likelihood = _Likelihood(m, s2, c, scale2, measured, self._mean_known)
        tau = np.ones(len(lam)) if self.std_known else likelihood.estimate_tau(unit, low=low)
        _, A, mu = likelihood.parts(tau[:, None])
        return first + mu[:, 0], tau, 1.0 / A[:, 0]


class _Likelihood:
    """The likelihood m_k ~ N(mu c_k, tau^2 scale_k^2 + s_k^2) of k coordinates and R replications.

    mu is 0 if the mean is known, and has a flat prior otherwise.
    """

    def __init__(self, m: Array, s2: Array, c: Array, scale2: Array, seen: NDArray[np.bool_], mean_known: bool) -> None:
        self.m, self.s2, self.c, self.scale2, self.seen, self.mean_known = m, s2, c, scale2, seen, mean_known

    def parts(self, tau: Array) -> tuple[Array, Array, Array]:
        """Return 1/v, (R, G, k), then A and mu_hat, (R, G), at tau (R, G)."""
        inverse = 1.0 / ((tau * tau)[:, :, None] * self.scale2 + self.s2[:, None])
        inverse *= self.seen[:, None]
        if self.mean_known:
            return inverse, np.full(tau.shape, np.inf), np.zeros(tau.shape)
        A = np.einsum("rgk,rk->rg", inverse, self.c * self.c)
        return inverse, A, np.einsum("rgk,rk->rg", inverse, self.c * self.m) / A

    def log_posterior(self, tau: Array, unit: Array) -> Array:
        """Return the log-posterior of ln tau up to a constant, (R, G); `unit` is the prior median of tau."""
        found, step = np.empty(tau.shape), max(1, _MAX_TEMPORARY // self.m.size)
        for begin in range(0, tau.shape[1], step):
            at = slice(begin, begin + step)
            inverse, A, mu = self.parts(tau[:, at])
            off = self.m[:, None] - mu[:, :, None] * self.c[:, None]
            log_v = -np.log(inverse + ~self.seen[:, None]).sum(axis=2)
            found[:, at] = -0.5 * (log_v + (inverse * off * off).sum(axis=2))
            if not self.mean_known:
                found[:, at] -= 0.5 * np.log(A)
        return np.asarray(found + np.log(tau) - 2.0 * np.log(unit[:, None] + tau))

    def estimate_tau(self, unit: Array, low: bool) -> Array:
        """Return the posterior mean of tau, or a low quantile, (R,).

        The grid is narrowed to the posterior mass in each of several passes.
        """
        errors = np.sqrt(np.where(self.seen, self.s2 / self.scale2, np.inf).min(axis=1))
        least = _LOWEST * np.minimum(errors, unit)
        most = _HIGHEST * np.maximum((np.abs(self.m) / np.sqrt(self.scale2)).max(axis=1), unit)
        rows = np.arange(len(unit))
        for size in _GRIDS:
            log_tau = np.log(least)[:, None] + np.linspace(0.0, 1.0, size) * np.log(most / least)[:, None]
            tau = np.exp(log_tau)
            found = self.log_posterior(tau, unit)
            excess = found - found.max(axis=1, keepdims=True)
            has_mass = excess >= -_NEGLIGIBLE
            least = tau[rows, np.maximum(has_mass.argmax(axis=1) - 1, 0)]
            most = tau[rows, np.minimum(size - has_mass[:, ::-1].argmax(axis=1), size - 1)]
        weight = np.exp(excess)
        weight /= weight.sum(axis=1, keepdims=True)
        if not low:
            return np.asarray((weight * tau).sum(axis=1))
        below = np.cumsum(weight, axis=1) - weight
        at = (below <= _QUANTILE).sum(axis=1) - 1  # the cell of the grid that the quantile lies in
        share = (_QUANTILE - below[rows, at]) / weight[rows, at] - 0.5
        return np.asarray(np.exp(log_tau[rows, at] + share * (log_tau[:, 1] - log_tau[:, 0])))

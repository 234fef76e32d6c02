"""Compiled Karp-Luby draws for R replications with dense facet rows Y (R, F, d)."""

from __future__ import annotations

from math import exp, log, sqrt

import numpy as np
from numba import njit

from combopeps._normal import draw_tail, log_ndtr
from combopeps._random import fill_normals, uniform


@njit(cache=True, nogil=True)
def diagonal(states, Y, theta_hat, variance, eta, thetas, proposals, log_p):
    """theta ~ N(theta_hat, diag(variance) / eta) given that some row y of Y has y @ theta > 0."""
    R, F, d = Y.shape
    gap, sigma, cumulative, shift = np.empty(F), np.empty(F), np.empty(F), np.empty((F, d))
    for r in range(R):
        for f in range(F):
            g, v = 0.0, 0.0
            for i in range(d):
                g -= Y[r, f, i] * theta_hat[r, i]
                shift[f, i] = Y[r, f, i] * variance[r, i] / eta
                v += shift[f, i] * Y[r, f, i]
            gap[f], sigma[f] = g, sqrt(v)
        noise = np.sqrt(variance[r] / eta)
        log_mass = _weigh(gap, sigma, cumulative)
        shares = 0.0
        for k in range(thetas.shape[1]):
            accepted = False
            while not accepted:
                theta = thetas[r, k]
                fill_normals(states[r], theta)
                theta *= noise
                share = _push(states[r], Y[r], theta_hat[r], gap, sigma, cumulative, shift, theta)
                shares += share
                proposals[r] += 1
                accepted = uniform(states[r]) < share
        log_p[r] = log_mass + log(shares / proposals[r])


@njit(cache=True, nogil=True)
def dense(states, Y, theta_hat, L, eta, thetas, proposals, log_p):
    """The same with covariance L L' / eta."""
    R, F, d = Y.shape
    gap, sigma, cumulative, shift = np.empty(F), np.empty(F), np.empty(F), np.empty((F, d))
    half, w = np.empty(d), np.empty(d)
    for r in range(R):
        for f in range(F):
            half[:] = 0.0
            g, v = 0.0, 0.0
            for i in range(d):
                g -= Y[r, f, i] * theta_hat[r, i]
                for j in range(d):
                    half[j] += Y[r, f, i] * L[r, i, j]
            for j in range(d):
                v += half[j] * half[j]
            for i in range(d):
                shift[f, i] = 0.0
                for j in range(d):
                    shift[f, i] += L[r, i, j] * half[j] / eta
            gap[f], sigma[f] = g, sqrt(v / eta)
        log_mass = _weigh(gap, sigma, cumulative)
        shares = 0.0
        for k in range(thetas.shape[1]):
            accepted = False
            while not accepted:
                theta = thetas[r, k]
                fill_normals(states[r], w)
                for i in range(d):
                    theta[i] = 0.0
                    for j in range(d):
                        theta[i] += L[r, i, j] * w[j]
                    theta[i] /= sqrt(eta)
                share = _push(states[r], Y[r], theta_hat[r], gap, sigma, cumulative, shift, theta)
                shares += share
                proposals[r] += 1
                accepted = uniform(states[r]) < share
        log_p[r] = log_mass + log(shares / proposals[r])


@njit(cache=True, nogil=True)
def _weigh(gap, sigma, cumulative):
    """Running sums of Phi(-gap / sigma), relative to the largest; ln of the total."""
    top = -np.inf
    for f in range(len(gap)):
        cumulative[f] = log_ndtr(-gap[f] / sigma[f])
        top = max(top, cumulative[f])
    total = 0.0
    for f in range(len(gap)):
        total += exp(cumulative[f] - top)
        cumulative[f] = total
    return top + log(total)


@njit(cache=True, nogil=True)
def _push(state, Y, theta_hat, gap, sigma, cumulative, shift, theta):
    """Move the noise in `theta` behind a facet picked by weight, add the mean, and return 1 / N(theta)."""
    F, d = Y.shape
    f = min(np.searchsorted(cumulative, uniform(state) * cumulative[-1], side="right"), F - 1)
    along = 0.0
    for i in range(d):
        along += Y[f, i] * theta[i]
    move = (draw_tail(state, gap[f] / sigma[f]) - along / sigma[f]) / sigma[f]
    for i in range(d):
        theta[i] += theta_hat[i] + move * shift[f, i]
    behind = 0
    for g in range(F):
        value = 0.0
        for i in range(d):
            value += Y[g, i] * theta[i]
        behind += value > 0.0
    return 1.0 / max(1, behind)

"""Reference posterior: one dense solve from all measurements at once."""

import numpy as np

from combopeps.posterior import Arms


def ridge_posterior(rows, rewards, counts=None, *, prior_precision=1.0, noise_std=1.0):
    """Mean and covariance of theta after measuring `rows`, each reward the mean of `counts` of them."""
    counts = np.ones(len(rows)) if counts is None else np.asarray(counts, dtype=float)
    weight = counts / noise_std**2
    V = prior_precision * np.eye(rows.shape[1]) + (rows * weight[:, None]).T @ rows
    S = rows.T @ (weight * rewards)
    return np.linalg.solve(V, S), np.linalg.inv(V)


def in_units(matrix, noise_std):
    """Arms in units of the noise: a posterior in them learns from rewards / noise_std."""
    arms = Arms(matrix)
    return arms.scaled(np.full(len(arms), 1.0 / noise_std))


def covariance(posterior, r=0):
    """V^-1 of one replication, column by column through the public interface."""
    alone = posterior.row(r)
    return np.stack([alone.covariance_dot(e[None])[0] for e in np.eye(posterior.dim)])


def general_arms(K, d, seed):
    """K random arms of R^d, more than one entry each."""
    return np.random.default_rng(seed).normal(size=(K, d))


def unit_arms(d, seed):
    """Multiples of unit vectors, some of them negative, in random order."""
    rng = np.random.default_rng(seed)
    return (np.eye(d) * rng.choice([-2.0, 0.5, 1.0, 3.0], size=d))[rng.permutation(d)]

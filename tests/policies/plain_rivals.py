"""Plain, slow transcriptions of the rivals' formulas for one run, on a listed Z, with explicit inverses."""

import numpy as np


class Data:
    """V = V_0 + sum x x' / sigma^2 and theta_hat = V^-1 S, from scratch."""

    def __init__(self, X, sigma=1.0, prior_precision=1.0):
        self.X, self.sigma = X, sigma
        self.V, self.S = prior_precision * np.eye(X.shape[1]), np.zeros(X.shape[1])

    def learn(self, arm, y):
        self.V = self.V + np.outer(self.X[arm], self.X[arm]) / self.sigma**2
        self.S = self.S + self.X[arm] * y / self.sigma**2

    @property
    def theta_hat(self):
        return np.linalg.inv(self.V) @ self.S


class PlainAdaHedge:
    def __init__(self, arms):
        self.total, self.Delta, self.lam = np.zeros(arms), 0.01, np.full(arms, 1.0 / arms)

    def update(self, gain):
        eta = np.log(len(gain)) / self.Delta
        top = gain.max()
        mix = top + np.log(self.lam @ np.exp(eta * (gain - top))) / eta
        self.Delta += max(0.0, mix - self.lam @ gain)
        self.total += gain
        score = np.log(len(gain)) / self.Delta * self.total
        self.lam = np.exp(score - score.max()) / np.exp(score - score.max()).sum()


def nearest_alternative(theta_hat, A, Z):
    """The point of {theta: some z beats z_hat} nearest in the norm of A: a projection for every other z of Z."""
    z_hat = Z[(Z @ theta_hat).argmax()]
    best, where = np.inf, None
    for z in Z:
        if not np.array_equal(z, z_hat):
            y, inverse = z - z_hat, np.linalg.inv(A)
            theta = theta_hat - inverse @ y * (y @ theta_hat) / (y @ inverse @ y)
            distance = (theta - theta_hat) @ A @ (theta - theta_hat)
            if distance < best:
                best, where = distance, theta
    return where


def lingame_gains(X, lam, data, Z, t, optimism):
    A = sum(w * np.outer(x, x) for w, x in zip(lam, X, strict=True))
    theta = nearest_alternative(data.theta_hat, A, Z)
    deviation = np.array([abs(x @ (theta - data.theta_hat)) for x in X])
    if optimism:
        deviation += [np.sqrt(2 * np.log(t) * (x @ np.linalg.inv(data.V) @ x)) for x in X]
    return 0.5 * deviation**2 / data.sigma**2


def lingape_scores(X, data, rivals, t, delta):
    """The width of the most ambiguous comparison after each arm, by explicit inverses; the smallest is measured.

    `rivals(z_hat)` lists the comparisons y = z - z_hat.
    """
    inverse = np.linalg.inv(data.V)
    c = np.sqrt(2 * (np.log(1 / delta) + 2 * np.log(t + 1)))
    y = max(rivals(data.theta_hat), key=lambda y: y @ data.theta_hat + c * np.sqrt(y @ inverse @ y))
    return np.array([np.sqrt(y @ np.linalg.inv(data.V + np.outer(x, x) / data.sigma**2) @ y) for x in X])


def clucb_sets(sums, counts, Z, unit, sigma, delta, low=None):
    """M_t, M~_t and the radii, with Z listed; `low` bounds theta from below."""
    t, n = counts.sum(), len(counts)
    w = sums / counts
    rad = sigma * np.sqrt(2 * np.log(4 * n * t**3 / delta) / counts)
    inside = (lambda theta: theta) if low is None else (lambda theta: np.maximum(theta, low))
    M = Z[(Z @ inside(w)).argmax()]
    worse = np.where(M != 0, -rad, rad) * unit
    w_tilde = inside(w + worse)
    return M, Z[(Z @ w_tilde).argmax()], w_tilde, rad

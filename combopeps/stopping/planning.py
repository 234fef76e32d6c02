"""How to spend fresh measurements so that z_hat beats all others at once.

    minimise   sum_z P(z is not beaten) = sum_z Phi(c - gap_z / sigma_z),   sum_x n_x = N

sigma_z^2 = |y|^2 under the covariance that n measurements would give; for gap_z the root mean square under the belief
is taken, so that a gap that happens to look tiny does not ask for the moon.
At the minimum n_x ~ n_x (sum_z w_z (x @ q_z)^2)^(1/2), q_z = G^-1 y_z: a few rounds of that fixed point. N is the
smallest for which the sum is below the wanted risk. Answers that the plan forgets are found by the certificate itself,
at the planned covariance, and added.
"""

from __future__ import annotations

import numpy as np

from combopeps.belief import Arms, DiagonalBelief, GaussianBelief
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.stopping.certificate import glr_bound, has_lagrangian, listed_rows
from combopeps.stopping.estimate import Estimate, Sums
from combopeps.stopping.rehearsal import rehearse
from combopeps.stopping.rows import Rows, unique_rows

_ROUNDS = 10  # of looking for forgotten answers
_STEPS = 12  # of the fixed point
_MOST_ROWS = 4096  # comparisons of a plan: the closest ones
_MOST = 1e7  # measurements of a plan
_MARGIN = 1.0  # answers closer than the quantile plus this matter


def plan(
    belief: GaussianBelief,
    oracle: ArgmaxOracle,
    z_hat: Array,
    quantile: float,
    risk: float,
    rng: np.random.Generator,
    epsilon: float = 0.0,
) -> Array:
    """n_x, not rounded: measurements after which z_hat beats all others with probability about 1 - risk."""
    listed = listed_rows(oracle, z_hat, epsilon)
    short = listed is not None and len(listed) <= _MOST_ROWS
    if isinstance(belief, DiagonalBelief) and not short and (listed is not None or has_lagrangian(oracle)):
        return rehearse(belief, oracle, z_hat, quantile, rng, epsilon)
    now = Estimate.of(belief)
    target = 0.5 * (quantile + _MARGIN) ** 2
    if listed is not None and len(listed) > _MOST_ROWS:
        distance = now.gaps(listed) / np.sqrt(np.maximum(now.widths(listed), 1e-300))
        listed = listed.take(np.argsort(distance)[:_MOST_ROWS])
    rivals = np.zeros((0, oracle.dim))
    n = np.full(len(belief.arms), 64.0 / len(belief.arms))
    for _ in range(_ROUNDS if listed is None else 1):
        if listed is None:
            planned = now if len(rivals) == 0 else _planned(belief, n)
            found = glr_bound(oracle, z_hat, planned, target=target, rng=rng, epsilon=epsilon).rivals
            known = len(rivals)
            rivals = unique_rows(np.concatenate([rivals, found]))
            if len(rivals) == known:
                break
        rows = Rows.of(rivals) if listed is None else listed
        n = _Comparisons(belief, rows, now, epsilon).smallest(quantile, risk, n)
    return n


def _planned(belief: GaussianBelief, n: Array) -> Estimate:
    """The belief's mean with the covariance that n measurements would give."""
    future = Sums(_information(belief.arms, n, belief.noise_std), np.zeros(belief.dim)).estimate(belief.arms)
    assert future is not None
    return Estimate(belief.theta_hat[0], future.variance, future.root)


def _information(arms: Arms, n: Array, noise_std: float) -> Array:
    if arms.matrix is None:
        information = np.bincount(arms.component, n * arms.coefficient**2, minlength=arms.dim)
        return np.asarray(information / noise_std**2)
    return np.asarray((arms.matrix.T * n) @ arms.matrix / noise_std**2)


class _Comparisons:
    """Gaps, their uncertainty, and the variance of each comparison as a function of n."""

    def __init__(self, belief: GaussianBelief, rows: Rows, now: Estimate, epsilon: float) -> None:
        self.arms, self.noise_std, self.rows = belief.arms, belief.noise_std, rows
        self.gaps = np.sqrt(np.maximum(now.gaps(rows) + epsilon, 0.0) ** 2 + now.widths(rows))
        self.diagonal = isinstance(belief, DiagonalBelief)
        self.y = rows.matrix(belief.dim)
        self.squares = self.y * self.y

    def smallest(self, quantile: float, risk: float, start: Array) -> Array:
        """The least N, and its allocation, for which the sum of failures is below the risk."""
        low, high, best = 0.0, float(start.sum()), None
        shares = start / start.sum()
        while high < _MOST:
            n, failures = self._spread(high, shares, quantile)
            if failures <= risk:
                best = n
                break
            low, high, shares = high, 2.0 * high, n / n.sum()
        for _ in range(6):
            middle = 0.5 * (low + high)
            n, failures = self._spread(middle, shares, quantile)
            shares = n / n.sum()
            if failures <= risk:
                best, high = n, middle
            else:
                low = middle
        return n if best is None else best

    def _spread(self, total: float, shares: Array, quantile: float) -> tuple[Array, float]:
        """The fixed point at N = total, started from these shares."""
        failures = np.inf
        for _ in range(_STEPS):
            n = np.maximum(total * shares, 1e-6 * total / len(shares))
            failures, weight, along = self._failures(n, quantile)
            score = n * np.sqrt(along(weight))
            if not score.sum() > 0:
                break
            shares = 0.5 * shares + 0.5 * score / score.sum()
        return np.maximum(total * shares, 1e-6), failures

    def _failures(self, n: Array, quantile: float):  # type: ignore[no-untyped-def]
        """The sum of failures, its derivative in each sigma_z^2, and what that means for each arm."""
        from scipy.special import ndtr

        if self.diagonal:
            arms = self.arms
            information = np.bincount(arms.component, n * arms.coefficient**2, minlength=arms.dim) / self.noise_std**2
            variance = np.where(information > 0, 1.0 / np.maximum(information, 1e-300), 0.0)
            sigma2 = self.squares @ variance

            def along(weight: Array) -> Array:
                q2 = (weight @ self.squares) * variance**2
                return np.asarray(q2[arms.component] * arms.coefficient**2)
        else:
            matrix = self.arms.matrix
            assert matrix is not None
            G = (matrix.T * n) @ matrix / self.noise_std**2
            q = np.linalg.lstsq(G, self.y.T.toarray(), rcond=1e-10)[0].T
            sigma2 = np.einsum("zd,zd->z", self.y.toarray(), q)
            inner = (q @ matrix.T) ** 2

            def along(weight: Array) -> Array:
                return np.asarray(weight @ inner)

        score = quantile - self.gaps / np.sqrt(sigma2)
        weight = np.exp(-0.5 * score**2) * self.gaps / sigma2**1.5  # the derivative in sigma_z^2, up to a constant
        return float(ndtr(score).sum()), weight + 1e-12 * weight.max(initial=1e-300), along

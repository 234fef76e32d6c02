"""Online learners over K arms, for R replications at once.

    lam_{t+1, x} ~ exp(eta G_{t, x}),   G_t = sum_s g_s

Everything stays in the log domain: K = 20,000 arms and gains of any size are fine.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Learner(Protocol):
    """Keeps a distribution over arms, (R, K), and moves it towards large gains."""

    lam: Array

    def update(self, gain: Array) -> None: ...


class Hedge:
    """Exponential weights with a fixed step size eta.

    Examples
    --------
    >>> hedge = Hedge(arms=2, replications=1, eta=1.0)
    >>> hedge.update(np.array([[0.0, np.log(3)]]))
    >>> hedge.lam.round(6)
    array([[0.25, 0.75]])
    """

    def __init__(self, arms: int, replications: int, eta: float) -> None:
        self.eta = eta
        self._total = np.zeros((replications, arms))
        self.lam = np.full((replications, arms), 1.0 / arms)

    def update(self, gain: Array) -> None:
        """lam ~ lam exp(eta gain)."""
        self._total += gain
        self.lam = softmax(self.eta * self._total)


class AdaHedge:
    """Exponential weights that tune their own step size (de Rooij, van Erven, Grunwald, Koolen).

        eta_t = ln K / Delta_{t-1},   Delta_t = Delta_{t-1} + (m_t - lam_t @ g_t)

    with Delta_0 = 0.01 and the mix gain m_t = ln(lam_t @ exp(eta_t g_t)) / eta_t.
    """

    def __init__(self, arms: int, replications: int) -> None:
        self._log_arms = np.log(arms)
        self._delta = np.full((replications, 1), 0.01)
        self._total = np.zeros((replications, arms))
        self.lam = np.full((replications, arms), 1.0 / arms)

    def update(self, gain: Array) -> None:
        """Add the mixability gap to Delta, and the gain to the total."""
        if self._log_arms == 0.0:
            return
        eta = self._log_arms / self._delta
        top = gain.max(axis=1, keepdims=True)
        mixed = top + np.log(_dot(self.lam, np.exp(eta * (gain - top)))) / eta
        self._delta += np.maximum(mixed - _dot(self.lam, gain), 0.0)
        self._total += gain
        self.lam = softmax(self._log_arms / self._delta * self._total)


def _dot(a: Array, b: Array) -> Array:
    """Row by row, as a column."""
    return np.asarray(np.einsum("rk,rk->r", a, b)[:, None])


def softmax(score: Array) -> Array:
    """Row by row, without overflow."""
    weight = np.exp(score - score.max(axis=1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))

"""Shared by all estimates of the error probability: unknown noise, and answers as keys."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from combopeps.belief import GaussianBelief
from combopeps.oracles.base import Array
from combopeps.validation import check_real

HALVINGS = 60  # of the posterior of the noise
_REST = 0.02  # of the mean over it: what lies beyond is counted as 1


def over_noise(belief: GaussianBelief, probability: Callable[[float], float]) -> float:
    """The mean over the size of the noise (of a belief with one replication), or a little more than that.

    `probability(eta)` is for a covariance divided by eta: it grows with the noise, so that the worst of each half,
    quarter, eighth, ... of the posterior can stand for all of it.
    """
    from scipy.stats import chi2

    dof, total, rest = belief.dof.item(0), 0.0, 1.0
    if dof == np.inf:
        return probability(1.0)
    for _ in range(HALVINGS):
        rest /= 2.0
        total += rest * probability(float(chi2.ppf(rest, dof)) / dof)
        if rest <= _REST * total:
            break
    return total + rest


def packed(z: Array) -> bytes:
    """An answer by its entries that are not 0, which are few as a rule."""
    chosen = np.flatnonzero(z)
    return chosen.tobytes() + z[chosen].tobytes()


def unpacked(key: bytes, dim: int) -> Array:
    """The answer again."""
    z, half = np.zeros(dim), len(key) // 2
    z[np.frombuffer(key[:half], dtype=np.intp)] = np.frombuffer(key[half:], dtype=np.float64)
    return z


def check_epsilon(epsilon: float) -> None:
    """Refuse what no answer can be worse by."""
    check_real("epsilon", epsilon, 0.0, np.finfo(float).max, "a number that is finite and not negative")

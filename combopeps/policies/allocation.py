"""Allocations over arms: online learners (Hedge, AdaHedge, perturbed leader), C-tracking and the G-optimal design.

    lam_{t+1, x} ~ exp(eta G_{t, x}),   G_t = sum_s g_s

Learners keep a distribution `lam` over arms, (R, K), for R replications; weights are computed in the log domain, so
that gains of any size are accepted. Arms are drawn from `lam` (`Streams.draw`), or chosen by C-tracking.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import ParameterError
from combopeps.oracles.base import Array
from combopeps.posterior.arms import Arms
from combopeps.random import Streams
from combopeps.utils.formatting import ShortRepr
from combopeps.utils.state_dict import ArrayState
from combopeps.utils.validation import (
    MAX_COMPONENTS,
    MAX_RUNS,
    as_float_array,
    check_count,
    check_integer,
    check_positive,
    check_real,
)

Arm = NDArray[np.intp]


def _check_sizes(arms: int, replications: int) -> None:
    check_count("arms", arms, MAX_COMPONENTS)
    check_count("replications", replications, MAX_RUNS)


class Hedge(ShortRepr, ArrayState):
    """Exponential weights with a fixed step size eta.

    Examples
    --------
    >>> hedge = Hedge(arms=2, replications=1, eta=1.0)
    >>> hedge.update(np.array([[0.0, np.log(3)]]))
    >>> hedge.lam.round(6)
    array([[0.25, 0.75]])
    """

    _arrays = "_total", "lam"

    def __init__(self, arms: int, replications: int, eta: float) -> None:
        _check_sizes(arms, replications)
        check_real("eta", eta, 0.0, np.inf, "a number of at least 0")
        self.eta = eta
        self._total = np.zeros((replications, arms))
        self.lam = np.full((replications, arms), 1.0 / arms)

    def update(self, gain: Array) -> None:
        """Update lam ~ lam exp(eta gain)."""
        self._total += gain
        self.lam = softmax(self.eta * self._total)

    def _summary(self) -> Mapping[str, Any]:
        return {"arms": self.lam.shape[1], "replications": len(self.lam), "eta": self.eta}


class AdaHedge(ShortRepr, ArrayState):
    """Exponential weights with an adaptive step size (de Rooij, van Erven, Grunwald, Koolen).

        eta_t = ln K / Delta_{t-1},   Delta_t = Delta_{t-1} + (m_t - lam_t @ g_t)

    with Delta_0 = 0.01 and the mix gain m_t = ln(lam_t @ exp(eta_t g_t)) / eta_t.
    """

    _arrays = "_delta", "_total", "lam"

    def __init__(self, arms: int, replications: int) -> None:
        _check_sizes(arms, replications)
        self._log_arms = np.log(arms)
        self._delta = np.full((replications, 1), 0.01)
        self._total = np.zeros((replications, arms))
        self.lam = np.full((replications, arms), 1.0 / arms)

    def update(self, gain: Array) -> None:
        """Add the mixability gap to Delta, and the gain to the total."""
        if self._log_arms == 0.0:  # a single arm
            return
        eta = self._log_arms / self._delta
        top = gain.max(axis=1, keepdims=True)
        mixed = top + np.log(_dot(self.lam, np.exp(eta * (gain - top)))) / eta
        self._delta += np.maximum(mixed - _dot(self.lam, gain), 0.0)  # non-negative up to rounding
        self._total += gain
        self.lam = softmax(self._log_arms / self._delta * self._total)

    def _summary(self) -> Mapping[str, Any]:
        return {"arms": self.lam.shape[1], "replications": len(self.lam)}


class PerturbedLeader(ArrayState):
    """Follow the perturbed leader over combinatorial actions (Kalai and Vempala).

        a_t = argmax_a sum_{i in a} (G_i + c_t w_i),   c_t^2 = 1 + sum_s max_i g_{s, i}^2,   w_i ~ N(0, 1)

    One argmax replaces a distribution over all actions.

    Examples
    --------
    >>> leader = PerturbedLeader(components=2, replications=1)
    >>> leader.update(np.array([[3.0, 4.0]]))
    >>> leader.scores(np.zeros((1, 2))), leader.scores(np.ones((1, 2))).round(3)
    (array([[3., 4.]]), array([[7.123, 8.123]]))
    """

    _arrays = "_total", "_squares"

    def __init__(self, components: int, replications: int) -> None:
        self._total = np.zeros((replications, components))
        self._squares = np.ones((replications, 1))

    def update(self, gain: Array) -> None:
        """Add the gains of one round."""
        self._total += gain
        self._squares += gain.max(axis=1, keepdims=True) ** 2

    def scores(self, normals: Array) -> Array:
        """Return the perturbed totals, whose sum over an action is maximised in the next round."""
        return np.asarray(self._total + np.sqrt(self._squares) * normals)


def _dot(a: Array, b: Array) -> Array:
    """Return the dot products of rows, (R, 1)."""
    return np.asarray(np.einsum("rk,rk->r", a, b)[:, None])


def softmax(score: Array) -> Array:
    """Return the softmax of every row, computed without overflow."""
    weight = np.exp(score - score.max(axis=1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def per_cost(lam: Array, cost: Array | None) -> Array:
    """Convert shares of the cost into shares of the measurements, (R, K); `cost` is None where costs are equal."""
    if cost is None:
        return lam
    rate = lam / cost
    return np.asarray(rate / rate.sum(axis=-1, keepdims=True))


class CTracking(ArrayState):
    """C-tracking: x_t = argmax_x sum_{s <= t} lam_{s, x} - N_{t-1, x}.

    N counts the arms that were picked, before their results arrive, so that batches are tracked correctly.

    Examples
    --------
    >>> tracker = CTracking(2, Streams.of(0, 1))
    >>> [int(tracker.pick(np.array([[0.26, 0.74]]))[0]) for _ in range(4)]
    [1, 0, 1, 1]
    """

    _arrays = ("_lag",)

    def __init__(self, arms: int, streams: Streams) -> None:
        self._lag = 1e-9 * streams.normal(arms)  # random ties
        self._rows = np.arange(len(streams))

    def pick(self, lam: Array) -> Arm:
        """Add the shares lam, (R, K) or (K,), and return the arm with the largest deficit per replication, (R,)."""
        self._lag += lam
        arm: Arm = self._lag.argmax(axis=1)
        self._lag[self._rows, arm] -= 1.0
        return arm


def g_optimal(arms: Arms | Array, *, gap: float = 1e-3, max_steps: int = 100_000) -> Array:
    """Compute a G-optimal design up to a relative `gap`, by the Frank-Wolfe algorithm with away steps.

        lam_G = argmin_lam max_x x' A(lam)^-1 x,   A(lam) = sum_x lam_x x x'

    By the equivalence theorem of Kiefer and Wolfowitz the optimal value is the rank of the arms (d when they span R^d),
    so that max_x x' A(lam)^-1 x / rank - 1 is a certified relative gap.

    Examples
    --------
    >>> g_optimal(np.eye(4))
    array([0.25, 0.25, 0.25, 0.25])
    """
    if not isinstance(arms, Arms):
        arms = Arms(as_float_array("arms", arms))
    check_positive("gap", gap)
    check_integer("max_steps", max_steps)
    if arms.matrix is None:
        return _unit_design(arms)
    X = _reduced(arms.matrix)
    K, rank = X.shape
    lam = np.full(K, 1.0 / K)
    for step in range(max_steps):
        if step % 256 == 0:
            inverse = np.linalg.inv(X.T @ (lam[:, None] * X))
        width = np.einsum("kd,de,ke->k", X, inverse, X)
        best = int(width.argmax())
        if width[best] <= rank * (1.0 + gap):
            return lam
        support = np.flatnonzero(lam)
        worst = int(support[width[support].argmin()])
        if width[best] - rank >= rank - width[worst]:
            chosen, move = best, (width[best] / rank - 1.0) / (width[best] - 1.0)
        else:  # an away step, limited so that the arm's share stays non-negative
            limit = lam[worst] / (1.0 - lam[worst]) if lam[worst] < 1.0 else 0.0
            ideal = (1.0 - width[worst] / rank) / (width[worst] - 1.0) if width[worst] > 1.0 else np.inf
            chosen, move = worst, -min(limit, ideal)
        lam *= 1.0 - move
        lam[chosen] = max(0.0, lam[chosen] + move)
        x = inverse @ X[chosen] / (1.0 - move)
        inverse = inverse / (1.0 - move) - np.outer(x, x) * move / (1.0 + move * float(X[chosen] @ x))
    raise ParameterError(f"no design within {gap:g} of the optimum in {max_steps} steps; allow a larger gap")


def _unit_design(arms: Arms) -> Array:
    """Return the uniform design over components, each measured by its arm with the largest coefficient."""
    gain, arm_of = arms.strongest
    chosen = arm_of[gain > 0.0]
    lam = np.zeros(len(arms))
    lam[chosen] = 1.0 / len(chosen)
    return lam


def _reduced(matrix: Array) -> Array:
    """Return coordinates of the arms in their span."""
    u, singular, _ = np.linalg.svd(matrix, full_matrices=False)
    kept = singular > singular[0] * max(matrix.shape) * np.finfo(float).eps
    return np.asarray(u[:, kept] * singular[kept])

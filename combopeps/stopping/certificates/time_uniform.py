"""Two time-uniform tests of "z_hat is best", for any way of sampling.

Both rest on a mixture of exp(lam S - lam^2 n / 2), a martingale in the accumulated errors S. With probability 1 - delta
no wrong answer ever passes.

Supports
    Coordinates are measured separately. A wrong z_hat is wrong in a block (one swap, detour or cycle) whose errors have
    known signs: one-sided mixtures on that block, and a union over blocks (`ArgmaxOracle.confusions`).
Ellipsoid
    (theta_LS - theta*)' G (G + rho I)^-1 G (theta_LS - theta*) <= 2 ln(1/delta) + ln det(I + G/rho): no union, and no
    bound on |theta*|, but all directions are paid for.

Several rho are tried, in measurements (of a component's strongest arm; spread over all arms); each gets its share of
delta.

Which components can an answer have that is not refuted yet? For sets that take theta >= 0 only.

The evidence against an answer z is a sum over the components where it differs from z_hat: at a multiplier lam it is

    offset(lam) + sum_{a in z} length_a(lam) - sum_{a in z_hat} length_a(lam),    length_a >= 0,

and the least that answers with component a have is the shortest one through a. Two searches (`ArgmaxOracle.through`)
find it for all components at once; where it exceeds the target at some lam, all answers with a are refuted. What is
ruled out is taken away, others then have to go further round, and so on until nothing changes. Each component has the
lam that suits it: answers could only be split further by forcing components in, which is NP-hard.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles.base import ArgmaxOracle, Array, Sparse, as_sparse
from combopeps.oracles.constrained_argmax import can_force
from combopeps.posterior.arms import Arms
from combopeps.posterior.least_squares import Measurements
from combopeps.posterior.normal import Normal
from combopeps.stopping.certificates._kernels import spend
from combopeps.stopping.certificates.alpha_spending import share_at
from combopeps.stopping.certificates.glr import closest, glr_bound, glr_values, listed_rows
from combopeps.stopping.certificates.lagrangian import (
    Bound,
    HalfNormal,
    conjugate_table,
    lagrangian_bound,
    unique_supports,
)
from combopeps.utils.state_dict import StateDict, array, fill, real, whole

Bools = NDArray[np.bool_]

_SWEEPS = 20


def can_rule_out(oracle: ArgmaxOracle) -> bool:
    """Are answers of the kind that this is for, and is there a search through every component?"""
    if oracle.domain == "real" or not can_force(oracle):
        return False
    return oracle.through(np.zeros((1, oracle.dim))) is not None


def rule_out(
    oracle: ArgmaxOracle, z_hat: Array, lengths: Array, offset: Array, left: Bools, target: float
) -> tuple[float, int]:
    """Take a component out of `left` if the evidence against every answer with it reaches the target.

    `lengths`, (L, d), and `offset`, (L,), are for L multipliers. Returns the least evidence against an answer that is
    left (infinite if there is none), and the calls of the oracle.
    """
    inside = z_hat != 0.0
    left &= ~inside
    most = np.where(inside, lengths, 0.0).sum(axis=1)
    value, calls = np.inf, 0
    while left.any() and calls < _SWEEPS * len(lengths):
        within = np.where(left | inside, lengths, 0.0)
        far = 2.0 * np.abs(within).sum(axis=1, keepdims=True)
        hidden = np.maximum(-within, 0.0).sum(axis=1) + oracle.resolution * far[:, 0]  # by clipping, and by rounding
        best = oracle.through(np.maximum(np.where(left | inside, lengths, far), 0.0))
        assert best is not None
        calls += len(lengths)
        evidence = ((offset - most - hidden)[:, None] - best / abs(oracle.unit)).max(axis=0)
        value = float(evidence[left].min())
        refuted = left & (evidence >= target)
        if not refuted.any():
            return value, calls
        left &= ~refuted
    return (value if left.any() else np.inf), calls


RHOS = (8.0, 64.0, 512.0, 4096.0)  # measurements of a coordinate at which the mixture is sharpest
_MOST_RIVALS = 512  # the least refuted ones
_CHANCE = 0.1  # share of the ellipsoid's delta for randomised certificates, where there is no other
_SPREAD = 0.7  # of the measurements at most: for the least known arms, where answers turn up that were not known
_LAMS, _RANGE = 24, 3e5  # multipliers at which components are ruled out, and their range
_EVALUATIONS = 20  # of an entry, until the best lam of its row is found


@dataclass(frozen=True)
class Outcome:
    """How one test came out: `bound.value` against `threshold`, at the most promising rho."""

    bound: Bound
    threshold: float
    rho: float

    @property
    def passed(self) -> bool:
        """Whether z_hat is certified."""
        return self.bound.value >= self.threshold


class SupportTest:
    """One-sided mixtures on the supports of differences."""

    def __init__(self, oracle: ArgmaxOracle, arms: Arms, delta: float, epsilon: float) -> None:
        self.oracle, self.epsilon = oracle, epsilon
        self.gain = arms.strongest[0]  # what a measurement adds to n_a
        confusions = oracle.confusions(whole=epsilon > 0)
        assert confusions is not None
        self.charge = confusions.charge
        self.threshold = log(1 / delta) + confusions.log_count + log(len(RHOS))
        self.rivals: Array = np.zeros((0, oracle.dim))
        self.novelty = 0.0  # the share of answers in the way that `rivals` did not hold before, or has no room for
        self.work = 0  # numbers that the last run went through
        self.left = np.ones(oracle.dim, dtype=bool)  # components that may be in a better answer than z_hat
        self._z_hat: Array | None = None

    def state_dict(self) -> StateDict:
        """What was found so far, as plain data."""
        found = {"rivals": self.rivals, "novelty": float(self.novelty), "work": int(self.work), "left": self.left}
        return found | ({} if self._z_hat is None else {"z_hat": self._z_hat})

    def load_state_dict(self, data: StateDict) -> None:
        """Take that back."""
        dim = self.oracle.dim
        self.rivals, self.novelty = array(data["rivals"], np.float64, None, dim), real(data["novelty"])
        self.work = whole(data["work"])
        fill(self.left, data["left"])
        self._z_hat = array(data["z_hat"], np.float64, dim) if "z_hat" in data else None

    @staticmethod
    def fits(oracle: ArgmaxOracle, arms: Arms, z_hat: Array, epsilon: float) -> bool:
        """Unit arms, and answers that can be listed or forced."""
        reachable = can_force(oracle) or listed_rows(oracle, z_hat, epsilon) is not None
        return arms.are_units and reachable and oracle.confusions(whole=epsilon > 0) is not None

    def run(self, data: Measurements, z_hat: Array) -> Outcome | None:
        """None until every arm has been measured; with theta >= 0, those of z_hat at least."""
        if self._z_hat is None or not np.array_equal(z_hat, self._z_hat):
            self._z_hat, self.rivals = z_hat.copy(), self.rivals[:0]
            self.left[:] = True
        n = self.information(data)
        if not (n[z_hat != 0.0] > 0.0).all():
            return None
        estimate = self.estimate(data)
        if estimate is None:
            return None
        listed = listed_rows(self.oracle, z_hat, self.epsilon)
        if listed is not None:
            return self._closed_form(listed, n, estimate, z_hat)
        return self._by_oracle(n, estimate, z_hat)

    def estimate(self, data: Measurements) -> Normal | None:
        """Least squares; where theta >= 0, with the smallest value for what has not been measured."""
        if data.complete or self.oracle.domain == "real":
            return data.least_squares()
        n = self.information(data)
        with np.errstate(divide="ignore"):
            return Normal(np.where(n > 0.0, data.moment / np.maximum(n, 1e-300), 0.0), 1.0 / n)

    def information(self, data: Measurements) -> Array:
        """n_a; infinite where there is no arm, because answers do not differ there."""
        return np.where(self.gain > 0.0, data.information, np.inf)

    def _closed_form(self, rows: Sparse, n: Array, estimate: Normal, z_hat: Array) -> Outcome:
        """All rho at once: min_x ln sum_rho exp(f_rho(x)) >= ln sum_rho exp(min_x f_rho(x))."""
        values = self._values(rows, n, estimate, z_hat)
        together = np.logaddexp.reduce(values, axis=0)
        self.rivals, self.work = closest(rows, together), len(RHOS) * _EVALUATIONS * rows.nnz
        self.novelty = 1.0 - len(self.rivals) / max((together < self.threshold).sum(), len(self.rivals))
        rho = RHOS[int(values[:, together.argmin()].argmax())]
        return Outcome(Bound(float(together.min()), 0, self.rivals), self.threshold, rho)

    def _by_oracle(self, n: Array, estimate: Normal, z_hat: Array) -> Outcome:
        """Groups of answers at the rho that serves best against the rivals known so far."""
        counts = n[self.gain > 0.0] / self.gain[self.gain > 0.0]
        rho = min(RHOS, key=lambda rho: abs(log(rho / max(1.0, float(np.median(counts))))))
        if len(self.rivals):
            values = self._values(as_sparse(self.rivals), n, estimate, z_hat)
            best = int(values.min(axis=1).argmax())
            rho, self.rivals = RHOS[best], self.rivals[np.argsort(values[best])[:_MOST_RIVALS]]
        penalty, known = self.penalty(n, rho, z_hat, estimate), len(self.rivals)
        if can_rule_out(self.oracle):
            self._rule_out(n, estimate, z_hat)
            self.rivals = self.rivals[~(self.rivals[:, ~self.left & (z_hat == 0.0)] != 0.0).any(axis=1)]
            known = len(self.rivals)
        found = lagrangian_bound(
            self.oracle, z_hat, estimate.theta, penalty, target=self.threshold, epsilon=self.epsilon, left=self.left
        )
        self.rivals = unique_supports(np.concatenate([self.rivals, found.rivals]))
        self.novelty = (len(self.rivals) - known) / max(1, len(found.rivals)) if known else 0.0
        self.work = found.oracle_calls * self.oracle.dim
        return Outcome(found, self.threshold, rho)

    def _rule_out(self, n: Array, estimate: Normal, z_hat: Array) -> None:
        """Components of refuted answers only, at any rho."""
        length = float(np.abs(estimate.theta[z_hat != 0.0]).sum())
        lams = self.threshold / max(length, 1e-300) * np.geomspace(1.0, _RANGE, _LAMS)
        signs, size = np.where(z_hat != 0.0, 1.0, -1.0), abs(self.oracle.unit)
        for rho in RHOS:
            pen = self.penalty(n, rho, z_hat, estimate).matrix(size * lams)
            lengths = size * lams[:, None] * estimate.theta + signs * pen
            rule_out(self.oracle, z_hat, lengths, lams * self.epsilon, self.left, self.threshold)

    def _values(self, rows: Sparse, n: Array, estimate: Normal, z_hat: Array) -> Array:
        """Of every row, for every rho."""
        gaps = estimate.gaps(rows) + self.epsilon
        return np.stack([self.penalty(n, rho, z_hat, estimate).best(rows, gaps)[1] for rho in RHOS])

    def kappa(self, z_hat: Array) -> Array:
        """What the union charges for the components of z_hat."""
        return np.where(z_hat != 0.0, self.charge, 0.0)

    def penalty(self, n: Array, rho: float, z_hat: Array, estimate: Normal) -> HalfNormal:
        """What errors cost, charges included."""
        return HalfNormal(n, rho * self.gain, self.kappa(z_hat), self.limit(z_hat, estimate))

    def limit(self, z_hat: Array, estimate: Normal) -> Array:
        """By how much what z_hat does without may be shorter than it looks: lengths are not negative."""
        free = (z_hat != 0.0) | (self.oracle.domain == "real")
        return np.where(free, np.inf, estimate.theta)

    def direct(self, data: Measurements, z_hat: Array, rho: float, count: int) -> NDArray[np.int64] | None:
        """Arms for the least refuted answers first, as if the measurements to come changed nothing but the widths."""
        estimate = self.estimate(data)
        assert estimate is not None
        rows = as_sparse(self.rivals)
        gaps = estimate.gaps(rows) + self.epsilon
        if (gaps <= 0).any():
            return None  # an exact tie: nothing is to be said about which measurements would break it
        n = self.information(data)
        values = self.penalty(n, rho, z_hat, estimate).best(rows, gaps)[1]
        if (values > self.threshold).all():
            # The bound is not tight: no known answer is in the way, but too little is known about some components.
            least = np.argsort(data.counts, kind="stable")[: -(-len(data.counts) // 2)]
            return np.resize(least, count)
        known = count - int(_SPREAD * self.novelty * count) if not can_rule_out(self.oracle) else count
        chosen, kappa = np.empty(known, dtype=np.int64), self.kappa(z_hat)
        rhos, limit, arm_of = rho * self.gain, self.limit(z_hat, estimate), data.arms.strongest[1]
        pattern = rows.indptr, rows.indices, rows.data
        spend(*pattern, gaps, n, self.gain, rhos, kappa, limit, values, chosen, *conjugate_table())
        return np.asarray(arm_of[np.concatenate([chosen, _level(n, self.gain, count - known)])])


class EllipsoidTest:
    """The ellipsoid of all directions."""

    def __init__(self, oracle: ArgmaxOracle, delta: float, epsilon: float) -> None:
        self.oracle, self.delta, self.epsilon = oracle, delta, epsilon

    def run(
        self, data: Measurements, z_hat: Array, rivals: Array, rng: np.random.Generator, randomised: bool
    ) -> Outcome | None:
        """None until every direction has been measured; known rivals that refute it save the oracle calls."""
        delta = self.delta * ((1.0 - _CHANCE) if randomised else 1.0)
        best: Outcome | None = None
        listed = listed_rows(self.oracle, z_hat, self.epsilon)
        rows = listed if listed is not None else as_sparse(rivals)
        facets = listed_rows(self.oracle, z_hat) if listed is None else None
        for rho in RHOS:
            estimate = data.least_squares(rho)
            if estimate is None:
                return None
            threshold = log(len(RHOS) / delta) + 0.5 * _log_det(data, rho)
            if facets is not None and (proved := float(glr_values(facets, estimate, 0.0).min())) >= threshold:
                return Outcome(Bound(proved, 0, rivals), threshold, rho)  # z_hat is the best
            value = float(glr_values(rows, estimate, self.epsilon).min(initial=np.inf))
            if best is None or value - threshold > best.bound.value - best.threshold:
                best = Outcome(Bound(value, 0, rivals), threshold, rho)
        if best is not None and listed is None and best.passed:
            estimate = data.least_squares(best.rho)
            assert estimate is not None
            nu = _CHANCE * self.delta * share_at(data.samples)
            bound = glr_bound(self.oracle, z_hat, estimate, target=best.threshold, nu=nu, rng=rng, epsilon=self.epsilon)
            best = Outcome(bound, best.threshold, best.rho)
        return best


def _level(n: Array, gain: Array, count: int) -> NDArray[np.int64]:
    """Coordinates for so many measurements that raise the smallest n_a to one level."""
    at = np.flatnonzero(gain)
    need = np.sort(n[at] / gain[at])
    level = (count + np.cumsum(need)) / np.arange(1, len(need) + 1)  # if the i smallest are raised
    i = np.flatnonzero(np.append(level[:-1] <= need[1:], True))[0]
    missing = np.maximum(level[i] - n[at] / gain[at], 0.0)
    times = np.diff(np.floor(np.cumsum(missing) + 1e-9), prepend=0.0).astype(np.int64)
    return np.repeat(at, times)


def _log_det(data: Measurements, rho: float) -> float:
    """ln det(I + R^-1 G), R the information of rho measurements."""
    if data.arms.are_units:
        gain = data.arms.strongest[0]
        at = gain > 0.0
        return float(np.log1p(data.information[at] / (rho * gain[at])).sum())
    return float(np.linalg.slogdet(np.eye(len(data.information)) + data.information / rho)[1])

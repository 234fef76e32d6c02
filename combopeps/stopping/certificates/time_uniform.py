"""Time-uniform tests of "z_hat is best" under any sampling rule, and elimination of components.

Both tests rest on mixtures of exp(lam S - lam^2 n / 2), a martingale in the accumulated errors S of n measurements.
With probability 1 - delta, no wrong answer ever passes.

`SupportTest`
    For arms that measure one component each. If z_hat is wrong, it is wrong on a block (one swap, detour or cycle)
    whose errors have known signs: one-sided mixtures on the block, and a union bound over blocks
    (`ArgmaxOracle.confusions`).
`EllipsoidTest`
    (theta_LS - theta*)' G (G + rho I)^-1 G (theta_LS - theta*) <= 2 ln(1/delta) + ln det(I + G/rho): no union bound and
    no bound on |theta*|, but a cost for every direction.

Both use several values of rho, in units of measurements (of the strongest arm of a component; for the ellipsoid, of all
arms together), with equal shares of delta.

`rule_out` finds, for oracles with theta >= 0 only, the components that belong to no unrefuted answer. At a multiplier
lam the evidence against an answer z is

    offset(lam) + sum_{a in z} length_a(lam) - sum_{a in z_hat} length_a(lam),    length_a >= 0,

and the least evidence over the answers with component a is attained by the shortest one through a. Two searches
(`ArgmaxOracle.through`) find it for all components at once. If it exceeds the target at some lam, all answers with a
are refuted, and a is removed. This makes the shortest answers through other components longer, so the search is
repeated until nothing changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles.base import ArgmaxOracle, Array, Sparse, as_sparse
from combopeps.oracles.constrained_argmax import can_constrain
from combopeps.posterior.arms import Arms
from combopeps.posterior.gaussian import Normal
from combopeps.posterior.least_squares import Measurements
from combopeps.stopping.certificates._kernels import allocate
from combopeps.stopping.certificates.alpha_spending import share_at
from combopeps.stopping.certificates.glr import closest, glr_bound, glr_values, listed_rows
from combopeps.stopping.certificates.lagrangian import (
    Bound,
    HalfNormal,
    conjugate_table,
    lagrangian_bound,
    unique_supports,
)
from combopeps.utils.state_dict import StateDict, array, finite_float, integer, load_into

Bools = NDArray[np.bool_]

RHOS = (8.0, 64.0, 512.0, 4096.0)  # measurements of a coordinate at which the mixture is tightest
_MAX_SWEEPS = 20  # of `rule_out`
_MAX_RIVALS = 512  # kept from one look to the next: those with the least evidence against them
_RANDOMISED_SHARE = 0.1  # of the ellipsoid's delta for randomised certificates, where there is no other
_MAX_LEVELLING_SHARE = 0.7  # of the measurements for the least measured arms, while new rivals keep turning up
_LAMS, _LAM_RANGE = 24, 3e5  # number of multipliers at which components are ruled out, and their ratio
_EVALUATIONS = 20  # of the penalty of an entry, until the best lam of its row is found: the unit of `work`


def can_rule_out(oracle: ArgmaxOracle) -> bool:
    """Return whether the oracle takes theta >= 0 only and finds the shortest answer through every component."""
    if oracle.domain == "real" or not can_constrain(oracle):
        return False
    return oracle.through(np.zeros((1, oracle.dim))) is not None


def rule_out(
    oracle: ArgmaxOracle, z_hat: Array, lengths: Array, offset: Array, candidates: Bools, target: float
) -> tuple[float, int]:
    """Remove a component from `candidates`, in place, if the evidence against every answer with it reaches the target.

    Parameters
    ----------
    lengths, offset
        Evidence at L multipliers, (L, d) and (L,).
    candidates
        Components outside z_hat that may belong to an unrefuted answer.

    Returns
    -------
    value
        The least evidence against an answer that remains; infinite if there is none.
    calls
        Oracle calls.
    """
    inside = z_hat != 0.0
    candidates &= ~inside
    base = np.where(inside, lengths, 0.0).sum(axis=1)
    value, calls = np.inf, 0
    while candidates.any() and calls < _MAX_SWEEPS * len(lengths):
        within = np.where(candidates | inside, lengths, 0.0)
        far = 2.0 * np.abs(within).sum(axis=1, keepdims=True)  # a length that excludes removed components
        # Negative lengths are clipped, and the oracle rounds: subtract the most that either can add.
        error = np.maximum(-within, 0.0).sum(axis=1) + oracle.resolution * far[:, 0]
        best = oracle.through(np.maximum(np.where(candidates | inside, lengths, far), 0.0))
        assert best is not None
        calls += len(lengths)
        evidence = ((offset - base - error)[:, None] - best / abs(oracle.unit)).max(axis=0)
        value = float(evidence[candidates].min())
        refuted = candidates & (evidence >= target)
        if not refuted.any():
            return value, calls
        candidates &= ~refuted
    return (value if candidates.any() else np.inf), calls


@dataclass(frozen=True)
class Outcome:
    """The result of a test: `bound.value` against `threshold`, at the best rho."""

    bound: Bound
    threshold: float
    rho: float

    @property
    def passed(self) -> bool:
        """Whether z_hat is certified."""
        return self.bound.value >= self.threshold


class SupportTest:
    """The test by one-sided mixtures on the supports of differences between answers.

    Attributes
    ----------
    candidates
        Components that may belong to a better answer than z_hat.
    rivals
        The answers found with the least evidence against them, as rows z - z_hat.
    novelty
        Share of the unrefuted answers found by the last run that were not among `rivals` before, or exceed their
        number.
    work
        Numbers processed by the last run, by which looks are spaced.
    """

    def __init__(self, oracle: ArgmaxOracle, arms: Arms, delta: float, epsilon: float) -> None:
        self.oracle, self.epsilon = oracle, epsilon
        self.gain = arms.strongest[0]  # increase of n_a per measurement
        confusions = oracle.confusions(whole=epsilon > 0)
        assert confusions is not None
        self.charge = confusions.charge
        self.threshold = log(1 / delta) + confusions.log_count + log(len(RHOS))
        self.rivals: Array = np.zeros((0, oracle.dim))
        self.novelty, self.work = 0.0, 0
        self.candidates = np.ones(oracle.dim, dtype=bool)
        self._z_hat: Array | None = None

    def state_dict(self) -> StateDict:
        """Return the findings of earlier runs as plain data."""
        found = {"rivals": self.rivals, "novelty": float(self.novelty), "work": int(self.work), "left": self.candidates}
        return found | ({} if self._z_hat is None else {"z_hat": self._z_hat})

    def load_state_dict(self, data: StateDict) -> None:
        """Restore the findings of earlier runs."""
        dim = self.oracle.dim
        self.rivals, self.novelty = array(data["rivals"], np.float64, None, dim), finite_float(data["novelty"])
        self.work = integer(data["work"])
        load_into(self.candidates, data["left"])
        self._z_hat = array(data["z_hat"], np.float64, dim) if "z_hat" in data else None

    @staticmethod
    def fits(oracle: ArgmaxOracle, arms: Arms, z_hat: Array, epsilon: float) -> bool:
        """Return whether the test applies: unit arms, and rivals that can be listed or searched with constraints."""
        reachable = can_constrain(oracle) or listed_rows(oracle, z_hat, epsilon) is not None
        return arms.are_units and reachable and oracle.confusions(whole=epsilon > 0) is not None

    def run(self, data: Measurements, z_hat: Array) -> Outcome | None:
        """Run the test; None until every arm (with theta >= 0, every component of z_hat) has been measured."""
        if self._z_hat is None or not np.array_equal(z_hat, self._z_hat):
            self._z_hat, self.rivals = z_hat.copy(), self.rivals[:0]
            self.candidates[:] = True
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
        """Return the least-squares estimate; with theta >= 0, unmeasured components are estimated as 0."""
        if data.complete or self.oracle.domain == "real":
            return data.least_squares()
        n = self.information(data)
        with np.errstate(divide="ignore"):
            return Normal(np.where(n > 0.0, data.moment / np.maximum(n, 1e-300), 0.0), 1.0 / n)

    def information(self, data: Measurements) -> Array:
        """Return n_a; infinite for components without an arm, in which answers do not differ."""
        return np.where(self.gain > 0.0, data.information, np.inf)

    def _closed_form(self, rows: Sparse, n: Array, estimate: Normal, z_hat: Array) -> Outcome:
        """Combine all rho, by min_x ln sum_rho exp(f_rho(x)) >= ln sum_rho exp(min_x f_rho(x)) over the errors x."""
        values = self._values(rows, n, estimate, z_hat)
        mixture = np.logaddexp.reduce(values, axis=0)
        self.rivals, self.work = closest(rows, mixture), len(RHOS) * _EVALUATIONS * rows.nnz
        self.novelty = 1.0 - len(self.rivals) / max((mixture < self.threshold).sum(), len(self.rivals))
        rho = RHOS[int(values[:, mixture.argmin()].argmax())]
        return Outcome(Bound(float(mixture.min()), 0, self.rivals), self.threshold, rho)

    def _by_oracle(self, n: Array, estimate: Normal, z_hat: Array) -> Outcome:
        """Bound the evidence over all answers at one rho, the best one against the rivals known so far."""
        counts = n[self.gain > 0.0] / self.gain[self.gain > 0.0]
        rho = min(RHOS, key=lambda rho: abs(log(rho / max(1.0, float(np.median(counts))))))
        if len(self.rivals):
            values = self._values(as_sparse(self.rivals), n, estimate, z_hat)
            best = int(values.min(axis=1).argmax())
            rho, self.rivals = RHOS[best], self.rivals[np.argsort(values[best])[:_MAX_RIVALS]]
        penalty, known = self.penalty(n, rho, z_hat, estimate), len(self.rivals)
        if can_rule_out(self.oracle):
            self._rule_out(n, estimate, z_hat)
            self.rivals = self.rivals[~(self.rivals[:, ~self.candidates & (z_hat == 0.0)] != 0.0).any(axis=1)]
            known = len(self.rivals)
        found = lagrangian_bound(
            self.oracle,
            z_hat,
            estimate.theta,
            penalty,
            target=self.threshold,
            epsilon=self.epsilon,
            candidates=self.candidates,
        )
        self.rivals = unique_supports(np.concatenate([self.rivals, found.rivals]))
        self.novelty = (len(self.rivals) - known) / max(1, len(found.rivals)) if known else 0.0
        self.work = found.oracle_calls * self.oracle.dim
        return Outcome(found, self.threshold, rho)

    def _rule_out(self, n: Array, estimate: Normal, z_hat: Array) -> None:
        """Remove the components that belong to refuted answers only, at any rho."""
        length = float(np.abs(estimate.theta[z_hat != 0.0]).sum())
        lams = self.threshold / max(length, 1e-300) * np.geomspace(1.0, _LAM_RANGE, _LAMS)
        signs, size = np.where(z_hat != 0.0, 1.0, -1.0), abs(self.oracle.unit)
        for rho in RHOS:
            pen = self.penalty(n, rho, z_hat, estimate).matrix(size * lams)
            lengths = size * lams[:, None] * estimate.theta + signs * pen
            rule_out(self.oracle, z_hat, lengths, lams * self.epsilon, self.candidates, self.threshold)

    def _values(self, rows: Sparse, n: Array, estimate: Normal, z_hat: Array) -> Array:
        """Compute the evidence against every row at every rho, (len(RHOS), n)."""
        gaps = estimate.gaps(rows) + self.epsilon
        return np.stack([self.penalty(n, rho, z_hat, estimate).best(rows, gaps)[1] for rho in RHOS])

    def kappa(self, z_hat: Array) -> Array:
        """Return the charge of the union bound for each component of z_hat."""
        return np.where(z_hat != 0.0, self.charge, 0.0)

    def penalty(self, n: Array, rho: float, z_hat: Array, estimate: Normal) -> HalfNormal:
        """Return the penalty of errors at rho, charges included."""
        return HalfNormal(n, rho * self.gain, self.kappa(z_hat), self.limit(z_hat, estimate))

    def limit(self, z_hat: Array, estimate: Normal) -> Array:
        """Return the largest overestimate of every component: with theta >= 0, theta_hat_a outside z_hat."""
        unlimited = (z_hat != 0.0) | (self.oracle.domain == "real")
        return np.where(unlimited, np.inf, estimate.theta)

    def direct(self, data: Measurements, z_hat: Array, rho: float, count: int) -> NDArray[np.int64] | None:
        """Choose `count` arms against the least refuted answers; None when an answer ties exactly with z_hat.

        The choice assumes that further measurements change the widths but not the estimate.
        """
        estimate = self.estimate(data)
        assert estimate is not None
        rows = as_sparse(self.rivals)
        gaps = estimate.gaps(rows) + self.epsilon
        if (gaps <= 0).any():
            return None  # an exact tie: the estimate does not determine which measurements would break it
        n = self.information(data)
        values = self.penalty(n, rho, z_hat, estimate).best(rows, gaps)[1]
        if (values > self.threshold).all():
            # The bound is not tight: all known answers are refuted, but some components are measured too rarely.
            least = np.argsort(data.counts, kind="stable")[: -(-len(data.counts) // 2)]
            return np.resize(least, count)
        targeted = count - int(_MAX_LEVELLING_SHARE * self.novelty * count) if not can_rule_out(self.oracle) else count
        chosen, kappa = np.empty(targeted, dtype=np.int64), self.kappa(z_hat)
        rhos, limit, arm_of = rho * self.gain, self.limit(z_hat, estimate), data.arms.strongest[1]
        pattern = rows.indptr, rows.indices, rows.data
        allocate(*pattern, gaps, n, self.gain, rhos, kappa, limit, values, chosen, *conjugate_table())
        return np.asarray(arm_of[np.concatenate([chosen, _level(n, self.gain, count - targeted)])])


class EllipsoidTest:
    """The test by a confidence ellipsoid, for any arms."""

    def __init__(self, oracle: ArgmaxOracle, delta: float, epsilon: float) -> None:
        self.oracle, self.delta, self.epsilon = oracle, delta, epsilon

    def run(
        self, data: Measurements, z_hat: Array, rivals: Array, rng: np.random.Generator, randomised: bool
    ) -> Outcome | None:
        """Run the test; None until every direction has been measured.

        The oracle is called only if all `rivals`, which other tests have found, are refuted. `randomised` reserves a
        share of delta for a randomised `glr_bound`.
        """
        delta = self.delta * ((1.0 - _RANDOMISED_SHARE) if randomised else 1.0)
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
            nu = _RANDOMISED_SHARE * self.delta * share_at(data.samples)
            bound = glr_bound(self.oracle, z_hat, estimate, target=best.threshold, nu=nu, rng=rng, epsilon=self.epsilon)
            best = Outcome(bound, best.threshold, best.rho)
        return best


def _level(n: Array, gain: Array, count: int) -> NDArray[np.int64]:
    """Return components for `count` measurements that raise the smallest n_a to a common level."""
    at = np.flatnonzero(gain)
    need = np.sort(n[at] / gain[at])
    level = (count + np.cumsum(need)) / np.arange(1, len(need) + 1)  # reached when the i smallest are raised
    i = np.flatnonzero(np.append(level[:-1] <= need[1:], True))[0]
    missing = np.maximum(level[i] - n[at] / gain[at], 0.0)
    times = np.diff(np.floor(np.cumsum(missing) + 1e-9), prepend=0.0).astype(np.int64)
    return np.repeat(at, times)


def _log_det(data: Measurements, rho: float) -> float:
    """Compute ln det(I + R^-1 G), R the information of rho measurements."""
    if data.arms.are_units:
        gain = data.arms.strongest[0]
        at = gain > 0.0
        return float(np.log1p(data.information[at] / (rho * gain[at])).sum())
    return float(np.linalg.slogdet(np.eye(len(data.information)) + data.information / rho)[1])

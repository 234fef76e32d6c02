"""Bets on fresh measurements in rounds, against all answers of a set that cannot be listed and takes theta >= 0 only.

z_hat is fixed, and so are, before every round, how often each component is measured in it and a weight w. With the
means D_a of a round, their planned variances v_a, their variances V_a under the standard errors of the results
(`fresh`; V_a = v_a unless results come with their own), and a multiplier lam, the evidence against z grows by

    sum_{a in z, not z_hat} (m_a D_a - m_a^2 V_a / 2)  -  sum_{a in z_hat, not z} (m D_a + m^2 V_a / 2)  +  m epsilon,

m = lam w and m_a = min(m, theta~_a / v_a), theta~ an estimate from before the round. If z is better in truth by epsilon
or more, exp(evidence) is a supermartingale from 1: a component that is known badly counts for less than it is, which is
fair because theta >= 0, and keeps its term from being negative. At a multiplier with the share p of alpha it ever
reaches 1 / (alpha p) with probability alpha p at most. That holds for the best answer, whichever it is: when all others
than z_hat are refuted, z_hat is confirmed, without a union over answers or components (intersection-union test).

Components that no answer has which is not refuted (`elimination`) are measured no more.
"""

from __future__ import annotations

from math import ceil, log

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles.base import ArgmaxOracle, Array, Sparse, as_sparse
from combopeps.posterior.arms import Arms
from combopeps.posterior.least_squares import Measurements
from combopeps.posterior.normal import Normal, row_sums
from combopeps.stopping.certificates.e_process import complete_estimate
from combopeps.stopping.certificates.lagrangian import Bound, Gaussian, lagrangian_bound, unique_supports
from combopeps.stopping.certificates.time_uniform import Bools, Outcome, can_rule_out, rule_out
from combopeps.stopping.requests import FreshResults
from combopeps.utils.state_dict import StateDict, array, numbers, whole

_FACTOR = 1.6  # between multipliers: the best one is missed by 5 % of the evidence at most
_ROOM = 2.0  # how much further they go than the exploration says, either way
_BELOW, _FAR, _DOUBT = 2.0, 12, 0.3  # multipliers below all of those: the factor between, their number, and their share
_LESS = 0.7  # share of each of them, in that of the one before
_SLACK = 1.0  # nats beyond the goal
_ROUND = 0.15  # of all measurements: the size of a round, where all components take less
_MOST_RIVALS = 1024


class BettingTest:
    """Attempts to confirm the current answer, one after the other; the j-th gets the share 1 / (j (j + 1)) of delta.

    An attempt ends when another answer is ahead in all data by more than epsilon / 2. `fresh` are the results of the
    measurements that it requests.
    """

    def __init__(self, oracle: ArgmaxOracle, delta: float, epsilon: float) -> None:
        self.oracle, self.delta, self.epsilon = oracle, delta, epsilon
        self.attempts = 0
        self._attempt: Rounds | None = None

    def state_dict(self) -> StateDict:
        """How the attempts went, as plain data."""
        attempt = None if self._attempt is None else self._attempt.state_dict()
        return {"attempts": self.attempts, "attempt": attempt}

    def load_state_dict(self, data: StateDict, arms: Arms) -> None:
        """Take that back, in a run with these arms."""
        self.attempts, known = whole(data["attempts"]), data["attempt"]
        self._attempt = None if known is None else Rounds.restored(known, arms, self.oracle, self.epsilon)

    def give_up(self) -> None:
        """End the attempt under way, if there is one."""
        self._attempt = None

    @staticmethod
    def fits(oracle: ArgmaxOracle, arms: Arms) -> bool:
        """Unit arms, and components that can be ruled out."""
        return arms.are_units and can_rule_out(oracle)

    def run(self, data: Measurements, z_hat: Array, fresh: FreshResults) -> Outcome | None:
        """What the attempt that is under way says, if its round is over; None if there is nothing to say."""
        attempt = self._attempt
        if attempt is None or not self._keeps_up(attempt.z_hat, z_hat, data):
            self._attempt = None
            return None
        if fresh.missing(attempt.wanted).any():
            return None
        calls = attempt.oracle_calls
        attempt.look(data, fresh)
        return Outcome(Bound(attempt.statistic, attempt.oracle_calls - calls, attempt.rivals), attempt.threshold, 0.0)

    @property
    def z_hat(self) -> Array | None:
        """The answer of the attempt under way."""
        return None if self._attempt is None else self._attempt.z_hat

    def _keeps_up(self, z: Array, z_hat: Array, data: Measurements) -> bool:
        """Whether an answer is still good enough to be confirmed, while z_hat is the best in all data."""
        if np.array_equal(z, z_hat):
            return True
        return self.epsilon > 0.0 and float((z_hat - z) @ complete_estimate(data).theta) <= 0.5 * self.epsilon

    def direct(
        self, data: Measurements, z_hat: Array, left: Bools, rng: np.random.Generator, fresh: FreshResults
    ) -> NDArray[np.int64]:
        """What the round wants, in random order; begins an attempt if there is none."""
        if self._attempt is None:
            self.attempts += 1
            level = self.delta / (self.attempts * (self.attempts + 1))
            self._attempt = Rounds(data, self.oracle, z_hat, level, self.epsilon, left)
            fresh.restart()
        missing = fresh.missing(self._attempt.wanted)
        return rng.permutation(np.repeat(np.arange(len(missing)), missing))


class Rounds:
    """An attempt to confirm z_hat at level alpha; `left` are the components that may be in a better answer."""

    def __init__(
        self, data: Measurements, oracle: ArgmaxOracle, z_hat: Array, level: float, epsilon: float, left: Bools
    ) -> None:
        self.oracle, self.z_hat, self.epsilon = oracle, z_hat.copy(), epsilon
        self.inside, self.left = z_hat != 0.0, left & (z_hat == 0.0)
        self.gain, self.arm_of = data.arms.strongest
        self.statistic, self.oracle_calls = -np.inf, 0
        now = complete_estimate(data)
        self.rivals = self._search(now, np.inf).rivals
        rows = as_sparse(self.rivals)
        gaps = np.sqrt(np.maximum(now.gaps(rows) + epsilon, 0.0) ** 2 + now.quadratic(rows))
        length = max(float(np.abs(now.theta[self.inside]).sum()), float(gaps.max(initial=0.0)), 1e-300)
        goal = log(100.0 / level)
        self.first = self._counts(data, rows, 2.0 * goal / gaps**2)
        variance = 1.0 / np.maximum(self.first * self.gain, 1e-300)
        slopes = gaps / np.maximum(_sums(rows, variance), 1e-300)  # the best multipliers, if gaps are what they seem
        self.lams, shares = _multipliers(
            min(goal / length, float(slopes.min(initial=np.inf))), float(slopes.max(initial=0.0))
        )
        self.threshold = log(1.0 / level)
        self.lengths, self.offset = np.zeros((len(self.lams), oracle.dim)), np.log(shares)
        self._begin(data, self.first, 1.0)

    def state_dict(self) -> StateDict:
        """How far the bets have come, as plain data."""
        return {
            "z_hat": self.z_hat, "left": self.left, "calls": int(self.oracle_calls), "rivals": self.rivals,
            "said": np.array([self.statistic, self.threshold, self.weight]), "first": self.first, "lams": self.lams,
            "lengths": self.lengths, "offset": self.offset, "guess": self.guess,
            "wanted": self.wanted,
        }  # fmt: skip

    @classmethod
    def restored(cls, data: StateDict, arms: Arms, oracle: ArgmaxOracle, epsilon: float) -> Rounds:
        """From that, of a run with this oracle and these arms."""
        rounds, d = cls.__new__(cls), oracle.dim
        rounds.oracle, rounds.epsilon, rounds.z_hat = oracle, epsilon, array(data["z_hat"], np.float64, d)
        rounds.inside, rounds.left = rounds.z_hat != 0.0, array(data["left"], np.bool_, d)
        rounds.gain, rounds.arm_of = arms.strongest
        rounds.oracle_calls, rounds.rivals = whole(data["calls"]), array(data["rivals"], np.float64, None, d)
        rounds.statistic, rounds.threshold, rounds.weight = numbers(data["said"], 3)
        rounds.first, rounds.guess = (array(data[name], np.float64, d) for name in ("first", "guess"))
        rounds.lams = array(data["lams"], np.float64, None)
        rounds.lengths = array(data["lengths"], np.float64, len(rounds.lams), d)
        rounds.offset = array(data["offset"], np.float64, len(rounds.lams))
        rounds.wanted = array(data["wanted"], np.int64, len(arms))
        return rounds

    @property
    def confirmed(self) -> bool:
        """Is every other answer refuted?"""
        return not self.left.any()

    def look(self, data: Measurements, fresh: FreshResults) -> None:
        """The round is over: take its data in, and begin the next one."""
        try:
            self._take_in(fresh)
        finally:  # an interrupted look must not take a round in twice
            fresh.restart()
        self.statistic, calls = rule_out(self.oracle, self.z_hat, self.lengths, self.offset, self.left, self.threshold)
        self.oracle_calls += calls
        if not self.confirmed:
            self._next(data)

    def _take_in(self, fresh: FreshResults) -> None:
        """What one round says."""
        estimate = fresh.estimate()
        seen = np.isfinite(estimate.spread)
        mean, variance, realised = estimate.theta[seen], estimate.spread[seen], fresh.component_variances[seen]
        multiplier = np.broadcast_to(self.weight * self.lams[:, None], (len(self.lams), int(seen.sum())))
        shrunk = np.minimum(multiplier, np.maximum(self.guess[seen], 0.0) / variance)
        multiplier = np.where(self.inside[seen], multiplier, shrunk)
        cost = np.where(self.inside[seen], 0.5, -0.5) * multiplier**2 * realised
        self.lengths[:, seen] += multiplier * mean + cost
        self.offset += self.weight * self.lams * self.epsilon / abs(self.oracle.unit)

    def _next(self, data: Measurements) -> None:
        """The hardest rivals of what is left, and counts that should refute them."""
        now = complete_estimate(data)
        found = self._search(now, self.threshold)
        if found.value == np.inf:  # what is left makes no other answer
            self.left[:], self.statistic = False, np.inf
            return
        known = np.concatenate([self.rivals, found.rivals])
        self.rivals = unique_supports(known[~(known[:, ~self.left & ~self.inside] != 0.0).any(axis=1)])
        rows = as_sparse(self.rivals)
        evidence = self._evidence(rows)
        order = np.argsort(evidence)[:_MOST_RIVALS]
        self.rivals, rows, evidence = self.rivals[order], rows[order], evidence[order]
        gap2 = np.maximum(now.gaps(rows) + self.epsilon, 0.0) ** 2 + now.quadratic(rows)
        need = np.maximum(self.threshold + _SLACK - evidence, _SLACK)
        counts = self._counts(data, rows, 2.0 * need / gap2)
        hardest = rows[[int((need / gap2).argmax())]]
        before, after = (
            float(_sums(hardest, 1.0 / np.maximum(n * self.gain, 1e-300))[0]) for n in (self.first, counts)
        )
        self._begin(data, counts, before / after)

    def _begin(self, data: Measurements, counts: Array, weight: float) -> None:
        """Fix a round."""
        self.weight, self.guess = weight, complete_estimate(data).theta
        self.wanted = np.zeros(len(data.arms), dtype=np.int64)
        at = np.flatnonzero(counts)
        self.wanted[self.arm_of[at]] = counts[at].astype(np.int64)

    def _counts(self, data: Measurements, rows: Sparse, demand: Array) -> Array:
        """Measurements of every component, so that demand_y |y|^2 <= 1 for every row, within the size of a round.

        One row alone is served best by n_a ~ sigma_a; an edge of several rows gets the most that one of them wants.
        """
        at = (self.left | self.inside) & (self.gain > 0.0)
        sigma = 1.0 / np.sqrt(np.where(at, self.gain, 1.0))
        per_row = _sums(rows, sigma) * demand
        wanted = np.zeros(self.oracle.dim)
        np.maximum.at(wanted, rows.indices, np.repeat(per_row, np.diff(rows.indptr)))
        wanted *= sigma * at
        size = max(_ROUND * data.samples, float(at.sum()))
        share = min(1.0, size / max(float(wanted.sum()), 1e-300))
        return np.where(at, np.maximum(np.rint(share * wanted), 1.0), 0.0)

    def _evidence(self, rows: Sparse) -> Array:
        """Against every row, at the best multiplier."""
        values = np.stack([_sums(rows, row * np.where(self.inside, -1.0, 1.0)) for row in self.lengths])
        return np.asarray((values + self.offset[:, None]).max(axis=0))

    def _search(self, now: Normal, target: float) -> Bound:
        """For answers that are close, made of what is left; its value is infinite if there is none at all."""
        penalty = Gaussian(now.spread)
        found = lagrangian_bound(
            self.oracle, self.z_hat, now.theta, penalty, target=target, epsilon=self.epsilon, left=self.left
        )
        self.oracle_calls += found.oracle_calls
        return found


def _multipliers(low: float, high: float) -> tuple[Array, Array]:
    """From low to high, with some room, and far below with larger steps: gaps may be much smaller than they seem.

    Returned with the share of alpha that each has.
    """
    low, high = low / _ROOM, _ROOM * max(low, high)
    core = np.geomspace(low, high, 2 + ceil(log(high / low) / log(_FACTOR)))
    tail = low / _BELOW ** np.arange(1, _FAR + 1)
    less = _LESS ** np.arange(_FAR)
    return np.append(tail, core), np.append(_DOUBT * less / less.sum(), np.full(len(core), (1.0 - _DOUBT) / len(core)))


def _sums(rows: Sparse, entries: Array) -> Array:
    """Sums of entries over the components of every row."""
    return row_sums(rows, entries[rows.indices])

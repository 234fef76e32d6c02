"""E-processes on fresh measurements against all answers of a Z that cannot be listed, for oracles with theta >= 0 only.

Before every round, the counts of all components and a weight w are fixed. Let D_a be the mean of component a in a
round, v_a its planned variance, V_a its variance under the standard errors of the results (V_a = v_a unless results
come with standard errors of their own), and lam a multiplier. The log-evidence against an answer z grows by

    sum_{a in z, not z_hat} (m_a D_a - m_a^2 V_a / 2)  -  sum_{a in z_hat, not z} (m D_a + m^2 V_a / 2)  +  m epsilon,

m = lam w and m_a = min(m, theta~_a / v_a), theta~ an estimate from before the round. If z is better than z_hat by
epsilon or more, exp(evidence) is a supermartingale with initial value 1. Reducing m to m_a is valid because
theta_a >= 0, and prevents negative terms of components with a large variance. At a multiplier with the share p of alpha
the evidence ever reaches 1 / (alpha p) with probability at most alpha p. This holds for the best answer, whichever it
is: z_hat is confirmed when all other answers are refuted. No union bound over answers or components is needed
(intersection-union test).

Components that belong to no unrefuted answer (`rule_out`) are not measured any more.
"""

from __future__ import annotations

from math import ceil, log

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles.base import ArgmaxOracle, Array, Sparse, as_sparse
from combopeps.posterior.arms import Arms
from combopeps.posterior.gaussian import Normal, row_sums
from combopeps.posterior.least_squares import Measurements
from combopeps.stopping.certificates.e_process import complete_estimate
from combopeps.stopping.certificates.lagrangian import Bound, Gaussian, lagrangian_bound, unique_supports
from combopeps.stopping.certificates.time_uniform import Bools, Outcome, can_rule_out, rule_out
from combopeps.stopping.requested_measurements import FreshResults
from combopeps.utils.state_dict import StateDict, array, integer, numbers

# The grid of multipliers: a fine core around the estimated best ones, and a coarse tail below it.
_CORE_FACTOR = 1.6  # between neighbours: at most 5 % of the evidence is lost between two of them
_CORE_MARGIN = 2.0  # factor by which the core exceeds the estimated range at both ends
_TAIL_FACTOR, _TAIL_LENGTH, _TAIL_SHARE = 2.0, 12, 0.3  # share of alpha for the tail
_TAIL_DECAY = 0.7  # ratio of the shares of neighbours in the tail
_EVIDENCE_MARGIN = 1.0  # nats planned beyond the threshold
_ROUND_FRACTION = 0.15  # size of a round relative to all measurements, unless one per component is more
_MAX_RIVALS = 1024


class BettingTest:
    """A sequence of attempts to confirm the current answer; the j-th has the share 1 / (j (j + 1)) of delta.

    An attempt ends when another answer is ahead in all data by more than epsilon / 2. The argument `fresh` of the
    methods holds the results of requested measurements.
    """

    def __init__(self, oracle: ArgmaxOracle, delta: float, epsilon: float) -> None:
        self.oracle, self.delta, self.epsilon = oracle, delta, epsilon
        self.attempts = 0
        self._attempt: BettingRounds | None = None

    def state_dict(self) -> StateDict:
        """Return the number of attempts and the current one as plain data."""
        attempt = None if self._attempt is None else self._attempt.state_dict()
        return {"attempts": self.attempts, "attempt": attempt}

    def load_state_dict(self, data: StateDict, arms: Arms) -> None:
        """Restore the state in a run with these arms."""
        self.attempts, state = integer(data["attempts"]), data["attempt"]
        self._attempt = None if state is None else BettingRounds.restored(state, arms, self.oracle, self.epsilon)

    def give_up(self) -> None:
        """End the current attempt, if there is one."""
        self._attempt = None

    @staticmethod
    def fits(oracle: ArgmaxOracle, arms: Arms) -> bool:
        """Return whether the test applies: unit arms, and an oracle that can rule components out."""
        return arms.are_units and can_rule_out(oracle)

    def run(self, data: Measurements, z_hat: Array, fresh: FreshResults) -> Outcome | None:
        """Return the outcome of the current attempt if its round is complete, else None."""
        attempt = self._attempt
        if attempt is None or not self._is_good_enough(attempt.z_hat, z_hat, data):
            self._attempt = None
            return None
        if fresh.missing(attempt.wanted).any():
            return None
        calls = attempt.oracle_calls
        attempt.look(data, fresh)
        return Outcome(Bound(attempt.statistic, attempt.oracle_calls - calls, attempt.rivals), attempt.threshold, 0.0)

    @property
    def z_hat(self) -> Array | None:
        """Answer of the current attempt; None without one."""
        return None if self._attempt is None else self._attempt.z_hat

    def _is_good_enough(self, z: Array, z_hat: Array, data: Measurements) -> bool:
        """Return whether z is worth confirming when z_hat is the best answer in all data."""
        if np.array_equal(z, z_hat):
            return True
        return self.epsilon > 0.0 and float((z_hat - z) @ complete_estimate(data).theta) <= 0.5 * self.epsilon

    def direct(
        self, data: Measurements, z_hat: Array, candidates: Bools, rng: np.random.Generator, fresh: FreshResults
    ) -> NDArray[np.int64]:
        """Return the missing arms of the round in random order; begin an attempt if there is none."""
        if self._attempt is None:
            self.attempts += 1
            level = self.delta / (self.attempts * (self.attempts + 1))
            self._attempt = BettingRounds(data, self.oracle, z_hat, level, self.epsilon, candidates)
            fresh.restart()
        missing = fresh.missing(self._attempt.wanted)
        return rng.permutation(np.repeat(np.arange(len(missing)), missing))


class BettingRounds:
    """An attempt to confirm z_hat at level alpha.

    Attributes
    ----------
    candidates
        Components outside z_hat that may belong to a better answer.
    lams
        Grid of multipliers.
    lengths, offset
        Evidence against z at every multiplier: offset + sum of lengths over z minus z_hat, less those over z_hat
        minus z.
    rivals
        Hardest answers to refute found so far, as rows z - z_hat.
    wanted
        Planned counts of the current round, for every arm.
    weight, guess
        w and theta~ of the current round.
    """

    def __init__(
        self, data: Measurements, oracle: ArgmaxOracle, z_hat: Array, level: float, epsilon: float, candidates: Bools
    ) -> None:
        self.oracle, self.z_hat, self.epsilon = oracle, z_hat.copy(), epsilon
        self.inside, self.candidates = z_hat != 0.0, candidates & (z_hat == 0.0)
        self.gain, self.arm_of = data.arms.strongest
        self.statistic, self.oracle_calls = -np.inf, 0
        now = complete_estimate(data)
        self.rivals = self._search(now, np.inf).rivals
        rows = as_sparse(self.rivals)
        gaps = np.sqrt(np.maximum(now.gaps(rows) + epsilon, 0.0) ** 2 + now.quadratic(rows))
        length = max(float(np.abs(now.theta[self.inside]).sum()), float(gaps.max(initial=0.0)), 1e-300)
        goal = log(100.0 / level)  # roughly the evidence needed, shares of the multipliers included
        self.initial_counts = self._counts(data, rows, 2.0 * goal / gaps**2)
        variance = 1.0 / np.maximum(self.initial_counts * self.gain, 1e-300)
        slopes = gaps / np.maximum(_sums(rows, variance), 1e-300)  # the best multipliers if the gaps are as estimated
        self.lams, shares = _multipliers(
            min(goal / length, float(slopes.min(initial=np.inf))), float(slopes.max(initial=0.0))
        )
        self.threshold = log(1.0 / level)
        self.lengths, self.offset = np.zeros((len(self.lams), oracle.dim)), np.log(shares)
        self._begin(data, self.initial_counts, 1.0)

    def state_dict(self) -> StateDict:
        """Return the evidence and the current round as plain data."""
        return {
            "z_hat": self.z_hat, "left": self.candidates, "calls": int(self.oracle_calls), "rivals": self.rivals,
            "said": np.array([self.statistic, self.threshold, self.weight]), "first": self.initial_counts,
            "lams": self.lams, "lengths": self.lengths, "offset": self.offset, "guess": self.guess,
            "wanted": self.wanted,
        }  # fmt: skip

    @classmethod
    def restored(cls, data: StateDict, arms: Arms, oracle: ArgmaxOracle, epsilon: float) -> BettingRounds:
        """Return the attempt of a state dictionary."""
        rounds, d = cls.__new__(cls), oracle.dim
        rounds.oracle, rounds.epsilon, rounds.z_hat = oracle, epsilon, array(data["z_hat"], np.float64, d)
        rounds.inside, rounds.candidates = rounds.z_hat != 0.0, array(data["left"], np.bool_, d)
        rounds.gain, rounds.arm_of = arms.strongest
        rounds.oracle_calls, rounds.rivals = integer(data["calls"]), array(data["rivals"], np.float64, None, d)
        rounds.statistic, rounds.threshold, rounds.weight = numbers(data["said"], 3)
        rounds.initial_counts, rounds.guess = (array(data[name], np.float64, d) for name in ("first", "guess"))
        rounds.lams = array(data["lams"], np.float64, None)
        rounds.lengths = array(data["lengths"], np.float64, len(rounds.lams), d)
        rounds.offset = array(data["offset"], np.float64, len(rounds.lams))
        rounds.wanted = array(data["wanted"], np.int64, len(arms))
        return rounds

    @property
    def confirmed(self) -> bool:
        """Whether every other answer is refuted."""
        return not self.candidates.any()

    def look(self, data: Measurements, fresh: FreshResults) -> None:
        """End a round and begin the next one."""
        try:
            self._update(fresh)
        finally:  # after an interrupt, the results of a round must not be added twice
            fresh.restart()
        self.statistic, calls = rule_out(
            self.oracle, self.z_hat, self.lengths, self.offset, self.candidates, self.threshold
        )
        self.oracle_calls += calls
        if not self.confirmed:
            self._plan_round(data)

    def _update(self, fresh: FreshResults) -> None:
        """Add the evidence of one round at all multipliers."""
        estimate = fresh.estimate()
        at = np.isfinite(estimate.spread)  # measured components
        mean, variance, realised = estimate.theta[at], estimate.spread[at], fresh.component_variances[at]
        multiplier = np.broadcast_to(self.weight * self.lams[:, None], (len(self.lams), int(at.sum())))
        shrunk = np.minimum(multiplier, np.maximum(self.guess[at], 0.0) / variance)
        multiplier = np.where(self.inside[at], multiplier, shrunk)
        cost = np.where(self.inside[at], 0.5, -0.5) * multiplier**2 * realised
        self.lengths[:, at] += multiplier * mean + cost
        self.offset += self.weight * self.lams * self.epsilon / abs(self.oracle.unit)

    def _plan_round(self, data: Measurements) -> None:
        """Search for the hardest unrefuted rivals, and plan the counts that should refute them."""
        now = complete_estimate(data)
        found = self._search(now, self.threshold)
        if found.value == np.inf:  # no other answer consists of the remaining components
            self.candidates[:], self.statistic = False, np.inf
            return
        known = np.concatenate([self.rivals, found.rivals])
        self.rivals = unique_supports(known[~(known[:, ~self.candidates & ~self.inside] != 0.0).any(axis=1)])
        rows = as_sparse(self.rivals)
        evidence = self._evidence(rows)
        order = np.argsort(evidence)[:_MAX_RIVALS]
        self.rivals, rows, evidence = self.rivals[order], rows[order], evidence[order]
        gap2 = np.maximum(now.gaps(rows) + self.epsilon, 0.0) ** 2 + now.quadratic(rows)
        need = np.maximum(self.threshold + _EVIDENCE_MARGIN - evidence, _EVIDENCE_MARGIN)
        counts = self._counts(data, rows, 2.0 * need / gap2)
        # The weight of a round is proportional to the precision that it gives the hardest comparison.
        hardest = rows[[int((need / gap2).argmax())]]
        before, after = (
            float(_sums(hardest, 1.0 / np.maximum(n * self.gain, 1e-300))[0]) for n in (self.initial_counts, counts)
        )
        self._begin(data, counts, before / after)

    def _begin(self, data: Measurements, counts: Array, weight: float) -> None:
        """Fix the weight, the estimate and the counts of a round."""
        self.weight, self.guess = weight, complete_estimate(data).theta
        self.wanted = np.zeros(len(data.arms), dtype=np.int64)
        at = np.flatnonzero(counts)
        self.wanted[self.arm_of[at]] = counts[at].astype(np.int64)

    def _counts(self, data: Measurements, rows: Sparse, demand: Array) -> Array:
        """Return counts of every component with demand_y |y|^2 <= 1 for every row, scaled to the size of a round.

        For a single row the optimum is n_a ~ sigma_a; a component of several rows gets the maximum over them.
        """
        at = (self.candidates | self.inside) & (self.gain > 0.0)
        sigma = 1.0 / np.sqrt(np.where(at, self.gain, 1.0))
        per_row = _sums(rows, sigma) * demand
        counts = np.zeros(self.oracle.dim)
        np.maximum.at(counts, rows.indices, np.repeat(per_row, np.diff(rows.indptr)))
        counts *= sigma * at
        size = max(_ROUND_FRACTION * data.samples, float(at.sum()))
        share = min(1.0, size / max(float(counts.sum()), 1e-300))
        return np.where(at, np.maximum(np.rint(share * counts), 1.0), 0.0)

    def _evidence(self, rows: Sparse) -> Array:
        """Compute the evidence against every row at its best multiplier."""
        values = np.stack([_sums(rows, row * np.where(self.inside, -1.0, 1.0)) for row in self.lengths])
        return np.asarray((values + self.offset[:, None]).max(axis=0))

    def _search(self, now: Normal, target: float) -> Bound:
        """Search for close answers within the remaining components; the value is infinite if there are none."""
        penalty = Gaussian(now.spread)
        found = lagrangian_bound(
            self.oracle, self.z_hat, now.theta, penalty, target=target, epsilon=self.epsilon, candidates=self.candidates
        )
        self.oracle_calls += found.oracle_calls
        return found


def _multipliers(low: float, high: float) -> tuple[Array, Array]:
    """Return a grid of multipliers and their shares of alpha.

    The core covers [low, high] with a margin; the tail below it is for gaps much smaller than estimated.
    """
    low, high = low / _CORE_MARGIN, _CORE_MARGIN * max(low, high)
    core = np.geomspace(low, high, 2 + ceil(log(high / low) / log(_CORE_FACTOR)))
    tail = low / _TAIL_FACTOR ** np.arange(1, _TAIL_LENGTH + 1)
    decay = _TAIL_DECAY ** np.arange(_TAIL_LENGTH)
    core_shares = np.full(len(core), (1.0 - _TAIL_SHARE) / len(core))
    return np.append(tail, core), np.append(_TAIL_SHARE * decay / decay.sum(), core_shares)


def _sums(rows: Sparse, entries: Array) -> Array:
    """Sum entries over the components of every row."""
    return row_sums(rows, entries[rows.indices])

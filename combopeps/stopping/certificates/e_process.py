"""E-processes on fresh measurements, one for each listed rival of z_hat.

Fresh measurements are taken in small epochs. The counts of an epoch are chosen from earlier data, and determine the
planned variance v of D = -y @ theta_epoch. V is the variance of D under the standard errors of the results
(`FreshResults.variances`); V = v unless results come with standard errors of their own. For every rival f,

    E_f = E_lam exp(lam X_f - lam^2 I_f / 2),   lam ~ N(g0, v0) given lam > 0,   X_f = sum D / v,   I_f = sum V / v^2

is a supermartingale with initial value 1 if f is at least as good as z_hat: by Ville's inequality it ever exceeds
1/alpha with probability at most alpha. z_hat is confirmed when every E_f has exceeded 1/alpha. This is an
intersection-union test, so no union bound over rivals is needed, and looks may be taken at any time. The mixing
distribution of lam is the estimate of the gap before the epoch, shifted towards 0 because z_hat was selected for being
ahead. A rival that has passed gets no more measurements; the allocation p over arms solves

    max_p min_f C_f(p) / (ln(1/alpha) - ln E_f),   C_f(p) = gap_f^2 / (2 |y_f|^2 under one measurement, allocated as p),

so that the remaining rivals pass at about the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles.base import Array, Sparse
from combopeps.posterior.arms import Arms
from combopeps.posterior.gaussian import Normal
from combopeps.posterior.least_squares import Measurements
from combopeps.stopping.certificates.fixed_plan import Comparisons
from combopeps.stopping.requested_measurements import FreshResults
from combopeps.utils.state_dict import StateDict, array, finite_float, integer, load_sparse, sparse_state

# Size of an epoch relative to all fresh measurements so far. Small epochs take fewer measurements in total: on a top-k
# problem 34,000 at 12 %, 30,000 at 3 %.
_EPOCH_FRACTION = 0.02
_SELECTION_SHIFT = 1.0  # standard deviations subtracted from the gap, as z_hat was selected for being ahead
_MAX_DEFICIT = 4.0  # lower limit of g0 in standard deviations below 0; log_evidence loses its digits beyond it
_EVIDENCE_MARGIN = 0.3  # nats planned beyond the threshold, so that few rivals end just below it
_DEFICIT_TO_SWITCH = 0.25  # standard deviations by which a rival must lead in all data (probability 0.6)
_CLEAR_DEFICIT = 2.0  # the same without counting epsilon: an answer that is barely good enough is slow to confirm
_MAX_PLANNED_RIVALS = 2048  # the hardest rivals, for which an allocation is optimised
_MIN_EPOCH = 10  # measurements
_STEPS, _WARM_STEPS = 40, 8  # of the search for an allocation, from uniform and from the previous allocation
_MAX_SHARPNESS = 60.0  # final exponent of the soft maximum over rivals


class Bet:
    """The e-processes of one answer against its rivals.

    Parameters
    ----------
    now
        The estimate from which the mixing distributions N(g0, v0) are derived.
    z_hat
        The answer to confirm.
    rows
        Rivals as rows y = z - z_hat: the facets of z_hat for epsilon = 0, all other answers otherwise.
    level
        alpha.
    epsilon
        z_hat is confirmed when no rival is better by more than epsilon. Confirmation with epsilon = 0 implies
        confirmation for every epsilon.

    Attributes
    ----------
    X, I
        Sums D / v and V / v^2 of every rival.
    passed
        Rivals whose E_f has exceeded 1/alpha.
    """

    def __init__(self, now: Normal, z_hat: Array, rows: Sparse, level: float, epsilon: float) -> None:
        self.z_hat, self.rows, self.epsilon = z_hat.copy(), rows, epsilon
        self.threshold = log(1.0 / level)
        width = now.quadratic(rows)
        deviation = np.sqrt(width)
        self.g0 = np.maximum(now.gaps(rows) + epsilon - _SELECTION_SHIFT * deviation, -_MAX_DEFICIT * deviation)
        self.v0 = width
        self.X, self.I = np.zeros(rows.shape[0]), np.zeros(rows.shape[0])
        self.passed = np.zeros(rows.shape[0], dtype=bool)

    def state_dict(self) -> StateDict:
        """Return the e-processes as plain data."""
        return {
            "z_hat": self.z_hat, "rows": sparse_state(self.rows), "epsilon": float(self.epsilon),
            "threshold": self.threshold, "g0": self.g0, "v0": self.v0, "X": self.X, "I": self.I, "passed": self.passed,
        }  # fmt: skip

    @classmethod
    def restored(cls, data: StateDict, dim: int) -> Bet:
        """Return the bet of a state dictionary."""
        bet = cls.__new__(cls)
        bet.z_hat, bet.epsilon = array(data["z_hat"], np.float64, dim), finite_float(data["epsilon"])
        bet.rows, bet.threshold = load_sparse(data["rows"], dim), finite_float(data["threshold"])
        rivals = bet.rows.shape[0]
        bet.g0, bet.v0, bet.X, bet.I = (array(data[name], np.float64, rivals) for name in ("g0", "v0", "X", "I"))
        bet.passed = array(data["passed"], np.bool_, rivals)
        return bet

    @property
    def confirmed(self) -> bool:
        """Whether every rival has passed."""
        return bool(self.passed.all())

    @property
    def statistic(self) -> float:
        """The smallest ln E_f of the rivals that have not passed; of all rivals when all have."""
        evidence = self.log_evidence()
        return float(evidence.min() if self.confirmed else evidence[~self.passed].min())

    def log_evidence(self) -> Array:
        """Compute ln E_f of every rival."""
        from scipy.special import log_ndtr

        growth = 1.0 + self.v0 * self.I
        exponent = 0.5 * (2.0 * self.g0 * self.X + self.v0 * self.X**2 - self.g0**2 * self.I) / growth
        tilted = log_ndtr((self.g0 + self.v0 * self.X) / np.sqrt(self.v0 * growth))
        return np.asarray(exponent - 0.5 * np.log(growth) + tilted - log_ndtr(self.g0 / np.sqrt(self.v0)))

    def update(self, epoch: FreshResults) -> None:
        """Add the results of one epoch; rivals with an unmeasured component stay as they are."""
        estimate = epoch.estimate()
        gaps, width = estimate.gaps(self.rows) + self.epsilon, estimate.quadratic(self.rows)
        realised = width if epoch.has_nominal_errors else epoch.variances(self.rows)
        measured = np.isfinite(width) & ~self.passed
        self.X[measured] += gaps[measured] / width[measured]
        self.I[measured] += realised[measured] / width[measured] ** 2
        self.passed |= self.log_evidence() >= self.threshold

    def is_behind(self, now: Normal) -> bool:
        """Return whether a rival is clearly better under the estimate `now` from all data."""
        gaps, widths = now.gaps(self.rows), np.sqrt(now.quadratic(self.rows))
        if self.epsilon > 0.0 and (gaps < -_CLEAR_DEFICIT * widths).any():  # that rival is faster to confirm
            return True
        return bool((gaps + self.epsilon < -_DEFICIT_TO_SWITCH * widths).any())


class BettingAttempt:
    """An attempt to confirm one of several candidate answers by e-processes.

    The measurements of an epoch are allocated for the first candidate that is not behind; the e-processes of all
    candidates are updated with the results.

    Parameters
    ----------
    data
        All results so far.
    placed
        The bets on each candidate; the first one leads.
    fresh
        Results of the measurements that the attempt requests.

    Attributes
    ----------
    lead
        The bet for which measurements are allocated.
    wanted
        Planned counts of the current epoch, for every arm.
    remaining
        Estimated number of measurements until `lead` is confirmed.
    """

    overdue = True  # without a planned end, the certificate of all data may be tried at any time
    oracle_calls = 0

    def __init__(self, data: Measurements, placed: Sequence[Bet], fresh: FreshResults) -> None:
        self.placed, self.lead = list(placed), placed[0]
        self.fresh, self._shares = 0, np.zeros(0)
        fresh.restart()
        self._begin(data)

    def state_dict(self) -> StateDict:
        """Return the epoch and the index of `lead` as plain data; bets have state dictionaries of their own."""
        return {
            "kind": "bets", "lead": self.placed.index(self.lead), "fresh": self.fresh, "shares": self._shares,
            "wanted": self.wanted, "remaining": self.remaining,
        }  # fmt: skip

    @classmethod
    def restored(cls, data: StateDict, arms: Arms, placed: Sequence[Bet]) -> BettingAttempt:
        """Return the attempt of a state dictionary, with the restored bets."""
        bets, K = cls.__new__(cls), len(arms)
        bets.placed, bets.lead = list(placed), placed[integer(data["lead"], len(placed) - 1)]
        bets.fresh, bets._shares = integer(data["fresh"]), array(data["shares"], np.float64, K)
        bets.wanted, bets.remaining = array(data["wanted"], np.int64, K), integer(data["remaining"])
        return bets

    @property
    def confirmed(self) -> bool:
        """Whether every rival of the leading answer has passed."""
        return self.lead.confirmed

    @property
    def z_hat(self) -> Array:
        """Leading answer."""
        return self.lead.z_hat

    @property
    def threshold(self) -> float:
        """Threshold of the leading bet, ln(1/alpha)."""
        return self.lead.threshold

    @property
    def statistic(self) -> float:
        """Statistic of the leading bet."""
        return self.lead.statistic

    def missing(self, fresh: FreshResults) -> NDArray[np.int64]:
        """Return the counts of every arm that are missing in this epoch."""
        return fresh.missing(self.wanted)

    def look(self, data: Measurements, z_hat: Array, rng: np.random.Generator, fresh: FreshResults) -> bool:
        """End an epoch and begin the next one; return False when all candidates are behind.

        `z_hat` and `rng` are unused: the signature is that of `FixedPlan.look`.
        """
        self.fresh += fresh.samples
        try:
            for bet in self.placed:
                bet.update(fresh)
        finally:  # after an interrupt, the results of an epoch must not be added twice
            fresh.restart()
        now = complete_estimate(data)
        done = [bet for bet in self.placed if bet.confirmed]
        ahead = [bet for bet in (self.lead, *self.placed) if not bet.is_behind(now)]
        if done or ahead:
            previous, self.lead = self.lead, (done or ahead)[0]
            if previous is not self.lead:
                self._shares = np.zeros(0)
        if not self.confirmed and ahead:
            self._begin(data)
        return bool(done or ahead)

    def _begin(self, data: Measurements) -> None:
        """Plan the next epoch: the counts of every arm."""
        lead = self.lead
        hard = np.flatnonzero(~lead.passed)
        need, rows = lead.threshold + _EVIDENCE_MARGIN - lead.log_evidence()[hard], lead.rows[hard]
        least = _least_counts(data.arms, rows)
        self._shares, self.remaining = _allocation(data, rows, need, lead.epsilon, self._shares)
        size = min(max(_EPOCH_FRACTION * self.fresh, float(least.sum()), _MIN_EPOCH), self.remaining)
        self.wanted = np.maximum(least, np.rint(size * self._shares)).astype(np.int64)


def measurements_needed(data: Measurements, rows: Sparse, level: float, epsilon: float) -> int:
    """Estimate how many measurements new bets against these rivals would take."""
    need = np.full(rows.shape[0], log(1.0 / level) + _EVIDENCE_MARGIN)
    return _allocation(data, rows, need, epsilon, np.zeros(0))[1]


def _allocation(data: Measurements, rows: Sparse, need: Array, epsilon: float, start: Array) -> tuple[Array, int]:
    """Return the shares of the arms that give every rival its needed evidence soonest, and the total count."""
    now, need = complete_estimate(data), np.maximum(need, _EVIDENCE_MARGIN)
    gap2 = np.maximum(now.gaps(rows) + epsilon, 0.0) ** 2 + now.quadratic(rows)
    order = np.argsort(gap2 / need)[:_MAX_PLANNED_RIVALS]
    return _minimise_maximum(data, rows[order], (need / gap2)[order], start)


def complete_estimate(data: Measurements) -> Normal:
    """Return the least-squares estimate of data that determine it."""
    estimate = data.least_squares()
    assert estimate is not None
    return estimate


def _least_counts(arms: Arms, rows: Sparse) -> NDArray[np.int64]:
    """Return the least counts of an epoch: one measurement of each arm that some rival depends on."""
    least = np.zeros(len(arms), dtype=np.int64)
    if arms.are_units:
        least[arms.strongest[1][np.unique(rows.indices)]] = 1
    else:
        none = Measurements(arms, np.zeros(len(arms)), np.zeros(len(arms)))
        least[none.missing] = 1
    return least


def _minimise_maximum(data: Measurements, rows: Sparse, weight: Array, start: Array) -> tuple[Array, int]:
    """Return the shares of the arms that minimise max_f weight_f |y_f|^2, and the total count.

    A multiplicative fixed point on a soft maximum over rivals, whose exponent is increased from 1 to `_MAX_SHARPNESS`.
    """
    comparisons, arms = Comparisons(data.arms, rows), len(data.arms)
    shares, exponents = np.full(arms, 1.0 / arms), np.geomspace(1.0, _MAX_SHARPNESS, _STEPS)
    if len(start):
        shares, exponents = 0.95 * start + 0.05 * shares, exponents[-_WARM_STEPS:]
    best, least = shares, np.inf
    for sharpness in exponents:
        widths, inverse = comparisons.widths(shares)
        hardness = weight * widths
        if hardness.max() < least:
            best, least = shares, float(hardness.max())
        softened = weight * np.exp(sharpness * (hardness / hardness.max() - 1.0))
        proposed = shares * np.sqrt(comparisons.slopes(inverse, softened))
        shares = np.maximum(0.5 * shares + 0.5 * proposed / proposed.sum(), 1e-9 / arms)
        shares /= shares.sum()
    return best, ceil(2.0 * least)

"""Verification by betting: fresh measurements in small epochs, where all rivals of z_hat can be listed.

In each epoch the counts are chosen from the past, and with them the planned variance v of D = -y @ theta_epoch. The
results of the epoch have standard errors under which D has the variance V (`fresh`); V = v unless results come with
standard errors of their own. For every rival f

    E_f = mean over lam ~ N(g0, v0), lam > 0, of exp(lam X_f - lam^2 I_f / 2),   X_f = sum D / v,   I_f = sum V / v^2

is a supermartingale from 1 if f is in truth at least as good as z_hat: it ever exceeds 1/alpha with probability at most
alpha. When all E_f have done so z_hat is confirmed, without a union over rivals (intersection-union test); looks are
free. The bet's prior is what exploration knew of the gap, less sure of a lead for which z_hat was chosen. A rival that
has passed gets no more measurements; the others share them so that all pass at the same time:

    max_p min_f C_f(p) / (ln(1/alpha) - ln E_f),   C_f(p) = gap_f^2 / (2 |y_f|^2 under one measurement, spread as p)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles.base import Array, Sparse
from combopeps.posterior.arms import Arms
from combopeps.posterior.least_squares import Measurements
from combopeps.posterior.normal import Normal
from combopeps.stopping.certificates.allocation import Comparisons
from combopeps.stopping.requests import FreshResults
from combopeps.utils.state_dict import StateDict, array, plain_rows, real, rows, whole

_EPOCH = 0.02  # of the fresh measurements so far; small ones pay (12 %: 34,000 samples, 3 %: 30,000 on top-k)
_DOUBT = 1.0  # standard deviations off the lead of an answer that was chosen because it is ahead
_WORST = 4.0  # standard deviations by which a bet takes an answer to be behind at most: more is lost to rounding
_SLACK = 0.3  # nats beyond the goal, so that chance does not leave a rival just below the threshold
_BEHIND = 0.25  # standard deviations by which z_hat may fall behind a rival (probability 0.6) in all data
_FAR_BEHIND = 2.0  # with an epsilon: an answer that is nearly good enough takes long to confirm
_HARDEST = 2048  # rivals that an allocation looks at
_SHORTEST = 10  # measurements of an epoch
_STEPS, _AGAIN = 40, 8  # of the search for an allocation, and when the last one is known
_SHARPEST = 60.0  # how sharply it looks at the hardest rival at last


class Bet:
    """One answer, and how far the bets against its rivals have come.

    `now` is what is known when it is placed, `rows` all rivals that matter as y = z - z_hat, and `level` alpha. With an
    epsilon these are all other answers: z_hat is confirmed when none of them is better by more than epsilon. With
    epsilon = 0 facets suffice, and a z_hat that is confirmed to be the best is also within any epsilon of it.
    """

    def __init__(self, now: Normal, z_hat: Array, rows: Sparse, level: float, epsilon: float) -> None:
        self.z_hat, self.rows, self.epsilon = z_hat.copy(), rows, epsilon
        self.threshold = log(1.0 / level)
        width = now.quadratic(rows)
        deviation = np.sqrt(width)
        self.g0 = np.maximum(now.gaps(rows) + epsilon - _DOUBT * deviation, -_WORST * deviation)
        self.v0 = width
        self.X, self.I = np.zeros(rows.shape[0]), np.zeros(rows.shape[0])
        self.passed = np.zeros(rows.shape[0], dtype=bool)

    def state_dict(self) -> StateDict:
        """How far the bets have come, as plain data."""
        return {
            "z_hat": self.z_hat, "rows": plain_rows(self.rows), "epsilon": float(self.epsilon),
            "threshold": self.threshold, "g0": self.g0, "v0": self.v0, "X": self.X, "I": self.I, "passed": self.passed,
        }  # fmt: skip

    @classmethod
    def restored(cls, data: StateDict, dim: int) -> Bet:
        """From that."""
        bet = cls.__new__(cls)
        bet.z_hat, bet.epsilon = array(data["z_hat"], np.float64, dim), real(data["epsilon"])
        bet.rows, bet.threshold = rows(data["rows"], dim), real(data["threshold"])
        rivals = bet.rows.shape[0]
        bet.g0, bet.v0, bet.X, bet.I = (array(data[name], np.float64, rivals) for name in ("g0", "v0", "X", "I"))
        bet.passed = array(data["passed"], np.bool_, rivals)
        return bet

    @property
    def confirmed(self) -> bool:
        """Has every rival passed?"""
        return bool(self.passed.all())

    @property
    def statistic(self) -> float:
        """The smallest ln E_f of those that have not; of all, if there are none."""
        evidence = self.log_evidence()
        return float(evidence.min() if self.confirmed else evidence[~self.passed].min())

    def log_evidence(self) -> Array:
        """ln E_f of every rival."""
        from scipy.special import log_ndtr

        growth = 1.0 + self.v0 * self.I
        exponent = 0.5 * (2.0 * self.g0 * self.X + self.v0 * self.X**2 - self.g0**2 * self.I) / growth
        tilted = log_ndtr((self.g0 + self.v0 * self.X) / np.sqrt(self.v0 * growth))
        return np.asarray(exponent - 0.5 * np.log(growth) + tilted - log_ndtr(self.g0 / np.sqrt(self.v0)))

    def take_in(self, epoch: FreshResults) -> None:
        """What one epoch says of each rival; of one that it did not see, nothing."""
        estimate = epoch.estimate()
        gaps, width = estimate.gaps(self.rows) + self.epsilon, estimate.quadratic(self.rows)
        realised = width if epoch.is_plain else epoch.variances(self.rows)
        seen = np.isfinite(width) & ~self.passed
        self.X[seen] += gaps[seen] / width[seen]
        self.I[seen] += realised[seen] / width[seen] ** 2
        self.passed |= self.log_evidence() >= self.threshold

    def is_behind(self, now: Normal) -> bool:
        """Is another answer clearly better, in all data?"""
        gaps, widths = now.gaps(self.rows), np.sqrt(now.quadratic(self.rows))
        if self.epsilon > 0.0 and (gaps < -_FAR_BEHIND * widths).any():  # that one is confirmed with more to spare
            return True
        return bool((gaps + self.epsilon < -_BEHIND * widths).any())


class Bets:
    """An attempt to confirm one of some answers: the bets on each, and the epoch in which all of them are measured.

    `data` are all results so far, `fresh` those of the measurements that it requests.
    The measurements of an epoch are chosen for the first answer that is not behind; all bets take them in.
    """

    overdue = True  # it may take any time: there is no plan
    oracle_calls = 0

    def __init__(self, data: Measurements, placed: Sequence[Bet], fresh: FreshResults) -> None:
        self.placed, self.lead = list(placed), placed[0]
        self.fresh, self._shares = 0, np.zeros(0)
        fresh.restart()
        self._begin(data)

    def state_dict(self) -> StateDict:
        """The epoch, and which answer leads, as plain data; the bets give their own."""
        return {
            "kind": "bets", "lead": self.placed.index(self.lead), "fresh": self.fresh, "shares": self._shares,
            "wanted": self.wanted, "remaining": self.remaining,
        }  # fmt: skip

    @classmethod
    def restored(cls, data: StateDict, arms: Arms, placed: Sequence[Bet]) -> Bets:
        """From that, of a run with these arms, and the bets themselves."""
        bets, K = cls.__new__(cls), len(arms)
        bets.placed, bets.lead = list(placed), placed[whole(data["lead"], len(placed) - 1)]
        bets.fresh, bets._shares = whole(data["fresh"]), array(data["shares"], np.float64, K)
        bets.wanted, bets.remaining = array(data["wanted"], np.int64, K), whole(data["remaining"])
        return bets

    @property
    def confirmed(self) -> bool:
        """Has every rival of the leading answer passed?"""
        return self.lead.confirmed

    @property
    def z_hat(self) -> Array:
        """The leading answer."""
        return self.lead.z_hat

    @property
    def threshold(self) -> float:
        """Of the leading answer's bets."""
        return self.lead.threshold

    @property
    def statistic(self) -> float:
        """Of the leading answer's bets."""
        return self.lead.statistic

    def missing(self, fresh: FreshResults) -> NDArray[np.int64]:
        """What this epoch still wants of every arm."""
        return fresh.missing(self.wanted)

    def look(self, data: Measurements, z_hat: Array, rng: np.random.Generator, fresh: FreshResults) -> bool:
        """The epoch is over: take its data in, and begin the next one. False when all answers are behind.

        Which answer is ahead by now, `z_hat`, does not matter, and nothing is drawn.
        """
        self.fresh += fresh.samples
        try:
            for bet in self.placed:
                bet.take_in(fresh)
        finally:  # an interrupted look must not take an epoch in twice
            fresh.restart()
        now = complete_estimate(data)
        done = [bet for bet in self.placed if bet.confirmed]
        ahead = [bet for bet in (self.lead, *self.placed) if not bet.is_behind(now)]
        if done or ahead:
            following, self.lead = self.lead, (done or ahead)[0]
            if following is not self.lead:
                self._shares = np.zeros(0)
        if not self.confirmed and ahead:
            self._begin(data)
        return bool(done or ahead)

    def _begin(self, data: Measurements) -> None:
        """The next epoch: how often to measure every arm."""
        lead = self.lead
        hard = np.flatnonzero(~lead.passed)
        need, rows = lead.threshold + _SLACK - lead.log_evidence()[hard], lead.rows[hard]
        least = _least_counts(data.arms, rows)
        self._shares, self.remaining = _allocation(data, rows, need, lead.epsilon, self._shares)
        size = min(max(_EPOCH * self.fresh, float(least.sum()), _SHORTEST), self.remaining)
        self.wanted = np.maximum(least, np.rint(size * self._shares)).astype(np.int64)


def measurements_needed(data: Measurements, rows: Sparse, level: float, epsilon: float) -> int:
    """About how many measurements new bets against these rivals would take."""
    need = np.full(rows.shape[0], log(1.0 / level) + _SLACK)
    return _allocation(data, rows, need, epsilon, np.zeros(0))[1]


def _allocation(data: Measurements, rows: Sparse, need: Array, epsilon: float, start: Array) -> tuple[Array, int]:
    """Shares of the arms with which every rival gets the evidence it needs, and how many measurements it takes."""
    now, need = complete_estimate(data), np.maximum(need, _SLACK)
    gap2 = np.maximum(now.gaps(rows) + epsilon, 0.0) ** 2 + now.quadratic(rows)
    order = np.argsort(gap2 / need)[:_HARDEST]
    return _balance(data, rows[order], (need / gap2)[order], start)


def complete_estimate(data: Measurements) -> Normal:
    """Least squares on data that miss nothing."""
    estimate = data.least_squares()
    assert estimate is not None
    return estimate


def _least_counts(arms: Arms, rows: Sparse) -> NDArray[np.int64]:
    """One measurement of every arm without which a rival would see nothing in the epoch."""
    least = np.zeros(len(arms), dtype=np.int64)
    if arms.are_units:
        least[arms.strongest[1][np.unique(rows.indices)]] = 1
    else:
        none = Measurements(arms, np.zeros(len(arms)), np.zeros(len(arms)))
        least[none.missing] = 1
    return least


def _balance(data: Measurements, rows: Sparse, weight: Array, start: Array) -> tuple[Array, int]:
    """Shares of the arms that minimise max_f weight_f |y_f|^2, and how many measurements it then takes."""
    comparisons, arms = Comparisons(data.arms, rows), len(data.arms)
    shares, steps = np.full(arms, 1.0 / arms), np.geomspace(1.0, _SHARPEST, _STEPS)
    if len(start):
        shares, steps = 0.95 * start + 0.05 * shares, steps[-_AGAIN:]
    best, least = shares, np.inf
    for sharpness in steps:
        widths, inverse = comparisons.widths(shares)
        hardness = weight * widths
        if hardness.max() < least:
            best, least = shares, float(hardness.max())
        softened = weight * np.exp(sharpness * (hardness / hardness.max() - 1.0))
        wanted = shares * np.sqrt(comparisons.slopes(inverse, softened))
        shares = np.maximum(0.5 * shares + 0.5 * wanted / wanted.sum(), 1e-9 / arms)
        shares /= shares.sum()
    return best, ceil(2.0 * least)

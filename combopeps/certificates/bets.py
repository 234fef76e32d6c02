"""Verification by betting: fresh measurements in small epochs, where all rivals of z_hat can be listed.

In each epoch the counts are chosen from the past. Then D = -y @ theta_epoch is N(gap_f, v) for every rival f, and

    E_f = mean over lam ~ N(g0, v0), lam > 0, of exp(lam X_f - lam^2 I_f / 2),   X_f = sum D / v,   I_f = sum 1 / v

is a supermartingale from 1 if f is in truth at least as good as z_hat: it ever exceeds 1/alpha with probability at most
alpha. When all E_f have done so z_hat is confirmed, without a union over rivals (intersection-union test); looks are
free. The bet's prior is what exploration knew of the gap, less sure of a lead for which z_hat was chosen. A rival that
has passed gets no more measurements; the others share them so that all pass at the same time:

    max_p min_f C_f(p) / (ln(1/alpha) - ln E_f),   C_f(p) = gap_f^2 / (2 |y_f|^2 under one measurement, spread as p)
"""

from __future__ import annotations

from math import ceil, log

import numpy as np
from numpy.typing import NDArray

from combopeps.belief import Arms, Measurements, Normal
from combopeps.certificates.planning import Comparisons
from combopeps.oracles.base import Array, Sparse
from combopeps.restore import Plain, array, plain_rows, real, rows, whole

_EPOCH = 0.02  # of the fresh measurements so far; small ones pay (12 %: 34,000 samples, 3 %: 30,000 on top-k)
_DOUBT, _WIDER = 0.3, 1.5  # z_hat was chosen because it is ahead: standard deviations off its lead, and a wider bet
_SLACK = 0.3  # nats beyond the goal, so that chance does not leave a rival just below the threshold
_BEHIND = 0.25  # standard deviations by which z_hat may fall behind a rival (probability 0.6) in all data
_FAR_BEHIND = 2.0  # with an epsilon: an answer that is nearly good enough takes long to confirm
_HARDEST = 2048  # rivals that an allocation looks at
_SHORTEST = 10  # measurements of an epoch
_STEPS, _AGAIN = 40, 8  # of the search for an allocation, and when the last one is known
_SHARPEST = 60.0  # how sharply it looks at the hardest rival at last


class Bets:
    """An attempt to confirm z_hat: what was fixed before the fresh data, and how far the bets have come.

    `data` is what was measured when it begins, `rows` all rivals that matter as y = z - z_hat, and `level` alpha. Where
    somebody keeps book of what was measured for it, `fresh` is that alone: sums that begin anywhere, and only grow.
    Otherwise all that is measured from now on is taken to be fresh.
    """

    overdue = True  # it may take any time: there is no plan
    oracle_calls = 0

    def __init__(
        self,
        data: Measurements,
        z_hat: Array,
        rows: Sparse,
        level: float,
        epsilon: float,
        fresh: Measurements | None = None,
    ) -> None:
        now = complete_estimate(data)
        self.z_hat, self.rows, self.epsilon = z_hat.copy(), rows, epsilon
        self.threshold = log(1.0 / level)
        width = now.quadratic(rows)
        self.g0 = np.maximum(now.gaps(rows) + epsilon - _DOUBT * np.sqrt(width), 0.0)
        self.v0 = _WIDER * width
        self.X, self.I = np.zeros(rows.shape[0]), np.zeros(rows.shape[0])
        self.passed = np.zeros(rows.shape[0], dtype=bool)
        self.fresh, self._shares = 0, np.zeros(0)
        self._begin(data, fresh)

    def plain(self) -> Plain:
        """How far the bets have come, as plain data."""
        return {
            "kind": "bets", "z_hat": self.z_hat, "rows": plain_rows(self.rows), "threshold": self.threshold,
            "g0": self.g0, "v0": self.v0, "X": self.X, "I": self.I, "passed": self.passed, "fresh": self.fresh,
            "shares": self._shares, "start": self.start.plain(), "wanted": self.wanted,
        }  # fmt: skip

    @classmethod
    def restored(cls, data: Plain, arms: Arms, epsilon: float) -> Bets:
        """From that, of a run with these arms."""
        bets = cls.__new__(cls)
        bets.z_hat, bets.epsilon = array(data["z_hat"], np.float64, arms.dim), epsilon
        bets.rows = rows(data["rows"], arms.dim)
        bets.threshold, bets.fresh = real(data["threshold"]), whole(data["fresh"])
        rivals, K = bets.rows.shape[0], len(arms)
        bets.g0, bets.v0, bets.X, bets.I = (array(data[name], np.float64, rivals) for name in ("g0", "v0", "X", "I"))
        bets.passed = array(data["passed"], np.bool_, rivals)
        bets._shares = array(data["shares"], np.float64, K)
        bets.wanted = array(data["wanted"], np.int64, K)
        bets.start = Measurements.restored(arms, data["start"])
        return bets

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

    def missing(self, data: Measurements, fresh: Measurements | None = None) -> NDArray[np.int64]:
        """What this epoch still wants of every arm; an epoch in which anything else was measured begins anew."""
        missing = self.wanted - ((fresh or data) - self.start).counts.astype(np.int64)
        if (missing < 0).any():
            self._begin(data, fresh)
            return self.wanted
        return missing

    def look(
        self, data: Measurements, z_hat: Array, rng: np.random.Generator, fresh: Measurements | None = None
    ) -> bool:
        """The epoch is over: take its data in, and begin the next one. False when the attempt is to be given up.

        Which answer is ahead by now, `z_hat`, does not matter, and nothing is drawn.
        """
        epoch = (fresh or data) - self.start
        seen_now = _epoch_estimate(epoch)
        gaps, width = seen_now.gaps(self.rows) + self.epsilon, seen_now.quadratic(self.rows)
        seen = np.isfinite(width) & ~self.passed
        self.X[seen] += gaps[seen] / width[seen]
        self.I[seen] += 1.0 / width[seen]
        self.fresh += epoch.samples
        self.passed |= self.log_evidence() >= self.threshold
        now = complete_estimate(data)
        gaps, widths = now.gaps(self.rows), np.sqrt(now.quadratic(self.rows))
        if (gaps + self.epsilon < -_BEHIND * widths).any():
            return False
        if self.epsilon > 0.0 and (gaps < -_FAR_BEHIND * widths).any():  # another one is confirmed with more to spare
            return False
        if not self.confirmed:
            self._begin(data, fresh)
        return True

    def _begin(self, data: Measurements, fresh: Measurements | None) -> None:
        """The next epoch: how often to measure every arm."""
        self.start = fresh or data
        hard = np.flatnonzero(~self.passed)
        need = np.maximum(self.threshold + _SLACK - self.log_evidence()[hard], _SLACK)
        now, rows = complete_estimate(data), self.rows[hard]
        gap2 = np.maximum(now.gaps(rows) + self.epsilon, 0.0) ** 2 + now.quadratic(rows)
        least = _least_counts(self.start.arms, rows)
        order = np.argsort(gap2 / need)[:_HARDEST]
        shares, whole = _balance(self.start, rows[order], (need / gap2)[order], self._shares)
        self._shares = shares
        size = min(max(_EPOCH * self.fresh, float(least.sum()), _SHORTEST), whole)
        self.wanted = np.maximum(least, np.rint(size * shares)).astype(np.int64)


def complete_estimate(data: Measurements) -> Normal:
    """Least squares on data that miss nothing."""
    estimate = data.least_squares()
    assert estimate is not None
    return estimate


def _epoch_estimate(epoch: Measurements) -> Normal:
    """theta of one epoch; a component that was not measured has an infinite variance."""
    if not epoch.arms.are_units:
        return complete_estimate(epoch)
    n = epoch.information
    known = n > 0.0
    n = np.where(known, n, 1.0)
    return Normal(np.where(known, epoch.moment / n, 0.0), np.where(known, 1.0 / n, np.inf))


def _least_counts(arms: Arms, rows: Sparse) -> NDArray[np.int64]:
    """One measurement of every arm without which a rival would see nothing in the epoch."""
    least = np.zeros(len(arms), dtype=np.int64)
    if arms.are_units:
        least[arms.strongest[1][np.unique(rows.indices)]] = 1
    else:
        none = Measurements(arms, np.zeros(len(arms)), np.zeros(len(arms)))
        least[none.missing] = 1
    return least


def _balance(data: Measurements, rows: Sparse, weight: Array, start: Array) -> tuple[Array, float]:
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

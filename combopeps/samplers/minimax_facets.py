"""Exact draws behind the known facets for a full covariance in a box, by Karp and Luby's method with minimax tilts.

    pick f ~ M_f,   theta ~ the belief in the box given y_f @ theta > 0 (see `minimax`),   keep it with 1 / N(theta)

N counts the half-spaces that contain theta; P(Alt and Theta) = (sum_f M_f) P(kept). A tilt takes most of a millisecond
at d = 70, and there may be hundreds of facets. Those whose probability cannot matter are passed over, as long as that
follows from one of two bounds of it:

    Phi(-b_f),   or   M_f of an earlier belief times the largest ratio of the density now to the density then.
"""

from __future__ import annotations

from math import ceil, inf, log, nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from combopeps.belief.gaussian import GaussianBelief
from combopeps.cone.behind import Draws
from combopeps.cone.facets import Facets
from combopeps.errors import SamplerCapError
from combopeps.oracles.base import Array
from combopeps.samplers import _minimax_kernels as kernels
from combopeps.samplers.minimax import CURE, Tilted
from combopeps.space import ParameterSpace

_LEFT = 1e-9  # of the total: what all facets that are passed over may have together
_FIRST = 32  # proposals per draw, before it is known how many are needed
_MOST = 4096  # proposals at once
_FORGET = 0.2  # weight of the last call in the proposals per draw
_DIGITS = 1e-6  # precision times covariance must be I to within this, for a ratio of densities to be trusted
_ROUNDING = 1e-9  # relative to the largest precision: eigenvalues below are 0


class _Law(NamedTuple):
    """A normal law: mean and covariance, and its precision and ln det of that (NaN where rounding leaves none)."""

    mean: Array
    covariance: Array
    precision: Array
    log_det: float

    @classmethod
    def of(cls, belief: GaussianBelief, eta: float) -> _Law:
        L = belief.spread[0]
        covariance, precision, log_det = L @ L.T / eta, np.full_like(L, nan), -float(np.linalg.slogdet(L)[1]) * 2.0
        if log_det < inf:
            inverse = np.linalg.inv(L)
            precision = inverse.T @ inverse * eta
            if np.abs(precision @ covariance - np.eye(len(L))).max() > _DIGITS:
                precision[:] = nan
        return cls(belief.theta_hat[0].copy(), covariance, precision, log_det + len(L) * log(eta))

    def log_ratio(self, earlier: _Law) -> float:
        """Ln of the maximum of its density over the earlier one; infinite where it has none.

        With u counted from the earlier mean, D = precision - earlier precision and delta = mean - earlier mean,

            ln ratio = (ln det ratio - u' D u) / 2 + u' precision delta - delta' precision delta / 2.
        """
        grown_by = self.precision - earlier.precision
        if not np.isfinite(grown_by).all():
            return inf
        delta = self.mean - earlier.mean
        slope = self.precision @ delta
        values, vectors = np.linalg.eigh(grown_by)
        along, rounding = vectors.T @ slope, _ROUNDING * float(np.abs(self.precision).max())
        grown = values > rounding
        if (values < -rounding).any() or (np.abs(along[~grown]) > rounding * (1.0 + np.abs(self.mean).max())).any():
            return inf
        most = 0.5 * float((along[grown] ** 2 / values[grown]).sum() - delta @ slope)
        return most + 0.5 * (self.log_det - earlier.log_det)


class MinimaxWeights:
    """The tilts of facets that matter under the current belief, bounds of the others, and draws by them."""

    def __init__(self, facets: Facets, space: ParameterSpace) -> None:
        self.facets = facets
        self.box = space.bounds(len(facets.z_hat))
        self._law: _Law | None = None
        self._price = float(_FIRST)
        self._forget()

    def _forget(self) -> None:
        self._numbers = self.facets.renumbered
        self._bound = np.zeros(0)
        self._tilts: dict[int, Tilted] = {}  # under the current belief
        self._shifts: dict[int, Array] = {}  # of the last tilts, to begin with

    def _follow(self, belief: GaussianBelief, eta: float) -> None:
        """Bounds in step with the belief; the facets must be already."""
        facets, law = self.facets, _Law.of(belief, eta)
        if self._numbers != facets.renumbered:
            self._forget()
        earlier, self._law = self._law, law
        same = earlier is not None and all(
            np.array_equal(a, b) for a, b in ((law.mean, earlier.mean), (law.covariance, earlier.covariance))
        )
        if not same:
            self._tilts = {}
            if len(self._bound) and earlier is not None:
                self._bound += law.log_ratio(earlier)
        old, size = len(self._bound), facets.size
        if old < size:
            possible = kernels.possible(facets.rows, *self.box)[old:]
            self._bound = np.concatenate([self._bound, np.where(possible, inf, -inf)])
        self._bound = np.fmin(self._bound, facets.log_w[:size])

    def _work_out(self, f: int) -> Tilted:
        """The tilt of facet f."""
        assert self._law is not None
        _, indptr, indices, data = self.facets.rows
        support, y = indices[indptr[f] : indptr[f + 1]], data[indptr[f] : indptr[f + 1]]
        mean, C = self._law.mean, self._law.covariance
        half = C[:, support] @ y
        joint = np.empty((len(mean) + 1, len(mean) + 1))
        joint[0, 0], joint[0, 1:], joint[1:, 0], joint[1:, 1:] = half[support] @ y, half, half, C
        ends = np.concatenate([[0.0], self.box[0]]), np.concatenate([[inf], self.box[1]])
        tilted = Tilted.of(joint, np.concatenate([[mean[support] @ y], mean]), ends, self._shifts.get(f))
        self._tilts[f], self._shifts[f] = tilted, tilted.shift
        self._bound[f] = min(self._bound[f], tilted.log_m)
        return tilted

    def _settle(self) -> tuple[list[Tilted], Array, NDArray[np.int64]]:
        """The tilts of facets that matter, ln M of each, and their numbers."""
        order = np.argsort(-self._bound)
        rest = np.logaddexp.accumulate(self._bound[order][::-1])[::-1]
        total, open_, chosen = -inf, -inf, []
        for f, remaining in zip(order.tolist(), rest, strict=True):
            if remaining <= total + log(_LEFT) or remaining == -inf:
                break
            tilted = self._tilts.get(f) or self._work_out(f)
            if tilted.found:
                chosen.append(f)
                total = float(np.logaddexp(total, tilted.log_m))
            else:
                open_ = float(np.logaddexp(open_, self._bound[f]))
        if open_ > total + log(_LEFT):
            raise SamplerCapError(f"the tilt of a facet was not found in rounding; {CURE}")
        tilts = [self._tilts[f] for f in chosen]
        return tilts, np.array([tilted.log_m for tilted in tilts]), np.array(chosen, dtype=np.int64)

    def draw(self, belief: GaussianBelief, eta: float, rng: np.random.Generator, n: int, *, cap: int) -> Draws:
        """Up to n draws in at most `cap` proposals; the facets must be in step with the belief."""
        self._follow(belief, eta)
        tilts, log_m, numbers = self._settle()
        log_mass = float(np.logaddexp.reduce(log_m, initial=-inf))
        found: list[Array] = [np.empty((0, belief.dim))]
        filled = proposals = 0
        shares = squares = 0.0
        while filled < n and proposals < cap and tilts:
            batch = min(cap - proposals, _MOST, ceil(1.5 * (n - filled) * self._price) + 4)
            picks = rng.multinomial(batch, np.exp(log_m - log_mass) / np.exp(log_m - log_mass).sum())
            parts = [tilts[k].draw(rng, picks[k], picks[k], behind=1)[0] for k in np.flatnonzero(picks).tolist()]
            thetas = np.concatenate(parts)
            behind: NDArray[np.int64] = np.empty(len(thetas), dtype=np.int64)
            kernels.count_behind(self.facets.rows, numbers, thetas, behind)
            share = 1.0 / np.maximum(behind, 1)  # behind its own facet it is but for rounding
            kept = thetas[rng.random(len(thetas)) < share]
            proposals, filled = proposals + batch, filled + len(kept)
            shares, squares = shares + float(share.sum()), squares + float((share**2).sum())
            found.append(kept[rng.permutation(len(kept))])
        if filled:
            self._price += _FORGET * (proposals / filled - self._price)
        return Draws(np.concatenate(found)[:n], proposals, log_mass, shares, squares)

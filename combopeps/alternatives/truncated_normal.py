"""Exact draws behind the known facets for a diagonal belief in a box.

The coordinates of facet f are split into F, which the box hardly touches, and E. With s = y_E @ theta_E, sigma the
standard deviation of y_F @ theta_F on R^d, b its distance from 0 at s = s_0, and any s_0,

    P(y_f @ theta > 0 | theta_E) <= Phi(u - b) / P(box_F) <= Phi(-b) exp(kappa (s - s_0)) / P(box_F),
    u = (s - s_0) / sigma,   kappa = phi(b) / (Phi(-b) sigma),

the tangent to a log-concave function. M_f is the expectation of the bound over theta_E in its box. Pick f ~ M_f, draw
theta_E tilted by kappa (a truncated normal with mean theta_hat + kappa y s^2), theta_F behind the facet, what is left
from the belief, and keep theta if it lies in the box, with probability

    1{theta behind a facet} / sum_f 1{theta behind f} Phi(-b_f) exp(kappa_f (s - s_0)) / Phi(u - b_f).

Then P(Alt | Theta) = (sum_f M_f) E[that weight]. Where F is empty the bound is exp(kappa y_f @ theta), for any kappa,
behind f or not. The best split and s_0 make M_f small; others only cost time.

Exact draws from a normal law with a full covariance in a box, and from what of it lies behind a facet.

Write the rows that must stay in their intervals (components of theta, and y_f @ theta) as mean + L z with z ~ N(0, I)
and L lower triangular. The proposal draws z_1, z_2, ... in turn, z_k ~ N(mu_k, 1) on the interval that is left to it;
with p_k the probability of that interval, the law wanted over the proposal is

    exp(psi(z)),   psi(z) = sum_k mu_k^2 / 2 - mu_k z_k + ln p_k(z_1 .. z_k-1),

concave in z. Botev's minimax tilt (2017) is the mu with the least maximum, ln M: a draw is kept with probability
exp(psi(z)) / M, and

    P(all rows in their intervals) = M P(kept) <= M.

Rows that the others determine, such as the last one of a facet in a box, are looked at only in the end. The least
maximum needs d numbers, not 2 d: see `_minimax_kernels.saddle`.

Exact draws behind the known facets for a full covariance in a box, by Karp and Luby's method with minimax tilts.

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

from combopeps.alternatives import _box_kernels as kernels
from combopeps.alternatives import _box_kernels as tilts
from combopeps.alternatives._box_kernels import karp_luby
from combopeps.alternatives.facets import Facets
from combopeps.alternatives.karp_luby import Draws
from combopeps.errors import SamplerCapError
from combopeps.oracles.base import Array
from combopeps.posterior.gaussian import GaussianBelief
from combopeps.posterior.parameter_space import ParameterSpace
from combopeps.random import stream_from


class TiltedWeights:
    """kappa, sigma, b, s_0 and ln M of every known facet, renewed where the belief has changed.

    Facets whose probability cannot matter are passed over until it might:

        P(y_f @ theta > 0 | box) <= Phi(-b_f) / prod_{i : y_fi != 0} P(theta_i in its interval).
    """

    def __init__(self, facets: Facets, space: ParameterSpace) -> None:
        self.facets = facets
        self.box = space.bounds(len(facets.z_hat))
        self._tilt = tuple(np.zeros((7, 0)))  # as the kernels have it
        self._parts = np.zeros((2, 0))
        self._top = 0.0  # ln M of the nearest facet
        self._free: NDArray[np.bool_] = np.zeros(0, dtype=bool)
        self._stale: NDArray[np.bool_] = np.zeros(0, dtype=bool)
        self._log_box = np.empty(len(facets.z_hat))
        self._seen = np.full((2, len(facets.z_hat)), np.nan)  # theta_hat and standard deviations of the last time
        self._seen_with: tuple[float, int] | None = None

    def _renew(self, normal_in_box: tuple[Array, Array, Array, Array], eta: float) -> None:
        facets = self.facets
        self._make_room(facets.size, len(facets.rows[3]))
        if self._seen_with != (eta, facets.renumbered):
            self._seen_with = eta, facets.renumbered
            self._seen[:] = np.nan  # which nothing is equal to
            self._stale[:] = True
        kept = self._tilt, self._free, self._parts
        weighed = facets.gap, facets.log_w, self._log_box
        tilts.follow(facets.rows, normal_in_box, self._seen, facets.index, *weighed, self._top, self._stale, *kept)
        self._top = tilts.refresh(facets.rows, normal_in_box, *weighed, self._stale, *kept)

    def _make_room(self, size: int, entries: int) -> None:
        """New facets are stale."""
        old = len(self._stale)
        if size != old:
            self._tilt = tuple(np.concatenate([row[:size], np.zeros(max(0, size - old))]) for row in self._tilt)
            self._stale = np.concatenate([self._stale[:size], np.ones(max(0, size - old), dtype=bool)])
        if entries > len(self._free):
            self._free = np.concatenate([self._free, np.zeros(entries - len(self._free), dtype=bool)])
            self._parts = np.concatenate([self._parts, np.zeros((2, entries - self._parts.shape[1]))], axis=1)

    def draw(self, belief: GaussianBelief, eta: float, rng: np.random.Generator, n: int, *, cap: int) -> Draws:
        """Up to n draws in at most `cap` proposals; the facets must be in step with the belief."""
        normal_in_box = belief.theta_hat[0], np.sqrt(belief.spread[0] / eta), *self.box
        self._renew(normal_in_box, eta)
        thetas = np.empty((n, belief.dim))
        filled, proposals, shares, squares, log_mass = karp_luby(
            stream_from(rng), self.facets.rows, normal_in_box, self._tilt, self._free, cap, thetas
        )
        return Draws(thetas[:filled], proposals, log_mass, shares, squares)


CURE = "general arms in a box: measure single components, or state a prior or a box in which theta has more room"
LARGEST = 400  # components: a tilt takes about 2 d^3 operations, some 50 ms there
_TRIES, _MORE = 20_000, 400  # proposals before draws are given up: so many, and so many more for each


class Tilted(NamedTuple):
    """Rows with a full covariance, each in its interval, and the proposal for drawing them.

    `log_m` is ln M, or a bound of the probability alone where the tilt was not found. `ends` are low and high of all
    rows, `shift` is where the search for the tilt has ended.
    """

    factor: tuple[NDArray[np.int64], Array, Array, Array, Array]
    mean: Array
    ends: tuple[Array, Array]
    mu: Array
    log_m: float
    found: bool
    shift: Array

    @classmethod
    def of(cls, covariance: Array, mean: Array, ends: tuple[Array, Array], near: Array | None = None) -> Tilted:
        """The minimax tilt; `near` are the shifts of one that may be close to it, row by row."""
        factor = rows, _, A, R, inner = kernels.factorise(covariance, mean, *ends)
        order = rows[: len(A)]
        start = np.zeros(len(A)) if near is None else near[order]
        mu, log_m, found = kernels.saddle(A, R, inner, start)
        if near is not None and not found:
            return cls.of(covariance, mean, ends)
        shift = np.zeros(len(mean))
        shift[order] = start
        return cls(factor, mean, ends, mu, log_m, found, shift)

    def rescaled(self, eta: float) -> Tilted:
        """The same with the covariance divided by eta."""
        order, L, A, R, inner = self.factor
        scaled = inner * np.sqrt(eta)
        mu, log_m, found = kernels.saddle(A, R, scaled, self.shift[order[: len(A)]])
        factor = order, L / np.sqrt(eta), A, R, scaled
        return self._replace(factor=factor, mu=mu, log_m=log_m, found=found)

    def draw(self, rng: np.random.Generator, n: int, cap: int, *, behind: int = 0) -> tuple[Array, int]:
        """Up to n draws in at most `cap` proposals, without the first `behind` rows; and how many proposals it took."""
        thetas = np.empty((n, len(self.mean) - behind))
        if not self.found:
            return thetas[:0], cap
        filled, proposals = kernels.draw(
            stream_from(rng), self.factor, (self.mu, self.log_m), (self.mean, *self.ends), behind, cap, thetas
        )
        return thetas[:filled], proposals


def tilted_box(belief: GaussianBelief, space: ParameterSpace, eta: float = 1.0) -> Tilted:
    """The belief in the box."""
    L = belief.spread[0]
    return Tilted.of(L @ L.T / eta, belief.theta_hat[0], space.bounds(belief.dim))


def replace_misses(
    belief: GaussianBelief, space: ParameterSpace, eta: Array, rng: np.random.Generator, thetas: Array
) -> NDArray[np.bool_]:
    """Put exact draws in the box in the place of thetas outside, (n, d), at their eta, (n,) or (1,); which are inside.

    Replacing a miss by an exact draw keeps the law exact. Where that takes too long, misses are left.
    """
    inside = space.contains(thetas)
    missed = np.flatnonzero(~inside)
    if not len(missed) or belief.dim > LARGEST:
        return inside
    tilted = tilted_box(belief, space)
    cap = _TRIES + _MORE * len(missed)
    for part, by in [(missed, eta[0])] if len(eta) == 1 else zip(missed[:, None], eta[missed], strict=True):
        found, proposals = (tilted if by == 1.0 else tilted.rescaled(by)).draw(rng, len(part), cap)
        part = part[: len(found)]
        thetas[part], inside[part] = found, True
        cap -= proposals
    return inside


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

"""Exact draws from a normal distribution in a box, and from the half-spaces of the known facets in that box.

**Independent components** (`TiltedWeights`). The coordinates of facet f are split into F, which the box hardly
constrains, and E. With s = y_E @ theta_E, sigma the standard deviation of y_F @ theta_F on R^d, b the distance of the
facet in units of sigma at s = s_0, and any s_0,

    P(y_f @ theta > 0 | theta_E) <= Phi(u - b) / P(box_F) <= Phi(-b) exp(kappa (s - s_0)) / P(box_F),
    u = (s - s_0) / sigma,   kappa = phi(b) / (Phi(-b) sigma),

the tangent to a log-concave function. M_f is the expectation of the bound over theta_E in its box. Pick f ~ M_f, draw
theta_E tilted by kappa (a truncated normal with mean theta_hat + kappa y s^2), theta_F conditioned on the facet, the
other coordinates from the posterior, and keep theta if it lies in the box, with probability

    1{theta in the union} / sum_f 1{theta in half-space f} Phi(-b_f) exp(kappa_f (s - s_0)) / Phi(u - b_f).

Then P(Alt | Theta) = (sum_f M_f) E[that weight]. Where F is empty the bound is exp(kappa y_f @ theta), for any kappa,
whether theta is in the half-space or not. The best split and s_0 make M_f small; others only cost time.

**A full covariance** (`Tilted`). Write the rows that must stay in their intervals (components of theta, and
y_f @ theta) as mean + L z with z ~ N(0, I) and L lower triangular. The proposal draws z_1, z_2, ... in turn,
z_k ~ N(mu_k, 1) on the interval that is left to it; with p_k the probability of that interval, the target density over
the proposal density is

    exp(psi(z)),   psi(z) = sum_k mu_k^2 / 2 - mu_k z_k + ln p_k(z_1 .. z_k-1),

concave in z. The minimax tilt of Botev (2017) is the mu that minimises the maximum, ln M: a draw is accepted with
probability exp(psi(z)) / M, and

    P(all rows in their intervals) = M P(accepted) <= M.

Rows that the others determine, such as the last one of a facet in a box, are checked at the end. The minimax problem
needs d numbers, not 2 d: see `_box_kernels.minimax_tilt`.

**Facets under a full covariance in a box** (`MinimaxWeights`), by Karp and Luby's method:

    pick f ~ M_f,   theta ~ the posterior in the box given y_f @ theta > 0,   accept it with probability 1 / N(theta)

N counts the half-spaces that contain theta; P(Alt and Theta) = (sum_f M_f) P(accepted). A tilt takes most of a
millisecond at d = 70, and there may be hundreds of facets. No tilt is computed for facets whose probability is
negligible by one of two bounds of it:

    Phi(-b_f),   or   M_f of an earlier posterior times the maximum of the density now over the density then.
"""

from __future__ import annotations

from math import ceil, inf, log, nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from combopeps.alternatives import _box_kernels as kernels
from combopeps.alternatives.facets import Draws, Facets
from combopeps.errors import SamplerCapError
from combopeps.oracles.base import Array
from combopeps.posterior.gaussian import GaussianPosterior
from combopeps.posterior.parameter_space import ParameterSpace
from combopeps.random import stream_from

ADVICE = "general arms in a box: measure single components, or state a prior or a box in which theta has more room"
MAX_DIM = 400  # a tilt takes about 2 d^3 operations, some 50 ms there

_BASE_PROPOSALS, _PROPOSALS_PER_MISS = 20_000, 400  # after which draws outside the box are left there
_MAX_SKIPPED_SHARE = 1e-9  # of the total: what all skipped facets may have together
_INITIAL_COST = 32  # proposals per draw, before the first ones were made
_MAX_BATCH = 4096  # proposals at once
_SMOOTHING = 0.2  # weight of the last call in the running mean of proposals per draw
_INVERSE_TOLERANCE = 1e-6  # largest entry of precision @ covariance - I, for a ratio of densities to be trusted
_ROUNDING = 1e-9  # relative to the largest precision: smaller eigenvalues are 0


class TiltedWeights:
    """kappa, sigma, b, s_0 and ln M of every known facet, updated where the posterior has changed.

    Facets of negligible probability are skipped, by the bound

        P(y_f @ theta > 0 | box) <= Phi(-b_f) / prod_{i : y_fi != 0} P(theta_i in its interval).
    """

    def __init__(self, facets: Facets, space: ParameterSpace) -> None:
        self.facets = facets
        self.box = space.bounds(len(facets.z_hat))
        self._tilt = tuple(np.zeros((7, 0)))  # see `_box_kernels`
        self._terms = np.zeros((2, 0))
        self._top = 0.0  # ln M of the facet of largest weight
        self._free: NDArray[np.bool_] = np.zeros(0, dtype=bool)
        self._stale: NDArray[np.bool_] = np.zeros(0, dtype=bool)
        self._log_box = np.empty(len(facets.z_hat))
        self._last = np.full((2, len(facets.z_hat)), np.nan)  # theta_hat and standard deviations of the last update
        self._last_key: tuple[float, int] | None = None

    def _update(self, normal_in_box: tuple[Array, Array, Array, Array], eta: float) -> None:
        facets = self.facets
        self._resize(facets.size, len(facets.rows[3]))
        if self._last_key != (eta, facets.renumbered):
            self._last_key = eta, facets.renumbered
            self._last[:] = np.nan  # unequal to any number: all coordinates count as changed
            self._stale[:] = True
        state = self._tilt, self._free, self._terms
        weights = facets.gap, facets.log_w, self._log_box
        kernels.update_bounds(
            facets.rows, normal_in_box, self._last, facets.index, *weights, self._top, self._stale, *state
        )
        self._top = kernels.refresh_bounds(facets.rows, normal_in_box, *weights, self._stale, *state)

    def _resize(self, size: int, entries: int) -> None:
        """Extend the arrays to all facets; new facets are stale."""
        old = len(self._stale)
        if size != old:
            self._tilt = tuple(np.concatenate([row[:size], np.zeros(max(0, size - old))]) for row in self._tilt)
            self._stale = np.concatenate([self._stale[:size], np.ones(max(0, size - old), dtype=bool)])
        if entries > len(self._free):
            self._free = np.concatenate([self._free, np.zeros(entries - len(self._free), dtype=bool)])
            self._terms = np.concatenate([self._terms, np.zeros((2, entries - self._terms.shape[1]))], axis=1)

    def draw(self, posterior: GaussianPosterior, eta: float, rng: np.random.Generator, n: int, *, cap: int) -> Draws:
        """Return up to n draws from at most `cap` proposals; the facets must be in sync with the posterior."""
        normal_in_box = posterior.theta_hat[0], np.sqrt(posterior.spread[0] / eta), *self.box
        self._update(normal_in_box, eta)
        thetas = np.empty((n, posterior.dim))
        filled, proposals, acceptance_sum, acceptance_squares, log_mass = kernels.karp_luby_in_box(
            stream_from(rng), self.facets.rows, normal_in_box, self._tilt, self._free, cap, thetas
        )
        return Draws(thetas[:filled], proposals, log_mass, acceptance_sum, acceptance_squares)


class Tilted(NamedTuple):
    """Rows with a full covariance, each in its interval, and the proposal for drawing them.

    `log_m` is ln M, or only a bound of the probability if the tilt was not found. `ends` are the lower and upper ends
    of all rows; `shift` is where the search for the tilt ended.
    """

    factor: tuple[NDArray[np.int64], Array, Array, Array, Array]
    mean: Array
    ends: tuple[Array, Array]
    mu: Array
    log_m: float
    found: bool
    shift: Array

    @classmethod
    def of(cls, covariance: Array, mean: Array, ends: tuple[Array, Array], start: Array | None = None) -> Tilted:
        """Compute the minimax tilt; `start` are the shifts, row by row, at which the search starts."""
        factor = all_rows, _, A, R, scaled_ends = kernels.factorise(covariance, mean, *ends)
        order = all_rows[: len(A)]
        shifts = np.zeros(len(A)) if start is None else start[order]
        mu, log_m, found = kernels.minimax_tilt(A, R, scaled_ends, shifts)
        if start is not None and not found:  # a start too far away
            return cls.of(covariance, mean, ends)
        shift = np.zeros(len(mean))
        shift[order] = shifts
        return cls(factor, mean, ends, mu, log_m, found, shift)

    def rescaled(self, eta: float) -> Tilted:
        """Return the same rows with the covariance divided by eta."""
        order, L, A, R, scaled_ends = self.factor
        new_ends = scaled_ends * np.sqrt(eta)
        mu, log_m, found = kernels.minimax_tilt(A, R, new_ends, self.shift[order[: len(A)]])
        factor = order, L / np.sqrt(eta), A, R, new_ends
        return self._replace(factor=factor, mu=mu, log_m=log_m, found=found)

    def draw(self, rng: np.random.Generator, n: int, cap: int, *, skip: int = 0) -> tuple[Array, int]:
        """Return up to n draws without the first `skip` rows, and how many of `cap` proposals were made."""
        thetas = np.empty((n, len(self.mean) - skip))
        if not self.found:
            return thetas[:0], cap
        filled, proposals = kernels.draw_rows(
            stream_from(rng), self.factor, (self.mu, self.log_m), (self.mean, *self.ends), skip, cap, thetas
        )
        return thetas[:filled], proposals


def tilted_box(posterior: GaussianPosterior, space: ParameterSpace, eta: float = 1.0) -> Tilted:
    """Return the tilt of the posterior in the box."""
    L = posterior.spread[0]
    return Tilted.of(L @ L.T / eta, posterior.theta_hat[0], space.bounds(posterior.dim))


def replace_misses(
    posterior: GaussianPosterior, space: ParameterSpace, eta: Array, rng: np.random.Generator, thetas: Array
) -> NDArray[np.bool_]:
    """Replace thetas outside the box, (n, d), by exact draws in the box; return which are inside afterwards.

    `eta`, (n,) or (1,), divides the covariance of each draw. Replacing a draw outside by an exact one keeps the
    distribution exact. Where the proposals run out, draws stay outside.
    """
    inside = space.contains(thetas)
    missed = np.flatnonzero(~inside)
    if not len(missed) or posterior.dim > MAX_DIM:
        return inside
    tilted = tilted_box(posterior, space)
    cap = _BASE_PROPOSALS + _PROPOSALS_PER_MISS * len(missed)
    for part, factor in [(missed, eta[0])] if len(eta) == 1 else zip(missed[:, None], eta[missed], strict=True):
        found, proposals = (tilted if factor == 1.0 else tilted.rescaled(factor)).draw(rng, len(part), cap)
        part = part[: len(found)]
        thetas[part], inside[part] = found, True
        cap -= proposals
    return inside


class _Gaussian(NamedTuple):
    """A normal distribution: mean, covariance, precision and ln det of the precision.

    The precision is NaN where rounding leaves none.
    """

    mean: Array
    covariance: Array
    precision: Array
    log_det: float

    @classmethod
    def of(cls, posterior: GaussianPosterior, eta: float) -> _Gaussian:
        L = posterior.spread[0]
        covariance, precision, log_det = L @ L.T / eta, np.full_like(L, nan), -float(np.linalg.slogdet(L)[1]) * 2.0
        if log_det < inf:
            inverse = np.linalg.inv(L)
            precision = inverse.T @ inverse * eta
            if np.abs(precision @ covariance - np.eye(len(L))).max() > _INVERSE_TOLERANCE:
                precision[:] = nan
        return cls(posterior.theta_hat[0].copy(), covariance, precision, log_det + len(L) * log(eta))

    def log_ratio(self, earlier: _Gaussian) -> float:
        """Return ln of the maximum of its density over the earlier one; infinite if there is no maximum.

        With u relative to the earlier mean, D = precision - earlier precision and delta = mean - earlier mean,

            ln ratio = (ln det ratio - u' D u) / 2 + u' precision delta - delta' precision delta / 2.
        """
        D = self.precision - earlier.precision
        if not np.isfinite(D).all():
            return inf
        delta = self.mean - earlier.mean
        slope = self.precision @ delta
        # The maximum over u is finite if D has no negative eigenvalue, and no slope where an eigenvalue is 0.
        values, vectors = np.linalg.eigh(D)
        along, rounding = vectors.T @ slope, _ROUNDING * float(np.abs(self.precision).max())
        grown = values > rounding
        if (values < -rounding).any() or (np.abs(along[~grown]) > rounding * (1.0 + np.abs(self.mean).max())).any():
            return inf
        maximum = 0.5 * float((along[grown] ** 2 / values[grown]).sum() - delta @ slope)
        return maximum + 0.5 * (self.log_det - earlier.log_det)


class MinimaxWeights:
    """Tilts of the facets that matter under the current posterior, bounds of the others, and draws by them."""

    def __init__(self, facets: Facets, space: ParameterSpace) -> None:
        self.facets = facets
        self.box = space.bounds(len(facets.z_hat))
        self._distribution: _Gaussian | None = None
        self._cost = float(_INITIAL_COST)
        self._reset()

    def _reset(self) -> None:
        """Drop all bounds and tilts."""
        self._renumbered = self.facets.renumbered
        self._bound = np.zeros(0)
        self._tilts: dict[int, Tilted] = {}  # under the current posterior
        self._shifts: dict[int, Array] = {}  # of the last tilts: starting points of the search

    def _update_bounds(self, posterior: GaussianPosterior, eta: float) -> None:
        """Update the bounds to the posterior; the facets must be in sync with it."""
        facets, current = self.facets, _Gaussian.of(posterior, eta)
        if self._renumbered != facets.renumbered:
            self._reset()
        earlier, self._distribution = self._distribution, current
        same = earlier is not None and all(
            np.array_equal(a, b) for a, b in ((current.mean, earlier.mean), (current.covariance, earlier.covariance))
        )
        if not same:
            self._tilts = {}
            if len(self._bound) and earlier is not None:
                self._bound += current.log_ratio(earlier)
        old, size = len(self._bound), facets.size
        if old < size:
            possible = kernels.reachable_facets(facets.rows, *self.box)[old:]
            self._bound = np.concatenate([self._bound, np.where(possible, inf, -inf)])
        self._bound = np.fmin(self._bound, facets.log_w[:size])

    def _compute_tilt(self, f: int) -> Tilted:
        """Compute the tilt of facet f."""
        assert self._distribution is not None
        _, indptr, indices, data = self.facets.rows
        support, y = indices[indptr[f] : indptr[f + 1]], data[indptr[f] : indptr[f + 1]]
        mean, C = self._distribution.mean, self._distribution.covariance
        half = C[:, support] @ y
        # The facet is row 0, in (0, inf); the components are the other rows.
        joint = np.empty((len(mean) + 1, len(mean) + 1))
        joint[0, 0], joint[0, 1:], joint[1:, 0], joint[1:, 1:] = half[support] @ y, half, half, C
        ends = np.concatenate([[0.0], self.box[0]]), np.concatenate([[inf], self.box[1]])
        tilted = Tilted.of(joint, np.concatenate([[mean[support] @ y], mean]), ends, self._shifts.get(f))
        self._tilts[f], self._shifts[f] = tilted, tilted.shift
        self._bound[f] = min(self._bound[f], tilted.log_m)
        return tilted

    def _tilts_that_matter(self) -> tuple[list[Tilted], Array, NDArray[np.int64]]:
        """Return the tilts of facets of non-negligible probability, ln M of each, and their numbers."""
        # In decreasing order of the bounds, until the sum of all remaining ones is negligible.
        order = np.argsort(-self._bound)
        tail_mass = np.logaddexp.accumulate(self._bound[order][::-1])[::-1]
        total, not_found, chosen = -inf, -inf, []
        for f, remaining in zip(order.tolist(), tail_mass, strict=True):
            if remaining <= total + log(_MAX_SKIPPED_SHARE) or remaining == -inf:
                break
            tilted = self._tilts.get(f) or self._compute_tilt(f)
            if tilted.found:
                chosen.append(f)
                total = float(np.logaddexp(total, tilted.log_m))
            else:
                not_found = float(np.logaddexp(not_found, self._bound[f]))
        if not_found > total + log(_MAX_SKIPPED_SHARE):
            raise SamplerCapError(f"the tilt of a facet was not found, because of rounding; {ADVICE}")
        tilts = [self._tilts[f] for f in chosen]
        return tilts, np.array([tilted.log_m for tilted in tilts]), np.array(chosen, dtype=np.int64)

    def draw(self, posterior: GaussianPosterior, eta: float, rng: np.random.Generator, n: int, *, cap: int) -> Draws:
        """Return up to n draws from at most `cap` proposals; the facets must be in sync with the posterior."""
        self._update_bounds(posterior, eta)
        tilts, log_m, numbers = self._tilts_that_matter()
        log_mass = float(np.logaddexp.reduce(log_m, initial=-inf))
        accepted: list[Array] = [np.empty((0, posterior.dim))]
        filled = proposals = 0
        acceptance_sum = acceptance_squares = 0.0
        while filled < n and proposals < cap and tilts:
            # Half as many again as expected, so that one batch is enough in most cases.
            batch = min(cap - proposals, _MAX_BATCH, ceil(1.5 * (n - filled) * self._cost) + 4)
            picks = rng.multinomial(batch, np.exp(log_m - log_mass) / np.exp(log_m - log_mass).sum())
            parts = [tilts[k].draw(rng, picks[k], picks[k], skip=1)[0] for k in np.flatnonzero(picks).tolist()]
            thetas = np.concatenate(parts)
            containing: NDArray[np.int64] = np.empty(len(thetas), dtype=np.int64)
            kernels.count_violated(self.facets.rows, numbers, thetas, containing)
            acceptance = 1.0 / np.maximum(containing, 1)  # 0: rounding took theta out of the half-space of its facet
            kept = thetas[rng.random(len(thetas)) < acceptance]
            proposals, filled = proposals + batch, filled + len(kept)
            acceptance_sum, acceptance_squares = (
                acceptance_sum + float(acceptance.sum()),
                acceptance_squares + float((acceptance**2).sum()),
            )
            accepted.append(kept[rng.permutation(len(kept))])  # they are sorted by facet
        if filled:
            self._cost += _SMOOTHING * (proposals / filled - self._cost)
        return Draws(np.concatenate(accepted)[:n], proposals, log_mass, acceptance_sum, acceptance_squares)

"""Known facets of the cone of one answer, with gaps, widths and weights kept in sync with a posterior.

gap_f = -y_f @ theta_hat,   width_f = y_f' V^-1 y_f,   b_f = gap_f sqrt(eta / width_f),   weight_f = Phi(-b_f)

Exact draws from the union of the known half-spaces, by the method of Karp and Luby.

    pick f ~ Phi(-b_f),   theta ~ posterior given y_f @ theta > 0,   keep it with probability 1 / N(theta)

N counts the known half-spaces that contain theta. Then P(Alt) = (sum_f Phi(-b_f)) E[1/N]. No oracle call is needed,
and the number of proposals does not depend on P(Alt).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf, isnan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from combopeps.alternatives import _kernels as kernels
from combopeps.alternatives._kernels import BLOCK, compute_slack, reduce_slack
from combopeps.errors import SamplerCapError
from combopeps.oracles.base import Array, Sparse
from combopeps.posterior.gaussian import GaussianPosterior
from combopeps.posterior.normal_tails import log_ndtr
from combopeps.posterior.parameter_space import ParameterSpace, RealSpace
from combopeps.random import stream_from
from combopeps.utils.jit import exp, log, njit, sqrt

Rows = tuple[int, NDArray[np.int64], NDArray[np.int32], Array]
Index = NDArray[np.int64]

_MIN_WIDTH_RATIO = 1e-6  # new width over old: below it, too many digits have cancelled
_RECOMPUTE_EVERY = 4096  # syncs: rounding errors of the updates stay small in between
_SLACK_EVERY = 64  # syncs between two computations of the slack, which only shrinks in between
_MAX_ENTRIES_FOR_SLACK = 8  # mean entries of a facet, up to which keeping the slack saves time
_MAX_EXACT_PRODUCTS = 20_000  # for the information of all facets, some 20 us; beyond, it is estimated
_SAMPLED_FACETS = 64  # for that estimate
_MIN_TOTAL, _MAX_TOTAL = 1e-150, 1e150  # of the weights, outside of which the reference changes
_INITIAL_FACETS, _INITIAL_ENTRIES = 64, 1024  # reserved when the first facet is added
_EMPTY, _EMPTY_INDEX = np.zeros(0), (np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))


class Weights(NamedTuple):
    """Phi(-b_f) of every facet relative to exp(reference), the sums over blocks of facets, and the total."""

    each: Array
    blocks: Array
    total: float
    reference: float

    @property
    def log_mass(self) -> float:
        """ln sum_f Phi(-b_f)."""
        return self.reference + log(self.total) if self.total > 0.0 else -np.inf


class _Block(NamedTuple):
    """Rows in sparse form: the entries of row k are at ends[k] : ends[k + 1]."""

    indices: NDArray[np.int32]
    data: Array
    ends: list[int]

    def keys(self, chosen: Iterable[int] | None = None) -> Iterator[bytes]:
        """Yield a key of each row, equal for equal rows; empty for a row without entries."""
        for k in range(len(self.ends) - 1) if chosen is None else chosen:
            row = slice(self.ends[k], self.ends[k + 1])
            yield self.indices[row].tobytes() + self.data[row].tobytes()


class Facets:
    """Rows y_f = z_f - z_hat in sparse form, and gap, width and ln Phi(-b_f) of each under the current posterior.

    Facets depend on z_hat alone: they stay valid until the answer changes. After a measurement under a diagonal
    posterior only the facets that contain the measured component are updated.

    Attributes
    ----------
    complete
        Whether all facets of the cone are known.
    size
        Number of known facets.
    gap, width, log_w
        By facet; entries from `size` on are unused.
    slack
        (2, d): how far each component of theta may move from theta_hat, up and down, before the facets that contain it
        have to be evaluated; (2, 0) where that is not kept.
    renumbered
        How often the facets have been renumbered.
    evaluated_per_draw
        Running mean of the facets evaluated per proposal of `draw_from_union`; 0 before the first one.
    """

    def __init__(self, z_hat: Array) -> None:
        self.z_hat = z_hat.copy()
        self.complete = False
        self.size = 0
        self.renumbered = 0
        self._known: dict[bytes, int] = {}
        # While little is known, answers change often and most of them get no facet: allocate with the first one.
        self._indptr, self._indices, self._data = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), _EMPTY
        self.gap = self.width = self.log_w = self._weight = self._blocks = _EMPTY
        self._stale = np.zeros(0, dtype=bool)
        self.evaluated_per_draw = 0.0
        self.eta = 1.0
        self._reset()

    def set_all(self, rows: Sparse) -> None:
        """Set all facets of the cone, as rows z_f - z_hat."""
        self.complete, self.size = True, rows.shape[0]
        self._indptr = rows.indptr.astype(np.int64)
        self._indices, self._data = rows.indices.astype(np.int32), rows.data.astype(np.float64)
        self._allocate(self.size)
        self._reset()

    def _allocate(self, size: int) -> None:
        self.gap, self.width, self.log_w, self._weight = np.zeros(size), np.ones(size), np.zeros(size), np.zeros(size)
        self._blocks = np.zeros(size // BLOCK + 1)
        self._stale = np.zeros(len(self._blocks), dtype=bool)

    def _reset(self) -> None:
        """Mark everything as out of sync."""
        self._indexed = -1  # number of facets in the index by component; -1: there is no index
        self._index = _EMPTY_INDEX
        self.slack = np.empty((2, 0))
        self._updated = self._syncs = 0  # `_updated`: facets kept in sync by updates
        self.weights = Weights(self._weight, self._blocks, 0.0, 0.0)

    @property
    def rows(self) -> Rows:
        """The facets as the kernels take them: their number, indptr, indices and data."""
        return self.size, self._indptr, self._indices, self._data

    @property
    def entries(self) -> float:
        """Mean number of nonzeros of a facet."""
        return float(self._indptr[self.size]) / max(1, self.size)

    def add(self, answers: Array) -> NDArray[np.intp]:
        """Add the facets towards these answers, without duplicates; return their numbers (-1 for z_hat itself)."""
        differences = answers - self.z_hat
        row, column = differences.nonzero()
        ends = np.searchsorted(row, np.arange(len(answers) + 1)).tolist()
        rows = _Block(column.astype(np.int32), differences[row, column], ends)
        numbers, new = np.full(len(answers), -1), list[int]()
        for k, key in enumerate(rows.keys()):
            if key:  # empty for z_hat itself
                number = self._known.setdefault(key, self.size + len(new))
                if number == self.size + len(new):
                    new.append(k)
                numbers[k] = number
        self._append(rows, new)
        return numbers

    def answers(self, most: int) -> Array:
        """Return the answers z_f of up to `most` facets, those of largest weight first, (n, d); all belong to Z."""
        chosen = np.argsort(-self.log_w[: self.size], kind="stable")[:most]
        found = np.repeat(self.z_hat[None], len(chosen), axis=0)
        for row, f in enumerate(chosen.tolist()):
            entries = slice(self._indptr[f], self._indptr[f + 1])
            found[row, self._indices[entries]] += self._data[entries]
        return found

    def keep(self, chosen: NDArray[np.intp]) -> None:
        """Remove all facets but these, which are renumbered in the given order."""
        entries = int(self._indptr[self.size])
        rows = _Block(self._indices[:entries].copy(), self._data[:entries].copy(), self._indptr.tolist())
        self.size, self._known = 0, {}
        self._reset()
        self.renumbered += 1
        for k, key in enumerate(rows.keys(chosen.tolist())):
            self._known[key] = k
        self._append(rows, chosen.tolist())

    def _append(self, rows: _Block, chosen: list[int]) -> None:
        """Append the chosen rows."""
        if not chosen:
            return
        size, begin = self.size + len(chosen), int(self._indptr[self.size])
        lengths = [rows.ends[k + 1] - rows.ends[k] for k in chosen]
        self._reserve(size, begin + sum(lengths))
        for k, length in zip(chosen, lengths, strict=True):
            start, end = rows.ends[k], begin + length
            self._indices[begin:end] = rows.indices[start : start + length]
            self._data[begin:end] = rows.data[start : start + length]
            self.size += 1
            self._indptr[self.size] = begin = end

    def _reserve(self, size: int, entries: int) -> None:
        """Reserve memory for `size` facets with `entries` nonzeros in total."""
        if len(self._indptr) == 1:
            self._indptr = np.zeros(_INITIAL_FACETS + 1, dtype=np.int64)
            self._indices, self._data = np.zeros(_INITIAL_ENTRIES, dtype=np.int32), np.zeros(_INITIAL_ENTRIES)
            self._allocate(_INITIAL_FACETS)
        if size >= len(self._indptr):
            capacity = max(size + 1, 2 * len(self._indptr))
            self._indptr = np.resize(self._indptr, capacity)
            for name in ("gap", "width", "log_w", "_weight"):
                setattr(self, name, np.resize(getattr(self, name), capacity))
            self._blocks = np.resize(self._blocks, capacity // BLOCK + 1)
            self._stale = np.zeros(len(self._blocks), dtype=bool)
        if entries > len(self._indices):
            capacity = max(entries, 2 * len(self._indices))
            self._indices, self._data = np.resize(self._indices, capacity), np.resize(self._data, capacity)

    def sync(self, posterior: GaussianPosterior, eta: float) -> None:
        """Update gaps, widths and weights to the posterior."""
        theta, spread = posterior.theta_hat[0], posterior.spread[0]
        if not posterior.is_diagonal and self._indexed >= 0:
            self._reset()  # the last posterior was diagonal
        total = self._update(theta, spread, eta) if posterior.is_diagonal else self._compute_from(0, theta, spread, eta)
        if not _MIN_TOTAL < total < _MAX_TOTAL:  # before weights underflow or overflow
            total = self._rescale()
        if isnan(total):
            raise SamplerCapError("gaps or widths of facets are NaN; check that the posterior is finite", 0)
        self.weights = Weights(self._weight, self._blocks, total, self.weights.reference)

    def recompute(self, posterior: GaussianPosterior, eta: float) -> None:
        """Compute gaps, widths and weights from scratch, without what makes later updates cheap.

        Costs less than `sync` for few facets of an answer that may change soon.
        """
        self._reset()
        total = self._compute_from(0, posterior.theta_hat[0], posterior.spread[0], eta)
        self.weights = self.weights._replace(total=total)

    def _update(self, theta: Array, variance: Array, eta: float) -> float:
        """Update what has changed since the last sync; compute everything from scratch now and then."""
        self._syncs += 1
        if self._indexed < 0 or eta != self.eta or self._index_is_outdated() or self._syncs % _RECOMPUTE_EVERY == 0:
            self._last, self._updated = (theta.copy(), variance.copy()), 0
            self._build_index(len(theta))
        else:
            (last_theta, last_variance), (column, facet, value) = self._last, self._index
            total = update_weights(
                theta, variance, last_theta, last_variance, column, facet, value, self.rows, eta, self.gap, self.width,
                self.log_w, self.weights.reference, self._weight, self._blocks, self._stale, self.slack,
            )  # fmt: skip
            if self.slack.shape[1] and self._syncs % _SLACK_EVERY == 0:
                compute_slack(self._indexed, *self.rows[1:], self.gap, self.slack)
            if self._updated == self.size:
                return float(total)
        first = self._updated
        total = self._compute_from(first, theta, variance, eta)
        self._updated = self._indexed  # the few later ones are recomputed at each sync
        if first == 0 and self.slack.shape[1]:
            compute_slack(self._indexed, *self.rows[1:], self.gap, self.slack)
        return total

    def _compute_from(self, first: int, theta: Array, spread: Array, eta: float) -> float:
        """Compute gaps, widths and weights of facets `first`, first + 1, ... from scratch; return their sum."""
        self.eta = eta
        kernels.compute_weights(first, *self.rows, theta, spread, eta, self.gap, self.width, self.log_w)
        if first == 0:
            return self._rescale()
        reference = self.weights.reference
        return float(kernels.sum_weights(first, self.size, self.log_w, reference, self._weight, self._blocks))

    def _rescale(self) -> float:
        """Make the largest log-weight the reference; return the sum of weights."""
        top = float(self.log_w[: self.size].max(initial=-np.inf))
        if top == -np.inf:
            self.weights = Weights(self._weight, self._blocks, 0.0, 0.0)
            self._weight[: self.size] = self._blocks[:] = 0.0
            return 0.0
        self.weights = self.weights._replace(reference=top)
        return float(kernels.sum_weights(0, self.size, self.log_w, top, self._weight, self._blocks))

    @property
    def log_mass(self) -> float:
        """ln sum_f Phi(-b_f)."""
        return self.weights.log_mass

    def weights_at(self, eta: float) -> Weights:
        """Return the weights at another eta than that of the last sync."""
        log_w, each, blocks = np.empty(self.size), np.empty(self.size), np.empty(len(self._blocks))
        kernels.log_weights_at(self.size, self.gap, self.width, eta, log_w)
        top = float(log_w.max(initial=-np.inf))
        if top == -np.inf:  # no facet, or none of positive weight
            return Weights(each, blocks, 0.0, 0.0)
        return Weights(each, blocks, float(kernels.sum_weights(0, self.size, log_w, top, each, blocks)), top)

    def information(self, shift: float, out: Array) -> None:
        """Compute sum_f Phi(-b_f) y_f y_f' / |y_f|^2_S up to a factor into `out`: (d, d), or its diagonal, (d,).

        Where that is costly, it is estimated from facets drawn with the probabilities Phi(-b_f); `shift` in [0, 1) is
        the random offset of the systematic sample.
        """
        weights, work = self.weights, self._indptr[self.size] * (1.0 if out.ndim == 1 else self.entries)
        if work <= _MAX_EXACT_PRODUCTS:
            information(self.rows, weights.each, self.width, out)
        else:
            sampled_information(
                self.rows, weights.each, weights.blocks, weights.total, self.width, shift, _SAMPLED_FACETS, out
            )

    def temperature(self, eta: float) -> float:
        """Return the tau <= 1 with sum_f Phi(-tau b_f) close to 1, by bisection."""
        if self.weights_at(eta).log_mass >= 0.0:
            return 1.0
        low, high = 1e-3, 1.0
        for _ in range(10):  # to a factor of 1.007, on the logarithmic scale
            middle = sqrt(low * high)
            above = self.weights_at(eta * middle * middle).log_mass > 0.0
            low, high = (middle, high) if above else (low, middle)
        return high

    @property
    def index(self) -> tuple[Index, Index, int]:
        """Facets by component, for the kernels: begin of each component, facets, and how many are indexed."""
        return self._index[0], self._index[1], max(self._indexed, 0)

    def _index_is_outdated(self) -> bool:
        return self.size - self._indexed > 32 + self._indexed // 4

    def _build_index(self, dim: int) -> None:
        """Build the index of facets by component: the transpose of the rows."""
        entries = int(self._indptr[self.size])
        order = np.argsort(self._indices[:entries], kind="stable")
        facet = np.repeat(np.arange(self.size), np.diff(self._indptr[: self.size + 1]))
        column = np.searchsorted(self._indices[:entries][order], np.arange(dim + 1))
        self._index = column, facet[order], self._data[:entries][order]
        self.slack = np.full((2, dim if self.entries <= _MAX_ENTRIES_FOR_SLACK else 0), np.inf)
        self._indexed = self.size


_NO_BOUNDS = np.empty(0)
_SMOOTHING = 0.2  # weight of the last call in the running mean of facets evaluated per draw


@dataclass(frozen=True)
class Draws:
    """Thetas in the union of the known half-spaces, and the estimate of its probability by the proposals.

    P(union) = exp(log_mass) E[acceptance probability]: `acceptance_sum` and `acceptance_squares` are the sums of the
    acceptance probabilities and of their squares over `proposals`.
    """

    thetas: Array
    proposals: int
    log_mass: float
    acceptance_sum: float
    acceptance_squares: float

    @property
    def log_probability(self) -> float:
        """ln of the estimated probability, cut off at 0."""
        return min(0.0, self.log_mass + log(self.acceptance_sum / self.proposals)) if self.acceptance_sum > 0 else -inf

    @property
    def relative_error(self) -> float:
        """Standard error of the estimate, relative to it."""
        if self.acceptance_sum <= 0:
            return inf
        mean = self.acceptance_sum / self.proposals
        return sqrt(max(0.0, self.acceptance_squares / self.proposals - mean * mean) / self.proposals) / mean


def draw_from_union(
    facets: Facets,
    posterior: GaussianPosterior,
    eta: float,
    rng: np.random.Generator,
    n: int,
    *,
    cap: int,
    space: ParameterSpace | None = None,
) -> Draws:
    """Return up to n draws from at most `cap` proposals; the facets must be in sync with the posterior.

    In a box, proposals outside are rejected: exact, and slow when that happens to most of them.
    """
    weights = facets.weights if eta == facets.eta else facets.weights_at(eta)
    low, high = (
        (_NO_BOUNDS, _NO_BOUNDS) if space is None or isinstance(space, RealSpace) else space.bounds(posterior.dim)
    )
    thetas, d = np.empty((n, posterior.dim)), posterior.dim
    scratch = np.zeros(d, np.bool_), np.empty(d, np.int64), np.empty(facets.size, np.int64)
    filled, proposals, acceptance_sum, acceptance_squares, evaluated = kernels.karp_luby(
        stream_from(rng), facets.rows, facets.index, posterior.theta_hat[0], posterior.spread[0], eta, facets.gap,
        facets.width, weights.each, weights.blocks, weights.total, facets.slack, low, high, cap, scratch, thetas,
    )  # fmt: skip
    if eta == facets.eta and proposals:
        last, mean = evaluated / proposals, facets.evaluated_per_draw
        facets.evaluated_per_draw = mean + _SMOOTHING * (last - mean) if mean else last
    return Draws(thetas[:filled], proposals, weights.log_mass, acceptance_sum, acceptance_squares)


# Kernels that are called in every round: arguments as in `combopeps.alternatives._kernels`.


@njit(inner=True)
def _sum_block(b, size, weight):
    """Sum the weights of a block in the order of the facets, in Python as in compiled code."""
    total = 0.0
    for f in range(b * BLOCK, min(size, (b + 1) * BLOCK)):
        total += weight[f]
    return total


def _count_update_steps(theta, variance, last_theta, last_variance, column, facet, *_):
    return len(theta) + 4 * len(facet)


@njit(steps=_count_update_steps)
def update_weights(
    theta, variance, last_theta, last_variance, column, facet, value, rows, eta, gap, width, log_w, reference, weight,
    blocks, stale, slack,
):  # fmt: skip
    """Update gaps, widths and weights after a change of some components; return the sum of all weights.

    `last_theta` and `last_variance` hold the values of the last call; `column, facet, value` is the transpose of the
    rows. `stale` marks blocks whose sums are to be recomputed.
    """
    size, indptr, indices, data = rows
    for i in range(len(theta)):
        shift, growth = theta[i] - last_theta[i], variance[i] - last_variance[i]
        if shift == 0.0 and growth == 0.0:
            continue
        last_theta[i], last_variance[i] = theta[i], variance[i]
        for p in range(column[i], column[i + 1]):
            f, v = facet[p], value[p]
            gap[f] -= v * shift
            old_width, width[f] = width[f], width[f] + v * v * growth
            if width[f] < _MIN_WIDTH_RATIO * old_width:
                gap[f], width[f] = 0.0, 0.0
                for q in range(indptr[f], indptr[f + 1]):
                    j = indices[q]
                    gap[f] -= data[q] * last_theta[j]
                    width[f] += data[q] * data[q] * last_variance[j]
            log_w[f] = log_ndtr(-gap[f] * sqrt(eta / width[f]))
            weight[f] = exp(log_w[f] - reference)
            stale[f // BLOCK] = True
            if slack.shape[1] > 0:
                reduce_slack(f, indptr, indices, data, gap, slack)
    total = 0.0
    for b in range((size + BLOCK - 1) // BLOCK):
        if stale[b]:
            blocks[b] = _sum_block(b, size, weight)
            stale[b] = False
        total += blocks[b]
    return total


def _count_information_steps(rows, weight, width, out):
    return rows[1][rows[0]] * (1 if out.ndim == 1 else len(out))


@njit(steps=_count_information_steps)
def information(rows, weight, width, out):
    """Compute sum_f weight_f y_f y_f' / width_f into `out`; the diagonal only if `out` has one axis."""
    out[:] = 0.0
    for f in range(rows[0]):
        if weight[f] > 0.0:
            _add_outer_product(f, rows, weight[f] / width[f], out)


@njit
def sampled_information(rows, weight, blocks, total, width, shift, picks, out):
    """Estimate `information` from `picks` facets, drawn in proportion to their weights by systematic sampling.

    The points are (shift + k) total / picks, k = 0, 1, ..., on the cumulative weights.
    """
    size, out[:] = rows[0], 0.0
    step = total / picks
    target, reached = shift * step, 0.0
    for b in range((size + BLOCK - 1) // BLOCK):
        if reached + blocks[b] <= target:
            reached += blocks[b]
            continue
        for f in range(b * BLOCK, min(size, (b + 1) * BLOCK)):
            reached += weight[f]
            while target < reached:
                _add_outer_product(f, rows, 1.0 / width[f], out)
                target += step


@njit(inner=True)
def _add_outer_product(f, rows, factor, out):
    """Add factor y_f y_f' to `out`, or its diagonal."""
    _, indptr, indices, data = rows
    for p in range(indptr[f], indptr[f + 1]):
        if out.ndim == 1:
            out[indices[p]] += factor * data[p] * data[p]
        else:
            for q in range(indptr[f], indptr[f + 1]):
                out[indices[p], indices[q]] += factor * data[p] * data[q]

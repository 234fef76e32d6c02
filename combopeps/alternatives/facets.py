"""The facets of one cone that are known so far, with gaps, widths and weights kept in step with a belief."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isnan, log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from combopeps.alternatives import _kernels as kernels
from combopeps.errors import SamplerCapError
from combopeps.oracles.base import Array, Sparse
from combopeps.posterior.gaussian import GaussianBelief

Rows = tuple[int, NDArray[np.int64], NDArray[np.int32], Array]
Index = NDArray[np.int64]

_ANEW = 4096  # syncs between two computations from scratch: differences never have time to lose digits
_ROOMY = 64  # syncs between two computations of how far components may move; in between it only shrinks
_SHORT = 8  # entries of a facet up to which it pays to know that
_ALL, _SOME = 20_000, 64  # products for what all facets tell, some 20 us; beyond, facets that stand for all of them
_TINY, _HUGE = 1e-150, 1e150  # sums of weights that are left as they are
_FACETS, _ENTRIES = 64, 1024  # that room is made for when the first facet is added
_NONE, _NO_INDEX = np.zeros(0), (np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))


class Weights(NamedTuple):
    """Phi(-b_f) of every facet relative to exp(reference), their sums over blocks, and over all."""

    each: Array
    blocks: Array
    total: float
    reference: float

    @property
    def log_mass(self) -> float:
        """ln sum_f Phi(-b_f)."""
        return self.reference + log(self.total) if self.total > 0.0 else -np.inf


class _Block(NamedTuple):
    """Rows in sparse form: those of row k are at ends[k] : ends[k + 1]."""

    indices: NDArray[np.int32]
    data: Array
    ends: list[int]

    def keys(self, chosen: Iterable[int] | None = None) -> Iterator[bytes]:
        """What tells rows apart; empty for one without entries."""
        for k in range(len(self.ends) - 1) if chosen is None else chosen:
            row = slice(self.ends[k], self.ends[k + 1])
            yield self.indices[row].tobytes() + self.data[row].tobytes()


class Facets:
    """Rows y_f = z_f - z_hat in sparse form, and gap, width and ln Phi(-b) of each under the current belief.

    Facets depend on z_hat alone: they are good until the answer changes. After one measurement of a diagonal belief
    only the facets that touch the measured component are updated.
    """

    def __init__(self, z_hat: Array) -> None:
        self.z_hat = z_hat.copy()
        self.complete = False
        self.size = 0
        self.renumbered = 0  # how often facets have changed their numbers
        self._known: dict[bytes, int] = {}
        # Answers come and go while little is known, most of them without a single facet: no memory before the first.
        self._indptr, self._indices, self._data = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), _NONE
        self.gap = self.width = self.log_w = self._weight = self._blocks = _NONE
        self._stale = np.zeros(0, dtype=bool)
        self.looks = 0.0  # facets looked at per draw, of late; all of them before the first one
        self.eta = 1.0
        self._reset()

    def take(self, rows: Sparse) -> None:
        """All facets there are, as rows z_f - z_hat."""
        self.complete, self.size = True, rows.shape[0]
        self._indptr = rows.indptr.astype(np.int64)
        self._indices, self._data = rows.indices.astype(np.int32), rows.data.astype(np.float64)
        self._allocate(self.size)
        self._reset()

    def _allocate(self, size: int) -> None:
        self.gap, self.width, self.log_w, self._weight = np.zeros(size), np.ones(size), np.zeros(size), np.zeros(size)
        self._blocks = np.zeros(size // kernels.BLOCK + 1)
        self._stale = np.zeros(len(self._blocks), dtype=bool)

    def _reset(self) -> None:
        """Nothing is in step with any belief."""
        self._indexed = -1  # how many facets the index by component covers
        self._index = _NO_INDEX
        self.room = np.empty((2, 0))  # (2, d): how far components may move before a facet has to be looked at
        self._refreshed = self._syncs = 0
        self.weights = Weights(self._weight, self._blocks, 0.0, 0.0)

    @property
    def rows(self) -> Rows:
        """The facets as the kernels take them: how many, then indptr, indices and data."""
        return self.size, self._indptr, self._indices, self._data

    @property
    def entries(self) -> float:
        """Nonzeros of an average facet."""
        return float(self._indptr[self.size]) / max(1, self.size)

    def add(self, answers: Array) -> NDArray[np.intp]:
        """Add the facets towards these answers, none twice; their numbers (-1 for z_hat itself)."""
        differences = answers - self.z_hat
        row, column = differences.nonzero()
        ends = np.searchsorted(row, np.arange(len(answers) + 1)).tolist()
        rows = _Block(column.astype(np.int32), differences[row, column], ends)
        numbers, new = np.full(len(answers), -1), list[int]()
        for k, key in enumerate(rows.keys()):
            if key:
                number = self._known.setdefault(key, self.size + len(new))
                if number == self.size + len(new):
                    new.append(k)
                numbers[k] = number
        self._append(rows, new)
        return numbers

    def answers(self, most: int) -> Array:
        """The answers behind up to so many facets, the most probable ones, (n, d); all of them belong to Z."""
        chosen = np.argsort(-self.log_w[: self.size], kind="stable")[:most]
        found = np.repeat(self.z_hat[None], len(chosen), axis=0)
        for row, f in enumerate(chosen.tolist()):
            entries = slice(self._indptr[f], self._indptr[f + 1])
            found[row, self._indices[entries]] += self._data[entries]
        return found

    def keep(self, chosen: NDArray[np.intp]) -> None:
        """Forget all facets but these."""
        entries = int(self._indptr[self.size])
        rows = _Block(self._indices[:entries].copy(), self._data[:entries].copy(), self._indptr.tolist())
        self.size, self._known = 0, {}
        self._reset()
        self.renumbered += 1
        for k, key in enumerate(rows.keys(chosen.tolist())):
            self._known[key] = k
        self._append(rows, chosen.tolist())

    def _append(self, rows: _Block, chosen: list[int]) -> None:
        """Some rows, at the end."""
        if not chosen:
            return
        size, begin = self.size + len(chosen), int(self._indptr[self.size])
        lengths = [rows.ends[k + 1] - rows.ends[k] for k in chosen]
        self._make_room(size, begin + sum(lengths))
        for k, length in zip(chosen, lengths, strict=True):
            start, end = rows.ends[k], begin + length
            self._indices[begin:end] = rows.indices[start : start + length]
            self._data[begin:end] = rows.data[start : start + length]
            self.size += 1
            self._indptr[self.size] = begin = end

    def _make_room(self, size: int, entries: int) -> None:
        """For so many facets, with so many entries together."""
        if len(self._indptr) == 1:
            self._indptr = np.zeros(_FACETS + 1, dtype=np.int64)
            self._indices, self._data = np.zeros(_ENTRIES, dtype=np.int32), np.zeros(_ENTRIES)
            self._allocate(_FACETS)
        if size >= len(self._indptr):
            room = max(size + 1, 2 * len(self._indptr))
            self._indptr = np.resize(self._indptr, room)
            for name in ("gap", "width", "log_w", "_weight"):
                setattr(self, name, np.resize(getattr(self, name), room))
            self._blocks = np.resize(self._blocks, room // kernels.BLOCK + 1)
            self._stale = np.zeros(len(self._blocks), dtype=bool)
        if entries > len(self._indices):
            room = max(entries, 2 * len(self._indices))
            self._indices, self._data = np.resize(self._indices, room), np.resize(self._data, room)

    def sync(self, belief: GaussianBelief, eta: float) -> None:
        """Bring gaps, widths and weights in step with the belief."""
        theta, spread = belief.theta_hat[0], belief.spread[0]
        if not belief.is_diagonal and self._indexed >= 0:
            self._reset()  # what is kept up to date belongs to another kind of belief
        total = self._follow(theta, spread, eta) if belief.is_diagonal else self._compute(0, theta, spread, eta)
        if not _TINY < total < _HUGE:
            total = self._refer_to_top()
        if isnan(total):
            raise SamplerCapError("gaps or widths of facets are no numbers: is the belief finite?", 0)
        self.weights = Weights(self._weight, self._blocks, total, self.weights.reference)

    def renew(self, belief: GaussianBelief, eta: float) -> None:
        """`sync` from scratch, without what makes the next one quick: for few facets of an answer that may not last."""
        self._reset()
        total = self._compute(0, belief.theta_hat[0], belief.spread[0], eta)
        self.weights = self.weights._replace(total=total)

    def _follow(self, theta: Array, variance: Array, eta: float) -> float:
        """Only what has changed since the last sync, as a rule."""
        self._syncs += 1
        if self._indexed < 0 or eta != self.eta or self._grown_past_index() or self._syncs % _ANEW == 0:
            self._seen, self._refreshed = (theta.copy(), variance.copy()), 0
            self._build_index(len(theta))
        else:
            (seen, grown), (column, facet, value) = self._seen, self._index
            total = kernels.update(
                theta, variance, seen, grown, column, facet, value, self.rows, eta, self.gap, self.width, self.log_w,
                self.weights.reference, self._weight, self._blocks, self._stale, self.room,
            )  # fmt: skip
            if self.room.shape[1] and self._syncs % _ROOMY == 0:
                kernels.rooms(self._indexed, *self.rows[1:], self.gap, self.room)
            if self._refreshed == self.size:
                return float(total)
        first = self._refreshed
        total = self._compute(first, theta, variance, eta)
        self._refreshed = self._indexed  # later facets are few: computed anew each time
        if first == 0 and self.room.shape[1]:
            kernels.rooms(self._indexed, *self.rows[1:], self.gap, self.room)
        return total

    def _compute(self, first: int, theta: Array, spread: Array, eta: float) -> float:
        """Everything from this facet on, from scratch."""
        self.eta = eta
        kernels.refresh(first, *self.rows, theta, spread, eta, self.gap, self.width, self.log_w)
        if first == 0:
            return self._refer_to_top()
        return float(kernels.sum_up(first, self.size, self.log_w, self.weights.reference, self._weight, self._blocks))

    def _refer_to_top(self) -> float:
        top = float(self.log_w[: self.size].max(initial=-np.inf))
        if top == -np.inf:
            self.weights = Weights(self._weight, self._blocks, 0.0, 0.0)
            self._weight[: self.size] = self._blocks[:] = 0.0
            return 0.0
        self.weights = self.weights._replace(reference=top)
        return float(kernels.sum_up(0, self.size, self.log_w, top, self._weight, self._blocks))

    @property
    def log_mass(self) -> float:
        """ln sum_f Phi(-b_f)."""
        return self.weights.log_mass

    def weights_at(self, eta: float) -> Weights:
        """At another eta than that of the last sync."""
        log_w, each, blocks = np.empty(self.size), np.empty(self.size), np.empty(len(self._blocks))
        kernels.weigh_at(self.size, self.gap, self.width, eta, log_w)
        top = float(log_w.max(initial=-np.inf))
        if top == -np.inf:
            return Weights(each, blocks, 0.0, 0.0)
        return Weights(each, blocks, float(kernels.sum_up(0, self.size, log_w, top, each, blocks)), top)

    def information(self, shift: float, out: Array) -> None:
        """sum_f Phi(-b_f) y_f y_f' / |y_f|^2_S, up to a factor, into `out`, (d, d); its diagonal, if that is (d,).

        Where that takes long, from some facets drawn with the probabilities Phi(-b_f): `shift` in [0, 1) is their luck.
        """
        weights, work = self.weights, self._indptr[self.size] * (1.0 if out.ndim == 1 else self.entries)
        if work <= _ALL:
            kernels.information(self.rows, weights.each, self.width, out)
        else:
            kernels.information_of_some(
                self.rows, weights.each, weights.blocks, weights.total, self.width, shift, _SOME, out
            )

    def temperature(self, eta: float) -> float:
        """tau <= 1 with sum_f Phi(-tau b_f) close to 1, by bisection."""
        if self.weights_at(eta).log_mass >= 0.0:
            return 1.0
        low, high = 1e-3, 1.0
        for _ in range(10):
            middle = sqrt(low * high)
            hot = self.weights_at(eta * middle * middle).log_mass > 0.0
            low, high = (middle, high) if hot else (low, middle)
        return high

    @property
    def index(self) -> tuple[Index, Index, int]:
        """Facets by component, for the kernels: where each component begins, the facets, and how many it covers."""
        return self._index[0], self._index[1], max(self._indexed, 0)

    def _grown_past_index(self) -> bool:
        return self.size - self._indexed > 32 + self._indexed // 4

    def _build_index(self, dim: int) -> None:
        """Facets by component: the transpose of the rows."""
        entries = int(self._indptr[self.size])
        order = np.argsort(self._indices[:entries], kind="stable")
        facet = np.repeat(np.arange(self.size), np.diff(self._indptr[: self.size + 1]))
        column = np.searchsorted(self._indices[:entries][order], np.arange(dim + 1))
        self._index = column, facet[order], self._data[:entries][order]
        self.room = np.full((2, dim if self.entries <= _SHORT else 0), np.inf)
        self._indexed = self.size

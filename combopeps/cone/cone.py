"""The facets of the cone of z_hat that are known so far, with gaps and widths kept up to date."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from combopeps.belief.base import GaussianBelief
from combopeps.belief.dense import DenseBelief
from combopeps.belief.diagonal import DiagonalBelief
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.samplers import _kernels as kernels

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_ANEW = 4096  # syncs between two computations from scratch: differences never have time to lose digits


class FacetCache:
    """Differences y_f = z_f - z_hat in sparse form, and gap, width and ln Phi(-b) of each under the current belief.

    Facets depend on z_hat alone: the cache is good until the answer changes. After one measurement of a diagonal
    belief only the facets that touch the measured component are updated.
    """

    def __init__(self, z_hat: Array) -> None:
        self.z_hat = z_hat.copy()
        self.complete = False
        self.size = 0
        self.renumbered = 0  # how often facets have changed their numbers
        self._known: dict[bytes, int] = {}
        self._indptr = np.zeros(65, dtype=np.int64)
        self._indices = np.zeros(1024, dtype=np.int32)
        self._data = np.zeros(1024)
        self.gap, self.width, self.log_w = np.zeros(64), np.ones(64), np.zeros(64)
        self._indexed = -1  # how many facets the by-component index covers; -1: nothing is in step with any belief
        self._refreshed = self._syncs = 0
        self._scratch = np.empty((2, 64))
        self.active_entries = 0.0  # of the facets that mattered when their masses were last summed up
        self.eta = 1.0

    @classmethod
    def closed_form(cls, oracle: ArgmaxOracle, z_hat: Array) -> FacetCache:
        """All facets at once, from an oracle that knows them."""
        rows = oracle.facets(z_hat)
        assert rows is not None
        return cls.listed(rows, z_hat)

    @classmethod
    def listed(cls, rows: csr_array, z_hat: Array) -> FacetCache:
        """All facets, given as rows z_f - z_hat."""
        cache = cls(z_hat)
        cache.complete, cache.size = True, rows.shape[0]
        cache._indptr = rows.indptr.astype(np.int64)
        cache._indices, cache._data = rows.indices.astype(np.int32), rows.data.astype(np.float64)
        cache.gap, cache.width, cache.log_w = np.zeros(cache.size), np.ones(cache.size), np.zeros(cache.size)
        return cache

    @property
    def rows(self) -> tuple[int, NDArray[np.int64], NDArray[np.int32], Array]:
        """The facets as the kernels take them: how many, then indptr, indices and data."""
        return self.size, self._indptr, self._indices, self._data

    def add(self, answers: Array) -> NDArray[np.intp]:
        """Add the facets towards these answers, none twice; their numbers (-1 for z_hat itself)."""
        numbers = np.full(len(answers), -1)
        for k, answer in enumerate(answers):
            difference = answer - self.z_hat
            indices = np.flatnonzero(difference).astype(np.int32)
            if len(indices):
                data = difference[indices]
                key = indices.tobytes() + data.tobytes()
                if key not in self._known:
                    self._known[key] = self.size
                    self._append(indices, data)
                numbers[k] = self._known[key]
        return numbers

    def keep(self, chosen: NDArray[np.intp]) -> None:
        """Forget all facets but these."""
        rows = [slice(*self._indptr[f : f + 2]) for f in chosen]
        kept = [(self._indices[row].copy(), self._data[row].copy()) for row in rows]
        self.size, self._known, self._indexed = 0, {}, -1
        self.renumbered += 1
        for indices, data in kept:
            self._known[indices.tobytes() + data.tobytes()] = self.size
            self._append(indices, data)

    def _append(self, indices: NDArray[np.int32], data: Array) -> None:
        begin = self._indptr[self.size]
        end = begin + len(indices)
        if self.size + 1 == len(self._indptr):
            self._indptr = np.resize(self._indptr, 2 * len(self._indptr))
            for name in ("gap", "width", "log_w"):
                setattr(self, name, np.resize(getattr(self, name), len(self._indptr)))
        if end > len(self._indices):
            room = max(int(end), 2 * len(self._indices))
            self._indices, self._data = np.resize(self._indices, room), np.resize(self._data, room)
        self._indices[begin:end], self._data[begin:end] = indices, data
        self.size += 1
        self._indptr[self.size] = end

    @property
    def scratch(self) -> Array:
        """Working memory for the kernels: two numbers per facet."""
        if self._scratch.shape[1] < self.size:
            self._scratch = np.empty((2, len(self.log_w)))
        return self._scratch

    @property
    def log_mass(self) -> float:
        """ln sum_f Phi(-b_f)."""
        return self._log_sum(self.log_w)

    def weights_at(self, eta: float) -> Array:
        """ln Phi(-b_f) at another eta."""
        log_w = np.empty(self.size)
        kernels.weigh(self.size, self.gap, self.width, eta, log_w)
        return log_w

    def temperature(self, eta: float) -> float:
        """tau <= 1 with sum_f Phi(-tau b_f) close to 1, by bisection."""
        if self._log_sum(self.weights_at(eta)) >= 0.0:
            return 1.0
        low, high = 1e-3, 1.0
        for _ in range(10):
            middle = sqrt(low * high)
            hot = self._log_sum(self.weights_at(eta * middle * middle)) > 0.0
            low, high = (middle, high) if hot else (low, middle)
        return high

    def _log_sum(self, log_w: Array) -> float:
        active, cumulative = self.scratch[1].view(np.int64), self.scratch[0]
        count, total = kernels.select(self.size, log_w, active, cumulative)
        self.active_entries = float(self._indptr[self.size]) * count / max(1, self.size)
        return float(total)

    def sync(self, belief: GaussianBelief, eta: float) -> None:
        """Bring gaps, widths and weights in step with the belief."""
        if isinstance(belief, DiagonalBelief):
            self._sync_diagonal(belief.theta_hat[0], belief.variance[0], eta)
        else:
            assert isinstance(belief, DenseBelief)
            self.eta = eta
            theta, L = belief.theta_hat[0], belief.L[0]
            size, indptr, indices, data = self.rows
            kernels.refresh_dense(size, indptr, indices, data, theta, L, eta, self.gap, self.width, self.log_w)

    def _sync_diagonal(self, theta: Array, variance: Array, eta: float) -> None:
        self._syncs += 1
        if self._indexed < 0 or eta != self.eta or self._grown_past_index() or self._syncs % _ANEW == 0:
            self._build_index(len(theta))
            self._seen_theta, self._seen_variance, self.eta = theta.copy(), variance.copy(), eta
            self._refreshed = 0
        else:
            seen, grown = self._seen_theta, self._seen_variance
            column, facet, value = self._index
            kernels.update_diagonal(
                theta, variance, seen, grown, column, facet, value, eta, self.gap, self.width, self.log_w
            )
        if self._refreshed < self.size:
            _, indptr, indices, data = self.rows
            gap, width, log_w = self.gap, self.width, self.log_w
            kernels.refresh_diagonal(
                self._refreshed, self.size, indptr, indices, data, theta, variance, eta, gap, width, log_w
            )
            self._refreshed = self._indexed  # later facets are few: they are computed anew each time

    def _grown_past_index(self) -> bool:
        return self.size - self._indexed > 32 + self._indexed // 4

    def touching(self, components: NDArray[np.intp]) -> NDArray[np.intp]:
        """Facets that one of these components belongs to, and those the index does not cover yet."""
        column, facet, _ = self._index
        parts = [facet[column[i] : column[i + 1]] for i in components]
        return np.unique(np.concatenate([*parts, np.arange(self._indexed, self.size)]))

    def _build_index(self, dim: int) -> None:
        """Facets by component: the transpose of the rows."""
        entries = int(self._indptr[self.size])
        order = np.argsort(self._indices[:entries], kind="stable")
        facet = np.repeat(np.arange(self.size), np.diff(self._indptr[: self.size + 1]))
        column = np.searchsorted(self._indices[:entries][order], np.arange(dim + 1))
        self._index = column, facet[order], self._data[:entries][order]
        self._indexed = self.size

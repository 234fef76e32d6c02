"""Oracle of the k-subsets of d items."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from math import lgamma, log
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.errors import AnswerError, ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array, Confusions, LogCardinality, Sparse, as_sparse
from combopeps.oracles.input_checks import as_vector, count_or_labels, series_index
from combopeps.utils.formatting import count_text

_BLOCK_BYTES = 128 * 1024  # of temporaries: they stay in cache, and malloc does not return them to the system


class TopKOracle(ArgmaxOracle):
    """Oracle of the k-subsets: the k items with the largest theta; on ties the earlier item wins.

        Z = {z in {0, 1}^d : sum_i z_i = k}

    Parameters
    ----------
    d_or_labels
        The number of items (labelled 0 .. d-1), or their labels. The index of a pandas Series is used as labels.
    k
        Size of the subsets, 1 <= k <= d.

    Examples
    --------
    >>> oracle = TopKOracle(["ale", "bock", "cider", "dubbel"], k=2)
    >>> z = oracle.argmax([0.3, 0.9, 0.1, 0.4])
    >>> z
    array([0., 1., 0., 1.])
    >>> sorted(oracle.decode(z))
    ['bock', 'dubbel']
    """

    binary = antichain = exchanges = quick = True

    def __init__(self, d_or_labels: int | Iterable[Hashable], k: int) -> None:
        super().__init__(count_or_labels(series_index(d_or_labels, "d_or_labels"), "d_or_labels"))
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 1 <= k <= self.dim:
            raise ParameterError(f"k must be an integer in 1..{self.dim} (the number of items), got {k!r}")
        self.k = int(k)

    def __repr__(self) -> str:
        return f"TopKOracle({self.k} of {self.dim})"

    def _summary(self) -> Mapping[str, Any]:
        return {**super()._summary(), "k": self.k, "answers": count_text(self.log_cardinality)}

    def _argmax_batch(self, thetas: Array) -> Array:
        best = np.empty(thetas.shape)
        rows = max(1, _BLOCK_BYTES // (8 * self.dim))
        for start in range(0, len(thetas), rows):
            block = thetas[start : start + rows]
            # All items above the k-th largest value, and of those equal to it the first ones.
            threshold = np.partition(block, self.dim - self.k, axis=1)[:, self.dim - self.k, None]
            chosen = block >= threshold
            if np.count_nonzero(chosen) != self.k * len(block):
                _drop_surplus_ties(chosen, block == threshold, self.k)
            best[start : start + rows] = chosen
        return best

    def _membership_batch(self, z: Array, thetas: Array) -> NDArray[np.bool_]:
        from combopeps.oracles._graph_kernels import topk_membership

        is_best: NDArray[np.bool_]
        is_best, is_answer = topk_membership(thetas, z, self.k)
        if not is_answer:
            self._chosen_items(z)  # raises the specific error
        return is_best

    def decode(self, z: ArrayLike) -> set[Hashable]:
        """Return the set of chosen items."""
        items: set[Hashable] = super().decode(z)
        self._check_size(len(items))
        return items

    def encode(self, answer: Any) -> Array:
        """Return the vector of a collection of k items."""
        z = super().encode(answer)
        self._check_size(int(np.count_nonzero(z)))
        return z

    def facets(self, z: ArrayLike) -> Sparse:
        """Return the k (d - k) swaps e_j - e_i of a chosen i for another j: complete and irredundant."""
        from scipy.sparse import csr_array

        inside = self._chosen_items(as_vector(z, self.dim))
        outside = np.setdiff1d(np.arange(self.dim), inside)
        swaps = len(inside) * len(outside)
        columns = np.empty((swaps, 2), dtype=np.int32)
        columns[:, 0] = np.repeat(inside, len(outside))
        columns[:, 1] = np.tile(outside, len(inside))
        data = np.tile([-1.0, 1.0], swaps)
        return csr_array((data, columns.ravel(), np.arange(0, 2 * swaps + 1, 2)), shape=(swaps, self.dim))

    @property
    def facet_count(self) -> int:
        """k (d - k)."""
        return self.k * (self.dim - self.k)

    @property
    def log_cardinality(self) -> LogCardinality:
        """ln C(d, k)."""
        d, k = self.dim, self.k
        return LogCardinality(lgamma(d + 1) - lgamma(k + 1) - lgamma(d - k + 1), exact=True)

    def confusions(self, *, whole: bool = False) -> Confusions:
        """Count the k (d - k) swaps; with `whole`, m swaps at once, in at most (k (d - k))^m / m!^2 ways."""
        pairs = max(self.facet_count, 1)
        if not whole:
            return Confusions(log(pairs), np.zeros(self.dim))
        return Confusions(log(1.2796), np.full(self.dim, log(pairs)))  # sum_{m >= 1} 1 / m!^2 < 1.2796

    def equalities(self) -> Sparse:
        """Return the row of ones: all answers have k items."""
        return as_sparse(np.ones((1, self.dim)))

    def _chosen_items(self, z: Array) -> NDArray[np.intp]:
        chosen = z.nonzero()[0]
        if (z[chosen] != 1.0).any():
            raise AnswerError("an answer has entries 0 and 1 only")
        self._check_size(len(chosen))
        return chosen

    def _check_size(self, size: int) -> None:
        if size != self.k:
            raise AnswerError(f"an answer holds exactly k = {self.k} different items, got {size}")


def _drop_surplus_ties(chosen: NDArray[np.bool_], tied: NDArray[np.bool_], k: int) -> None:
    """Unset the last of the items at the threshold until k are chosen per row."""
    remaining = k - np.count_nonzero(chosen & ~tied, axis=1, keepdims=True)
    chosen[tied & (np.cumsum(tied, axis=1) > remaining)] = False

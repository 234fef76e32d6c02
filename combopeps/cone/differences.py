"""Differences y = z - z_hat between answers, in sparse form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles.base import Array

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True)
class Differences:
    """Differences y, none of them zero, as the compiled loops take them."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int64]
    data: Array

    @classmethod
    def of(cls, differences: Array) -> Differences:
        """From full rows, (n, d)."""
        row, column = np.nonzero(differences)
        indptr = np.searchsorted(row, np.arange(len(differences) + 1)).astype(np.int64)
        return cls(indptr, column.astype(np.int64), differences[row, column])

    @classmethod
    def of_sparse(cls, matrix: csr_array) -> Differences:
        """From a scipy sparse array."""
        return cls(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data.astype(np.float64))

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def sums(self, entries: Array) -> Array:
        """Sums of entries, row by row."""
        return np.asarray(np.add.reduceat(entries, self.indptr[:-1])) if len(self) else np.zeros(0)

    def take(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> Differences:
        """Some of the rows."""
        picked = np.arange(len(self))[chosen]
        sizes = np.diff(self.indptr)[picked]
        indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        within = np.arange(int(indptr[-1])) - np.repeat(indptr[:-1], sizes)
        entries = np.repeat(self.indptr[:-1][picked], sizes) + within
        return Differences(indptr, self.indices[entries], self.data[entries])

    def matrix(self, dim: int) -> csr_array:
        """As a scipy sparse array."""
        from scipy.sparse import csr_array

        return csr_array((self.data, self.indices, self.indptr), shape=(len(self), dim))


def unique_rows(differences: Array) -> Array:
    """Each different row once, in order of appearance."""
    return differences[_first(differences)]


def unique_supports(differences: Array) -> Array:
    """The same where the places of the entries say everything, as they do for 0/1 answers."""
    return differences[_first(np.packbits(differences != 0.0, axis=1))]


def _first(keys: NDArray[Any]) -> list[int]:
    first: dict[bytes, int] = {}
    for i, key in enumerate(keys):
        first.setdefault(key.tobytes(), i)
    return list(first.values())

"""Differences y = z - z_hat between answers, (n, d)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles.base import Array, Sparse


def as_sparse(differences: Any) -> Sparse:
    """Full or sparse ones in the form that compiled loops take."""
    from scipy.sparse import csr_array

    rows: Sparse = csr_array(differences).astype(np.float64, copy=False)
    return rows


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

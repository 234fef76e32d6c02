"""The facets of recent answers: simulations come back to the same few again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from combopeps.oracles.base import ArgmaxOracle, Array

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_NUMBERS = 1 << 20  # nonzeros kept, about 12 MB; beyond that everything is dropped and kept anew


class FacetMemo:
    """`oracle.facets`, for oracles that list them, built once per answer.

    Parameters
    ----------
    oracle
        Z, with `facet_count` not None.
    """

    def __init__(self, oracle: ArgmaxOracle) -> None:
        self.oracle = oracle
        self._known: dict[bytes, csr_array] = {}
        self._size = 0

    def __call__(self, z: Array) -> csr_array:
        """The facets of an answer; not to be changed."""
        key = z.tobytes()
        if key not in self._known:
            rows = self.oracle.facets(z)
            assert rows is not None
            if self._size + rows.nnz > _NUMBERS:
                self._known.clear()
                self._size = 0
            self._known[key] = rows
            self._size += rows.nnz
        return self._known[key]

"""How many answers there are, and how many ways to be wrong."""

from __future__ import annotations

from math import expm1, inf, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class LogCardinality(float):
    """ln |Z|, a float that knows whether it is exact (`.exact`) or only an upper bound."""

    exact: bool

    def __new__(cls, value: float, exact: bool) -> LogCardinality:
        self = super().__new__(cls, value)
        self.exact = exact
        return self

    def __reduce__(self) -> tuple[type[LogCardinality], tuple[float, bool]]:
        return LogCardinality, (float(self), self.exact)

    def __repr__(self) -> str:
        return f"{float(self):.6g} ({'exact' if self.exact else 'upper bound'})"


class Confusions(NamedTuple):
    """A union bound over the ways to mistake some z_hat for a fixed best answer z*.

        sum over mistakes of exp(-sum_{a in z_hat, not in z*} charge_a) <= exp(log_count)

    Attributes
    ----------
    log_count
        Logarithm of the (weighted) number of mistakes.
    charge
        What a mistake pays for each wrong component, (d,).
    """

    log_count: float
    charge: NDArray[np.float64]

    @classmethod
    def of_all_others(cls, size: float, dim: int) -> Confusions:
        """Every answer but z* counts alike; `size` is ln |Z|."""
        return cls(size + log(-expm1(-size)) if size > 1e-9 else -inf, np.zeros(dim))

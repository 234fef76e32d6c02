"""Which components can an answer have that is not refuted yet? For sets that take theta >= 0 only.

The evidence against an answer z is a sum over the components where it differs from z_hat: at a multiplier lam it is

    offset(lam) + sum_{a in z} length_a(lam) - sum_{a in z_hat} length_a(lam),    length_a >= 0,

and the least that answers with component a have is the shortest one through a. Two searches (`ArgmaxOracle.through`)
find it for all components at once; where it exceeds the target at some lam, all answers with a are refuted. What is
ruled out is taken away, others then have to go further round, and so on until nothing changes. Each component has the
lam that suits it: answers could only be split further by forcing components in, which is NP-hard.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.oracles.forcing import can_force

Bools = NDArray[np.bool_]

_SWEEPS = 20


def can_rule_out(oracle: ArgmaxOracle) -> bool:
    """Are answers of the kind that this is for, and is there a search through every component?"""
    if oracle.domain == "real" or not can_force(oracle):
        return False
    return oracle.through(np.zeros((1, oracle.dim))) is not None


def rule_out(
    oracle: ArgmaxOracle, z_hat: Array, lengths: Array, offset: Array, left: Bools, target: float
) -> tuple[float, int]:
    """Take a component out of `left` if the evidence against every answer with it reaches the target.

    `lengths`, (L, d), and `offset`, (L,), are for L multipliers. Returns the least evidence against an answer that is
    left (infinite if there is none), and the calls of the oracle.
    """
    inside = z_hat != 0.0
    left &= ~inside
    most = np.where(inside, lengths, 0.0).sum(axis=1)
    value, calls = np.inf, 0
    while left.any() and calls < _SWEEPS * len(lengths):
        within = np.where(left | inside, lengths, 0.0)
        far = 2.0 * np.abs(within).sum(axis=1, keepdims=True)
        hidden = np.maximum(-within, 0.0).sum(axis=1) + oracle.resolution * far[:, 0]  # by clipping, and by rounding
        best = oracle.through(np.maximum(np.where(left | inside, lengths, far), 0.0))
        assert best is not None
        calls += len(lengths)
        evidence = ((offset - most - hidden)[:, None] - best / abs(oracle.unit)).max(axis=0)
        value = float(evidence[left].min())
        refuted = left & (evidence >= target)
        if not refuted.any():
            return value, calls
        left &= ~refuted
    return (value if left.any() else np.inf), calls

"""`Seen`: what pictures are drawn from, component by component."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from combopeps.belief import GaussianBelief
from combopeps.errors import ComboPepsError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.problem import Problem
from combopeps.session.result import Recommendation
from combopeps.tables.written import label_text, shown

_LONGEST = 300  # characters of a label: more is not read by anybody


@dataclass(frozen=True)
class Seen:
    """An answer, its rival (zeros where there is none), estimates, and counts (NaN where nothing is measured alone)."""

    oracle: ArgmaxOracle
    belief: GaussianBelief
    z: Array
    rival: Array
    mean: Array
    std: Array
    counts: Array

    @classmethod
    def of(cls, problem: Problem, found: Recommendation, belief: GaussianBelief, pulls: Array) -> Seen:
        """What was found, with the pulls of every arm in their order; before the first of them, no answer is marked."""
        oracle, arms = problem.oracle, problem.arms
        z, rival = found.z if pulls.any() else np.zeros(oracle.dim), np.zeros(oracle.dim)
        if found.runner_up is not None and pulls.any():
            try:
                rival = oracle.encode(found.runner_up)
            except ComboPepsError:  # of an oracle whose answers cannot be read back: the picture does without
                rival = np.zeros(oracle.dim)
        counts = np.full(oracle.dim, np.nan)
        single = np.ones(len(arms), bool) if arms.matrix is None else np.count_nonzero(arms.matrix, axis=1) == 1
        counts[arms.component[single]] = 0.0
        np.add.at(counts, arms.component[single], pulls[single])
        return cls(oracle, belief, z, rival, belief.theta_hat[0], belief.std[0], counts)

    @property
    def share(self) -> Array:
        """Counts between 0 and 1."""
        counts = np.nan_to_num(self.counts)
        return np.asarray(counts / max(1.0, counts.max(initial=0.0)))

    @property
    def dropped(self) -> NDArray[np.bool_]:
        """In the answer, not in the rival, where there is one."""
        return np.asarray((self.z != 0) & (self.rival == 0) & self.rival.any())

    @property
    def added(self) -> NDArray[np.bool_]:
        """In the rival, not in the answer."""
        return np.asarray((self.rival != 0) & (self.z == 0))

    def about(self, i: int) -> str:
        """A component, its estimate, and how often it was measured."""
        often = "" if np.isnan(self.counts[i]) else f", measured {int(self.counts[i]):,} times"
        return f"{clipped(self.oracle.components[i])}: {estimate_text(self.mean[i], self.std[i])}{often}"


def clipped(label: object) -> str:
    """A label as people write it, of at most 300 characters."""
    text = label_text(label)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def clipped_node(name: object) -> str:
    """A node as people write it: a tuple is not an edge here."""
    return clipped(shown(name))


def estimate_text(mean: float, std: float) -> str:
    """A mean and its standard deviation, with as many digits as that allows.

    Examples
    --------
    >>> estimate_text(12.3456, 0.0321), estimate_text(1234.5, 20.0)
    ('12.346 ± 0.032', '1,234 ± 20')
    """
    if not (np.isfinite(mean) and np.isfinite(std)):
        return "unknown"
    largest = max(abs(mean), std)
    if largest >= 1e6 or 0.0 < largest < 1e-3:
        return f"{mean:.3g} ± {std:.2g}".replace("-", "−")
    digits = 2 if std <= 0.0 else int(np.clip(1 - np.floor(np.log10(std)), 0, 5))
    return f"{mean + 0.0:,.{digits}f} ± {std:,.{digits}f}".replace("-", "−")

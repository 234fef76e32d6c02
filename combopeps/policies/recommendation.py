"""The answer so far as people read it, and its rivals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from combopeps.forms import Readable
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.risk import Doubt


@dataclass(frozen=True, repr=False)
class Recommendation(Readable):
    """The current answer, the one most likely to be right instead, and the probability of being wrong.

    With an epsilon, being wrong is to be worse than the best by more than epsilon.
    """

    z: Array
    answer: Any
    alternative: Any
    error_probability: float


def recommendation_of(oracle: ArgmaxOracle, z: Array, doubt: Doubt, risk: float | None) -> Recommendation:
    """As people read it; the risk is that of being wrong, unless another is given."""
    rival = None if doubt.runner_up is None else oracle.decode(doubt.runner_up)
    return Recommendation(z, oracle.decode(z), rival, doubt.probability if risk is None else risk)


@dataclass(frozen=True, repr=False)
class Leader(Readable):
    """An answer that may be the best, as a person reads it and as a vector.

    Its posterior probability is an estimate: `Policy.leaders` says how good it is.
    """

    answer: Any
    z: Array
    probability: float


@dataclass(frozen=True)
class AnswerFirst:
    """For a `Recommendation` that shows its answer first: a dataclass begins with the fields of its last base."""

    answer: Any

"""`Recommendation`: an answer, its rival, and the probability of being wrong; a result or a status says more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from combopeps.oracles.base import Array


@dataclass(frozen=True)
class Recommendation:
    """The current answer, the one most likely to be right instead, and the probability of being wrong.

    With an epsilon, being wrong is to be worse than the best by more than epsilon.
    """

    z: Array
    answer: Any
    alternative: Any
    error_probability: float


@dataclass(frozen=True)
class AnswerFirst:
    """For a `Recommendation` that shows its answer first: a dataclass begins with the fields of its last base."""

    answer: Any

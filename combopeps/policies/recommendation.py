"""The answer so far, its probability of being wrong, and other answers that may be the best."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from combopeps.forms import ASIDE, Readable, probability, probability_text
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.risk import Ranking

LEADERS = 10  # answers that a recommendation lists


@dataclass(frozen=True, repr=False)
class Leader(Readable):
    """An answer that may be the best, decoded and as a vector.

    Its posterior probability is an estimate; `interval` is a 95 % interval of its Monte Carlo error.
    """

    answer: Any
    z: Array = field(metadata=ASIDE)
    probability: float = field(metadata=probability("interval"))
    interval: tuple[float, float] = field(default=(0.0, 1.0), repr=False)


@dataclass(frozen=True, repr=False)
class Recommendation(Readable):
    """The current answer, the most probable other answer, and the posterior probability of an error.

    All numbers come from one set of draws. Without an epsilon an error is that the answer is not the best: its
    probability is 1 minus that of the answer. With an epsilon it is that the answer is worse than the best by more.

    Attributes
    ----------
    z, answer
        The answer, as a vector and decoded.
    alternative
        The most probable other answer, decoded; None if there is no other, or no draw showed one.
    error_probability, error_interval
        The estimate, and a 95 % interval of its Monte Carlo error: low, high.
    leaders
        Up to ten answers with the posterior probabilities that they are best, in decreasing order.
    """

    z: Array
    answer: Any
    alternative: Any
    error_probability: float = field(metadata=probability("error_interval"))
    error_interval: tuple[float, float] = field(default=(0.0, 1.0), repr=False, kw_only=True)
    leaders: list[Leader] = field(default_factory=list, repr=False, kw_only=True)

    @property
    def error_text(self) -> str:
        """The error probability with as many digits as its interval supports, such as "0.03" or "< 0.001"."""
        return probability_text(self.error_probability, self.error_interval)


def recommendation_of(oracle: ArgmaxOracle, ranking: Ranking, n: int = LEADERS) -> Recommendation:
    """A ranking, decoded; with up to n leaders."""
    rival = ranking.runner_up
    return Recommendation(
        ranking.z,
        oracle.decode(ranking.z),
        None if rival is None else oracle.decode(rival),
        ranking.error_probability,
        error_interval=ranking.interval,
        leaders=[Leader(oracle.decode(one.z), one.z, one.probability, one.interval) for one in ranking.leaders(n)],
    )


@dataclass(frozen=True)
class AnswerFirst:
    """For a `Recommendation` that shows its answer first: a dataclass begins with the fields of its last base."""

    answer: Any

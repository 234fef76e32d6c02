"""`Status`: where a campaign stands, and whether it is certain enough."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from combopeps.policies.ask_tell import AnswerFirst, Recommendation
from combopeps.policies.ledger import Query


@dataclass(frozen=True)
class Status(Recommendation, AnswerFirst):
    """Where a campaign stands.

    Attributes
    ----------
    answer, z
        The answer so far, as a person reads it and as a vector.
    alternative
        The answer most likely to be right instead; None when there is no other.
    error_probability
        Posterior probability that the answer is wrong; a Bayesian claim under the prior and normal noise.
    delta, stop, claim
        The wanted error probability, whether the rule says that it has been reached, and what it then allows to say
        about the answer, in words (empty before).
    samples, pulls
        Measurements so far, and how many of them each arm got, by label.
    open_queries
        Queries that wait for a result.
    next
        Label of the arm to measure next, once there are no open queries.
    recovered
        Unfinished lines at the end of the file, never acknowledged to anyone: cut off by a crash, and removed by the
        next operation that writes, or being written at this moment by somebody else.
    warning
        What repeated measurements say against the stated noise; empty when they agree with it.
    """

    delta: float
    stop: bool
    claim: str
    samples: int
    pulls: dict[Hashable, int]
    open_queries: list[Query]
    next: Any
    recovered: list[bytes]
    warning: str = ""

"""`Status`: where a session or a campaign stands."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from combopeps.belief import NoiseEstimate
from combopeps.forms import MOST_FIRST
from combopeps.policies.ledger import Query
from combopeps.policies.recommendation import AnswerFirst, Recommendation


@dataclass(frozen=True, repr=False)
class Status(Recommendation, AnswerFirst):
    """Where a session or a campaign stands.

    Attributes
    ----------
    answer, z, alternative, error_probability, error_interval, leaders
        The answer so far, the most probable other one, the probability that it is wrong (with an epsilon, that it is
        worse than the best by more), a 95 % interval of that estimate, and the most probable answers, as in `Result`.
    delta, epsilon, stop, claim
        The wanted error probability, how much worse than the best an answer may be, whether the rule says that this has
        been reached, and what it then allows to say about the answer, in words (empty before).
    samples, pulls
        Measurements so far, and how many of them each arm got, by label.
    open_queries
        Queries that wait for a result.
    next
        Label of the arm, or of the action, that the next query would be for, while the open ones are still open; None
        in a session.
    warning
        What the measurements say against the stated noise, the rows of the arms and the prior, and what follows from
        it; empty when they agree.
    noise_estimate
        What they say about the size of the noise, where none was stated and there are enough of them.
    actions
        How many actions were measured, whose readings `samples` and `pulls` count; None where measurements are single.
    holders
        Of a campaign: clients that have open queries, by the ids of these, and until when.
    cost
        What all measurements cost: as many as there are, unless the problem says otherwise.
    """

    delta: float
    stop: bool
    claim: str
    samples: int
    pulls: dict[Hashable, int] = field(metadata=MOST_FIRST)
    open_queries: list[Query]
    next: Any
    warning: str = ""
    epsilon: float = 0.0
    noise_estimate: NoiseEstimate | None = None
    actions: int | None = None
    holders: dict[int, Any] = field(default_factory=dict)
    cost: float = 0.0

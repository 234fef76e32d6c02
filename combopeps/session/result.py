"""What sessions report: `Recommendation`, `Status` and `Result`."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from combopeps.alternatives.ranking import Ranking
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.posterior.gaussian import GaussianPosterior
from combopeps.posterior.noise_level import NoiseEstimate
from combopeps.session.events import Lease
from combopeps.session.queries import Query
from combopeps.stopping.base import Verdict
from combopeps.utils.formatting import (
    OMITTED_FROM_JSON,
    SORTED_BY_COUNT,
    Readable,
    data_frame,
    probability,
    probability_text,
)

if TYPE_CHECKING:
    from pandas import DataFrame

TOP_ANSWERS = 10  # that a recommendation lists


@dataclass(frozen=True, repr=False)
class TopAnswer(Readable):
    """An answer that may be the best, decoded and as a vector.

    Its posterior probability is an estimate; `interval` is a 95 % interval of its Monte Carlo error.
    """

    answer: Any
    z: Array = field(metadata=OMITTED_FROM_JSON)
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
    runner_up
        The most probable other answer, decoded; None if there is no other, or no draw showed one.
    error_probability, error_interval
        The estimate, and a 95 % interval of its Monte Carlo error: low, high.
    top_answers
        Up to ten answers with the posterior probabilities that they are best, in decreasing order.
    """

    z: Array
    answer: Any
    runner_up: Any
    error_probability: float = field(metadata=probability("error_interval"))
    error_interval: tuple[float, float] = field(default=(0.0, 1.0), repr=False, kw_only=True)
    top_answers: list[TopAnswer] = field(default_factory=list, repr=False, kw_only=True)

    @property
    def error_text(self) -> str:
        """The error probability with as many digits as its interval supports, such as "0.03" or "< 0.001"."""
        return probability_text(self.error_probability, self.error_interval)


def recommendation_of(oracle: ArgmaxOracle, ranking: Ranking, n: int = TOP_ANSWERS) -> Recommendation:
    """Return a ranking, decoded, with up to n top answers."""
    rival = ranking.runner_up
    return Recommendation(
        ranking.z,
        oracle.decode(ranking.z),
        None if rival is None else oracle.decode(rival),
        ranking.error_probability,
        error_interval=ranking.interval,
        top_answers=[TopAnswer(oracle.decode(one.z), one.z, one.probability, one.interval) for one in ranking.top(n)],
    )


@dataclass(frozen=True)
class AnswerFirst:
    """For a `Recommendation` that shows its answer first: a dataclass begins with the fields of its last base."""

    answer: Any


@dataclass(frozen=True, repr=False)
class Status(Recommendation, AnswerFirst):
    """State of a session or a campaign.

    Attributes
    ----------
    stop, claim
        Whether the stopping rule is satisfied, and what it then allows to say about the answer (empty before).
    open_queries
        Queries that wait for a result.
    leases
        Clients that hold open queries, by the ids of these, and until when.
    answer, runner_up, error_probability, ...
        All others are as in `Result`.
    """

    delta: float
    stop: bool
    rule: str
    claim: str
    samples: int
    pulls: dict[Hashable, int] = field(metadata=SORTED_BY_COUNT)
    open_queries: list[Query]
    warning: str = ""
    epsilon: float = 0.0
    noise_estimate: NoiseEstimate | None = None
    actions: int | None = None
    leases: dict[int, Lease] = field(default_factory=dict)
    cost: float = 0.0
    corrections: int = 0


@dataclass(frozen=True)
class Look:
    """What one look at a run saw; NaN where the stopping rule did not ask.

    Attributes
    ----------
    t
        Measurements so far.
    error_probability
        Posterior probability that the answer of that moment is wrong, by a rough estimate from some hundred draws; a
        lower bound where the oracle is not quick and its rows did not suffice. Rules with a guarantee for every theta
        leave the prior out of it.
    statistic, threshold
        What the rule compared.
    """

    t: int
    error_probability: float
    statistic: float
    threshold: float


@dataclass(frozen=True, repr=False)
class Result(Recommendation, AnswerFirst):
    """What `identify` found.

    Attributes
    ----------
    answer, z
        The answer, decoded and as a vector.
    runner_up
        The most probable other answer; None if there is no other, or no draw showed one.
    error_probability, error_interval
        Posterior probability, under the prior and normal noise, that the answer is wrong; with an epsilon, that it is
        worse than the best by more than epsilon. An estimate, with a 95 % interval of its Monte Carlo error.
    top_answers
        Up to ten answers that may be the best, with their posterior probabilities, the most probable first: from the
        same draws, so that without an epsilon the error probability is 1 minus that of `answer`. Under a rule that
        leaves the prior out, the first of them need not be `answer`.
    samples
        All measurements of the session, those made before the run included.
    cost
        What all of them cost: as many as there are, unless the problem says otherwise.
    stop_reason
        The rule that ended the run ("posterior", "certified", "verified", "heuristic", ...), "budget",
        "indistinguishable" (the budget went into answers that could not be told apart, and the error probability is
        above delta: see `tied`), "interrupted", or "open" (`Session.result` of a run that has not ended).
    rule, claim
        The stopping rule, and what it allows to say about the answer, in words.
    evidence
        The last look: statistic, threshold, and oracle calls of all looks.
    tied
        Answers that the measurements do not tell from this one, when the run ended as "indistinguishable".
    delta, epsilon, seed
        As given; those of the rule, if one was passed.
    pulls
        How often each arm was measured, by label.
    session
        The `Session` with everything that was measured: `result.session.run(measure)` continues it. For a campaign,
        the campaign.
    posterior
        What the measurements say about theta: a copy, to which later measurements add nothing.
    looks
        Every look of the stopping rule, in order.
    warning
        What the measurements say against the stated noise, the rows of the arms and the prior, and what follows from
        it; empty when they agree.
    noise_estimate
        What measurements say about the size of the noise, where the problem has noise_std=None and there are enough:
        `value`, and `low` and `high` of a 95 % interval.
    actions
        How many actions were measured, whose readings `samples` and `pulls` count; None where measurements are single.
    corrections
        Number of results that were corrected or retracted.
    """

    samples: int
    cost: float
    stop_reason: str
    rule: str
    claim: str
    evidence: Verdict
    tied: list[Any]
    delta: float
    epsilon: float
    seed: int | None
    pulls: dict[Hashable, int] = field(metadata=SORTED_BY_COUNT)
    session: Any = field(repr=False, metadata=OMITTED_FROM_JSON)
    posterior: GaussianPosterior = field(repr=False, metadata=OMITTED_FROM_JSON)
    looks: tuple[Look, ...] = field(default=(), repr=False)
    warning: str = ""
    noise_estimate: NoiseEstimate | None = None
    actions: int | None = None
    corrections: int = 0

    def to_frame(self) -> DataFrame:
        """A pandas DataFrame with one row per component: label, mean, std, pulls, in_answer.

        Mean and standard deviation are those of the posterior before it is restricted to Theta. `pulls` counts how often
        that component was measured alone, by whatever arm: measuring a sum of components counts for none of them. So
        it is NaN where no arm measures just that component; what all arms taught about it is in `std`, and the
        counts by arm are in `Result.pulls`. Needs pandas (`pip install 'combopeps[pandas]'`).
        """
        arms, oracle = self.session.problem.arms, self.session.problem.oracle
        counts = arms.per_component(self.pulls)
        return data_frame(
            {
                "label": list(oracle.components),
                "mean": self.posterior.theta_hat[0],
                "std": self.posterior.std[0],
                "pulls": counts if np.isnan(counts).any() else counts.astype(np.int64),
                "in_answer": self.z != 0,
            }
        )

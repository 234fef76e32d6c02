"""Reports of sessions: `Recommendation`, `Status` and `Result`."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from math import inf, isnan, nan
from typing import TYPE_CHECKING, Any

import numpy as np

from combopeps.alternatives.answer_probabilities import Ranking
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
    amount_text,
    data_frame,
    mean_std_text,
    probability,
    probability_text,
)

if TYPE_CHECKING:
    from pandas import DataFrame

TOP_ANSWERS = 10  # number of top answers in a recommendation


@dataclass(frozen=True, repr=False)
class TopAnswer(Readable):
    """An answer that may be the best, decoded and as a vector.

    Its posterior probability is an estimate; `interval` is a 95 % interval of its Monte Carlo error. `value` and
    `value_std` are the posterior mean and standard deviation of its value.
    """

    answer: Any
    z: Array = field(metadata=OMITTED_FROM_JSON)
    probability: float = field(metadata=probability("interval"))
    interval: tuple[float, float] = field(default=(0.0, 1.0), repr=False)
    value: float = nan
    value_std: float = nan


@dataclass(frozen=True, repr=False)
class Recommendation(Readable):
    """The current answer, the most probable other answer, their values, and what a wrong answer would cost.

    All probabilities and the expected loss are estimated from the same draws. With epsilon = 0 an error is that the
    answer is not the best: its probability is 1 minus that of the answer. With epsilon > 0 it is that the answer is
    worse than the best by more than epsilon. Values are sums of theta in the units of the data, such as the length of
    a route; their means and standard deviations are those of the posterior before it is restricted to Theta.

    Attributes
    ----------
    z, answer
        The answer, as a vector and decoded.
    runner_up
        The most probable other answer, decoded; None if there is none, or none was best in any draw.
    error_probability, error_interval
        The estimate, and a 95 % interval of its Monte Carlo error: low, high.
    top_answers
        Up to ten answers with the posterior probabilities that they are best, in decreasing order.
    objective
        Whether the best answer has the largest value ("max") or the smallest ("min").
    value, value_std
        Posterior mean and standard deviation of the value of the answer.
    runner_up_value, runner_up_value_std
        The same of the runner-up; NaN if there is none.
    gap, gap_std
        By how much the answer is better than the runner-up: posterior mean and standard deviation; NaN if there is no
        runner-up.
    expected_loss, loss_interval
        Expected loss of choosing this answer now: the posterior mean of the difference between its value and the best
        one. An estimate, with a 95 % interval of its Monte Carlo error.
    inclusion
        Posterior probability of every component that it is in the best answer, (d,).
    """

    z: Array
    answer: Any
    runner_up: Any
    error_probability: float = field(metadata=probability("error_interval"))
    error_interval: tuple[float, float] = field(default=(0.0, 1.0), repr=False, kw_only=True)
    top_answers: list[TopAnswer] = field(default_factory=list, repr=False, kw_only=True)
    objective: str = field(default="max", kw_only=True)
    value: float = field(default=nan, kw_only=True)
    value_std: float = field(default=nan, kw_only=True)
    runner_up_value: float = field(default=nan, kw_only=True)
    runner_up_value_std: float = field(default=nan, kw_only=True)
    gap: float = field(default=nan, kw_only=True)
    gap_std: float = field(default=nan, kw_only=True)
    expected_loss: float = field(default=nan, kw_only=True)
    loss_interval: tuple[float, float] = field(default=(0.0, inf), repr=False, kw_only=True)
    inclusion: Array = field(default_factory=lambda: np.zeros(0), repr=False, compare=False, kw_only=True)

    @property
    def error_text(self) -> str:
        """The error probability with as many digits as its interval supports, such as "0.03" or "< 0.001"."""
        return probability_text(self.error_probability, self.error_interval)

    @property
    def value_text(self) -> str:
        """The value of the answer and its direction, such as "23.4 ± 0.3, minimised"."""
        return f"{mean_std_text(self.value, self.value_std)}, {'maximised' if self.objective == 'max' else 'minimised'}"

    @property
    def gap_text(self) -> str:
        """The values of the answer and of the runner-up compared, such as "0.8 ± 0.4 better than the runner-up"."""
        if isnan(self.gap):
            return "there is no runner-up"
        return f"{mean_std_text(self.gap, self.gap_std)} better than the runner-up"

    @property
    def loss_text(self) -> str:
        """The expected loss with as many digits as its interval supports, such as "0.12" or "< 0.001"."""
        return amount_text(self.expected_loss, self.loss_interval)


def recommendation_of(
    oracle: ArgmaxOracle, posterior: GaussianPosterior, ranking: Ranking, n: int = TOP_ANSWERS
) -> Recommendation:
    """Return a ranking, decoded, with the values of its answers and with up to n top answers."""
    theta, z, rival = posterior.theta_hat[0], ranking.z, ranking.runner_up
    top = ranking.top(n)
    rows = np.array([z, z if rival is None else rival, z - (z if rival is None else rival), *(one.z for one in top)])
    means, stds = oracle.value(rows, theta).tolist(), np.sqrt(posterior.normal.quadratic(rows)).tolist()
    runner_up = {} if rival is None else {
        "runner_up_value": means[1], "runner_up_value_std": stds[1], "gap": float(rows[2] @ theta), "gap_std": stds[2],
    }  # fmt: skip
    return Recommendation(
        z,
        oracle.decode(z),
        None if rival is None else oracle.decode(rival),
        ranking.error_probability,
        error_interval=ranking.interval,
        top_answers=[
            TopAnswer(oracle.decode(one.z), one.z, one.probability, one.interval, mean, std)
            for one, mean, std in zip(top, means[3:], stds[3:], strict=True)
        ],
        objective=oracle.objective,
        value=means[0],
        value_std=stds[0],
        expected_loss=ranking.loss.mean,
        loss_interval=ranking.loss.interval,
        inclusion=ranking.inclusion,
        **runner_up,
    )


@dataclass(frozen=True)
class AnswerFirst:
    """Base class that makes `answer` the first field: a dataclass begins with the fields of its last base."""

    answer: Any


@dataclass(frozen=True, repr=False)
class Status(Recommendation, AnswerFirst):
    """State of a session or a campaign.

    Attributes
    ----------
    stop, claim
        Whether the stopping rule is satisfied, and its claim about the answer (empty before).
    open_queries
        Queries without a result.
    leases
        Leases of open queries, by query id.
    answer, runner_up, error_probability, ...
        As in `Result`.
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
    """Values computed in one look of the stopping rule; NaN for those that the rule does not compute.

    Attributes
    ----------
    t
        Number of measurements.
    error_probability
        Posterior probability that the current answer is wrong, estimated from a few hundred draws; a lower bound where
        the oracle is not quick and the known facets did not suffice. Rules with a guarantee for every theta do not use
        the prior for it.
    statistic, threshold
        Test statistic of the rule, and its threshold.
    """

    t: int
    error_probability: float
    statistic: float
    threshold: float


@dataclass(frozen=True, repr=False)
class Result(Recommendation, AnswerFirst):
    """Result of a run, returned by `identify`.

    Attributes
    ----------
    answer, z
        The answer, decoded and as a vector.
    runner_up
        The most probable other answer; None if there is none, or none was best in any draw.
    error_probability, error_interval
        Posterior probability, under the prior and normal noise, that the answer is wrong; with epsilon > 0, that it is
        worse than the best by more than epsilon. An estimate, with a 95 % interval of its Monte Carlo error.
    value, value_std, runner_up_value, runner_up_value_std, gap, gap_std, objective
        Values of the answer and of the runner-up in the units of the data, and by how much the answer is better, with
        standard deviations; `objective` is "max" or "min". See `Recommendation`.
    expected_loss, loss_interval
        Expected loss of choosing the answer now, in the units of the data, with a 95 % interval of its Monte Carlo
        error.
    inclusion
        Posterior probability of every component that it is in the best answer, (d,).
    top_answers
        Up to ten answers that may be the best, with their posterior probabilities, the most probable first: from the
        same draws, so that with epsilon = 0 the error probability is 1 minus that of `answer`. Under a rule that does
        not use the prior, the first of them need not be `answer`.
    samples
        Number of measurements of the session, including those before the run.
    cost
        Their total cost; the number of measurements unless the problem states costs.
    stop_reason
        The rule that ended the run ("posterior", "certified", "verified", "heuristic", ...), "budget",
        "indistinguishable" (the budget is used up, answers have practically equal means, and the error probability is
        above delta: see `tied`), "interrupted", or "open" (`Session.result` of a run that has not ended).
    rule, claim
        The stopping rule, and its claim about the answer, in words.
    evidence
        The last look: statistic, threshold, and oracle calls of all looks.
    tied
        Answers that the measurements cannot distinguish from this one, when the run ended as "indistinguishable".
    delta, epsilon, seed
        As given; those of the rule, if one was passed.
    pulls
        Number of measurements of each arm, by label.
    session
        The `Session` with all measurements: `result.session.run(measure)` continues it. For a campaign, the campaign.
    posterior
        A copy of the posterior of theta, which later measurements do not change.
    looks
        All looks of the stopping rule, in order.
    warning
        Conflicts of the measurements with the stated noise, the linear model and the prior, and their consequences;
        empty if there are none.
    noise_estimate
        Estimate of the noise, where the problem has noise_std=None and there are enough measurements: `value`, and
        `low` and `high` of a 95 % interval.
    actions
        Number of actions measured, whose readings `samples` and `pulls` count; None where single arms are measured.
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
        """Return a pandas DataFrame with one row per component: label, mean, std, pulls, in_answer, inclusion.

        Mean and standard deviation are those of the posterior before it is restricted to Theta. `inclusion` is the
        posterior probability that the best answer contains the component. `pulls` counts how
        often that component was measured alone, by whatever arm: measuring a sum of components counts for none of them.
        So it is NaN where no arm measures just that component; what all arms taught about it is in `std`, and the
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
                "inclusion": self.inclusion,
            }
        )

"""View model of the report page: plain data that can be pickled and sent to other processes.

`ReportData` holds everything that the templates show; `PictureData` is what the picture of the problem is drawn from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import ComboPepsError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.posterior.gaussian import GaussianPosterior
from combopeps.problem import Problem
from combopeps.session.result import Recommendation
from combopeps.utils.formatting import mean_std_text
from combopeps.utils.label_format import label_text, printable
from combopeps.viz.svg import Chart, Picture

_MAX_LABEL_LENGTH = 300  # characters


@dataclass(frozen=True)
class AnswerText:
    """An answer as text.

    Attributes
    ----------
    short
        Short enough for a heading.
    full
        With all parts; empty where it equals `short`.
    """

    short: str
    full: str = ""


@dataclass(frozen=True)
class TopAnswerRow:
    """One of the most probable answers.

    Attributes
    ----------
    text
        The answer.
    difference
        What it contains in place of parts of the recommended answer; empty for the recommended answer itself.
    probability, interval
        Estimated posterior probability of being the best answer, and its confidence interval.
    value
        Its value: posterior mean and standard deviation.
    """

    text: str
    difference: str
    probability: float
    interval: tuple[float, float]
    value: str


@dataclass(frozen=True)
class ComponentRow:
    """A component that may have to be exchanged.

    Attributes
    ----------
    label, in_answer
        The component, and whether the answer contains it.
    inclusion
        Posterior probability that the best answer contains it.
    estimate, change
        Posterior mean and standard deviation, and beyond which value another answer would be best, if all other
        estimates are right; empty if unknown.
    """

    label: str
    in_answer: bool
    inclusion: float
    estimate: str
    change: str


@dataclass(frozen=True)
class Uncertain:
    """Components of which it is uncertain whether the best answer contains them, and the number of those left out."""

    rows: tuple[ComponentRow, ...] = ()
    n_others: int = 0


@dataclass(frozen=True)
class ArmRow:
    """A measured arm: number of measurements, posterior mean and standard deviation of its mean result."""

    label: str
    count: int
    mean: float
    std: float


@dataclass(frozen=True)
class ResultRow:
    """A recorded result; `single` if it is the only result of its event."""

    event: int
    label: str
    y: float
    retracted: bool
    single: bool


@dataclass(frozen=True)
class QueryRow:
    """An open query.

    Attributes
    ----------
    id, label
        Number of the query, and what it measures.
    parts
        Labels of the parts of an action; empty for single arms, and where there are too many to list.
    holder, until
        The client that holds the lease, and the Unix time at which it expires; None if it does not expire.
    unlisted_parts
        Number of parts where they are too many to list, else 0.
    """

    id: int
    label: str
    parts: tuple[str, ...] = ()
    holder: str = ""
    until: float | None = None
    unlisted_parts: int = 0


@dataclass(frozen=True)
class ReportData:
    """Contents of the report page of a campaign, or of the result of a run.

    Attributes
    ----------
    title, kind, size
        Title of the problem, its kind ("Shortest route from a to b"), and its numbers of components and answers.
    answer, runner_up, difference
        The recommended answer, the runner-up, and what the runner-up contains in place of parts of the answer.
    error_probability, error_interval, delta, epsilon
        As in `Status`.
    value, gap, loss
        Value of the answer, by how much it is better than the runner-up (empty if there is none), and the expected
        loss, as text.
    stop, verdict
        Whether the stopping rule is satisfied. If it is, `verdict` is the claim, otherwise why the run has not stopped.
    why_not_stopped
        Where the error probability is at most delta although the rule is not satisfied: the reason.
    samples, actions, cost
        What was measured; `actions` and `cost` are None where they do not apply.
    rule, policy, seed
        Stopping rule, policy and seed; `seed` is None where it is unknown.
    warnings, noise
        Warnings about the fit of the model, and the estimate of unknown noise (empty if the noise is known).
    top_answers
        Most probable answers.
    uncertain
        Components that may have to be exchanged.
    most_measured, other_arms
        The arms with the most measurements, and a sentence about the arms that are left out of this list.
    open_queries, unlisted_queries
        Open queries, oldest first, and the numbers of those that are left out of this list.
    chart
        Error probability against the number of measurements.
    picture
        Picture of the problem with the answer.
    recent_results, corrections
        The latest results, newest first, and the number of results that were corrected or retracted.
    """

    title: str
    kind: str
    size: str
    answer: AnswerText
    runner_up: AnswerText | None
    difference: str
    error_probability: float
    error_interval: tuple[float, float]
    delta: float
    epsilon: float
    value: str
    gap: str
    loss: str
    stop: bool
    verdict: str
    samples: int
    actions: int | None
    cost: float | None
    rule: str
    policy: str
    seed: int | None
    warnings: tuple[str, ...]
    noise: str
    top_answers: tuple[TopAnswerRow, ...]
    uncertain: Uncertain
    most_measured: tuple[ArmRow, ...]
    other_arms: str
    open_queries: tuple[QueryRow, ...]
    unlisted_queries: tuple[int, ...]
    chart: Chart
    picture: Picture
    why_not_stopped: str = ""
    is_campaign: bool = True
    recent_results: tuple[ResultRow, ...] = ()
    corrections: int = 0

    @property
    def n_open_queries(self) -> int:
        """Number of open queries, listed or not."""
        return len(self.open_queries) + len(self.unlisted_queries)


@dataclass(frozen=True)
class PictureData:
    """Component-wise data of a picture.

    Attributes
    ----------
    oracle, posterior
        Oracle of the problem, and the posterior.
    z, runner_up
        The answer and the runner-up, (d,); zeros where there is none.
    mean, std
        Posterior means and standard deviations of the components, (d,).
    counts
        Numbers of measurements of each component, (d,); NaN where no arm measures the component alone.
    """

    oracle: ArgmaxOracle
    posterior: GaussianPosterior
    z: Array
    runner_up: Array
    mean: Array
    std: Array
    counts: Array

    @classmethod
    def of(cls, problem: Problem, found: Recommendation, posterior: GaussianPosterior, pulls: Array) -> PictureData:
        """Return the data of a recommendation and the pulls of all arms; without pulls, no answer is marked."""
        oracle, arms = problem.oracle, problem.arms
        z, runner_up = found.z if pulls.any() else np.zeros(oracle.dim), np.zeros(oracle.dim)
        if found.runner_up is not None and pulls.any():
            try:
                runner_up = oracle.encode(found.runner_up)
            except ComboPepsError:  # a custom oracle may not be able to encode its answers: leave the runner-up out
                runner_up = np.zeros(oracle.dim)
        counts = np.full(oracle.dim, np.nan)
        single = np.ones(len(arms), bool) if arms.matrix is None else np.count_nonzero(arms.matrix, axis=1) == 1
        counts[arms.component[single]] = 0.0
        np.add.at(counts, arms.component[single], pulls[single])
        return cls(oracle, posterior, z, runner_up, posterior.theta_hat[0], posterior.std[0], counts)

    @property
    def relative_counts(self) -> Array:
        """Counts divided by the largest count: between 0 and 1."""
        counts = np.nan_to_num(self.counts)
        return np.asarray(counts / max(1.0, counts.max(initial=0.0)))

    @property
    def removed(self) -> NDArray[np.bool_]:
        """Components of the answer that are not in the runner-up; none where there is no runner-up."""
        return np.asarray((self.z != 0) & (self.runner_up == 0) & self.runner_up.any())

    @property
    def added(self) -> NDArray[np.bool_]:
        """Components of the runner-up that are not in the answer."""
        return np.asarray((self.runner_up != 0) & (self.z == 0))

    def tooltip(self, i: int) -> str:
        """Return the label of component i, its estimate, and its number of measurements."""
        times = "" if np.isnan(self.counts[i]) else f", measured {int(self.counts[i]):,} times"
        return f"{clipped_label(self.oracle.components[i])}: {mean_std_text(self.mean[i], self.std[i])}{times}"


def clipped_label(label: object) -> str:
    """Return a label as text of at most 300 characters."""
    text = label_text(label)
    return text if len(text) <= _MAX_LABEL_LENGTH else text[: _MAX_LABEL_LENGTH - 1] + "…"


def clipped_node(name: object) -> str:
    """Return the label of a node as text of at most 300 characters; unlike in `clipped_label`, a tuple is no edge."""
    return clipped_label(printable(name))

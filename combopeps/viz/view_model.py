"""`Facts`: all that a page shows, as plain data that other processes can be sent.

`Seen`: what pictures are drawn from, component by component.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import ComboPepsError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.posterior.gaussian import GaussianBelief
from combopeps.problem import Problem
from combopeps.session.result import Recommendation
from combopeps.utils.label_format import label_text, shown
from combopeps.viz.svg import Chart, Picture


@dataclass(frozen=True)
class Said:
    """An answer in words: short enough for a heading, and whole (empty where that is the same)."""

    short: str
    whole: str = ""


@dataclass(frozen=True)
class Leading:
    """An answer that may be the best: in words, what it has that the answer has not, and its estimated probability."""

    text: str
    instead: str
    probability: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Went:
    """How often something was measured, and what is believed of it."""

    label: str
    count: int
    mean: float
    std: float


@dataclass(frozen=True)
class Recent:
    """A recorded result; `single` if it is the only one of its event."""

    event: int
    label: str
    y: float
    retracted: bool
    single: bool


@dataclass(frozen=True)
class Waiting:
    """An open query: its number, what is measured, what is to be read, and who has it until when (unix time).

    An action has parts; where they are too many to be listed, there is only their number, `many`.
    """

    id: int
    label: str
    parts: tuple[str, ...] = ()
    holder: str = ""
    until: float | None = None
    many: int = 0


@dataclass(frozen=True)
class Facts:
    """A campaign, or the result of a run, as a page shows it.

    Attributes
    ----------
    title, kind, size
        What the problem is called, what is looked for, and how many components and answers there are.
    answer, rival, instead
        The answer so far, the one most likely to be right instead, and what the rival has instead of it.
    error_probability, error_interval, delta, epsilon
        As in `Status`.
    stop, verdict, why
        Whether the rule is satisfied; then the claim, before that why not yet. Where the error probability is at most
        delta and the rule not satisfied all the same: why, in words.
    samples, actions, cost
        What was measured; actions and cost are None where nobody counts them.
    rule, policy, seed
        How it is run; seed is None where that is not known.
    warnings, noise
        What results say against the model, and the estimate of unknown noise; empty for nothing.
    leaders
        Most probable answers.
    went, went_more
        Where measurements went, most first, and what was left out of the list, in words.
    waiting, others
        Open queries, oldest first, and the numbers of those that are left out.
    chart
        The probability of being wrong, over time.
    recent, corrections
        The latest results, newest first, and the number of those that were corrected or retracted.
    picture
        The problem itself.
    """

    title: str
    kind: str
    size: str
    answer: Said
    rival: Said | None
    instead: str
    error_probability: float
    error_interval: tuple[float, float]
    delta: float
    epsilon: float
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
    leaders: tuple[Leading, ...]
    went: tuple[Went, ...]
    went_more: str
    waiting: tuple[Waiting, ...]
    others: tuple[int, ...]
    chart: Chart
    picture: Picture
    why: str = ""
    is_campaign: bool = True
    recent: tuple[Recent, ...] = ()
    corrections: int = 0

    @property
    def still_out(self) -> int:
        """How many queries are open."""
        return len(self.waiting) + len(self.others)


_MAX_LABEL = 300  # characters of a label: more is not read by anybody


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
    return text if len(text) <= _MAX_LABEL else text[: _MAX_LABEL - 1] + "…"


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

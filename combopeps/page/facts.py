"""`Facts`: all that a page shows, as plain data that other processes can be sent."""

from __future__ import annotations

from dataclasses import dataclass

from combopeps.page.shapes import Chart, Picture


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

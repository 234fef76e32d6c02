"""`Status`: where a campaign stands, and whether it is certain enough.

A campaign has no run over which a rule could keep notes: every look takes a fresh rule, with random numbers that
depend on the seed and the number of measurements alone. Rules that cannot be used so say it in their registry.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from combopeps.errors import ParameterError
from combopeps.policies.ask_tell import AnswerFirst, Recommendation
from combopeps.policies.base import Policy
from combopeps.policies.ledger import Query
from combopeps.run.look import View
from combopeps.stopping import Verdict, stopping_rule
from combopeps.stopping.registry import RULES
from combopeps.streams import named


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


def look(policy: Policy, stopping: str, delta: float, seed: int) -> tuple[View, Verdict]:
    """The campaign as it stands, and what a fresh rule makes of it."""
    policy.forget()
    view = View(policy, named(seed, "status", policy.samples))
    return view, view.check(stopping_rule(stopping, delta))


def check_stopping(name: str) -> None:
    """Refuse what a campaign cannot decide."""
    fit = [known for known, rule in RULES.items() if not rule.unfit_for_campaigns]
    if name in RULES and name not in fit:
        raise ParameterError(f'stopping "{name}" {RULES[name].unfit_for_campaigns}')
    if name not in fit:
        raise ParameterError(f"stopping must be one of {', '.join(fit)}, got {name!r:.40}")

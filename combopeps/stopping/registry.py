"""Stopping rules by name."""

from __future__ import annotations

from collections.abc import Callable

from combopeps.errors import ParameterError
from combopeps.stopping.base import StoppingRule
from combopeps.stopping.certified import CertifiedRule, HeuristicRule
from combopeps.stopping.clucb import ClucbRule
from combopeps.stopping.combine import BudgetRule
from combopeps.stopping.posterior import PosteriorRule
from combopeps.stopping.verified import VerifiedRule

RULES: dict[str, Callable[..., StoppingRule]] = {
    "posterior": PosteriorRule,
    "certified": CertifiedRule,
    "verified": VerifiedRule,
    "heuristic": HeuristicRule,
    "clucb": ClucbRule,
}


def stopping_rule(rule: str | StoppingRule, delta: float, epsilon: float = 0.0) -> StoppingRule:
    """A rule as given, or by name; "budget" stops at the budget only."""
    if isinstance(rule, StoppingRule):
        return rule
    if rule == "budget":
        return BudgetRule()
    if not isinstance(rule, str) or rule not in RULES:
        names = ", ".join([*RULES, "budget"])
        raise ParameterError(f"unknown stopping rule {rule!r}; there are {names}, or pass a StoppingRule")
    return RULES[rule](delta, epsilon=epsilon)
